"""Texts into another language: a model is given a source and learns its target, token by token (teacher forcing).

The loss is a sum over the target's tokens, the end token included, divided by their number in the step.
"""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from pydantic import Field

from heedful.checkpoints.translators import TranslatorCheckpoint
from heedful.checkpoints.translators.checkpoint import NEUTRAL, REPETITION
from heedful.data.records import Aligned
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
from heedful.inference.batching import BatchRule, batches
from heedful.inference.reader import TextReader, at_least_float32
from heedful.models.flops import forward_flops
from heedful.models.seq2seq.flops import bert_fused_flops, decoder_only_flops, recurrent_flops, transformer_flops
from heedful.models.seq2seq.protocol import NextTarget
from heedful.models.seq2seq.shape import BertFusedShape, RecurrentShape, Seq2SeqShape
from heedful.models.shape import Shape
from heedful.objectives.loading import load_aligned
from heedful.objectives.pair_rows import Batcher, PairRows, encode_set
from heedful.objectives.protocol import Judgement, MadeModel, Objective, Partial, Reseed, Step
from heedful.objectives.rows import EpochRows, padding_share
from heedful.objectives.translators import KINDS, check_model, longest_text, make_translator
from heedful.recipes.schema import ObjectiveTable, Recipe
from heedful.storage.shared import SharedStore
from heedful.streams import Parts, in_parts

TERM = "translate"
_TOKENS, _SCORES = 4096, 2**25  # at a time that are only judged: tokens of a side, and scores of tokens
_EDGES = (5, 10, 20, 30, 50)
"""Lengths of sources, in tokens, at which scores are told apart."""
_MUCH = 0.1
"""The share of training pairs that may be left out without a warning."""
_INSTALL = "To install it: pip install 'heedful[translate]'"
_TIMED = 32  # sources that say how long a translation takes

Columns = dict[str, npt.NDArray[np.float64]]


class TranslateTable(ObjectiveTable):
    kind: Literal["translate"] = "translate"
    """Texts are translated; `data` has them with their translations, in data.source and data.target."""
    smoothing: float = Field(0.1, ge=0, lt=1)
    """Label smoothing: this share of the probability is wanted evenly for all tokens, in training alone. What is logged
    and judged is the loss without it. Where a rule is learned from few words, 0 is better."""
    beam: int = Field(1, ge=0)
    """How many translations grow side by side where dev is judged at a mark; 1 is greedy. 0: nothing is translated
    there, for evaluation.metric = "loss" or "perplexity"."""
    final_beam: int = Field(5, ge=1)
    """The same at the end, for every set."""
    length_penalty: float = Field(1.0, ge=-10, le=10)
    """The log-probability of a translation is divided by its length to this power: above 0 long ones are favoured."""
    bleu_words: Literal["13a", "intl", "char", "zh", "none"] = "13a"
    """How BLEU splits texts into words, by the names of sacreBLEU: "13a" at punctuation, "char" into characters, "none"
    at white space alone."""


class Translate(Objective):
    Table = TranslateTable
    METRICS = TRANSLATION_METRICS
    PAIRS = True
    KINDS = KINDS
    TUNINGS = ("full",)

    def __init__(self, recipe: Recipe, seed: int, data: Aligned, only: Sequence[int] | None = None) -> None:
        """`only`: the places of the training pairs that are used, where nothing is judged."""
        assert isinstance(recipe.objective, TranslateTable)
        self.recipe, self.seed, self.data, self.only, self.table = recipe, seed, data, only, recipe.objective
        self.sets_: dict[str, PairRows] = {}

    @staticmethod
    def check(recipe: Recipe) -> None:
        assert isinstance(recipe.objective, TranslateTable)
        check_model(recipe)
        if recipe.training.long_texts != "cut":
            raise RequestError('training.long_texts = "chunk" means nothing with objective.kind = "translate".')
        if recipe.objective.beam == 0 and recipe.evaluation.metric in ("auto", *OF_TEXTS):
            raise RequestError(
                "objective.beam = 0 translates nothing at marks, so evaluation.metric must be "
                '"loss" or "perplexity"; set it, or raise the beam.'
            )

    # The data

    @classmethod
    def read(cls, recipe: Recipe, seed: int, store: SharedStore) -> "Translate":
        wanted = recipe.evaluation.metric
        if wanted in ("auto", *OF_SACREBLEU) and not has_sacrebleu():
            named = 'evaluation.metric is "bleu" by default' if wanted == "auto" else f'evaluation.metric = "{wanted}"'
            raise RequestError(
                f"{named}, which is computed by sacreBLEU, and that is not installed. {_INSTALL}, or set "
                'evaluation.metric to "exact_match", "loss" or "perplexity".'
            )
        return cls(recipe, seed, load_aligned(recipe.data, seed, store))

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        if self._words is None:
            return tuple(metric for metric in self.METRICS if metric.name not in OF_SACREBLEU)
        said = signatures(self._words)
        return tuple(replace(metric, signature=said.get(metric.name, "")) for metric in self.METRICS)

    @cached_property
    def _words(self) -> str | None:
        """How BLEU splits texts into words; None: without sacreBLEU there is none."""
        return self.table.bleu_words if has_sacrebleu() else None

    def description(self) -> dict[str, Any]:
        facts = self.data.description()
        notes = [*facts.get("notes", []), *(said for rows in self.sets_.values() for said in rows.too_long)]
        omitted = f"BLEU and chrF are omitted, as sacreBLEU is not installed. {_INSTALL}."
        warnings = [omitted] if self._words is None else []
        if "train" in self.sets_:
            facts["sizes"] = {**facts["sizes"], "train": len(self.sets_["train"])}
            warnings += filter(None, [self._much_left_out()])
        if warnings:
            facts["warnings"] = warnings
        return {**facts, **({"notes": notes} if notes else {}), "usage": "heedful translate {model} FILE"}

    def _much_left_out(self) -> str:
        """In words, where so many training pairs are too long that another task is learned than was meant."""
        train, longest = self.sets_["train"], self.recipe.training.max_length
        total = train.left_out + len(train)
        if train.left_out <= _MUCH * total:
            return ""
        other = ", or a source more than model.bert reads" if train.bert else ""
        many = f"{train.left_out:,} of {total:,} training pairs ({train.left_out / total:.0%})"
        return (
            f"{many} are left out, as a side has more than {longest} tokens{other}: the model learns from short texts "
            "alone; raise training.max_length, or cut the texts into sentences."
        )

    def examples(self, name: str) -> list[dict[str, Any]]:
        pairs = self.data.splits[name]
        lines = zip(pairs.rows, pairs.targets, pairs.sources, strict=True)
        return [{"row": row, "gold": target, "text": source} for row, target, source in lines]

    def sample(self, rows: int) -> "Translate":
        """So many pairs of about the mean length: batches are made of pairs of similar length."""
        lengths = [len(s) + len(t) for s, t in zip(*self._train_texts(), strict=True)]
        mean = sum(lengths) / max(1, len(lengths))
        some = sorted(range(len(lengths)), key=lambda i: abs(lengths[i] - mean))[:rows]
        return Translate(self.recipe, self.seed, self.data, sorted(some))

    def _train_texts(self) -> tuple[list[str], list[str]]:
        return self.data.splits["train"].sources, self.data.splits["train"].targets

    # The model

    def make_model(self, seed: int, store: SharedStore) -> MadeModel:
        return make_translator(self.recipe, self.data, seed, store)

    def prepare(self, checkpoint: TranslatorCheckpoint, facts: Mapping[str, Any], store: SharedStore) -> None:
        table, most = self.recipe.training, longest_text(checkpoint.model)
        if most is not None and table.max_length > most:
            raise RequestError(
                f"training.max_length = {table.max_length}, but the model reads at most {most} tokens on a side."
            )
        splits = self.data.splits if self.only is None else {"train": self.data.splits["train"].take(self.only)}
        self.sets_ = {
            name: encode_set(name, pairs, checkpoint, table.max_length, whole=name == "train")
            for name, pairs in splits.items()
        }
        train = self.sets_["train"]
        if not len(train):
            said = " ".join(train.too_long)
            raise RequestError(f"every training pair is too long. {said} Raise training.max_length, or cut the texts.")
        self.checkpoint, self.batcher = checkpoint, Batcher(checkpoint, self.sets_)
        self.facts, self.store, self.kept_seconds = facts, store, 0.0
        self.source_lengths, self.target_lengths = list(map(len, train.sources)), list(map(len, train.targets))
        self.batches = EpochRows(
            self.target_lengths, self.seed, table.batch_size, table.batch_tokens, beside=self.source_lengths
        )

    def model_is_ready(self, reader: TextReader) -> None:
        """The states of another body that does not move."""
        self.kept_seconds = self.batcher.keep_states(self.facts, self.store, reader.device)

    # A step

    def epoch_steps(self, epoch: int) -> int:
        return self.batches.steps(epoch)

    def step_rows(self) -> float | None:
        return self.batches.mean_rows

    def step(self, number: int) -> Step:
        numbers = self.batches.of_step(number)
        return Step(numbers, [self.source_lengths[n] + self.target_lengths[n] for n in numbers])

    def counts(self, step: Step) -> dict[str, float]:
        return {TERM: float(sum(self.target_lengths[n] for n in step.rows))}

    def losses(
        self, reader: TextReader, step: Step, counts: Mapping[str, float], parts: Parts, reseed: Reseed
    ) -> Iterator[Partial]:
        for part, numbers in in_parts(step.rows, parts):
            reseed(part)
            with reader.precision():
                scores_nv, gold_n = self.batcher.scores("train", numbers, reader.device)
            log_p_nv = at_least_float32(scores_nv).log_softmax(-1)
            loss = F.nll_loss(log_p_nv, gold_n, reduction="sum") / counts[TERM]
            plain, smoothing = loss.detach(), self.table.smoothing
            if smoothing:
                even = -log_p_nv.mean(-1).sum() / counts[TERM]
                loss = (1 - smoothing) * loss + smoothing * even
            yield Partial(loss, {TERM: plain})

    def forward_flops(self, step: Step, shape: Seq2SeqShape | RecurrentShape | BertFusedShape | Shape) -> int:
        source, target = ([lengths[n] for n in step.rows] for lengths in (self.source_lengths, self.target_lengths))
        if isinstance(shape, BertFusedShape):
            bert = [self.sets_["train"].bert[n].tokens for n in step.rows]
            return bert_fused_flops(shape, source, target, bert, kept=self.batcher.states is not None)
        if isinstance(shape, RecurrentShape):
            return recurrent_flops(shape, source, target)
        return (decoder_only_flops if isinstance(shape, Shape) else transformer_flops)(shape, source, target)  # type: ignore[arg-type]

    def spent_once(self) -> tuple[int, float]:
        shape = self.checkpoint.model.shape
        if self.batcher.states is None or not isinstance(shape, BertFusedShape):
            return 0, 0.0
        return forward_flops(shape.bert, [text.tokens for text in self.sets_["train"].bert]), self.kept_seconds

    def where(self, step: Step) -> str:
        rows = [self.sets_["train"].rows[n] for n in step.rows[:8]]
        return f"rows {', '.join(map(str, rows))} of the training set{' and others' if len(step.rows) > 8 else ''}"

    def reading(self) -> dict[str, float]:
        sides = ([[n] for n in lengths] for lengths in (self.source_lengths, self.target_lengths))
        return {"padding_share": padding_share(self.batches.batches(0), *sides)}

    # How well it went

    def judge(self, reader: TextReader, name: str) -> Judgement:
        """As at a mark; `judge_all` is the end."""
        return self._judge(reader, name, self.table.beam)

    def judge_all(self, reader: TextReader, names: Iterable[str]) -> dict[str, Judgement]:
        return {name: self._judge(reader, name, self.table.final_beam, final=True) for name in names}

    def _judge(self, reader: TextReader, name: str, beam: int, final: bool = False) -> Judgement:
        pairs, rows = self.data.splits[name], self.sets_[name]
        columns = self._losses_of(name, reader.device)
        metrics: dict[str, Any] = {"n": len(rows)}
        if not beam:
            of_loss = [metric for metric in self.metrics if metric.name not in OF_TEXTS]
            return Judgement(fill_in(metrics, columns, of_loss), rows.rows, columns)
        said = self.translations(name, beam, reader.device)
        texts = [self._text(one) for one in said]
        columns |= translation_columns(texts, pairs.targets, self._words)
        metrics = fill_in(metrics, columns, self.metrics)
        if final:
            metrics |= self._details(name, columns)
        scores = [f"{one.score:.6f}" for one in said]
        lines = list(zip(pairs.sources, pairs.targets, texts, scores, strict=True))
        return Judgement(metrics, rows.rows, columns, ("source", "reference", "translation", "score"), lambda: lines)

    def _details(self, name: str, columns: Columns) -> dict[str, Any]:
        """What a finished run says beside the scores of a set."""
        rows, known = self.sets_[name], set(self.data.recurring.get(name, ()))
        facts: dict[str, Any] = {"signatures": {m.name: m.signature for m in self.metrics if m.signature}}
        lengths = list(map(len, rows.sources))
        parts = [(f"sources of {of} tokens", some) for of, some in by_length(columns, lengths, _EDGES)]
        new = np.array([row not in known for row in rows.rows])
        if known and new.any():
            parts.insert(0, ("sources that are not in train", {key: column[new] for key, column in columns.items()}))
        facts["parts"] = [fill_in({"part": title, "n": len(some["nll"])}, some, self.metrics) for title, some in parts]
        if known:
            facts["recurring"] = int((~new).sum())
        if rows.too_long:
            facts["cut"] = rows.too_long
        return facts

    def _losses_of(self, name: str, device: torch.device) -> Columns:
        """−log p of each target, over its tokens, and how many they are."""
        rows = self.sets_[name]
        lengths = [max(len(s), len(t)) for s, t in zip(rows.sources, rows.targets, strict=True)]
        columns = {"nll": np.zeros(len(rows)), "tokens": np.array([float(len(t)) for t in rows.targets])}
        most = max(1, min(_TOKENS, _SCORES // self.checkpoint.tokenizers.target.size))
        with torch.inference_mode():
            for some in batches(lengths, BatchRule(_TOKENS, most)):
                scores_nv, gold_n = self.batcher.scores(name, some, device)
                nll_n = F.cross_entropy(at_least_float32(scores_nv), gold_n, reduction="none").double().cpu().numpy()
                owner_n = np.repeat(np.arange(len(some)), [len(rows.targets[i]) for i in some])
                columns["nll"][some] = np.bincount(owner_n, weights=nll_n, minlength=len(some))
        return columns

    def judging_seconds(self, reader: TextReader) -> tuple[float, float]:
        """Of translations twice as long as their references: a model that has learned nothing never ends them, and one
        that has learned a little ends them late."""
        rows, seconds = self.sets_["train"], []
        most = min(self.recipe.training.max_length, round(2 * sum(map(len, rows.targets)) / len(rows)))
        for beam in (self.table.beam, self.table.final_beam):
            started = time.perf_counter()
            self._losses_of("train", reader.device)
            if beam:
                self.translations("train", beam, reader.device, most=most)
            seconds.append((time.perf_counter() - started) / len(rows))
        return seconds[0], seconds[1]

    def translations(
        self,
        name: str,
        beam: int,
        device: torch.device,
        numbers: Sequence[int] | None = None,
        most: int | None = None,
    ) -> list[Hypothesis]:
        """Of each source of a set, or of those of these numbers, what the model thinks best; at most so many tokens,
        else training.max_length."""
        model: Any = self.checkpoint.model
        begin, end = self.checkpoint.begin_id, self.checkpoint.end_id
        settings = Beam(beam, length_penalty=self.table.length_penalty, banned=_banned(self.checkpoint))
        limits = Limits(most or self.recipe.training.max_length, stop=frozenset({end}))
        sources = self.sets_[name].sources
        wanted = list(range(len(sources)) if numbers is None else numbers)
        lengths = [len(sources[i]) for i in wanted]
        said: dict[int, Hypothesis] = {}
        with torch.inference_mode():
            for batch in batches(lengths, BatchRule(_TOKENS, max(1, _TOKENS // beam))):
                some = [wanted[at] for at in batch]
                reader = NextTarget(model, model.encode(self.batcher.source(name, some, device)))
                rows = [self.sets_[name].rows[i] for i in some]
                found = beam_search(reader, [[begin]] * len(some), settings, limits, rows=rows, device=device)
                said |= {i: best[0] for i, best in zip(some, found, strict=True)}
        return [said[i] for i in wanted]

    def _text(self, one: Hypothesis) -> str:
        ids = one.ids[:-1] if one.ids and one.ids[-1] == self.checkpoint.end_id else one.ids
        return " ".join(self.checkpoint.tokenizers.decode(ids).split())

    def baselines(self) -> dict[str, dict[str, Any]]:
        """The source itself as its translation."""
        wanted = self.recipe.evaluation.metric
        made: dict[str, Any] = {"seconds": 0.0, "tested": wanted == "auto" or wanted in OF_TEXTS, "values": {}}
        of_texts = [metric for metric in self.metrics if metric.name in OF_TEXTS]
        for name in self.sets():
            pairs = self.data.splits[name]
            columns = translation_columns(pairs.sources, pairs.targets, self._words)
            made[name] = fill_in({"n": len(pairs)}, columns, of_texts)
            made["values"][name] = {**{key: column.tolist() for key, column in columns.items()}, "row": pairs.rows}
        return {"copy": made}

    def finish(self, checkpoint: TranslatorCheckpoint) -> None:
        """What is beyond the longest text was cut in training, and will be; and it is to translate as it was judged,
        which generation_config.json says in Hugging Face's words."""
        longest = self.recipe.training.max_length
        for tokenizer in (checkpoint.tokenizers.source, checkpoint.tokenizers.target):
            tokenizer.max_length = longest
        for said in (checkpoint.generation, checkpoint.extra):
            for key in (*NEUTRAL, *REPETITION, "max_new_tokens", "min_new_tokens"):  # of a model that it went on from
                said.pop(key, None)
        checkpoint.generation |= {
            "num_beams": self.table.final_beam,
            "length_penalty": self.table.length_penalty,
            "early_stopping": "never",
            "max_length": longest + 1,  # the start token is counted there
            "min_length": 0,
            "bad_words_ids": [[token] for token in sorted(_banned(checkpoint))],
            "forced_eos_token_id": None,
            "renormalize_logits": False,
        }

    def prediction_seconds(self, checkpoint: TranslatorCheckpoint, device: torch.device) -> float | None:
        name = next(iter(self.sets()), "train")
        pairs = self.data.splits[name]
        step = max(1, math.ceil(len(pairs) / _TIMED))
        numbers = list(range(0, len(pairs), step))
        started = time.perf_counter()
        checkpoint.tokenizers.encode([pairs.sources[i] for i in numbers], [""] * len(numbers))
        for one in self.translations(name, self.table.final_beam, device, numbers):
            self._text(one)
        return (time.perf_counter() - started) * 1000 / len(numbers)


def _banned(checkpoint: TranslatorCheckpoint) -> frozenset[int]:
    """Tokens that no translation holds."""
    padding = checkpoint.tokenizers.target.pad_id
    return frozenset({checkpoint.begin_id, *([] if padding is None else [padding])} - {checkpoint.end_id})


OBJECTIVE = Translate
