"""Texts into another language: a model is given a source and learns its target, token by token (teacher forcing).

The loss is a sum over the target's tokens, the end token included, divided by their number in the step.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

import torch.nn.functional as F
from pydantic import Field

from heedful.building.translators import Translators
from heedful.checkpoints.translators import TranslatorCheckpoint
from heedful.checkpoints.translators.checkpoint import NEUTRAL, REPETITION
from heedful.data.parallel import ParallelData
from heedful.errors import RequestError
from heedful.evaluation.translations import OF_TEXTS
from heedful.evaluators.translations import TranslationEvaluator, banned_tokens
from heedful.inference.reader import TextReader, at_least_float32
from heedful.inputs.pair_rows import PairInputs, PairStep
from heedful.inputs.protocol import Setup
from heedful.objectives.protocol import Objective, Partial, StepContext
from heedful.recipes.schema import ObjectiveTable, Recipe
from heedful.streams import in_parts

TERM = "translate"


class TranslateTable(ObjectiveTable):
    kind: Literal["translate"] = "translate"
    """Translate texts. `data` contains them with their translations, in data.source and data.target."""
    smoothing: float = Field(0.1, ge=0, lt=1)
    """Label smoothing: share of the probability that is spread evenly over all tokens, only in training. The logged
    and evaluated loss is without it. Use 0 to learn a rule from few words."""
    beam: int = Field(1, ge=0)
    """Number of beams when dev is translated at an evaluation step; 1 is greedy. 0: do not translate there, for
    evaluation.metric = "loss" or "perplexity"."""
    final_beam: int = Field(5, ge=1)
    """Number of beams at the end, for every set."""
    length_penalty: float = Field(1.0, ge=-10, le=10)
    """The log-probability of a translation is divided by its length to this power: above 0, long translations are
    favoured."""
    bleu_words: Literal["13a", "intl", "char", "zh", "none"] = "13a"
    """How BLEU splits texts into words, by the names of sacreBLEU: "13a" at punctuation, "char" into characters,
    "none" only at white space."""


class Translate(Objective):
    Table = TranslateTable
    DATA = ParallelData
    MODEL = Translators
    EVALUATOR = TranslationEvaluator
    USAGE = "heedful translate {model} FILE"

    def __init__(self, recipe: Recipe, data: ParallelData) -> None:
        assert isinstance(recipe.objective, TranslateTable)
        self.recipe, self.data, self.table = recipe, data, recipe.objective

    @staticmethod
    def check(recipe: Recipe) -> None:
        assert isinstance(recipe.objective, TranslateTable)
        if recipe.training.long_texts != "cut":
            raise RequestError('training.long_texts = "chunk" means nothing with objective.kind = "translate".')
        if recipe.objective.beam == 0 and recipe.evaluation.metric in ("auto", *OF_TEXTS):
            raise RequestError(
                "objective.beam = 0 translates nothing at marks, so evaluation.metric must be "
                '"loss" or "perplexity"; set it, or raise the beam.'
            )

    def inputs(self, checkpoint: TranslatorCheckpoint, setup: Setup) -> PairInputs:
        return PairInputs(self.data, checkpoint, setup)

    def evaluator(self) -> TranslationEvaluator:
        table = self.table
        return self.EVALUATOR(
            self.recipe, self.data, table.beam, table.final_beam, table.length_penalty, table.bleu_words
        )

    def counts(self, step: PairStep) -> dict[str, float]:
        return {TERM: float(step.target_tokens)}

    def losses(
        self, reader: TextReader, step: PairStep, counts: Mapping[str, float], context: StepContext
    ) -> Iterator[Partial]:
        for part, numbers in in_parts(step.rows, context.parts):
            context.reseed(part)
            with reader.precision():
                scores_nv, gold_n = step.batcher.scores("train", numbers, reader.device)
            log_p_nv = at_least_float32(scores_nv).log_softmax(-1)
            loss = F.nll_loss(log_p_nv, gold_n, reduction="sum") / counts[TERM]
            plain, smoothing = loss.detach(), self.table.smoothing
            if smoothing:
                even = -log_p_nv.mean(-1).sum() / counts[TERM]
                loss = (1 - smoothing) * loss + smoothing * even
            yield Partial(loss, {TERM: plain})

    def finish(self, checkpoint: TranslatorCheckpoint) -> None:
        """Note that what is beyond the longest text was cut in training, and will be; and that the model is to
        translate as it was evaluated, which generation_config.json says in Hugging Face's words."""
        longest = self.recipe.training.max_length
        for tokenizer in (checkpoint.tokenizers.source, checkpoint.tokenizers.target):
            tokenizer.max_length = longest
        for settings in (checkpoint.generation, checkpoint.extra):
            for key in (*NEUTRAL, *REPETITION, "max_new_tokens", "min_new_tokens"):  # of a model that it went on from
                settings.pop(key, None)
        checkpoint.generation |= {
            "num_beams": self.table.final_beam,
            "length_penalty": self.table.length_penalty,
            "early_stopping": "never",
            "max_length": longest + 1,  # the start token is counted there
            "min_length": 0,
            "bad_words_ids": [[token] for token in sorted(banned_tokens(checkpoint))],
            "forced_eos_token_id": None,
            "renormalize_logits": False,
        }


OBJECTIVE = Translate
