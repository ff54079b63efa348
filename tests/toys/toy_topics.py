"""A toy target, as another package would write it: a text has several labels, or none. The objective is `Classify` with
another target; its data keep a label as it is written, "film|warm", and the target reads it.

Letters: b texts of a batch, n examples of a set, k labels.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.checkpoints.directory import Checkpoint
from heedful.data.labelled import LabelledData, LabelledTable
from heedful.evaluation.metrics import Floats, fill_in, mean_of, ratio_of
from heedful.evaluation.targets import Answers, Target
from heedful.evaluators.labelled import LabelledEvaluator
from heedful.evaluators.protocol import BaselineSet
from heedful.objectives.classify import Classify, ClassifyTable

Array = npt.NDArray[Any]
NONE = "nothing"


@dataclass(frozen=True)
class SeveralLabels(Target):
    """Each label is there or not, by a sigmoid of its own."""

    METRICS = (
        ratio_of("micro_f1", "micro F1", True, over="twice_hit", under="both", bounds=(0.0, 1.0)),
        mean_of("subset_accuracy", "subset accuracy", True, "exact", (0.0, 1.0)),
        mean_of("label_loss", "loss for each label", False, "loss", (0.0, None)),
    )
    labels: tuple[str, ...]

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.labels

    def parse(self, answers: Answers) -> Tensor | None:
        if answers.labels is None:
            return None
        return torch.tensor(
            [[float(label in parts_of(written)) for label in self.labels] for written in answers.labels]
        )

    def losses(self, scores_bk: Tensor, targets_b: Tensor, smoothing: float = 0.0) -> Tensor:
        return F.binary_cross_entropy_with_logits(scores_bk, targets_b.to(scores_bk), reduction="none").mean(dim=1)

    def decide(self, scores_nk: Floats) -> Floats:
        return np.asarray(1 / (1 + np.exp(-scores_nk)))

    def columns(self, gold: Array, answers: Floats) -> dict[str, Floats]:
        said = answers > 0.5
        p_of_gold = np.clip(np.where(gold > 0.5, answers, 1 - answers), 1e-12, 1)
        return {
            "twice_hit": 2.0 * (said * gold).sum(axis=1),
            "both": said.sum(axis=1) + gold.sum(axis=1),
            "exact": (said == gold).all(axis=1) * 1.0,
            "loss": -np.log(p_of_gold).mean(axis=1),
        }

    def score(self, gold: Array, answers: Floats) -> dict[str, Any]:
        return fill_in({"n": len(gold)}, self.columns(gold, answers), self.metrics)

    @property
    def header(self) -> tuple[str, ...]:
        return ("labels", *(f"p:{label}" for label in self.labels))

    def lines(self, answers: Floats) -> Iterable[Sequence[str]]:
        for p_k in answers:
            said = [label for label, p in zip(self.labels, p_k, strict=True) if p > 0.5]
            yield ("|".join(said) or NONE, *(f"{p:.6f}" for p in p_k))


def parts_of(written: str) -> set[str]:
    return {part.strip() for part in written.split("|")} - {NONE}


class TopicsDataTable(LabelledTable):
    kind: Literal["written"] = "written"
    """Labels stay as they are written: the target reads them."""


class TopicsData(LabelledData):
    Table = TopicsDataTable

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(sorted({part for written in self.dataset.labels for part in parts_of(written)}))

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "kind": "several labels", "labels": list(self.labels)}


class EachLabelAlone(BaselineSet):
    """Of every text the same: each label as often as it is in train."""

    def __init__(self, data: TopicsData, target: Target) -> None:
        self.data, self.target = data, target

    def scores(self) -> dict[str, dict[str, Any]]:
        gold = {name: self.target.parse(examples).numpy() for name, examples in self.data.splits.items()}
        facts: dict[str, Any] = {"seconds": 0.0, "values": {}, "floor": True}
        for name, gold_nk in gold.items():
            if name != "train":
                p_nk = np.broadcast_to(gold["train"].mean(axis=0), gold_nk.shape)
                facts[name] = self.target.score(gold_nk, p_nk)
                facts["values"][name] = {**self.target.columns(gold_nk, p_nk), "row": self.data.splits[name].rows}
        return {"shares": facts}


class TopicsEvaluator(LabelledEvaluator):
    METRICS = SeveralLabels.METRICS

    def baselines(self) -> BaselineSet:
        return EachLabelAlone(self.data, self.target)


class TopicsTable(ClassifyTable):
    kind: Literal["topics"] = "topics"
    """Give a text several labels, or none."""


class Topics(Classify):
    Table = TopicsTable
    DATA = TopicsData
    EVALUATOR = TopicsEvaluator

    @staticmethod
    def target_of(data: TopicsData) -> Target:
        return SeveralLabels(data.labels)

    def finish(self, checkpoint: Checkpoint) -> None:
        super().finish(checkpoint)
        checkpoint.extra["problem_type"] = "multi_label_classification"  # in Hugging Face's words, for whoever reads it
