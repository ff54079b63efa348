"""`heedful generate` as a person uses it: one prompt or many, a terminal or a pipe, interrupted, refused."""

import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.checkpoints.tfidf import write_tfidf
from heedful.cli.main import main
from heedful.cli.show import without_controls
from heedful.decoding import generate as decoding
from heedful.evaluation.metrics import CLASS_METRICS
from heedful.evaluation.tfidf import fit_tfidf
from tests.support import peers
from tests.support.generation_samples import write_language_model

Said = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generate") / "tiny"
    write_language_model(folder)
    return folder


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["heedful", "generate", *map(str, arguments)])
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


@pytest.fixture
def generated(directory: Path) -> Any:
    return lambda *arguments, **options: heedful.load(directory).generate(*arguments, **options)


def test_one_prompt_is_printed_with_what_follows(
    directory: Path, generated: Any, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    assert run(monkeypatch, directory, "the man", "--max-new-tokens", 12, "--seed", 3) == 0
    said = capsys.readouterr()
    assert said.out == f"the man{generated(['the man'], 12, seed=3).texts[0]}\n"
    assert said.err == ""


def test_several_prompts_and_seeds(
    directory: Path, generated: Any, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    monkeypatch.setattr("heedful.cli.generate._WINDOW", 2)  # windows do not change the texts
    prompts = ["the", "naïve\n🙂", "", "he"]
    options = ("--seed", 5, "--seeds", 2, "--max-new-tokens", 9, "--top-k", 50, "--top-p", 0.95, "--temperature", 0.9)
    assert run(monkeypatch, directory, *prompts, *options) == 0
    expected = ""
    by_seed = [generated(prompts, 9, 0.9, 50, 0.95, seed) for seed in (5, 6)]
    for row, prompt in enumerate(prompts):
        for seed, written in zip((5, 6), by_seed, strict=True):
            expected += f"[{row + 1}, seed {seed}] ended: {written.reasons[row]}\n{prompt}{written.texts[row]}\n\n"
    assert capsys.readouterr().out == expected


def test_as_json(directory: Path, generated: Any, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    assert run(monkeypatch, directory, "the", "he", "--max-new-tokens", 9, "--json", "--stop", "e", "--stop", " ") == 0
    facts = json.loads(capsys.readouterr().out)
    written = generated(["the", "he"], 9, stop=["e", " "])
    assert facts["model"] == str(directory)
    assert [t["tokens"] for t in facts["texts"]] == written.tokens
    assert [t["text"] for t in facts["texts"]] == written.texts
    assert [t["reason"] for t in facts["texts"]] == written.reasons
    assert [t["prompt"] for t in facts["texts"]] == ["the", "he"]
    assert [t["seed"] for t in facts["texts"]] == [0, 0]
    for t, log_p in zip(facts["texts"], written.log_probabilities, strict=True):
        assert t["log_probabilities"] == pytest.approx(log_p.tolist(), abs=1e-5)


def test_beam_search(directory: Path, generated: Any, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    assert run(monkeypatch, directory, "the man", "--max-new-tokens", 8, "--beam", 3) == 0
    assert capsys.readouterr().out == f"the man{generated(['the man'], 8, beam=3).texts[0]}\n"
    options = ("--max-new-tokens", 8, "--beam", 3, "--n-best", 2, "--length-penalty", 0.4)
    prompts = ["the man", "he"]
    written = generated(prompts, 8, beam=3, n_best=2, length_penalty=0.4)
    assert run(monkeypatch, directory, *prompts, *options, "--json") == 0
    facts = iter(json.loads(capsys.readouterr().out)["texts"])
    assert run(monkeypatch, directory, *prompts, *options) == 0
    printed = ""
    for row, prompt in enumerate(prompts):
        for rank, one in enumerate(written.n_best[row], 1):
            told = next(facts)
            assert (told["prompt"], told["rank"], told["text"], told["tokens"]) == (prompt, rank, one.text, one.tokens)
            assert told["score"] == pytest.approx(one.score, abs=1e-5)
            assert "seed" not in told
            printed += f"[{row + 1}, rank {rank}, score {told['score']}] ended: {one.reason}\n{prompt}{one.text}\n\n"
    assert capsys.readouterr().out == printed
    assert run(monkeypatch, directory, "he", *options) == 0  # several texts of one prompt
    assert capsys.readouterr().out.count("[1, rank ") == 2


def test_without_a_prompt_a_text_begins(
    directory: Path, generated: Any, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    assert run(monkeypatch, directory, "--max-new-tokens", 9) == 0
    assert capsys.readouterr().out == f"{generated([''], 9).texts[0]}\n"


@pytest.mark.parametrize("place", ["file", "stdin"])
def test_prompts_from_lines(
    place: str, directory: Path, generated: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    """A byte order mark, Windows' line ends, an empty line, a separator that is no line end, no end at the end."""
    content = b"\xef\xbb\xbfthe man\r\n\nna\xc3\xafve\xe2\x80\xa8he"
    if place == "file":
        (tmp_path / "prompts.txt").write_bytes(content)
    else:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    source = tmp_path / "prompts.txt" if place == "file" else "-"
    assert run(monkeypatch, directory, "--file", source, "--max-new-tokens", 5, "--temperature", 0, "--json") == 0
    prompts = ["the man", "", "naïve\u2028he"]
    facts = json.loads(capsys.readouterr().out)
    assert [t["prompt"] for t in facts["texts"]] == prompts
    assert [t["tokens"] for t in facts["texts"]] == generated(prompts, 5, temperature=0).tokens


def test_the_end_of_what_a_model_reads_is_said(directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    assert run(monkeypatch, directory, "h" * 60, "--min-new-tokens", 50) == 0
    assert capsys.readouterr().err == "the text ended at the model's limit of 64 tokens\n"


def test_an_interrupt_leaves_what_is_there(
    directory: Path, generated: Any, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    choose, asked = decoding.choose, []

    def interrupted(*arguments: Any) -> Any:
        asked.append(1)
        if len(asked) > 12:
            raise KeyboardInterrupt
        return choose(*arguments)

    monkeypatch.setattr(decoding, "choose", interrupted)
    assert run(monkeypatch, directory, "the man", "--temperature", 0) == 130
    said = capsys.readouterr()
    monkeypatch.undo()
    whole = "the man" + generated(["the man"], 12, temperature=0).texts[0]
    assert said.out.endswith("\n")
    assert whole.startswith(said.out[:-1].rstrip("\ufffd"))
    assert len(said.out) > len("the man\n")
    assert said.err == "heedful: stopped. No incomplete file is left.\n"


@pytest.mark.timeout(120)
def test_a_terminal_sees_the_text_grow_and_can_stop_it(tmp_path: Path) -> None:
    write_language_model(tmp_path / "long", positions=20_000)
    terminal, side = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "heedful", "generate", str(tmp_path / "long"), "the man", "--max-new-tokens", "19000",
         "--min-new-tokens", "19000"],
        stdout=side, stderr=subprocess.PIPE, env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    os.close(side)
    seen = b""
    try:
        while len(seen) < 200:  # long before the end
            seen += os.read(terminal, 100)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        asked = time.monotonic()
        while True:
            try:
                seen += os.read(terminal, 1 << 16)
            except OSError:  # nobody writes any more
                break
            if time.monotonic() - asked > 20:  # it came while an exception could not be raised, as in a destructor
                process.send_signal(signal.SIGINT)
                asked = time.monotonic()
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        os.close(terminal)
    assert process.returncode == 130
    assert errors == b"heedful: stopped. No incomplete file is left.\n"
    text = seen.decode("utf-8")  # no character is cut
    assert text.startswith("the man")
    assert text.endswith("\r\n")
    assert not {"\x1b", "\x00", "\x07"} & set(text)


def test_a_terminal_is_given_no_commands() -> None:
    assert without_controls("a\x1b[2J\x07\x9bb\r\n\tc\x7fé") == "a␛[2J␇\ufffdb␍\n\tc␡é"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["the", "--seeds", "0"], "--seeds 0: must be 1 or more"),
        (["the", "--seeds", "2", "--temperature", "0"], "--seeds 2 has no effect with --temperature 0"),
        (["the", "--seed", "4", "--temperature", "0"], "--seed 4 has no effect with --temperature 0"),
        (["the", "--temperature", "0", "--top-k", "3"], "top_k=3 has no effect"),
        (["the", "--top-p", "1.5"], "top_p=1.5"),
        (["the", "--beam", "3", "--top-p", "0.5"], "--top-p 0.5 has no effect with --beam 3"),
        (["the", "--beam", "2", "--temperature", "1"], "--temperature 1.0 has no effect with --beam 2"),
        (["the", "--beam", "2", "--seed", "0"], "--seed 0 has no effect with --beam 2"),
        (["the", "--beam", "3", "--seeds", "2"], "--seeds 2 has no effect with --beam 3"),
        (["the", "--beam", "3", "--seeds", "1"], "--seeds 1 has no effect with --beam 3"),
        (["the", "--beam", "2", "--n-best", "3"], "n_best=3 is not a whole number from 1 to beam, 2"),
        (["the", "--length-penalty", "0"], "--length-penalty 0.0 has no effect without beam search. Add --beam"),
        (["the", "--n-best", "1"], "--n-best 1 has no effect without beam search"),
        (["the", "--adapters", "none"], "the model has no adapter 'none'; it has none"),
        (["the", "he", "--adapters", "none", "--json"], "the model has no adapter 'none'"),
        (["the", "--min-new-tokens", "60"], "from 0 to max_new_tokens, 50"),
        (["the", "--stop", "two words"], "'two words' is not one token"),
        (["the", "--file", "x.txt"], "either from the command line or from --file"),
        (["--file", "nowhere.txt"], "nowhere.txt does not exist"),
        (["--file", "EMPTY"], "EMPTY has no prompts"),
        (["--file", "LONG"], "line 2 of LONG has 70 tokens, and TINY reads at most 64; shorten it"),
        (["h", "h" * 70], "prompt 2 has 70 tokens"),
        (["h" * 70], "the prompt has 70 tokens"),
        (["--file", "LATIN"], "line 1, is not UTF-8"),
    ],
)
def test_refusals_are_one_sentence(
    arguments: list[str],
    words: str,
    directory: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Said,
) -> None:
    names = {"EMPTY": b"", "LONG": b"h\n" + b"h" * 70 + b"\n", "LATIN": b"na\xefve\n"}
    for name, content in names.items():
        (tmp_path / name).write_bytes(content)
    given = [str(tmp_path / a) if a in names else a for a in arguments]
    assert run(monkeypatch, directory, *given) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("heedful: ")
    assert said.err.count("\n") == 1
    shown = said.err.replace(f"{tmp_path}{os.sep}", "").replace(str(directory), "TINY")
    assert words in shown


def test_models_that_write_nothing_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    case = peers.Case("", "bert", "ForSequenceClassification")
    peers.make_peer(case).save_pretrained(tmp_path / "classifier")
    assert run(monkeypatch, tmp_path / "classifier", "a") == 2
    assert "has no language-model head" in capsys.readouterr().err
    write_language_model(tmp_path / "bare", beginning=False)
    assert run(monkeypatch, tmp_path / "bare") == 2
    assert "the prompt is empty, and" in capsys.readouterr().err
    labels = np.array([0, 1] * 9)
    words = fit_tfidf(["good", "bad"] * 9, None, labels, ("a", "b"), CLASS_METRICS["accuracy"], 0)
    write_tfidf(tmp_path / "words", words)
    assert run(monkeypatch, tmp_path / "words", "a") == 2
    refusal = " ".join(capsys.readouterr().err.split())
    assert "words: is a TF-IDF model, which cannot continue texts. Use it with predict." in refusal
