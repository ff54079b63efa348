"""Shares of answers with intervals for other questions and, where seeds play a part, other seeds.

s seeds, e questions. A share may be of answers that differ from seed to seed (the confident ones, the wrong ones): then
it is a ratio R = Σ y / Σ w, and what question e contributes in the run of seed s is R + (y − R w) / w̄, whose mean is R
and whose spread is that of R. Where w is 1 throughout, these are the values themselves. `evaluation.statistics.crossed`
has the rest.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from heedful.evaluation.statistics.crossed import SeedsByExamples, Spread, Variance, p_value, variance_of_score, within

LEVEL = 0.95
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Facts = dict[str, Any]


def share(
    values_se: Floats | Bools, random: bool, chosen_se: Bools | None = None, together: Spread | None = None
) -> Facts:
    """The mean of values from 0 to 1 over the chosen answers (all, if None), its interval (from two questions on), how
    many questions (`n`) and `answers` they are, and the mean of each seed."""
    values_se = np.asarray(values_se, dtype=np.float64)
    chosen_se = np.ones(values_se.shape, dtype=bool) if chosen_se is None else chosen_se
    counts: Facts = {"n": int(chosen_se.any(axis=0).sum()), "answers": int(chosen_se.sum())}
    if not counts["answers"]:
        return {"mean": None, "low": None, "high": None, **counts, "by_seed": []}
    x = SeedsByExamples(_contributions(values_se, chosen_se), random)
    mean, low, high = float((values_se * chosen_se).sum() / chosen_se.sum()), None, None
    if x.examples > 1:
        half = variance_of_score(x, together).half(LEVEL)
        each = max(1, round(counts["answers"] / len(values_se)))
        low, high = (float(end) for end in within(np.asarray(mean), half, (0.0, 1.0), each, LEVEL))
    by_seed = [float(y[w].mean()) if w.any() else None for y, w in zip(values_se, chosen_se, strict=True)]
    return {"mean": mean, "low": low, "high": high, **counts, "by_seed": by_seed}


def change(
    values_se: Floats,
    random: bool,
    chosen_se: Bools | None = None,
    together: Spread | None = None,
    least_variance: float = 0.0,
) -> Facts:
    """The mean of differences from −1 to 1 with its interval and p; None for these where nothing says how others vary.

    p is no less than that of a sign test could be on as many questions. `least_variance`: of the mean, where less was
    seen than chance alone has.
    """
    chosen_se = np.ones(values_se.shape, dtype=bool) if chosen_se is None else chosen_se
    counts = {"n": int(chosen_se.any(axis=0).sum()), "answers": int(chosen_se.sum())}
    nothing: Facts = {"mean": None, "low": None, "high": None, "p": None, **counts}
    if not counts["answers"]:
        return nothing
    contributions_se = _contributions(values_se, chosen_se)
    x = SeedsByExamples(contributions_se, random)
    mean = float((values_se * chosen_se).sum() / chosen_se.sum())
    if x.examples < 2:
        return {**nothing, "mean": mean}
    of = variance_of_score(x, together)
    of = Variance(np.maximum(of.v, least_variance), of.freedom, of.of_seeds)
    differing = int((np.abs((values_se * chosen_se).sum(axis=0)) > 0).sum())
    p = max(float(p_value(np.asarray(mean), of)), min(1.0, 2.0 ** (1 - differing)))
    half = float(of.half(LEVEL))
    ends = (max(-1.0, mean - half), min(1.0, mean + half)) if half > 0 or mean == 0 else (None, None)
    return {"mean": mean, "low": ends[0], "high": ends[1], "p": p, **counts}


def _contributions(values_se: Floats, chosen_se: Bools) -> Floats:
    """Of the questions of which any seed has a chosen answer."""
    kept_e = chosen_se.any(axis=0)
    w_se = chosen_se[:, kept_e].astype(np.float64)
    y_se = values_se[:, kept_e] * w_se
    ratio = y_se.sum() / w_se.sum()
    return np.asarray(ratio + (y_se - ratio * w_se) / w_se.mean(), dtype=np.float64)


def auroc(right_se: Bools, confidence_se: Floats, random: bool) -> Facts:
    """Of a right and a wrong answer of one run, how often the right one has the higher confidence, ties by half; with
    an interval from what each answer contributes (DeLong et al., 1988). Runs that are all right or all wrong say
    nothing and are left out."""
    both = [s for s, right_e in enumerate(right_se) if right_e.any() and not right_e.all()]
    if not both:
        return {"mean": None, "low": None, "high": None, "n": right_se.shape[1], "seeds": 0}
    x = SeedsByExamples(np.stack([_pulls(right_se[s], confidence_se[s]) for s in both]), random)
    half = variance_of_score(x).half(LEVEL)
    least = min(min(int(right_se[s].sum()), int((~right_se[s]).sum())) for s in both)
    low, high = (float(end) for end in within(x.score, half, (0.0, 1.0), least, LEVEL))
    return {"mean": float(x.score), "low": low, "high": high, "n": x.examples, "seeds": len(both)}


def _pulls(right_e: Bools, confidence_e: Floats) -> Floats:
    """(e): their mean is the area; how often each right answer is above the wrong ones, and each wrong one below the
    right ones, as a distance from the area and with the weight of its kind."""
    right, wrong = confidence_e[right_e], confidence_e[~right_e]
    of_all = stats.rankdata(confidence_e)
    above = (of_all[right_e] - stats.rankdata(right)) / len(wrong)
    below = 1 - (of_all[~right_e] - stats.rankdata(wrong)) / len(right)
    area = float(above.mean())
    pulls = np.full(len(right_e), area)
    pulls[right_e] += (above - area) * len(right_e) / len(right)
    pulls[~right_e] += (below - area) * len(right_e) / len(wrong)
    return pulls
