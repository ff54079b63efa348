"""From what a label column holds to class names or scores; what cannot be right is refused in words."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from heedful.data.records import Kind
from heedful.errors import RequestError

MOST_INTEGER_CLASSES = 20
"""More different whole numbers than this are taken for scores."""
_WHOLE = re.compile(r"[+-]?\d+")
_POINT_ZERO = re.compile(r"[+-]?\d+\.0+")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+(,\d+)?")


@dataclass(frozen=True, slots=True)
class Cell:
    """One label as read, and where, for messages."""

    value: str
    source: str
    number: int
    line: int | None = None

    @property
    def place(self) -> str:
        return f"{self.source}, " + (f"row {self.number}" if self.line is None else f"line {self.line}")


def decide_kind(cells: Sequence[Cell], asked: str) -> tuple[Kind, str]:
    """Return "classes" or "score", and a sentence that says why if the file had to decide. "written" are labels that
    stay as they are written, as a target that reads more than one class in them needs."""
    if asked not in ("auto", "classes", "score", "written"):
        raise RequestError(f"kind = {asked!r} is not known; it is 'auto', 'classes' or 'score'.")
    if asked in ("classes", "written"):
        return "classes", ""
    if asked == "score":
        return "score", ""
    values = {cell.value for cell in cells}
    numbers = {value: parse_number(value) for value in values}
    broken = {v for v, n in numbers.items() if n is not None and math.isfinite(n) and not n.is_integer()}
    if not broken:
        if None in numbers.values():
            return "classes", ""
        if len(set(numbers.values())) <= MOST_INTEGER_CLASSES:
            return "classes", (
                f"The labels are {len(set(numbers.values()))} different whole numbers: taken as classes "
                "(kind = 'score' takes them as scores)."
            )
        return "score", (
            f"The labels are {len(set(numbers.values()))} different whole numbers: taken as scores "
            "(kind = 'classes' takes them as classes)."
        )
    counts = Counter(cell.value for cell in cells)
    if None in numbers.values() and sum(counts[v] for v in broken) * 2 < len(cells):
        return "classes", ""
    return "score", "The labels are numbers with fractions: taken as scores (kind = 'classes' takes them as classes)."


def parse_number(value: str) -> float | None:
    """Return None if the value is not a number. NaN and the infinities count as numbers here."""
    if "_" in value or not value.isascii():  # Python's float() accepts these, but nobody writes labels so
        return None
    try:
        return float(value)
    except ValueError:
        return None


def to_scores(cells: Sequence[Cell]) -> list[float]:
    """Return finite numbers, or stop at the first row that has none."""
    scores = []
    for cell in cells:
        score = parse_number(cell.value)
        if score is None:
            comma = "; write decimals with a point" if _DECIMAL_COMMA.fullmatch(cell.value) else ""
            raise RequestError(
                f"{cell.place}: {_short(cell.value)} is not a number, and the labels are taken as scores{comma}; "
                "correct it, or say kind = 'classes'."
            )
        if not math.isfinite(score):
            raise RequestError(
                f"{cell.place}: the score is {cell.value}, and a score must be finite; correct or remove the row."
            )
        scores.append(score)
    return scores


def to_classes(cells: Sequence[Cell]) -> tuple[list[str], list[str]]:
    """Return class names, and notes. Numbers that are all written "1.0" become "1"; two spellings of one number are
    refused."""
    notes: list[str] = []
    first_place: dict[str, str] = {}
    for cell in cells:
        if cell.value not in first_place:
            first_place[cell.value] = cell.place
    _refuse_not_finite(first_place)
    _refuse_decimal_commas(first_place)
    _refuse_several(first_place)
    rename = {}
    if first_place and all(_POINT_ZERO.fullmatch(value) for value in first_place):
        rename = {value: str(int(value.split(".")[0])) for value in first_place}
        notes.append("The labels are whole numbers written with a decimal point; read without it.")
    _refuse_two_spellings(first_place)
    _refuse_free_text(first_place, len(cells))
    return [rename.get(cell.value, cell.value) for cell in cells], notes


def in_order(names: set[str]) -> tuple[str, ...]:
    """Sort names: numerically if all are whole numbers, else alphabetically."""
    if all(_WHOLE.fullmatch(name) for name in names):
        return tuple(sorted(names, key=int))
    return tuple(sorted(names))


def _refuse_not_finite(first_place: dict[str, str]) -> None:
    numeric = {value: parse_number(value) for value in first_place}
    if len(first_place) > 1 and None not in numeric.values():
        for value, parsed in numeric.items():
            if parsed is not None and not math.isfinite(parsed):
                raise RequestError(f"{first_place[value]}: the label is {value}, no class among numbers; correct it.")


def _refuse_decimal_commas(first_place: dict[str, str]) -> None:
    if all(map(_DECIMAL_COMMA.fullmatch, first_place)):
        for value, place in first_place.items():
            if "," in value:
                raise RequestError(f"{place}: the label {value!r} has a decimal comma; write scores with a point.")


def _refuse_two_spellings(first_place: dict[str, str]) -> None:
    spellings: dict[float, str] = {}
    for value in first_place:
        parsed = parse_number(value)
        if parsed is None or math.isnan(parsed):
            continue
        if parsed in spellings:
            other = spellings[parsed]
            raise RequestError(
                f"{first_place[value]}: the label {value!r} is the same number as {other!r} "
                f"({first_place[other]}), written differently; write it in one way."
            )
        spellings[parsed] = value


def _refuse_several(first_place: dict[str, str]) -> None:
    """Refuse several labels in one cell: "a|b", where a and b are also labels of other rows."""
    for mark in "|;,":
        joined = {value: [part.strip() for part in value.split(mark)] for value in first_place if mark in value}
        if not joined or not all(all(parts) for parts in joined.values()):
            continue
        uses = Counter(part for parts in joined.values() for part in set(parts))
        if all(part in first_place or uses[part] > 1 for parts in joined.values() for part in parts):
            value = next(iter(joined))
            raise RequestError(
                f"{first_place[value]}: the label {_short(value)} looks like several labels joined by {mark!r}; "
                "several labels to a row are not supported, give each row one."
            )


def _refuse_free_text(first_place: dict[str, str], count: int) -> None:
    if len(first_place) > MOST_INTEGER_CLASSES and 2 * len(first_place) > count:
        value = next(iter(first_place))
        raise RequestError(
            f"{first_place[value]}: the label column has {len(first_place):,} different values in {count:,} rows, the "
            f"first {_short(value)}; classes recur, so name another column."
        )


def _short(value: str) -> str:
    return repr(value if len(value) <= 40 else value[:39] + "…")
