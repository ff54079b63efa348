"""What longer pretraining brings: from marks of two pretrainings over a study to a chart of scores against tokens."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from heedful.checkpoints.finding import find
from heedful.errors import RequestError
from heedful.report.facts.comparison import compare
from heedful.report.page import charts
from heedful.report.page.pieces import Figure, Section, Table
from heedful.report.sections.pretraining import longer_pretraining
from heedful.report.study import write_study_report
from heedful.storage.runs import read_study, trained_to
from heedful.studies.plan import plan_recipe
from heedful.studies.study import run_study
from tests.support.corpus_samples import corpus_recipe
from tests.support.training_samples import read_log, sentences, tiny_recipe, write_data

MARKS = ["00000003", "00000006"]
SEEDS = (0, 1)
SIZES = {"shape": "bert-tiny", "layers": 1, "width": 16, "heads": 2, "positions": 40}


def pretrain(folder: Path, name: str, next_sentence: bool) -> None:
    """A study of a run for each seed, each with two marks."""
    text = folder / "text.txt"
    text.write_text("".join(f"{said}. So {said}.\n" for said, _ in sentences(60, seed=9)))
    objective, marks = {"kind": "mask", "next_sentence": next_sentence}, {"steps": 6, "mark_steps": 3}
    recipe = corpus_recipe(text, objective, model=SIZES, tokenizer={"size": 200}, keep_marks=True, **marks)
    run_study(plan_recipe(recipe, name, seeds=SEEDS), folder / name, quiet=True)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    pretrain(folder, "words", next_sentence=False)
    pretrain(folder, "sentences", next_sentence=True)
    write_data(folder / "data")
    return folder


def models(world: Path, name: str) -> list[str]:
    return [str(world / name / f"runs/{name}-seed{{seed}}/marks/{mark}") for mark in MARKS]


def run(world: Path, out: str, names: list[str], how: str = "full", **study: Any) -> Path:
    data = {split: str(world / f"data/{split}.csv") for split in ("train", "dev", "test")}
    table = {"study": {"model": {"name": names}, "test": "all", **study}, "training": {"epochs": 1}}
    recipe = tiny_recipe(Path(names[0]), {**data, "text": "text", "label": "label"}, how, **table)
    run_study(plan_recipe(recipe, "tuned", seeds=SEEDS), world / out, quiet=True)
    return world / out


def test_models_of_fresh_seeds_are_missed_before_the_first_run(world: Path) -> None:
    with pytest.raises(RequestError, match=r"words-seed2.* fresh seeds 2, 3, 4: make their .*final_seeds"):
        run(world, "chosen", models(world, "words"), test="chosen")
    assert not list((world / "chosen").glob("runs/*"))


def section_of(directory: Path) -> Section:
    section = longer_pretraining(compare(read_study(directory)))
    assert section is not None
    return section


def drawn(section: Section) -> list[dict[str, Any]]:
    (figure,) = (block for block in section.blocks if isinstance(block, Figure))
    datasets = figure.chart.to_dict()["datasets"].values()
    return next(rows for rows in datasets if "setting" in rows[0])


def test_the_chart_is_the_scores_by_the_tokens_of_the_marks(world: Path) -> None:
    directory = run(world, "two", [*models(world, "words"), *models(world, "sentences")])
    planted = {}
    for i, path in enumerate(sorted(directory.glob("runs/*/metrics.json"))):
        metrics, planted[path.parent.name] = json.loads(path.read_text()), 0.5 + 0.01 * i**1.5
        metrics["splits"]["test"][metrics["primary"]] = planted[path.parent.name]
        path.write_text(json.dumps(metrics))
    rows = drawn(section_of(directory))
    assert [row["setting"] for row in rows] == ["sentences", "sentences", "words", "words"]
    facts = json.loads((directory / "study.json").read_text())
    for row, (name, mark) in zip(
        rows, [(name, mark) for name in ("sentences", "words") for mark in MARKS], strict=True
    ):
        pretrained = [world / name / f"runs/{name}-seed{seed}" for seed in SEEDS]
        lines = [next(x for x in read_log(p) if "dev" in x and x["step"] == int(mark)) for p in pretrained]
        assert row["tokens"] == fmean(line["tokens"] for line in lines)
        model = str(world / name / f"runs/{name}-seed{{seed}}/marks/{mark}")
        (setting,) = (s["name"] for s in facts["settings"] if s["values"].get("model.name") == model)
        scores = [planted[f"{setting}-seed{seed}"] for seed in SEEDS]
        assert row["score"] == pytest.approx(fmean(scores))
        assert row["high"] - row["low"] == pytest.approx(2 * stdev(scores))
        assert row["seeds"] == 2
    assert rows[0]["tokens"] < rows[1]["tokens"]
    write_study_report(directory)
    text = (directory / "report.md").read_text()
    assert "## What longer pretraining brings" in text
    assert f"| words | 6 | {rows[3]['tokens']:,.0f} | {rows[3]['score']:.4f} ± " in text
    assert (directory / "report/pretraining.png").stat().st_size > 5000
    assert '"tokens read in pretraining"' in (directory / "report.html").read_text()


def test_lines_for_whatever_else_differs(world: Path) -> None:
    directory = run(world, "both", models(world, "words"), tuning={"method": ["bias", "full"]})
    section = section_of(directory)
    assert {row["setting"] for row in drawn(section)} == {"bias", "full"}
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    assert [row.cells[:2] for row in table.rows] == [("bias", "3"), ("bias", "6"), ("full", "3"), ("full", "6")]
    for path in directory.glob("runs/*/manifest.json"):  # as earlier versions have written it
        manifest = json.loads(path.read_text())
        del manifest["model"]["pretrained"]
        path.write_text(json.dumps(manifest))
    assert {(row["setting"], row["step"]) for row in drawn(section_of(directory))} == {
        (method, step) for method in ("bias", "full") for step in (3, 6)
    }
    c = compare(read_study(directory))
    of_one_mark = [s for s in c.settings if s.record.values["model.name"].endswith(MARKS[0])]
    assert len(of_one_mark) == 2
    assert longer_pretraining(replace(c, settings=tuple(of_one_mark))) is None


def test_a_search_that_tests_one_setting_is_drawn_by_dev(world: Path) -> None:
    of_one_seed = [name.format(seed=0) for name in models(world, "words")]
    directory = run(world, "search", of_one_seed, test="chosen", final_seeds=2)
    (figure,) = (block for block in section_of(directory).blocks if isinstance(block, Figure))
    assert "on dev after more and more tokens read in pretraining" in figure.caption
    charts.png(figure.chart)


def test_marks_by_tokens_are_named_by_their_number(world: Path) -> None:
    """They are at other steps with each seed."""
    objective = {"kind": "mask", "next_sentence": False}
    recipe = corpus_recipe(world / "text.txt", objective, model=SIZES, tokenizer={"size": 200}, keep_marks=True)
    by_tokens = {"steps": None, "mark_steps": None, "tokens": 700, "mark_tokens": 230}
    recipe = recipe.model_copy(update={"training": recipe.training.model_copy(update=by_tokens)})
    run_study(plan_recipe(recipe, "tokens", seeds=SEEDS), world / "tokens", quiet=True)
    places = [world / f"tokens/runs/tokens-seed{seed}" for seed in SEEDS]
    steps = [sorted(p.name for p in (place / "marks").iterdir()) for place in places]
    assert steps[0] != steps[1]
    names = [str(world / f"tokens/runs/tokens-seed{{seed}}/marks/{number}") for number in (1, 3)]
    rows = drawn(section_of(run(world, "numbers", names)))
    lines = [[line for line in read_log(place) if "dev" in line] for place in places]
    assert [row["tokens"] for row in rows] == [fmean(of[i]["tokens"] for of in lines) for i in (0, 2)]
    for wrong in ("0", "9", "00000009"):
        with pytest.raises(RequestError, match=rf"marks/{wrong}: no such evaluation step. .* has \d \({steps[0][0]}, "):
            find(places[0] / "marks" / wrong)
    assert find(places[0] / "marks/2") == places[0] / "marks" / steps[0][1]


def test_how_far_a_model_was_trained(world: Path, tmp_path: Path) -> None:
    place = tmp_path / "run"
    shutil.copytree(world / "words/runs/words-seed0", place)
    lines = {line["step"]: line for line in read_log(place) if "dev" in line}
    for step, mark in ((3, "00000003"), (6, "00000006")):
        assert trained_to(place / "marks" / mark) == {"step": step, "tokens": lines[step]["tokens"]}
    best = json.loads((place / "metrics.json").read_text())["best"]["step"]
    assert trained_to(place / "model") == {"step": best, "tokens": lines[best]["tokens"]}
    older = "".join(json.dumps({k: v for k, v in line.items() if k != "tokens"}) + "\n" for line in read_log(place))
    (place / "log.jsonl").write_text(older)
    assert trained_to(place / "marks/00000003") == {"step": 3}
    (place / "manifest.json").write_text("{")
    assert trained_to(place / "marks/00000003") == {}
    (place / "manifest.json").unlink()
    assert trained_to(place / "marks/00000003") == trained_to(place / "model") == trained_to(tmp_path) == {}
