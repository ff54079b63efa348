"""The sections of a study's report: each reads the comparison and says one thing, or is None."""

from typing import Any

from heedful.evaluation.spread import summarise
from heedful.report.facts.comparison import Comparison, Setting, compare, overlap, score
from heedful.report.facts.run import dev_points, tell_marks_apart
from heedful.report.page import charts
from heedful.report.page.pieces import Block, Cards, Column, Figure, Fold, Prose, Report, Row, Section, Table, in_short
from heedful.report.page.pieces import section as make_section
from heedful.report.page.words import (
    LEVEL,
    NOTHING,
    baseline_title,
    count,
    duration,
    figure,
    interval,
    mean_and_deviation,
    plain,
    several,
    size,
)
from heedful.report.sections.cost import against_cost, baseline_line, trainable
from heedful.report.sections.details import calibration, confusions
from heedful.report.sections.more_labels import more_labels
from heedful.report.sections.record import repeat, runs, search, tried
from heedful.report.sections.shared import about_data
from heedful.report.sections.statistics import abstention, doubtful, stability, tests
from heedful.report.sections.verdict import verdict
from heedful.storage.reading import mapping, number
from heedful.storage.runs import Study


def study_report(study: Study) -> Report:
    """All sections in order."""
    c = compare(study)
    data = mapping(study.facts, "data")
    name = plain(data.get("name")) if data.get("name") else study.directory.resolve().name
    made = [
        results(c),
        search(c),
        more_labels(c),
        tests(c),
        against_cost(c),
        curves(c),
        stability(c),
        confusions(c),
        calibration(c),
    ]
    made += [abstention(c), doubtful(c), about_data(data), runs(c), repeat(c)]
    return Report(
        title=f"A study on {name}",
        subtitle=f"{_settings(c)} · {several(len(study.runs), 'run')}",
        opening=opening(c),
        sections=tuple(s for s in made if s is not None),
        footer=f"Written by heedful {_version(c)} from the files of the study and its runs alone.",
    )


def opening(c: Comparison) -> tuple[Block, ...]:
    blocks: list[Block] = [Prose(verdict(c), "lead")]
    if c.split is not None and c.scored:
        blocks.append(_cards(c, c.split, c.scored[0]))
    if (c.study.directory / "best").is_dir():
        blocks.append(Prose("The chosen model is in the folder best/ beside this report.", "note"))
    return tuple(blocks)


def _cards(c: Comparison, split: str, best: Setting) -> Cards:
    summary = best.summary(split, c.metric.name)
    n = several(summary["n"], "seed")
    items = [(f"{c.metric.title} on {split}", mean_and_deviation(summary, 3), f"{best.name}, {n}")]
    if summary["low"] is not None:
        items.append((f"{LEVEL} interval", interval(summary, 3), "of the mean, Student’s t"))
    strongest = c.best_baseline(split)
    if strongest is not None:
        items.append(("best baseline", figure(strongest[1]["mean"], 3), baseline_title(strongest[0])))
    spent = best.cost("training_seconds")
    if spent["mean"] is not None:
        items.append(("training a run", duration(spent["mean"]), f"{best.name}, on average"))
    return Cards(tuple(items))


def results(c: Comparison) -> Section | None:
    """The table of the judged set first, then every other metric, then the other sets."""
    if c.split is None:
        return None
    others_by_name = sorted({name for run in c.runs for name in run.scores()} - {c.split})
    note = f"Mean ± standard deviation over the seeds (n − 1); the interval of the mean is Student’s t at {LEVEL}. "
    note += "A dash stands where one seed has no deviation. Baselines are in italics."
    if leaders(c):
        note += " Marked is the best mean, with every setting whose interval overlaps with its own."
    blocks: list[Block] = [*in_short(results_table(c, c.split), "settings"), Prose(note, "note")]
    others = other_metrics(c, c.split)
    if others is not None:
        blocks.append(Fold(f"Every metric on {c.split}", (others,)))
    blocks += [Fold(f"The same on {split}", (results_table(c, split),)) for split in others_by_name]
    return make_section("results", "Results", blocks)


def leaders(c: Comparison) -> set[str]:
    """The settings that may be the best as far as these seeds tell; empty where there is no spread to tell by."""
    if c.split is None or len(c.scored) < 2:
        return set()
    summaries = {s.name: s.summary(c.split, c.metric.name) for s in c.scored}
    first = summaries[c.scored[0].name]
    if first["low"] is None:
        return set()
    return {name for name, theirs in summaries.items() if overlap(first, theirs) is not False}


def results_table(c: Comparison, split: str) -> Table:
    title, metric = c.metric.title, c.metric.name
    columns = (
        Column("setting"),
        Column(f"{title}, mean\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}std", numeric=True),
        Column("n", numeric=True),
        Column(f"{LEVEL} interval", numeric=True),
        Column("training", numeric=True),
        Column("parameters trained", numeric=True),
        Column("peak memory", numeric=True),
        Column("each seed", long=True),
    )
    rows = []
    shaded = leaders(c) if split == c.split else set()
    for setting in c.settings:
        summary = setting.summary(split, metric)
        peak = setting.cost("peak_memory_bytes")["values"]
        cells = (
            setting.name,
            mean_and_deviation(summary),
            str(summary["n"]),
            interval(summary),
            duration(setting.cost("training_seconds")["mean"]),
            count(next((trainable(run) for run in setting.runs), None)),
            size(max(peak, default=None)),
            _each_seed(setting, split, metric),
        )
        rows.append(Row(cells, "failed" if not summary["n"] else "best" if setting.name in shaded else ""))
    for name, summary in c.baselines(split, metric).items():
        shown = mean_and_deviation(summary) if summary["n"] > 1 else figure(summary["mean"])
        time = duration(c.baseline_seconds(name))
        cells = (baseline_title(name), shown, str(summary["n"]), interval(summary), time, NOTHING, NOTHING, NOTHING)
        rows.append(Row(cells, "baseline"))
    examples = {int(n) for run in c.runs if (n := number(run.scores().get(split, {}), "n")) is not None}
    size_of = f", {several(examples.pop(), 'example')}" if len(examples) == 1 else ""
    return Table(f"{title} on {split}{size_of}", columns, tuple(rows))


def other_metrics(c: Comparison, split: str) -> Table | None:
    there = {name for run in c.runs for name in run.scores().get(split, {})}
    names = [name for name in c.metrics if name in there and name != c.metric.name]
    if not names:
        return None
    rows = [
        Row((s.name, *(mean_and_deviation(s.summary(split, m)) for m in names), str(len(s.runs))))
        for s in c.settings
        if s.runs
    ]
    for name in c.baselines(split, c.metric.name):
        theirs = [c.baselines(split, m).get(name) for m in names]
        cells = [NOTHING if s is None else mean_and_deviation(s) if s["n"] > 1 else figure(s["mean"]) for s in theirs]
        rows.append(Row((baseline_title(name), *cells, NOTHING), "baseline"))
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
    if len(c.scored) > len(c.drawn):
        caption += f" Only the best {len(c.drawn)} of {len(c.scored)} settings on {c.split} are drawn."
    return make_section("learning", "Learning", [Figure("learning", caption, chart)])


def _each_seed(setting: Setting, split: str, metric: str) -> str:
    values = [f"{run.seed}:\N{NO-BREAK SPACE}{figure(score(run, split, metric))}" for run in setting.runs]
    return ", ".join(values) or NOTHING


def _settings(c: Comparison) -> str:
    searched = len(tried(c))
    return (
        f"{several(searched, 'setting')} tried, {len(c.settings)} chosen"
        if searched
        else several(len(c.settings), "setting")
    )


def _version(c: Comparison) -> str:
    return plain(next((run.manifest.get("heedful") for run in c.runs), None))
