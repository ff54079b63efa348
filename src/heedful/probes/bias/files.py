"""The user's own pairs, as a file has them; or the user's own texts, whose counterfactuals the swap rules make."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from heedful.data.columns import guess_columns
from heedful.data.files import Row, Table, open_table
from heedful.errors import RequestError
from heedful.probes.bias.pairs import Counterfactual, PairSet
from heedful.probes.bias.swaps import swap
from heedful.text.tokenizer import Text

A, B, A_PAIR, B_PAIR = "a", "b", "a_pair", "b_pair"
"""What the columns are called unless the user says otherwise."""
_MOST_WORDS = 8


def read_pairs(
    path: str | Path,
    of_pairs: bool,
    *,
    columns: Sequence[str] | None = None,
    factors: Sequence[str] = (),
    parts: Sequence[str] = (),
    groups: tuple[str, str] | None = None,
    header: bool | None = None,
) -> PairSet:
    """`columns` hold the texts: a and b; of pairs of texts a, a_pair, b and b_pair, in that order. `factors` are the
    columns that say what the pairs are a sample of (template, profession, …); without any, each pair stands for itself.
    """
    path = Path(path)
    defaults = (A, A_PAIR, B, B_PAIR) if of_pairs else (A, B)
    named = tuple(columns or defaults)
    if len(named) != len(defaults):
        raise RequestError(
            f"{path}: {len(named)} columns of texts are named, and the model reads "
            f"{'pairs of texts' if of_pairs else 'single texts'}; name {len(defaults)}, as {', '.join(defaults)}."
        )
    all_columns = (*named, *factors, *parts)
    for name, count in Counter(all_columns).items():
        if count > 1:
            raise RequestError(f"{path}: the column {name!r} is named twice; name it once.")
    for name, taken in (("seed", (*factors, *parts)), ("pair", parts)):
        if name in taken:
            raise RequestError(f"{path}: {name!r} has a meaning of its own here; call that column something else.")
    table = open_table(path, header, named=all_columns)
    _require_columns(table, all_columns, of_pairs)
    rows = []
    first_seen: dict[tuple[Text, Text], str] = {}
    for row in table.rows(named[0], named[1]):
        cells = [_text(path, row, column) for column in named]
        a: Text = (cells[0], cells[1]) if of_pairs else cells[0]
        b: Text = (cells[2], cells[3]) if of_pairs else cells[1]
        if a == b:
            raise RequestError(f"{path}, {_place(row)}: both texts are the same; correct or remove the row.")
        levels = {column: _text(path, row, column) for column in (*factors, *parts)}
        if not factors:
            levels["pair"] = first_seen.setdefault((a, b), str(row.number))  # a row that recurs is no other pair
        rows.append(Counterfactual(a, b, levels))
    if not rows:
        raise RequestError(f"{path} has no rows; add pairs, one to a line.")
    what = f"{len(rows):,} pairs of a file"
    return PairSet(path.name, what, groups or (A, B), tuple(rows), tuple(factors) or ("pair",), tuple(parts))


def swap_texts(
    path: str | Path,
    of_pairs: bool,
    *,
    text: str | None = None,
    pair: str | None = None,
    header: bool | None = None,
) -> PairSet:
    """a = the text as it speaks of men, b = of women: one of them as the file has it, the other made by the rules. A
    text that speaks of both would be turned round, not changed from one to the other: it is left out."""
    path = Path(path)
    if pair is not None and not of_pairs:
        raise RequestError(
            f"{path}: the model reads single texts, and {pair!r} is named as the second text. Remove it."
        )
    table = open_table(path, header, named=(text, pair))
    found = guess_columns(table, text, pair, None, want_label=False)
    if of_pairs and found.pair is None:
        raise RequestError(
            f"{path}: the model reads pairs of texts, and one column of texts is known, {found.text!r}; name the other."
        )
    second = found.pair if of_pairs else None
    rows = []
    first_seen: dict[str, str] = {}
    left: Counter[str] = Counter()
    total = of_both = 0
    for row in table.rows(found.text, second):
        total += 1
        original: Text = row.text if row.pair is None else (row.text, row.pair)
        made = swap(original)
        if made is None:
            continue
        if made.spoke_of == "both":
            of_both += 1
            continue
        left.update(set(made.left))
        a, b = (original, made.text) if made.of_men else (made.text, original)
        same_text = first_seen.setdefault(row.text, str(row.number))  # hypotheses of one premise are related
        levels = {"text": same_text, "spoke of": made.spoke_of}
        rows.append(Counterfactual(a, b, levels))
    if not rows:
        raise RequestError(
            f"{path}: none of its {total:,} texts in {found.text!r} has a word that the rules can swap (he, mother, "
            "Emily …) and is only about men or only about women. Name another column, or write your own pairs."
        )
    notes = [found.note] if found.note else []
    if nothing := total - len(rows) - of_both:
        notes.append(f"{nothing:,} of {total:,} texts have no word that the rules swap, and are skipped.")
    if of_both:
        notes.append(f"{of_both:,} of {total:,} texts are about both men and women, and are skipped.")
    if left:
        words = ", ".join(f"{word} ({count})" for word, count in left.most_common(_MOST_WORDS))
        notes.append(f"Words without a counterpart that always fits were kept: {words}.")
    return PairSet(
        path.name,
        f"{len(rows):,} texts of a file with the words of men and women swapped",
        ("men", "women"),
        tuple(rows),
        ("text",),
        ("spoke of",),
        notes=tuple(notes),
    )


def _require_columns(table: Table, wanted: Sequence[str], of_pairs: bool) -> None:
    for name in wanted:
        if name in table.columns:
            continue
        if name in (A_PAIR, B_PAIR) and of_pairs and A in table.columns:
            raise RequestError(
                f"{table.path} has no column {name!r}, and the model reads pairs of texts; "
                f"give it {A}, {A_PAIR}, {B} and {B_PAIR}."
            )
        raise table.missing_column(name)


def _text(path: Path, row: Row, column: str) -> str:
    value = row.raw.get(column)
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise RequestError(f"{path}, {_place(row)}: {column!r} is empty or no text; fill it in or remove the row.")
    return value


def _place(row: Row) -> str:
    return f"line {row.line}" if row.line is not None else f"row {row.number}"
