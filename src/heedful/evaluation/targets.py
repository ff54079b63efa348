"""What a row should be answered with: one of several classes, or a score.

A target turns the answers of a set into numbers, says what a head's scores cost and mean, and which metrics there are.
Another kind of answer is one more subclass.

Letters: b texts of a batch, n examples of a set, k outputs of the head.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.evaluation.calibration import apply as probabilities
from heedful.evaluation.calibration import before_and_after, fit_temperature
from heedful.evaluation.metrics import (
    CLASS_METRICS,
    NUMBER_METRICS,
    Floats,
    Metric,
    class_columns,
    fill_in,
    number_columns,
)
from heedful.evaluation.scores import score_classes, score_numbers

Array = npt.NDArray[Any]


class Answers(Protocol):
    """The answers of a set of rows; those that are hidden are None."""

    @property
    def labels(self) -> list[str] | None: ...

    @property
    def scores(self) -> list[float] | None: ...


class Target(ABC):
    METRICS: ClassVar[tuple[Metric, ...]]
    """Everything that answers of this kind may be judged by."""

    @property
    @abstractmethod
    def outputs(self) -> tuple[str, ...]:
        """The names of what a head says of a text."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Those of METRICS that these answers allow; the first is the default."""
        return self.METRICS

    @abstractmethod
    def parse(self, answers: Answers) -> Tensor | None:
        """Return the answers as numbers; None where they are hidden."""

    @abstractmethod
    def losses(self, scores_bk: Tensor, targets_b: Tensor, smoothing: float = 0.0) -> Tensor:
        """Return the loss of each text (b)."""

    @abstractmethod
    def decide(self, scores_nk: Floats) -> Floats:
        """Return what the scores of a head mean, such as probabilities."""

    @abstractmethod
    def columns(self, gold: Array, answers: Floats) -> dict[str, Floats]:
        """Return the numbers of each example from which the metrics are computed."""

    @abstractmethod
    def score(self, gold: Array, answers: Floats) -> dict[str, Any]:
        """Return the metrics of a set and what else reports show of it."""

    @property
    @abstractmethod
    def header(self) -> tuple[str, ...]:
        """The columns of a file of predictions, after the row."""

    @abstractmethod
    def lines(self, answers: Floats) -> Iterable[Sequence[str]]:
        """Return its lines."""

    def temperature(self, scores_nk: Floats, gold: Sequence[int]) -> float | None:
        """Return what the scores must be divided by to be as sure as they are right; None where that means nothing."""
        return None

    def calibration(self, calibrated_nk: Floats, gold: Sequence[int], temperature: float) -> dict[str, Any]:
        """Return what dividing by the temperature has changed."""
        return {}

    def worst_errors(self, gold: Array, answers: Floats, most: int) -> list[tuple[int, dict[str, Any]]]:
        """Return the places and the predictions of the most confident errors, worst first."""
        return []


@dataclass(frozen=True)
class Classes(Target):
    """One of several classes, by cross-entropy."""

    METRICS = tuple(CLASS_METRICS.values())
    labels: tuple[str, ...]

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.labels

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return tuple(m for m in self.METRICS if m.name != "f1" or len(self.labels) == 2)

    def parse(self, answers: Answers) -> Tensor | None:
        if answers.labels is None:
            return None
        number = {name: i for i, name in enumerate(self.labels)}
        return torch.tensor([number[label] for label in answers.labels])

    def losses(self, scores_bk: Tensor, targets_b: Tensor, smoothing: float = 0.0) -> Tensor:
        return F.cross_entropy(scores_bk, targets_b, reduction="none", label_smoothing=smoothing)

    def decide(self, scores_nk: Floats) -> Floats:
        return probabilities(scores_nk)

    def columns(self, gold: Array, answers: Floats) -> dict[str, Floats]:
        return class_columns(gold, answers)

    def score(self, gold: Array, answers: Floats) -> dict[str, Any]:
        return fill_in(score_classes(gold, answers, self.labels), self.columns(gold, answers), self.metrics)

    @property
    def header(self) -> tuple[str, ...]:
        return ("label", *(f"p:{label}" for label in self.labels))

    def lines(self, answers: Floats) -> Iterable[Sequence[str]]:
        return ((self.labels[int(p_k.argmax())], *(f"{p:.6f}" for p in p_k)) for p_k in answers)

    def temperature(self, scores_nk: Floats, gold: Sequence[int]) -> float | None:
        return fit_temperature(scores_nk, gold)

    def calibration(self, calibrated_nk: Floats, gold: Sequence[int], temperature: float) -> dict[str, Any]:
        return before_and_after(calibrated_nk, gold, temperature)

    def worst_errors(self, gold: Array, answers: Floats, most: int) -> list[tuple[int, dict[str, Any]]]:
        wrong = np.flatnonzero(answers.argmax(axis=1) != gold)
        worst = wrong[np.argsort(-answers[wrong].max(axis=1), kind="stable")][:most]
        return [
            (i, {"predicted": self.labels[int(answers[i].argmax())], "probability": float(answers[i].max())})
            for i in map(int, worst)
        ]


@dataclass(frozen=True)
class Score(Target):
    """A number, by its squared error."""

    METRICS = tuple(NUMBER_METRICS.values())

    @property
    def outputs(self) -> tuple[str, ...]:
        return ("score",)

    def parse(self, answers: Answers) -> Tensor | None:
        return None if answers.scores is None else torch.tensor(answers.scores, dtype=torch.float32)

    def losses(self, scores_bk: Tensor, targets_b: Tensor, smoothing: float = 0.0) -> Tensor:
        return (scores_bk[:, 0] - targets_b) ** 2

    def decide(self, scores_nk: Floats) -> Floats:
        return np.asarray(scores_nk[:, 0])

    def columns(self, gold: Array, answers: Floats) -> dict[str, Floats]:
        return number_columns(gold, answers)

    def score(self, gold: Array, answers: Floats) -> dict[str, Any]:
        return fill_in(score_numbers(gold, answers), self.columns(gold, answers), self.metrics)

    @property
    def header(self) -> tuple[str, ...]:
        return ("score",)

    def lines(self, answers: Floats) -> Iterable[Sequence[str]]:
        return [(f"{x:.6g}",) for x in answers]


def target_of(kind: str, labels: tuple[str, ...]) -> Target:
    """Return the target of a data set by its kind."""
    return Score() if kind == "score" else Classes(labels)
