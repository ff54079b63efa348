"""`--until-decided`: seeds are added until each comparison with the chosen setting is decided, or seeds cannot.

Whoever tests again after each added seed finds a difference sooner or later. So each look spends a part of the 5 %:
α_j = 0.05 / (j (j + 1)) at the j-th look, which add up to 0.05 however many there are.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from heedful.storage.reading import mapping, records
from heedful.studies.parts import StudyPlan, Until

_GROWTH = 1.5  # seeds from look to look: few looks, so that each may spend more


def why_it_ended(statistics: Mapping[str, Any], until: Until) -> str:
    """In one sentence, when no look follows."""
    chosen = statistics.get("chosen")
    rows = [row for row in records(statistics, "comparisons") if row.get("a") == chosen]
    if not rows:
        return "there is nothing to compare, so nothing to decide"
    undecided = [str(row["b"]) for row in rows if row.get("decided") == "open"]
    if not undecided:
        return f"every comparison with {chosen} is decided, at look {statistics.get('look')}"
    settings = mapping(statistics, "settings")
    used_up = any(mapping(settings, name).get("seeds") == until.most_seeds for name in (str(chosen), *undecided))
    reason = f"all {until.most_seeds} seeds are used up" if used_up else "more seeds cannot decide it, more rows may"
    return f"{chosen} against {', '.join(undecided)} stays open: {reason}"


def next_look(phase: StudyPlan, statistics: Mapping[str, Any], until: Until) -> StudyPlan | None:
    """The same settings, with more seeds for those whose comparison with the chosen one is open; None if there is none
    that more seeds can decide."""
    chosen = statistics.get("chosen")
    undecided = [
        row
        for row in records(statistics, "comparisons")
        if row.get("a") == chosen and row.get("decided") == "open" and row.get("more_seeds_can_decide")
    ]
    names = {str(row[side]) for row in undecided for side in ("a", "b")}
    seeds = {s.name: phase.seeds_of(s) for s in phase.settings}
    for setting in phase.settings:
        have = seeds[setting.name]
        if setting.name in names and setting.random and len(have) < until.most_seeds:
            wanted = min(until.most_seeds, max(len(have) + 1, math.ceil(_GROWTH * len(have))))
            seeds[setting.name] = (*have, *range(max(have) + 1, max(have) + 1 + wanted - len(have)))
    if all(seeds[s.name] == phase.seeds_of(s) for s in phase.settings):
        return None
    return replace(phase, seeds_by_setting=seeds)
