"""How texts are translated: what was asked for, and what the model's own settings say where nothing was."""

from dataclasses import dataclass, replace
from typing import Any

from heedful.checkpoints.translators import TranslatorCheckpoint
from heedful.decoding.settings import Beam, Limits, Sampling, Stopping
from heedful.errors import RequestError
from heedful.models.seq2seq.bert_fused import BertFusedSeq2Seq
from heedful.models.seq2seq.decoder_only import DecoderOnly
from heedful.models.seq2seq.recurrent import RecurrentSeq2Seq
from heedful.translating.reader import Rules

WIDTH = 5
"""Of the beam, where neither the caller nor the model says one."""
LONGEST = 256
"""Tokens of a translation, where neither says how many."""
_LONGEST_READ = 1024
"""Tokens of a source, for networks that read any number and get slower and slower."""
_STOPPING: dict[Any, Stopping] = {True: "early", False: "heuristic", "never": "exact"}
"""By `early_stopping` of Hugging Face's settings."""


@dataclass(frozen=True)
class Wanted:
    """What the caller asks for; None: as the model's settings say."""

    beam: int | None = None
    n_best: int = 1
    length_penalty: float | None = None
    max_length: int | None = None
    min_length: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0
    coverage: float = 0.0
    stopping: Stopping | None = None


@dataclass(frozen=True)
class Decoding:
    method: Sampling | Beam
    limits: Limits
    rules: Rules
    longest_source: int
    """Tokens, the end token included."""


def longest_sides(checkpoint: TranslatorCheckpoint) -> tuple[int, int]:
    """The most tokens that the model reads of a source and writes of a target, end tokens included. Of a language model
    both stand in one text: so many together, less one."""
    model, sides = checkpoint.model, (checkpoint.tokenizers.source, checkpoint.tokenizers.target)
    if isinstance(model, DecoderOnly):
        source = target = model.shape.longest
    elif isinstance(model, RecurrentSeq2Seq):
        source, target = sides[0].max_length or _LONGEST_READ, 10**6
    else:
        shape = model.shape.translator if isinstance(model, BertFusedSeq2Seq) else model.shape
        source, target = shape.source.longest, shape.target.longest
    return min(source, sides[0].max_length or source), target


def decide(checkpoint: TranslatorCheckpoint, wanted: Wanted) -> Decoding:
    """What is asked for and cannot be is refused."""
    said, end_id = checkpoint.setting, checkpoint.end_id
    most = wanted.max_length
    longest_source, longest_target = longest_sides(checkpoint)
    if isinstance(checkpoint.model, DecoderOnly):
        longest_target //= 2
    if most is None:
        # Hugging Face's max_length counts the start token, too.
        most = _whole(checkpoint, "max_length", LONGEST + 1) - 1
        most = min(most, longest_target)
    elif isinstance(most, int) and most > longest_target:
        raise RequestError(
            f"max_length={most}: {checkpoint.source} writes at most {longest_target} tokens; ask for fewer."
        )
    least = wanted.min_length
    if least is None:
        least = min(max(_whole(checkpoint, "min_length", 0) - 1, 0), most)
    try:
        limits = Limits(most, least, frozenset([end_id]))
    except RequestError as error:
        words = str(error).replace("max_new_tokens", "max_length").replace("min_new_tokens", "min_length")
        raise RequestError(words) from None
    if isinstance(checkpoint.model, DecoderOnly):
        longest_source = min(longest_source, checkpoint.model.shape.longest - most)
    forced = said("forced_eos_token_id") is not None and least < most
    banned, renormalised = _banned(checkpoint), bool(said("renormalize_logits", False))
    method = _method(checkpoint, wanted)
    if isinstance(method, Beam) and not renormalised:
        method, banned = replace(method, banned=banned), frozenset()
    return Decoding(method, limits, Rules(banned, end_id, most - 1 if forced else None), longest_source)


def _method(checkpoint: TranslatorCheckpoint, wanted: Wanted) -> Sampling | Beam:
    drawn = {name: getattr(wanted, name) for name in ("temperature", "top_k", "top_p")}
    drawn = {name: value for name, value in drawn.items() if value is not None}
    searched = {"beam": None, "length_penalty": None, "stopping": None, "n_best": 1, "coverage": 0.0}
    if drawn:
        for name, usual in searched.items():
            if getattr(wanted, name) != usual:
                raise RequestError(
                    f"{name}={getattr(wanted, name)!r} is about beam search, and {', '.join(drawn)} about drawing "
                    "tokens; leave one out."
                )
        return Sampling(**drawn, seed=wanted.seed)
    if wanted.seed:
        raise RequestError(f"seed={wanted.seed!r} has no effect with beam search, which draws nothing; leave it out.")
    width = wanted.beam if wanted.beam is not None else max(_whole(checkpoint, "num_beams", WIDTH), wanted.n_best)
    penalty = checkpoint.setting("length_penalty", 1.0) if wanted.length_penalty is None else wanted.length_penalty
    stopping = wanted.stopping
    if stopping is None:
        stopping = _STOPPING.get(checkpoint.setting("early_stopping", "never"), "exact")
    return Beam(width, wanted.n_best, penalty, coverage_penalty=wanted.coverage, stopping=stopping)


def _banned(checkpoint: TranslatorCheckpoint) -> frozenset[int]:
    """Tokens that no translation holds: those that the settings name, or padding and the start token."""
    named, target = checkpoint.setting("bad_words_ids"), checkpoint.tokenizers.target
    if named is None:
        return frozenset({checkpoint.begin_id, target.pad_id} - {None, checkpoint.end_id})  # type: ignore[arg-type]
    single = isinstance(named, list) and all(isinstance(word, list) and len(word) == 1 for word in named)
    if not single or not all(isinstance(i, int) and 0 <= i < target.size for (i,) in named):
        raise RequestError(
            f"{checkpoint.source}: bad_words_ids in generation_config.json or config.json is not a list of ids, "
            "each in a list of its own; only single tokens can be banned."
        )
    return frozenset(i for (i,) in named)


def _whole(checkpoint: TranslatorCheckpoint, key: str, default: int) -> int:
    value = checkpoint.setting(key)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise RequestError(f"{checkpoint.source}: {key} = {value!r} in its settings is not a whole number; correct it.")
    return value
