"""Which columns hold text, pair and label, when their names or what they hold leave no doubt."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from heedful.data.files import Table
from heedful.data.labels import parse_number
from heedful.data.names import LABELS, PAIRS, TEXTS
from heedful.errors import RequestError

_NUMBERED = re.compile(r"(.*?)[ _-]?([12ab])", re.IGNORECASE)


@dataclass(frozen=True)
class Columns:
    text: str
    pair: str | None
    label: str | None
    note: str = ""
    """What was guessed, in a sentence."""


@dataclass(frozen=True)
class _Profile:
    """What the first rows hold in a column."""

    name: str
    words: float
    different: int
    filled: int
    numeric: bool

    @property
    def like_text(self) -> bool:
        return not self.numeric and self.words >= 3 and self.different > 1

    @property
    def like_classes(self) -> bool:
        few = 2 <= self.different <= 50 and 2 * self.different <= self.filled
        return few and self.words <= 3


def guess_columns(
    table: Table, text: str | None, pair: str | None, label: str | None, want_label: bool = True
) -> Columns:
    """Guess the columns that are not given, by their names or else by their content. The label may remain None. A text
    is required: if several columns could be it, the error names them."""
    path, names = table.path, list(table.columns)
    for name in (text, pair, label):
        if name is not None and name not in names:
            raise table.missing_column(name)
    profiles = {name: _profile(name, [row.get(name) for row in table.sample]) for name in names}
    guessed_label = guessed_text = guessed_pair = None
    if label is None and want_label:
        label = guessed_label = _guess_label(names, profiles, {text, pair})
    if text is None:
        text, second = _guess_text(path, names, profiles, {pair, label})
        guessed_text = text
        if second is not None and pair is None:
            pair = guessed_pair = second
        if label is None and want_label:
            label = guessed_label = _guess_label(names, profiles, {text, pair})
    guesses = (("text", guessed_text), ("pair", guessed_pair), ("label", guessed_label))
    said = ", ".join(f"{role} {name!r}" for role, name in guesses if name is not None)
    return Columns(text, pair, label, f"{path.name}: columns taken by name or content: {said}." if said else "")


def ask_for_label(table: Table, columns: Columns) -> RequestError:
    """Return the error that asks for the label column and names the candidates, the most likely first."""
    path, rows = table.path, table.sample
    others = [n for n in table.columns if n not in (columns.text, columns.pair)]
    likely = [n for n in others if n.casefold() in LABELS or _profile(n, [r.get(n) for r in rows]).like_classes]
    if not others:
        return RequestError(f"{path} has only texts, in {columns.text!r}; add a column of labels.")
    return RequestError(f"{path}: which column holds the labels? Name it with --label: {_listed(likely or others)}.")


def _profile(name: str, values: Sequence[object]) -> _Profile:
    filled = [str(v).strip() for v in values if v is not None and str(v).strip()]
    words = sum(len(v.split()) for v in filled) / len(filled) if filled else 0.0
    numeric = bool(filled) and all(parse_number(v) is not None for v in filled)
    return _Profile(name, words, len(set(filled)), len(filled), numeric)


def _guess_label(names: list[str], profiles: dict[str, _Profile], taken: set[str | None]) -> str | None:
    """Guess by name: if several columns have such a name, prefer `label` to `score`. Otherwise take the only column
    with few values that recur."""
    matches = {n.casefold(): n for n in names if n not in taken and n.casefold() in LABELS}
    if len(matches) == 1:
        return next(iter(matches.values()))
    if matches:
        return matches.get(LABELS[0])
    likely = [n for n in names if n not in taken and profiles[n].like_classes]
    return likely[0] if len(likely) == 1 else None


def _guess_text(
    path: Path, names: list[str], profiles: dict[str, _Profile], taken: set[str | None]
) -> tuple[str, str | None]:
    free = [name for name in names if name not in taken]
    folded = {name.casefold(): name for name in free}
    pairs = [(folded[a], folded[b]) for a, b in PAIRS if a in folded and b in folded]
    if len(pairs) == 1:
        return pairs[0]
    singles = [folded[name] for name in TEXTS if name in folded]
    if not pairs and len(singles) == 1:
        return singles[0], None
    if not pairs and len(free) == 1 and not profiles[free[0]].numeric:
        return free[0], None
    texts = sorted((n for n in free if profiles[n].like_text), key=lambda n: -profiles[n].words)
    if not pairs and not singles and texts:
        if len(texts) == 1 or profiles[texts[0]].words >= 3 * profiles[texts[1]].words:
            return texts[0], None
        first, second = sorted(texts[:2], key=names.index)
        if len(texts) == 2 and _are_two_of_a_kind(first, second):
            return first, second
    raise RequestError(
        f"{path}: which column holds the text? Name it with --text (and --pair for a second one): "
        f"{_listed(texts or singles or names)}."
    )


def _are_two_of_a_kind(first: str, second: str) -> bool:
    """Whether two names differ only in a number or letter: "Title 1" and "Title 2", "answer_a" and "answer_b"."""
    a, b = _NUMBERED.fullmatch(first), _NUMBERED.fullmatch(second)
    return bool(a and b and a[1].casefold() == b[1].casefold() and (a[2] + b[2]).casefold() in ("12", "ab"))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:12])) + (" …" if len(names) > 12 else "")
