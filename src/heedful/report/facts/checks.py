"""What was checked of a study: its data, its seeds and rows, its classes, and whether it beats the baseline."""

from dataclasses import dataclass
from typing import Any, Literal

from heedful.report.facts.comparison import Comparison, Setting
from heedful.report.page.words import figure, listed, plain, several, title_of
from heedful.storage.reading import mapping, number, records

ENOUGH_SEEDS = 5
"""Seeds below which what is said about other seeds is rough."""
ENOUGH_ROWS = 200
"""Judged examples below which chance alone moves a share by more than about 0.07."""


@dataclass(frozen=True)
class Check:
    name: str
    state: Literal["passed", "warns", "unknown"]
    sentence: str


def checks(c: Comparison) -> list[Check]:
    """Those that warn first."""
    made = [*_of_data(mapping(c.study.facts, "data")), _runs(c)]
    chosen = c.setting(c.chosen)
    if chosen is not None and c.split is not None:
        made += [_classes(chosen, c.split), _learned(c, chosen)]
        if c.statistics:
            made += [*_baselines(c, chosen), _seeds(c, chosen), _rows(c)]
    order = ("warns", "unknown", "passed")
    return sorted((check for check in made if check is not None), key=lambda check: order.index(check.state))


def _of_data(data: dict[str, Any]) -> list[Check]:
    """As whoever read the data says."""
    words: dict[str, Literal["passed", "warns"]] = {"pass": "passed", "warn": "warns"}
    return [
        Check(plain(one.get("name")), words.get(str(one.get("state")), "unknown"), plain(one.get("sentence")))
        for one in records(data, "checks")
    ]


def _runs(c: Comparison) -> Check | None:
    total = len(c.study.runs)
    if not total:
        return None
    lost = sum(s.unfinished for s in c.settings)
    if not lost:
        return Check("unfinished runs", "passed", f"{several(total, 'run')}, and none failed.")
    verb = "is" if lost == 1 else "are"
    return Check(
        "unfinished runs", "warns", f"{lost} of {several(total, 'run')} did not finish and {verb} not counted."
    )


def _classes(chosen: Setting, split: str) -> Check | None:
    """Whether each class that occurs is ever predicted rightly."""
    counts: dict[str, list[float]] = {}
    for run in chosen.runs:
        for label, scores in mapping(run.scores().get(split, {}), "per_class").items():
            recall = number(scores, "recall") if isinstance(scores, dict) else None
            if recall is not None and number(scores, "support"):
                counts.setdefault(label, []).append(recall)
    if not counts:
        return None
    lost = [label for label, recalls in counts.items() if not any(recalls)]
    if not lost:
        return Check(
            "classes never found", "passed", f"{title_of(chosen.name)} finds examples of each class of {split}."
        )
    named = listed([*lost[:3], *(["others"] if len(lost) > 3 else [])])
    return Check("classes never found", "warns", f"{title_of(chosen.name)} finds no example of {named} on {split}.")


def _learned(c: Comparison, chosen: Setting) -> Check | None:
    """Whether one of its runs has learned nothing, as the statistics say."""
    failed = mapping(mapping(mapping(c.statistics, "settings"), chosen.name), "failed")
    if not failed:
        return None
    if failed.get("failed"):
        return Check("runs that learned nothing", "warns", plain(failed.get("sentence")))
    return Check("runs that learned nothing", "passed", f"None of {title_of(chosen.name)}.")


def _baselines(c: Comparison, chosen: Setting) -> list[Check]:
    made = []
    for other in c.scored:
        if not other.baseline or other is chosen:
            continue
        row, name = c.against(other.name), title_of(other.name)
        shown = row.get("better") == "a"
        sentence = f"{title_of(chosen.name)} is {'' if shown else 'not '}shown to beat {name} on {c.split}."
        made.append(Check(f"against {name}", "passed" if shown else "warns", sentence))
    if chosen.baseline:
        sentence = f"No setting scored better on dev than {title_of(chosen.name)}, which is a baseline."
        made.append(Check("against the others", "warns", sentence))
    return made


def _seeds(c: Comparison, chosen: Setting) -> Check | None:
    facts = mapping(mapping(c.statistics, "settings"), chosen.name)
    seeds = number(facts, "seeds")
    if facts.get("random") is False:
        return Check("few seeds", "passed", f"No seed plays a part in {title_of(chosen.name)}.")
    if seeds is None:
        return None
    has = f"{title_of(chosen.name)} has {several(int(seeds), 'seed')}"
    if seeds >= ENOUGH_SEEDS:
        return Check("few seeds", "passed", f"{has}.")
    rough = "which says nothing about others" if seeds == 1 else "so what is said about other seeds is rough"
    return Check("few seeds", "warns", f"{has}, {rough}; {ENOUGH_SEEDS} are enough.")


def _rows(c: Comparison) -> Check | None:
    rows, least = number(c.statistics, "examples"), number(mapping(c.statistics, "how_many_more"), "difference")
    if rows is None:
        return None
    could = "" if least is None else f", which could show differences from about {figure(least, 3)}"
    sentence = f"{several(int(rows), f'{c.split} example')}{could}."
    return Check("few rows", "passed" if rows >= ENOUGH_ROWS else "warns", sentence)
