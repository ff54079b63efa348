"""Confidence against correctness: whether it means what it says, and from which confidence on to answer.

s seeds, e questions. A threshold that is chosen and judged on the same questions flatters itself, so one half of them
chooses it (the first, the third, …) and the other half judges it.
"""

from decimal import ROUND_FLOOR, Context
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.evaluation.scores import BINS, bin_of, calibration_error, reliability
from heedful.probes.knowledge.shares import auroc, share

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Facts = dict[str, Any]
POINTS = 60
"""Of a curve, at most."""
_DIGITS = Context(prec=4, rounding=ROUND_FLOOR)
_ROUNDING = 1e-12


def calibration(right_se: Bools, confidence_se: Floats, random: bool) -> Facts:
    """The bins of all seeds together, without empty ones; the calibration error is the mean over seeds."""
    bins = []
    for number, one in enumerate(reliability(confidence_se.ravel(), right_se.ravel())):
        if one["n"]:
            found = share(right_se, random, bin_of(confidence_se, BINS) == number)
            ends = {key: found[key] for key in ("low", "high")}
            bins.append({**one, "n": found["n"], "answers": found["answers"], "interval": ends})
    errors = [calibration_error(reliability(c_e, r_e)) for c_e, r_e in zip(confidence_se, right_se, strict=True)]
    return {
        "bins": bins,
        "ece": float(np.mean(errors)),
        "ece_std": float(np.std(errors, ddof=1)) if len(errors) > 1 else None,
        "confidence": float(confidence_se.mean()),
        "auroc": auroc(right_se, confidence_se, random),
    }


def curve(right_se: Bools, confidence_se: Floats, random: bool) -> list[Facts]:
    """From answering everything to answering what is surest: for each threshold the share of questions that are
    answered, and of these answers the share that is right."""
    sorted_n = np.sort(confidence_se.ravel())
    places = np.unique(np.linspace(0, len(sorted_n) - 1, POINTS).astype(np.int64))
    points = []
    for threshold in sorted({floored(confidence) for confidence in sorted_n[places]}):
        answered_se = confidence_se >= threshold
        found = share(right_se, random, answered_se)
        accuracy = {"accuracy": found["mean"], **{key: found[key] for key in ("low", "high", "n", "answers")}}
        points.append({"threshold": threshold, "coverage": float(answered_se.mean()), **accuracy})
    return points


def floored(confidence: float) -> float:
    """Rounded down to four digits, so that what a person reads is the threshold that was judged."""
    return float(_DIGITS.create_decimal(repr(float(confidence))))


def rules(right_se: Bools, confidence_se: Floats, random: bool, wanted: float) -> list[Facts]:
    """The rule that one half chooses and the other judges, and the same the other way round."""
    first_e = np.arange(right_se.shape[1]) % 2 == 0
    if right_se.shape[1] < 2:
        return []
    return [_rule(right_se, confidence_se, random, wanted, half_e) for half_e in (first_e, ~first_e)]


def _rule(right_se: Bools, confidence_se: Floats, random: bool, wanted: float, choosing_e: Bools) -> Facts:
    right_n, confidence_n = right_se[:, choosing_e].ravel(), confidence_se[:, choosing_e].ravel()
    threshold, best = choose_threshold(right_n, confidence_n, wanted)
    chosen_on = {
        "n": int(choosing_e.sum()),
        "coverage": None if threshold is None else float((confidence_n >= threshold).mean()),
        "accuracy": None if threshold is None else float(right_n[confidence_n >= threshold].mean()),
    }
    made: Facts = {"wanted": wanted, "threshold": threshold, "best": best, "chosen_on": chosen_on}
    judged_right_se, judged_se = right_se[:, ~choosing_e], confidence_se[:, ~choosing_e]
    if threshold is None:
        return {**made, "n": judged_right_se.shape[1], "coverage": None, "accuracy": None}
    answered_se = judged_se >= threshold
    coverage, accuracy = share(answered_se, random), share(judged_right_se, random, answered_se)
    return {**made, "n": judged_right_se.shape[1], "coverage": coverage, "accuracy": accuracy}


def choose_threshold(right_n: Bools, confidence_n: Floats, wanted: float) -> tuple[float | None, float]:
    """The lowest threshold from which on the wanted share is right, 0 if that is so of all answers, None if there is
    none; and the highest share that any threshold has."""
    order = np.argsort(confidence_n, kind="stable")
    sorted_n, after_n = confidence_n[order], np.cumsum(right_n[order][::-1])[::-1]
    best = 0.0
    for threshold in sorted({0.0, *map(floored, confidence_n)}):
        first = int(np.searchsorted(sorted_n, threshold))
        accuracy = float(after_n[first] / (len(sorted_n) - first))
        if accuracy >= wanted - _ROUNDING:
            return threshold, accuracy
        best = max(best, accuracy)
    return None, best
