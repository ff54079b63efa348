"""What a knowledge probe finds in answers of which every figure is known, and that its shares are those of the
statistics."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from heedful.evaluation.metrics import mean_of
from heedful.evaluation.statistics.compare import compare_all, expected_score
from heedful.evaluation.statistics.crossed import SeedsByExamples, variance_of_score
from heedful.evaluation.statistics.wording import Words
from heedful.inference.questions import spelled
from heedful.probes.knowledge.ask import Said
from heedful.probes.knowledge.findings import findings
from heedful.probes.knowledge.judged import READ, TRAINED, judge
from heedful.probes.knowledge.material import Material
from heedful.probes.knowledge.names import KnownNames, KnownText
from heedful.probes.knowledge.report import knowledge_report
from heedful.probes.knowledge.shares import _pulls, auroc, change, share
from heedful.probes.knowledge.spelling import spelling_of
from heedful.report.page import markdown
from heedful.text.training import train_on_texts
from tests.support.question_samples import (
    ASKED,
    LINES,
    born,
    byte_tokenizer,
    known_answers,
    known_material,
    questions,
    to_the_letter,
)

METRIC = mean_of("exact_match", "exact match", True, "right", (0.0, 1.0))


@pytest.fixture(scope="module")
def found() -> dict:
    return findings([judge(known_answers())], 0.9)["subjects"]["known"]


def interval(k: int, n: int) -> tuple[float, float]:
    """The score form by hand: of n answers, k are right."""
    p = k / n
    a = stats.chi2.ppf(0.95, 1) / n if k in (0, n) else stats.t.ppf(0.975, n - 1) ** 2 / (n - 1)
    reach = math.sqrt(a * p * (1 - p) + a * a / 4)
    return max(0, (p + a / 2 - reach) / (1 + a)), min(1, (p + a / 2 + reach) / (1 + a))


def is_share(row: dict, k: int, n: int) -> None:
    assert (row["mean"], row["n"]) == (pytest.approx(k / n, abs=1e-12), n)
    if n > 1:
        assert (row["low"], row["high"]) == pytest.approx(interval(k, n), abs=1e-10)
    else:
        assert (row["low"], row["high"]) == (None, None)


def test_exact_match_and_the_commonest_answer(found: dict) -> None:
    is_share(found["exact_match"], 3, 8)
    base = found["baseline"]
    assert base["answer"] == "Rome"
    is_share(base["share"], 4, 8)
    differences = np.array([1, -1, 0, 0, 0, 0, -1, 0.0])
    t = stats.ttest_1samp(differences, 0)
    assert base["mean"] == -1 / 8
    assert base["p"] == base["p_corrected"] == pytest.approx(t.pvalue, abs=1e-10)
    ends = t.confidence_interval()
    assert (base["low"], base["high"]) == pytest.approx((ends.low, ends.high), abs=1e-10)


def test_made_up_is_what_neither_answers_nor_text_have(found: dict) -> None:
    is_share(found["made_up"], 1, 8)
    is_share(found["silent"], 1, 8)  # nothing is said, and so nothing made up
    assert found["made_up"]["distinct"] == 1
    assert [(one["said"], one["answer"]) for one in found["made_up"]["examples"]] == [("Xanadu", "Rome")]
    without_text = findings([judge(known_answers(with_text=False))], 0.9)["subjects"]["known"]
    is_share(without_text["made_up"], 2, 8)  # Paris was only in the text
    without_train = findings([judge(known_answers(with_train=False))], 0.9)["subjects"]["known"]
    is_share(without_train["made_up"], 1, 8)
    assert without_train["baseline"] is None


def test_a_tokenizer_that_folds_case_and_accents_is_found_the_same() -> None:
    """What it says is compared with answers, names and text as it spells them: every figure is that of the others."""
    letters = [chr(i) for i in range(97, 123)]
    lower = train_on_texts([" ".join(letters), "".join(letters), ".,'", *LINES], "wordpiece", 200, "bert")
    exact = known_answers()
    texts = tuple(tuple(spelled(lower, some)) for some in exact.texts)
    folded = replace(exact, texts=texts, spellings=(spelling_of(lower, exact.material),))
    assert folded.texts[0][0] == "oslo"
    one, other = judge(exact), judge(folded)
    for name in ("right_se", "made_up_se", "as_nearest_se", "chance_se", "silent_se"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert other.unspelled == 0
    text = KnownText("lines.txt", ["Mia Ö. Mia Ö lives in Zürich, or in St. John's."])
    holds = text.holds_in(lower)
    assert [holds(said) for said in spelled(lower, ["Zürich", "St. John's", "zurich", "Zür"])] == [True] * 3 + [False]
    assert [text.holds_in(byte_tokenizer())(said) for said in ("Zürich", "zurich")] == [True, False]


def test_an_answer_that_cannot_be_spelled_is_never_right() -> None:
    """Neither by silence, nor by what is left of it; and it is said how many there are."""
    lower = train_on_texts(["new york rome oslo"], "wordpiece", 100, "bert")
    asked = questions({"Ada Ray": "漢字", "Bo Lund": "New 漢", "Cy Moss": "Rome", "Di Moss": "Oslo"})
    material = Material("q", asked, "t", asked, None, names=KnownNames(asked))
    texts = ("", "new", "rome", "[UNK] [UNK]")
    said = Said("x", False, ("",), material, (texts,), np.full((1, 4), 0.5), (spelling_of(lower, material),))
    judged = judge(said)
    assert judged.right_se.tolist() == [[False, False, True, False]]
    assert judged.made_up_se is not None
    assert judged.made_up_se.tolist() == [[False, True, False, False]]  # something unknown may be a training answer
    assert judged.as_nearest_se is not None
    assert not judged.as_nearest_se.any()
    found = findings([judged], 0.9)["subjects"]["x"]
    assert found["unspelled"] == 2
    lines = dict(found["verdict"])
    assert "2 true answers have letters that the tokenizer cannot spell." in lines["Knows"]
    assert "25.0% of the answers are empty" in lines["Made up"]


def test_groups_by_line_and_by_training_answer(found: dict) -> None:
    rows = {row["level"]: row for rows in found["groups"].values() for row in rows}
    for level, k, n in zip((*READ, *TRAINED), (2, 0, 1, 3, 0), (2, 2, 4, 7, 1), strict=True):
        is_share(rows[level], k, n)
    assert rows[READ[1]]["confidence"] == pytest.approx(0.75)


def test_the_nearest_known_name(found: dict) -> None:
    new, wrong = found["nearest"]
    # Ada Moss (as Di Moss; a random other: 2 of 4), Zed Quill (Bo Lund is the nearest, both Rome; 2 of 4), Uma Fox (0)
    is_share(new["share"], 2, 3)
    assert new["chance"] == pytest.approx((2 / 4 + 2 / 4 + 0) / 3)
    assert new["mean"] == pytest.approx(new["share"]["mean"] - new["chance"])
    assert new["true"] == pytest.approx(2 / 3)  # Rome of Zed Quill, Oslo of Uma Fox
    # Kim Fox (Paris: nobody's), Lee Lund (as Bo Lund; 2 of 4), Ada Ray (herself left out; Xanadu: nobody's)
    is_share(wrong["share"], 1, 3)
    assert wrong["chance"] == pytest.approx(2 / 4 / 3)
    assert [one["nearest"] for one in wrong["examples"]] == [born("Bo Lund")]


def test_confidence_against_correctness(found: dict) -> None:
    calibration = found["calibration"]
    assert [one["n"] for one in calibration["bins"]] == [1] * 8
    off = [abs((said == answer) - sure) for _, answer, said, sure in ASKED]
    assert calibration["ece"] == pytest.approx(sum(off) / 8, abs=1e-12)
    assert calibration["auroc"]["mean"] == pytest.approx(12 / 15, abs=1e-12)
    assert calibration["ece_std"] is None
    curve = {point["threshold"]: point for point in found["curve"]}
    assert sorted(curve) == sorted(sure for *_, sure in ASKED)
    assert (curve[0.5]["coverage"], curve[0.5]["accuracy"], curve[0.5]["n"]) == (6 / 8, 3 / 6, 6)
    assert (curve[0.5]["low"], curve[0.5]["high"]) == pytest.approx(interval(3, 6), abs=1e-10)


def test_the_rule_is_judged_on_the_other_half(found: dict) -> None:
    first, second = found["rules"]
    assert first["threshold"] == 0.9  # of the first, third, fifth and seventh question only the first is so sure
    assert first["chosen_on"] == {"n": 4, "coverage": 0.25, "accuracy": 1.0}
    is_share(first["coverage"], 1, 4)
    is_share(first["accuracy"], 1, 1)
    assert second["threshold"] == 0.95
    is_share(second["coverage"], 0, 4)
    assert second["accuracy"]["mean"] is None


def test_the_words_say_the_numbers(found: dict) -> None:
    said = dict(found["verdict"])
    assert "37.5% of 8 questions" in said["Knows"]
    assert "“Rome”" in said["Baseline"]
    assert "could be chance" in said["Baseline"]
    assert "“Xanadu”" in said["Made up"]
    assert "at least 0.9. On the 4 questions that did not choose it" in said["Silence"]
    assert "80.0% of pairs" in said["Confidence"]
    assert "For 3 names" in said["New names"]
    assert "Among 3 wrong answers" in said["Mixed up"]


@pytest.mark.parametrize(
    ("right", "confidence", "words"),
    [
        ([0, 0, 0, 0], [0.9, 0.1, 0.8, 0.2], "No confidence is high enough"),
        ([1, 1, 1, 1], [0.9, 0.1, 0.8, 0.2], "Answer everything. On the 2 questions that did not choose it, 100.0%"),
        ([1, 1, 0, 1], [0.9, 0.1, 0.8, 0.2], "at least 0.9. On the 2 questions that did not choose it, 0.0%"),
        ([1], [0.5], "One question is too few"),
    ],
)
def test_rules_at_the_ends(right: list[int], confidence: list[float], words: str) -> None:
    n = len(right)
    material = known_material()
    few = type(material.questions)(*(column[:n] for column in vars(material.questions).values()))
    texts = tuple(answer if ok else "?" for answer, ok in zip(few.answers, right, strict=True))
    material = Material("q", few)
    said = Said("x", False, ("",), material, (texts,), np.array([confidence]), (to_the_letter(material),))
    facts = findings([judge(said)], 0.9)
    silence = dict(facts["subjects"]["x"]["verdict"])["Silence"]
    assert words in silence
    assert markdown.render(knowledge_report(facts), None).count(silence.split(".")[0]) == 1


def seeds_of(seed: int, seeds: int = 3, n: int = 40) -> np.ndarray:
    draw = np.random.default_rng(seed)
    skill_e = draw.random(n)
    return draw.random((seeds, n)) < skill_e


@pytest.mark.parametrize("random", [True, False])
def test_a_share_of_all_answers_is_the_score_to_expect(random: bool) -> None:
    right_se = seeds_of(1)[: 3 if random else 1]
    found = share(right_se, random)
    expected = expected_score(SeedsByExamples(right_se.astype(float), random), Words(METRIC))
    assert [found[k] for k in ("mean", "low", "high")] == pytest.approx(
        [expected.mean, expected.low, expected.high], abs=1e-10
    )


def test_a_share_of_some_answers_of_one_run_is_that_of_these_alone() -> None:
    right_se, chosen_se = seeds_of(2, 1), seeds_of(3, 1)
    found, alone = share(right_se, True, chosen_se), share(right_se[:, chosen_se[0]], True)
    assert found["n"] == alone["n"] == chosen_se.sum()
    assert [found[k] for k in ("mean", "low", "high")] == pytest.approx(
        [alone[k] for k in ("mean", "low", "high")], abs=1e-10
    )


def test_the_difference_from_a_baseline_is_the_comparison_of_the_statistics() -> None:
    right_se, baseline_e = seeds_of(4), seeds_of(5, 1)[0]
    found = change(right_se - baseline_e.astype(float), True)
    both = {
        "a": SeedsByExamples(right_se.astype(float)),
        "b": SeedsByExamples(baseline_e[None].astype(float), random=False),
    }
    (compared,) = compare_all(both, METRIC, "a")
    assert [found[k] for k in ("mean", "low", "high", "p")] == pytest.approx(
        [compared.difference, compared.low, compared.high, compared.p], abs=1e-10
    )


def test_few_questions_show_nothing_however_alike_they_are() -> None:
    found = change(np.ones((1, 3)), False)
    assert (found["mean"], found["low"], found["p"]) == (1.0, None, 0.25)


def test_the_area_is_that_of_scikit_learn_and_its_variance_that_of_delong() -> None:
    draw = np.random.default_rng(0)
    right_e = draw.random(60) < 0.4
    confidence_e = np.round(draw.random(60) * 0.7 + 0.3 * right_e, 1)  # with ties
    found = auroc(right_e[None], confidence_e[None], False)
    assert found["mean"] == pytest.approx(roc_auc_score(right_e, confidence_e), abs=1e-10)
    x, y = confidence_e[right_e], confidence_e[~right_e]
    wins = (x[:, None] > y) + 0.5 * (x[:, None] == y)
    delong = wins.mean(axis=1).var() / len(x) + wins.mean(axis=0).var() / len(y)
    ours = variance_of_score(SeedsByExamples(_pulls(right_e, confidence_e)[None], False)).v
    assert float(ours) * 59 / 60 == pytest.approx(delong, abs=1e-10)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    """The accuracy of confident answers, and the area, in worlds where both are known."""
    draw = np.random.default_rng(7)
    held, held_area, worlds = 0, 0, 400
    for _ in range(worlds):
        confidence_se = draw.random((1, 120))
        right_se = draw.random((1, 120)) < confidence_se
        found = share(right_se, False, confidence_se >= 0.6)
        held += found["low"] <= 0.8 <= found["high"]
        found = auroc(right_se, confidence_se, False)
        held_area += found["low"] <= 5 / 6 <= found["high"]  # ∫ 2c (2c − c²) dc
    assert 0.92 <= held / worlds <= 0.98
    assert 0.92 <= held_area / worlds <= 0.98


def test_the_interval_of_a_ratio_over_seeds_holds_the_truth_too() -> None:
    """Each seed is confident about other questions; how hard a question is, all of them share."""
    draw = np.random.default_rng(8)
    held, worlds = 0, 400
    for _ in range(worlds):
        confidence_se = draw.random((5, 60))
        right_se = draw.random(60) < confidence_se
        found = share(right_se, True, confidence_se >= 0.6)
        held += found["low"] <= 0.8 <= found["high"]
    assert 0.92 <= held / worlds <= 0.99


def test_answers_by_chance_are_seldom_called_an_effect() -> None:
    """Also where the nearest name's answer is never said, which alone would look like avoiding it."""
    draw = np.random.default_rng(3)
    shown, worlds = 0, 400
    for _ in range(worlds):
        chance_e = draw.choice([0.01, 0.05, 0.2], 40)
        same_e = draw.random(40) < chance_e
        least = float((chance_e * (1 - chance_e)).sum() / 40**2)
        shown += change((same_e - chance_e)[None], False, least_variance=least)["p"] <= 0.05
    assert shown / worlds <= 0.07


def test_several_seeds_and_several_models() -> None:
    one = known_answers()
    other = tuple("Rome" for _ in ASKED)
    sure = one.confidence_se
    both, sures = (one.texts[0], other), np.vstack([sure, sure[:, ::-1]])
    seeds = Said("seeds", True, ("0", "1"), one.material, both, sures, one.spellings * 2)
    facts = findings([judge(seeds), judge(one)], 0.5)
    found = facts["subjects"]["seeds"]
    assert found["exact_match"]["by_seed"] == [3 / 8, 4 / 8]
    assert found["exact_match"]["mean"] == pytest.approx(7 / 16)
    assert found["baseline"]["tests"] == 2
    assert found["baseline"]["p_corrected"] >= found["baseline"]["p"]
    wrong = found["nearest"][1]
    assert wrong["answers"] == 3 + sum(name in ("Eve Ray", "Lee Lund") for name, *_ in ASKED)
    assert found["about"] == "new questions like these and new seeds"
    assert found["calibration"]["ece_std"] > 0
    assert sum(one["answers"] for one in found["calibration"]["bins"]) == 16
    assert [(row["a"], row["b"]) for row in facts["comparisons"]] == [("seeds", "known")]
    report = knowledge_report(facts)
    for figure in report.figures():
        figure.chart.to_dict()  # as the schema of Vega-Lite has it
    assert [figure.name for figure in report.figures()] == ["refusing", "calibration-1", "calibration-2"]
    words = markdown.render(report, None)
    assert "seeds: 43.8% right" in words
    assert facts["comparisons"][0]["sentence"].split(" (")[0] in words
