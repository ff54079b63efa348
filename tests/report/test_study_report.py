"""A study's report: the card says what the statistics allow, the table what each seed scored."""

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from heedful.evaluation.spread import summarise
from heedful.report.facts.checks import checks
from heedful.report.facts.comparison import compare
from heedful.report.page import markdown
from heedful.report.sections.card import verdict
from heedful.report.sections.details import pooled_bins
from heedful.report.sections.of_study import study_report
from heedful.report.study import write_study_report
from heedful.storage.runs import read_study
from tests.support.page_reader import Page
from tests.support.report_samples import decide, make_study, write_json

THREE = ["negative", "neutral", "positive"]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_study(tmp_path_factory.mktemp("study") / "study", THREE, failed=1, tested=True)
    (folder / "best").mkdir()
    write_study_report(folder)
    return folder


def metrics_of(folder: Path, setting: int, seeds: tuple[int, ...] = (1, 2, 3)) -> list[dict[str, Any]]:
    return [json.loads((folder / f"runs/setting{setting}-seed{s}/metrics.json").read_text()) for s in seeds]


def test_the_table_is_the_runs(study: Path) -> None:
    page = Page((study / "report.html").read_text(encoding="utf-8"))
    text = (study / "report.md").read_text(encoding="utf-8")
    scores = [m["splits"]["test"]["accuracy"] for m in metrics_of(study, 1)]
    s = summarise(scores)
    row = next(r for r in page.rows if r[0] == "minilm · full")
    expected = json.loads((study / "statistics.json").read_text())["settings"]["minilm · full"]["expected"]
    assert row[1] == f"{s['mean']:.4f} ± {s['std']:.4f}"
    assert row[2:5] == ["3", f"{expected['low']:.3f} to {expected['high']:.3f}", "chosen"]
    assert row[5].replace("\N{NO-BREAK SPACE}", " ") == ", ".join(f"{k}: {v:.4f}" for k, v in zip((1, 2, 3), scores))  # noqa: B905
    assert f"| 3 | {' | '.join(row[3:])} |".replace("\N{NO-BREAK SPACE}", " ") in text
    assert next(r for r in page.rows if r[0] == "bert-mini · full")[4] in ("shown to be worse", "not shown to be worse")
    baseline = metrics_of(study, 1)[0]["baselines"]["tfidf"]["test"]["accuracy"]
    assert f"| *TF-IDF* | {baseline:.4f} | 1 |" in text


def test_failed_runs_are_counted_and_named(study: Path) -> None:
    text = (study / "report.md").read_text(encoding="utf-8")
    assert "1 of 9 runs did not finish and is not counted." in text
    assert "failed: the loss was not finite at step 12, rows 3, 99" in text
    assert "The model is in best/, ready to use." in text


def test_each_setting_has_its_confusions_summed(study: Path) -> None:
    page = Page((study / "report.html").read_text(encoding="utf-8"))
    total = sum(m["splits"]["test"]["confusion"][0][1] for m in metrics_of(study, 1))
    spec = page.specs["confusion"]
    cells = [row for data in spec["datasets"].values() for row in data if row.get("setting") == "minilm · full"]
    assert next(c["n"] for c in cells if (c["gold"], c["predicted"]) == ("negative", "neutral")) == total
    assert spec["params"][0]["bind"]["options"] == ["minilm · full", "bert-mini · full", "minilm · frozen", "TF-IDF"]
    pictures = {p.stem for p in (study / "report").glob("*.png")}
    assert {"confusion-1", "confusion-2", "confusion-3", "reliability-1", "learning"} <= pictures
    assert {"score-time", "score-memory", "score-parameters"} <= pictures


def test_pooled_bins_weigh_by_count(study: Path) -> None:
    setting = compare(read_study(study)).scored[0]
    bins = [b for m in metrics_of(study, 1) for b in m["splits"]["test"]["bins"] if b["n"] and b["high"] == 1.0]
    last = pooled_bins(setting, "test")[-1]
    assert last["n"] == sum(b["n"] for b in bins)
    assert last["accuracy"] == pytest.approx(sum(b["n"] * b["accuracy"] for b in bins) / last["n"])


def test_the_tests_are_those_of_the_statistics(study: Path) -> None:
    found = json.loads((study / "statistics.json").read_text())
    text = html.unescape((study / "report.html").read_text(encoding="utf-8"))
    page = Page((study / "report.html").read_text(encoding="utf-8"))
    assert found["chosen"] == "minilm · full"
    ours = [row for row in found["comparisons"] if row["a"] == found["chosen"]]
    assert [row["b"] for row in ours] == ["bert-mini · full", "minilm · frozen", "tfidf"]
    for row in found["comparisons"]:
        cells = [f"{row[key]:+.3f}".replace("-", "−") for key in ("difference", "low", "high")]
        names = [{"tfidf": "TF-IDF"}.get(row[key], row[key]) for key in ("a", "b")]
        name = names[1] if row["a"] == found["chosen"] else " − ".join(names)
        assert [name, cells[0], f"{cells[1]} to {cells[2]}"] in [r[:3] for r in page.rows]
    assert all(row["sentence"] in text for row in ours)
    assert found["how_many_more"]["sentence"] in text
    assert found["doubtful"]["sentence"] in text
    assert found["abstention"]["sentence"] in text
    first = found["doubtful"]["examples"][0]
    assert any(row[0] == str(first["row"]) and first["predicted"] in row for row in page.rows)
    stable = found["settings"]["minilm · full"]["stability"]
    cells = ["minilm · full", *(str(stable[k]) for k in ("always", "sometimes", "never"))]
    assert cells in [row[:4] for row in page.rows]


def test_each_class_of_the_chosen_setting(study: Path) -> None:
    page = Page((study / "report.html").read_text(encoding="utf-8"))
    of_seeds = [m["splits"]["test"]["per_class"]["neutral"] for m in metrics_of(study, 1)]
    means = [f"{sum(s[key] for s in of_seeds) / 3:.3f}" for key in ("precision", "recall", "f1")]
    assert ["neutral", *means, str(of_seeds[0]["support"])] in page.rows
    assert "Each class on test, minilm · full, mean over 3 seeds" in page.text


def test_calibration_before_and_after(study: Path) -> None:
    page = Page((study / "report.html").read_text(encoding="utf-8"))
    sets = [m["calibration"]["test"] for m in metrics_of(study, 1)]
    cells = [f"{sum(s[w][k] for s in sets) / 3:.3f}" for k in ("ece", "log_loss") for w in ("before", "after")]
    assert ["minilm · full", *cells] in [row[:5] for row in page.rows]


def test_checks_that_warn_come_first(tmp_path: Path) -> None:
    folder = make_study(tmp_path, THREE, seeds=(1, 2), n=60, failed=1, settings={"x": (3.0, 5.0), "y": (2.0, 5.0)})
    facts = json.loads((folder / "study.json").read_text())
    facts["data"]["checks"] = [
        {"name": "leakage", "state": "pass", "sentence": "No text of test stands in train."},
        {"name": "duplicates", "state": "warn", "sentence": "3 rows repeat an earlier text."},
    ]
    write_json(folder / "study.json", facts)
    for run in folder.glob("runs/setting0-*/metrics.json"):
        metrics = json.loads(run.read_text())
        metrics["splits"]["test"]["per_class"]["neutral"]["recall"] = 0.0
        write_json(run, metrics)
    c = compare(read_study(decide(folder, chosen="x")))
    found = {check.name: (check.state, check.sentence) for check in checks(c)}
    states = [state for state, _ in found.values()]
    assert states == sorted(states, key=("warns", "passed").index)
    assert found["leakage"] == ("passed", "No text of test stands in train.")
    assert found["duplicates"][0] == "warns"
    assert found["classes never found"] == ("warns", "x finds no example of neutral on test.")
    assert found["unfinished runs"] == ("warns", "1 of 4 runs did not finish and is not counted.")
    assert found["few seeds"][0] == found["few rows"][0] == "warns"
    assert "Mind duplicates; " in markdown.render(study_report(c.study), None)


def checked(folder: Path) -> dict[str, tuple[str, str]]:
    return {check.name: (check.state, check.sentence) for check in checks(compare(read_study(folder)))}


def test_checks_of_runs_look_at_every_setting(tmp_path: Path) -> None:
    """The chosen setting is well; another one lost a run and a class, and a third has fewer seeds."""
    skills = {"x": (3.0, 5.0), "y": (2.0, 5.0), "z": (1.5, 5.0)}
    folder = make_study(tmp_path, THREE, seeds=(1, 2, 3, 4, 5), n=60, failed=2, settings=skills)
    decide(folder, chosen="x")
    before = checked(folder)
    assert before["runs that learned nothing"] == ("passed", "None of 3 settings.")
    assert before["classes never found"] == ("passed", "Each setting finds examples of each class of test.")
    few = "z has 3 seeds, so what is said about other seeds is rough; 5 are enough."
    assert before["few seeds"] == ("warns", few)
    for run in folder.glob("runs/setting1-*/metrics.json"):
        metrics = json.loads(run.read_text())
        metrics["splits"]["test"]["per_class"]["neutral"]["recall"] = 0.0
        write_json(run, metrics)
    statistics = json.loads((folder / "statistics.json").read_text())
    sentence = "1 of the 5 runs of y (20%) did not learn."
    statistics["settings"]["y"]["failed"] |= {"failed": [1], "share": 0.2, "sentence": sentence}
    write_json(folder / "statistics.json", statistics)
    after = checked(folder)
    assert after["runs that learned nothing"] == ("warns", sentence)
    assert after["classes never found"] == ("warns", "y finds no example of neutral on test.")


def test_a_check_names_three_settings_and_counts_the_others(tmp_path: Path) -> None:
    names = ["v", "w", "x", "y", "z"]
    folder = make_study(tmp_path, THREE, seeds=(1,), n=60, settings=dict.fromkeys(names, (2.0, 5.0)))
    decide(folder, chosen="x", fixed=("v",))
    statistics = json.loads((folder / "statistics.json").read_text())
    for name in names:
        statistics["settings"][name]["failed"] |= {"failed": [0], "sentence": f"{name} did not learn."}
    write_json(folder / "statistics.json", statistics)
    state, sentence = checked(folder)["runs that learned nothing"]
    assert (state, sentence.split(" ")[0]) == ("warns", "x")  # the chosen one first
    assert sentence.count("did not learn.") == 3
    assert sentence.endswith(" The same happened in 2 more settings.")
    state, sentence = checked(folder)["few seeds"]
    named = " and 1 more setting have 1 seed, which says nothing about others; 5 are enough."
    assert (state, sentence[:2], sentence[sentence.index(" and") :]) == ("warns", "x,", named)


def told(folder: Path) -> str:
    return verdict(compare(read_study(folder)))


def test_old_statistics_are_not_believed(tmp_path: Path) -> None:
    folder = make_study(tmp_path, THREE, seeds=(1, 2), n=60, settings={"x": (3.0, 5.0)})
    assert "has no statistics of these scores (yet), so there is no verdict" in told(folder)
    write_json(folder / "statistics.json", {"format": 1, "split": "test", "best": "x", "metric": "accuracy"})
    assert told(folder).startswith("The statistics of this study were written by an earlier version of heedful")
    write_study_report(folder)
    assert "| x | 0." in (folder / "report.md").read_text(encoding="utf-8")


def test_one_seed_concludes_little(tmp_path: Path) -> None:
    make_study(tmp_path, THREE, seeds=(1,), n=60, tested=True)
    words = told(tmp_path)
    assert "of this one run: other seeds may differ (95\N{NO-BREAK SPACE}%" in words
    assert "p = " not in words
    assert "p < " not in words
    assert "paired test" not in words
    assert "Not tested whether it beats bert-mini · full and minilm · frozen: one seed stands for a method." in words
    text = markdown.render(study_report(read_study(tmp_path)), "report")
    assert "no test" in text
    assert " ± – | 1 |" in text
    assert "mislabelled" not in text


def test_a_baseline_that_is_not_beaten(tmp_path: Path) -> None:
    words = told(make_study(tmp_path, THREE, settings={"x": (2.4, 5.0)}, n=60, tested=True))
    assert " to beat TF-IDF, the simpler model: " in words
    assert "TF-IDF is in baselines/tfidf." in words
    assert "the only" not in words  # TF-IDF competes
    chosen = told(decide(tmp_path, chosen="tfidf"))
    assert chosen.startswith("Use TF-IDF (the best on dev).")


def test_hidden_test_is_judged_on_dev(tmp_path: Path) -> None:
    make_study(tmp_path, THREE, seeds=(1, 2), splits=("dev",), n=60, tested=True)
    assert "2 seeds, 60 dev examples). The dev examples also made the choice" in told(tmp_path)


def test_nothing_finished(tmp_path: Path) -> None:
    make_study(tmp_path, THREE, seeds=(1,), settings={"x": (1.0, 5.0)}, failed=1)
    write_study_report(tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "there is nothing to conclude" in text
    assert "the loss was not finite" in text


def test_numbers(tmp_path: Path) -> None:
    make_study(tmp_path, None, seeds=(1, 2), tested=True)
    write_study_report(tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "Expect a Pearson correlation of 0." in text
    assert "| *the mean of training* | – | 0 | – |" in text
    assert "## Confusions" not in text
    assert "## Calibration" not in text


def test_lower_is_better_where_it_is(tmp_path: Path) -> None:
    settings = {"rough": (1.0, 5.0), "fine": (5.0, 5.0)}
    words = told(make_study(tmp_path, None, seeds=(1, 2), settings=settings, primary="mse", tested=True))
    assert words.startswith("Use fine (the best on dev). Expect a mean squared error of 0.0")
    assert re.search(r"rough by 0\.\d+ \(95\s%: 0\.\d+ to 1?0?\.?\d+", words)
    words = told(decide(tmp_path, chosen="rough"))
    assert re.search(r"fine scored \d\.\d+ lower on test", words)


def test_forty_classes_stay_small(tmp_path: Path) -> None:
    labels = [f"intent {i}" for i in range(40)]
    make_study(tmp_path, labels, seeds=(1,), settings={f"s{i}": (3.0, 5.0) for i in range(3)}, n=300)
    write_study_report(tmp_path)
    assert (tmp_path / "report.html").stat().st_size < 2_500_000


def test_the_barest_study(tmp_path: Path) -> None:
    write_json(tmp_path / "study.json", {})
    write_study_report(tmp_path)
    assert "nothing to conclude" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_what_is_said_of_learning_curves(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "study", ["a", "b"], n=40, seeds=(1, 2), settings={"x": (2.0, 5.0)}, tested=True)

    def text(points: int, **search: Any) -> str:
        files = {name: json.loads((folder / f"{name}.json").read_text()) for name in ("study", "statistics")}
        sizes = [{"rows": 10 * 2**i, "scores": [0.5, 0.6]} for i in range(points)]
        write_json(folder / "study.json", files["study"] | {"search": search})
        write_json(folder / "statistics.json", files["statistics"] | {"curves": [{"group": "x", "points": sizes}]})
        return markdown.render(study_report(read_study(folder)), None)

    two, three = text(2, curve=[0.5, 1]), text(3)
    assert "two sizes are too few for a curve" in two
    assert "each size trains for about as many steps" in two
    assert "Each seed draws rows of its own" in two
    assert "are for other seeds and, if the metric" in two
    assert "two sizes" not in three
    assert "as many steps" not in three  # the rows are one of the things that a search varies
    assert "Each seed draws" not in three


def test_marks_that_some_seeds_do_not_have(tmp_path: Path) -> None:
    """A run that patience has ended, and one whose score is undefined at a mark: means are then of fewer seeds."""
    folder = make_study(tmp_path / "study", ["bad", "good"], settings={"minilm · full": (3.0, 61.0)}, tested=True)
    assert "fewer seeds" not in markdown.render(study_report(read_study(folder)), None)
    first, second = (folder / "runs" / f"setting0-seed{seed}" for seed in (1, 2))
    lines = (first / "log.jsonl").read_text().splitlines()
    (first / "log.jsonl").write_text("".join(f"{x}\n" for x in lines if json.loads(x)["step"] <= 60))
    manifest = json.loads((first / "manifest.json").read_text())
    warned = {**manifest["data"], "warnings": ["9 of 10 training pairs (90%) are left out."]}
    early = {"step": 60, "steps": 120, "marks_without_gain": 2}
    write_json(first / "manifest.json", {**manifest, "stopped_early": early, "data": warned})
    kept, marks = [], 0
    for x in (second / "log.jsonl").read_text().splitlines():
        line = json.loads(x)
        marks += "dev" in line
        kept.append({**line, "mark": marks, "dev": {}} if "dev" in line and marks == 2 else
                    {**line, "mark": marks} if "dev" in line else line)  # fmt: skip
    (second / "log.jsonl").write_text("".join(json.dumps(x) + "\n" for x in kept))
    words = markdown.render(study_report(read_study(folder)), None)
    assert "the mean is of fewer seeds (minilm · full, seed 1: marks 4 to 6; minilm · full, seed 2: mark 2)" in words
    assert "1 of 3 runs stopped early, as dev had not gained (training.patience): setting0-seed1 at step 60" in words
    assert "9 of 10 training pairs (90%) are left out." in words


def test_small_differences_are_not_shown_as_zero(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "study", ["a", "b"], n=40, seeds=(1, 2), settings={"x": (2.0, 5.0)}, tested=True)
    found = json.loads((folder / "statistics.json").read_text())
    found["how_many_more"]["needs"][0]["difference"] = 0.000123
    write_json(folder / "statistics.json", found)
    assert "| 0.00012 | cannot |" in markdown.render(study_report(read_study(folder)), None)


def one_setting(folder: Path) -> Path:
    """Judged on dev, without a baseline that competes."""
    make_study(folder, THREE, seeds=(1, 2), splits=("dev",), n=60, settings={"x": (3.0, 5.0)})
    for path in folder.glob("runs/*/metrics.json"):
        metrics = json.loads(path.read_text())
        write_json(path, {**metrics, "baselines": {"majority": metrics["baselines"]["majority"]}})
    return decide(folder)


def test_dev_is_said_to_flatter_only_where_it_chose(tmp_path: Path) -> None:
    folder, said = one_setting(tmp_path), "The dev examples also made the choice"
    assert said in told(folder)  # of several marks, the best was kept
    for path in folder.glob("runs/*/manifest.json"):
        manifest = json.loads(path.read_text())
        manifest["recipe"]["training"]["keep"] = "last"
        write_json(path, manifest)
    assert said not in told(folder)
    for path in folder.glob("runs/*"):
        manifest = json.loads((path / "manifest.json").read_text())
        del manifest["recipe"]["training"]["keep"]
        write_json(path / "manifest.json", manifest)
        (path / "log.jsonl").write_text((path / "log.jsonl").read_text().splitlines()[-1] + "\n")
    assert said not in told(folder)  # a single mark
    facts = json.loads((folder / "study.json").read_text())
    tried = [*facts["settings"], {**facts["settings"][0], "name": "y"}]
    write_json(folder / "study.json", {**facts, "settings": tried, "final_settings": facts["settings"]})
    assert said in told(folder)  # a search has chosen it


def test_a_baseline_that_is_only_scored_is_told(tmp_path: Path) -> None:
    words = told(one_setting(tmp_path))
    assert "There is no baseline" not in words
    assert re.search(r"whether it beats the commonest class, which has an accuracy of 0\.\d+; it does in these", words)


CLEARLY, JUST, LEVEL = ("is clearly ahead in this run", "is ahead of it on dev", "is level with it on dev")


@pytest.mark.parametrize(
    ("low", "high", "behind"),
    [(-0.454, -0.186, CLEARLY), (-0.4, 0.1, JUST), (-0.1, 0.1, LEVEL), (-0.1, 0.4, ""), (0.1, 0.4, "")],
)
def test_what_is_not_ahead_of_a_guess_is_not_recommended(low: float, high: float, behind: str, tmp_path: Path) -> None:
    """A baseline that is no model cannot be used instead."""
    folder = one_setting(tmp_path)
    statistics = json.loads((folder / "statistics.json").read_text())
    statistics["settings"]["majority"] = {"baseline": True, "random": False, "expected": {"mean": 0.6}}
    row = {"a": "x", "b": "majority", "difference": (low + high) / 2, "low": low, "high": high}
    write_json(
        folder / "statistics.json", {**statistics, "comparisons": [{**row, "p_corrected": None, "better": None}]}
    )
    words = told(folder)
    told_first = f"x is not good enough yet (the only setting that is a model; the commonest class {behind})"
    ahead = "Use x (the only setting)" if low > 0 else "x is not shown to beat the commonest class (the only setting)"
    assert words.startswith(told_first if behind else ahead)
    assert "to use" not in words or low > 0
    standing = "the same score" if low == -high else rf"0\.\d+ {'ahead' if low + high > 0 else 'behind'}"
    assert re.search(f"beats the commonest class: {standing} in this run", words)


def test_a_guess_is_beaten_only_where_a_test_shows_it(tmp_path: Path) -> None:
    folder = one_setting(tmp_path)
    statistics = json.loads((folder / "statistics.json").read_text())
    statistics["settings"]["majority"] = {"baseline": True, "random": False, "expected": {"mean": 0.6}}
    row = {"a": "x", "b": "majority", "difference": 0.2, "low": 0.01, "high": 0.4}
    for p, better, title in (
        (0.3, None, "x is not shown to beat the commonest class (the only setting)"),
        (0.01, "a", "Use x (the only setting)"),
    ):
        tested = {**row, "p_corrected": p, "better": better}
        write_json(folder / "statistics.json", {**statistics, "comparisons": [tested]})
        assert told(folder).startswith(title)


def test_a_guess_that_was_not_tested_is_not_recommended_against(tmp_path: Path) -> None:
    """As in a study of an earlier version, whose statistics say nothing of guesses."""
    folder = one_setting(tmp_path)
    for path in folder.glob("runs/*/metrics.json"):
        metrics = json.loads(path.read_text())
        metrics["baselines"]["majority"]["dev"]["accuracy"] = 0.999
        write_json(path, metrics)
    words = told(folder)
    assert words.startswith("x is not good enough yet (the only setting that is a model; the commonest class is ahead")


@pytest.mark.parametrize(
    ("confusion", "said"),
    [
        ([[9, 0, 1], [5, 0, 5], [1, 0, 9]], "Mind It never predicts “neutral” (1 of 3 classes) on dev."),
        ([[9, 0, 0], [5, 0, 0], [9, 0, 0]], "It never predicts “neutral” and “positive” (2 of 3 classes) on dev."),
        ([[9, 0, 0], [0, 0, 0], [9, 0, 1]], ""),  # there is no neutral example
        ([[9, 1, 0], [5, 0, 5], [1, 0, 9]], ""),
    ],
)
def test_classes_that_are_never_predicted_are_named(confusion: list[list[int]], said: str, tmp_path: Path) -> None:
    folder = one_setting(tmp_path)
    for path in folder.glob("runs/*/metrics.json"):
        metrics = json.loads(path.read_text())
        metrics["splits"]["dev"]["confusion"] = confusion
        for k, scores in enumerate(metrics["splits"]["dev"]["per_class"].values()):
            scores |= {"recall": confusion[k][k] / max(1, sum(confusion[k])), "support": sum(confusion[k])}
        write_json(path, metrics)
    words = told(folder)
    assert ("never predicts" in words) == bool(said)
    assert said in words
    lost = "classes never found" in words  # one that is predicted, but never rightly, is a check's
    assert lost == (confusion[1] == [5, 0, 5] and not said)


def test_many_classes_that_are_never_predicted_are_counted(tmp_path: Path) -> None:
    folder = make_study(tmp_path, [f"c{k}" for k in range(8)], seeds=(1, 2), n=80, settings={"x": (3.0, 5.0)})
    for path in folder.glob("runs/*/metrics.json"):
        metrics = json.loads(path.read_text())
        metrics["splits"]["test"]["confusion"] = [[10, *[0] * 7] for _ in range(8)]
        write_json(path, metrics)
    assert "It never predicts “c1”, “c2”, “c3” and 4 more (7 of 8 classes) on test." in told(decide(folder))


def test_the_results_say_what_the_settings_of_a_search_are(tmp_path: Path) -> None:
    folder = one_setting(tmp_path)
    write_study_report(folder)
    assert "model.kind" not in (folder / "report.md").read_text(encoding="utf-8")
    facts = json.loads((folder / "study.json").read_text())
    values = {"model.kind": "bert-fused", "data.limit": 100}
    write_json(folder / "study.json", {**facts, "settings": [{**s, "values": values} for s in facts["settings"]]})
    write_study_report(folder)
    results = (folder / "report.md").read_text(encoding="utf-8").partition("## Results")[2].partition("\n## ")[0]
    assert 'x: model.kind = "bert-fused", data.limit = 100.' in results
