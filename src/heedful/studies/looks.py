"""`--until-decided`: seeds are added until each comparison with the chosen setting is decided, or seeds cannot.

Whoever tests again after each added seed finds a difference sooner or later. So each look spends a part of the 5 %:
α_j = 0.05 / (j (j + 1)) at the j-th look, which add up to 0.05 however many there are.
"""

import math
from dataclasses import replace

from heedful.storage.statistics_record import Statistics
from heedful.studies.parts import StudyPlan, Until

_GROWTH = 1.5  # seeds from look to look: few looks, so that each may spend more


def why_it_ended(statistics: Statistics, until: Until) -> str:
    """In one sentence, when no look follows."""
    chosen = statistics.chosen
    rows = [row for row in statistics.comparisons if row.a == chosen]
    if not rows:
        return "there is nothing to compare, so nothing to decide"
    undecided = [str(row.b) for row in rows if row.decided == "open"]
    if not undecided:
        return f"every comparison with {chosen} is decided, at look {statistics.look}"
    used_up = any(statistics.about(name).seeds == until.most_seeds for name in (chosen, *undecided))
    reason = f"all {until.most_seeds} seeds are used up" if used_up else "more seeds cannot decide it, more rows may"
    return f"{chosen} against {', '.join(undecided)} stays open: {reason}"


def next_look(phase: StudyPlan, statistics: Statistics, until: Until) -> StudyPlan | None:
    """The same settings, with more seeds for those whose comparison with the chosen one is open; None if there is none
    that more seeds can decide."""
    undecided = [
        row
        for row in statistics.comparisons
        if row.a == statistics.chosen and row.decided == "open" and row.more_seeds_can_decide
    ]
    names = {name for row in undecided for name in (row.a, row.b)}
    seeds = {s.name: phase.seeds_of(s) for s in phase.settings}
    for setting in phase.settings:
        have = seeds[setting.name]
        if setting.name in names and setting.random and len(have) < until.most_seeds:
            wanted = min(until.most_seeds, max(len(have) + 1, math.ceil(_GROWTH * len(have))))
            seeds[setting.name] = (*have, *range(max(have) + 1, max(have) + 1 + wanted - len(have)))
    if all(seeds[s.name] == phase.seeds_of(s) for s in phase.settings):
        return None
    return replace(phase, seeds_by_setting=seeds)
