"""What `predict` answers."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heedful.evaluation.calibration import apply as probabilities


class Predictions:
    """`labels` (n) and `probabilities` (n, classes) with the classes' `names`; only `scores` (n) for a regression."""

    def __init__(self, names: tuple[str, ...], answers: npt.NDArray[np.float64], truncated: int) -> None:
        """`answers`: probabilities (n, classes), or scores (n)."""
        self.names, self.truncated = names, truncated
        self.scores = answers if answers.ndim == 1 else None
        self.probabilities = np.ones((len(answers), 1)) if answers.ndim == 1 else answers
        self.labels = [names[i] for i in self.probabilities.argmax(axis=1)] if len(answers) else []

    @classmethod
    def of_scores(cls, names: tuple[str, ...], raw_nk: npt.NDArray[np.float64], truncated: int) -> "Predictions":
        return cls(names, raw_nk[:, 0] if len(names) == 1 else probabilities(raw_nk), truncated)


@dataclass(frozen=True)
class TextFusionWeights:
    """How much each adapter of a fusion counts, as means over the tokens of each text."""

    adapters: tuple[str, ...]
    layers: tuple[tuple[str, int], ...]
    """The place ("attention" or "feed_forward") and number of each layer with a fusion, from the bottom up."""
    weights: npt.NDArray[np.float32]
    """(texts, layers, adapters); the last axis adds up to 1."""
