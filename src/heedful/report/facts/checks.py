"""What was checked of a study: its data, its seeds and rows, its classes, and whether it beats the baseline."""

from dataclasses import dataclass
from typing import Literal

from heedful.report.facts.comparison import Comparison, Setting
from heedful.report.page.words import figure, listed, plain, several, title_of
from heedful.storage.run_record import DataRecord

ENOUGH_SEEDS = 5
"""Seeds below which what is said about other seeds is rough."""
ENOUGH_ROWS = 200
"""Judged examples below which chance alone moves a share by more than about 0.07."""
MOST_NAMED = 3
"""Settings, or classes, that a sentence names."""


@dataclass(frozen=True)
class Check:
    name: str
    state: Literal["passed", "warns", "unknown"]
    sentence: str


def checks(c: Comparison) -> list[Check]:
    """Those that warn first."""
    made = [*_of_data(c.study.record.data), _runs(c)]
    chosen = c.setting(c.chosen)
    if chosen is not None and c.split is not None:
        made += [_classes(c, c.split), _learned(c)]
        if c.statistics:
            made += [*_baselines(c, chosen), _seeds(c), _rows(c)]
    order = ("warns", "unknown", "passed")
    return sorted((check for check in made if check is not None), key=lambda check: order.index(check.state))


def _of_data(data: DataRecord) -> list[Check]:
    """As whoever read the data says."""
    words: dict[str, Literal["passed", "warns"]] = {"pass": "passed", "warn": "warns"}
    return [Check(plain(one.name), words.get(str(one.state), "unknown"), plain(one.sentence)) for one in data.checks]


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


def _competitors(c: Comparison) -> list[Setting]:
    """Return the settings whose runs are checked, the chosen one first; baselines only if one was chosen."""
    return [s for s in c.scored if not s.baseline or s.name == c.chosen]


def _classes(c: Comparison, split: str) -> Check | None:
    """Check for each setting whether each class that occurs is ever predicted rightly."""
    known, sentences = [], []
    for setting in _competitors(c):
        counts: dict[str, list[float]] = {}
        for run in setting.runs:
            for label, scores in run.scores(split).per_class.items():
                if scores.recall is not None and scores.support:
                    counts.setdefault(label, []).append(scores.recall)
        known += [setting] if counts else []
        lost = [label for label, recalls in counts.items() if not any(recalls)]
        if lost:
            named = listed([*lost[:MOST_NAMED], *(["others"] if len(lost) > MOST_NAMED else [])])
            sentences.append(f"{title_of(setting.name)} finds no example of {named} on {split}.")
    if not known:
        return None
    if sentences:
        return Check("classes never found", "warns", _joined(sentences))
    who = title_of(known[0].name) if len(known) == 1 else "Each setting"
    return Check("classes never found", "passed", f"{who} finds examples of each class of {split}.")


def _learned(c: Comparison) -> Check | None:
    """Check for each setting whether one of its runs has learned nothing, as the statistics say."""
    known = {s.name: found for s in _competitors(c) if (found := c.statistics.about(s.name).failed)}
    if not known:
        return None
    sentences = [plain(found.sentence) for found in known.values() if found.failed]
    if sentences:
        return Check("runs that learned nothing", "warns", _joined(sentences))
    who = title_of(next(iter(known))) if len(known) == 1 else several(len(known), "setting")
    return Check("runs that learned nothing", "passed", f"None of {who}.")


def _joined(sentences: list[str]) -> str:
    """Join the sentences of some settings, and count those that are too many to print."""
    rest = len(sentences) - MOST_NAMED
    more = [f"The same happened in {several(rest, 'more setting')}."] if rest > 0 else []
    return " ".join([*sentences[:MOST_NAMED], *more])


def _baselines(c: Comparison, chosen: Setting) -> list[Check]:
    made = []
    for other in c.scored:
        if not other.baseline or other is chosen:
            continue
        row, name = c.against(other.name), title_of(other.name)
        shown = row.better == "a"
        sentence = f"{title_of(chosen.name)} is {'' if shown else 'not '}shown to beat {name} on {c.split}."
        made.append(Check(f"against {name}", "passed" if shown else "warns", sentence))
    if chosen.baseline:
        sentence = f"No setting scored better on dev than {title_of(chosen.name)}, which is a baseline."
        made.append(Check("against the others", "warns", sentence))
    return made


def _seeds(c: Comparison) -> Check | None:
    """Check how many seeds each setting has in which a seed plays a part."""
    about = {s.name: found for s in _competitors(c) if (found := c.statistics.about(s.name))}
    random = {name: one.seeds for name, one in about.items() if one.random is not False and one.seeds is not None}
    if about and not random:
        return Check("few seeds", "passed", f"No seed plays a part in {_named([*about])}.")
    if not random:
        return None
    few = {name: int(seeds) for name, seeds in random.items() if seeds < ENOUGH_SEEDS}
    if not few:
        least = several(int(min(random.values())), "seed")
        verb = "has" if len(random) == 1 else "have at least"
        return Check("few seeds", "passed", f"{_named([*random])} {verb} {least}.")
    sentences = []
    for seeds in sorted(set(few.values())):
        names = [name for name in few if few[name] == seeds]
        rough = "which says nothing about others" if seeds == 1 else "so what is said about other seeds is rough"
        sentences.append(f"{_named(names)} {'has' if len(names) == 1 else 'have'} {several(seeds, 'seed')}, {rough}")
    return Check("few seeds", "warns", f"{'; '.join(sentences)}; {ENOUGH_SEEDS} are enough.")


def _named(settings: list[str]) -> str:
    rest = len(settings) - MOST_NAMED
    return listed([*map(title_of, settings[:MOST_NAMED]), *([several(rest, "more setting")] if rest > 0 else [])])


def _rows(c: Comparison) -> Check | None:
    rows, least = c.statistics.examples, c.statistics.how_many_more.difference
    if rows is None:
        return None
    could = "" if least is None else f", which could show differences from about {figure(least, 3)}"
    sentence = f"{several(int(rows), f'{c.split} example')}{could}."
    return Check("few rows", "passed" if rows >= ENOUGH_ROWS else "warns", sentence)
