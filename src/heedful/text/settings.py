"""The small files beside a vocabulary: tokenizer_config.json, special_tokens_map.json, added_tokens.json."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken

from heedful.errors import RequestError
from heedful.text.disk import read_json
from heedful.text.tokenizer import ROLES

_FLAGS = ("lstrip", "rstrip", "single_word", "normalized")


@dataclass
class Settings:
    """What the small files say; files that are absent say nothing."""

    path: Path
    """tokenizer_config.json, for messages, whether or not it exists."""
    config: dict[str, Any] = field(default_factory=dict)
    special: dict[str, AddedToken] = field(default_factory=dict)
    extra: list[AddedToken] = field(default_factory=list)
    added: dict[int, AddedToken] = field(default_factory=dict)

    def flag(self, name: str, default: bool) -> bool:
        value = self.config.get(name, default)
        if not isinstance(value, bool):
            raise RequestError(f"{self.path}: {name} is {value!r}; it must be true or false.")
        return value

    def optional_flag(self, name: str) -> bool | None:
        return None if self.config.get(name) is None else self.flag(name, False)

    def refuse(self, name: str, *harmless: object) -> None:
        """Stop at a setting that would change the ids in a way that is not implemented."""
        value = self.config.get(name)
        if value is not None and value not in harmless:
            raise RequestError(
                f"{self.path}: {name} = {value!r} is not supported; "
                f"remove it, or convert the tokenizer to tokenizer.json."
            )

    def require_class(self, *names: str) -> None:
        """Stop at a tokenizer class that would treat the same vocabulary files in another way."""
        class_name = self.config.get("tokenizer_class")
        if class_name is None:
            return
        known = (*names, "PreTrainedTokenizer", "TokenizersBackend")
        if not isinstance(class_name, str) or class_name.removesuffix("Fast") not in known:
            raise RequestError(
                f"{self.path}: tokenizer_class {class_name!r} cannot be built from these vocabulary files; "
                f"convert the tokenizer to tokenizer.json."
            )

    @property
    def max_length(self) -> int | None:
        """None where the file has no length or the huge number that stands for none."""
        value = self.config.get("model_max_length")
        return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 1_000_000 else None

    @property
    def general(self) -> dict[str, Any]:
        """The settings that every kind of tokenizer has, as Tokenizer's arguments."""
        side = self.config.get("truncation_side", "right")
        if side not in ("left", "right"):
            raise RequestError(f"{self.path}: truncation_side is {side!r}; it must be 'left' or 'right'.")
        return {
            "max_length": self.max_length,
            "truncate_left": side == "left",
            "split_special": self.flag("split_special_tokens", False),
            "segmented": self._uses_segments,
        }

    @property
    def _uses_segments(self) -> bool | None:
        """Whether the model is given segments, as the file says; None if it does not."""
        names = self.config.get("model_input_names")
        if names is None:
            return None
        if not isinstance(names, list):
            raise RequestError(f"{self.path}: model_input_names is not a list of names.")
        return "token_type_ids" in names


def read_settings(directory: Path) -> Settings:
    """The rules of precedence are Hugging Face's: special_tokens_map.json over tokenizer_config.json, and both small
    files unread if tokenizer_config.json lists its added tokens itself."""
    path = directory / "tokenizer_config.json"
    settings = Settings(path, read_json(path) if path.exists() else {})
    _read_roles(settings, path, settings.config)
    decoder = settings.config.get("added_tokens_decoder")
    if decoder is not None:
        if not isinstance(decoder, dict):
            raise RequestError(f"{path}: added_tokens_decoder must be an object of ids; fetch the file again.")
        for key, value in decoder.items():
            if not (key.isascii() and key.isdigit()) or not isinstance(value, dict):
                raise RequestError(
                    f"{path}: added_tokens_decoder[{key!r}] must be a token under its id; fetch the file again."
                )
            token = _parse_token(path, f"added_tokens_decoder[{key!r}]", value, special=value.get("special", False))
            settings.added[int(key)] = token
    else:
        names = directory / "special_tokens_map.json"
        if names.exists():
            _read_roles(settings, names, read_json(names))
        added = directory / "added_tokens.json"
        if added.exists():
            _read_added(settings, added)
    listed = {token.content: token for token in settings.added.values()}
    settings.special = {role: listed.get(token.content, token) for role, token in settings.special.items()}
    return settings


def _read_roles(settings: Settings, path: Path, content: dict[str, Any]) -> None:
    for role in ROLES:
        value = content.get(f"{role}_token")
        if value is not None:
            settings.special[role] = _parse_token(path, f"{role}_token", value)
    for name in ("additional_special_tokens", "extra_special_tokens"):
        values = content.get(name) or []
        if isinstance(values, dict):
            values = list(values.values())
        if not isinstance(values, list):
            raise RequestError(f"{path}: {name} must be a list of tokens; correct it.")
        tokens = [_parse_token(path, f"{name}[{i}]", value) for i, value in enumerate(values)]
        known = {token.content for token in settings.extra}
        settings.extra += [token for token in tokens if token.content not in known]


def _read_added(settings: Settings, path: Path) -> None:
    special = {token.content for token in [*settings.special.values(), *settings.extra]}
    for content, number in read_json(path).items():
        if not isinstance(number, int) or isinstance(number, bool) or number < 0 or not content:
            raise RequestError(f"{path}: the id of {content!r} is {number!r}; it must be a whole number.")
        if number in settings.added:
            raise RequestError(f"{path} gives two tokens the id {number}; each needs its own.")
        is_special = content in special
        settings.added[number] = AddedToken(content, normalized=not is_special, special=is_special)


def _parse_token(path: Path, key: str, value: Any, special: bool = True) -> AddedToken:
    """A token given by its text, or by an object with its text and which white space around it belongs to it."""
    if isinstance(value, str):
        value = {"content": value}
    content = value.get("content") if isinstance(value, dict) else None
    if not isinstance(content, str) or not content:
        raise RequestError(f'{path}: {key} must be a token (a string, or an object with its "content"); correct it.')
    flags = {flag: value[flag] for flag in _FLAGS if flag in value}
    if not all(isinstance(flag, bool) for flag in [*flags.values(), special]):
        raise RequestError(f"{path}: the switches of {key} must be true or false; correct them.")
    try:
        return AddedToken(content, special=special, **flags)
    except (TypeError, UnicodeError):
        raise RequestError(f"{path}: {key} is not text that a vocabulary can hold; correct it.") from None


def missing_token(vocabulary: Path, role: str, token: str, settings: Settings) -> RequestError:
    return RequestError(
        f"{vocabulary} lacks the {role} token {token!r}; add it there, or name another in {settings.path}."
    )


def add_tokens(
    core: tokenizers.Tokenizer, settings: Settings, vocabulary: Path, special: dict[str, AddedToken]
) -> None:
    """Add what the settings list, then the tokens of the roles; every id must come out as the settings say.

    The library gives a new token the next free id, whatever the settings say, and Hugging Face leaves it at that.
    """
    for number, token in sorted(settings.added.items()):
        _add_one(core, token)
        actual = core.token_to_id(token.content)
        if actual != number:
            raise RequestError(
                f"{settings.path.parent} gives the added token {token.content!r} the id {number}, but with the "
                f"vocabulary of {vocabulary.name} it has {actual}; correct added_tokens.json or tokenizer_config.json."
            )
    known = {token.content for token in core.get_added_tokens_decoder().values()}
    for name, token in [*special.items(), *(("additional special", token) for token in settings.extra)]:
        if core.token_to_id(token.content) is None:
            raise missing_token(vocabulary, name, token.content, settings)
        if token.content not in known:
            _add_one(core, token)


def _add_one(core: tokenizers.Tokenizer, token: AddedToken) -> None:
    if token.special:
        core.add_special_tokens([token])
    else:
        core.add_tokens([token])
