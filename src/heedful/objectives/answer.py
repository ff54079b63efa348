"""Questions answered from memory: a language model that says the answer after the question, and may read beside it.

What a row is: `inputs/question_rows.py`. The loss is a sum over the words that are asked for, divided by their number.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

import torch.nn.functional as F
from pydantic import Field

from heedful.checkpoints.directory import Checkpoint
from heedful.checkpoints.heads import NewHead
from heedful.data.question_sets import QuestionData, QuestionTable
from heedful.errors import RequestError
from heedful.evaluators.answers import AnswerEvaluator
from heedful.inference.questions import ANSWER_TOKENS
from heedful.inference.reader import TextReader, at_least_float32
from heedful.inference.states import gold_words
from heedful.inputs.protocol import Setup
from heedful.inputs.question_rows import HEAD, QuestionInputs, QuestionStep, row_scores
from heedful.nn.heads import HeadInput
from heedful.objectives.causal import LANGUAGE_MODEL, require_causal
from heedful.objectives.protocol import Objective, Partial, StepContext
from heedful.recipes.schema import ObjectiveTable, Recipe
from heedful.streams import in_parts


class AnswerTable(ObjectiveTable):
    kind: Literal["answer"] = "answer"
    """Answer questions. `data` contains them in two columns, and may name a corpus to read too."""
    reading: float = Field(0.75, ge=0, lt=1)
    """With a corpus: share of the rows of a step that are text instead of questions."""
    windows: bool = True
    """Whether to read a document as its subject (its first sentence) and a random window of the rest, so that the
    model must know from anywhere what belongs to the subject. If not, it is always read from its beginning."""
    whole: float = Field(0.4, ge=0, le=1)
    """Share of the documents read in windows that is read completely."""
    subject_first: bool = True
    """Whether to train on what follows the subject, and not on the subject."""
    recall: bool = False
    """With a corpus: whether the model writes the document about the subject of a question from memory before it
    answers. It learns that from the training questions that name a subject."""
    answer_tokens: int = Field(ANSWER_TOKENS, ge=1)
    """Maximum length of an answer, in tokens."""


class Answer(Objective):
    Table = AnswerTable
    DATA = QuestionData
    EVALUATOR = AnswerEvaluator
    USAGE = "heedful probe knowledge {model}"

    def __init__(self, recipe: Recipe, data: QuestionData) -> None:
        assert isinstance(recipe.objective, AnswerTable)
        self.recipe, self.data, self.table = recipe, data, recipe.objective

    @staticmethod
    def check(recipe: Recipe) -> None:
        if recipe.training.batch_tokens is not None:
            raise RequestError('training.batch_tokens means nothing with objective.kind = "answer"; use batch_size.')
        if _corpora(recipe) and recipe.training.batch_size < 2:
            raise RequestError("training.batch_size = 1 has no room for text beside a question; raise it.")
        assert isinstance(recipe.objective, AnswerTable)
        if recipe.objective.recall and not _corpora(recipe):
            raise RequestError("objective.recall = true needs text that can be recalled; name it in data.corpus.")

    def heads(self, default: HeadInput) -> Mapping[str, NewHead]:
        return {HEAD: LANGUAGE_MODEL}

    def inputs(self, checkpoint: Checkpoint, setup: Setup) -> QuestionInputs:
        require_causal(checkpoint.transformer.shape, "answer")
        heads = checkpoint.transformer.head_shapes
        heads[HEAD] = replace(heads[HEAD], recalls=self.table.recall)
        return QuestionInputs(self.data, checkpoint, self.table, setup)

    def evaluator(self) -> AnswerEvaluator:
        return self.EVALUATOR(self.data, self.table.answer_tokens, self.table.recall)

    def counts(self, step: QuestionStep) -> dict[str, float]:
        return {HEAD: float(sum(len(row.places_n) for row in step.batch))}

    def losses(
        self, reader: TextReader, step: QuestionStep, counts: Mapping[str, float], context: StepContext
    ) -> Iterator[Partial]:
        for part, places in in_parts(step.rows, context.parts):
            context.reseed(part)
            rows = [step.batch[i] for i in places]
            with reader.precision():
                scores_nv = row_scores(reader, step.layout, rows)
            words_n = gold_words(rows, reader.device)
            loss = F.cross_entropy(at_least_float32(scores_nv), words_n, reduction="sum") / counts[HEAD]
            yield Partial(loss, {HEAD: loss.detach()})

    def finish(self, checkpoint: Checkpoint) -> None:
        if checkpoint.tokenizer is not None:
            checkpoint.tokenizer.max_length = checkpoint.transformer.shape.longest


OBJECTIVE = Answer


def _corpora(recipe: Recipe) -> list[str]:
    assert isinstance(recipe.data, QuestionTable)
    return recipe.data.corpora
