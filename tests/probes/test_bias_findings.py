"""What a probe says of models whose bias is known, and that it says no more than that."""

import json
import re
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from heedful.errors import RequestError
from heedful.evaluation.statistics.factors import difference, estimate
from heedful.evaluation.statistics.size import holm
from heedful.probes.bias.ask import Changes, ask
from heedful.probes.bias.findings import findings
from heedful.probes.bias.pairs import Counterfactual, PairSet
from heedful.probes.bias.wording import signed
from tests.support.bias_samples import Planted, Scored, crossed, subject


def found(*subjects: Any, pairs: PairSet | None = None, label: str | None = None) -> dict[str, Any]:
    pairs = pairs or crossed()
    return findings(pairs, [ask(one, pairs, label) for one in subjects])


def words(facts: dict[str, Any]) -> str:
    return " ".join(sentence for _, sentence in facts["verdict"])


def test_a_planted_bias_is_found_with_its_size() -> None:
    seeds = [Planted(0.08, seed) for seed in range(3)]
    facts = found(subject("biased", *seeds, random=True), subject("fair", Planted(0.0)))["subjects"]
    gap = facts["biased"]["gap"]
    assert gap["low"] < 0.08 < gap["high"]
    assert gap["high"] - gap["low"] < 0.02
    assert gap["p_corrected"] < 0.001
    assert "A gap is shown" in words(facts["biased"])
    assert "new templates, professions, terms and seeds" in words(facts["biased"])
    fair = facts["fair"]
    assert fair["gap"]["low"] < 0 < fair["gap"]["high"]
    assert "No gap is shown" in words(fair)
    assert "A true gap of up to" in words(fair)
    assert not re.search(r"unbiased|free (of|from)|no bias", words(fair))


def test_the_numbers_are_those_of_the_statistics() -> None:
    pairs = crossed(controls=False)
    changes = ask(subject("one", Planted(0.03)), pairs)
    codes = {
        name: np.unique([row.levels[name] for row in pairs.rows], return_inverse=True)[1] for name in pairs.factors
    }
    expected = estimate(changes.by_outcome["good"][0], codes)
    facts = findings(pairs, [changes])["subjects"]["one"]
    assert facts["gap"]["mean"] == pytest.approx(expected.mean)
    assert (facts["gap"]["low"], facts["gap"]["high"]) == pytest.approx(expected.interval())
    assert facts["gap"]["visible"] == pytest.approx(expected.visible())
    by_hand = {
        worker: np.mean([c for c, row in zip(changes.by_outcome["good"][0], pairs.rows, strict=True)
                         if row.levels["profession"] == worker])
        for worker in {row.levels["profession"] for row in pairs.rows}
    }  # fmt: skip
    assert {row["level"]: row["mean"] for row in facts["by"]["profession"]} == pytest.approx(by_hand)
    assert facts["flips"]["mean"] == changes.flipped.mean()


def test_tests_are_corrected_together() -> None:
    facts = found(subject("one", Planted(0.01)), subject("two", Planted(0.0, 1)), subject("three", Planted(0.0, 2)))
    gaps = [one["gap"] for one in facts["subjects"].values()]
    assert [gap["p_corrected"] for gap in gaps] == pytest.approx(holm([gap["p"] for gap in gaps]))
    assert {gap["tests"] for gap in gaps} == {3}
    rows = [row for part in facts["subjects"]["one"]["by"].values() for row in part]
    assert [row["p_corrected"] for row in rows] == pytest.approx(holm([row["p"] for row in rows]))
    assert {row["tests"] for row in rows} == {8 + 10 + 4 + 2}
    assert len(facts["comparisons"]) == 3


def test_a_bias_of_one_profession_is_found_there() -> None:
    class OfOne(Planted):
        def predict(self, texts: Any) -> Any:
            answers = super().predict(texts)
            some = np.array([0.2 if " p3 f" in text else 0.0 for text in texts])
            answers.probabilities = answers.probabilities + np.stack([-some, some], axis=1)
            return answers

    facts = found(subject("one", OfOne(0.0)))["subjects"]["one"]
    shown = [row["level"] for row in facts["by"]["profession"] if row["p_corrected"] <= 0.05]
    assert shown == ["worker 3"]
    assert "by profession: 1 of 10 (worker 3 +0.2" in words(facts)


def test_four_sentences_say_little_and_it_is_said() -> None:
    rows = tuple(Counterfactual(f"t{i} p0 m0", f"t{i} p0 f0", {"pair": str(i)}) for i in range(4))
    pairs = PairSet("published", "four sentences", ("men", "women"), rows, ("pair",))
    facts = found(subject("one", Planted(0.05, spread=0.05)), pairs=pairs)["subjects"]["one"]
    assert facts["gap"]["visible"] > 0.05
    assert "No gap is shown" in words(facts)
    few = PairSet("few", "two sentences", ("men", "women"), rows[:2], ("pair",))
    noisy = found(subject("one", Planted(0.05, 3, spread=0.1)), pairs=few)["subjects"]["one"]
    assert "too small to detect any gap reliably" in words(noisy)
    one = PairSet("single", "one sentence", ("men", "women"), rows[:1], ("pair",))
    alone = found(subject("one", Planted(0.05)), pairs=one)["subjects"]["one"]
    assert (alone["gap"]["low"], alone["gap"]["p"]) == (None, None)
    assert "One pair cannot be generalised" in words(alone)
    json.dumps(alone, allow_nan=False)


def test_the_control_tells_groups_from_words() -> None:
    fair = found(subject("fair", Planted(0.0, spread=0.05)))["subjects"]["fair"]["control"]
    assert fair["kinds"] == ["names"]
    assert fair["low"] < 0 < fair["high"]
    biased = found(subject("biased", Planted(0.2)))["subjects"]["biased"]["control"]
    assert biased["between"] == pytest.approx(0.2, abs=0.01)
    assert biased["within"] < 0.03
    assert biased["p"] < 0.001


def test_cells_without_a_control_are_left_out_of_it() -> None:
    whole = crossed()
    biased = subject("biased", Planted(0.2))
    some = replace(whole, controls=tuple(row for row in whole.controls if row.levels["template"] != "template 0"))
    control = found(biased, pairs=some)["subjects"]["biased"]["control"]
    assert control["between"] == pytest.approx(0.2, abs=0.01)
    assert control["n"] == 7 * 10
    elsewhere = tuple(replace(row, levels={**row.levels, "template": "other"}) for row in whole.controls)
    assert found(biased, pairs=replace(whole, controls=elsewhere))["subjects"]["biased"]["control"] is None


def test_one_seed_of_a_random_setting_is_about_this_run() -> None:
    facts = found(subject("run", Planted(0.08), random=True))["subjects"]["run"]
    assert "for this run only" in words(facts)
    assert "seeds" not in words(facts)


def test_scores_have_no_flips_and_more_classes_are_all_looked_at() -> None:
    scored = found(subject("scores", Scored(0.1)))["subjects"]["scores"]
    assert scored["flips"] is None
    assert scored["gap"]["mean"] == pytest.approx(0.5, abs=0.05)
    assert "the score changes by" in words(scored)
    three = found(subject("three", Planted(0.1, classes=3)))["subjects"]["three"]
    assert [gap["outcome"] for gap in three["gaps"]] == ["class 0", "class 1", "good"]
    assert three["gap"]["tests"] == 3
    picked = found(subject("three", Planted(0.1, classes=3)), label="class 1")["subjects"]["three"]
    assert [gap["outcome"] for gap in picked["gaps"]] == ["class 1"]
    assert picked["gap"]["mean"] == pytest.approx(-0.05, abs=0.01)


def test_what_cannot_be_asked_is_refused() -> None:
    pairs = crossed()
    with pytest.raises(RequestError, match="has no class 'bad'; it has class 0, good"):
        ask(subject("one", Planted(0.0)), pairs, "bad")
    with pytest.raises(RequestError, match="Remove --label"):
        ask(subject("one", Scored(0.0)), pairs, "good")
    with pytest.raises(RequestError, match="the model of seed 1 has the classes"):
        ask(subject("one", Planted(0.0), Planted(0.0, classes=3)), pairs)


def test_every_text_is_asked_once() -> None:
    class Counting(Planted):
        asked = 0

        def predict(self, texts: Any) -> Any:
            assert len(texts) == len(set(texts))
            Counting.asked += len(texts)
            return super().predict(texts)

    pairs = crossed()
    ask(subject("one", Counting(0.0)), pairs)
    assert Counting.asked == len({text for row in (*pairs.rows, *pairs.controls) for text in (row.a, row.b)})


def test_what_would_make_it_sharper() -> None:
    class ByTerm(Planted):
        """Every term has a change of its own, so that few terms are what limits the probe."""

        def predict(self, texts: Any) -> Any:
            answers = super().predict(texts)
            own = np.array([{"0": 0.1, "1": -0.1, "2": 0.05, "3": -0.06}[t[-1]] if " f" in t else 0.0 for t in texts])
            answers.probabilities = answers.probabilities + np.stack([-own, own], axis=1)
            return answers

    gap = found(subject("one", ByTerm(0.0)))["subjects"]["one"]["gap"]
    assert gap["sharper"]["factor"] == "term"
    assert gap["sharper"]["visible"] == pytest.approx(gap["visible"] / 2, rel=0.1)


def test_equal_changes_are_no_certainty() -> None:
    pairs = crossed(2, 1, 2, controls=False)
    alike = found(subject("alike", Planted(0.05, spread=0.0)), pairs=pairs)["subjects"]["alike"]
    assert (alike["gap"]["p"], alike["gap"]["low"], alike["gap"]["visible"]) == (None, None, None)
    assert "All 4 pairs change equally" in words(alike)
    still = found(subject("still", Planted(0.0, spread=0.0)), pairs=pairs)["subjects"]["still"]
    assert "Nothing changes in 4 pairs" in words(still)
    assert "shown" not in still["verdict"][0][1]


def test_a_few_preferences_that_agree_are_tosses_of_a_coin() -> None:
    """For a coin, every outcome of few pairs is counted: a false alarm in 5 % at the most."""
    for n in range(2, 10):
        rows = tuple(Counterfactual(f"a{i}", f"b{i}", {"pair": str(i)}) for i in range(n))
        pairs = PairSet("coins", "tosses", ("a", "b"), rows, ("pair",))
        alarms = 0
        for heads in product((-0.5, 0.5), repeat=n):
            changes = Changes("coin", False, ("",), "preference", {"preference": np.array([heads])})
            facts = findings(pairs, [changes])["subjects"]["coin"]
            alarms += facts["gap"]["p_corrected"] <= 0.05
            assert -0.5 <= facts["gap"]["low"] <= facts["gap"]["mean"] <= facts["gap"]["high"] <= 0.5
        assert alarms / 2**n <= 0.05
    assert "100.0% of pairs" in words(facts)


def test_seeds_that_disagree_are_not_averaged_away() -> None:
    facts = found(subject("two", Planted(0.2, 0), Planted(-0.2, 1), random=True))["subjects"]["two"]
    assert abs(facts["gap"]["mean"]) < 0.01
    assert facts["absolute"]["mean"] == pytest.approx(0.2, abs=0.01)
    assert 0.2 < abs(facts["most"]) < 0.3


def test_a_comparison_of_a_class_that_was_picked_is_corrected_for_it() -> None:
    facts = found(subject("one", Planted(0.02, 1, classes=3)), subject("two", Planted(0.0, 2, classes=3)))
    (row,) = facts["comparisons"]
    outcome = facts["subjects"]["one"]["gap"]["outcome"]
    pairs = crossed()
    a, b = (ask(s, pairs).by_outcome[outcome] for s in (
        subject("one", Planted(0.02, 1, classes=3)), subject("two", Planted(0.0, 2, classes=3))))  # fmt: skip
    levels = {name: np.unique([r.levels[name] for r in pairs.rows], return_inverse=True)[1] for name in pairs.factors}
    assert row["p"] == pytest.approx(min(1.0, 3 * difference(a, b, levels, False, False).p))
    assert f"the probability of {outcome}" in row["sentence"]


def test_levels_that_cannot_be_tested_are_not_corrected_for() -> None:
    rows = tuple(
        Counterfactual(f"t{i} p0 m0", f"t{i} p0 f0", {"writer": f"w{i}", "topic": "ab"[i % 2]}) for i in range(8)
    )
    pairs = PairSet("written", "by eight", ("men", "women"), rows, ("writer",), ("topic",))
    by = found(subject("one", Planted(0.05)), pairs=pairs)["subjects"]["one"]["by"]
    assert {row["tests"] for row in by["topic"]} == {2}
    assert "writer" not in by  # one pair of each


def test_what_was_cut_is_said() -> None:
    class Cutting(Planted):
        def predict(self, texts: Any) -> Any:
            answers = super().predict(texts)
            answers.truncated = 7
            return answers

    assert "7 texts were longer than" in words(found(subject("one", Cutting(0.0)))["subjects"]["one"])


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.1234, "+0.123"), (-0.0032, "−0.0032"), (0.0000312, "+0.000031"), (0.0, "0")],
)
def test_small_changes_keep_their_digits(value: float, written: str) -> None:
    assert signed(value) == written
