"""`heedful.results`, `Run` and `Study`: what is on disk as data, and what a terminal and a notebook show of it."""

import csv
import html
import html.parser
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

import heedful
from heedful.report.facts.comparison import compare
from heedful.report.sections.card import card
from heedful.storage.runs import read_study
from tests.support.report_samples import make_run, make_study, write_json
from tests.support.training_samples import DEFAULTS, sentences, write_data, write_tiny

NASTY = "<script>alert(1)</script>"


def recipe_text(model: Path, data: dict[str, str], **training: Any) -> str:
    tables = {
        "model": {"name": str(model)},
        "data": data,
        "tuning": {"method": "full"},
        "training": {**DEFAULTS, "epochs": 2, **training},
    }
    lines = ["seeds = [0, 1]"]
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> heedful.Study:
    """A real one: two seeds of a tiny model."""
    folder = tmp_path_factory.mktemp("results")
    recipe = folder / "tiny.toml"
    recipe.write_text(recipe_text(write_tiny(folder), write_data(folder / "data")))
    return heedful.run(recipe, out=folder / "study")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three settings, one of which is clearly the worst."""
    settings = {"minilm · frozen": (0.2, 9.0), "minilm · full": (3.0, 61.0), "bert-mini · full": (2.9, 24.0)}
    return make_study(tmp_path_factory.mktemp("made") / "reviews", ["no", "yes"], n=60, settings=settings, tested=True)


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(heedful.RequestError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_study_from_beginning_to_end(study: heedful.Study) -> None:
    """The numbers are those of the files, as numbers."""
    assert isinstance(study, heedful.Study)
    row, baseline = study.table
    assert baseline["setting"] == "tfidf"
    scores = [json.loads((run.directory / "metrics.json").read_text())["splits"]["test"] for run in study.runs]
    assert row["setting"] == "tiny"
    assert row["n"] == 2
    assert row["test_mean"] == pytest.approx(sum(s["accuracy"] for s in scores) / 2, abs=1e-15)
    with (study.directory / "table.csv").open(newline="") as file:
        texts = list(csv.DictReader(file))
    assert [{k: "" if v is None else str(v) for k, v in one.items()} for one in study.table] == texts
    assert [run.seed for run in study.runs] == [0, 1]
    assert study.chosen["setting"] == study.statistics["chosen"]
    assert 0 < study.baselines["tfidf"]["test"]["accuracy"] <= 1
    assert study.report.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert study.best.labels == ("bad", "good")
    expected = study.verdict.partition(". Expect ")[2].partition(". ")[0]
    assert "0." in expected
    assert html.escape(expected) in study.report.read_text(encoding="utf-8")


def test_a_run_of_it(study: heedful.Study) -> None:
    run = heedful.results(study.runs[1].directory)
    assert isinstance(run, heedful.Run)
    assert run.done
    assert run.seed == 1
    assert run.recipe["training"]["epochs"] == 2
    assert run.manifest["cost"]["training_seconds"] > 0
    assert [row["split"] for row in run.table] == ["dev", "test"]
    assert run.table[1]["accuracy"] == run.metrics["splits"]["test"]["accuracy"]
    assert all(not isinstance(value, dict | list) for row in run.table for value in row.values())
    losses = [(line["step"], line["loss"]) for line in run.log if "loss" in line]
    assert [(p["step"], p["value"]) for p in run.curve("train/loss")] == losses
    assert len(run.curve("dev/accuracy")) == 2
    assert "it has train/loss, dev/accuracy" in refusal(lambda: run.curve("accuracy"))


def test_predictions_are_those_of_the_model_beside_the_gold_labels(study: heedful.Study) -> None:
    run = study.runs[0]
    rows = run.predictions("test")
    texts = dict(enumerate(sentences(64)[52:], start=rows[0]["row"]))
    found = run.model.predict([text for text, _ in texts.values()])
    assert [row["label"] for row in rows] == found.labels
    assert [row["gold"] for row in rows] == [label for _, label in texts.values()]
    for row, p in zip(rows, found.probabilities, strict=True):
        assert list(row) == ["row", "label", "p:bad", "p:good", "gold"]
        assert [row["p:bad"], row["p:good"]] == pytest.approx(list(p), abs=1e-5)
    right = sum(row["label"] == row["gold"] for row in rows) / len(rows)
    assert right == pytest.approx(run.metrics["splits"]["test"]["accuracy"])
    assert "it has dev, test." in refusal(lambda: run.predictions("../../x"))


def test_numbers_that_are_predicted(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", None, n=10)
    (run / "predictions" / "test.tsv").write_text("row\tscore\n3\t0.25\n4\t-1e-05\n")
    assert heedful.results(run).predictions() == [{"row": 3, "score": 0.25}, {"row": 4, "score": -1e-05}]
    (run / "predictions" / "test.tsv").write_text("row\tanswer\tconfidence\tmood\n3\t42\t0.5\tsure\n")
    assert heedful.results(run).predictions() == [{"row": 3, "answer": "42", "confidence": 0.5, "mood": "sure"}]
    (run / "predictions" / "test.tsv").write_text("row\tscore\n3\tmany\n")
    assert "test.tsv cannot be read" in refusal(lambda: heedful.results(run).predictions())
    (run / "predictions" / "test.tsv").write_text("row\tscore\n3\n")
    assert "test.tsv cannot be read" in refusal(lambda: heedful.results(run).predictions())


def test_every_row_has_every_column(sample: Path, tmp_path: Path) -> None:
    facts = json.loads((sample / "study.json").read_text())
    rows = [{"setting": "a", "n": 9, "training.lr": 0.1}, {"setting": "b", "n": 0, "training.epochs": 3}]
    shutil.copytree(sample / "runs", tmp_path / "runs")
    write_json(tmp_path / "study.json", {**facts, "table": rows})
    assert heedful.results(tmp_path).table == [
        {"setting": "a", "n": 9, "training.lr": 0.1, "training.epochs": None},
        {"setting": "b", "n": 0, "training.lr": None, "training.epochs": 3},
    ]


def test_a_table_as_a_data_frame(sample: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(heedful.results(sample).table)
    assert frame["n"].sum() == 9
    assert frame["test_mean"].dtype.kind == "f"


def test_an_unfinished_study_counts_what_is_there(study: heedful.Study, tmp_path: Path) -> None:
    """study.json has no table yet, or that of an earlier sitting; one run is under way."""
    whole = study.table
    shutil.copytree(study.directory, tmp_path / "study")
    facts = json.loads((tmp_path / "study" / "study.json").read_text())
    del facts["table"]
    write_json(tmp_path / "study" / "study.json", facts)
    (row,) = heedful.results(tmp_path / "study").table
    assert row == pytest.approx({k: v for k, v in whole[0].items() if k not in ("test_low", "test_high")})
    for stale in ({}, {"table": whole}):
        write_json(tmp_path / "study" / "study.json", {**facts, "runs": facts["runs"][:1], **stale})
        second = tmp_path / "study" / "runs" / "tiny-seed1"
        write_json(second / "manifest.json", {**study.runs[1].manifest, "state": "running"})
        (second / "metrics.json").unlink(missing_ok=True)
        opened = heedful.results(tmp_path / "study")
        (row,) = opened.table
        assert row["n"] == 1
        assert row["test_std"] is None
        assert row["test_mean"] == study.runs[0].metrics["splits"]["test"]["accuracy"]
        assert [run.done for run in opened.runs] == [True, False]
        assert repr(opened).startswith("study: 1 of 2 runs done\n")
        assert "no scores yet" in opened.runs[1].verdict
        assert repr(opened.runs[1]).startswith("tiny-seed1: running\n")


def test_a_model_that_is_not_there_yet(sample: Path) -> None:
    opened = heedful.results(sample)
    assert "has not finished" in refusal(lambda: opened.best)
    assert "has left no model" in refusal(lambda: opened.runs[0].model)


def test_what_is_neither_is_refused(tmp_path: Path) -> None:
    assert "neither a run nor a study" in refusal(lambda: heedful.results(tmp_path))
    write_json(tmp_path / "study.json", {"format": 9})
    assert "update heedful" in refusal(lambda: heedful.results(str(tmp_path)))


def test_opening_needs_no_torch(sample: Path) -> None:
    code = (
        "import sys, heedful; heavy = {'torch', 'numpy'}; light = not heavy & set(sys.modules)\n"
        f"study = heedful.results({str(sample)!r}); repr(study); study._repr_html_()\n"
        "assert len(study.table) == 4\n"
        "sys.exit(0 if light and 'torch' not in sys.modules else 1)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_in_a_terminal(sample: Path, tmp_path: Path) -> None:
    said = repr(heedful.results(sample))
    lines = said.splitlines()
    assert lines[0] == "reviews: 9 of 9 runs done"
    best, *others = [line for line in lines if "·" in line]
    summary = compare(read_study(sample)).settings[0].summary("test", "accuracy")
    assert best.startswith("minilm · full ")
    expected = json.loads((sample / "statistics.json").read_text())["settings"]["minilm · full"]["expected"]
    shown = f"{summary['mean']:.3f} ± {summary['std']:.3f}  3  {expected['low']:.3f} to {expected['high']:.3f}"
    assert shown in best
    assert [line.endswith(" *") for line in (best, *others[:2])] == [True, False, False]
    assert any(line.startswith("(TF-IDF)") for line in lines)
    assert any(line.startswith("Use minilm · full (the best on dev") for line in lines)
    assert lines[-1] == "no report yet"
    long = make_study(
        tmp_path, ["a", "b"], n=30, seeds=(1, 2), settings={"名前" * 40 + "\x1b[31m\n": (2.0, 5000.0), "b": (1.0, 1.0)}
    )
    for shown in (said, repr(heedful.results(long)), repr(heedful.results(sample).runs[0])):
        assert max(map(cell_len, shown.splitlines()[:-1])) <= 80
        assert "\x1b" not in shown
    assert "名前" in repr(heedful.results(long))
    assert "…" in repr(heedful.results(long))


def test_a_study_of_many_settings_is_shown_in_part(tmp_path: Path) -> None:
    many = {f"s{i:02}": (1 + i / 10, 1.0) for i in range(24)}
    opened = heedful.results(make_study(tmp_path, ["a", "b"], n=20, seeds=(1,), settings=many))
    assert "4 more settings are in .table." in repr(opened)
    assert len(opened.table) == 24


class Seen(html.parser.HTMLParser):
    """The elements with their attributes, and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_in_a_notebook(study: heedful.Study, sample: Path) -> None:
    opened = heedful.results(sample)
    seen = Seen(opened._repr_html_())
    assert not seen.open
    made = card(compare(read_study(sample)))
    assert made is not None
    assert all(text in seen.text for text in (made.title, *(text for _, text, _ in made.lines)))
    rows = [attributes["style"] or "" for tag, attributes in seen.tags if tag == "tr"]
    assert sum("italic" in style for style in rows) == 3
    assert ["rgba" in style for style in rows][:4] == [False, True, False, False]
    assert not any(tag in ("script", "style", "link") for tag, _ in seen.tags)
    colours = [c for _, a in seen.tags for c in (a.get("style") or "").split(";") if c.strip().startswith("color")]
    assert set(map(str.strip, colours)) == {"color: inherit"}  # whatever the theme is
    (link,) = [a["href"] for tag, a in Seen(study._repr_html_()).tags if tag == "a"]
    assert link == study.report.as_uri()


def test_what_users_write_is_text_in_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / f'javascript:{NASTY.replace("/", "∕")}"x'
    made = make_study(folder, [NASTY, "&"], n=30, seeds=(1, 2), settings={f"{NASTY} · full": (2, 5), "\"'&": (1, 5)})
    for place in (made, made / "runs" / "setting0-seed1"):
        (place / "report.html").write_text("here")
        monkeypatch.chdir(tmp_path)
        for opened in (heedful.results(place), heedful.results(place.relative_to(tmp_path))):
            page = opened._repr_html_()
            seen = Seen(page)
            assert "<script" not in page
            assert not seen.open
            assert {tag for tag, _ in seen.tags} <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "a"}
            (link,) = [a["href"] for tag, a in seen.tags if tag == "a"]
            assert link is not None
            assert link.startswith("./javascript%3A")
        assert str(place / "report.html") in Seen(heedful.results(place)._repr_html_()).text
    assert f"{NASTY} · full" in Seen(heedful.results(made)._repr_html_()).text
