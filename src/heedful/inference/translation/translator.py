"""`Translator`: what `heedful.load` returns for a model that goes from a source to a target."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from heedful.checkpoints.translators import TranslatorCheckpoint, write_translator
from heedful.checkpoints.translators.own import KINDS
from heedful.decoding.settings import Stopping
from heedful.errors import RequestError
from heedful.inference.batching import BatchRule, batches
from heedful.inference.predictor import Named, Task
from heedful.inference.translation.engine import (
    Floats,
    Source,
    Translated,
    collate,
    encode_sources,
    too_long,
    translate,
)
from heedful.inference.translation.settings import Decoding, Wanted, decide, longest_sides
from heedful.models.batch import pad
from heedful.models.seq2seq.protocol import alignment
from heedful.models.transformer import evaluating
from heedful.text.pairs import PairTokenizer
from heedful.text.rows import list_texts

_BATCH, _TOKENS = 32, 4096


@dataclass(frozen=True)
class Alignment:
    """Where the model looked in a source while each token of a target was predicted."""

    source_tokens: list[str]
    target_tokens: list[str]
    weights: Floats
    """(target tokens, source tokens): in a transformer the mean over the heads of the last layer."""


@dataclass(frozen=True)
class Scored:
    """How likely targets are, given their sources."""

    log_likelihoods: Floats
    """Of each whole target, its end token included: the sums of `log_probabilities`."""
    tokens: list[list[int]]
    log_probabilities: list[Floats]


class Translator(Named):
    """A model that translates, with the tokenizers of both sides."""

    kind = "a translation model"
    tasks = (Task("translate", "sources"),)
    labels: tuple[str, ...] = ()
    of_pairs = False

    def __init__(self, checkpoint: TranslatorCheckpoint, source: str) -> None:
        self.checkpoint = checkpoint
        self.source = source

    @property
    def tokenizers(self) -> PairTokenizer:
        return self.checkpoint.tokenizers

    @property
    def max_length(self) -> int:
        """The most tokens that a source may have, its end token included."""
        return longest_sides(self.checkpoint)[0]

    def translate(
        self,
        texts: Iterable[str],
        beam: int | None = None,
        n_best: int = 1,
        length_penalty: float | None = None,
        max_length: int | None = None,
        min_length: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
        prefix: str | Sequence[str] | None = None,
        coverage: float = 0.0,
        stopping: Stopping | None = None,
        batch_size: int = _BATCH,
        batch_tokens: int = _TOKENS,
        repetition_penalty: float | None = None,
        no_repeat_ngram_size: int | None = None,
    ) -> Translated:
        """Translate each text, in their order. How they fall into batches does not change the translations; an empty
        text stays empty.

        Beam search follows `beam` translations of each text (1: greedy) and takes the best, or the `n_best` best; their
        scores, `length_penalty`, `coverage` and `stopping` are as `heedful.decoding.settings.Beam` says. With a
        `temperature`, `top_k` or `top_p` tokens are drawn instead, by (seed, row, token number) alone. A translation
        has at most `max_length` tokens, its end token included, and does not end before `min_length`. `prefix`: how
        every translation begins, or each. `repetition_penalty` above 1 makes tokens of the translation less likely to
        come again, and no sequence of `no_repeat_ngram_size` tokens occurs twice in it, as in Hugging Face's
        `generate`.

        What is not given is as the model's own settings say (generation_config.json or config.json: num_beams,
        length_penalty, early_stopping, max_length, min_length, max_new_tokens, min_new_tokens, bad_words_ids,
        renormalize_logits, forced_eos_token_id, repetition_penalty, no_repeat_ngram_size), else 5 beams, a penalty of 1
        and 256 tokens. Two of Hugging Face's habits are not taken over unless the settings ask for them: its default
        rule to stop ("heuristic" here) can miss better texts, and its max_length counts the start token, so that one
        less is meant here.
        """
        rows = list_texts(texts, "translate", pairs=False)
        wanted = Wanted(
            beam, n_best, length_penalty, max_length, min_length, temperature, top_k, top_p, seed, coverage, stopping,
            repetition_penalty, no_repeat_ngram_size,
        )  # fmt: skip
        decoding = decide(self.checkpoint, wanted)
        for name, value in (("batch_size", batch_size), ("batch_tokens", batch_tokens)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise RequestError(f"{name}={value!r} is not a whole number from 1.")
        prefixes = self.prefix_ids(prefix, len(rows), decoding)
        sources = self._sources(rows, decoding.longest_source)
        found = translate(self.checkpoint, sources, decoding, prefixes, batch_size, batch_tokens)
        return Translated(rows, found)

    def prefix_ids(self, prefix: str | Sequence[str] | None, rows: int, decoding: Decoding) -> list[list[int]] | None:
        if prefix is None:
            return None
        if not hasattr(decoding.method, "width"):
            raise RequestError("prefix needs beam search. Remove temperature, top_k and top_p (beam=1 is greedy).")
        given = [prefix] * rows if isinstance(prefix, str) else list_texts(prefix, "translate", "prefixes", pairs=False)
        if len(given) != rows:
            raise RequestError(f"prefix is neither one text nor a list of {rows}, one for each text.")
        tokenizer = self.tokenizers.target
        ids = tokenizer.plain(given)
        forced = decoding.rules.forced_after  # where the end must come, no token of a prefix can
        most = decoding.limits.max_new_tokens if forced is None else forced
        for number, (text, row) in enumerate(zip(given, ids, strict=True)):
            if tokenizer.unk_id in row:
                raise RequestError(
                    f"prefix {text!r} has characters that this model's tokenizer does not know. Remove them."
                )
            if len(row) > most:
                called = "the prefix" if isinstance(prefix, str) else f"the prefix of row {number}"
                raise RequestError(
                    f"{called} has {len(row):,} tokens, and a translation has room for {most:,}; shorten it "
                    "(prefix=…, --prefix), or allow longer translations (max_length=…, --max-length)."
                )
        return ids

    def score(
        self, sources: Iterable[str], targets: Iterable[str], batch_size: int = _BATCH, batch_tokens: int = _TOKENS
    ) -> Scored:
        """How likely each target is to be the translation of its source: natural logarithms, under the model as it
        is."""
        texts, others = list_texts(sources, "score", pairs=False), list_texts(targets, "score", pairs=False)
        if len(texts) != len(others):
            raise RequestError(f"score takes a target for each source, and there are {len(texts)} and {len(others)}.")
        checkpoint, longest = self.checkpoint, longest_sides(self.checkpoint)
        given = self._sources(texts, longest[0])
        ids = self._targets(others, longest[1], given)
        found: list[Floats] = [np.zeros(0)] * len(texts)
        lengths = [len(source.ids) + len(row) for source, row in zip(given, ids, strict=True)]
        device = next(checkpoint.model.parameters()).device
        with torch.inference_mode(), evaluating(checkpoint.model):
            for rows in batches(lengths, BatchRule(batch_size, batch_tokens)):
                source, _ = collate(checkpoint, [given[row] for row in rows])
                begun = [[checkpoint.begin_id, *ids[row][:-1]] for row in rows]
                scores_btv = checkpoint.model(source, pad(begun, None, checkpoint.target_pad_id, device))
                log_p_btv = scores_btv.double().log_softmax(-1)
                for log_p_tv, row in zip(log_p_btv, rows, strict=True):
                    index_t = torch.tensor(ids[row], device=device)
                    found[row] = log_p_tv[: len(index_t)].gather(1, index_t[:, None])[:, 0].cpu().numpy()
        return Scored(np.array([row.sum() for row in found]), ids, found)

    def attention(self, source: str, target: str | None = None) -> Alignment:
        """Where the model looks in the source while it writes the target; default: its own translation."""
        (text,) = list_texts([source], "attention", pairs=False)
        if not text.strip():
            raise RequestError("the source is empty. Pass a text with words.")
        given, ids = self.encode_pair(text, target)
        checkpoint = self.checkpoint
        device = next(checkpoint.model.parameters()).device
        with torch.inference_mode(), evaluating(checkpoint.model):
            batch, _ = collate(checkpoint, [given])
            begun = pad([[checkpoint.begin_id, *ids[:-1]]], None, checkpoint.target_pad_id, device)
            model: Any = checkpoint.model  # one of four types, which all answer `Seq2Seq`
            weights_ts = alignment(model, batch, begun)[0]
        tokens = self.tokenizers
        return Alignment(
            [tokens.source.token(i) for i in given.ids],
            [tokens.target.token(i) for i in ids],
            weights_ts.double().cpu().numpy(),
        )

    def encode_pair(self, source: str, target: str | None) -> tuple[Source, list[int]]:
        """As tokens; a side that is too long is refused. Without a target the tokens of the model's own translation,
        which has no end token if it was cut."""
        longest = longest_sides(self.checkpoint)
        sources = self._sources(list_texts([source], "attention", pairs=False), longest[0])
        if target is None:
            return sources[0], self.translate([source]).tokens[0]
        return sources[0], self._targets(list_texts([target], "attention", pairs=False), longest[1], sources)[0]

    def save(self, directory: str | Path, layout: Literal["marian", "heedful"] | None = None) -> None:
        """Write a model directory in one step: a crash leaves what was there before, or the whole new directory.
        `layout`: default is Marian's, which others read, where it can say the model, else our own."""
        if layout not in (None, "marian", "heedful"):
            raise RequestError(f'layout={layout!r} is neither "marian" nor "heedful".')
        write_translator(Path(directory).expanduser(), self.checkpoint, layout=layout)

    def __repr__(self) -> str:
        kind = KINDS[type(self.checkpoint.model)]
        count = sum(p.numel() for p in self.checkpoint.model.parameters())
        return f"<heedful translator {self.source}: {kind}, {count:,} parameters>"

    def _sources(self, texts: Sequence[str], longest: int) -> list[Source]:
        sources = encode_sources(self.checkpoint, texts)
        for row, source in enumerate(sources):
            if said := too_long(self.checkpoint, source, longest):
                raise RequestError(f"row {row} of the texts {said}. Split it into sentences.")
        return sources

    def _targets(self, texts: Sequence[str], longest: int, sources: Sequence[Source]) -> list[list[int]]:
        ids = self.tokenizers.encode((), texts).targets
        together = hasattr(self.checkpoint.model, "head")  # one text of source and target
        for row, (target, source) in enumerate(zip(ids, sources, strict=True)):
            room = longest - len(source.ids) if together else longest
            if len(target) > room:
                raise RequestError(
                    f"row {row} of the targets has {len(target):,} tokens, and the model reads at most {room:,}; "
                    "shorten it."
                )
        return ids
