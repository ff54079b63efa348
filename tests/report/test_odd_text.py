"""Odd characters in labels and texts, and places that cannot be written: shown escaped or said in a sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.errors import WorkError
from heedful.report.page import charts
from heedful.report.page.words import visible
from heedful.report.run import write_run_report
from heedful.report.study import write_study_report
from tests.support.page_reader import Page
from tests.support.report_samples import make_run, make_study

ODD = ["\x00", "\x07", "\x1b[31m", "\x7f", "\x85", "\u2028", "\u2029", "\u202e", "\ufdd0", "\ufffe", "\uffff", "\ud800"]
LABELS = [f"a{ODD[1]}{ODD[9]}", f"b{ODD[0]}{ODD[10]}", "c\u2028d\x1b", "\ud800", "</script><b>x"]


def test_what_nobody_sees_is_escaped() -> None:
    for text in ODD:
        assert visible(f"x{text}").isprintable()
        assert visible(f"x{text}").startswith(f"x\\u{ord(text[0]):04x}")
    for text in ("plain", "tab\tline\n", "na\u0131ve — “ок” 名前", "👩\u200d👩", "نه\u200cها", "a\N{NO-BREAK SPACE}b"):
        assert visible(text) == text


def odd(folder: Path) -> Path:
    """The labels of a made run or study, in all its JSON, replaced by odd ones."""
    for path in sorted(folder.rglob("*.json")):
        text = path.read_text()
        for i, label in enumerate(LABELS):
            text = text.replace(f'"label{i}"', json.dumps(label))
        path.write_text(text)
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    base, names = tmp_path_factory.mktemp("odd"), [f"label{i}" for i in range(len(LABELS))]
    more: dict[str, Any] = {"n": 60, "text": "".join(ODD[:-1]), "steps": 20}
    run = odd(make_run(base / "run", names, **more))
    study = make_study(
        base / "study", names, seeds=(1, 2), settings={"label0": (2.0, 5.0), "label2": (1.0, 5.0)}, **more
    )
    write_run_report(run)
    write_study_report(odd(study))
    return [run, study]


def test_a_report_of_odd_labels(made: list[Path]) -> None:
    for folder in made:
        html = (folder / "report.html").read_text(encoding="utf-8")
        found = Page(html)
        for label in LABELS[:4]:
            assert visible(label) in found.text
            assert json.dumps(visible(label))[1:-1] in json.dumps(found.specs)
        assert "</script><b>x" in found.text
        assert found.named("b") == []
        for text in (html.partition("<script")[0], (folder / "report.md").read_text(encoding="utf-8")):
            assert text == visible(text)
        assert len(list((folder / "report").glob("*.png"))) >= 4  # each drawn by the renderer that odd labels ended
    shown = repr(heedful.results(made[1])) + heedful.results(made[1])._repr_html_()
    assert visible(LABELS[0]) in shown
    assert shown == visible(shown)


def test_one_chart_for_each_odd_character() -> None:
    for text in ODD:
        rows = [{"gold": g, "predicted": g, "n": 1, "share": 1.0} for g in (f"a{text}", "b")]
        spec = charts.for_page(charts.confusion(rows, [f"a{text}", "b"]), f"caption {text}")
        json.dumps(spec, ensure_ascii=False).encode()
        assert spec["layer"][0]["encoding"]["y"]["sort"] == [visible(f"a{text}"), "b"]


@pytest.mark.parametrize("name", ["report", "report.md", "report.html"])
def test_a_place_that_cannot_be_written(name: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", ["a", "b"], n=20, steps=20)
    if name == "report":
        (run / name).write_text("in the way")
    else:
        (run / name / "in the way").mkdir(parents=True)
    with pytest.raises(WorkError, match=r"the report cannot be written to .*run \(.*\)\.$"):
        write_run_report(run, pictures=name == "report")
