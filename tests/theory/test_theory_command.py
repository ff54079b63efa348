"""`heedful theory`: what it prints, writes and refuses."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import typer

from heedful.cli.theory import theory
from heedful.errors import RequestError
from heedful.report.page import charts
from heedful.theory import catalog, pages
from heedful.theory.catalog import run
from heedful.theory.demonstration import Check, Shown

WRONG = Shown((Check("0 = 1.", torch.ones(1000, dtype=torch.float64), 1e-9),), (), ())


def test_lists_every_demonstration_by_chapter(capsys: pytest.CaptureFixture[str]) -> None:
    theory()
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    chapters = re.findall(r"^(\S.*)$", printed, re.MULTILINE)[:-1]
    assert chapters == [c for c in catalog.CHAPTERS if c in chapters]
    assert re.findall(r"^  (\S+)", printed, re.MULTILINE) == [d.name for d in catalog.demonstrations()]


def test_runs_those_that_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    theory(["layernorm-two", "attention-average"], draws=2000, seed=3)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    text = " ".join(printed.split())
    assert "ok ε = 0: LN(x) is (1, −1) if x₁ > x₂ and (−1, 1) if x₁ < x₂. holds: 2,000 draws; the worst" in text
    assert "each of the two weights is near 1. counterexample confirmed: 2,000 draws; 100.0 % are off by more" in text
    assert "That is a slip: weights add up to 1" in text
    assert "layernorm-length" not in text


def test_a_claim_that_does_not_hold_is_said_and_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = replace(catalog.demonstrations()[0], name="wrong", show=lambda _, __: WRONG)
    monkeypatch.setattr(catalog, "demonstrations", lambda: (wrong,))
    with pytest.raises(typer.Exit) as left:
        theory(["wrong"])
    assert left.value.exit_code == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "!! 0 = 1. DOES NOT HOLD: 1,000 draws; 100.0 % are off by more than 1e−9, the worst by 1." in printed
    assert printed.endswith("Failed: wrong.")


def test_refuses_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"'layernorm-lenght'. Did you mean layernorm-length\?"):
        theory(["layernorm-lenght"])
    with pytest.raises(RequestError, match="Run `heedful theory` to list them"):
        theory(["zzz"])
    for draws in (10, 10**9):
        with pytest.raises(RequestError, match=rf"--draws {draws}: give a number from 1,000 to 20,000"):
            theory(["layernorm-two"], draws=draws)
    with pytest.raises(RequestError, match="--draws needs the NAME"):
        theory(draws=2000)
    with pytest.raises(RequestError, match=r"absent.* a folder that exists"):
        theory(["layernorm-two"], html=tmp_path / "absent" / "page.html")
    (tmp_path / "file").write_text("kept")
    with pytest.raises(RequestError, match=r"the ending must be \.html"):
        theory(["layernorm-two"], html=tmp_path / "file")
    (tmp_path / "mine.html").write_text("<html>mine</html>")
    with pytest.raises(RequestError, match="is no page of heedful; name another file"):
        theory(["layernorm-two"], html=tmp_path / "mine.html")
    assert (tmp_path / "mine.html").read_text() == "<html>mine</html>"
    (tmp_path / "mine.html").unlink()
    with pytest.raises(RequestError, match="is a file: give a folder"):
        theory(markdown=tmp_path / "file")
    with pytest.raises(RequestError, match="Remove the names"):
        theory(["layernorm-two"], markdown=tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_chapter_is_run_whole() -> None:
    assert [d.name for d in catalog.find(["masked-word-loss", "layernorm"])] == [
        "masked-word-loss",
        *(d.name for d in catalog.demonstrations() if d.chapter == "LayerNorm"),
    ]


def test_the_page_has_what_was_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charts, "bundle", lambda: "")  # it takes as long as all the rest
    file = tmp_path / "theory.html"
    theory(["attention-copy", "layernorm-length"], html=file)
    assert capsys.readouterr().out.splitlines()[-1] == str(file)
    text = file.read_text(encoding="utf-8")
    anchors = set(re.findall(r'id="([^"]+)"', text))
    links = set(re.findall(r'href="#([^"]+)"', text))
    assert {"attention-copy", "layernorm-length"} <= links <= anchors
    drawn = {figure.name for figure in pages.figures(run(catalog.find(["attention-copy", "layernorm-length"])))}
    assert drawn == set(re.findall(r'data-chart="([^"]+)"', text))
    assert "ln((n − 1)(1 − ε)/ε)" in text
    assert {d.name for d in catalog.demonstrations()} & anchors == {"attention-copy", "layernorm-length"}


def test_markdown_is_written_with_its_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = catalog.find(["layernorm-two"])
    monkeypatch.setattr(catalog, "demonstrations", lambda: one)
    theory(markdown=tmp_path / "new" / "docs")
    written = {str(path.relative_to(tmp_path / "new" / "docs")) for path in tmp_path.rglob("*.*")}
    pictures = {"pictures/layernorm-two-step.png"}
    assert written == {"README.md", "layernorm.md", *pictures}
    chapter = (tmp_path / "new" / "docs" / "layernorm.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\((pictures/[^)]+)\)", chapter)) == pictures


def test_markdown_overwrites_only_its_own_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = catalog.find(["layernorm-two"])
    monkeypatch.setattr(catalog, "demonstrations", lambda: one)
    folder, picture = tmp_path / "docs", tmp_path / "docs" / "pictures" / "layernorm-two-step.png"
    theory(markdown=folder)
    written = {path: path.read_bytes() for path in folder.rglob("*.*")}
    (folder / "layernorm.md").write_text(f"old\n\n{(folder / 'layernorm.md').read_text(encoding='utf-8')}")
    picture.write_bytes(b"old")
    (folder / ".DS_Store").write_bytes(b"a file manager's")
    theory(markdown=folder)
    assert {path: path.read_bytes() for path in written} == written

    for name, theirs in {
        "README.md": b"# My project\n\nSee *Made by heedful theory --markdown*.\n",
        "layernorm.md": b"\xff\xfe",
        "notes.txt": b"mine",
        "pictures/mine.png": b"mine",
        "pictures/layernorm-two-step.png": b"mine",  # beside no page of ours
        "figures/mine.png": b"mine",
    }.items():
        other = tmp_path / name.replace("/", "-")
        (other / name).parent.mkdir(parents=True)
        (other / name).write_bytes(theirs)
        first = other / name if name.startswith("pictures") else other / name.split("/")[0]
        with pytest.raises(RequestError, match=re.escape(f"{first} was not written by this command")):
            theory(markdown=other)
        assert [path for path in other.rglob("*") if path.is_file()] == [other / name]
        assert (other / name).read_bytes() == theirs
    assert pages.check_places(None, Path(__file__).parents[2] / "docs" / "theory") is None


def test_every_chart_is_valid() -> None:
    for figure in pages.figures(run(catalog.find(["layernorm-gain", "attention-addition"]))):
        figure.chart.to_dict(validate=True)
        assert charts.for_page(figure.chart)["width"] == "container"


def test_help_does_not_load_torch() -> None:
    code = "import sys; import heedful.cli.main; sys.exit('torch' in sys.modules or 'altair' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
