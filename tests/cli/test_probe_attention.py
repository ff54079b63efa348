"""`heedful probe attention`: what it prints, what it writes, and how it says no."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import typer

from heedful.cli.probe_attention import attention, free_file
from heedful.errors import RequestError, WorkError
from heedful.inference import loading
from tests.support.attention_samples import TEXTS, Small, make_small

app = typer.Typer()
app.command("attention")(attention)
app.callback()(lambda: None)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return make_small(tmp_path_factory.mktemp("small"), ("classify", "apart"))


@pytest.fixture(autouse=True)
def _world(small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = SimpleNamespace(source="words")
    monkeypatch.setattr(loading, "load", lambda name: words if name == "words" else small)


def run(*arguments: str) -> None:
    app(["attention", *arguments], standalone_mode=False)


def test_a_page_arrays_and_a_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    run("small", TEXTS[0], "--arrays", "seen.npz", "--label", "fair")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[1:])) <= 80
    assert lines[0] == "small: the text looking at itself, 7 tokens, 3 × 3 heads"
    read = np.load("seen.npz", allow_pickle=False)
    itself = read["self.summary.itself"]
    layer, head = np.unravel_index(itself.argmax(), itself.shape)
    assert f"  most on itself       layer {layer + 1}, head {head + 1}    {itself.max():.2f} of the weight" in lines
    assert "the score of 'fair' by the head 'classify'" in " ".join(lines)
    size = Path("attention.html").stat().st_size
    assert f"attention.html ({size / 1000:.1f} kB)" in lines
    assert "<!doctype html>" in Path("attention.html").read_text()[:20]

    before = Path("attention.html").read_bytes()
    run("small", *TEXTS[:2], "--head", "apart")
    said = capsys.readouterr().out
    assert "attention-2.html" in said
    assert "the second text looking at itself" in said
    assert Path("attention.html").read_bytes() == before
    assert sorted(p.name for p in Path().iterdir()) == ["attention-2.html", "attention.html", "seen.npz"]
    assert free_file(Path("attention.html")) == Path("attention-3.html")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("small", "a film", "--out", "page.pdf"), "page.pdf: the ending must be .html."),
        (("small", "a film", "--arrays", "x.html"), "x.html: the ending must be .npz."),
        (("small", "a film", "--out", "no/page.html"), "no/page.html: name a file in a folder that exists."),
        (("small", " "), "the text is empty. Pass a text with words."),
        (("small", "a film", "--position", "0"), "--position 0: tokens are counted from 1."),
        (("small", "a film", "--label", "x"), "small: the head 'classify' has no label 'x'; it has bad, fair, good."),
        (("words", "a film"), "words: is a TF-IDF model, which has no attention. Name a transformer."),
    ],
)
def test_a_wrong_request_is_a_sentence_and_writes_nothing(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(RequestError) as caught:
        run(*arguments)
    assert str(caught.value) == words
    assert list(Path().iterdir()) == []


def test_a_full_disk_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(WorkError, match=r"attention.html: could not be written \(No space left on device\)"):
        run("small", "a film")
    assert list(Path().iterdir()) == []
