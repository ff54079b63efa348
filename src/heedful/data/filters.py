"""Which training pairs are left out, and how many by which rule. Evaluation sets are never filtered."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from heedful.data.check_results import Finding, count_of, listed
from heedful.data.records import Pairs
from heedful.errors import RequestError

LONGEST = 20_000
"""Characters on one side; what is longer is no sentence, and is left out of train whatever the filters say."""
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]"
)
"""Characters of scripts that put no spaces between words: Thai, Lao, Khmer, Kana, Han."""


@dataclass(frozen=True)
class Filters:
    """Words and not tokens are counted, so that models with other vocabularies are trained on the same pairs."""

    max_source: int | None = None
    max_target: int | None = None
    """Words, see `count_words`."""
    max_ratio: float | None = None
    """Words of the longer side for each of the shorter."""
    deduplicate: bool = False
    """Whether only the first of pairs that differ only in case and white space stays."""


def count_words(text: str) -> int:
    """Count what is between white space; in scripts that are written without it, count characters."""
    return len(_UNSPACED.sub(" x ", text).split())


def ratio_of_words(source: str, target: str) -> float:
    """Return the ratio of the longer side to the shorter, neither of which is empty."""
    n, m = count_words(source), count_words(target)
    return max(n, m) / min(n, m)


ASKED_FOR = "filters"


def filter_pairs(pairs: Pairs, filters: Filters) -> tuple[Pairs, dict[str, dict[str, Any]], list[Finding]]:
    """Return the pairs that remain, in their order; `Aligned.filters`; and a finding for each filter that has dropped
    pairs, under `ASKED_FOR` unless they are no sentences."""
    rules = _rules(filters)
    dropped: dict[str, list[int]] = {name: [] for name in rules}
    kept = []
    for i, (source, target) in enumerate(zip(pairs.sources, pairs.targets, strict=True)):
        met = next((name for name, (_, _, out) in rules.items() if out(source, target)), None)
        if met is None:
            kept.append(i)
        else:
            dropped[met].append(pairs.rows[i])
    facts = {
        name: {"limit": limit, "dropped": len(dropped[name])}
        for name, (limit, _, _) in rules.items()
        if dropped[name] or name != "longest"
    }
    left_out = []
    for name, rows in dropped.items():
        if rows:
            many, places = count_of(len(rows), "pair is", "pairs are"), "row" if len(rows) == 1 else "rows"
            sentence = f"train: {many} skipped because {rules[name][1]} ({places} {listed(rows)})."
            check = "lengths" if name == "longest" else ASKED_FOR
            left_out.append(Finding(check, "train", len(rows), rows, sentence))
    if not kept:
        most = max(dropped, key=lambda name: len(dropped[name]))
        what = f"data.{most} = {rules[most][0]}" if most != "longest" else f"at most {LONGEST:,} characters"
        raise RequestError(
            f"the filters leave no training pair ({what} takes {len(dropped[most]):,} of {len(pairs):,}); loosen it."
        )
    return (pairs if len(kept) == len(pairs) else pairs.take(kept)), facts, left_out


_Out = Callable[[str, str], bool]


def _rules(filters: Filters) -> Mapping[str, tuple[Any, str, _Out]]:
    """Return by name, in the order in which they apply: the limit, the reason, and whether a pair is dropped."""
    rules: dict[str, tuple[Any, str, _Out]] = {
        "longest": (
            LONGEST,
            f"a side has more than {LONGEST:,} characters",
            lambda s, t: max(len(s), len(t)) > LONGEST,
        )
    }
    if (most_s := filters.max_source) is not None:
        reason = f"the source has more than {count_of(most_s, 'word')}"
        rules["max_source"] = (most_s, reason, lambda s, t: count_words(s) > most_s)
    if (most_t := filters.max_target) is not None:
        reason = f"the target has more than {count_of(most_t, 'word')}"
        rules["max_target"] = (most_t, reason, lambda s, t: count_words(t) > most_t)
    if (ratio := filters.max_ratio) is not None:
        reason = f"one side has more than {ratio:g} times as many words as the other"
        rules["max_ratio"] = (ratio, reason, lambda s, t: ratio_of_words(s, t) > ratio)
    if filters.deduplicate:
        seen: set[tuple[str, str]] = set()

        def again(source: str, target: str) -> bool:
            key = (_plain(source), _plain(target))
            known = key in seen
            seen.add(key)
            return known

        rules["deduplicate"] = (True, "an earlier pair is the same except for case and white space", again)
    return rules


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
