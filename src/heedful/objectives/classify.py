"""Classify (or score) a text or a pair: cross-entropy over classes, or a score's squared error.

Letters: b texts, k classes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal, cast

import torch
from pydantic import Field
from torch import Tensor

from heedful.building.body import body_table
from heedful.checkpoints.directory import Checkpoint
from heedful.checkpoints.heads import NewHead
from heedful.data.labelled import LabelledData
from heedful.errors import RequestError
from heedful.evaluation.targets import Classes, Target, target_of
from heedful.evaluators.labelled import LabelledEvaluator
from heedful.inference.reader import TextReader, at_least_float32
from heedful.inputs.labelled import HEAD, LabelledInputs, LabelledStep
from heedful.inputs.protocol import Setup
from heedful.nn.heads import HeadInput, Reads
from heedful.objectives.protocol import Objective, Partial, StepContext
from heedful.recipes.schema import ObjectiveTable, Recipe
from heedful.streams import in_parts

TERM = "loss"


class ClassifyTable(ObjectiveTable):
    CONVEX: ClassVar[bool] = True

    kind: Literal["classify"] = "classify"
    """Predict one of several classes, or a score, for a text or a pair of texts."""
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    """Share of the target probability that is spread over all classes."""
    class_weights: Literal["none", "balanced"] = "none"
    """Weights of the classes in the loss: "balanced" uses the inverse of their frequency in train."""


class Classify(Objective):
    Table = ClassifyTable
    DATA = LabelledData
    EVALUATOR = LabelledEvaluator
    INPUTS: ClassVar[type[LabelledInputs]] = LabelledInputs

    def __init__(self, recipe: Recipe, data: LabelledData, task: str = HEAD) -> None:
        """`task` is the name of its head."""
        self.recipe, self.data, self.task, self.target = recipe, data, task, self.target_of(data)
        assert isinstance(recipe.objective, ClassifyTable)
        self.table = recipe.objective
        if not isinstance(self.target, Classes) and (self.table.label_smoothing or self.table.class_weights != "none"):
            raise RequestError("objective.label_smoothing and objective.class_weights are for classes, not for scores.")
        self.class_weights: Tensor | None = None
        if self.table.class_weights == "balanced":
            targets = self.target.parse(data.dataset.train)
            assert targets is not None
            self.class_weights = balanced_weights(targets.tolist(), len(self.target.outputs))

    @staticmethod
    def target_of(data: LabelledData) -> Target:
        """Return what each row should be answered with."""
        return target_of(data.dataset.kind, data.dataset.labels)

    def heads(self, default: HeadInput) -> Mapping[str, NewHead]:
        table, training = body_table(self.recipe), self.recipe.training
        reads = default.reads
        if table.recurrent is not None:
            reads = "every"
        elif table.pooling is not None:
            reads = "pooled" if table.pooling == "cls" else cast("Reads", table.pooling)
        pairs = table.pairs or default.pairs if self.data.has_pairs else "joint"
        chunked, network = training.long_texts == "chunk", (table.recurrent, table.rnn_width)
        return {self.task: NewHead(table.head, self.target.outputs, reads, table.dropout, chunked, pairs, *network)}

    def inputs(self, checkpoint: Checkpoint, setup: Setup) -> LabelledInputs:
        setup = replace(setup, recipe=self.recipe)
        return self.INPUTS(self.data, checkpoint, self.target, setup, self.task)

    def evaluator(self) -> LabelledEvaluator:
        return self.EVALUATOR(self.recipe, self.data, self.target, self._mean_loss, self.task)

    def counts(self, step: LabelledStep) -> dict[str, float]:
        return {TERM: float(self._weights(step.targets).sum())}

    def losses(
        self, reader: TextReader, step: LabelledStep, counts: Mapping[str, float], context: StepContext
    ) -> Iterator[Partial]:
        for part, places in in_parts(range(len(step.rows)), context.parts):
            context.reseed(part)
            scores_bk = reader.scores([step.items[i] for i in places], self.task)
            loss = self.loss_sum(scores_bk, step.targets[list(places)].to(reader.device)) / counts[TERM]
            yield Partial(loss, {TERM: loss.detach()})

    def loss_sum(self, scores_bk: Tensor, targets_b: Tensor) -> Tensor:
        """Return the sum of the target's losses over the texts, by their classes' weights."""
        losses_b = self.target.losses(at_least_float32(scores_bk), targets_b, self.table.label_smoothing)
        return (losses_b * self._weights(targets_b)).sum()

    def _mean_loss(self, scores_bk: Tensor, targets_b: Tensor) -> Tensor:
        return self.loss_sum(scores_bk, targets_b) / self._weights(targets_b).sum()

    def _weights(self, targets_b: Tensor) -> Tensor:
        if self.class_weights is None:
            return torch.ones(len(targets_b), device=targets_b.device)
        return self.class_weights.to(targets_b.device)[targets_b]

    def finish(self, checkpoint: Checkpoint) -> None:
        if checkpoint.tokenizer is not None:  # what is beyond it was cut in training, and will be
            checkpoint.tokenizer.max_length = self.recipe.training.max_length
        heads = checkpoint.transformer.head_shapes
        heads[self.task] = replace(heads[self.task], of_pairs=self.data.has_pairs)


OBJECTIVE = Classify


def balanced_weights(targets: Sequence[int], classes: int) -> Tensor:
    """Return n / (k · n_class): a class's weight is the inverse of its frequency, 1 on average over the rows."""
    counts = torch.bincount(torch.tensor(targets), minlength=classes).clamp(min=1)
    return len(targets) / (classes * counts.float())
