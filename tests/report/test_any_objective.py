"""A report is made of what the files hold: metrics that they state, sets of any name, marks instead of epochs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.errors import RequestError
from heedful.report.facts.comparison import compare
from heedful.report.facts.points import points
from heedful.report.facts.run import judged_set, place_of_mark
from heedful.report.page import markdown
from heedful.report.page.words import amount
from heedful.report.page.write import page
from heedful.report.run import write_run_report
from heedful.report.sections.card import verdict
from heedful.report.sections.of_run import run_report
from heedful.report.sections.of_study import study_report
from heedful.report.study import write_study_report
from heedful.storage.run_record import LogLine, Manifest
from heedful.storage.runs import read_run, read_study
from heedful.storage.statistics_record import NotCompared
from tests.support.page_reader import Page
from tests.support.report_samples import make_study, write_json

METRICS = [
    {"name": "perplexity", "title": "perplexity", "higher_is_better": False},
    {"name": "top_error", "title": "share of the top five", "higher_is_better": True},
]


def make_language_model(directory: Path, seed: int = 0, perplexity: float = 20.0, terms: bool = True) -> Path:
    """Judged every 50 steps by a metric of its own; no epochs, no classes, no set called test."""
    directory.mkdir(parents=True)
    sets = {"dev": perplexity + 1, "test-2017": perplexity, "test-2019": 3 * perplexity}
    scores = {name: {"n": 40, "perplexity": value + seed, "top_error": 0.3} for name, value in sets.items()}
    metrics = {"primary": "perplexity", "splits": scores, "best": {"step": 100, "mark": 2, "score": -perplexity}}
    data = {"name": "prose", "sizes": {"train": 900}, "fingerprints": dict.fromkeys(sets, "x")}
    facts: dict[str, Any] = {"format": 2, "state": "done", "seed": seed, "metrics": METRICS, "data": data}
    write_json(directory / "manifest.json", facts)
    write_json(directory / "metrics.json", metrics)
    lines: list[dict[str, Any]] = []
    for mark in (1, 2, 3):
        step = 50 * mark + seed  # batches of so many tokens: another seed, other steps
        lines.append({"step": step, "loss": 3.0 / mark, "lr": 1e-3})
        if terms:
            lines[-1]["terms"] = {"mask": 2.0 / mark, "next-sentence": 1.0 / mark}
        lines.append({"step": step, "mark": mark, "dev": {"perplexity": 90.0 / mark + perplexity}})
    (directory / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return directory


def make_language_models(directory: Path) -> Path:
    runs = []
    for setting, perplexity in (("small", 30.0), ("large", 20.0)):
        for seed in range(3):
            name = f"{setting}-seed{seed}"
            make_language_model(directory / "runs" / name, seed, perplexity)
            runs.append({"name": name, "setting": setting, "seed": seed, "state": "done"})
    settings = [{"name": name} for name in ("small", "large")]
    write_json(directory / "study.json", {"format": 2, "settings": settings, "runs": runs})
    return directory


def test_a_run_of_any_objective(tmp_path: Path) -> None:
    folder = make_language_model(tmp_path / "run")
    write_run_report(folder, pictures=False)
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert "On test-2017 this model reaches a perplexity of 20.000." in text
    assert "flattering" not in text
    for name, value in (("dev", 21.0), ("test-2017", 20.0), ("test-2019", 60.0)):
        assert f"**{name}: 40 examples**" in text
        assert f"| **this model** | {value:.4f} | 0.3000 |" in text
    assert "share of the top five" in text
    assert "Kept is the checkpoint of step 100," in text
    assert "epoch" not in text.lower()
    for section in ("Confusions", "Calibration", "Errors"):
        assert f"## {section}" not in text
    assert "TF-IDF" not in text  # nor among the words that are explained
    assert judged_set(read_run(folder)) == "test-2017"


def test_each_term_of_the_loss_is_drawn(tmp_path: Path) -> None:
    run = read_run(make_language_model(tmp_path / "a"))
    for drawing in run_report(run).figures():
        drawing.chart.to_dict(validate=True)
    spec = Page(page(run_report(run))).specs["loss"]
    rows = [row for rows in spec["datasets"].values() for row in rows]
    assert {row["term"] for row in rows} == {"loss", "mask, a term", "next-sentence, a term"}
    assert [row["loss"] for row in rows if row["term"] == "mask, a term"] == [2.0, 1.0, 2.0 / 3]
    names = list(dict.fromkeys(p.name for p in points(run)))
    assert names == ["train/loss", "train/loss/mask", "train/loss/next-sentence", "train/lr", "dev/perplexity"]
    alone = read_run(make_language_model(tmp_path / "b", terms=False))
    spec = Page(page(run_report(alone))).specs["loss"]
    assert all("term" not in row for rows in spec["datasets"].values() for row in rows)


def test_a_study_of_any_objective(tmp_path: Path) -> None:
    folder = make_language_models(tmp_path / "study")
    c = compare(read_study(folder))
    assert (c.split, c.metric.name, [s.name for s in c.settings]) == ("test-2017", "perplexity", ["large", "small"])
    assert "so there is no verdict" in verdict(c)  # nobody has compared them
    write_study_report(folder)
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert "**The same on test-2019**" in text
    assert "epoch" not in text.lower()
    table = heedful.results(folder).table
    assert table[1]["test-2019_mean"] == 61.0
    assert table[1]["higher_is_better"] is False


def drawn(folder: Path) -> tuple[str, list[dict[str, Any]]]:
    spec = Page(page(study_report(read_study(folder)))).specs["learning"]
    rows = [row for rows in spec["datasets"].values() for row in rows if "setting" in row]
    return spec["layer"][0]["encoding"]["x"]["title"], rows


def test_marks_of_several_seeds_meet_at_their_mean_step(tmp_path: Path) -> None:
    title, rows = drawn(make_language_models(tmp_path))
    assert title == "step"
    large = [row for row in rows if row["setting"] == "large"]
    assert [(row["step"], row["seeds"]) for row in large] == [(51.0, 3), (101.0, 3), (151.0, 3)]
    assert large[0]["score"] == 110.0


def test_epochs_are_the_axis_where_there_are_epochs(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "epochs", ["a", "b"], n=30, seeds=(1, 2), settings={"x": (2.0, 5.0)})
    title, rows = drawn(folder)
    assert title == "epoch"
    assert [row["epoch"] for row in rows] == [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    for log in folder.glob("runs/*/log.jsonl"):  # several marks in an epoch: steps tell them apart
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        changed = [{**line, "epoch": 1 + (line["step"] - 1) // 40} for line in lines]
        log.write_text("".join(json.dumps(line) + "\n" for line in changed))
    title, rows = drawn(folder)
    assert title == "step"
    assert [row["step"] for row in rows] == [20, 40, 60, 80, 100, 120]


def test_where_a_run_was_stopped(tmp_path: Path) -> None:
    run = read_run(make_language_model(tmp_path / "run"))
    assert place_of_mark(run, 2) == "at step 100"
    assert place_of_mark(run, 9) == "at mark 9"
    for epochs, where in (((1, 2), "after epoch 2"), ((1, 1), "at step 20"), ((0.5, 1.5), "at step 20")):
        log = [LogLine(step=10 * n, epoch=epoch, dev={"x": 1}) for n, epoch in enumerate(epochs, start=1)]
        assert place_of_mark(replace(run, log=log), 2) == where
    stopped = replace(run, manifest=run.manifest.model_copy(update={"pruned": 2}))
    assert "Stopped at step 100: behind the median" in markdown.render(run_report(stopped), None)


def test_a_metric_whose_direction_nobody_states_is_refused(tmp_path: Path) -> None:
    folder = make_language_model(tmp_path / "run")
    manifest = json.loads((folder / "manifest.json").read_text())
    write_json(folder / "manifest.json", {**manifest, "metrics": METRICS[1:]})
    with pytest.raises(RequestError, match="nobody states whether a higher or a lower 'perplexity' is better"):
        run_report(read_run(folder))


def test_numbers_are_tested_like_classes(tmp_path: Path) -> None:
    settings = {"rough": (1.0, 5.0), "fine": (5.0, 5.0)}
    folder = make_study(tmp_path, None, seeds=(1, 2, 3), settings=settings, tested=True)
    write_study_report(folder)
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert (
        "Differences in Pearson correlation on test of fine, the best on dev, to the others; above zero, fine" in text
    )
    assert "## When to leave it to a person" not in text


def test_settings_on_other_rows_are_said_not_to_be_compared(tmp_path: Path) -> None:
    settings = {"one": (3.0, 5.0), "two": (2.0, 5.0)}
    folder = make_study(tmp_path / "a", ["a", "b"], seeds=(1, 2), n=60, settings=settings, tested=True)
    reason = "two was tested on other rows of test than one, so it is not compared."
    study = read_study(folder)
    rows = [row for row in study.statistics.comparisons if "two" not in (row.a, row.b)]
    changes = {"comparisons": rows, "not_compared": [NotCompared(setting="two", reason=reason)]}
    study = replace(study, statistics=study.statistics.model_copy(update=changes))
    assert f"two. {reason}" in verdict(compare(study))
    assert reason in markdown.render(study_report(study), None)


def test_statistics_of_another_metric_are_left_away(tmp_path: Path) -> None:
    folder = make_study(tmp_path, ["a", "b"], seeds=(1, 2), tested=True)
    study = read_study(folder)
    assert compare(study).statistics
    runs = [
        (entry, replace(run, metrics=run.metrics.model_copy(update={"primary": "log_loss"})))
        for entry, run in study.runs
        if run is not None
    ]
    c = compare(replace(study, runs=runs))  # type: ignore[arg-type]
    assert not c.statistics
    assert "no statistics of these scores" in verdict(c)


@pytest.mark.parametrize(("keep", "words"), [("best", "Kept is the checkpoint of step 100, with"), ("last", "Best on")])
def test_the_best_mark_is_told_by_the_metric_and_not_by_its_sign(keep: str, words: str, tmp_path: Path) -> None:
    folder = make_language_model(tmp_path / "run")
    manifest = json.loads((folder / "manifest.json").read_text())
    write_json(folder / "manifest.json", {**manifest, "recipe": {"training": {"keep": keep}}})
    text = markdown.render(run_report(read_run(folder)), None)
    assert words in text
    assert "step 100, with a perplexity of 65.0000 on dev" in text
    assert ("; kept is the last one." in text) == (keep == "last")
    assert "−" not in text
    run = replace(read_run(folder), log=[])
    assert "step 100, which scored 20.0000 on dev" in markdown.render(run_report(run), None)


def test_dev_flatters_a_run_only_where_it_chose_a_mark(tmp_path: Path) -> None:
    run = read_run(make_language_model(tmp_path / "run"))
    run = replace(run, metrics=run.metrics.model_copy(update={"splits": {"dev": run.scores("dev")}}))
    last = Manifest.model_validate({**run.manifest.written, "recipe": {"training": {"keep": "last"}}})
    cases = {"several marks": run, "one": replace(run, log=run.log[-1:]), "the last": replace(run, manifest=last)}
    said = {name: "flattering" in markdown.render(run_report(one), None) for name, one in cases.items()}
    assert said == {"several marks": True, "one": False, "the last": False}


def test_a_metric_and_its_value_make_a_sentence() -> None:
    said = {
        "accuracy": "an accuracy of 0.500",
        "F1": "an F1 of 0.500",
        "bits per byte": "0.500 bits per byte",
        "loss for each hidden word": "a loss of 0.500 for each hidden word",
        "share of answers that no training text holds": "a share of 0.500 of answers that no training text holds",
        "mean over tasks": "a mean of 0.500 over tasks",
    }
    assert {title: amount(title, 0.5) for title in said} == said


def test_the_fingerprint_of_a_corpus_in_shards_is_short(tmp_path: Path) -> None:
    folder = make_language_model(tmp_path / "run")
    manifest = json.loads((folder / "manifest.json").read_text())
    facts = {"bytes": 93202, "documents": 600, "sha256": "7690aa", "shards": [{"documents": 600, "tokens": 20650}]}
    manifest["data"]["fingerprints"] = {"train": json.dumps(facts), "dev": "0123", "test": json.dumps({"shards": []})}
    write_json(folder / "manifest.json", manifest)
    text = markdown.render(run_report(read_run(folder)), None)
    assert "- train: 7690aa, 600 documents, 93.2 kB\n" in text
    assert "- dev: 0123\n" in text
    assert "shards" not in text


@pytest.mark.parametrize("begun", [True, False])
def test_a_study_whose_runs_have_failed_is_headed_by_its_own_metric(begun: bool, tmp_path: Path) -> None:
    """As the run states it, if it came so far; else as its objective does."""
    folder = make_language_model(tmp_path / "runs" / "a-seed0")
    (folder / "metrics.json").unlink()
    manifest = json.loads((folder / "manifest.json").read_text())
    write_json(folder / "manifest.json", {**manifest, "state": "failed"})
    if not begun:
        (folder / "manifest.json").unlink()
    runs = [{"name": "a-seed0", "setting": "a", "seed": 0, "state": "failed", "reason": "no room"}]

    def title(objective: dict[str, Any], **evaluation: str) -> str:
        recipe = {"objective": objective, "evaluation": evaluation}
        settings = [{"name": "a", "recipe": recipe}]
        write_json(tmp_path / "study.json", {"format": 2, "settings": settings, "runs": runs})
        c = compare(read_study(tmp_path))
        assert f"| state | {c.metric.title} |" in markdown.render(study_report(c.study), None)
        return c.metric.title

    assert title({"kind": "mask"}) == ("perplexity" if begun else "loss for each hidden word")
    assert title({"kind": "causal"}, metric="token_loss") == ("perplexity" if begun else "loss for each token")
    assert title({"kind": "of a package that is gone"}) == ("perplexity" if begun else "accuracy")
