"""Translations in files: tables with a column for each side, or two texts that are aligned line by line."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from heedful.data.check_results import Finding, count_of
from heedful.data.disk import expanded, is_file, read_lines, require_file
from heedful.data.files import FORMATS, Row, Table, open_table
from heedful.data.hub import HUB, fetch_by_name, fetch_first
from heedful.data.parts import Part, read_translations, usable_pairs
from heedful.data.records import Pairs
from heedful.data.shifts import find_loss, find_shift
from heedful.errors import RequestError


def read_files(
    files: Mapping[str, str],
    source: str | None,
    target: str | None,
    header: bool | None,
    quotes: bool | None,
    notes: list[str],
) -> tuple[tuple[str, str], dict[str, Part]]:
    """Return what the sides are called, and each split."""
    parts: dict[str, Part] = {}
    first: Table | None = None
    for split, file in files.items():
        if _is_table(split, file, source, target):
            path = _local(file, split)
            named = [column for column in (source, target) if column is not None]
            table = open_table(path, header, quotes, named, first)
            if first is None:
                first = table
                source, target = _columns(table, source, target, notes)
            assert source is not None  # of the first file, which has settled them
            assert target is not None
            parts[split] = read_translations(table, source, target)
        else:
            if source is None or target is None:
                raise _which_endings(split, file)
            if header is not None or quotes is not None:
                key = "header" if header is not None else "quotes"
                raise RequestError(f"data.{key} is for tables, and {file} is not a table. Remove it.")
            parts[split] = read_text_files(*_text_files(split, file, source, target))
    if source == target:
        raise RequestError(f"data.source and data.target are both {source!r}; name the two sides.")
    assert source is not None
    assert target is not None
    return (source, target), parts


def _local(file: str, split: str) -> Path:
    return fetch_by_name(file, f"data.{split}") if file.startswith(HUB) else expanded(file, f"data.{split}")


def _is_table(split: str, file: str, source: str | None, target: str | None) -> bool:
    """Whether a name means a table: by its ending, unless there is no such file but two with the endings."""
    endings = [ending.lower() for ending in Path(file).suffixes]
    if endings and endings[-1] == ".gz":
        endings.pop()
    if "{}" in file or not endings or endings[-1] not in FORMATS:
        return False
    if file.startswith(HUB) or is_file(expanded(file, f"data.{split}")):
        return True
    sides = [side for side in (source, target) if side is not None]
    return not (len(sides) == 2 and all(any(map(is_file, _options(split, file, side))) for side in sides))


def _options(split: str, file: str, side: str) -> list[Path]:
    """Return the possible names of the file of one side."""
    path = expanded((file if "{}" in file else f"{file}.{{}}").replace("{}", side), f"data.{split}")
    return [path, path.with_name(path.name + ".gz")]


def _text_files(split: str, file: str, source: str, target: str) -> tuple[Path, Path]:
    found = []
    for side in (source, target):
        options = _options(split, file, side)
        if file.startswith(HUB):
            options = [fetch_first([str(option) for option in options], f"data.{split}")]
        there = [option for option in options if is_file(option)]
        if not there:
            raise _missing(split, file, source, target, options)
        found.append(there[0])
    return found[0], found[1]


def _missing(split: str, file: str, source: str, target: str, options: Sequence[Path]) -> RequestError:
    if is_file(expanded(file, f"data.{split}")):
        stem = file.removesuffix(".gz").removesuffix(f".{source}").removesuffix(f".{target}")
        hint = f"write data.{split} = {stem!r}" if stem != file.removesuffix(".gz") else "remove its ending"
        return RequestError(
            f"data.{split} = {file!r} is not a table (.csv, .tsv, .jsonl, .parquet) but one text; if it is one of two "
            f"aligned files with the endings {source!r} and {target!r}, {hint}."
        )
    return RequestError(
        f"data.{split} = {file!r}: there is neither {options[0]} nor {options[1].name}; name a table, or what stands "
        f"before the endings {source!r} and {target!r} of two aligned files."
    )


def _which_endings(split: str, file: str) -> RequestError:
    return RequestError(
        f"data.{split} = {file!r} is not a table (.csv, .tsv, .jsonl, .parquet), so data.source and data.target must "
        'name the endings of two aligned files, such as "en" and "de".'
    )


def _columns(table: Table, source: str | None, target: str | None, notes: list[str]) -> tuple[str, str]:
    path, columns = table.path, table.columns
    if source is not None and target is not None:
        return source, target
    others = [column for column in columns if column not in (source, target)]
    if len(columns) != 2:
        shown = ", ".join(map(repr, columns[:8])) + (" …" if len(columns) > 8 else "")
        raise RequestError(f"{path}: which columns are translated? Set data.source and data.target; it has {shown}.")
    chosen = (source or others[0], target or others[-1])
    notes.append(f"{path.name}: its two columns are source {chosen[0]!r} and target {chosen[1]!r}.")
    return chosen


def read_text_files(source: Path, target: Path) -> Part:
    """Read two files, plain or gzipped: line n of one is the translation of line n of the other. Lines end in \\n (or
    \\r\\n) and in no other character that Unicode calls a line's end, so that none is lost to either side."""
    sources, targets = _lines(source), _lines(target)
    if len(sources) != len(targets):
        raise _not_aligned(source, target, sources, targets)
    while not sources[-1] and not targets[-1]:  # an empty end of both files is no pair
        sources.pop()
        targets.pop()
    rows = (Row(i, s, t, None, {}, i) for i, (s, t) in enumerate(zip(sources, targets, strict=True), 1))
    called = f"{source.name} and {target.name}"
    part = usable_pairs(rows, f"{source} and {target}", called, [])
    part.findings += _shifted(called, part.translations)
    part.note_encoding(source)
    part.note_encoding(target)
    return part


def _lines(path: Path) -> list[str]:
    if is_file(path) and path.stat().st_size == 0:
        raise RequestError(f"{path} is empty; it needs a text on each line.")
    require_file(path)
    lines = [line.strip() for _, line in read_lines(path)]
    if not any(lines):
        raise RequestError(f"{path} has no text; it needs one on each line.")
    return lines


def _shifted(short: str, pairs: Pairs) -> list[Finding]:
    found = find_shift(pairs.sources, pairs.targets)
    if found is None:
        return []
    first, last = pairs.rows[found.first], pairs.rows[found.last]
    apart = "a line" if abs(found.by) == 1 else f"{abs(found.by)} lines"
    sentence = (
        f"{short}: from about line {first:,} to line {last:,} the sides look shifted by {apart}: the lengths of a "
        f"source and of the target {apart} {'below' if found.by > 0 else 'above'} go together there (correlation "
        f"{found.shifted:.2f}), those of a pair do not ({found.own:.2f}), and elsewhere they do "
        f"({found.elsewhere:.2f}); look for a lost line at line {first:,}."
    )
    return [Finding("alignment", short, last - first + 1, [first], sentence)]


def _not_aligned(source: Path, target: Path, sources: list[str], targets: list[str]) -> RequestError:
    longer, shorter = (source, target) if len(sources) > len(targets) else (target, source)
    more, fewer = max(sources, targets, key=len), min(sources, targets, key=len)
    empty = next((i for i, (s, t) in enumerate(zip(sources, targets, strict=False), 1) if bool(s) != bool(t)), None)
    apart = find_loss(more, fewer)
    if empty is not None:
        blank, full = (source, target) if not sources[empty - 1] else (target, source)
        where = f"line {empty:,} of {blank.name} is empty, where {full.name} has text"
    elif apart is not None:
        where = f"by the lengths of their lines they come apart at about line {apart + 1:,}"
    else:
        text = more[len(fewer)]
        shown = repr(text if len(text) <= 40 else text[:39] + "…") if text else "empty"
        where = f"line {len(fewer) + 1:,} of {longer.name} ({shown}) has no counterpart"
    return RequestError(
        f"{longer} has {count_of(len(more), 'line')} and {shorter} {len(fewer):,}, so they are not aligned line by "
        f"line: {where}; correct the files."
    )
