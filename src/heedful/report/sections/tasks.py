"""The sections about several tasks on one body: how each does, what is forgotten, whether they help each other. Those
of a study come from statistics.json, those of a run from its own files."""

from typing import Any

from heedful.report.facts.comparison import Comparison
from heedful.report.facts.run import judged_set, metrics_of
from heedful.report.page import plots
from heedful.report.page.pieces import Block, Column, Figure, Prose, Row, Section, Table
from heedful.report.page.pieces import section as make_section
from heedful.report.page.words import (
    NOTHING,
    figure,
    mean_and_deviation,
    percent,
    plain,
    probability,
    signed,
    title_of,
)
from heedful.storage.runs import Run
from heedful.storage.statistics_record import Forgetting, Summary
from heedful.studies.tasks import average_forgetting, forgetting_in_words

MOST_DRAWN = 4
"""Settings whose forgetting is drawn; the others have their tables."""
NOT_TRAINED = "not trained"


def tasks(c: Comparison) -> Section | None:
    """A row for each setting, a column for each task; a task that a setting was not trained on has no score there."""
    metrics = c.statistics.tasks.metrics
    if not metrics:
        return None
    columns = [Column("setting")]
    for task, metric in metrics.items():
        title = c.metrics[metric].title if metric in c.metrics else plain(metric)
        columns.append(Column(f"{task}, {title}", numeric=True))
    columns.append(Column("n", numeric=True))
    rows = []
    for name, about in c.statistics.tasks.settings.items():
        seeds, cells = 0, [title_of(name)]
        for task in metrics:
            summary = about.scores.get(task, Summary())
            seeds = max(seeds, summary.n)
            shown = mean_and_deviation({"mean": summary.mean, "std": summary.std})
            cells.append(shown if task in about.trained_on else NOT_TRAINED)
        rows.append(Row((*cells, str(seeds)), "best" if name == c.chosen else ""))
    sets = {task: (f"{c.split}-{task}", str(metric)) for task, metric in metrics.items()}
    theirs = {s.name: [s.summary(*sets[task])["mean"] for task in sets] for s in c.settings if s.borrowed}
    others = dict.fromkeys(name for place in sets.values() for name in c.baselines(*place))
    theirs |= {name: [c.baselines(*sets[task]).get(name, {}).get("mean") for task in sets] for name in others}
    known = {name: means for name, means in theirs.items() if any(mean is not None for mean in means)}
    rows += [Row((title_of(name), *map(figure, means), NOTHING), "baseline") for name, means in known.items()]
    note = (
        f"Mean ± standard deviation over the seeds on each task's own {c.split} examples. What decides above is the "
        "mean of a row, in which a task that was not trained counts as its untrained head does."
    )
    return make_section(
        "tasks", "Tasks", [Table(f"Each task on {c.split}", tuple(columns), tuple(rows)), Prose(note, "note")]
    )


def forgetting(c: Comparison) -> Section | None:
    """What is left of each task after those that were trained later."""
    blocks: list[Block] = []
    for i, one in enumerate(c.statistics.forgetting):
        blocks += _matrix(one, f" of {title_of(plain(one.setting))}", i)
    return make_section("forgetting", "Forgetting", blocks)


def interference(c: Comparison) -> Section | None:
    """Trained together against trained alone, task by task."""
    found = c.statistics.interference
    if not found:
        return None
    titles = ("together − alone", f"{percent(1 - c.alpha)} interval", "p, corrected")
    columns = (Column("task"), Column("together"), Column("alone"), *(Column(t, numeric=True) for t in titles))
    rows = []
    for one in found:
        p = one.p_corrected
        cells = [plain(one.task), *(title_of(plain(name)) for name in (one.setting, one.single))]
        cells += [signed(one.difference), " to ".join(map(signed, one.ends)) or NOTHING]
        rows.append(Row((*cells, probability(p)), "best" if p is not None and p <= c.alpha else ""))
    note = (
        "Each task on its own examples: the setting that was trained on several tasks mixed against the one that was "
        "trained on this task alone, with the same model and tuning. Intervals and p are for other seeds and examples; "
        f"p is corrected for all of these comparisons (Holm). Shaded: p ≤ {c.alpha:.4g}."
    )
    words = [Prose(plain(one.sentence)) for one in found]
    whole = Table("Does training tasks together help each of them?", columns, tuple(rows))
    return make_section("interference", "Interference", [whole, Prose(note, "note"), *words])


def run_tasks(run: Run) -> Section | None:
    """Each task of one run: how it was trained, and its score beside its best baseline."""
    data, titles = run.manifest.data, metrics_of(run)
    sets = [name for name in ("dev", "test") if name in run.metrics.splits]
    if not data.tasks or not sets:
        return None
    columns = [Column("task"), Column("metric"), Column("training rows", numeric=True)]
    columns += [Column(title, numeric=True) for name in sets for title in (name, f"{name}, TF-IDF")]
    rows = []
    for task, about in data.tasks.items():
        metric, trained = plain(about.metric), task in data.trained_on
        cells = [task, titles[metric].title if metric in titles else metric]
        cells.append(plain(about.sizes.get("train")) if trained else NOT_TRAINED)
        for name in sets:
            scores = (run.scores(f"{name}-{task}"), run.baseline("tfidf").scores(f"{name}-{task}"))
            cells += [figure(one.number(metric)) for one in scores]
        rows.append(Row(tuple(cells)))
    return make_section("tasks", "Tasks", [Table("Each task on its own sets", tuple(columns), tuple(rows))])


def run_forgetting(run: Run) -> Section | None:
    judged = judged_set(run) or "dev"
    matrix = run.metrics.forgetting.matrix(judged)
    if not matrix:
        return None
    average = {"mean": average_forgetting(matrix), "std": None, "n": 1}
    said = forgetting_in_words(average, judged, len(matrix) - 1)
    one = Forgetting(tasks=run.metrics.forgetting.tasks, set=judged, mean=matrix, sentence=said)
    return make_section("forgetting", "Forgetting", _matrix(one, "", 0))


def task_curves(run: Run) -> Figure | None:
    """The score of each task on dev at every mark."""
    rows: list[dict[str, Any]] = []
    for line in run.log:
        for key, value in line.scores.items():
            task, slash, _ = key.partition("/")
            if slash and value is not None and line.step is not None:
                rows.append({"step": line.step, "score on dev": value, "task": task})
    if len({row["task"] for row in rows}) < 2:
        return None
    caption = "Each task on dev during training, by its own metric."
    return Figure("dev-tasks", caption, plots.lines(rows, "step", "score on dev", "task", points=True))


def _matrix(one: Forgetting, whose: str, place: int) -> list[Block]:
    """The forgetting matrix as a picture and a table, and what it amounts to."""
    order, judged = one.tasks, plain(one.set)
    if not order or len(one.mean) != len(order):
        return []
    cells, rows = [], []
    best: list[float | None] = [None] * len(order)
    for i, (stage, line) in enumerate(zip(order, one.mean, strict=True)):
        texts = []
        for j, value in enumerate(line):
            if value is None:
                texts.append("")
                continue
            std = one.std[i][j] if one.std else None
            texts.append(figure(value, 3) + (f" ± {figure(std, 3)}" if std is not None else ""))
            known = best[j]
            best[j] = value if known is None else max(known, value)
            cells.append({"after": stage, "task": order[j], "score": value, "fall": max(0.0, (best[j] or 0.0) - value)})
        rows.append(Row((f"after {stage}", *texts)))
    columns = (Column(f"{judged} score of"), *(Column(task, numeric=True) for task in order))
    caption = f"Score{whose} on {judged} of each task (across) after each was trained (down)"
    seeds = f"; mean ± standard deviation over {one.n} seeds" if (one.n or 1) > 1 else "; one seed"
    blocks: list[Block] = []
    if place < MOST_DRAWN:
        chart = plots.falls(cells, order)
        blocks.append(
            Figure(f"forgetting-{place + 1}", f"{caption}; the shade is how far it is below its best.", chart)
        )
    blocks.append(Table(caption + seeds, columns, tuple(rows)))
    return [*blocks, Prose(one.sentence)] if one.sentence else blocks
