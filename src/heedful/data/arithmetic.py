"""Verbal arithmetic, generated: "seven minus twelve" is negative. Needs no file, and every label is right."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from heedful.data.records import Examples
from heedful.errors import RequestError

LABELS = ("negative", "zero", "positive")
SMALLEST, LARGEST = 60, 30_000
"""Above the largest, the different expressions that come to zero run out."""
_TRIES = 100
"""Then another form: there are only a hundred ways to say a number minus itself."""
SHARES = {"train": 0.7, "dev": 0.1, "test": 0.2}

_ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")

Expression = tuple[int | str, ...]
Draw = Callable[[random.Random], Expression]


def in_words(n: int) -> str:
    """Spell a number from 0 to 99, with a hyphen as in twenty-one."""
    if n < 20:
        return _ONES[n]
    tens, ones = divmod(n, 10)
    return _TENS[tens - 2] + (f"-{_ONES[ones]}" if ones else "")


def generate(options: Mapping[str, Any]) -> dict[str, Examples]:
    """Generate train, dev and test from `size` (all examples together) and `seed`; no expression occurs twice."""
    size, seed = _option(options, "size", 2000), _option(options, "seed", 0)
    if unknown := sorted(set(options) - {"size", "seed"}):
        raise RequestError(f"arithmetic has no option {unknown[0]!r}; it has size and seed.")
    if not SMALLEST <= size <= LARGEST:
        raise RequestError(f"arithmetic: size = {size} must be from {SMALLEST} to {LARGEST}.")
    random_ = random.Random(seed)  # noqa: S311 - a data set, not a secret
    seen: set[Expression] = set()
    texts, labels = [], []
    for i in range(size):
        label = LABELS[i % 3]
        expression = _draw(random_, label, seen)
        seen.add(expression)
        texts.append(" ".join(part if isinstance(part, str) else in_words(part) for part in expression))
        labels.append(label)
    everything = Examples(texts, None, labels, None, list(range(1, size + 1)))
    dev, test = round(size * SHARES["dev"]), round(size * SHARES["test"])
    train = size - dev - test
    return {
        "train": everything.take(range(train)),
        "dev": everything.take(range(train, train + dev)),
        "test": everything.take(range(train + dev, size)),
    }


def _option(options: Mapping[str, Any], name: str, default: int) -> int:
    value = options.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise RequestError(f"arithmetic: {name} = {value!r} must be a whole number.")
    return value


def _draw(random_: random.Random, label: str, seen: set[Expression]) -> Expression:
    """Sample a new expression with this label: the form by its weight, then numbers until they fit."""
    draws, weights = _FORMS[label]
    while True:
        draw = random_.choices(draws, weights)[0]
        for _ in range(_TRIES):
            expression = draw(random_)
            if expression not in seen and _sign(expression) == label:
                return expression


def _two(operation: str) -> Draw:
    return lambda random_: (random_.randrange(100), operation, random_.randrange(100))


def _three(first: str, second: str) -> Draw:
    return lambda random_: (random_.randrange(100), first, random_.randrange(100), second, random_.randrange(100))


def _minus_itself(random_: random.Random) -> Expression:
    a = random_.randrange(100)
    return (a, "minus", a)


def _times_zero(random_: random.Random) -> Expression:
    a = random_.randrange(100)
    return (a, "times", 0) if random_.random() < 0.5 else (0, "times", a)


def _cancelling(random_: random.Random) -> Expression:
    """Sample two numbers, and return them with the sum that cancels them out."""
    a, b = random_.randrange(100), random_.randrange(100)
    while a + b > 99:
        a, b = random_.randrange(100), random_.randrange(100)
    forms: tuple[Expression, ...] = (
        (a, "plus", b, "minus", a + b),
        (a, "minus", a + b, "plus", b),
        (a + b, "minus", a, "minus", b),
    )
    return random_.choice(forms)


_FORMS: dict[str, tuple[list[Draw], list[float]]] = {
    "negative": (
        [
            _two("minus"),
            _three("plus", "minus"),
            _three("minus", "plus"),
            _three("minus", "minus"),
        ],
        [0.3, 0.2, 0.2, 0.3],
    ),
    "zero": ([_minus_itself, _times_zero, _cancelling], [0.1, 0.1, 0.8]),
    "positive": (
        [
            _two("plus"),
            _two("times"),
            _two("minus"),
            _three("plus", "plus"),
            _three("plus", "minus"),
            _three("minus", "plus"),
            _three("minus", "minus"),
        ],
        [0.08, 0.08, 0.28, 0.08, 0.18, 0.18, 0.12],
    ),
}


def _sign(expression: Expression) -> str:
    """Evaluate from left to right, which is correct because times is never combined with another operation."""
    total = int(expression[0])
    for operation, operand in zip(expression[1::2], expression[2::2], strict=True):
        n = int(operand)
        total = total + n if operation == "plus" else total - n if operation == "minus" else total * n
    return "negative" if total < 0 else "positive" if total > 0 else "zero"
