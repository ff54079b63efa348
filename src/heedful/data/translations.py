"""The front door to translations: a data set by name or from files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heedful.data import pig_latin
from heedful.data.catalog import PAIRS, NamedSet
from heedful.data.check_results import count_of, summary
from heedful.data.checks import PAIR_CHECKS, check_pairs, recurring
from heedful.data.disk import read_lines
from heedful.data.files import open_table
from heedful.data.filters import ASKED_FOR, Filters, filter_pairs
from heedful.data.named import find_set, locate
from heedful.data.parts import Part, read_translations
from heedful.data.records import Aligned, Pairs
from heedful.data.splits import DEV_SHARE, SPLIT_SEED, TEST_SHARE, carve_missing, check_shares, refuse_for_named
from heedful.data.translation_files import read_files, read_text_files
from heedful.errors import RequestError
from heedful.streams import seed_of


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
    """Load a named set, or `train` with `dev` and `test`: each a table whose columns `source` and `target` hold the two
    sides, or two aligned files whose names are `train` with the endings `source` and `target` (which replace {}, if it
    is in `train`). A dev or test that is not given is carved from train, pairs with equal sources together.

    With `name`, `source` and `target` are the set's languages, to choose the direction. The filters apply only to
    train; see `Filters`.
    """
    check_shares(dev_share, test_share)
    if (name is None) == (train is None):
        raise RequestError("[data] needs either name (`heedful data` lists them) or train.")
    notes: list[str] = []
    licence, contamination, turned = "", "", False
    if name is not None:
        entry = find_set(name, PAIRS)
        own: dict[str, Any] = {"dev": dev, "test": test, "header": header, "quotes": quotes}
        own |= {"split_seed": split_seed, "dev_share": dev_share, "test_share": test_share}
        refuse_for_named(name, own, "data.")
        parts = _read_named(entry, options or {}, notes)
        languages, turned = entry.languages, _wants_turned(name, entry.languages, source, target)
        licence, contamination, title = entry.licence, entry.contamination, name
    else:
        assert train is not None  # one of the two is given
        if options:
            raise RequestError(
                f"data.options.{next(iter(options))} is for named sets; remove it, or name a set instead of files."
            )
        named = {"train": train, "dev": dev, "test": test}
        files = {split: file for split, file in named.items() if file is not None}
        languages, parts = read_files(files, source, target, header, quotes, notes)
        title = Path(train).name.replace("{}", "").split(".")[0] or Path(train).name
    splits = {split: part.translations for split, part in parts.items()}
    if turned:
        languages = (languages[1], languages[0])
        splits = {split: pairs.turned() for split, pairs in splits.items()}
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
        "them, or remove both."
    )


def _read_named(entry: NamedSet, options: Mapping[str, Any], notes: list[str]) -> dict[str, Part]:
    """Read each split in the entry's own direction."""
    if entry.source == "generated":
        return {
            split: Part(entry.name, [s for s, _ in made], [t for _, t in made], rows=list(range(1, len(made) + 1)))
            for split, made in pig_latin.generate(entry.name, options).items()
        }
    if options:
        raise RequestError(f"{entry.name} has no option {next(iter(options))!r}; remove data.options.")
    layout, paths = locate(entry, list(entry.sizes))
    if layout is entry.hub:
        notes.append(f"{entry.name}: from {layout.repository} on the hub.")
    if layout.form == "words":
        parts = _split_words(paths["train"])
    elif layout.form == "sides":
        parts = _read_sides(entry, paths)
    else:
        parts = {split: read_translations(open_table(path, True), *entry.languages) for split, path in paths.items()}
    for split, expected in entry.sizes.items():
        if split not in parts:
            notes.append(f"{entry.name}: this copy has no {split}.")
        elif (size := len(parts[split].rows)) != expected:
            notes.append(f"{split} has {size:,} pairs, where {expected:,} are published.")
    return parts


def _read_sides(entry: NamedSet, patterns: Mapping[str, Path]) -> dict[str, Part]:
    parts = {}
    for split, pattern in patterns.items():
        source, target = (Path(str(pattern).replace("{}", language)) for language in entry.languages)
        if source.is_file() or target.is_file() or not split.startswith("test-"):  # a copy may lack further sets
            parts[split] = read_text_files(source, target)
    return parts


def _split_words(path: Path) -> dict[str, Part]:
    """Read one pair of words from each line. The split of a word depends only on the word, so that no word of dev or
    test is in train."""
    sources, targets, rows = list[str](), list[str](), list[int]()
    for number, line in read_lines(path):
        words = line.split()
        if len(words) != 2:
            raise RequestError(
                f"{path}, line {number}, has {count_of(len(words), 'word')}, not a pair; fetch it again."
            )
        sources.append(words[0])
        targets.append(words[1])
        rows.append(number)
    order = sorted(set(sources), key=lambda word: seed_of("pig-latin", word))
    tenth = round(len(order) / 10)
    test, dev = set(order[:tenth]), set(order[tenth : 2 * tenth])
    splits: dict[str, list[int]] = {"train": [], "dev": [], "test": []}
    for i, word in enumerate(sources):
        splits["test" if word in test else "dev" if word in dev else "train"].append(i)
    pairs = Pairs(sources, targets, rows)
    chosen = {split: pairs.take(places) for split, places in splits.items()}
    return {split: Part(path.name, *some.sides, rows=some.rows) for split, some in chosen.items()}
