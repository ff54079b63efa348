"""The front door to pairs: a data set by name or from files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heedful.data.aligned.named import find_pairs, read_named
from heedful.data.aligned.reading import Part, read_table, read_text_files
from heedful.data.check_results import summary
from heedful.data.checks import PAIR_CHECKS, check_pairs, recurring
from heedful.data.disk import expanded, is_file
from heedful.data.files import FORMATS, Table, open_table
from heedful.data.filters import ASKED_FOR, Filters, filter_pairs
from heedful.data.hub import HUB, fetch_by_name, fetch_first
from heedful.data.records import Aligned
from heedful.data.splits import DEV_SHARE, SPLIT_SEED, TEST_SHARE, carve_missing, check_shares, refuse_for_named
from heedful.errors import RequestError


def load_pairs(
    *,
    name: str | None = None,
    train: str | None = None,
    dev: str | None = None,
    test: str | None = None,
    source: str | None = None,
    target: str | None = None,
    header: bool | None = None,
    quotes: bool | None = None,
    split_seed: int = SPLIT_SEED,
    dev_share: float = DEV_SHARE,
    test_share: float = TEST_SHARE,
    options: Mapping[str, Any] | None = None,
    max_source: int | None = None,
    max_target: int | None = None,
    max_ratio: float | None = None,
    deduplicate: bool = False,
) -> Aligned:
    """A named set; or `train` with `dev` and `test`, each a table whose columns `source` and `target` hold the two
    sides, or two aligned files whose names are `train` with the endings `source` and `target` (with {} in `train`,
    these stand there). A dev or test that is not given is carved from train, pairs with equal sources on one side.

    Of a named set, `source` and `target` are its languages, for who wants the other direction. The filters are for
    train alone; see `Filters`.
    """
    check_shares(dev_share, test_share)
    if (name is None) == (train is None):
        raise RequestError("[data] needs either name (`heedful data` lists them) or train.")
    notes: list[str] = []
    licence = contamination = ""
    if name is not None:
        entry = find_pairs(name)
        own: dict[str, Any] = {"dev": dev, "test": test, "header": header, "quotes": quotes}
        own |= {"split_seed": split_seed, "dev_share": dev_share, "test_share": test_share}
        refuse_for_named(name, own, "data.")
        found = read_named(entry, options or {})
        languages, parts, notes = entry.languages, found.parts, found.notes
        if _wants_turned(name, languages, source, target):
            languages = (languages[1], languages[0])
            for part in parts.values():
                part.pairs = part.pairs.turned()
        licence, contamination, title = entry.licence, entry.contamination, name
    else:
        assert train is not None  # one of the two is given
        if options:
            raise RequestError(f"data.options.{next(iter(options))} is for named sets; leave it out with files.")
        named = {"train": train, "dev": dev, "test": test}
        files = {split: file for split, file in named.items() if file is not None}
        languages, parts = _read_files(files, source, target, header, quotes, notes)
        title = Path(train).name.replace("{}", "").split(".")[0] or Path(train).name
    splits = {split: part.pairs for split, part in parts.items()}
    notes += [note for part in parts.values() for note in part.notes]
    if name is None:  # before anything is filtered: what is held out is as it comes
        shares = {"test": test_share, "dev": dev_share}
        notes += carve_missing(splits, shares, split_seed, title, "pair", "sources")
    filters = Filters(max_source, max_target, max_ratio, deduplicate)
    splits["train"], filtered, left_out = filter_pairs(splits["train"], filters)
    notes += [finding.sentence for finding in left_out if finding.check == ASKED_FOR]
    splits = {split: splits[split] for split in ("train", "dev", "test", *sorted(splits)) if split in splits}
    findings = [finding for part in parts.values() for finding in part.findings]
    findings += [finding for finding in left_out if finding.check != ASKED_FOR]
    findings += check_pairs(splits)
    return Aligned(
        name=title,
        languages=languages,
        splits=splits,
        fingerprints={split: pairs.fingerprint for split, pairs in splits.items()},
        recurring=recurring(splits),
        filters=filtered,
        licence=licence,
        contamination=contamination,
        notes=notes,
        checks=summary(findings, None, set(splits), PAIR_CHECKS),
    )


def _wants_turned(name: str, languages: tuple[str, str], source: str | None, target: str | None) -> bool:
    for wanted in ((source or languages[0], target or languages[1]), (source or languages[1], target or languages[0])):
        if wanted in (languages, languages[::-1]):
            return wanted != languages
    given = [f"data.{key} = {side!r}" for key, side in (("source", source), ("target", target)) if side is not None]
    raise RequestError(
        f"{name} has the languages {languages[0]!r} and {languages[1]!r}, not {' and '.join(given)}; name both of "
        "them, or leave both out."
    )


def _read_files(
    files: Mapping[str, str],
    source: str | None,
    target: str | None,
    header: bool | None,
    quotes: bool | None,
    notes: list[str],
) -> tuple[tuple[str, str], dict[str, Part]]:
    """What the sides are called, and each split."""
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
            parts[split] = read_table(table, source, target)
        else:
            if source is None or target is None:
                raise _which_endings(split, file)
            if header is not None or quotes is not None:
                key = "header" if header is not None else "quotes"
                raise RequestError(f"data.{key} is for tables, and {file} is none; leave it out.")
            parts[split] = read_text_files(*_text_files(split, file, source, target))
    if source == target:
        raise RequestError(f"data.source and data.target are both {source!r}; name the two sides.")
    assert source is not None
    assert target is not None
    return (source, target), parts


def _local(file: str, split: str) -> Path:
    return fetch_by_name(file, f"data.{split}") if file.startswith(HUB) else expanded(file, f"data.{split}")


def _is_table(split: str, file: str, source: str | None, target: str | None) -> bool:
    """By its name, unless nothing is called so and two files are with the endings."""
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
    """What the file of one side may be called."""
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
        hint = f"write data.{split} = {stem!r}" if stem != file.removesuffix(".gz") else "leave its ending out"
        return RequestError(
            f"data.{split} = {file!r} is no table (.csv, .tsv, .jsonl, .parquet) but one text; if it is one of two "
            f"aligned files with the endings {source!r} and {target!r}, {hint}."
        )
    return RequestError(
        f"data.{split} = {file!r}: there is neither {options[0]} nor {options[1].name}; name a table, or what stands "
        f"before the endings {source!r} and {target!r} of two aligned files."
    )


def _which_endings(split: str, file: str) -> RequestError:
    return RequestError(
        f"data.{split} = {file!r} is no table (.csv, .tsv, .jsonl, .parquet), so data.source and data.target must say "
        'the endings of two aligned files, such as "en" and "de".'
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
