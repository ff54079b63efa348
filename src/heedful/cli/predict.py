"""`heedful predict`: the label and the probability of every class for each text, in order."""

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from heedful.cli.outputs import open_result, refuse_input
from heedful.cli.show import Header
from heedful.errors import RequestError
from heedful.storage.lines import STANDARD_INPUT, decoded, windows_of_pipe

if TYPE_CHECKING:
    from heedful.inference.loading import Classifier
    from heedful.inference.predictions import Predictions

_WINDOW = 2048
_FORMATS = {".tsv": "excel-tab", ".csv": "excel", ".jsonl": ""}
Rows = list[tuple[int, Any]]
"""Texts or pairs with their row numbers."""


def predict(
    model: Annotated[str, typer.Argument(help="Model directory with a classification head.")],
    texts: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|-|TEXT…",
            help="A file (CSV, TSV, JSONL, Parquet), or a text (two for a pair), or - to read lines from standard "
            "input (for pairs: separated by a tab).",
        ),
    ],
    text: Annotated[str | None, typer.Option(help="Column with the text.", metavar="COL")] = None,
    pair: Annotated[str | None, typer.Option(help="Column with the second text of a pair.", metavar="COL")] = None,
    header: Header = None,
    out: Annotated[
        Path | None, typer.Option(help="Output file, .tsv, .csv or .jsonl; default: print TSV.", metavar="FILE")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Ignore the calibration that is stored in the model.")] = False,
    head: Annotated[str | None, typer.Option(help='Head to use if the model has several; default: "classify".')] = None,
    adapters: Annotated[
        str | None,
        typer.Option(help="Use these adapters instead of the head's own: a name, 'fuse(a, b)' or 'stack(a, b)'."),
    ] = None,
) -> None:
    """Predict the label or score of a text, or of every row of a file, in constant memory."""
    from heedful.inference.loading import load_classifier

    if out is not None and out.suffix not in _FORMATS:
        raise RequestError(f"{out}: the ending must be .tsv, .csv or .jsonl.")
    is_file = len(texts) == 1 and texts[0] != "-" and _is_file(texts[0])
    if not is_file and (text is not None or pair is not None or header is not None):
        _refuse_options(texts)
    if out is not None and (is_file or texts == ["-"]):
        refuse_input(out, Path(texts[0]) if is_file else None)
    asked = Asked(load_classifier(model), head, adapters, raw)
    if is_file:
        windows = _from_file(Path(texts[0]), asked, model, text, pair, header)
    elif texts == ["-"]:
        windows = _from_lines(asked, model)
    else:
        windows = iter([_from_words(texts, asked, model)])
    if out is None:
        count, truncated = _write_rows(sys.stdout, "excel-tab", asked, windows)
    else:
        count, truncated = _write_file(out, asked, windows)
        print(f"{count} {'row' if count == 1 else 'rows'} in {out}", file=sys.stderr)
    if truncated:
        print(
            f"{truncated} of {count} texts were longer than {asked.model.max_length} tokens and were truncated",
            file=sys.stderr,
        )


class Asked:
    """A model and the options of its predictions. Impossible options are refused before anything is written."""

    def __init__(self, model: "Classifier", head: str | None, adapters: str | None, raw: bool) -> None:
        from heedful.inference.model import Model

        self.model = model
        self._options: dict[str, Any] = {"head": head, "adapters": adapters, "raw": raw}
        self.labels: tuple[str, ...] = self.predict([]).names
        heads = model.transformer.head_shapes if isinstance(model, Model) else {}
        self.of_pairs = model.of_pairs if head is None else heads[head].of_pairs

    def predict(self, rows: Sequence[Any]) -> "Predictions":
        return self.model.predict(rows, **self._options)


def _is_file(argument: str) -> bool:
    """Return whether the argument exists or is named like a data file; otherwise it is a text."""
    from heedful.data.files import FORMATS

    try:
        if argument and Path(argument).exists():
            return True
    except (OSError, ValueError):  # longer than a name may be, or with a NUL
        return False
    suffixes = [s.lower() for s in Path(argument).suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return bool(suffixes) and suffixes[-1] in FORMATS and len(argument.split()) == 1


def _refuse_options(texts: Sequence[str]) -> None:
    what = "standard input" if texts == ["-"] else f"the text {texts[0][:40]!r}"
    raise RequestError(
        f"--text, --pair and --header are for files with columns, and {what} has none. Remove them, or check the file "
        "name."
    )


def _from_file(
    path: Path, model: Asked, name: str, text: str | None, pair: str | None, header: bool | None
) -> Iterator[Rows]:
    from heedful.data.columns import guess_columns
    from heedful.data.files import open_table

    table = open_table(path, header, None, (text, pair))
    columns = guess_columns(table, text, pair, None, want_label=False)
    if model.of_pairs and columns.pair is None:
        others = [c for c in table.columns if c != columns.text]
        offer = f": {', '.join(map(repr, others[:12]))}" if others else f", which {path} does not have"
        raise RequestError(
            f"{name} was trained on pairs of texts. In addition to {columns.text!r}, name the column with the second "
            f"text with --pair{offer}."
        )
    if model.of_pairs is False and pair is None and columns.pair is not None:
        raise RequestError(
            f"{name} was trained on single texts, but {path} has pairs. Name the column with --text: "
            f"{columns.text!r} or {columns.pair!r}."
        )
    for note in [*table.rule.notes, *([columns.note] if columns.note else [])]:
        print(note, file=sys.stderr)
    rows = (
        (r.number, (r.text, r.pair) if columns.pair is not None else r.text)
        for r in table.rows(columns.text, columns.pair)
    )
    return iter(lambda: list(islice(rows, _WINDOW)), [])


def _from_words(texts: Sequence[str], model: Asked, name: str) -> Rows:
    if model.of_pairs is None and len(texts) > 1:
        raise RequestError(
            f"{name} does not record whether it was trained on pairs of texts. Use one text, or a file with --text and "
            "--pair."
        )
    if not model.of_pairs:
        return list(enumerate(texts, 1))
    if len(texts) != 2:
        raise RequestError(
            f"{name} was trained on pairs of texts. Pass two, for example: heedful predict {name} "
            '"the first text" "the second text".'
        )
    return [(1, (texts[0], texts[1]))]


def _from_lines(model: Asked, name: str) -> Iterator[Rows]:
    """Yield the lines that have arrived as one window, then wait for more."""
    number = 0
    for lines in windows_of_pipe(sys.stdin.buffer, _WINDOW):
        window: Rows = []
        for raw in lines:
            number += 1
            line = decoded(raw, STANDARD_INPUT, number).rstrip("\r\n")
            if model.of_pairs:
                first, tab, second = line.partition("\t")
                if not tab:
                    raise RequestError(
                        f"standard input, line {number}: no tab, but {name} was trained on pairs of texts. Put a tab "
                        "between the two texts."
                    )
                window.append((number, (first, second)))
            else:
                window.append((number, line))
        yield window


def _write_file(out: Path, model: Asked, windows: Iterable[Rows]) -> tuple[int, int]:
    """Write a file that appears when it is complete."""
    with open_result(out) as file:
        return _write_rows(file, _FORMATS[out.suffix], model, windows)


def _write_rows(file: TextIO, dialect: str, model: Asked, windows: Iterable[Rows]) -> tuple[int, int]:
    regression = len(model.labels) == 1
    columns = ["row", "score"] if regression else ["row", "label", *(f"p:{name}" for name in model.labels)]
    writer = csv.writer(file, dialect=dialect, lineterminator="\n") if dialect else None
    if writer:
        writer.writerow(columns)
    count = truncated = 0
    for window in windows:
        predictions = model.predict([row for _, row in window])
        truncated += predictions.truncated
        for i, (number, _) in enumerate(window):
            if predictions.scores is not None:
                values: list[Any] = [number, round(float(predictions.scores[i]), 6)]
            else:
                values = [number, predictions.labels[i], *(round(float(p), 6) for p in predictions.probabilities[i])]
            if writer:
                writer.writerow(values)
            else:
                file.write(json.dumps(dict(zip(columns, values, strict=True)), ensure_ascii=False) + "\n")
        file.flush()
        count += len(window)
    return count, truncated
