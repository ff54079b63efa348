"""The sections of a study's report: each reads the comparison and says one thing, or is None."""

import json
from collections.abc import Mapping
from typing import Any

from heedful.evaluation.spread import summarise
from heedful.report.facts.comparison import Comparison, Setting, compare, score
from heedful.report.facts.run import dev_points, early_stop, scored, tell_marks_apart
from heedful.report.page import charts
from heedful.report.page.glossary import with_words
from heedful.report.page.pieces import (
    MOST_ROWS,
    Block,
    Column,
    Figure,
    Fold,
    Prose,
    Report,
    Role,
    Row,
    Section,
    Table,
    in_short,
)
from heedful.report.page.pieces import section as make_section
from heedful.report.page.words import (
    NOTHING,
    capital,
    figure,
    interval,
    mean_and_deviation,
    percent,
    plain,
    several,
    title_of,
)
from heedful.report.sections import fusion
from heedful.report.sections.card import card, without_card
from heedful.report.sections.checked import checked
from heedful.report.sections.cost import against_cost, baseline_line
from heedful.report.sections.details import calibration, classes, confusions
from heedful.report.sections.pretraining import longer_pretraining
from heedful.report.sections.record import repeat, runs
from heedful.report.sections.shared import about_data, signatures
from heedful.report.sections.statistics import abstention, doubtful, stability, tests
from heedful.report.sections.tasks import forgetting, interference, tasks
from heedful.storage.runs import Study
from heedful.studies.kinds.protocol import kind_of_study

MOST_DOTS = 10
"""Settings in the leaderboard, beside the chosen one and the baselines."""
_MOST_SAID = 5
"""Runs that are named one by one where something is to be said of each."""
INTERVAL = "95\N{NO-BREAK SPACE}% interval"


def study_report(study: Study) -> Report:
    """All sections in order."""
    c, kind = compare(study), kind_of_study(study)
    name = study.record.data.name or study.directory.resolve().name
    made = [
        results(c),
        checked(c),
        tests(c),
        tasks(c),
        interference(c),
        forgetting(c),
        *(kind.sections(study) if kind is not None else ()),
        longer_pretraining(c),
        against_cost(c),
        classes(c),
        confusions(c),
        calibration(c),
        abstention(c),
        doubtful(c),
        stability(c),
        fusion.of_study(c),
        curves(c),
        about_data(study.record.data),
        runs(c),
        repeat(c),
    ]
    report = Report(
        title=f"A study on {name}",
        subtitle=f"{_settings(c)} · {several(len(study.runs), 'run')}",
        opening=opening(c),
        sections=tuple(s for s in made if s is not None),
        footer=f"Written by heedful {_version(c)} from the files of the study and its runs alone.",
    )
    return with_words(report)


def opening(c: Comparison) -> tuple[Block, ...]:
    """The card with the leaderboard beside it; why there is none where there is none."""
    made = card(c)
    blocks: list[Block | None] = [Prose(without_card(c), "lead") if made is None else made, leaderboard(c)]
    warnings = dict.fromkeys(said for run in c.runs for said in run.manifest.data.warnings)
    blocks += [Prose(said, "warning") for said in list(warnings)[:_MOST_SAID]]
    return tuple(block for block in blocks if block is not None)


def leaderboard(c: Comparison) -> Figure | None:
    """What to expect of each setting and each baseline that competes, as dots with intervals, the best first."""
    rows: list[dict[str, Any]] = []
    for s in c.scored:
        expected = c.expected(s.name)
        mean = expected.mean
        if mean is not None:
            ends = {"low": expected.low, "high": expected.high}
            known = {key: mean if end is None else end for key, end in ends.items()}
            role = "chosen" if s.name == c.chosen else "baseline" if s.baseline else "other"
            rows.append({"setting": title_of(s.name), "mean": mean, **known, "role": role})
    if not rows:
        return None
    order = sorted(rows, key=lambda row: -c.metric.sign * row["mean"])
    first = [row for row in order[:MOST_DOTS] if row["role"] != "chosen"]
    kept = [row for row in order if row["role"] != "other" or row in first]
    level = percent(c.expected(c.chosen).level)
    caption = f"{capital(c.metric.title)} on {c.split} to expect of each, with its {level} interval"
    caption += "; the chosen one is blue, baselines are grey."
    if len(kept) < len(rows):
        caption += f" The best of {len(rows)} are drawn."
    return Figure("leaderboard", caption, charts.leaderboard(kept, c.metric.title))


def results(c: Comparison) -> Section | None:
    """The table of the judged set first, then every other metric, then the other sets."""
    if c.split is None:
        return None
    sets = {name for run in c.runs for name in run.metrics.splits if score(run, name, c.metric.name) is not None}
    others_by_name = sorted(sets - {c.split})
    note = (
        "Mean ± standard deviation over the seeds (n − 1): how much another seed changes it. A dash stands where one "
    )
    note += "seed has no deviation. Baselines are in italics."
    if c.statistics:
        note += (
            " The interval is for other seeds and other such examples; where no seed plays a part, or there is one, "
        )
        note += "for other examples alone."
    if c.setting(c.chosen) is not None:
        note += " Marked is the chosen one, the best on dev."
    blocks: list[Block | None] = [*in_short(results_table(c, c.split), "settings"), Prose(note, "note")]
    said = varied(c)
    if 0 < len(said) <= MOST_ROWS:  # of more, the table at the end
        blocks.append(Prose(" ".join(said)))
    blocks.append(signatures(metric for run in c.runs for metric in scored(run, run.scores(c.split))))
    others = other_metrics(c, c.split)
    if others is not None:
        blocks.append(Fold(f"Every metric on {c.split}", (others,)))
    blocks += [Fold(f"The same on {split}", (results_table(c, split),)) for split in others_by_name]
    return make_section("results", "Results", blocks)


def varied(c: Comparison) -> list[str]:
    """What each setting of a search is, in the order of the table."""
    values = {name: setting.values for name, setting in c.study.record.described.items()}
    return [
        f"{s.name}: {', '.join(f'{key} = {json.dumps(value)}' for key, value in values[s.name].items())}."
        for s in c.settings
        if values.get(s.name)
    ]


def results_table(c: Comparison, split: str) -> Table:
    """What is expected and was tested is of the judged set alone."""
    title, metric = c.metric.title, c.metric.name
    judged = split == c.split and bool(c.statistics)
    columns = [
        Column("setting"),
        Column(f"{title}, mean\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}std", numeric=True),
        Column("n", numeric=True),
    ]
    columns += [Column(INTERVAL, numeric=True), Column("against the chosen one")] if judged else []
    columns.append(Column("each seed", long=True))
    rows = []
    for setting in c.settings:
        summary = setting.summary(split, metric)
        cells = [title_of(setting.name), _mean(setting, summary), str(summary["n"])]
        expected = c.expected(setting.name)
        cells += [interval(expected.low, expected.high), standing(c, setting)] if judged else []
        cells.append(_each_seed(setting, split, metric))
        role: Role = "best" if setting.name == c.chosen else "baseline" if setting.baseline else ""
        rows.append(Row(tuple(cells), role if summary["n"] else "failed"))
    for name, summary in c.baselines(split, metric).items():
        shown = mean_and_deviation(summary) if summary["n"] > 1 else figure(summary["mean"])
        filling = [NOTHING] * (len(columns) - 3)
        rows.append(Row((title_of(name), shown, str(summary["n"]), *filling), "baseline"))
    examples = {int(n) for run in c.runs if (n := run.scores(split).n) is not None}
    size_of = f", {several(examples.pop(), 'example')}" if len(examples) == 1 else ""
    return Table(f"{capital(title)} on {split}{size_of}", tuple(columns), tuple(rows))


def standing(c: Comparison, setting: Setting) -> str:
    """How a setting stands to the chosen one, by the paired test."""
    row = c.against(setting.name)
    if setting.name == c.chosen:
        return "chosen"
    if row.better in ("a", "b"):
        return "shown to be worse" if row.better == "a" else "shown to be better"
    if row.p_corrected is None:
        return "not tested" if setting.runs else NOTHING
    return "not shown to be worse" if c.metric.sign * (row.difference or 0.0) >= 0 else "not shown to be better"


def _mean(setting: Setting, summary: dict[str, Any]) -> str:
    """Where no seed plays a part, there is no deviation to miss."""
    return figure(summary["mean"]) if _fixed(setting) and summary["n"] <= 1 else mean_and_deviation(summary)


def other_metrics(c: Comparison, split: str) -> Table | None:
    there = {name for run in c.runs for name in run.scores(split).extra}
    names = [name for name in c.metrics if name in there and name != c.metric.name]
    if not names:
        return None
    rows = [
        Row((title_of(s.name), *(_mean(s, s.summary(split, m)) for m in names), str(len(s.runs))))
        for s in c.settings
        if s.runs
    ]
    for name in c.baselines(split, c.metric.name):
        theirs = [c.baselines(split, m).get(name) for m in names]
        cells = [NOTHING if s is None else mean_and_deviation(s) if s["n"] > 1 else figure(s["mean"]) for s in theirs]
        rows.append(Row((title_of(name), *cells, NOTHING), "baseline"))
    columns = (Column("setting"), *(Column(c.metrics[m].title, numeric=True) for m in names), Column("n", numeric=True))
    return Table(f"Mean ± standard deviation on {split}", columns, tuple(rows))


def curves(c: Comparison) -> Section | None:
    """The mean over seeds of the dev score at each mark, with one deviation to either side."""
    points = {s.name: [dev_points(run, c.metric) for run in s.runs] for s in c.drawn}
    by_epoch = all(tell_marks_apart([p["epoch"] for p in run]) for runs in points.values() for run in runs)
    unit = "epoch" if by_epoch else "step"
    rows: list[dict[str, Any]] = []
    for setting, of_seeds in points.items():
        by_mark: dict[float, list[dict[str, Any]]] = {}
        for run in of_seeds:
            for point in run:
                by_mark.setdefault(point["mark"], []).append(point)
        for _, alike in sorted(by_mark.items()):
            summary = summarise([point["score"] for point in alike])
            middle, std = summary["mean"], summary["std"] or 0.0
            at = round(sum(point[unit] for point in alike) / len(alike), 4)
            row = {"setting": setting, unit: at, "score": middle, "low": middle - std, "high": middle + std}
            rows.append({**row, "seeds": summary["n"]})
    if not rows:
        return None
    shown = list(dict.fromkeys(row["setting"] for row in rows))
    chart = charts.bands(rows, unit, f"{c.metric.title} on dev", shown, baseline_line(c, "dev"))
    caption = "Mean over the seeds at each evaluation on dev; the bands are ± one standard deviation."
    caption += _missing_marks(points, {setting.name: setting for setting in c.drawn})
    if len(c.scored) > len(c.drawn):
        caption += f" Drawn are {len(c.drawn)} of {len(c.scored)} settings: the chosen one, and the best on {c.split}."
    return make_section("learning", "Learning", [Figure("learning", caption, chart), _early_stops(c)])


def _missing_marks(points: Mapping[str, list[list[dict[str, Any]]]], settings: Mapping[str, Setting]) -> str:
    """Which runs have no score at marks that another seed of their setting has: there the mean is of fewer seeds."""
    said = []
    for name, of_seeds in points.items():
        marks = {point["mark"] for run in of_seeds for point in run}
        for run, found in zip(settings[name].runs, of_seeds, strict=True):
            if missing := sorted(marks - {point["mark"] for point in found}):
                together = missing[-1] - missing[0] == len(missing) - 1 > 0
                numbers = [f"{missing[0]:.0f} to {missing[-1]:.0f}"] if together else [f"{m:.0f}" for m in missing]
                word = "mark" if len(missing) == 1 else "marks"
                said.append(f"{name}, seed {run.seed}: {word} {', '.join(numbers)}")
    return f" Where a run has no score, the mean is of fewer seeds ({_some(said)})." if said else ""


def _early_stops(c: Comparison) -> Prose | None:
    stopped = [f"{run.directory.name} {where}" for run in c.runs if (where := early_stop(run))]
    if not stopped:
        return None
    words = f"{len(stopped)} of {several(len(c.runs), 'run')} stopped early, as dev had not gained (training.patience)"
    return Prose(f"{words}: {_some(stopped)}.", "note")


def _some(said: list[str]) -> str:
    more = f"; and {len(said) - _MOST_SAID} more" if len(said) > _MOST_SAID else ""
    return "; ".join(said[:_MOST_SAID]) + more


def _each_seed(setting: Setting, split: str, metric: str) -> str:
    if _fixed(setting):
        return "no seed"
    values = [f"{run.seed}:\N{NO-BREAK SPACE}{figure(score(run, split, metric))}" for run in setting.runs]
    return ", ".join(values) or NOTHING


def _fixed(setting: Setting) -> bool:
    """Whether no seed plays a part in it."""
    return setting.record.fixed if setting.record.random is not None else setting.row.random is False


def _settings(c: Comparison) -> str:
    searched = len(c.study.record.tried)
    return (
        f"{several(searched, 'setting')} tried, {sum(not s.baseline for s in c.settings)} tested"
        if searched
        else several(sum(not s.baseline for s in c.settings), "setting")
    )


def _version(c: Comparison) -> str:
    return plain(next((run.manifest.heedful for run in c.runs), None))
