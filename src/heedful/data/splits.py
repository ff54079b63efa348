"""Splits that we make ourselves: seeded, stratified, and with equal texts always on the same side."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

from heedful.data.check_results import count_of
from heedful.data.records import Examples, Rows
from heedful.errors import RequestError
from heedful.storage.hashing import sha256_of

SPLIT_SEED, DEV_SHARE, TEST_SHARE = 0, 0.1, 0.2
"""Of what is carved, unless told otherwise."""
_BINS = 10
"""Scores are stratified by tenths of their ranks."""


def carve(examples: Rows, share: float, seed: int, keep: int = 1) -> tuple[list[int], list[int]]:
    """Return the indices that stay and the indices that go, each in the order of the file.

    Every class gives its share, rounded so that the total is right, and keeps at least `keep` rows. Which rows go is
    decided by a hash of the seed and the text: it does not depend on the order of the rows, on the version of a
    library, or on the other rows of the class. Rows with equal texts go or stay together.
    """
    strata = _strata(examples)
    groups: dict[Hashable, dict[tuple[str, str], list[int]]] = {}
    stratum_of: dict[tuple[str, str], Hashable] = {}
    for i, key in enumerate(examples.identities()):
        stratum = stratum_of.setdefault(key, strata[i])
        groups.setdefault(stratum, {}).setdefault(key, []).append(i)
    sizes = {stratum: sum(map(len, rows_of.values())) for stratum, rows_of in groups.items()}
    chosen: set[int] = set()
    for stratum, wanted in _quotas(sizes, share, keep).items():
        taken = 0
        for key in sorted(groups[stratum], key=lambda key: _hash(seed, key)):
            rows = groups[stratum][key]
            if taken + len(rows) <= wanted:
                chosen.update(rows)
                taken += len(rows)
    indices = range(len(examples))
    return [i for i in indices if i not in chosen], [i for i in indices if i in chosen]


R = TypeVar("R", bound=Rows)


def carve_missing(
    splits: dict[str, R],
    shares: Mapping[str, float],
    seed: int,
    title: str,
    unit: str = "row",
    alike: str = "texts",
) -> list[str]:
    """Carve the splits that are missing (by name, with their shares) from train, put them into `splits`, and return a
    sentence on each. Shares are of train as it was before. `unit`, `alike`: what a row is called, and what is kept
    together where it is equal."""
    notes: list[str] = []
    total = len(splits["train"])
    for split, share in shares.items():
        if split in splits or share == 0:
            continue
        train = splits["train"]
        stay, go = carve(train, share * total / len(train), seed)
        if not go or not stay:
            raise RequestError(
                f"{title}: {count_of(total, unit)} cannot give a {split} split of {100 * share:g}% with equal {alike} "
                f"on one side; give more {unit}s, or a {split} file."
            )
        splits["train"], splits[split] = train.take(stay), train.take(go)
        stratified = "stratified, " if isinstance(train, Examples) else ""
        notes.append(
            f"{split}: {len(go):,} {unit}s carved from train ({stratified}{100 * share:g}% of {total:,}, seed {seed}, "
            f"equal {alike} kept together)."
        )
    return notes


def refuse_for_named(name: str, given: Mapping[str, Any], prefix: str = "") -> None:
    """Stop at settings that a named set determines itself. `prefix` is put before the names of the keys."""
    usual = {"split_seed": SPLIT_SEED, "dev_share": DEV_SHARE, "test_share": TEST_SHARE}
    for key, value in given.items():
        if value != usual.get(key):
            raise RequestError(f"{name} is a named set with splits and columns of its own; remove {prefix}{key}.")


def check_shares(dev_share: float, test_share: float) -> None:
    for name, share in (("dev_share", dev_share), ("test_share", test_share)):
        if not 0 <= share < 1:
            raise RequestError(f"{name} = {share} must be at least 0 and below 1.")
    if dev_share + test_share >= 1:
        raise RequestError(f"dev_share + test_share = {dev_share + test_share} leaves nothing to train on; lower them.")


def _strata(rows: Rows) -> Sequence[Hashable]:
    if not isinstance(rows, Examples) or (rows.labels is None and rows.scores is None):
        return [""] * len(rows)
    if rows.scores is None:
        return rows.labels or []
    scores, texts = rows.scores, rows.texts
    order = sorted(range(len(rows)), key=lambda i: (scores[i], texts[i]))
    strata = [0] * len(rows)
    for rank, i in enumerate(order):
        strata[i] = rank * _BINS // len(order)
    return strata


def _quotas(sizes: dict[Hashable, int], share: float, keep: int) -> dict[Hashable, int]:
    """Apply the largest-remainder method: each stratum gets its share rounded down, then those that lost most by
    rounding get one more."""
    total = max(1, round(share * sum(sizes.values())))
    quotas = {stratum: min(int(share * size), max(0, size - keep)) for stratum, size in sizes.items()}
    by_loss = sorted(sizes, key=lambda stratum: (quotas[stratum] - share * sizes[stratum], str(stratum)))
    for stratum in by_loss:
        if sum(quotas.values()) >= total:
            break
        if quotas[stratum] < sizes[stratum] - keep:
            quotas[stratum] += 1
    return quotas


def _hash(seed: int, key: tuple[str, str]) -> str:
    return sha256_of(["\0".join((str(seed), *key)).encode("utf-8", "surrogatepass")])
