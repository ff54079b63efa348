"""What the objectives have in common that ask for words of rows of tokens: hidden ones, or the next.

The loss is a sum over the words that are asked for, divided by their number.

Letters: n words that are asked for, v the vocabulary, d the model's width.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Self

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from heedful.checkpoints.directory import Checkpoint
from heedful.data.running_text import RunningText
from heedful.errors import RequestError
from heedful.evaluators.words import WordEvaluator
from heedful.inference.reader import TextReader, at_least_float32
from heedful.inference.states import Row, RowLayout, gold_words, word_scores
from heedful.inputs.protocol import Setup
from heedful.inputs.word_rows import WordInputs, WordStep
from heedful.objectives.protocol import Objective, Partial, StepContext
from heedful.recipes.schema import ObjectiveTable, Recipe
from heedful.streams import in_parts


class WordsTable(ObjectiveTable):
    GROWS: ClassVar[bool] = True

    pack: bool = False
    """Whether several short rows share one row of the batch, each of which sees only itself. This saves padding if
    documents are short; the result is the same."""
    judged_rows: int = Field(1024, ge=1)
    """Number of rows of each held-out set to evaluate, sampled once for all runs."""
    neighbours: int = Field(0, ge=0, le=50)
    """For a new model: initialise the token table from counts of neighbouring tokens in the training text, up to
    this many tokens apart, such as 8; 0: random numbers. The counts are computed once for all runs of a study. To
    keep this information, train the table more slowly than the rest: tuning.layer_decay."""

    def for_a_sample(self) -> Self:
        return self.model_copy(update={"neighbours": 0})


class Words(Objective):
    DATA = RunningText
    EVALUATOR: ClassVar[type[WordEvaluator]]
    INPUTS: ClassVar[type[WordInputs]]
    """What its rows are."""
    HEAD: ClassVar[str]
    """The head that says the words, and the term of the loss."""

    def __init__(self, recipe: Recipe, data: RunningText) -> None:
        assert isinstance(recipe.objective, WordsTable)
        self.recipe, self.data, self.words_table = recipe, data, recipe.objective

    @staticmethod
    def check(recipe: Recipe) -> None:
        if recipe.training.batch_warmup and recipe.training.batch_tokens is not None:
            raise RequestError("training.batch_warmup goes with training.batch_size, not with training.batch_tokens.")
        assert isinstance(recipe.objective, WordsTable)
        if recipe.objective.neighbours and not recipe.model.drawn:
            raise RequestError(
                f"objective.neighbours is for the table of a new model, and {recipe.model.title} brings its own; leave "
                "it out."
            )

    def inputs(self, checkpoint: Checkpoint, setup: Setup) -> WordInputs:
        return self.INPUTS(self.data, checkpoint, self.words_table, setup)

    def evaluator(self) -> WordEvaluator:
        return self.EVALUATOR(self.recipe, self.data)

    def counts(self, step: WordStep) -> dict[str, float]:
        return {self.HEAD: float(max(1, sum(len(row.places_n) for row in step.made)))}

    def losses(
        self, reader: TextReader, step: WordStep, counts: Mapping[str, float], context: StepContext
    ) -> Iterator[Partial]:
        for part, places in in_parts(range(len(step.made)), context.parts):
            context.reseed(part)
            terms = self.terms(reader, step.layout, [step.made[i] for i in places], counts)
            yield Partial(torch.stack(list(terms.values())).sum(), {k: v.detach() for k, v in terms.items()})

    def terms(
        self, reader: TextReader, layout: RowLayout, rows: Sequence[Row], counts: Mapping[str, float]
    ) -> dict[str, Tensor]:
        """Return the loss terms of some rows of a step."""
        with reader.precision():
            x_nd = layout.collate(rows, reader.device).states(reader.transformer, self.HEAD)
            scores_nv = word_scores(reader, self.HEAD, x_nd)
        words_n = gold_words(rows, reader.device)
        return {self.HEAD: F.cross_entropy(at_least_float32(scores_nv), words_n, reduction="sum") / counts[self.HEAD]}

    def finish(self, checkpoint: Checkpoint) -> None:
        if checkpoint.tokenizer is not None:
            checkpoint.tokenizer.max_length = checkpoint.transformer.shape.longest
