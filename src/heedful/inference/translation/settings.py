"""How texts are translated: what was asked for, and what the model's own settings say where nothing was."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from heedful.checkpoints.translators import TranslatorCheckpoint
from heedful.checkpoints.translators.checkpoint import REPETITION
from heedful.decoding.settings import Beam, Limits, Repetition, Sampling, Stopping
from heedful.errors import RequestError
from heedful.inference.translation.model_settings import ModelSettings, read_settings
from heedful.inference.translation.target_reader import Rules
from heedful.models.seq2seq.bert_fused import BertFusedSeq2Seq
from heedful.models.seq2seq.decoder_only import DecoderOnly
from heedful.models.seq2seq.recurrent import RecurrentSeq2Seq

_LONGEST_READ = 1024
"""Tokens of a source, for networks that read any number and get slower and slower."""
_NAMES = {"max_new_tokens": "max_length", "min_new_tokens": "min_length", "coverage_penalty": "coverage"}
"""What `decoding` calls a setting, and what `translate` calls it."""


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
    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None


@dataclass(frozen=True)
class Decoding:
    method: Sampling | Beam
    limits: Limits
    rules: Rules
    repetition: Repetition
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
    said, end_id = read_settings(checkpoint, _overruled(wanted)), checkpoint.end_id
    most = wanted.max_length
    longest_source, longest_target = longest_sides(checkpoint)
    if isinstance(checkpoint.model, DecoderOnly):
        longest_target //= 2
    if most is None:
        most = min(said.most, longest_target)
    elif isinstance(most, int) and most > longest_target:
        raise RequestError(
            f"max_length={most}: {checkpoint.source} writes at most {longest_target} tokens; ask for fewer."
        )
    least = wanted.min_length
    if least is None:
        least = min(said.least, most)
    with _callers_names():
        limits = Limits(most, least, frozenset([end_id]))
        method = _method(said, wanted)
        repetition = _repetition(said, wanted)
    forced = said.forced_eos_token_id is not None
    if forced:  # as in `transformers`, an end that is forced comes whatever the least length is
        limits = replace(limits, min_new_tokens=min(least, most - 1))
    if isinstance(checkpoint.model, DecoderOnly):
        longest_source = min(longest_source, checkpoint.model.shape.longest - most)
    banned, end_after = _banned(checkpoint, said), 0
    if said.renormalize_logits and repetition.active and isinstance(method, Beam):
        method, banned = replace(method, banned=banned, renormalise=True), frozenset()
    elif said.renormalize_logits:  # what cannot come yet leaves its probability to the others, the end included
        end_after = limits.min_new_tokens
    elif isinstance(method, Beam):
        method, banned = replace(method, banned=banned), frozenset()
    rules = Rules(banned, end_id, end_after, most - 1 if forced else None)
    return Decoding(method, limits, rules, repetition, longest_source)


def _overruled(wanted: Wanted) -> frozenset[str]:
    """The model's settings that mean nothing where the caller says how tokens are chosen."""
    given = {key for key in REPETITION if getattr(wanted, key) is not None}
    if any(value is not None for value in (wanted.temperature, wanted.top_k, wanted.top_p)):
        return frozenset({"do_sample", "num_beam_groups", "diversity_penalty", *given})
    return frozenset({*given, *(["do_sample"] if wanted.beam is not None else [])})


@contextlib.contextmanager
def _callers_names() -> Iterator[None]:
    """A refusal inside is said with the names that the caller knows."""
    try:
        yield
    except RequestError as error:
        words = str(error)
        for name, ours in _NAMES.items():
            words = words.replace(name, ours)
        raise RequestError(words) from None


def _method(said: ModelSettings, wanted: Wanted) -> Sampling | Beam:
    drawn = {name: getattr(wanted, name) for name in ("temperature", "top_k", "top_p")}
    drawn = {name: value for name, value in drawn.items() if value is not None}
    searched = {"beam": None, "length_penalty": None, "stopping": None, "n_best": 1, "coverage": 0.0}
    if drawn:
        for name, usual in searched.items():
            if getattr(wanted, name) != usual:
                raise RequestError(
                    f"{name}={getattr(wanted, name)!r} is for beam search, and {', '.join(drawn)} for sampling. "
                    "Remove one of them."
                )
        return Sampling(**drawn, seed=wanted.seed)
    if wanted.seed:
        raise RequestError(f"seed={wanted.seed!r} has no effect with beam search, which does not sample. Remove it.")
    least = wanted.n_best if isinstance(wanted.n_best, int) else 1  # what it is otherwise, `Beam` refuses
    width = wanted.beam if wanted.beam is not None else max(said.num_beams, least)
    penalty = said.length_penalty if wanted.length_penalty is None else wanted.length_penalty
    stopping = said.stopping if wanted.stopping is None else wanted.stopping
    return Beam(width, wanted.n_best, penalty, coverage_penalty=wanted.coverage, stopping=stopping)


def _repetition(said: ModelSettings, wanted: Wanted) -> Repetition:
    penalty, size = wanted.repetition_penalty, wanted.no_repeat_ngram_size
    return Repetition(
        said.repetition_penalty if penalty is None else penalty, said.no_repeat_ngram_size if size is None else size
    )


def _banned(checkpoint: TranslatorCheckpoint, said: ModelSettings) -> frozenset[int]:
    """Tokens that no translation holds: those that the settings name, or padding and the start token; the end token is
    none of them, as in `transformers`."""
    if said.bad_words_ids is None:
        named = {checkpoint.begin_id, checkpoint.tokenizers.target.pad_id} - {None}
    else:
        named = {i for (i,) in said.bad_words_ids}
    return frozenset(named - {checkpoint.end_id})  # type: ignore[arg-type]
