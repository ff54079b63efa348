"""What the changes amount to: how large they are on average and how sure one may be, as plain data.

The pairs are a sample of templates, professions and terms, and a setting's models are a sample of seeds: all of them
are crossed factors (`evaluation.statistics.factors`), so that an interval is about other texts of the kind and other
seeds. Tests that stand together are corrected together, by Holm.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from heedful.evaluation.statistics.factors import SEED, Estimate, by_level, difference, estimate
from heedful.evaluation.statistics.size import correct_together
from heedful.probes.bias import wording
from heedful.probes.bias.ask import PREFERENCE, Changes, Unit
from heedful.probes.bias.pairs import Counterfactual, PairSet
from heedful.probes.wording import ALPHA

BOUNDS: dict[Unit, tuple[float | None, float | None]] = {
    "probability": (-1.0, 1.0),
    "score": (None, None),
    "preference": (-0.5, 0.5),
}
"""Between which a change lies."""
LARGEST = 12
"""How many pairs are listed, those that change most."""
MORE = 4
"""Times as many levels of a factor, of which it is said what they would bring."""
_NOTHING = 1e-24  # of a variance: what rounding leaves
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Facts = dict[str, Any]


def findings(pairs: PairSet, asked: Sequence[Changes]) -> Facts:
    """Of one set: what each subject does, and how they differ."""
    tests = sum(len(changes.by_outcome) for changes in asked)
    subjects = {changes.subject: _of_subject(pairs, changes, tests) for changes in asked}
    correct_together([gap for found in subjects.values() for gap in found["gaps"]])
    for changes in asked:
        found = subjects[changes.subject]
        found["gap"] = min(found["gaps"], key=lambda gap: 1.0 if gap["p"] is None else gap["p"])
        found |= _of_outcome(pairs, changes, found["gap"]["outcome"])
    correct_together([found["control"] for found in subjects.values() if found["control"] is not None])
    for found in subjects.values():
        found["verdict"] = wording.verdict(pairs, found)
    return {
        "name": pairs.name,
        "what": pairs.what,
        "groups": list(pairs.groups),
        "pairs": len(pairs.rows),
        "of_pairs": pairs.of_pairs,
        "factors": {name: len({row.levels[name] for row in pairs.rows}) for name in pairs.factors},
        "licence": pairs.licence,
        "reach": wording.reach(pairs),
        "subjects": subjects,
        "comparisons": _comparisons(pairs, asked, subjects),
    }


def _of_subject(pairs: PairSet, changes: Changes, tests: int) -> Facts:
    levels = _of_random(_codes(pairs.rows, pairs.factors, len(changes.seeds)), changes)
    gaps = []
    for outcome, values in changes.by_outcome.items():
        found = estimate(values.ravel(), levels)
        visible = float(found.visible(tests)) if _varies(found) else None
        gap = {"outcome": outcome, **_tested(found, changes), "visible": visible}
        gaps.append({**gap, "sharper": None if visible is None else _sharper(found, visible)})
    made: Facts = {
        "about": wording.about(pairs, changes),
        "seeds": list(changes.seeds),
        "random": changes.random,
        "unit": changes.unit,
        "truncated": changes.truncated,
        "gaps": gaps,
        "likelier": None if changes.likelier is None else float(changes.likelier.mean()),
        "stereoset": [asdict(row) | {"icat": row.icat} for row in changes.tables],
        "flips": None,
    }
    if changes.flipped is not None:
        flips = estimate(changes.flipped.astype(np.float64).ravel(), levels)
        made["flips"] = _facts(flips, (0.0, 1.0)) | {"pairs": int(changes.flipped.any(axis=0).sum())}
    return made


def _of_outcome(pairs: PairSet, changes: Changes, outcome: str) -> Facts:
    """What is looked at further: of several classes, the one whose change is the surest."""
    values = changes.by_outcome[outcome]
    levels = _of_random(_codes(pairs.rows, pairs.factors, len(changes.seeds)), changes)
    listed = values if changes.unit != PREFERENCE else changes.likelier
    return {
        "absolute": _facts(estimate(np.abs(values).ravel(), levels), (0.0, BOUNDS[changes.unit][1])),
        "most": float(values.ravel()[np.abs(values).argmax()]),
        "control": _control(pairs, changes, outcome),
        "by": _broken_down(pairs, changes, outcome, len(changes.by_outcome)),
        "largest": [] if listed is None else _largest(pairs, listed),
    }


def _sharper(found: Estimate, visible: float) -> Facts | None:
    """The factor of which `MORE` times as many levels would help most, and what could be shown with them. From the
    components of a crossed design; None for others."""
    counts = found.levels
    if len(counts) < 2 or math.prod(counts.values()) != found.n:
        return None

    def variance(levels: Mapping[str, int]) -> float:
        return sum(max(0.0, c) / math.prod(levels[f] for f in names) for names, c in found.components.items())

    now = variance(counts)
    if now == 0:
        return None
    best = min(counts, key=lambda name: variance({**counts, name: MORE * counts[name]}))
    more = variance({**counts, best: MORE * counts[best]})
    return {"factor": best, "levels": counts[best], "times": MORE, "visible": visible * math.sqrt(more / now)}


def _control(pairs: PairSet, changes: Changes, outcome: str) -> Facts | None:
    """Whether another group changes more than another term of the same group does: in each cell of the other factors
    (a template with a profession), the mean change between groups less that within."""
    if not changes.controls:
        return None
    kinds = {row.levels["kind"] for row in pairs.controls if "kind" in row.levels}
    other = [name for name in pairs.factors if name != "term"]
    of_control = [_cell(row, other) for row in pairs.controls]
    with_control = set(of_control)
    own = [
        i
        for i, row in enumerate(pairs.rows)
        if _cell(row, other) in with_control and (not kinds or row.levels.get("kind") in kinds)
    ]
    of_row = [_cell(pairs.rows[i], other) for i in own]
    cells = {cell: i for i, cell in enumerate(dict.fromkeys(of_row))}
    kept = [i for i, cell in enumerate(of_control) if cell in cells]
    if not cells:
        return None
    between, within = np.abs(changes.by_outcome[outcome][:, own]), np.abs(changes.controls[outcome][:, kept])
    excess = _cell_means(between, [cells[cell] for cell in of_row], len(cells))
    excess = excess - _cell_means(within, [cells[of_control[i]] for i in kept], len(cells))
    first = dict(zip(reversed(of_row), reversed(own), strict=True))
    levels = _codes([pairs.rows[first[cell]] for cell in cells], other, len(changes.seeds))
    found = estimate(excess.ravel(), _of_random(levels, changes))
    return {
        "kinds": sorted(kinds),
        "between": float(between.mean()),
        "within": float(within.mean()),
        **_facts(found, (None, None)),
        "p": found.p if _varies(found) else None,
    }


def _cell(row: Counterfactual, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(row.levels[name] for name in names)


def _cell_means(values: Floats, cells: Sequence[int], count: int) -> Floats:
    """(s, cells) of (s, rows)."""
    weight = np.bincount(cells, minlength=count)
    return np.stack([np.bincount(cells, line, count) / weight for line in values])


def _broken_down(pairs: PairSet, changes: Changes, outcome: str, tried: int) -> dict[str, list[Facts]]:
    """By each factor and part. All of it is corrected together, and for the outcomes of which this one was picked."""
    values = changes.by_outcome[outcome]
    made: dict[str, list[Facts]] = {}
    for name in (*pairs.parts, *pairs.factors):
        kept = [row.levels[name] for row in pairs.rows]
        words = sorted(set(kept))
        if not 1 < len(words) < len(pairs.rows):
            continue
        factors = list(dict.fromkeys([*pairs.factors, name]))
        levels = _of_random(_codes(pairs.rows, factors, len(changes.seeds)), changes)
        number = {word: i for i, word in enumerate(words)}
        levels[name] = np.tile(np.array([number[word] for word in kept]), len(changes.seeds))
        rows = [
            {"level": words[code], **_tested(found, changes, tried)}
            for code, found in by_level(values.ravel(), levels, name)
        ]
        if any(row["p"] is not None for row in rows):  # else there is one pair of each, or as good as one
            made[name] = rows
    correct_together([row for rows in made.values() for row in rows])
    return made


def _largest(pairs: PairSet, values: Floats) -> list[Facts]:
    mean = values.mean(axis=0)
    order = np.argsort(-np.abs(mean), kind="stable")[:LARGEST]
    return [
        {"a": _listed(pairs.rows[i].a), "b": _listed(pairs.rows[i].b), "change": float(mean[i])}
        for i in order
        if mean[i] != 0
    ]


def _listed(text: Any) -> str | list[str]:
    return text if isinstance(text, str) else list(text)


def _comparisons(pairs: PairSet, asked: Sequence[Changes], subjects: Mapping[str, Facts]) -> list[Facts]:
    """All pairs of subjects that look at the same outcome."""
    levels = _codes(pairs.rows, pairs.factors, 1)
    made = []
    for i, one in enumerate(asked):
        for other in asked[i + 1 :]:
            outcome = subjects[one.subject]["gap"]["outcome"]
            if outcome not in other.by_outcome or one.unit != other.unit:
                continue
            a, b = (changes.by_outcome[outcome] for changes in (one, other))
            found = difference(a, b, {n: c for n, c in levels.items() if n != SEED}, one.random, other.random)
            low, high = BOUNDS[one.unit]
            made.append(
                {
                    "a": one.subject,
                    "b": other.subject,
                    "outcome": outcome,
                    "mean_a": float(a.mean()),
                    "mean_b": float(b.mean()),
                    **_facts(found, (None if low is None else 2 * low, None if high is None else 2 * high)),
                    "p": min(1.0, len(one.by_outcome) * found.p) if _varies(found) else None,
                }
            )
    correct_together(made)
    for row in made:
        row["sentence"] = wording.comparison(row, subjects[row["a"]])
    return made


def _codes(rows: Sequence[Counterfactual], factors: Sequence[str], seeds: int) -> dict[str, Ints]:
    """The level of every (seed, row), as numbers: seeds are the slower index."""
    made: dict[str, Ints] = {}
    for name in factors:
        number: dict[str, int] = {}
        codes = np.array([number.setdefault(row.levels[name], len(number)) for row in rows])
        made[name] = np.tile(codes, seeds)
    made[SEED] = np.repeat(np.arange(seeds), len(rows))
    return made


def _of_random(levels: Mapping[str, Ints], changes: Changes) -> dict[str, Ints]:
    """Without the seeds, where none plays a part or there is but one."""
    return {name: codes for name, codes in levels.items() if name != SEED or len(changes.seeds) > 1}


def _tested(found: Estimate, changes: Changes, tried: int = 1) -> Facts:
    """A mean change with its interval and p, which is corrected for the outcomes of which this one was picked. Without
    an interval there is no p: nothing says how others would vary.

    Preferences are ½ or −½, and a few of them may agree by chance: p is no less than that of as many tosses of a coin.
    """
    if changes.unit != PREFERENCE:
        p = found.p if _varies(found) else None
        return {**_facts(found, BOUNDS[changes.unit]), "p": None if p is None else min(1.0, tried * p)}
    n = found.n // len(changes.seeds)
    coin = float(stats.binomtest(round((found.mean + 0.5) * n), n).pvalue)
    share = replace(found, mean=found.mean + 0.5)
    low, high = (end - 0.5 for end in share.interval(1 - ALPHA, (0.0, 1.0)))
    p = max(coin, found.p if _varies(found) else 0.0) if found.levels else None
    return {"mean": found.mean, "low": low, "high": high, "n": found.n, "p": p}


def _varies(found: Estimate) -> bool:
    """Whether the spread of the values is known: several were seen, and not all of them are equal."""
    return math.isfinite(found.variance) and found.variance > _NOTHING * (1 + found.mean**2)


def _facts(found: Estimate, bounds: tuple[float | None, float | None]) -> Facts:
    """With no ends where the spread is not known; a rate has ends even if all are equal."""
    low, high = found.interval(1 - ALPHA, bounds) if _varies(found) or bounds == (0.0, 1.0) else (None, None)
    return {"mean": found.mean, "low": _finite(low), "high": _finite(high), "n": found.n}


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
