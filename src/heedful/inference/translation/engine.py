"""Sources as tokens, in batches of similar length, through a translator; and what came out, as texts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from heedful.checkpoints.translators import TranslatorCheckpoint
from heedful.decoding.beam import beam_search
from heedful.decoding.finished import Hypothesis
from heedful.decoding.generate import Continuation, generate
from heedful.decoding.settings import Beam
from heedful.inference.batching import BatchRule, batches
from heedful.inference.translation.settings import Decoding
from heedful.inference.translation.target_reader import TargetReader
from heedful.models.batch import Batch, pad
from heedful.models.seq2seq.bert_fused import BertFusedSeq2Seq, BertFusedSource
from heedful.models.transformer import evaluating

Floats = npt.NDArray[np.float64]
Reason = Literal["stop", "max_length", "empty"]
"""Why a translation ended: with the end token, because it had as many tokens as it may, or because there was nothing to
translate."""
_SHOWN = 40  # characters of a source


@dataclass(frozen=True)
class Translation:
    text: str
    tokens: list[int]
    """The end token that ended it included."""
    log_probabilities: Floats
    """Of each of these tokens."""
    score: float
    """By which beam search ranks: the sum of these by lp(their number), and the coverage penalty. Of a text that was
    drawn: the sum. A repetition penalty changes what is added up."""
    reason: Reason


@dataclass(frozen=True, repr=False)
class Translated:
    """One entry for each source, in their order; with beam search, of its best translation."""

    sources: list[str]
    n_best: list[list[Translation]]
    """Of each source as many as were asked for, best first; fewer where there are no more."""
    texts: list[str] = field(init=False)
    tokens: list[list[int]] = field(init=False)
    log_probabilities: list[Floats] = field(init=False)
    scores: Floats = field(init=False)
    reasons: list[Reason] = field(init=False)

    def __post_init__(self) -> None:
        best = [found[0] for found in self.n_best]
        for name in ("text", "tokens", "log_probabilities", "reason"):
            plural = name if name.endswith("s") else f"{name}s"
            object.__setattr__(self, plural, [getattr(one, name) for one in best])
        object.__setattr__(self, "scores", np.array([one.score for one in best]))

    def __len__(self) -> int:
        return len(self.sources)

    def __repr__(self) -> str:
        lines = [f"<{len(self)} {'translation' if len(self) == 1 else 'translations'}>"]
        for source, found in zip(self.sources, self.n_best, strict=True):
            shown = source if len(source) <= _SHOWN else f"{source[:_SHOWN]}…"
            lines.append(f"{shown!r} → {found[0].text!r} (score {found[0].score:.2f}, {found[0].reason})")
            lines += [f"  {rank}. {one.text!r} ({one.score:.2f})" for rank, one in enumerate(found[1:], 2)]
        return "\n".join(lines)


class Source(NamedTuple):
    text: str
    ids: list[int]
    bert: list[int]
    """In the tokens of the other body of a BERT-fused model."""


def encode_sources(checkpoint: TranslatorCheckpoint, texts: Sequence[str]) -> list[Source]:
    ids = checkpoint.tokenizers.encode(texts, ()).sources
    if checkpoint.bert_tokenizer is None:
        return [Source(text, row, []) for text, row in zip(texts, ids, strict=True)]
    other = checkpoint.bert_tokenizer.encode(texts)
    return [Source(text, row, tokens.ids) for text, row, tokens in zip(texts, ids, other, strict=True)]


def too_long(checkpoint: TranslatorCheckpoint, source: Source, longest: int) -> str:
    """How long a source is where that is more than the model reads, in words; "" if it is not."""
    model = checkpoint.model
    if len(source.ids) > longest:
        return f"has {len(source.ids):,} tokens, and the model reads at most {longest:,}"
    if isinstance(model, BertFusedSeq2Seq) and len(source.bert) > model.bert.shape.longest:
        return f"has {len(source.bert):,} tokens for its BERT, which reads at most {model.bert.shape.longest:,}"
    return ""


def collate(checkpoint: TranslatorCheckpoint, sources: Sequence[Source]) -> tuple[Any, Batch]:
    """What the model is given of these sources, and the batch of its own tokens in it."""
    device = next(checkpoint.model.parameters()).device
    batch = pad([source.ids for source in sources], None, checkpoint.source_pad_id, device)
    if not isinstance(checkpoint.model, BertFusedSeq2Seq):
        return batch, batch
    other = pad([source.bert for source in sources], None, checkpoint.model.bert.shape.pad_id, device)
    return BertFusedSource(batch, other), batch


def translate(
    checkpoint: TranslatorCheckpoint,
    sources: Sequence[Source],
    decoding: Decoding,
    prefixes: Sequence[Sequence[int]] | None = None,
    batch_size: int = 32,
    batch_tokens: int = 4096,
    first_row: int = 0,
) -> list[list[Translation]]:
    """`prefixes`: the tokens with which the translations of each source begin. `first_row`: the number of the first
    source, on which draws depend and which refusals name, where sources are given in several calls."""
    model, method, limits = checkpoint.model, decoding.method, decoding.limits
    device = next(model.parameters()).device
    empty = Translation("", [], np.zeros(0), 0.0, "empty")
    found = [[empty] for _ in sources]
    full = [row for row, source in enumerate(sources) if source.text.strip()]
    with evaluating(model):
        for batch in batches([len(sources[row].ids) for row in full], BatchRule(batch_size, batch_tokens)):
            rows = [full[at] for at in batch]
            with torch.inference_mode():
                given, own = collate(checkpoint, [sources[row] for row in rows])
                read = TargetReader(model, model.encode(given), own.real_bt, decoding.rules)
            begun, numbers = [[checkpoint.begin_id]] * len(rows), [first_row + row for row in rows]
            if isinstance(method, Beam):
                wanted = None if prefixes is None else [prefixes[row] for row in rows]
                searched = beam_search(read, begun, method, limits, wanted, numbers, device, decoding.repetition)
                for row, best in zip(rows, searched, strict=True):
                    found[row] = [_translation(checkpoint, one, one.score, decoding) for one in best]
                continue
            made = generate(read, begun, method, limits, numbers, None, device, decoding.repetition)
            for row, one in zip(rows, made, strict=True):
                found[row] = [_translation(checkpoint, one, sum(one.log_probabilities), decoding)]
    return found


def _translation(
    checkpoint: TranslatorCheckpoint, found: Hypothesis | Continuation, score: float, decoding: Decoding
) -> Translation:
    forced = decoding.rules.forced_after is not None and len(found.ids) > decoding.rules.forced_after
    ended = found.reason == "stop"
    text = checkpoint.tokenizers.decode(found.ids[:-1] if ended else found.ids)
    return Translation(
        text, found.ids, np.array(found.log_probabilities), score, "stop" if ended and not forced else "max_length"
    )
