"""The sections of a run's report: each reads the run's files and says one thing, or is None."""

import math
from collections.abc import Sequence
from typing import Any

from heedful.evaluation.metrics import Metric
from heedful.report.facts.run import (
    best_baseline,
    chose_on_dev,
    dev_points,
    early_stop,
    judged_set,
    keeps_best,
    metrics_of,
    place_of_mark,
    primary_of,
    scored,
)
from heedful.report.page import charts
from heedful.report.page.glossary import with_words
from heedful.report.page.pieces import (
    Block,
    Cards,
    Column,
    Facts,
    Figure,
    Fold,
    Prose,
    Report,
    Row,
    Section,
    Table,
    facts,
)
from heedful.report.page.pieces import section as make_section
from heedful.report.page.words import (
    NOTHING,
    amount,
    capital,
    count,
    duration,
    figure,
    operations,
    plain,
    several,
    share,
    size,
    title_of,
)
from heedful.report.sections import fusion
from heedful.report.sections.shared import (
    MOST_TABLE_CLASSES,
    about_data,
    confusion_of,
    confusion_rows,
    confusion_table,
    error_table,
    flat,
    labels_of,
    reliability_figure,
    reliability_rows,
    repeat_blocks,
    signatures,
)
from heedful.report.sections.tasks import run_forgetting, run_tasks, task_curves
from heedful.report.sections.translations import translations
from heedful.storage.run_record import Scores
from heedful.storage.runs import Run

MOST_ERRORS = 40


def run_report(run: Run) -> Report:
    """All sections in order."""
    data = run.manifest.data
    name = data.name or run.directory.resolve().name
    parts = [plain(run.manifest.model.source), method(run), f"seed {run.seed}" if run.seed != NOTHING else NOTHING]
    made = [
        scores(run),
        run_tasks(run),
        run_forgetting(run),
        curves(run),
        classes(run),
        calibration(run),
        errors(run),
        translations(run),
        fusion.of_run(run),
        about_data(data),
        cost(run),
        repeat(run),
    ]
    report = Report(
        title=f"A run on {name}",
        subtitle=" · ".join(p for p in parts if p != NOTHING),
        opening=opening(run),
        sections=tuple(s for s in made if s is not None),
        footer=f"Written by heedful {plain(run.manifest.heedful)} from the files of the run alone.",
    )
    return with_words(report)


def method(run: Run) -> str:
    return plain(run.manifest.asked.tuning.method)


def opening(run: Run) -> tuple[Block, ...]:
    state = run.manifest.state
    blocks: list[Block] = []
    if state != "done":
        why = f": {run.manifest.reason}" if run.manifest.reason else ""
        blocks.append(Prose(f"This run did not finish; its state is “{state}”{why}.", "warning"))
    if run.manifest.pruned is not None:
        where = place_of_mark(run, run.manifest.pruned)
        blocks.append(Prose(f"Stopped {where}: behind the median of earlier settings of its search.", "note"))
    if early := early_stop(run):
        blocks.append(Prose(f"Training stopped early, {early}: dev had not gained (training.patience).", "note"))
    blocks += [Prose(said, "warning") for said in run.manifest.data.warnings]
    split = judged_set(run)
    if split is None:
        blocks.append(Prose("There are no scores to report: no set has been evaluated.", "lead"))
    else:
        blocks += [Prose(verdict(run, split), "lead"), _cards(run, split)]
    return tuple(blocks)


def verdict(run: Run, split: str) -> str:
    """What one seed says, and what it cannot."""
    metric = primary_of(run)
    scores = run.scores(split)
    value = scores.number(metric.name)
    assert value is not None
    words = [f"On {split} this model reaches {amount(metric.title, value)}."]
    baseline = best_baseline(run, split, metric)
    if baseline is not None:
        name, other = baseline
        words.append(
            f"The best baseline, {title_of(name)}, reaches {figure(other, 3)}"
            + (
                ", which the model beats in this run."
                if metric.better(value, other)
                else ": the model does not beat it."
            )
        )
    half = sampling_error(scores) if metric.name == "accuracy" else None
    if half is not None:
        words.append(
            f"With {several(int(scores.n or 0), 'example')} chance alone moves this by about ±{figure(half, 3)}."
        )
    words.append("It is one seed: how much another would differ is not known.")
    if split == "dev" and chose_on_dev(run):
        words.append("The same dev examples chose the checkpoint, so the score is somewhat flattering.")
    return " ".join(words)


def sampling_error(scores: Scores) -> float | None:
    """Half the width of Wilson's 95 % interval of the accuracy: what another test set of this size might change."""
    n, p = scores.n, scores.number("accuracy")
    if not n or n < 0 or p is None or not 0 <= p <= 1:
        return None
    z = 1.96
    return z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))


def _cards(run: Run, split: str) -> Cards:
    metric = primary_of(run)
    spent, parameters = run.manifest.cost, run.manifest.model.parameters
    value = run.scores(split).number(metric.name)
    items = [(f"{metric.title} on {split}", figure(value), "one seed, no deviation")]
    baseline = best_baseline(run, split, metric)
    if baseline is not None:
        items.append(("best baseline", figure(baseline[1]), title_of(baseline[0])))
    if spent.training_seconds is not None:
        items.append(("training", duration(spent.training_seconds), plain(run.manifest.device)))
    if parameters.trainable is not None:
        of = f"of {count(parameters.total)}" if parameters.total is not None else ""
        items.append(("parameters trained", count(parameters.trainable), of))
    return Cards(tuple(items))


def scores(run: Run) -> Section | None:
    """A table for each evaluation set: this model, and what it has to beat."""
    blocks: list[Block | None] = []
    titles = {name: metric.title for name, metric in metrics_of(run).items()}
    for split, ours in run.metrics.splits.items():
        metrics = scored(run, ours)
        columns = [Column(""), *(Column(m.title, numeric=True) for m in metrics), Column("time", numeric=True)]
        spent = duration(run.manifest.cost.training_seconds)
        rows = [Row(("this model", *(figure(ours.number(m.name)) for m in metrics), spent), "best")]
        for name, b in run.metrics.baselines.items():
            if split in b.sets:
                cells = (title_of(name), *(figure(b.scores(split).number(m.name)) for m in metrics))
                rows.append(Row((*cells, duration(b.seconds)), "baseline"))
        blocks.append(Table(f"{split}: {several(int(ours.n or 0), 'example')}", tuple(columns), tuple(rows)))
        blocks += _parts(split, ours, metrics)
        why = "; ".join(f"{titles.get(m, m)}: {reason}" for m, reason in ours.undefined.items())
        if why:
            blocks.append(Prose(f"Undefined here: {why}.", "note"))
    shown = {metric.name: metric for ours in run.metrics.splits.values() for metric in scored(run, ours)}
    blocks += [signatures(shown.values()), *_best_mark(run)]
    return make_section("scores", "Scores", blocks)


def _best_mark(run: Run) -> list[Block]:
    """Where in training dev was best, by the metric that decides, and whether that is what was kept."""
    best, metric = run.metrics.best, primary_of(run)
    if not best:
        return []
    known = [f"{name} {plain(n)}" for name, n in (("step", best.step), ("epoch", best.epoch)) if n is not None]
    at = ", ".join(known) or "the best mark"
    logged = [point["score"] for point in dev_points(run, metric) if point["step"] == best.step]
    words = "" if best.score is None else f", which scored {figure(metric.sign * best.score)} on dev"
    words = f", with {amount(metric.title, logged[-1], 4)} on dev" if logged else words
    if keeps_best(run):
        return [Prose(f"Kept is the checkpoint of {at}{words}.", "note")]
    return [Prose(f"Best on dev was the checkpoint of {at}{words}; kept is the last one.", "note")]


def _parts(split: str, ours: Scores, metrics: Sequence[Metric]) -> list[Block]:
    """The scores of some of the examples of a set, where the run says them apart."""
    columns = [Column("examples"), Column("n", numeric=True), *(Column(m.title, numeric=True) for m in metrics)]
    rows = [
        Row((part.part, plain(part.extra.get("n")), *(figure(part.number(m.name)) for m in metrics)))
        for part in ours.parts
        if part.part
    ]
    return [Table(f"{split}, part by part", tuple(columns), tuple(rows))] if rows else []


def curves(run: Run) -> Section | None:
    losses = _losses(run)
    metric = primary_of(run)
    points = dev_points(run, metric)
    blocks: list[Block] = []
    if losses:
        terms = " Its terms are drawn apart." if len(losses) > 1 else ""
        blocks.append(Figure("loss", f"Training loss, step by step.{terms}", charts.loss_curve(losses)))
    if points:
        best = run.metrics.best.step
        baseline = best_baseline(run, "dev", metric)
        named = (title_of(baseline[0]), baseline[1]) if baseline else None
        marked = "checkpoint that was kept" if keeps_best(run) else "best checkpoint; the last was kept"
        kept = f" The dotted line marks the {marked}." if best is not None else ""
        caption = capital(f"{metric.title} on dev during training.{kept}")
        blocks.append(Figure("dev", caption, charts.score_curve(points, metric.title, best, named)))
    each = task_curves(run)
    blocks += [] if each is None else [each]
    return make_section("learning", "Learning", blocks)


def _losses(run: Run) -> dict[str, list[dict[str, Any]]]:
    """Step and loss of each line that has one: of the whole, and of each of its terms if there are several."""
    curves: dict[str, list[dict[str, Any]]] = {}
    for line in run.log:
        terms = line.terms if len(line.terms) > 1 else {}
        named = {"loss": line.loss, **{f"{term}, a term": value for term, value in terms.items()}}
        for name, value in named.items():
            if line.step is not None and value is not None:
                curves.setdefault(name, []).append({"step": line.step, "loss": value})
    return curves


def classes(run: Run) -> Section | None:
    split = judged_set(run)
    ours = run.scores(split)
    labels = labels_of(run.manifest.data, ours)
    blocks: list[Block | None] = []
    if ours.per_class:
        rows = [{"label": label, **ours.per_class[label].written} for label in labels]
        blocks.append(Figure("classes", f"F1 of each class on {split}.", charts.class_bars(rows, labels)))
        columns = (Column("class"), *(Column(t, numeric=True) for t in ("precision", "recall", "F1", "examples")))
        lines = tuple(
            Row((label, *map(figure, (one.precision, one.recall, one.f1)), count(one.support)))
            for label, one in ours.per_class.items()
        )
        each = Table(f"Each class on {split}", columns, lines)
        blocks.append(each if len(lines) <= MOST_TABLE_CLASSES else Fold("Each class in figures", (each,)))
    matrix = confusion_of(ours, labels)
    if matrix is not None:
        caption = f"Confusions on {split}: rows are the gold classes, the shade is the share of the row."
        blocks.append(Figure("confusion", caption, charts.confusion(confusion_rows(labels, matrix), labels)))
        blocks.append(confusion_table("Confusions as a table", labels, matrix))
    return make_section("classes", "Classes and confusions", blocks)


def calibration(run: Run) -> Section | None:
    split = judged_set(run)
    ours = run.scores(split)
    caption = (
        f"Confidence against the share that is right, on {split}. On the dashed line confidence means what it says; "
        "below it the model is too sure of itself. Larger dots hold more examples."
    )
    chart = reliability_figure(reliability_rows(ours.bins), caption)
    blocks: list[Block | None] = [chart]
    if ours.number("ece") is not None:
        words = f"The expected calibration error on {split} is {figure(ours.number('ece'))}."
        if run.metrics.temperature is not None:
            words += f" A temperature of {figure(run.metrics.temperature, 3)} was fitted on dev."
        blocks.insert(0, Prose(words))
    blocks.append(before_after(run))
    return make_section("calibration", "Calibration", blocks)


def before_after(run: Run) -> Table | None:
    """What the temperature changed, where metrics.json says so under "calibration"."""
    rows = []
    for split, entry in run.metrics.calibration.items():
        for when, scores in (("before", entry.before), ("after", entry.after)):
            if scores.extra:
                cells = (figure(scores.number(key)) for key in ("ece", "log_loss"))
                rows.append(Row((f"{split}, {when}", *cells)))
    columns = (Column(""), Column("calibration error", numeric=True), Column("log-loss", numeric=True))
    return Table("Before and after the temperature", columns, tuple(rows)) if rows else None


def errors(run: Run) -> Section | None:
    listed = run.metrics.errors
    split = judged_set(run)
    kept = [e for e in listed if e.split == split] or listed
    shown = kept[:MOST_ERRORS]
    sure = "probability" if any(e.probability is not None for e in kept) else ""
    where = plain(kept[0].split) if kept else ""
    more = f", the first {len(shown)} of {len(kept)} listed" if len(kept) > len(shown) else ""
    return make_section("errors", "Errors", [error_table(f"Errors on {where}{more}", shown, sure)])


def cost(run: Run) -> Section | None:
    spent, model = run.manifest.cost, run.manifest.model
    about = facts(
        [
            ("model", plain(model.source)),
            ("family", plain(model.family)),
            ("parameters", count(model.parameters.total)),
            ("trained", count(model.parameters.trainable)),
            ("licence", plain(model.licence)),
            ("pretrained on", plain(model.trained_on)),
        ]
    )
    bill = facts(
        [
            ("training time", duration(spent.training_seconds)),
            ("predicting 1,000 texts", duration(spent.prediction_seconds)),
            ("model on disk", size(spent.model_bytes)),
            ("adapters alone", size(spent.adapter_bytes)),
            ("time in all", duration(spent.total_seconds)),
            ("peak memory", size(spent.peak_memory_bytes)),
            ("GPU memory", size(spent.gpu_memory_bytes)),
            ("arithmetic", operations(spent.flops)),
            ("tokens seen", count(spent.tokens)),
            ("padding", share(spent.padding_share)),
            ("texts cut short", share(spent.truncated_share)),
        ]
    )
    warning = None
    if (spent.truncated_share or 0) > 0.05:
        warning = Prose(
            f"{share(spent.truncated_share)} of the texts were longer than the model was allowed to read.", "warning"
        )
    return make_section("cost", "Model and cost", [about, bill, warning])


def repeat(run: Run) -> Section | None:
    recipe = Facts(tuple(flat(run.manifest.recipe)))
    blocks = repeat_blocks(run.manifest.command, run.manifest, run.manifest.data, run.seed)
    if recipe.pairs:
        blocks.append(Fold("The recipe, every key", (recipe,)))
    return make_section("repeat", "To repeat this", blocks)
