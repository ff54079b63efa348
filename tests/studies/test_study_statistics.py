"""What the runs of a study show together, against counting by hand; matched by row, and by nothing else."""

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heedful.data.records import Dataset, Examples
from heedful.errors import RequestError
from heedful.evaluation.metrics import (
    CLASS_METRICS,
    METRICS,
    Metric,
    class_columns,
    mean_of,
    number_columns,
    pseudo_values,
)
from heedful.evaluation.scores import score_classes, score_numbers
from heedful.evaluation.statistics.classes import statistics_of_predictions
from heedful.evaluation.statistics.paired import paired_bootstrap
from heedful.objectives.classify import Classify
from heedful.recipes.reading import make_recipe
from heedful.storage.examples import read_examples, write_examples, write_values
from heedful.studies.baselines import keep_examples
from heedful.studies.statistics import write_statistics

LABELS = ["a", "b", "c"]
N = 200


class World:
    """A study in the making: runs with values and predictions, in whatever order their rows are."""

    def __init__(self, directory: Path, metric: Metric = CLASS_METRICS["accuracy"]) -> None:
        self.directory, self.metric = directory, metric
        self.facts: dict[str, Any] = {"runs": [], "settings": []}
        self.rows: list[dict[str, Any]] = []
        self.columns: dict[tuple[str, int, str], dict[str, Any]] = {}
        self.probabilities: dict[tuple[str, int, str], np.ndarray] = {}

    def gold(self, name: str) -> np.ndarray:
        rng = np.random.default_rng(len(name))
        return rng.integers(0, 3, N) if self.metric.name in CLASS_METRICS else rng.random(N) * 5

    def setting(
        self,
        setting: str,
        skill: float,
        *,
        seeds: int = 3,
        sets: tuple[str, ...] = ("dev", "test"),
        fingerprint: str = "one",
        rows: range = range(10, 10 + N),
        dev_mean: float | None = None,
    ) -> None:
        means: dict[str, list[float]] = {}
        for seed in range(seeds):
            run = self.directory / "runs" / f"{setting}-seed{seed}"
            for folder in ("values", "predictions"):
                (run / folder).mkdir(parents=True)
            scores = {}
            for name in sets:
                scores[name] = self._predict(run, setting, seed, name, skill, rows)
                means.setdefault(name, []).append(scores[name][self.metric.name])
            data = {"fingerprints": dict.fromkeys(sets, fingerprint), "sizes": {"train": 5}}
            (run / "manifest.json").write_text(json.dumps({"format": 2, "state": "done", "data": data}))
            (run / "metrics.json").write_text(json.dumps({"primary": self.metric.name, "splits": scores}))
            entry = {"name": run.name, "setting": setting, "seed": seed, "state": "done"}
            self.facts["runs"].append(entry)
        row = {f"{name}_mean": float(np.mean(values)) for name, values in means.items()}
        row |= {} if dev_mean is None else {"dev_mean": dev_mean}
        self.rows.append(
            {"setting": setting, "metric": self.metric.name, "higher_is_better": self.metric.higher_is_better, **row}
        )

    def _predict(self, run: Path, setting: str, seed: int, name: str, skill: float, rows: range) -> dict[str, Any]:
        rng = np.random.default_rng([seed, len(name), *setting.encode()])
        gold, key = self.gold(name), (setting, seed, name)
        order = rng.permutation(N)  # a run may write its rows in any order
        numbers = [rows[i] for i in order]
        path = run / "predictions" / f"{name}.tsv"
        if self.metric.name in CLASS_METRICS:
            logits = rng.normal(size=(N, 3))
            logits[np.arange(N), gold] += skill
            p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
            self.probabilities[key], self.columns[key] = p, class_columns(gold, p)
            lines = ["\t".join(["row", "label", *(f"p:{x}" for x in LABELS)])]
            lines += ["\t".join([str(rows[i]), LABELS[p[i].argmax()], *map(repr, p[i].tolist())]) for i in order]
            path.write_text("\n".join(lines) + "\n")
            scores = score_classes(gold, p, LABELS)
        else:
            predicted = gold + rng.normal(size=N) / skill
            self.columns[key] = number_columns(gold, predicted)
            scores = score_numbers(gold, predicted)
        columns = {column: values[order] for column, values in self.columns[key].items()}
        write_values(run / "values" / f"{name}.tsv", numbers, columns)
        return scores

    def right(self, setting: str, seeds: int = 3, name: str = "test") -> np.ndarray:
        return np.stack([self.columns[setting, seed, name]["right"] for seed in range(seeds)])

    def keep(self, fingerprint: str = "one", rows: range = range(10, 10 + N), sets: tuple[str, ...] = ("dev", "test")):
        for name in sets:
            lines = [
                {"row": rows[i], "gold": LABELS[g], "text": f"text {rows[i]}", "pair": None}
                for i, g in enumerate(self.gold(name))
            ]
            write_examples(self.directory / "examples", name, lines[::-1], fingerprint)

    def statistics(self, baselines: Any = None, labels: list[str] | None = LABELS) -> dict[str, Any]:
        further = functools.partial(statistics_of_predictions, labels=labels) if labels else None
        write_statistics(self.directory, self.facts, self.rows, METRICS, baselines, further)
        return json.loads((self.directory / "statistics.json").read_text())


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    for setting, skill in (("good", 3.0), ("middling", 2.7), ("bad", 0.5)):
        made.setting(setting, skill)
    made.keep()
    return made


def test_the_best_on_dev_against_each(world: World) -> None:
    found = world.statistics()
    assert (found["best"], found["split"], found["metric"], found["not_compared"]) == ("good", "test", "accuracy", [])
    assert [row["b"] for row in found["comparisons"]] == ["middling", "bad"]
    for row in found["comparisons"]:
        difference = world.right("good").mean() - world.right(row["b"]).mean()
        assert row["bootstrap"]["difference"] == pytest.approx(difference)
    worse, bad = found["comparisons"]
    assert bad["p_corrected"] == pytest.approx(min(1, 2 * bad["bootstrap"]["p"]))
    assert bad["p_corrected"] < 0.001 < worse["p_corrected"]


def test_values_are_paired_by_row_and_not_by_place(tmp_path: Path) -> None:
    """Two settings with the same answers, whose files are in other orders: without matching they would differ."""
    world = World(tmp_path)
    world.setting("x", 1.0, seeds=1)
    world.setting("y", 1.0, seeds=1)
    rng = np.random.default_rng(0)
    for setting in ("x", "y"):
        order = rng.permutation(N)
        columns = {name: values[order] for name, values in world.columns["x", 0, "test"].items()}
        write_values(tmp_path / f"runs/{setting}-seed0/values/test.tsv", [10 + i for i in order], columns)
    (row,) = world.statistics(labels=None)["comparisons"]
    assert row["bootstrap"]["difference"] == 0
    assert (row["bootstrap"]["low"], row["bootstrap"]["high"], row["permutation"]["p"]) == (0, 0, 1)


def test_settings_on_other_rows_are_not_compared(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.setting("first", 3.0)
    world.setting("same", 2.0)
    world.setting("other", 2.5, fingerprint="two")
    world.setting("shifted", 2.4, rows=range(11, 11 + N))  # the fingerprint is the same, the rows are not
    world.keep()
    found = world.statistics()
    assert [row["b"] for row in found["comparisons"]] == ["same"]
    reasons = {one["setting"]: one["reason"] for one in found["not_compared"]}
    assert reasons == {
        "other": "other was tested on other rows of test than first, so it is not compared.",
        "shifted": "shifted was tested on other rows of test than first, so it is not compared.",
    }
    assert set(found["settings"]) == {"first", "same"}


def test_seeds_on_different_rows_are_not_put_together(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.setting("first", 3.0)
    world.setting("mixed", 2.0)
    path = tmp_path / "runs/mixed-seed1/manifest.json"
    path.write_text(path.read_text().replace('"one"', '"two"'))
    found = world.statistics(labels=None)
    assert found["comparisons"] == []
    assert "mixed has runs that were tested on different rows of test" in found["not_compared"][0]["reason"]


def test_the_gold_of_other_rows_is_not_borrowed(tmp_path: Path) -> None:
    """The study has kept the examples of other rows than those that its runs were tested on."""
    world = World(tmp_path)
    world.setting("only", 3.0)
    world.keep(fingerprint="elsewhere")
    found = world.statistics()
    assert "doubtful" not in found
    assert read_examples(tmp_path / "examples", "test", "one") == []
    assert len(read_examples(tmp_path / "examples", "test", "elsewhere")) == N


def test_a_run_without_values_is_said_to_have_none(world: World) -> None:
    (world.directory / "runs/bad-seed1/values/test.tsv").unlink()
    found = world.statistics()
    assert [row["b"] for row in found["comparisons"]] == ["middling"]
    assert "bad has a run without values for each example" in found["not_compared"][0]["reason"]


@pytest.mark.parametrize("name", ["macro_f1", "matthews", "log_loss", "pearson", "spearman", "mse"])
def test_any_metric_is_tested_with_its_direction(name: str, tmp_path: Path) -> None:
    metric = METRICS[name]
    world = World(tmp_path, metric)
    world.setting("strong", 3.0)
    world.setting("weak", 0.7)
    weak = [world.columns["weak", 0, "test"]]
    baseline = {"tfidf": {"test": {"row": range(10, 10 + N), **weak[0]}}}
    found = world.statistics(baseline, labels=None)
    assert (found["best"], found["metric"], found["higher_is_better"]) == ("strong", name, metric.higher_is_better)
    setting, tfidf = found["comparisons"]
    means = {row["setting"]: row["test_mean"] for row in world.rows}
    difference = metric.sign * (means["strong"] - means["weak"])
    assert setting["bootstrap"]["difference"] == pytest.approx(difference)
    assert difference > 0
    assert setting["p_corrected"] < 0.01
    assert " ahead" in setting["bootstrap"]["sentence"]
    one = pseudo_values(metric, world.columns["weak", 0, "test"])[0]
    assert tfidf["b"] == "tfidf"
    assert tfidf["bootstrap"]["difference"] == pytest.approx(metric.sign * (means["strong"] - one))


def test_the_best_against_a_bag_of_words(world: World) -> None:
    gold = world.gold("test")
    answers = np.where(np.arange(N) < 150, gold, (gold + 1) % 3)
    columns = {"row": list(range(10, 10 + N)), "right": (answers == gold).astype(float)}
    shuffled = {name: np.asarray(column)[::-1] for name, column in columns.items()}
    found = world.statistics({"tfidf": {"test": shuffled}})
    *_, last = found["comparisons"]
    assert last["b"] == "tfidf"
    assert last["bootstrap"]["difference"] == pytest.approx(world.right("good").mean() - 0.75)
    assert "order" not in last  # one answer for all seeds has no spread
    others = world.statistics({"tfidf": {"test": {**columns, "row": list(range(N))}}})
    assert len(others["comparisons"]) == 2  # a baseline on other rows is compared with nothing


def test_sets_of_any_name(tmp_path: Path) -> None:
    world = World(tmp_path)
    for setting, skill in (("x", 2.0), ("y", 1.0)):
        world.setting(setting, skill, sets=("dev", "test-2017"))
    world.keep(sets=("dev", "test-2017"))
    found = world.statistics()
    assert found["split"] == "test-2017"
    assert found["abstention"]["chosen_on"] == "dev"
    difference = world.right("x", name="test-2017").mean() - world.right("y", name="test-2017").mean()
    assert found["comparisons"][0]["bootstrap"]["difference"] == pytest.approx(difference)


def test_a_metric_of_a_plugin(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.setting("x", 2.0)
    world.setting("y", 1.0)
    for row in world.rows:
        row["metric"] = "surprise"
    mine = mean_of("surprise", "surprise", False, column="log_loss")
    write_statistics(tmp_path, world.facts, world.rows, {"surprise": mine})
    found = json.loads((tmp_path / "statistics.json").read_text())
    assert found["comparisons"][0]["bootstrap"]["p"] < 0.01
    with pytest.raises(RequestError, match="nobody states whether a higher or a lower 'surprise' is better"):
        write_statistics(tmp_path, world.facts, world.rows, METRICS)
    mine = mean_of("surprise", "surprise", False, column="nats")
    with pytest.raises(RequestError, match=r"test\.tsv has no column 'nats', which surprise is made of"):
        write_statistics(tmp_path, world.facts, world.rows, {"surprise": mine})
    coarse = Metric("surprise", "surprise", False)
    write_statistics(tmp_path, world.facts, world.rows, {"surprise": coarse})
    found = json.loads((tmp_path / "statistics.json").read_text())
    assert found["comparisons"] == []
    assert "is not made of one value for each example" in found["not_compared"][0]["reason"]


def test_labels_that_all_seeds_contradict(world: World) -> None:
    """Ten labels are changed by hand; those that the seeds then contradict come first."""
    p = np.stack([world.probabilities["good", seed, "test"] for seed in range(3)])
    predicted, gold = p.argmax(axis=2), world.gold("test")
    sure = np.flatnonzero((predicted == gold).all(axis=0) & (p.mean(axis=0).max(axis=1) > 0.9))[:10]
    gold[sure] = (gold[sure] + 1) % 3
    lines = [{"row": 10 + i, "gold": LABELS[g], "text": f"text {10 + i}", "pair": None} for i, g in enumerate(gold)]
    write_examples(world.directory / "examples", "test", lines, "one")
    found = world.statistics()["doubtful"]
    by_hand = [i for i in range(N) if len(set(predicted[:, i])) == 1 and predicted[0, i] != gold[i]]
    assert len(sure) == 10
    assert found["agreed_wrong"] == len(by_hand)
    assert {10 + int(i) for i in sure} <= {e["row"] for e in found["examples"]}
    assert all(e["text"] == f"text {e['row']}" for e in found["examples"])
    assert min(e["probability"] for e in found["examples"][:5]) > 0.9
    for e in found["seeds_disagree"]:
        assert len(e["votes"]) > 1
        assert sum(e["votes"].values()) == 3


def test_abstention_counts_what_is_above_the_threshold(world: World) -> None:
    found = world.statistics()["abstention"]
    for share, row in zip((1.0, 0.9, 0.8, 0.7, 0.6, 0.5), found["rows"], strict=True):
        kept, right = [], []
        for seed in range(3):
            dev, test = (world.probabilities["good", seed, name] for name in ("dev", "test"))
            threshold = np.quantile(dev.max(axis=1), 1 - share) if share < 1 else 0
            answers = [i for i in range(N) if test[i].max() >= threshold]
            kept.append(len(answers) / N)
            right.append(np.mean([test[i].argmax() == world.gold("test")[i] for i in answers]))
        assert row["answered"] == pytest.approx(np.mean(kept))
        assert row["accuracy"] == pytest.approx(np.mean(right))
    assert found["rows"][0]["answered"] == 1
    assert found["rows"][-1]["accuracy"] > found["rows"][0]["accuracy"]
    assert found["chosen_on"] == "dev"


def test_one_seed_of_one_setting(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.setting("good", 3.0, seeds=1, sets=("dev",))
    world.keep()
    found = world.statistics()
    assert found["split"] == "dev"
    assert found["comparisons"] == []
    assert found["doubtful"] is None
    assert found["abstention"]["chosen_on"] == "the same examples"
    assert "stability" not in found["settings"]["good"]


def test_without_any_score_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "statistics.json").write_text("{}")
    write_statistics(tmp_path, {"runs": [], "settings": []}, [{"setting": "x", "n": 0}], METRICS)
    assert not (tmp_path / "statistics.json").exists()


def test_a_bootstrap_is_that_of_the_values(world: World) -> None:
    """In the order of the first run's rows, on which the draws hang."""
    order = np.random.default_rng([0, 4, *b"good"]).permutation(N)
    again = paired_bootstrap(world.right("good")[:, order], world.right("bad")[:, order])
    assert world.statistics()["comparisons"][1]["bootstrap"]["p"] == again.p


def test_examples_with_any_character_come_back(tmp_path: Path) -> None:
    texts = ["a\x85b", "c\u2028d", "e\nf", "g\u2029", 'tab\t"quote"']
    examples = Examples(texts, None, ["x", "y", "x", "y", "x"], None, list(range(5)))
    empty = Examples([], None, [], None, [])
    dataset = Dataset(name="d", train=examples, dev=examples, test=empty, kind="classes", labels=("x", "y"))
    recipe = make_recipe({"model": {"name": "m"}, "data": {"name": "d"}})
    keep_examples(tmp_path / "examples", Classify(recipe, 0, dataset))
    found = read_examples(tmp_path / "examples", "dev", None)
    assert [e["text"] for e in found] == texts
    assert [e["gold"] for e in found] == examples.labels
    assert not (tmp_path / "examples" / "test.jsonl").exists()
