"""`heedful probe knowledge` as a person uses it: a study with its seeds, a run, a model, own files, mistakes."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful import RequestError, probe_knowledge
from heedful.cli.main import main
from heedful.storage.examples import read_predictions
from heedful.studies.plan import plan_recipe
from heedful.studies.study import run_study
from tests.support.question_samples import NAMES, answer_recipe, born, write_people
from tests.support.training_samples import write_tiny


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of one recipe over two seeds."""
    base = tmp_path_factory.mktemp("knowledge")
    run_study(
        plan_recipe(answer_recipe(write_people(base / "data"), 250), "people", (0, 1)), base / "study", quiet=True
    )
    return base


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["heedful", *map(str, arguments)])
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def runs_of(place: Path) -> list[Path]:
    return sorted((place / "study" / "runs").iterdir())


def test_a_study_says_what_its_runs_said(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(monkeypatch, "probe", "knowledge", place / "study", "--out", out) == 0
    said = capsys.readouterr()
    assert max(map(len, said.out.splitlines())) <= max(80, len(str(out / "report.html")))
    facts = json.loads((out / "knowledge.json").read_text())
    (found,) = facts["subjects"].values()
    metrics = [json.loads((path / "metrics.json").read_text())["splits"]["dev"] for path in runs_of(place)]
    for key in ("exact_match", "made_up"):
        assert found[key]["by_seed"] == pytest.approx([one[key] for one in metrics], abs=1e-12)
    assert found["exact_match"]["mean"] >= 0.4  # four of the ten were trained on
    assert found["groups"]["read"][0]["n"] == 10
    with (out / "answers.tsv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file, dialect="excel-tab"))
    for seed, path in zip(("0", "1"), runs_of(place), strict=True):
        rows, columns = read_predictions(path / "predictions" / "dev.tsv")
        own = [line for line in lines if line["seed"] == seed]
        assert [int(line["row"]) for line in own] == rows
        assert [line["said"] for line in own] == columns["answer"]
        assert [line["confidence"] for line in own] == columns["confidence"]
        assert [line["text"] for line in own] == ["the answer stands in the line"] * 10
    words = (out / "report.md").read_text()
    page = (out / "report.html").read_text()
    for _, sentence in found["verdict"]:
        assert sentence.split(" (")[0].split("; ")[0][:60] in words.replace("\\", "").replace("&lt;", "<")
    assert all(f'"{name}"' in page or name in page for name in ("refusing", "calibration-1", *facts["subjects"]))
    assert sorted(path.name for path in (out / "report").iterdir()) == ["calibration-1.png", "refusing.png"]
    assert run(monkeypatch, "probe", "knowledge", place / "study", "--out", out) == 0  # the same again takes its place
    assert json.loads((out / "knowledge.json").read_text()) == facts
    assert run(monkeypatch, "probe", "knowledge", place / "study", "--out", out, "--precision", "0.5") == 2
    assert "contains the results of a different probe" in capsys.readouterr().err


def test_a_run_and_its_model_know_their_recipe(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    first = runs_of(place)[0]
    assert run(monkeypatch, "probe", "knowledge", first) == 0
    assert f"runs/knowledge-{first.name}/report.html" in capsys.readouterr().out
    of_run = json.loads((tmp_path / f"runs/knowledge-{first.name}/knowledge.json").read_text())
    (a,) = of_run["subjects"].values()
    (b,) = probe_knowledge(first / "model")["subjects"].values()
    (c,) = probe_knowledge(place / "study" / "best")["subjects"].values()
    assert a["exact_match"] == b["exact_match"]
    assert a["about"] == "new questions like these, for this run only"
    assert b["about"] == "new questions like these"
    assert b["train"] == c["train"] == {"name": "train.tsv", "n": 14}
    assert (heedful.probe_knowledge, "probe_knowledge" in dir(heedful)) == (probe_knowledge, True)


def test_files_of_ones_own_about_names_that_nobody_knows(place: Path, tmp_path: Path) -> None:
    (tmp_path / "new.tsv").write_text(f"{born('Zoe Ray')}\tOslo\n{born('Eli Kane')}\tRome\n{born(NAMES[0])}\tRome\n")
    facts = probe_knowledge(place / "study", tmp_path / "new.tsv", precision=0.5)
    (found,) = facts["subjects"].values()
    new, _ = found["nearest"]
    assert (facts["questions"]["n"], new["n"], new["answers"]) == (3, 2, 4)
    assert [row["n"] for row in found["groups"]["read"]] == [1, 0, 2]
    assert (found["text"] or {})["documents"] == len(NAMES)


def a_classifier(place: Path, folder: Path) -> dict[str, Any]:
    return {"models": write_tiny(folder)}


def no_answers(place: Path, folder: Path) -> dict[str, Any]:
    (folder / "q.tsv").write_text(f"{born('Ada')}\n{born('Bo')}\n")
    return {"questions": folder / "q.tsv"}


def an_empty_answer(place: Path, folder: Path) -> dict[str, Any]:
    (folder / "q.tsv").write_text(f"{born('Ada')}\tRome\n{born('Bo')}\t\n")
    return {"questions": folder / "q.tsv"}


def a_long_question(place: Path, folder: Path) -> dict[str, Any]:
    (folder / "q.tsv").write_text(f"{'Where was Ada ' * 400}born?\tRome\n")
    return {"questions": folder / "q.tsv"}


def a_strange_directory(place: Path, folder: Path) -> dict[str, Any]:
    (folder / "notes.txt").write_text("mine")
    return {"out": folder}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (a_classifier, "has no language-model head, so it cannot answer questions"),
        (no_answers, "has one column; questions and answers need two"),
        (an_empty_answer, "line 2: the question or the answer is empty"),
        (a_long_question, r"q\.tsv, row 1 \(Where was Ada.*tokens, and .* reads at most"),
        (a_strange_directory, "holds 'notes.txt', which is not heedful's"),
        (lambda *_: {"questions": "birthplace"}, "--questions: birthplace does not exist.*there is birthplaces"),
        (lambda place, _: {"train": place / "nothing.tsv"}, r"--train: .*nothing\.tsv does not exist"),
        (lambda *_: {"text": "birthplaces-tex"}, "--text: birthplaces-tex does not exist; did you mean"),
        (lambda *_: {"precision": 1.5}, "is not a share above 0 and up to 1"),
        (lambda *_: {"models": []}, "needs at least one model"),
        (lambda place, _: {"models": [place / "study"] * 2}, "is named 2 times"),
    ],
)
def test_mistakes_are_one_sentence(place: Path, tmp_path: Path, make: Any, words: str) -> None:
    options = {"models": place / "study", **make(place, tmp_path)}
    if make is a_classifier:
        options["questions"] = place / "data" / "dev.tsv"
    with pytest.raises(RequestError, match=words) as refused:
        probe_knowledge(options.pop("models"), **options)
    assert "\n" not in str(refused.value)


def test_models_for_other_questions_are_probed_apart(place: Path, tmp_path: Path) -> None:
    """A run whose recipe names other questions than the study does."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "model").symlink_to(runs_of(place)[0] / "model", target_is_directory=True)
    manifest = json.loads((runs_of(place)[0] / "manifest.json").read_text())
    manifest["recipe"]["data"]["dev"] = manifest["recipe"]["data"]["train"]
    (other / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RequestError, match=r"for the questions of dev\.tsv and other for those of train\.tsv"):
        probe_knowledge([place / "study", other])
    both = probe_knowledge([place / "study", other], place / "data" / "dev.tsv")
    assert len(both["comparisons"]) == 1
