"""How a model is meant to be decoded: what its directory says, checked."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from heedful.checkpoints.config import shown
from heedful.checkpoints.translators import TranslatorCheckpoint
from heedful.checkpoints.translators.checkpoint import NEUTRAL, REPETITION, SETTINGS
from heedful.decoding.settings import STEEPEST, Stopping
from heedful.errors import RequestError


@dataclass(frozen=True)
class ModelSettings:
    """Under the names of Hugging Face's keys; the defaults hold where a directory does not say a key, or null."""

    num_beams: int = 5
    length_penalty: float = 1.0
    early_stopping: bool | str = "never"
    max_length: int = 257
    """Tokens of a translation, the start token included."""
    max_new_tokens: int | None = None
    """The same without the start token; it goes before `max_length`, as `min_new_tokens` before `min_length`."""
    min_length: int = 0
    min_new_tokens: int | None = None
    bad_words_ids: list[list[int]] | None = None
    renormalize_logits: bool = False
    forced_eos_token_id: int | list[int] | None = None
    eos_token_id: int | list[int] | None = None
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0

    @property
    def most(self) -> int:
        """Tokens of a translation; Hugging Face's max_length counts the start token, too."""
        return self.max_length - 1 if self.max_new_tokens is None else self.max_new_tokens

    @property
    def least(self) -> int:
        return max(self.min_length - 1, 0) if self.min_new_tokens is None else self.min_new_tokens

    @property
    def stopping(self) -> Stopping:
        if self.early_stopping == "never":
            return "exact"
        return "early" if self.early_stopping else "heuristic"


def read_settings(checkpoint: TranslatorCheckpoint, overruled: Collection[str] = ()) -> ModelSettings:
    """What decoding could not do is refused, with the file and the key that say it, unless the caller's own wishes
    overrule it."""
    said = {key: value for key in SETTINGS if (value := checkpoint.setting(key)) is not None}
    # as in `transformers`, what config.json may hold of these is read only where there is no generation_config.json
    keys = [key for key in (*REPETITION, *NEUTRAL) if key not in overruled]
    others = checkpoint.generation or {key: checkpoint.setting(key) for key in keys}
    said |= {key: others[key] for key in keys if others.get(key) is not None}
    for key, value in said.items():
        if wrong := _CHECKS[key](value, checkpoint) if key in _CHECKS else _not_neutral(key, value):
            raise RequestError(
                f"{checkpoint.place_of_setting(key)}: {key} = {shown(value)} {wrong}; correct it, or remove the key."
            )
    return ModelSettings(**{key: value for key, value in said.items() if key in _CHECKS})


Check = Callable[[Any, TranslatorCheckpoint], str]
"""What is wrong with a value, in words; "" if nothing."""


def _whole(least: int, why: str = "") -> Check:
    return lambda value, _: "" if _is_whole(value) and value >= least else f"is not a whole number from {least}{why}"


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_whole(value) or isinstance(value, float)


def _length_penalty(value: Any, _: TranslatorCheckpoint) -> str:
    return "" if _is_number(value) and abs(value) <= STEEPEST else f"is not a number from −{STEEPEST} to {STEEPEST}"


def _early_stopping(value: Any, _: TranslatorCheckpoint) -> str:
    return "" if isinstance(value, bool) or value == "never" else 'is none of true, false and "never"'


def _true_or_false(value: Any, _: TranslatorCheckpoint) -> str:
    return "" if isinstance(value, bool) else "is neither true nor false"


def _bad_words(value: Any, checkpoint: TranslatorCheckpoint) -> str:
    single = isinstance(value, list) and all(isinstance(word, list) and len(word) == 1 for word in value)
    if single and all(_is_whole(i) and 0 <= i < checkpoint.tokenizers.target.size for (i,) in value):
        return ""
    return "is not a list of ids of tokens, each in a list of its own (only single tokens can be banned)"


def _end(what: str) -> Check:
    def check(value: Any, checkpoint: TranslatorCheckpoint) -> str:
        ids = value if isinstance(value, list) else [value]
        if ids == [checkpoint.end_id] and _is_whole(ids[0]):
            return ""
        return f"is not {checkpoint.end_id}, the id of the end token (no other can {what})"

    return check


def _not_neutral(key: str, value: Any) -> str:
    if value == NEUTRAL[key] or value in ([], {}):
        return ""
    if key == "do_sample":
        return "samples tokens; set temperature, top_k or top_p to sample here"
    return f"changes decoding in a way that heedful does not support ({shown(NEUTRAL[key])} disables it)"


_CHECKS: Mapping[str, Check] = {
    "num_beams": _whole(1),
    "length_penalty": _length_penalty,
    "early_stopping": _early_stopping,
    "max_length": _whole(2, ", the start token included"),
    "max_new_tokens": _whole(1),
    "min_length": _whole(0),
    "min_new_tokens": _whole(0),
    "bad_words_ids": _bad_words,
    "renormalize_logits": _true_or_false,
    "forced_eos_token_id": _end("be forced"),
    "eos_token_id": _end("end a translation"),
    "repetition_penalty": lambda value, _: "" if _is_number(value) and 0 < value < math.inf else "is not above 0",
    "no_repeat_ngram_size": _whole(0),
}
