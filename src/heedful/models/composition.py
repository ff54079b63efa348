"""Which adapters are in use, and how they are put together: one by name, a stack, a fusion, an average. A small algebra
of immutable values, written as in `stack(language, fuse(mnli, qnli))`; what makes no sense is refused when it is
made."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from heedful.errors import RequestError

_LONGEST = 2000
_TOKEN = re.compile(r"\s*([(),*]|[^\s(),*]+)")


@dataclass(frozen=True, init=False)
class Fuse:
    """AdapterFusion: at each token the adapters are weighed by attention."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", _names("fuse", names))

    @property
    def name(self) -> str:
        """Of the fusion that belongs to these adapters in this order."""
        return ",".join(self.names)

    def __str__(self) -> str:
        return f"fuse({', '.join(self.names)})"


@dataclass(frozen=True, init=False)
class Average:
    """The weighted mean of what the adapters say; the weights add up to 1."""

    names: tuple[str, ...]
    weights: tuple[float, ...]

    def __init__(self, *names: str, weights: Sequence[float] | None = None) -> None:
        names = _names("average", names)
        numbers = weights is None or all(isinstance(w, int | float) for w in weights)
        given = [1.0] * len(names) if weights is None or not numbers else [float(w) for w in weights]
        if not numbers or len(given) != len(names) or not all(0 <= w < 1e100 for w in given) or not sum(given):
            raise RequestError(f"average({', '.join(names)}): needs one weight from 0 on for each, not all of them 0.")
        object.__setattr__(self, "names", names)
        total = 1.0 if abs(sum(given) - 1) < 1e-9 else sum(given)  # what is written is read back to the bit
        object.__setattr__(self, "weights", tuple(w / total for w in given))

    def __str__(self) -> str:
        parts = zip(self.names, self.weights, strict=True)
        if self.weights == (1 / len(self.names),) * len(self.names):  # to the bit, as it is read back
            return f"average({', '.join(self.names)})"
        return f"average({', '.join(f'{name}*{weight!r}' for name, weight in parts)})"


@dataclass(frozen=True, init=False)
class Stack:
    """One after another: the next reads what the one before has made."""

    parts: tuple["str | Fuse | Average", ...]

    def __init__(self, *parts: "str | Fuse | Average") -> None:
        if len(parts) < 2:
            raise RequestError(f"stack({', '.join(map(str, parts))}): needs at least two parts; name one by itself.")
        if any(isinstance(part, Stack) for part in parts):
            raise RequestError(f"stack({', '.join(map(str, parts))}): a stack in a stack is one stack; write it so.")
        if not all(isinstance(part, str | Fuse | Average) for part in parts):
            raise RequestError("a stack is made of names, fuse(…) and average(…).")
        object.__setattr__(self, "parts", parts)
        _refuse_repeats(str(self), names_of(self))

    def __str__(self) -> str:
        return f"stack({', '.join(map(str, self.parts))})"


Composition = str | Stack | Fuse | Average


def parts_of(composition: Composition) -> tuple[str | Fuse | Average, ...]:
    """One after another."""
    return composition.parts if isinstance(composition, Stack) else (composition,)


def names_of(composition: Composition) -> tuple[str, ...]:
    """Of all adapters in it, in their order."""
    if isinstance(composition, str):
        return (composition,)
    if isinstance(composition, Stack):
        return tuple(name for part in composition.parts for name in names_of(part))
    return composition.names


def parse_composition(text: str) -> Composition:
    """What is written as in `stack(a, fuse(b, c))` or `average(a*0.3, b*0.7)`; a word alone is a name."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise RequestError("adapters must be a name, stack(a, b), fuse(a, b) or average(a, b).")
    tokens = _TOKEN.findall(text)
    if not tokens or "".join(tokens) != re.sub(r"\s+", "", text):
        raise RequestError(
            f"{text!r} is not a composition of adapters. Write a name, stack(a, b), fuse(a, b) or average(a, b)."
        )
    made, rest = _parse(tokens, text)
    if rest or isinstance(made, tuple):
        raise _unreadable(text)
    return made


def _parse(tokens: list[str], text: str, depth: int = 0) -> tuple[Composition | tuple[str, float], list[str]]:
    """One part at the beginning of the tokens, with its weight if it has one, and the tokens that follow."""
    word, rest = tokens[0], tokens[1:]
    if word in "(),*":
        raise _unreadable(text)
    if rest[:1] == ["*"]:
        try:
            return (word, float(rest[1])), rest[2:]
        except (ValueError, IndexError):
            raise _unreadable(text) from None
    if rest[:1] != ["("]:
        return word, rest
    if depth == 2:
        raise _unreadable(text)
    parts: list[Composition | tuple[str, float]] = []
    while rest and rest[0] in "(,":
        if len(rest) < 2:
            raise _unreadable(text)
        part, rest = _parse(rest[1:], text, depth + 1)
        parts.append(part)
    if rest[:1] != [")"]:
        raise _unreadable(text)
    return _made(word, parts, text), rest[1:]


def _made(word: str, parts: list[Composition | tuple[str, float]], text: str) -> Composition:
    weighted = [part if isinstance(part, tuple) else (part, 1.0) for part in parts]
    if word == "average":
        return Average(*(part for part, _ in weighted), weights=[weight for _, weight in weighted])  # type: ignore[arg-type]
    if word not in ("stack", "fuse") or any(isinstance(part, tuple) for part in parts):
        raise _unreadable(text)
    return Stack(*parts) if word == "stack" else Fuse(*parts)  # type: ignore[arg-type]


def _unreadable(text: str) -> RequestError:
    return RequestError(
        f"{text!r} cannot be read; write a name, stack(a, b), fuse(a, b) or average(a*0.3, b*0.7), nested in a stack."
    )


def _names(what: str, names: Sequence[str]) -> tuple[str, ...]:
    if not all(isinstance(name, str) for name in names):
        raise RequestError(f"{what}({', '.join(map(str, names))}): is made of names of adapters, nothing nested.")
    if len(names) < 2:
        raise RequestError(f"{what}({', '.join(names)}): needs at least two adapters.")
    _refuse_repeats(f"{what}({', '.join(names)})", names)
    return tuple(names)


def _refuse_repeats(what: str, names: Sequence[str]) -> None:
    twice = next((name for name in names if list(names).count(name) > 1), None)
    if twice is not None:
        raise RequestError(f"{what}: names {twice!r} twice; name each adapter once.")
