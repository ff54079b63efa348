"""What was read, split by split, before it is a data set: answers still as cells, with their places."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from heedful.data.check_results import Finding, count_of, listed, summary
from heedful.data.checks import CHECKS, check_splits
from heedful.data.files import Row, Table, Unreadable
from heedful.data.labels import Cell, decide_kind, in_order, to_classes, to_scores
from heedful.data.records import SPLITS, Dataset, Examples, Kind, Pairs
from heedful.data.splits import DEV_SHARE, SPLIT_SEED, TEST_SHARE, carve_missing
from heedful.errors import RequestError
from heedful.storage.lines import encoding_of

_TOLERATED_SHARE = 0.1
"""Share of rows that may be unusable before a file counts as broken."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_FEW = 10
"""Fewer scores than this may well be equal."""


@dataclass
class Part:
    """One split as read: texts, second texts (of a pair, or the translations), and answers."""

    source: str
    texts: list[str] = field(default_factory=list)
    pairs: list[str] | None = None
    cells: list[Cell | None] = field(default_factory=list)
    """None where the label is missing; translations have none."""
    rows: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    """What reading it has shown."""

    def examples(self, answered: bool = False) -> Examples:
        """Return the rows without answers yet. `answered`: only those that have one."""
        examples = Examples(self.texts, self.pairs, None, None, self.rows)
        return examples.take(i for i, cell in enumerate(self.cells) if cell is not None) if answered else examples

    def answers(self) -> list[Cell]:
        return [cell for cell in self.cells if cell is not None]

    @property
    def translations(self) -> Pairs:
        return Pairs(self.texts, self.pairs or [], self.rows)

    def leave_out(self, bad: Sequence[Unreadable], called: str, thing: str, verb: str) -> None:
        """Note the rows that are not in this part; stop if there are too many. `called`: the file, for a finding."""
        total = len(bad) + len(self.rows)
        if len(bad) > _TOLERATED_SHARE * total:
            raise RequestError(
                f"{self.source}: {len(bad):,} of {total:,} {thing}s cannot be {verb} (the first: {bad[0].place}, "
                f"{bad[0].reason}); correct them."
            )
        if bad:
            one = len(bad) == 1
            word = ("line" if bad[0].line is not None else "row") + ("" if one else "s")
            places = [some.number if some.line is None else some.line for some in bad]
            sentence = (
                f"{called}: {count_of(len(bad), thing)} cannot be {verb} and {'is' if one else 'are'} left out "
                f"({word} {listed(places, 20)}; the first {bad[0].reason})."
            )
            self.findings.append(Finding("rows", called, len(bad), [some.number for some in bad], sentence))

    def note_encoding(self, path: Path) -> None:
        if path.suffix.lower() != ".parquet" and encoding_of(path) == "utf-16":
            self.notes.append(f"{path.name} is UTF-16, and was read as such.")


def read_part(table: Table, text: str, pair: str | None, label: str | None, label_may_lack: bool = False) -> Part:
    """Read a whole file of examples; rows that cannot be read are left out and named in the findings."""
    path = table.path
    if label_may_lack and label not in table.columns:
        label = None
    part = Part(str(path), pairs=None if pair is None else [])
    unreadable: list[Unreadable] = []
    for row in table.rows(text, pair, label, unreadable.append):
        part.texts.append(row.text)
        if part.pairs is not None:
            part.pairs.append(row.pair or "")
        part.cells.append(None if row.label is None else Cell(row.label, str(path), row.number, row.line))
        part.rows.append(row.number)
    part.leave_out(unreadable, path.name, "row", "read")
    if not part.rows:
        raise RequestError(f"{path} has column names but no rows. Add rows.")
    if not any(text.strip() for text in part.texts):
        raise RequestError(f"{path}: every {text!r} is empty. Name another column.")
    part.findings += [Finding("reading", path.name, 1, [], note) for note in table.rule.notes]
    part.note_encoding(path)
    return part


def read_translations(table: Table, source: str, target: str) -> Part:
    """Read a whole file with a column for each side; pairs that cannot be used are left out and named in the
    findings."""
    path, bad = table.path, list[Unreadable]()
    part = usable_pairs(table.rows(source, target, skip=bad.append), str(path), path.name, bad)
    part.findings += [Finding("reading", path.name, 1, [], note) for note in table.rule.notes]
    part.note_encoding(path)
    return part


def usable_pairs(rows: Iterable[Row], source: str, called: str, bad: list[Unreadable]) -> Part:
    """Return the pairs that have a text on both sides; `bad` has those that were not read when `rows` has been gone
    through."""
    part = Part(source, pairs=[])
    assert part.pairs is not None
    for row in rows:
        text, translation = row.text.strip(), (row.pair or "").strip()
        if reason := _why_unusable(text, translation):
            bad.append(Unreadable(row.number, row.line, reason))
            continue
        part.texts.append(text)
        part.pairs.append(translation)
        part.rows.append(row.number)
    bad.sort(key=lambda some: some.number)
    if not bad and not part.rows:
        raise RequestError(f"{source}: there are no pairs. Add rows with a text for each side.")
    part.leave_out(bad, called, "pair", "used")
    return part


def _why_unusable(source: str, target: str) -> str:
    for side, text in (("source", source), ("target", target)):
        if not text:
            return f"has an empty {side}"
        if "\0" in text:  # through an escape of JSON; files of text that hold one were refused
            return f"has a NUL character in its {side}"
        if _SURROGATE.search(text):
            return f"has half a surrogate pair in its {side}"
    return ""


def why_hidden(train: Sequence[Cell], test: Part, kind: str) -> str:
    """Return why the labels of a test split cannot be real, or nothing. They cannot if there are none, if one value
    that no row of train has is in every row, or if a score never changes. A single class that train has too is real."""
    values = {cell.value for cell in test.answers()}
    if not values:
        return "it has no labels"
    if len(values) > 1 or None in test.cells:
        return ""
    (value,) = values
    if value not in {cell.value for cell in train}:
        return f"its labels are all {value!r}, which no row of train has"
    if len(test.cells) >= _FEW and decide_kind(train, kind)[0] == "score":
        return f"its scores are all {value}"
    return ""


@dataclass
class Plan:
    """How parts become a data set, beyond what they hold."""

    name: str
    kind: str = "auto"
    """See `decide_kind`."""
    labels: tuple[str, ...] | None = None
    """Fixed names, of named sets; else taken from the data."""
    seed: int = SPLIT_SEED
    dev_share: float = DEV_SHARE
    test_share: float = TEST_SHARE
    licence: str = ""
    contamination: str = ""
    notes: list[str] = field(default_factory=list)


def assemble(parts: dict[str, Part], plan: Plan) -> Dataset:
    """Decide and convert the answers, carve missing splits from train, and note everything that a report should say."""
    notes = [*plan.notes, *(note for part in parts.values() for note in part.notes)]
    findings = [finding for part in parts.values() for finding in part.findings]
    for split, part in parts.items():
        missing = [row for row, cell in zip(part.rows, part.cells, strict=True) if cell is None]
        if split == "train" and len(missing) == len(part.cells):
            raise RequestError(f"{part.source}: no row has a label, so there is nothing to learn. Name another column.")
        if missing and len(missing) < len(part.cells):
            sentence = (
                f"{split}: {count_of(len(missing), 'row has', 'rows have')} no label and "
                f"{'is' if len(missing) == 1 else 'are'} left out ({'row' if len(missing) == 1 else 'rows'} "
                f"{listed(missing)})."
            )
            findings.append(Finding("rows", split, len(missing), missing, sentence))
    hidden = []
    for split in ("dev", "test"):
        if split in parts and (reason := why_hidden(parts["train"].answers(), parts[split], plan.kind)):
            if split == "dev":
                raise RequestError(
                    f"{parts[split].source}: it cannot be used for choosing, since {reason}; remove it, and a dev "
                    "split is carved from train."
                )
            hidden.append(split)
            sentence = f"{split}: {reason}, so its labels count as hidden: predictions yes, scores no."
            findings.append(Finding("hidden labels", split, len(parts[split].cells), [], sentence))
    splits, kind, labels, label_notes = _answer_splits(parts, hidden, plan)
    notes += label_notes
    shares = {"test": plan.test_share, "dev": plan.dev_share}
    notes += carve_missing(splits, shares, plan.seed, plan.name)
    splits = {split: splits[split] for split in SPLITS if split in splits}
    findings += check_splits(splits)
    return Dataset(
        name=plan.name,
        kind=kind,
        labels=labels,
        train=splits["train"],
        dev=splits.get("dev"),
        test=splits.get("test"),
        hidden=tuple(hidden),
        fingerprints={split: splits[split].fingerprint for split in SPLITS if split in splits},
        licence=plan.licence,
        contamination=plan.contamination,
        notes=notes,
        checks=summary(findings, kind, set(splits), CHECKS),
    )


def _answer_splits(
    parts: dict[str, Part], hidden: list[str], plan: Plan
) -> tuple[dict[str, Examples], Kind, tuple[str, ...], list[str]]:
    """Convert cells to class names or scores, decided over all splits together."""
    shown = [split for split in parts if split not in hidden]
    cells = [cell for split in shown for cell in parts[split].answers()]
    kind, note = decide_kind(cells, plan.kind)
    notes = [note] if note else []
    classes: list[str] = []
    scores: list[float] = []
    if kind == "classes":
        as_written = plan.labels is not None or plan.kind == "written"
        classes, class_notes = ([cell.value for cell in cells], []) if as_written else to_classes(cells)
        notes += class_notes
    else:
        scores = to_scores(cells)
    splits, at = {}, 0
    for split in parts:
        if split in hidden:
            splits[split] = parts[split].examples()
            continue
        examples = parts[split].examples(answered=True)
        end = at + len(examples)
        splits[split] = Examples(
            examples.texts,
            examples.pairs,
            classes[at:end] if kind == "classes" else None,
            scores[at:end] if kind == "score" else None,
            examples.rows,
        )
        at = end
    train = splits["train"]
    different = set(train.labels or train.scores or [])
    if len(different) < 2:
        thing = "label" if kind == "classes" else "score"
        raise RequestError(
            f"{parts['train'].source}: every {thing} is {next(iter(different))!r}, so there is nothing to learn; give "
            f"rows with at least two different {thing}s, or name another column."
        )
    labels = plan.labels or in_order(set(classes))
    return splits, kind, labels if kind == "classes" else (), notes
