"""What the runs of a study show together, against counting by hand; matched by row, and by nothing else."""

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heedful.data.labelled import LabelledData
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
from heedful.evaluation.statistics.compare import compare_all
from heedful.evaluation.statistics.crossed import SeedsByExamples
from heedful.storage.examples import read_examples, write_examples, write_values
from heedful.storage.study_record import StudyRecord
from heedful.studies.baselines import keep_examples
from heedful.studies.statistics import Compared, compared_settings, write_statistics

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

    def statistics(self, baselines: Any = None, labels: list[str] | None = LABELS, **more: Any) -> dict[str, Any]:
        further = functools.partial(statistics_of_predictions, labels=labels) if labels else None
        write_statistics(
            self.directory, StudyRecord.model_validate(self.facts), self.rows, METRICS, baselines, further, **more
        )
        return json.loads((self.directory / "statistics.json").read_text())


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    for setting, skill in (("good", 3.0), ("middling", 2.7), ("bad", 0.5)):
        made.setting(setting, skill)
    made.keep()
    return made


def test_what_stands_in_the_file(world: World) -> None:
    """All pairs of the settings, as the runs' values give them; the chosen one first and by name."""
    found = world.statistics()
    assert {k: found[k] for k in ("format", "split", "metric", "chosen", "examples", "alpha", "look")} == {
        "format": 2, "split": "test", "metric": "accuracy", "chosen": "good", "examples": N, "alpha": 0.05, "look": 1,
    }  # fmt: skip
    values = {name: SeedsByExamples(world.right(name)) for name in ("good", "middling", "bad")}
    expected = compare_all(values, CLASS_METRICS["accuracy"], "good")
    assert [(c["a"], c["b"]) for c in found["comparisons"]] == [(c.a, c.b) for c in expected]
    for c, e in zip(found["comparisons"], expected, strict=True):
        assert [c[k] for k in ("difference", "low", "high", "p", "p_corrected")] == pytest.approx(
            [e.difference, e.low, e.high, e.p, e.p_corrected], abs=1e-12
        )
        assert (c["better"], c["decided"], c["about"]) == (e.better, e.decided, "seeds and examples")
        assert "order" not in c
        assert [need["difference"] for need in c["visible"]["needs"]] == [0.01, 0.02, 0.05]
    assert (found["how_many_more"]["a"], found["how_many_more"]["b"]) == ("good", "middling")
    assert found["how_many_more"]["difference"] == found["comparisons"][0]["visible"]["difference"]
    for name, x in values.items():
        about = found["settings"][name]
        assert (about["baseline"], about["random"], about["seeds"]) == (False, True, 3)
        assert about["expected"]["mean"] == pytest.approx(float(x.score))
        assert 0 <= about["expected"]["low"] < about["expected"]["mean"] < about["expected"]["high"] <= 1


def test_another_may_be_chosen_and_what_scored_higher_is_named(world: World) -> None:
    found = world.statistics(chosen="middling", alpha=0.01, look=2)
    assert (found["chosen"], found["alpha"], found["look"]) == ("middling", 0.01, 2)
    assert [(c["a"], c["b"]) for c in found["comparisons"]] == [
        ("middling", "good"), ("middling", "bad"), ("good", "bad"),
    ]  # fmt: skip
    (higher,) = found["higher_on_test"]
    first = found["comparisons"][0]
    assert higher["setting"] == "good"
    assert higher["difference"] == -first["difference"] > 0
    assert (higher["low"], higher["high"]) == (-first["high"], -first["low"])
    assert "good scored 0." in higher["sentence"]
    assert "cannot be told from chance here" in higher["sentence"]
    assert "middling" in found["abstention"]["sentence"]
    assert "seeds of middling" in found["doubtful"]["sentence"]
    assert "beyond this model" in found["doubtful"]["sentence"]


def test_what_is_shown_alone_may_not_be_among_many() -> None:
    """12 examples are right in b alone and 3 in a alone, which one test would call a difference; there are six."""
    values = {name: np.tile([1.0, 0.0], 200) for name in "abcd"}
    for name, gained, lost in (("b", range(1, 24, 2), range(0, 6, 2)), ("c", (101, 103), (100, 102))):
        values[name][list(gained)], values[name][list(lost)] = 1, 0
    values["d"][[201, 203, 205, 200, 202, 204]] = [1, 1, 1, 0, 0, 0]

    def higher(settings: dict[str, np.ndarray]) -> str:
        made = {name: SeedsByExamples(x_e[None], random=False) for name, x_e in settings.items()}
        compared = Compared(list(range(len(settings["a"]))), made)
        found = compared_settings(compared, CLASS_METRICS["accuracy"], "a", "test", 0.05, 1, None, None)
        return next(one["sentence"] for one in found["higher_on_test"] if one["setting"] == "b")

    many, alone = higher(values), higher({name: values[name] for name in "ab"})
    assert "chance here once all 6 comparisons are allowed for (95 %: +0.00" in many
    assert "and that is shown (95 %: +0.00" in alone
    assert higher({"a": np.zeros(1), "b": np.ones(1)}).endswith(" than a, on one example, which shows nothing.")


def test_a_setting_without_chance_has_no_seeds(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.setting("solved", 3.0, seeds=1)
    world.setting("trained", 2.5)
    world.setting("alone", 2.0, seeds=1)
    world.facts["settings"] = [{"name": "solved", "random": False}, {"name": "trained", "random": True}]
    world.keep()
    found = world.statistics()
    wrong = int((world.right("solved", 1) == 0).sum())
    assert f"solved contradicts the label on {wrong} of {N} examples; each" in found["doubtful"]["sentence"]
    assert (len(found["doubtful"]["examples"]), found["doubtful"]["seeds_disagree"]) == (min(wrong, 25), [])
    assert found["settings"]["solved"]["expected"]["about"] == "examples"
    assert found["settings"]["alone"]["expected"]["about"] == "this run"
    ps = {(c["a"], c["b"]): c["p"] for c in found["comparisons"]}
    assert ps["solved", "trained"] is not None
    assert ps["solved", "alone"] is ps["trained", "alone"] is None


def test_a_baseline_may_be_chosen(world: World) -> None:
    gold = world.gold("test")
    answers = np.where(np.arange(N) < 150, gold, (gold + 1) % 3)
    tfidf = {"test": {"row": list(range(10, 10 + N)), "right": (answers == gold).astype(float)}}
    found = world.statistics({"tfidf": tfidf}, chosen="tfidf")
    assert found["chosen"] == "tfidf"
    assert [c["b"] for c in found["comparisons"] if c["a"] == "tfidf"] == ["good", "middling", "bad"]
    assert found["settings"]["tfidf"] | {"expected": 0} == {
        "baseline": True,
        "random": False,
        "seeds": 1,
        "expected": 0,
    }
    assert found["abstention"] is None
    assert "stability" in found["settings"]["good"]


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
    assert row["difference"] == 0
    assert 0 < row["high"] == -row["low"] < 4 / N  # examples are counted where none has been seen to differ


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


def test_the_others_are_compared_where_the_chosen_one_has_no_values(world: World) -> None:
    (world.directory / "runs/good-seed1/values/test.tsv").unlink()
    columns = {"row": list(range(10, 10 + N)), "right": np.ones(N)}
    found = world.statistics({"tfidf": {"test": columns}})
    assert found["chosen"] == "good"
    assert [(row["a"], row["b"]) for row in found["comparisons"]] == [
        ("middling", "bad"), ("middling", "tfidf"), ("bad", "tfidf"),
    ]  # fmt: skip
    assert set(found["settings"]) == {"middling", "bad", "tfidf"}
    assert [one["setting"] for one in found["not_compared"]] == ["good"]
    assert "how_many_more" not in found
    assert found["examples"] == N
    for run in world.directory.glob("runs/*/values/test.tsv"):
        run.unlink()
    found = world.statistics({"tfidf": {"test": columns}})
    assert list(found["settings"]) == ["tfidf"]
    assert [one["setting"] for one in found["not_compared"]] == ["good", "middling", "bad"]


def test_a_metric_without_values_for_each_example_says_what_its_mean_is_about(tmp_path: Path) -> None:
    world = World(tmp_path, CLASS_METRICS["ece"])
    for setting, seeds in (("five", 5), ("one", 1), ("solved", 1)):
        world.setting(setting, 2.0, seeds=seeds)
        world.rows[-1]["n"] = seeds
    world.facts["settings"] = [{"name": "solved", "random": False}]
    found = world.statistics({"tfidf": {"test": {}}}, labels=None)
    abouts = {name: (s["seeds"], s["expected"]["about"]) for name, s in found["settings"].items()}
    assert abouts == {"five": (5, "seeds and examples"), "one": (1, "this run"), "solved": (1, "examples")}
    assert "examples" not in found  # none was counted, which is not that there are none
    assert {one["setting"] for one in found["not_compared"]} == {"five", "one", "solved", "tfidf"}


@pytest.mark.parametrize("name", ["macro_f1", "matthews", "log_loss", "pearson", "spearman", "mse"])
def test_any_metric_is_tested_with_its_direction(name: str, tmp_path: Path) -> None:
    metric = METRICS[name]
    world = World(tmp_path, metric)
    world.setting("strong", 3.0)
    world.setting("weak", 0.7)
    weak = [world.columns["weak", 0, "test"]]
    baseline = {"tfidf": {"test": {"row": range(10, 10 + N), **weak[0]}}}
    found = world.statistics(baseline, labels=None)
    assert (found["chosen"], found["metric"], found["higher_is_better"]) == ("strong", name, metric.higher_is_better)
    setting, tfidf, _ = found["comparisons"]
    means = {row["setting"]: row["test_mean"] for row in world.rows}
    assert setting["difference"] == pytest.approx(means["strong"] - means["weak"])
    assert metric.better(setting["difference"], 0)
    assert setting["p_corrected"] < 0.01
    assert setting["better"] == "a"
    assert setting["sentence"].startswith("strong beats weak by ")
    one = pseudo_values(metric, world.columns["weak", 0, "test"])[0]
    assert tfidf["b"] == "tfidf"
    assert tfidf["difference"] == pytest.approx(means["strong"] - one)
    for about in found["settings"].values():
        expected, (least, most) = about["expected"], metric.bounds
        assert (-np.inf if least is None else least) <= expected["low"] < expected["mean"] < expected["high"]
        assert expected["high"] <= (np.inf if most is None else most)
    assert found["settings"]["strong"]["expected"]["mean"] == pytest.approx(means["strong"])


def test_baselines_take_part_in_all_pairs(world: World) -> None:
    gold = world.gold("test")
    answers = np.where(np.arange(N) < 150, gold, (gold + 1) % 3)
    columns = {"row": list(range(10, 10 + N)), "right": (answers == gold).astype(float)}
    shuffled = {name: np.asarray(column)[::-1] for name, column in columns.items()}
    found = world.statistics({"tfidf": {"test": shuffled}})
    against = {(c["a"], c["b"]): c for c in found["comparisons"]}
    assert len(against) == 6
    assert against["good", "tfidf"]["difference"] == pytest.approx(world.right("good").mean() - 0.75)
    assert ("bad", "tfidf") in against
    others = world.statistics({"tfidf": {"test": {**columns, "row": list(range(N))}}})
    assert len(others["comparisons"]) == 3
    assert "tfidf was tested on other rows of test than good" in others["not_compared"][0]["reason"]


def test_sets_of_any_name(tmp_path: Path) -> None:
    world = World(tmp_path)
    for setting, skill in (("x", 2.0), ("y", 1.0)):
        world.setting(setting, skill, sets=("dev", "test-2017"))
    world.keep(sets=("dev", "test-2017"))
    found = world.statistics()
    assert found["split"] == "test-2017"
    assert found["abstention"]["chosen_on"] == "dev"
    difference = world.right("x", name="test-2017").mean() - world.right("y", name="test-2017").mean()
    assert found["comparisons"][0]["difference"] == pytest.approx(difference)


def test_a_metric_of_a_plugin(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.setting("x", 2.0)
    world.setting("y", 1.0)
    for row in world.rows:
        row["metric"] = "surprise"
    mine = mean_of("surprise", "surprise", False, column="log_loss")
    write_statistics(tmp_path, StudyRecord.model_validate(world.facts), world.rows, {"surprise": mine})
    found = json.loads((tmp_path / "statistics.json").read_text())
    assert found["comparisons"][0]["p"] < 0.01
    with pytest.raises(RequestError, match="nobody states whether a higher or a lower 'surprise' is better"):
        write_statistics(tmp_path, StudyRecord.model_validate(world.facts), world.rows, METRICS)
    mine = mean_of("surprise", "surprise", False, column="nats")
    with pytest.raises(RequestError, match=r"test\.tsv has no column 'nats', which surprise is made of"):
        write_statistics(tmp_path, StudyRecord.model_validate(world.facts), world.rows, {"surprise": mine})
    coarse = Metric("surprise", "surprise", False)
    write_statistics(tmp_path, StudyRecord.model_validate(world.facts), world.rows, {"surprise": coarse})
    found = json.loads((tmp_path / "statistics.json").read_text())
    assert found["comparisons"] == []
    assert (found["settings"]["x"]["expected"]["low"], found["settings"]["x"]["expected"]["high"]) == (None, None)
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
        assert row["score"] == row["accuracy"] == pytest.approx(np.mean(right))
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
    write_statistics(tmp_path, StudyRecord(), [{"setting": "x", "n": 0}], METRICS)
    assert not (tmp_path / "statistics.json").exists()


def test_classes_are_judged_by_the_metric_that_was_asked_for(tmp_path: Path) -> None:
    world = World(tmp_path, METRICS["log_loss"])
    world.setting("good", 3.0)
    world.setting("lost", -1.0)
    world.keep()
    found = world.statistics()
    assert found["settings"]["good"]["failed"]["failed"] == []
    assert found["settings"]["lost"]["failed"]["failed"] == [0, 1, 2]
    assert "commonest class (log-loss 1.0" in found["settings"]["lost"]["failed"]["sentence"]
    assert found["abstention"]["metric"] == "log_loss"
    everything = np.mean([world.columns["good", seed, "test"]["log_loss"].mean() for seed in range(3)])
    assert found["abstention"]["rows"][0]["score"] == pytest.approx(everything)
    assert "with a log-loss of" in found["abstention"]["sentence"]


def test_examples_with_any_character_come_back(tmp_path: Path) -> None:
    texts = ["a\x85b", "c\u2028d", "e\nf", "g\u2029", 'tab\t"quote"']
    examples = Examples(texts, None, ["x", "y", "x", "y", "x"], None, list(range(5)))
    empty = Examples([], None, [], None, [])
    dataset = Dataset(name="d", train=examples, dev=examples, test=empty, kind="classes", labels=("x", "y"))
    keep_examples(tmp_path / "examples", LabelledData(dataset))
    found = read_examples(tmp_path / "examples", "dev", None)
    assert [e["text"] for e in found] == texts
    assert [e["gold"] for e in found] == examples.labels
    assert not (tmp_path / "examples" / "test.jsonl").exists()
