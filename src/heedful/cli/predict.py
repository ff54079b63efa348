"""`heedful predict`: a label and the probability of every class for each row of a file, in its order."""

import csv
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from heedful.errors import RequestError, WorkError

if TYPE_CHECKING:
    from heedful.api import Model

_WINDOW = 2048
_FORMATS = {".tsv": "excel-tab", ".csv": "excel", ".jsonl": ""}


def predict(
    model: Annotated[str, typer.Argument(help="A model directory with a classification head.")],
    file: Annotated[Path, typer.Argument(help="The texts: CSV, TSV, JSONL or Parquet.")],
    text: Annotated[str | None, typer.Option(help="The column with the text.")] = None,
    pair: Annotated[str | None, typer.Option(help="The column with the second text.")] = None,
    out: Annotated[Path | None, typer.Option(help="A .tsv, .csv or .jsonl file; default: TSV to the screen.")] = None,
) -> None:
    """Predict every row of a file, streaming: memory does not grow with it."""
    from heedful.api import load
    from heedful.data.columns import guess_columns
    from heedful.data.files import read_rows

    if out is not None and out.suffix not in _FORMATS:
        raise RequestError(f"{out}: the ending must be .tsv, .csv or .jsonl.")
    loaded = load(model)
    loaded.predict([])  # a model that cannot predict is refused before anything is written
    text, pair, _, note = guess_columns(file, text, pair, None)
    if note:
        print(note, file=sys.stderr)
    rows = ((r.number, (r.text, r.pair) if pair is not None else r.text) for r in read_rows(file, text, pair))
    if out is None:
        count, truncated = _write_rows(sys.stdout, "excel-tab", loaded, rows)
    else:
        count, truncated = _write_file(out, loaded, rows)
        print(f"{count} rows in {out}", file=sys.stderr)
    if truncated:
        print(f"{truncated} of {count} texts were longer than {loaded.max_length} tokens and were cut", file=sys.stderr)


def _write_file(out: Path, model: "Model", rows: Iterator[tuple[int, Any]]) -> tuple[int, int]:
    """The file appears when it is complete."""
    part = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{out.name}.", dir=out.parent)
        part = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            counts = _write_rows(file, _FORMATS[out.suffix], model, rows)
        part.replace(out)
        part = None
    except OSError as error:
        raise WorkError(f"{out}: could not be written ({error.strerror}); nothing was left behind.") from None
    finally:
        if part is not None:
            part.unlink(missing_ok=True)
    return counts


def _write_rows(file: TextIO, dialect: str, model: "Model", rows: Iterator[tuple[int, Any]]) -> tuple[int, int]:
    regression = len(model.labels) == 1
    columns = ["row", "score"] if regression else ["row", "label", *(f"p:{name}" for name in model.labels)]
    writer = csv.writer(file, dialect=dialect, lineterminator="\n") if dialect else None
    if writer:
        writer.writerow(columns)
    count = truncated = 0
    while window := list(islice(rows, _WINDOW)):
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
        count += len(window)
    return count, truncated
