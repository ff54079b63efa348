"""The sections of a run's report: each reads the run's files and says one thing, or is None."""

import math
from typing import Any

from heedful.report import charts
from heedful.report.files import Run, number, records, table
from heedful.report.pieces import Block, Cards, Column, Facts, Figure, Fold, Prose, Report, Row, Section, Table, facts
from heedful.report.pieces import section as make_section
from heedful.report.sections import (
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
)
from heedful.report.words import (
    NOTHING,
    baseline_title,
    count,
    duration,
    figure,
    higher_is_better,
    known_metrics,
    metric_title,
    operations,
    plain,
    several,
    share,
    size,
    told_metric,
)

MOST_ERRORS = 40


def run_report(run: Run) -> Report:
    """All sections in order."""
    data, model = table(run.manifest, "data"), table(run.manifest, "model")
    name = plain(data.get("name")) if data.get("name") else run.directory.resolve().name
    parts = [plain(model.get("source")), method(run), f"seed {run.seed}" if run.seed != NOTHING else NOTHING]
    made = [
        scores(run),
        curves(run),
        classes(run),
        calibration(run),
        errors(run),
        about_data(data),
        cost(run),
        repeat(run),
    ]
    return Report(
        title=f"A run on {name}",
        subtitle=" · ".join(p for p in parts if p != NOTHING),
        opening=opening(run),
        sections=tuple(s for s in made if s is not None),
        footer=f"Written by heedful {plain(run.manifest.get('heedful'))} from the files of the run alone.",
    )


def method(run: Run) -> str:
    return plain(table(table(run.manifest, "recipe"), "tuning").get("method"))


def primary_of(run: Run) -> str:
    """The metric that decides: as metrics.json says, else the first that the scores hold."""
    named = run.metrics.get("primary")
    if isinstance(named, str) and named:
        return named
    return next((m for s in run.scores().values() for m in known_metrics(s)), "accuracy")


def judged_split(run: Run) -> str | None:
    """The split by which a model is judged: test if it has a score, else dev."""
    primary, splits = primary_of(run), run.scores()
    order = ["test", "dev", *splits]
    return next((s for s in order if s in splits and number(splits[s], primary) is not None), None)


def best_baseline(run: Run, split: str, metric: str) -> tuple[str, float] | None:
    """The strongest baseline that has this score."""
    found = [
        (name, value) for name, b in run.baselines().items() if (value := number(table(b, split), metric)) is not None
    ]
    if not found:
        return None
    pick = max if higher_is_better(metric) else min
    return pick(found, key=lambda pair: pair[1])


def opening(run: Run) -> tuple[Block, ...]:
    state = run.manifest.get("state", "done")
    blocks: list[Block] = []
    if state != "done":
        reason = run.manifest.get("reason")
        why = f": {reason}" if isinstance(reason, str) and reason else ""
        blocks.append(Prose(f"This run did not finish; its state is “{state}”{why}.", "warning"))
    stopped = number(run.manifest, "pruned")
    if stopped is not None:
        blocks.append(
            Prose(f"Stopped after epoch {stopped:.0f}: behind the median of earlier settings of its search.", "note")
        )
    split = judged_split(run)
    if split is None:
        blocks.append(Prose("There are no scores to report: no split has been evaluated.", "lead"))
    else:
        blocks += [Prose(verdict(run, split), "lead"), _cards(run, split)]
    return tuple(blocks)


def verdict(run: Run, split: str) -> str:
    """What one seed says, and what it cannot."""
    metric = primary_of(run)
    found = run.scores()[split]
    value = number(found, metric)
    assert value is not None
    words = [f"On {split} this model reaches {_article(metric)} of {figure(value, 3)}."]
    baseline = best_baseline(run, split, metric)
    if baseline is not None:
        name, other = baseline
        better = (value > other) == higher_is_better(metric) and value != other
        words.append(
            f"The best baseline, {baseline_title(name)}, reaches {figure(other, 3)}"
            + (", which the model beats in this run." if better else ": the model does not beat it.")
        )
    wobble = sampling_error(found) if metric == "accuracy" else None
    if wobble is not None:
        words.append(
            f"With {several(int(found['n']), 'example')} chance alone moves this by about ±{figure(wobble, 3)}."
        )
    words.append("It is one seed: how much another would differ is not known.")
    if split != "test":
        words.append(f"The same {split} examples chose the checkpoint, so the score is somewhat flattering.")
    return " ".join(words)


def sampling_error(scores: dict[str, Any]) -> float | None:
    """Half the width of Wilson's 95 % interval of the accuracy: what another test set of this size might change."""
    n, p = number(scores, "n"), number(scores, "accuracy")
    if not n or n < 0 or p is None or not 0 <= p <= 1:
        return None
    z = 1.96
    return z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))


def _article(metric: str) -> str:
    title = told_metric(metric)
    return f"{'an' if title[0].lower() in 'aeiou' or title.startswith(('F1', 'MSE', 'MAE')) else 'a'} {title}"


def _cards(run: Run, split: str) -> Cards:
    metric = primary_of(run)
    spent, parameters = table(run.manifest, "cost"), table(table(run.manifest, "model"), "parameters")
    found = run.scores()[split]
    items = [(f"{metric_title(metric)} on {split}", figure(number(found, metric)), "one seed, no deviation")]
    baseline = best_baseline(run, split, metric)
    if baseline is not None:
        items.append(("best baseline", figure(baseline[1]), baseline_title(baseline[0])))
    if number(spent, "training_seconds") is not None:
        items.append(("training", duration(number(spent, "training_seconds")), plain(run.manifest.get("device"))))
    if number(parameters, "trainable") is not None:
        of = f"of {count(number(parameters, 'total'))}" if number(parameters, "total") is not None else ""
        items.append(("parameters trained", count(number(parameters, "trainable")), of))
    return Cards(tuple(items))


def scores(run: Run) -> Section | None:
    """A table for each split: this model, and what it has to beat."""
    blocks: list[Block] = []
    for split, found in run.scores().items():
        metrics = known_metrics(found)
        primary = primary_of(run)
        if primary in found and primary not in metrics:
            metrics.insert(0, primary)
        columns = [Column(""), *(Column(metric_title(m), numeric=True) for m in metrics), Column("time", numeric=True)]
        spent = number(table(run.manifest, "cost"), "training_seconds")
        rows = [Row(("this model", *(figure(number(found, m)) for m in metrics), duration(spent)), "best")]
        for name, b in run.baselines().items():
            theirs = table(b, split)
            if theirs:
                cells = (baseline_title(name), *(figure(number(theirs, m)) for m in metrics))
                rows.append(Row((*cells, duration(number(b, "seconds"))), "baseline"))
        blocks.append(
            Table(f"{split}: {several(int(number(found, 'n') or 0), 'example')}", tuple(columns), tuple(rows))
        )
        why = "; ".join(f"{metric_title(m)}: {reason}" for m, reason in table(found, "undefined").items())
        if why:
            blocks.append(Prose(f"Undefined here: {why}.", "note"))
    chosen = table(run.metrics, "best")
    if chosen:
        at = [f"{k} {plain(chosen[k])}" for k in ("step", "epoch") if k in chosen]
        value = figure(number(chosen, "score"))
        blocks.append(Prose(f"Kept is the checkpoint of {', '.join(at)}, which scored {value} on dev.", "note"))
    return make_section("scores", "Scores", blocks)


def curves(run: Run) -> Section | None:
    losses = [
        {"step": step, "loss": loss}
        for line in run.log
        if (step := number(line, "step")) is not None and (loss := number(line, "loss")) is not None
    ]
    metric = primary_of(run)
    points = dev_points(run, metric)
    blocks: list[Block] = []
    if losses:
        blocks.append(Figure("loss", "Training loss, step by step.", charts.loss_curve(losses)))
    if points:
        best = number(table(run.metrics, "best"), "step")
        baseline = best_baseline(run, "dev", metric)
        named = (baseline_title(baseline[0]), baseline[1]) if baseline else None
        kept = " The dotted line marks the checkpoint that was kept." if best is not None else ""
        caption = f"{metric_title(metric)} on dev during training.{kept}"
        caption = caption[0].upper() + caption[1:]
        blocks.append(Figure("dev", caption, charts.score_curve(points, metric_title(metric), best, named)))
    return make_section("learning", "Learning", blocks)


def dev_points(run: Run, metric: str) -> list[dict[str, Any]]:
    """Step, epoch and score of each evaluation during training."""
    return [
        {"step": step, "epoch": number(line, "epoch"), "score": value}
        for line in run.log
        if (step := number(line, "step")) is not None and (value := number(table(line, "dev"), metric)) is not None
    ]


def classes(run: Run) -> Section | None:
    split = judged_split(run)
    found = run.scores().get(split or "", {})
    labels = labels_of(table(run.manifest, "data"), found)
    per_class = table(found, "per_class")
    blocks: list[Block | None] = []
    if per_class:
        rows = [{"label": label, **table(per_class, label)} for label in labels]
        blocks.append(Figure("classes", f"F1 of each class on {split}.", charts.class_bars(rows, labels)))
        columns = (Column("class"), *(Column(t, numeric=True) for t in ("precision", "recall", "F1", "examples")))
        lines = tuple(
            Row(
                (
                    label,
                    *(figure(number(table(per_class, label), m)) for m in ("precision", "recall", "f1")),
                    count(number(table(per_class, label), "support")),
                )
            )
            for label in labels
        )
        each = Table(f"Each class on {split}", columns, lines)
        blocks.append(each if len(lines) <= MOST_TABLE_CLASSES else Fold("Each class in figures", (each,)))
    matrix = confusion_of(found, labels)
    if matrix is not None:
        caption = f"Confusions on {split}: rows are the gold classes, the shade is the share of the row."
        blocks.append(Figure("confusion", caption, charts.confusion(confusion_rows(labels, matrix), labels)))
        blocks.append(confusion_table("Confusions as a table", labels, matrix))
    return make_section("classes", "Classes and confusions", blocks)


def calibration(run: Run) -> Section | None:
    split = judged_split(run)
    found = run.scores().get(split or "", {})
    caption = (
        f"Confidence against the share that is right, on {split}. On the dashed line confidence means what it says; "
        "below it the model is too sure of itself. Larger dots hold more examples."
    )
    chart = reliability_figure(reliability_rows(found.get("bins")), caption)
    blocks: list[Block | None] = [chart]
    if number(found, "ece") is not None:
        words = f"The expected calibration error on {split} is {figure(number(found, 'ece'))}."
        temperature = number(run.metrics, "temperature")
        if temperature is not None:
            words += f" A temperature of {figure(temperature, 3)} was fitted on dev."
        blocks.insert(0, Prose(words))
    blocks.append(before_after(run))
    return make_section("calibration", "Calibration", blocks)


def before_after(run: Run) -> Table | None:
    """What the temperature changed, where metrics.json says so under "calibration"."""
    rows = []
    for split, one in table(run.metrics, "calibration").items():
        for when in ("before", "after"):
            found = table(one, when) if isinstance(one, dict) else {}
            if found:
                rows.append(Row((f"{split}, {when}", figure(number(found, "ece")), figure(number(found, "log_loss")))))
    columns = (Column(""), Column("calibration error", numeric=True), Column("log-loss", numeric=True))
    return Table("Before and after the temperature", columns, tuple(rows)) if rows else None


def errors(run: Run) -> Section | None:
    listed = records(run.metrics, "errors")
    split = judged_split(run)
    kept = [e for e in listed if e.get("split") == split] or listed
    shown = [{**e, "probability": figure(number(e, "probability"), 3)} for e in kept[:MOST_ERRORS]]
    sure = [("probability", "probability")] if any(number(e, "probability") is not None for e in kept) else []
    where = plain(kept[0].get("split")) if kept else ""
    more = f", the first {len(shown)} of {len(kept)} listed" if len(kept) > len(shown) else ""
    return make_section("errors", "Errors", [error_table(f"Errors on {where}{more}", shown, sure)])


def cost(run: Run) -> Section | None:
    spent, model = table(run.manifest, "cost"), table(run.manifest, "model")
    parameters = table(model, "parameters")
    about = facts(
        [
            ("model", plain(model.get("source"))),
            ("family", plain(model.get("family"))),
            ("parameters", count(number(parameters, "total"))),
            ("trained", count(number(parameters, "trainable"))),
            ("licence", plain(model.get("licence"))),
            ("pretrained on", plain(model.get("trained_on"))),
        ]
    )
    bill = facts(
        [
            ("training time", duration(number(spent, "training_seconds"))),
            ("time in all", duration(number(spent, "total_seconds"))),
            ("peak memory", size(number(spent, "peak_memory_bytes"))),
            ("GPU memory", size(number(spent, "gpu_memory_bytes"))),
            ("arithmetic", operations(number(spent, "flops"))),
            ("tokens seen", count(number(spent, "tokens"))),
            ("padding", share(number(spent, "padding_share"))),
            ("texts cut short", share(number(spent, "truncated_share"))),
        ]
    )
    cut = number(spent, "truncated_share")
    warning = None
    if cut is not None and cut > 0.05:
        warning = Prose(f"{share(cut)} of the texts were longer than the model was allowed to read.", "warning")
    return make_section("cost", "Model and cost", [about, bill, warning])


def repeat(run: Run) -> Section | None:
    recipe = Facts(tuple(flat(table(run.manifest, "recipe"))))
    blocks = repeat_blocks(run.manifest.get("command"), run.manifest, table(run.manifest, "data"), run.seed)
    if recipe.pairs:
        blocks.append(Fold("The recipe, every key", (recipe,)))
    return make_section("repeat", "To repeat this", blocks)
