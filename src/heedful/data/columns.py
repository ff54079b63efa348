"""Which columns hold text, pair and label, when their names leave no doubt."""

from pathlib import Path

from heedful.data.files import columns_of, missing_column
from heedful.errors import RequestError

_LABELS = ("label", "labels", "class", "category", "target", "sentiment", "stars", "rating", "score", "intent", "topic")
_TEXTS = ("text", "sentence", "review", "content", "body", "comment", "message", "tweet", "document", "utterance")
_PAIRS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("sentence_a", "sentence_b"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("question1", "question2"),
)


def guess_columns(
    path: Path, text: str | None, pair: str | None, label: str | None
) -> tuple[str, str | None, str | None, str]:
    """Text, pair and label columns, and a sentence if any was guessed. The label may stay None; a text is needed."""
    columns = columns_of(path)
    for name in (text, pair, label):
        if name is not None and name not in columns:
            raise missing_column(path, name, columns)
    guesses = []
    if label is None and (match := _only_match(columns, _LABELS, {text, pair})):
        label = match
        guesses.append(f"label {label!r}")
    if text is None:
        text, second = _guess_text(path, columns, {pair, label})
        guesses.insert(0, f"text {text!r}")
        if second is not None and pair is None:
            pair = second
            guesses.insert(1, f"pair {pair!r}")
    return text, pair, label, f"{path.name}: columns taken by their names: {', '.join(guesses)}." if guesses else ""


def _only_match(columns: list[str], names: tuple[str, ...], taken: set[str | None]) -> str | None:
    """The one column with such a name; with several, the first of the names if it is there, since `label` says more
    than `score`."""
    matches = {column.casefold(): column for column in columns if column not in taken and column.casefold() in names}
    if len(matches) == 1:
        return next(iter(matches.values()))
    return matches.get(names[0])


def _guess_text(path: Path, columns: list[str], taken: set[str | None]) -> tuple[str, str | None]:
    folded = {column.casefold(): column for column in columns if column not in taken}
    pairs = [(folded[a], folded[b]) for a, b in _PAIRS if a in folded and b in folded]
    if len(pairs) == 1:
        return pairs[0]
    singles = [folded[name] for name in _TEXTS if name in folded]
    if not pairs and len(singles) == 1:
        return singles[0], None
    if not pairs and len(folded) == 1 and len(columns) > 1:
        return next(iter(folded.values())), None
    shown = ", ".join(map(repr, columns[:12])) + (" …" if len(columns) > 12 else "")
    raise RequestError(f"{path}: which column holds the text? Name it with text (--text); there are {shown}.")
