"""What the seed alone changes: which examples flip, and which runs did not learn at all."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heedful.evaluation.statistics.wording import Words


@dataclass(frozen=True)
class Stability:
    always: int
    never: int
    sometimes: int
    """Examples that all seeds, no seed, some seeds get right."""
    agreement: float
    """The mean share of examples on which two seeds predict the same."""
    sentence: str


def stability(name: str, predicted_se: npt.NDArray[np.int64], gold_e: npt.NDArray[np.int64]) -> Stability:
    right = predicted_se == gold_e
    seeds, examples = right.shape
    if seeds < 2:
        raise ValueError("stability is about several seeds")
    total = right.sum(axis=0)
    always, never = int((total == seeds).sum()), int((total == 0).sum())
    pairs = [float((predicted_se[i] == predicted_se[j]).mean()) for i in range(seeds) for j in range(i + 1, seeds)]
    agreement = float(np.mean(pairs))
    sometimes = examples - always - never
    sentence = (
        f"Of {examples} examples all {seeds} seeds of {name} get {always} right and {never} wrong; {sometimes} "
        f"({sometimes / examples:.0%}) depend on the seed. Two seeds agree on {agreement:.0%} of predictions."
    )
    return Stability(always, never, sometimes, agreement, sentence)


@dataclass(frozen=True)
class Failures:
    failed: list[int]
    """The runs, by number."""
    share: float
    sentence: str


def failed_runs(
    name: str,
    scores: Sequence[float | None],
    commonest: float | None,
    predicted: Sequence[npt.NDArray[np.int64]],
    words: Words,
) -> Failures:
    """Degenerate runs: they score no better than always saying the `commonest` class, or say one class only."""
    failed = [
        i
        for i, (score, labels) in enumerate(zip(scores, predicted, strict=True))
        if len(np.unique(labels)) == 1
        or (score is not None and commonest is not None and not words.metric.better(score, commonest))
    ]
    share = len(failed) / len(scores) if scores else 0.0
    runs = f"{len(scores)} run{'s' if len(scores) != 1 else ''} of {name}"
    if not failed:
        return Failures(failed, share, f"None of the {runs} failed to learn.")
    against = "" if commonest is None else f" ({words.metric.title} {words.figure(commonest)})"
    sentence = (
        f"{len(failed)} of the {runs} ({share:.0%}) did not learn: they score no better than the commonest "
        f"class{against} or predict one class only. Means over failed and other runs describe neither."
    )
    return Failures(failed, share, sentence)
