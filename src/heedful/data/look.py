"""A look at data before any of it is used: sizes, balance, lengths, examples and what may be wrong, as plain facts."""

from pathlib import Path
from typing import Any

from heedful.data.catalog import PAIRS
from heedful.data.check_results import Finding, summary
from heedful.data.checks import CHECKS, check_splits, label_balance, score_range, word_lengths
from heedful.data.columns import guess_columns
from heedful.data.disk import exists
from heedful.data.files import open_table
from heedful.data.labels import decide_kind, in_order, to_classes, to_scores
from heedful.data.named import NAMED, find_named, load_named, where_from
from heedful.data.parts import read_part
from heedful.data.records import Examples
from heedful.data.translations import load_pairs
from heedful.errors import RequestError


def look_at(
    source: str,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    header: bool | None = None,
    sides: tuple[str | None, str | None] = (None, None),
) -> dict[str, Any]:
    """Return facts about a named set, or about one file as it is: not split, and shown even if nothing can be learned
    from it. `sides`: source and target of translations, in a table or in two files."""
    named = source in PAIRS and not Path(source).is_file()
    if named or sides != (None, None):
        if any(given is not None for given in (text, pair, label)):
            raise RequestError(f"{source}: translations have a source and a target; remove the other columns.")
        if named and header is not None:
            raise RequestError(f"{source} is a named set with columns of its own; remove --header.")
        return _facts_of_pairs(source, sides, None if named else header, named)
    if source in NAMED and not Path(source).is_file():
        if text is not None or pair is not None or header is not None:
            raise RequestError(f"{source} is a named set with columns of its own; remove --text, --pair and --header.")
        return _facts_of_named(source, label)
    path = Path(source)
    if not path.suffix and len(path.parts) == 1 and not exists(path):
        find_named(source)  # says which names there are
    return _facts_of_file(path, text, pair, label, header)


def _facts_of_named(name: str, label: str | None) -> dict[str, Any]:
    entry = NAMED[name]
    place, _ = where_from(entry)
    dataset = load_named(name, {}, label)
    return {
        "name": name,
        "what": entry.what,
        "from": place,
        "licence": dataset.licence,
        "contamination": dataset.contamination,
        "columns": {},
        **_facts(dataset.splits(), dataset.kind, dataset.labels),
        "hidden": list(dataset.hidden),
        "notes": dataset.notes,
        "checks": dataset.checks,
    }


def _facts_of_pairs(
    name: str, sides: tuple[str | None, str | None], header: bool | None, named: bool
) -> dict[str, Any]:
    """Show source and target as text and pair, but count words for each side. A file is not split."""
    if named:
        data = load_pairs(name=name, source=sides[0], target=sides[1])
        what, place = PAIRS[name].what, where_from(PAIRS[name])[0]
    else:
        data = load_pairs(train=name, source=sides[0], target=sides[1], header=header, dev_share=0, test_share=0)
        what, place = "", name
    splits = {
        split if named else "rows": Examples(pairs.sources, pairs.targets, None, None, pairs.rows)
        for split, pairs in data.splits.items()
    }
    facts = _facts(splits, None, ())
    for split, pairs in data.splits.items():
        shown = facts["splits"][split if named else "rows"]
        source, target = (word_lengths(Examples(side, None, None, None, pairs.rows)) for side in pairs.sides)
        shown |= {"words": source, "target_words": target}
        shown |= {"fingerprint": pairs.fingerprint, "recurring": len(data.recurring.get(split, ()))}
    return {
        "name": data.name,
        "what": what,
        "from": place,
        "licence": data.licence,
        "contamination": data.contamination,
        "columns": {"source": data.languages[0], "target": data.languages[1]},
        **facts,
        "kind": "translations",
        "hidden": [],
        "notes": data.notes,
        "checks": data.checks,
    }


def _facts_of_file(
    path: Path, text: str | None, pair: str | None, label: str | None, header: bool | None
) -> dict[str, Any]:
    table = open_table(path, header, None, (text, pair, label))
    columns = guess_columns(table, text, pair, label)
    label = columns.label
    part = read_part(table, columns.text, columns.pair, label)
    notes = [*([columns.note] if columns.note else []), *part.notes]
    cells = part.answers()
    kind: str | None = None
    labels: tuple[str, ...] = ()
    examples = part.examples()
    if cells:
        if len(cells) < len(part.cells):
            rows = [row for row, cell in zip(part.rows, part.cells, strict=True) if cell is None]
            sentence = f"{len(rows):,} of {len(part.cells):,} rows have no label; training leaves them out."
            part.findings.append(Finding("rows", "rows", len(rows), rows, sentence))
        kind, note = decide_kind(cells, "auto")
        notes += [note] if note else []
        answered = part.examples(answered=True)
        if kind == "classes":
            names, label_notes = to_classes(cells)
            notes += label_notes
            labels = in_order(set(names))
            examples = Examples(answered.texts, answered.pairs, names, None, answered.rows)
        else:
            examples = Examples(answered.texts, answered.pairs, None, to_scores(cells), answered.rows)
    elif label is not None:
        notes.append(f"Every {label!r} is empty: the labels are hidden.")
    else:
        notes.append("No label column was named or found; the file can be predicted, not learned from.")
    splits = {"rows": examples}
    checks = summary([*part.findings, *check_splits(splits)], kind, set(splits), CHECKS)
    for check in checks:
        if check["sentence"].startswith("rows: "):
            sentence = check["sentence"].removeprefix("rows: ")
            check["sentence"] = sentence[0].upper() + sentence[1:]
    return {
        "name": path.name,
        "what": "",
        "from": str(path),
        "licence": "",
        "contamination": "",
        "columns": {"text": columns.text, "pair": columns.pair, "label": label, "all": list(table.columns)},
        **_facts(splits, kind, labels),
        "hidden": [] if cells else ["rows"],
        "notes": notes,
        "checks": checks,
    }


def _facts(splits: dict[str, Examples], kind: str | None, labels: tuple[str, ...]) -> dict[str, Any]:
    return {
        "kind": kind,
        "labels": list(labels),
        "splits": {
            name: {
                "rows": len(examples),
                "balance": label_balance(examples, labels) if examples.labels is not None else None,
                "scores": score_range(examples) or None,
                "words": word_lengths(examples),
                "fingerprint": examples.fingerprint,
            }
            for name, examples in splits.items()
        },
        "examples": _sample(next(iter(splits.values()))),
    }


def _sample(examples: Examples, count: int = 3) -> list[dict[str, Any]]:
    """Return the first example of each label in turn, so that the examples differ."""
    answers = examples.answers
    first: dict[Any, int] = {}
    for i, answer in enumerate(answers):
        first.setdefault(answer, i)
    chosen = sorted(first.values())[:count]
    chosen += [i for i in range(min(count, len(examples))) if i not in chosen][: count - len(chosen)]
    return [
        {
            "row": examples.rows[i],
            "text": examples.texts[i],
            "pair": None if examples.pairs is None else examples.pairs[i],
            "label": answers[i],
        }
        for i in sorted(chosen)
    ]
