"""Translations: BLEU, chrF and exact matches of what beam search finds, and the loss of the references.

Letters: n target tokens, v tokens in the target's vocabulary.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from heedful.checkpoints.translators import TranslatorCheckpoint
from heedful.data.parallel import ParallelData
from heedful.decoding.beam import beam_search
from heedful.decoding.finished import Hypothesis
from heedful.decoding.settings import Beam, Limits
from heedful.errors import RequestError
from heedful.evaluation.metrics import Metric, fill_in
from heedful.evaluation.translations import (
    OF_SACREBLEU,
    OF_TEXTS,
    TRANSLATION_METRICS,
    by_length,
    has_sacrebleu,
    signatures,
    translation_columns,
)
from heedful.evaluators.protocol import BaselineSet, Evaluation, Evaluator
from heedful.inference.batching import BatchRule, batches
from heedful.inference.reader import TextReader, at_least_float32
from heedful.inputs.pair_rows import INSTALL, PairInputs
from heedful.models.seq2seq.protocol import NextTarget
from heedful.recipes.schema import Recipe

_TOKENS, _SCORES = 4096, 2**25  # at a time that are only evaluated: tokens of a side, and scores of tokens
_EDGES = (5, 10, 20, 30, 50)
"""Lengths of sources, in tokens, at which scores are told apart."""
_TIMED = 32  # sources whose translation is timed
_HEADER = ("source", "reference", "translation", "score")

Columns = dict[str, npt.NDArray[np.float64]]


class TranslationEvaluator(Evaluator[ParallelData]):
    METRICS = TRANSLATION_METRICS

    def __init__(
        self, recipe: Recipe, data: ParallelData, beam: int, final_beam: int, length_penalty: float, bleu_words: str
    ) -> None:
        """The beams and what follows: as the objective's table has them."""
        wanted = recipe.evaluation.metric
        if wanted in ("auto", *OF_SACREBLEU) and not has_sacrebleu():
            named = 'evaluation.metric is "bleu" by default' if wanted == "auto" else f'evaluation.metric = "{wanted}"'
            raise RequestError(
                f"{named}, which is computed by sacreBLEU, and that is not installed. {INSTALL}, or set "
                'evaluation.metric to "exact_match", "loss" or "perplexity".'
            )
        self.recipe, self.data, self.beam, self.final_beam = recipe, data, beam, final_beam
        self.length_penalty, self.bleu_words = length_penalty, bleu_words

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        if self.words is None:
            return tuple(metric for metric in self.METRICS if metric.name not in OF_SACREBLEU)
        known = signatures(self.words)
        return tuple(replace(metric, signature=known.get(metric.name, "")) for metric in self.METRICS)

    @cached_property
    def words(self) -> str | None:
        """How BLEU splits texts into words; None: without sacreBLEU there is none."""
        return self.bleu_words if has_sacrebleu() else None

    def evaluate(self, reader: TextReader, inputs: PairInputs, name: str, final: bool = False) -> Evaluation:
        """Evaluate the model with the beam that is for marks, or for the end."""
        pairs, rows, beam = self.data.splits[name], inputs.sets[name], self.final_beam if final else self.beam
        columns = self._losses_of(inputs, name, reader.device)
        metrics: dict[str, Any] = {"n": len(rows)}
        if not beam:
            of_loss = [metric for metric in self.metrics if metric.name not in OF_TEXTS]
            return Evaluation(fill_in(metrics, columns, of_loss), rows.rows, columns)
        hypotheses = self.translations(inputs, name, beam, reader.device)
        texts = [text_of(inputs.checkpoint, hypothesis) for hypothesis in hypotheses]
        columns |= translation_columns(texts, pairs.targets, self.words)
        metrics = fill_in(metrics, columns, self.metrics)
        if final:
            metrics |= self._details(inputs, name, columns)
        scores = [f"{hypothesis.score:.6f}" for hypothesis in hypotheses]
        lines = list(zip(pairs.sources, pairs.targets, texts, scores, strict=True))
        return Evaluation(metrics, rows.rows, columns, _HEADER, lambda: lines)

    def _details(self, inputs: PairInputs, name: str, columns: Columns) -> dict[str, Any]:
        """Return what metrics.json holds of a finished run besides the scores of a set."""
        rows, known = inputs.sets[name], set(self.data.aligned.recurring.get(name, ()))
        details: dict[str, Any] = {"signatures": {m.name: m.signature for m in self.metrics if m.signature}}
        lengths = list(map(len, rows.sources))
        parts = [(f"sources of {length} tokens", part) for length, part in by_length(columns, lengths, _EDGES)]
        new = np.array([row not in known for row in rows.rows])
        if known and new.any():
            parts.insert(0, ("sources that are not in train", {key: column[new] for key, column in columns.items()}))
        details["parts"] = [
            fill_in({"part": title, "n": len(part["nll"])}, part, self.metrics) for title, part in parts
        ]
        if known:
            details["recurring"] = int((~new).sum())
        if rows.too_long:
            details["cut"] = rows.too_long
        return details

    def _losses_of(self, inputs: PairInputs, name: str, device: torch.device) -> Columns:
        """Return −log p of each target, over its tokens, and how many they are."""
        rows = inputs.sets[name]
        lengths = [max(len(s), len(t)) for s, t in zip(rows.sources, rows.targets, strict=True)]
        columns = {"nll": np.zeros(len(rows)), "tokens": np.array([float(len(t)) for t in rows.targets])}
        most = max(1, min(_TOKENS, _SCORES // inputs.checkpoint.tokenizers.target.size))
        with torch.inference_mode():
            for batch in batches(lengths, BatchRule(_TOKENS, most)):
                scores_nv, gold_n = inputs.batcher.scores(name, batch, device)
                nll_n = F.cross_entropy(at_least_float32(scores_nv), gold_n, reduction="none").double().cpu().numpy()
                owner_n = np.repeat(np.arange(len(batch)), [len(rows.targets[i]) for i in batch])
                columns["nll"][batch] = np.bincount(owner_n, weights=nll_n, minlength=len(batch))
        return columns

    def translations(
        self,
        inputs: PairInputs,
        name: str,
        beam: int,
        device: torch.device,
        numbers: Sequence[int] | None = None,
        most: int | None = None,
    ) -> list[Hypothesis]:
        """Return, of each source of a set, or of those of these numbers, what the model thinks best; at most so many
        tokens, else training.max_length."""
        checkpoint = inputs.checkpoint
        model: Any = checkpoint.model
        settings = Beam(beam, length_penalty=self.length_penalty, banned=banned_tokens(checkpoint))
        limits = Limits(most or self.recipe.training.max_length, stop=frozenset({checkpoint.end_id}))
        sources, rows = inputs.sets[name].sources, inputs.sets[name].rows
        wanted = list(range(len(sources)) if numbers is None else numbers)
        lengths = [len(sources[i]) for i in wanted]
        best: dict[int, Hypothesis] = {}
        with torch.inference_mode():
            for places in batches(lengths, BatchRule(_TOKENS, max(1, _TOKENS // beam))):
                batch = [wanted[place] for place in places]
                following = NextTarget(model, model.encode(inputs.batcher.source(name, batch, device)))
                prompts = [[checkpoint.begin_id]] * len(batch)
                hypotheses = beam_search(
                    following, prompts, settings, limits, rows=[rows[i] for i in batch], device=device
                )
                best |= {i: ranked[0] for i, ranked in zip(batch, hypotheses, strict=True)}
        return [best[i] for i in wanted]

    def baselines(self) -> "SourceAsTranslation":
        return SourceAsTranslation(self)

    def prediction_seconds(
        self, checkpoint: TranslatorCheckpoint, inputs: PairInputs, device: torch.device
    ) -> float | None:
        name = next(iter(self.data.sets()), "train")
        pairs = self.data.splits[name]
        step = max(1, math.ceil(len(pairs) / _TIMED))
        numbers = list(range(0, len(pairs), step))
        started = time.perf_counter()
        checkpoint.tokenizers.encode([pairs.sources[i] for i in numbers], [""] * len(numbers))
        for hypothesis in self.translations(inputs, name, self.final_beam, device, numbers):
            text_of(checkpoint, hypothesis)
        return (time.perf_counter() - started) * 1000 / len(numbers)

    def seconds_per_example(self, reader: TextReader, inputs: PairInputs) -> tuple[float, float]:
        """Time translations twice as long as their references: a model that has learned nothing never ends them, and
        one that has learned a little ends them late."""
        rows, seconds = inputs.sets["train"], []
        most = min(self.recipe.training.max_length, round(2 * sum(map(len, rows.targets)) / len(rows)))
        for beam in (self.beam, self.final_beam):
            started = time.perf_counter()
            self._losses_of(inputs, "train", reader.device)
            if beam:
                self.translations(inputs, "train", beam, reader.device, most=most)
            seconds.append((time.perf_counter() - started) / len(rows))
        return seconds[0], seconds[1]


class SourceAsTranslation(BaselineSet):
    """The source itself as its translation."""

    def __init__(self, evaluator: TranslationEvaluator) -> None:
        self.evaluator, self.data = evaluator, evaluator.data

    def scores(self) -> dict[str, dict[str, Any]]:
        wanted = self.evaluator.recipe.evaluation.metric
        baseline: dict[str, Any] = {"seconds": 0.0, "tested": wanted == "auto" or wanted in OF_TEXTS, "values": {}}
        of_texts = [metric for metric in self.evaluator.metrics if metric.name in OF_TEXTS]
        for name in self.data.sets():
            pairs = self.data.splits[name]
            columns = translation_columns(pairs.sources, pairs.targets, self.evaluator.words)
            baseline[name] = fill_in({"n": len(pairs)}, columns, of_texts)
            values = {key: column.tolist() for key, column in columns.items()}
            baseline["values"][name] = {**values, "row": pairs.rows}
        return {"copy": baseline}


def text_of(checkpoint: TranslatorCheckpoint, hypothesis: Hypothesis) -> str:
    """Return a translation without its end."""
    ids = hypothesis.ids
    return " ".join(checkpoint.tokenizers.decode(ids[:-1] if ids and ids[-1] == checkpoint.end_id else ids).split())


def banned_tokens(checkpoint: TranslatorCheckpoint) -> frozenset[int]:
    """Return the tokens that no translation holds."""
    padding = checkpoint.tokenizers.target.pad_id
    return frozenset({checkpoint.begin_id, *([] if padding is None else [padding])} - {checkpoint.end_id})
