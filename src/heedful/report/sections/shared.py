"""The sections that a run and a study share: data, curves and confusions in the forms in which both have them."""

import hashlib
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from heedful.evaluation.metrics import Metric
from heedful.report.page import charts
from heedful.report.page.pieces import (
    Block,
    Code,
    Column,
    Facts,
    Figure,
    Fold,
    Prose,
    Row,
    Section,
    Table,
    facts,
    section,
)
from heedful.report.page.words import count, figure, listed, plain, several, shortened, size
from heedful.storage.record import Record
from heedful.storage.run_record import Bin, DataRecord, ExampleRecord, Manifest, Scores

MOST_TABLE_CLASSES = 12
"""Classes up to which a confusion matrix is also written as a table, and a table of classes stands open."""


def signatures(metrics: Iterable[Metric]) -> Prose | None:
    """Which of the ways to compute a metric of its name was taken, where there are several."""
    said = dict.fromkeys(f"{metric.title} {metric.signature}" for metric in metrics if metric.signature)
    return (
        Prose(f"Signatures, by which the scores of others can be compared with these: {'; '.join(said)}.", "note")
        if said
        else None
    )


def about_data(data: DataRecord) -> Section | None:
    known = facts(
        [
            ("name", plain(data.name)),
            ("kind", plain(data.kind)),
            ("examples", ", ".join(f"{split} {count(n)}" for split, n in data.sizes.items())),
            (several(len(data.labels), "class", "classes"), ", ".join(data.labels)),
            ("licence", plain(data.licence)),
            ("contamination", plain(data.contamination)),
        ]
    )
    notes = [Prose(note, "note") for note in data.notes]
    return section("data", "Data", [known, hidden_note(data), *notes])


def hidden_note(data: DataRecord) -> Prose | None:
    if not data.hidden:
        return None
    return Prose(f"The labels of {listed(data.hidden)} are not public, so there is no score on it here.", "note")


def confusion_rows(labels: Sequence[str], matrix: Sequence[Sequence[int]], **extra: Any) -> list[dict[str, Any]]:
    """The cells for the chart. With many classes the empty ones are left out, which keeps the page small."""
    cells = []
    for gold, counts in zip(labels, matrix, strict=True):
        total = sum(counts)
        for predicted, n in zip(labels, counts, strict=True):
            if n or len(labels) <= charts.MOST_COUNTS or gold == predicted:
                cell = {"gold": gold, "predicted": predicted, "n": n, "share": round(n / total, 4) if total else 0}
                cells.append({**cell, **extra})
    return cells


def confusion_table(caption: str, labels: Sequence[str], matrix: Sequence[Sequence[int]]) -> Fold | None:
    if len(labels) > MOST_TABLE_CLASSES:
        return None
    columns = (Column("gold, down; predicted, across"), *(Column(label, numeric=True) for label in labels))
    rows = tuple(Row((label, *(count(n) for n in counts))) for label, counts in zip(labels, matrix, strict=True))
    return Fold(caption, (Table("", columns, rows),))


def confusion_of(scores: Scores, labels: Sequence[str]) -> list[list[int]] | None:
    """The matrix, if it is there and as large as the labels say."""
    matrix = scores.confusion
    square = [len(labels)] * len(labels)
    return matrix if labels and [len(row) for row in matrix] == square else None


def labels_of(data: DataRecord, scores: Scores) -> list[str]:
    """The names of the classes, from the scores or the description of the data; none where numbers are predicted."""
    return list(scores.per_class) or (data.labels if scores.confusion else [])


def reliability_rows(bins: Iterable[Bin]) -> list[dict[str, Any]]:
    return [{k: getattr(b, k) for k in ("low", "high", "confidence", "accuracy", "n")} for b in bins if b.n]


def reliability_figure(rows: list[dict[str, Any]], caption: str) -> Figure | None:
    return Figure("reliability", caption, charts.reliability(rows)) if rows else None


def error_table(caption: str, errors: Sequence[ExampleRecord], probability: str = "") -> Table | None:
    """Errors as rows; `probability` is the title of the column of probabilities, "" for none."""
    if not errors:
        return None
    paired, of_tasks = any(e.pair for e in errors), any(e.task for e in errors)
    columns = [*[Column("task")] * of_tasks, Column("row", numeric=True), Column("text", long=True)]
    columns += [Column("second text", long=True)] * paired + [Column("gold"), Column("predicted")]
    columns += [Column(probability, numeric=True)] * bool(probability)
    rows = []
    for e in errors:
        cells = [*[plain(e.task)] * of_tasks, plain(e.row), shortened(plain(e.text))]
        cells += [shortened(plain(e.pair))] * paired + [plain(e.gold), plain(e.predicted)]
        cells += [figure(e.probability, 3)] * bool(probability)
        rows.append(Row(tuple(cells)))
    return Table(caption, tuple(columns), tuple(rows))


def flat(nested: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested tables as dotted keys, the spelling of `--set`."""
    pairs: list[tuple[str, str]] = []
    for key, value in nested.items():
        if isinstance(value, dict):
            pairs += flat(value, f"{prefix}{key}.")
        else:
            pairs.append((f"{prefix}{key}", plain(value)))
    return pairs


def repeat_blocks(
    command: str | list[str] | None, manifest: Manifest, data: DataRecord, seeds: str
) -> list[Block | None]:
    """The command, and all that has to be the same for the same figures to come out."""
    line = shlex.join(command) if isinstance(command, list) else command or ""
    where = facts(
        [
            ("seed" if "," not in seeds else "seeds", seeds),
            ("device", plain(manifest.device)),
            ("threads", plain(manifest.threads)),
            *([("processes", plain(manifest.processes))] if manifest.processes != 1 else []),
            ("heedful", plain(manifest.heedful)),
            *((name, plain(v)) for name, v in manifest.versions.items() if name != "heedful"),
        ]
    )
    prints = Facts(tuple((name, _fingerprint(v)) for name, v in data.fingerprints.items()))
    return [
        Code(line) if line else None,
        where,
        Fold("Fingerprints of the data", (prints,)) if prints.pairs else None,
    ]


def _fingerprint(value: Any) -> str:
    """Of a corpus in shards, which is known by all that its corpus.json says: its hash and its size."""
    try:
        corpus = Record.model_validate_json(str(value))
    except ValueError:
        return plain(value)
    documents, length = corpus.number("documents"), corpus.number("bytes")
    known = [] if documents is None else [several(int(documents), "document")]
    known += [] if length is None else [size(length)]
    print_of_all = corpus.extra.get("sha256") or hashlib.sha256(str(value).encode()).hexdigest()
    return ", ".join([plain(print_of_all), *known])
