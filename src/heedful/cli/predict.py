"""`heedful predict`: a label and the probability of every class for each text, in their order."""

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
"""Texts or pairs, each with its number."""


def predict(
    model: Annotated[str, typer.Argument(help="A model directory with a classification head.")],
    texts: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|-|TEXT…",
            help="A file (CSV, TSV, JSONL, Parquet); - for lines from the standard input, a tab between the texts of a "
            "pair; or the text itself, two for a pair.",
        ),
    ],
    text: Annotated[str | None, typer.Option(help="The column with the text.")] = None,
    pair: Annotated[str | None, typer.Option(help="The column with the second text.")] = None,
    header: Header = None,
    out: Annotated[Path | None, typer.Option(help="A .tsv, .csv or .jsonl file; default: TSV to the screen.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Probabilities as they were before calibration.")] = False,
    head: Annotated[
        str | None, typer.Option(help='Which classifier, where the model has several; default: "classify".')
    ] = None,
    adapters: Annotated[
        str | None,
        typer.Option(help="Adapters other than the head's own: a name, or such as 'fuse(a, b)', 'stack(a, b)'."),
    ] = None,
) -> None:
    """Predict a text, or every row of a file, streaming: memory does not grow with it."""
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
            f"{truncated} of {count} texts were longer than {asked.model.max_length} tokens and were cut",
            file=sys.stderr,
        )


class Asked:
    """A model, and which of its answers are wanted. What it cannot answer is refused before anything is written."""

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
    """What exists, or is called like a data file; else it is a text."""
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
    what = "the lines of the standard input" if texts == ["-"] else f"the text {texts[0][:40]!r}"
    raise RequestError(
        f"--text, --pair and --header are about the columns of a file, and {what} has none; leave them out, or check "
        "the name of the file."
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
            f"{name} was trained on pairs of texts: beside {columns.text!r}, name the column with the second text with "
            f"--pair{offer}."
        )
    if model.of_pairs is False and pair is None and columns.pair is not None:
        raise RequestError(
            f"{name} was trained on single texts, and {path} has pairs: name the column with --text: "
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
            f"{name} does not say whether it was trained on pairs of texts; give it one text, or a file with "
            "--text and --pair."
        )
    if not model.of_pairs:
        return list(enumerate(texts, 1))
    if len(texts) != 2:
        raise RequestError(
            f"{name} was trained on pairs of texts: give it two, as in heedful predict {name} "
            '"the first text" "the second text".'
        )
    return [(1, (texts[0], texts[1]))]


def _from_lines(model: Asked, name: str) -> Iterator[Rows]:
    """What has come so far is answered at once, as one window; then one waits for more."""
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
                        f"line {number} of the standard input has no tab, and {name} was trained on pairs of texts; "
                        "put a tab between the two."
                    )
                window.append((number, (first, second)))
            else:
                window.append((number, line))
        yield window


def _write_file(out: Path, model: Asked, windows: Iterable[Rows]) -> tuple[int, int]:
    """The file appears when it is complete."""
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
