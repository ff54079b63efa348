"""What the runs of a study show together, against counting by hand."""

from pathlib import Path

import numpy as np
import pytest

from heedful.data.records import Dataset, Examples
from heedful.evaluation.statistics.paired import paired_bootstrap
from heedful.studies.evidence import Votes, evidence, read_examples, write_examples

LABELS = ["a", "b", "c"]


def votes(seeds: int, examples: int, skill: float, seed: int, gold: np.ndarray) -> Votes:
    random = np.random.default_rng(seed)
    scores = random.normal(size=(seeds, examples, 3))
    scores[:, np.arange(examples), gold] += skill
    p = np.exp(scores)
    return Votes(p / p.sum(axis=2, keepdims=True), gold)


@pytest.fixture(scope="module")
def world() -> dict[str, dict[str, Votes]]:
    found = {}
    for k, split in enumerate(("dev", "test")):
        gold = np.random.default_rng(k).integers(0, 3, 400)
        found[split] = {
            "good": votes(4, 400, 3.0, 10 + k, gold),
            "middling": votes(4, 400, 2.9, 20 + k, gold),
            "bad": votes(4, 400, 0.5, 30 + k, gold),
        }
    return found


def examples_of(v: Votes) -> list[dict[str, object]]:
    return [{"row": i, "text": f"text {i}", "pair": None, "gold": LABELS[g]} for i, g in enumerate(v.gold_e)]


def test_the_best_on_dev_against_each(world: dict[str, dict[str, Votes]]) -> None:
    test = world["test"]
    found = evidence(test, world["dev"], examples_of(test["good"]), LABELS)
    assert [row["b"] for row in found["comparisons"]] == ["middling", "bad"]
    for row in found["comparisons"]:
        alone = paired_bootstrap(test["good"].right_se, test[row["b"]].right_se)
        assert row["bootstrap"]["p"] == alone.p
        assert row["bootstrap"]["difference"] == pytest.approx(
            test["good"].right_se.mean() - test[row["b"]].right_se.mean()
        )
    worse, bad = found["comparisons"]
    assert bad["p_corrected"] == pytest.approx(min(1, 2 * bad["bootstrap"]["p"]))
    assert bad["p_corrected"] < 0.001 < worse["p_corrected"]


def test_the_best_against_a_bag_of_words(world: dict[str, dict[str, Votes]]) -> None:
    test, gold = world["test"], world["test"]["good"].gold_e
    answers = np.where(np.arange(400) < 300, gold, (gold + 1) % 3)
    found = evidence(test, world["dev"], examples_of(test["good"]), LABELS, answers.tolist())
    *_, last = found["comparisons"]
    assert last["b"] == "tfidf"
    assert last["bootstrap"]["difference"] == pytest.approx(test["good"].right_se.mean() - 0.75)
    assert last["bootstrap"]["p"] == paired_bootstrap(test["good"].right_se, (answers == gold)[None].astype(float)).p
    assert "order" not in last  # one answer for all seeds has no spread
    assert set(found["settings"]) == set(test)


def test_labels_that_all_seeds_contradict(world: dict[str, dict[str, Votes]]) -> None:
    """Ten labels are changed by hand; those that the seeds then contradict come first."""
    v = world["test"]["good"]
    sure = np.flatnonzero((v.predicted_se == v.gold_e).all(axis=0) & (v.p_sek.mean(axis=0).max(axis=1) > 0.9))[:10]
    gold = v.gold_e.copy()
    gold[sure] = (gold[sure] + 1) % 3
    changed = Votes(v.p_sek, gold)
    found = evidence({"good": changed}, {}, examples_of(changed), LABELS)["doubtful"]
    by_hand = [
        i for i in range(400) if len({int(s[i]) for s in v.predicted_se}) == 1 and int(v.predicted_se[0, i]) != gold[i]
    ]
    assert found["agreed_wrong"] == len(by_hand)
    assert len(sure) == 10
    assert set(sure.tolist()) <= {e["row"] for e in found["examples"]}
    chances = [e["probability"] for e in found["examples"][:5]]
    assert min(chances) > 0.9
    for e in found["seeds_disagree"]:
        assert len(e["votes"]) > 1
        assert sum(e["votes"].values()) == 4


def test_abstention_counts_what_is_above_the_threshold(world: dict[str, dict[str, Votes]]) -> None:
    test, dev = world["test"]["middling"], world["dev"]["middling"]
    found = evidence({"middling": test}, {"middling": dev}, examples_of(test), LABELS)["abstention"]
    for share, row in zip((1.0, 0.9, 0.8, 0.7, 0.6, 0.5), found["rows"], strict=True):
        kept, right = [], []
        for seed in range(4):
            threshold = np.quantile(dev.p_sek[seed].max(axis=1), 1 - share) if share < 1 else 0
            answers = [i for i in range(400) if test.p_sek[seed, i].max() >= threshold]
            kept.append(len(answers) / 400)
            right.append(np.mean([test.p_sek[seed, i].argmax() == test.gold_e[i] for i in answers]))
        assert row["answered"] == pytest.approx(np.mean(kept))
        assert row["accuracy"] == pytest.approx(np.mean(right))
    assert found["rows"][0]["answered"] == 1
    assert found["rows"][-1]["accuracy"] > found["rows"][0]["accuracy"]
    assert found["chosen_on"] == "dev"


def test_examples_with_any_character_come_back(tmp_path: Path) -> None:
    texts = ["a\x85b", "c\u2028d", "e\nf", "g\u2029", 'tab\t"quote"']
    held = Examples(texts, None, ["x", "y", "x", "y", "x"], None, list(range(5)))
    empty = Examples([], None, [], None, [])
    dataset = Dataset(name="d", train=held, dev=held, test=empty, kind="classes", labels=("x", "y"))
    write_examples(tmp_path / "examples", dataset)
    found = read_examples(tmp_path / "examples/dev.jsonl")
    assert [e["text"] for e in found] == texts
    assert [e["gold"] for e in found] == held.labels


def test_one_seed_of_one_setting(world: dict[str, dict[str, Votes]]) -> None:
    one = Votes(world["test"]["good"].p_sek[:1], world["test"]["good"].gold_e)
    found = evidence({"good": one}, {}, examples_of(one), LABELS)
    assert found["comparisons"] == []
    assert found["doubtful"] is None
    assert found["abstention"]["chosen_on"] == "the same examples"
    assert "stability" not in found["settings"]["good"]
