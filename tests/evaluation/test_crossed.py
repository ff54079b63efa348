"""Seeds × examples: by hand, by a linear model fitted elsewhere, and what must hold whatever the numbers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from heedful.evaluation.metrics import METRICS, mean_of
from heedful.evaluation.statistics.compare import (
    alpha_of_look,
    compare_all,
    corrected,
    expected_score,
    facts_of_many_seeds,
    more_seeds_can_decide,
)
from heedful.evaluation.statistics.crossed import (
    SeedsByExamples,
    Spread,
    p_value,
    pooled,
    variance_of_difference,
    variance_of_score,
    within,
)
from heedful.evaluation.statistics.more import components, floor, how_many_more, visible_difference
from heedful.evaluation.statistics.wording import Words

ACCURACY = METRICS["accuracy"]
BY_HAND = np.array([[1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 0.0, 1.0]])


def right(seeds: int, examples: int, p: float = 0.85, seed: int = 0, spread: float = 0.0) -> SeedsByExamples:
    """Runs that agree on most examples, as those of one setting do."""
    rng = np.random.default_rng(seed)
    liability = rng.normal(size=(1, examples)) * 0.9 + rng.normal(size=(seeds, examples)) * 0.436
    return SeedsByExamples((liability + spread * rng.normal(size=(seeds, 1)) < stats.norm.ppf(p)).astype(float))


def test_the_parts_by_hand() -> None:
    """Runs of 0.75 and 0.5; the means of the examples 1, ½, 0, 1; residuals of ± ⅛ and of 3/8 once."""
    x = SeedsByExamples(BY_HAND)
    assert float(x.score) == 0.625
    assert float(x.between) == pytest.approx(0.03125)
    assert x.mean_e.tolist() == [1, 0.5, 0, 1]
    assert float(x.residual) == pytest.approx(2 * (3 * (1 / 8) ** 2 + (3 / 8) ** 2) / 3)
    found, alone = variance_of_score(x, Spread(np.asarray(0.0), 3, 2)), variance_of_score(x)
    of_seeds, of_examples, of_both = 0.03125 / 2, np.var([1, 0.5, 0, 1], ddof=1) / 4, float(x.residual) / 8
    v = of_seeds + of_examples - of_both
    assert float(found.v) == float(alone.v) == pytest.approx(v)
    assert float(found.freedom) == pytest.approx(v**2 / (of_seeds**2 / 1 + of_examples**2 / 3))
    assert float(alone.freedom) == pytest.approx(1 / ((of_seeds / v) ** 0.75 / 1 + (of_examples / v) ** 0.75 / 3))


def test_one_seed_each_is_the_paired_t_test() -> None:
    a, b = right(1, 60).values, right(1, 60, 0.7, seed=1).values
    x, y = SeedsByExamples(a, random=False), SeedsByExamples(b, random=False)
    of, theirs = variance_of_difference(x, y), stats.ttest_rel(a[0], b[0])
    assert float(p_value(x.score - y.score, of)) == pytest.approx(theirs.pvalue)
    low, high = theirs.confidence_interval(0.9)
    assert (float(x.score - y.score) - of.half(0.9), float(x.score - y.score) + of.half(0.9)) == (
        pytest.approx(low),
        pytest.approx(high),
    )


def test_many_examples_leave_welchs_test_over_seeds() -> None:
    """If examples are alike, only seeds count."""
    rng = np.random.default_rng(0)
    a, b = (np.repeat(rng.normal(0.8, 0.03, (n, 1)), 50, axis=1) for n in (4, 6))
    x, y = SeedsByExamples(a), SeedsByExamples(b)
    theirs = stats.ttest_ind(a[:, 0], b[:, 0], equal_var=False)
    assert float(p_value(x.score - y.score, variance_of_difference(x, y))) == pytest.approx(theirs.pvalue)


def test_few_seeds_take_the_spread_of_all_settings_if_it_is_larger() -> None:
    calm, wild = right(2, 300), right(3, 300, seed=2, spread=0.5)
    alone = SeedsByExamples(np.ones((1, 300)), random=False)
    together = pooled([calm, wild, alone])
    assert together is not None
    assert together.freedom == 3
    assert float(together.between) == pytest.approx((float(calm.between) + 2 * float(wild.between)) / 3)
    of = variance_of_score(calm, together)
    assert float(of.of_seeds) == pytest.approx(float(together.between) / 2)
    assert float(of.v) > float(variance_of_score(calm).v)
    fixed = variance_of_difference(calm, alone, together)
    assert float(fixed.of_seeds) == pytest.approx(float(together.between) / 2)
    assert float(variance_of_score(wild, together).v) == float(variance_of_score(wild).v)  # its own is larger
    four = right(4, 300)
    assert float(variance_of_score(four, together).v) == float(variance_of_score(four).v)
    assert pooled([alone, right(1, 300)]) is None


@settings(max_examples=100)
@given(
    st.integers(1, 4), st.integers(2, 12), st.integers(0, 10_000), st.sampled_from([0.0, 0.02, 0.5, 0.98, 1.0]),
    st.sampled_from([0.9, 0.95, 0.999]),
)  # fmt: skip
def test_nothing_leaves_the_bounds(seeds: int, examples: int, seed: int, p: float, level: float) -> None:
    rng = np.random.default_rng(seed)
    for name in ("accuracy", "matthews", "log_loss"):
        values = (rng.random((seeds, examples)) < p).astype(float)
        values = 2 * values - 1 if name == "matthews" else values * 9 if name == "log_loss" else values
        found = expected_score(SeedsByExamples(values), Words(METRICS[name]), level=level)
        least, most = METRICS[name].bounds
        assert found.low is not None
        assert found.high is not None
        assert (least if least is not None else -math.inf) <= found.low <= found.mean + 1e-12
        assert found.mean - 1e-12 <= found.high <= (most if most is not None else math.inf)


def test_the_score_form_is_wilsons() -> None:
    """Of one run, whose variance is p(1 − p)/E with E − 1 for E: scipy's interval but for Student's quantile."""
    examples = 4000
    values = np.zeros((1, examples))
    values[0, :3600] = 1
    found = expected_score(SeedsByExamples(values, random=False), Words(ACCURACY))
    theirs = stats.binomtest(3600, examples).proportion_ci(0.95, "wilson")
    assert (found.low, found.high) == (pytest.approx(theirs.low, abs=1e-5), pytest.approx(theirs.high, abs=1e-5))
    all_right = expected_score(SeedsByExamples(np.ones((2, 265))), Words(ACCURACY))
    assert (all_right.low, all_right.high) == (pytest.approx(1 / (1 + stats.norm.ppf(0.975) ** 2 / 265)), 1.0)
    low, high = within(np.asarray(0.6), np.asarray(0.1), (-1.0, 1.0), 100, 0.95)
    assert (low, high) == (
        pytest.approx(math.tanh(math.atanh(0.6) - 0.1 / 0.64)),
        pytest.approx(math.tanh(math.atanh(0.6) + 0.1 / 0.64)),
    )


def test_what_is_said_of_a_setting() -> None:
    values = right(2, 265).values
    several = expected_score(SeedsByExamples(values), Words(ACCURACY))
    assert several.sentence.startswith("On other such examples and with other seeds expect an accuracy of 0.8")
    assert several.sentence.endswith("2 seeds, 265 test examples).")
    assert several.std == pytest.approx(float(np.std(values.mean(axis=1), ddof=1)))
    one = expected_score(SeedsByExamples(values[:1]), Words(ACCURACY))
    assert (one.about, one.std) == ("this run", None)
    assert "another seed may do better or worse" in one.sentence
    fixed = expected_score(SeedsByExamples(values[:1], random=False), Words(METRICS["f1"], "dev"))
    assert (fixed.about, fixed.low, fixed.high) == ("examples", one.low, one.high)
    assert "expect an F1 of" in fixed.sentence
    assert fixed.sentence.endswith("no seed plays a part, 265 dev examples).")
    assert expected_score(SeedsByExamples(np.ones((2, 1))), Words(ACCURACY)).low is None


def worlds() -> dict[str, SeedsByExamples]:
    return {
        "good": right(4, 600, 0.9, seed=1),
        "fair": right(4, 600, 0.88, seed=2),
        "bad": right(4, 600, 0.6, seed=3),
        "tfidf": SeedsByExamples(right(1, 600, 0.7, seed=4).values, random=False),
    }


def test_all_pairs_the_chosen_first() -> None:
    values = worlds()
    found = compare_all(values, ACCURACY, "fair")
    assert [(c.a, c.b) for c in found[:3]] == [("fair", "good"), ("fair", "bad"), ("fair", "tfidf")]
    assert len(found) == 6
    for c in found:
        d = float(values[c.a].score - values[c.b].score)
        of = variance_of_difference(values[c.a], values[c.b], pooled(list(values.values())))
        assert c.difference == pytest.approx(d)
        assert c.p == pytest.approx(float(p_value(np.asarray(d), of)))
        assert (c.low, c.high) == (pytest.approx(d - of.half(0.95)), pytest.approx(d + of.half(0.95)))
        assert c.p_corrected is not None
        assert c.p_corrected >= c.p
        assert (c.better is not None) == (c.decided == "different") == (c.p_corrected <= 0.05)
    against = {c.b: c for c in found if c.a == "fair"}
    assert (against["bad"].better, against["tfidf"].better) == ("a", "a")
    assert against["bad"].sentence.startswith("fair beats bad by ")
    assert "corrected for 6 comparisons" in against["bad"].sentence
    assert against["good"].decided != "different"
    turned = compare_all({k: SeedsByExamples(1 - v.values, v.random) for k, v in values.items()}, LOSS, "fair")
    for c, t in zip(found, turned, strict=True):  # where lower is better the same setting is ahead
        assert (t.better, t.p, t.decided) == (c.better, pytest.approx(c.p), c.decided)
        assert t.difference == pytest.approx(-c.difference)
    assert turned[1].sentence.startswith("fair beats bad by ")


LOSS = mean_of("error", "error", False, "wrong", bounds=(0.0, 1.0))


def test_one_seed_has_no_p_about_methods() -> None:
    values = {"one": SeedsByExamples(right(1, 500, 0.95).values), "many": right(3, 500, 0.6, seed=1)}
    (c,) = compare_all(values, ACCURACY, "one")
    assert (c.p, c.p_corrected, c.better, c.decided, c.about) == (None, None, None, "open", "this run")
    assert "one seed says nothing of other seeds" in c.sentence
    assert (c.visible.difference, c.visible.needs) == (None, [])
    assert c.more_seeds_can_decide
    both = compare_all({**values, "again": right(3, 500, 0.9, seed=2)}, ACCURACY, "one")
    assert [c.p is None for c in both] == [True, True, False]
    assert both[2].p == both[2].p_corrected  # the only one that is tested


def test_equal_answers() -> None:
    x = right(2, 50)
    (c,) = compare_all({"x": x, "y": x}, ACCURACY, "x")
    assert c.difference == 0
    (c,) = compare_all(
        {"x": SeedsByExamples(x.values[:1], False), "y": SeedsByExamples(x.values[:1], False)}, ACCURACY, "x"
    )
    counted = stats.chi2.ppf(0.95, 1) / 50
    assert c.high == -c.low == pytest.approx(counted / (1 + counted))  # as wide as a score of which nothing varies
    assert (c.p, c.decided) == (1, "open")
    assert "scored the same on every example" in c.visible.sentence
    assert "answers" not in c.visible.sentence  # wrong ones may differ
    many = SeedsByExamples(np.ones((1, 1000)), False)
    (c,) = compare_all({"x": many, "y": many}, ACCURACY, "x")
    assert c.decided == "alike"
    assert 0 < c.high < 0.004


def test_scores_at_their_bounds_differ_by_an_interval() -> None:
    """All right against all wrong: no example varies, and yet few examples show little."""
    for examples, shown in ((3, False), (8, True)):
        best, worst = (SeedsByExamples(np.full((3, examples), v)) for v in (1.0, 0.0))
        (c,) = compare_all({"best": best, "worst": worst}, ACCURACY, "best")
        assert c.p == pytest.approx(2.0 ** (1 - examples))
        assert (c.better, c.high) == ("a" if shown else None, 1.0)
        assert c.low < 0.7
        assert "differ by the same on every example" in c.visible.sentence
        assert not c.more_seeds_can_decide
    mean = SeedsByExamples(np.ones((1, 5)), False)
    (c,) = compare_all({"x": mean, "y": mean}, METRICS["mse"], "x")
    assert (c.low, c.high) == (0, 0)  # of an error without an upper end nothing is known


def test_what_was_shown_is_not_called_impossible() -> None:
    """In few examples, a difference near the largest that there can be."""
    a, b = SeedsByExamples(np.ones((3, 6))), SeedsByExamples(np.array([[0.0, 0, 0, 0, 0, 1]] * 3))
    (c,) = compare_all({"a": a, "b": b}, ACCURACY, "a")
    assert c.better == "a"
    assert c.visible.sentence.startswith("This study could show differences from about")
    small = Words(ACCURACY)
    hardly = how_many_more(right(2, 4, 0.5), right(2, 4, 0.4, seed=3), small, shown=True).sentence
    assert hardly.startswith("This study has shown this difference, and is too small to be sure to show any")
    found = how_many_more(right(3, 100, 0.9), right(3, 100, 0.88, seed=3), small, shown=True).sentence
    assert found.endswith("; this one, which is smaller, it has shown all the same.")
    assert "all the same" not in how_many_more(right(3, 100, 0.9), right(3, 100, 0.88, seed=3), small).sentence


@pytest.mark.parametrize("scale", [100.0, 0.001])
def test_alike_is_a_share_of_a_score_without_an_upper_end(scale: float) -> None:
    noise_e = np.tile([-1.0, 1.0], 150)
    relative = {"x": np.ones(300), "near": 1 + 0.1 * noise_e, "far": 1 + 0.5 * noise_e}
    values = {name: SeedsByExamples(scale * v_e[None], random=False) for name, v_e in relative.items()}
    near, far, _ = compare_all(values, METRICS["mse"], "x")
    assert near.high == pytest.approx(0.0114 * scale, rel=0.01)
    assert (near.decided, far.decided) == ("alike", "open")
    assert near.sentence.endswith(f"they differ by less than {0.02 * scale:g}.")
    assert [c.decided for c in compare_all(values, METRICS["mse"], "x", difference=0.01 * scale)[:2]] == ["open"] * 2


def test_many_settings_are_corrected_for_all_pairs_and_listed_with_the_chosen() -> None:
    values = {f"s{i}": right(2, 40, 0.6 + 0.02 * i, seed=i) for i in range(14)}
    found = compare_all(values, ACCURACY, "s3")
    assert [c.a for c in found] == ["s3"] * 13
    pairs, adjusted = corrected([values[n] for n in ("s3", *(n for n in values if n != "s3"))])
    assert len(pairs) == 91
    assert [c.p_corrected for c in found] == pytest.approx([adjusted[i] for i, (a, _) in enumerate(pairs) if a == 0])


def test_order_and_effect_from_ten_seeds_on() -> None:
    assert facts_of_many_seeds(right(9, 50), right(10, 50, seed=1), 1) == {}
    found = facts_of_many_seeds(right(10, 50, 0.9), right(10, 50, 0.6, seed=1), 1)
    assert found["effect"]["superiority"] > 0.5
    assert set(found) == {"order", "effect"}
    assert facts_of_many_seeds(right(10, 50, 0.9), right(10, 50, 0.6, seed=1), -1)["effect"]["superiority"] < 0.5


def test_looks_spend_what_there_is() -> None:
    assert [alpha_of_look(j) for j in (1, 2, 3)] == pytest.approx([0.025, 0.05 / 6, 0.05 / 12])
    assert sum(alpha_of_look(j) for j in range(1, 2000)) == pytest.approx(0.05, abs=1e-4)
    values = {"a": right(6, 3000, 0.9), "b": right(6, 3000, 0.9)}
    (c,) = compare_all(values, ACCURACY, "a", alpha=alpha_of_look(2), difference=0.02)
    assert c.decided == "alike"
    (wider,) = compare_all(values, ACCURACY, "a", alpha=alpha_of_look(9), difference=0.02)
    assert wider.high > c.high


def test_whether_more_seeds_can_decide() -> None:
    few, many = (right(3, n, 0.9, seed=1) for n in (60, 60_000))
    other, others = (right(3, n, 0.9, seed=2, spread=0.1) for n in (60, 60_000))
    assert not more_seeds_can_decide(few, right(3, 60, 0.9, seed=5), 0.05, 0.005)  # sixty examples never will
    assert more_seeds_can_decide(many, others, 0.05, 0.02)
    assert not more_seeds_can_decide(many, others, 0.05, 0.02, most_seeds=3)
    fixed = SeedsByExamples(other.values[:1], random=False)
    assert not more_seeds_can_decide(fixed, fixed, 0.05, 0.02)


def test_how_many_more_by_the_formula() -> None:
    a, b = right(5, 265, 0.88, spread=0.05), right(5, 265, 0.9, seed=7, spread=0.05)
    c = components(a, b)
    assert float(c.of_examples) == pytest.approx(
        max(0, np.var(a.mean_e - b.mean_e, ddof=1) - float(a.residual + b.residual) / 5)
    )
    v = sum(float(s) / 9 + float(r) / (9 * 700) for s, r in zip(c.of_seeds, c.of_both, strict=True))
    v += float(c.of_examples) / 700
    terms = [(float(s) + float(r) / 700) / 9 for s, r in zip(c.of_seeds, c.of_both, strict=True)]
    of_examples = (float(c.of_examples) + sum(float(r) for r in c.of_both) / 9) / 700
    freedom = v**2 / (sum(t**2 / 8 for t in terms) + of_examples**2 / 699)
    by_hand = (stats.t.ppf(1 - 0.025 / 3, freedom) + stats.t.ppf(0.8, freedom)) * math.sqrt(v)
    assert float(visible_difference(c, (9, 9), 700, pairs=3)) == pytest.approx(by_hand)
    lowest = 2.8 * math.sqrt(float(c.of_examples) / 265)
    assert float(floor(c, 265)) == pytest.approx(lowest, rel=0.01)


@pytest.mark.parametrize(("spread", "rows"), [(0.02, 265), (0.2, 265), (0.2, 20_000), (0.0, 3000)])
def test_what_is_asked_for_is_enough_and_no_more(spread: float, rows: int) -> None:
    a, b = right(3, rows, 0.88, spread=spread), right(3, rows, 0.88, seed=7, spread=spread)
    found, c = how_many_more(a, b, Words(ACCURACY), pairs=3), components(a, b)
    assert found.difference == pytest.approx(float(visible_difference(c, (3, 3), rows, 3)))
    assert found.floor is not None
    assert found.floor < found.difference
    assert found.rough
    for need in found.needs:
        if need.seeds_alone is None:
            assert float(visible_difference(c, (200, 200), rows, 3)) > need.difference
            assert any(words in need.sentence for words in ("seeds alone cannot", "alone can", "out of reach"))
        else:
            n = need.seeds_alone
            assert float(visible_difference(c, (n, n), rows, 3)) <= need.difference
            assert n == 3 or float(visible_difference(c, (n - 1, n - 1), rows, 3)) > need.difference
        if need.rows_alone is not None:
            assert float(visible_difference(c, (3, 3), need.rows_alone, 3)) <= need.difference
            assert need.rows_alone == rows or visible_difference(c, (3, 3), 0.88 * need.rows_alone, 3) > need.difference
        if need.seeds is not None:
            assert float(visible_difference(c, (need.seeds, need.seeds), need.rows, 3)) <= need.difference


def test_more_seeds_alone_cannot() -> None:
    """Five runs that all score the same, each wrong on some of the examples of the others and some of its own."""
    wrong_at = np.arange(265) - 4 * np.arange(5)[:, None]
    a, b = (SeedsByExamples(1.0 - ((wrong_at >= at) & (wrong_at < at + 30))) for at in (0, 60))
    found = how_many_more(a, b, Words(ACCURACY))
    assert not found.rough
    need = found.needs[1]
    assert need.seeds_alone is None
    assert need.sentence.startswith("To show a difference of 0.02 you need about ")
    assert need.sentence.endswith("; more seeds alone cannot.")
    fixed = how_many_more(SeedsByExamples(a.values[:1], False), SeedsByExamples(b.values[:1], False), Words(ACCURACY))
    assert "seeds" not in fixed.needs[1].sentence
    assert fixed.needs[1].seeds == 1


def test_a_difference_that_cannot_be_is_not_promised() -> None:
    """Three examples would need an accuracy more than 1 above another."""
    right_sn = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
    a, b = SeedsByExamples(right_sn), SeedsByExamples(right_sn[:, [2, 0, 1]])
    found = how_many_more(a, b, Words(ACCURACY))
    assert float(visible_difference(components(a, b), (3, 3), 3)) > 1
    assert found.difference is None
    assert found.sentence == "This study is too small to show any difference of accuracy between the two."
    assert found.needs


def test_studies_together_are_studies_one_by_one() -> None:
    """A leading axis of studies, as simulations have it, changes nothing."""
    a, b = (np.stack([right(3, 40, p, seed=s, spread=0.2).values for s in range(4)]) for p in (0.8, 0.7))
    x, y = SeedsByExamples(a), SeedsByExamples(b)
    p = p_value(x.score - y.score, variance_of_difference(x, y, pooled([x, y])))
    low, _ = within(x.score, variance_of_score(x, pooled([x, y])).half(0.95), (0.0, 1.0), 40, 0.95)
    _, adjusted = corrected([x, y, x])
    for s in range(4):
        one, two = SeedsByExamples(a[s]), SeedsByExamples(b[s])
        (c, *_) = compare_all({"a": one, "b": two}, ACCURACY, "a")
        assert c.p == pytest.approx(p[s])
        found = expected_score(one, Words(ACCURACY), pooled([one, two]))
        assert found.low == pytest.approx(low[s])
        assert corrected([one, two, one])[1] == pytest.approx(adjusted[s])


def test_floors_are_compared_with_the_chosen_one_only_and_change_no_other_pair() -> None:
    settings = {name: right(3, 200, share, seed=n) for n, (name, share) in enumerate({"x": 0.8, "y": 0.76}.items())}
    floors = {name: SeedsByExamples(right(1, 200, 0.7, seed=n).values, random=False) for n, name in enumerate("ab", 5)}
    (alone,) = compare_all(settings, ACCURACY, "x")
    found = compare_all({**floors, **settings}, ACCURACY, "x", floors=set(floors))
    assert [(c.a, c.b) for c in found] == [("x", "y"), ("x", "a"), ("x", "b")]
    assert found[0] == alone
    for c in found[1:]:
        assert c.p == c.p_corrected is not None
        assert c.pairs == 1
        assert c.difference == pytest.approx(settings["x"].score - floors[c.b].score)
    once = {"x": SeedsByExamples(settings["x"].values[:1]), "a": floors["a"]}
    assert compare_all(once, ACCURACY, "x", floors={"a"})[0].p_corrected is None
