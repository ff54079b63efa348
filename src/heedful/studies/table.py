"""The table of a study: a row for each setting, for programs (CSV), for people (Markdown) and for papers (LaTeX)."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heedful.evaluation.metrics import metric_named, stated_metrics
from heedful.evaluation.spread import summarise
from heedful.storage.runs import Run, finished_run, judging_order
from heedful.storage.whole import write_text
from heedful.studies.parts import DevCurve, StudyPlan

Row = dict[str, Any]


def table_rows(directory: Path, plan: StudyPlan) -> list[Row]:
    """One row for each setting: what a search varies, the primary metric on each evaluation set over the seeds, the
    cost. The interval on the set that judges comes from the statistics."""
    rows = []
    for setting in plan.settings:
        names = [f"{setting.name}-seed{seed}" for seed in plan.seeds_of(setting)]
        runs = [run for name in names if (run := finished_run(directory / "runs" / name)) is not None]
        row: Row = {"setting": setting.name, "model": setting.model, "method": setting.method, **dict(setting.values)}
        row |= {"baseline": setting.baseline, "random": setting.random}
        rows.append(row | columns_of_runs(runs))
    return rows


def columns_of_runs(runs: Sequence[Run]) -> Row:
    """Return what a row of the table says of the finished runs of a setting."""
    row: Row = {"n": len(runs)}
    if not runs:
        return row
    if any(run.manifest.pruned is not None for run in runs):
        row["pruned"] = max(run.manifest.pruned or 0 for run in runs)
    metric = metric_named(str(runs[0].metrics.primary), stated_metrics(runs[0].manifest))
    row |= {"metric": metric.name, "higher_is_better": metric.higher_is_better}
    for name in dict.fromkeys(name for run in runs for name in run.metrics.splits):
        values = [run.scores(name).number(metric.name) for run in runs if name in run.metrics.splits]
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            spread = summarise(known)
            row |= {f"{name}_{key}": spread[key] for key in ("mean", "std")}
    first = runs[0].manifest
    row["train_rows"] = first.data.sizes.get("train")
    row["training_seconds"] = sum(run.manifest.cost.training_seconds or 0.0 for run in runs) / len(runs)
    row["trainable_parameters"] = first.model.parameters.trainable
    row |= {"prediction_seconds": first.cost.prediction_seconds, "model_bytes": first.cost.model_bytes}
    row |= {} if first.cost.adapter_bytes is None else {"adapter_bytes": first.cost.adapter_bytes}
    row["model_directory"] = f"runs/{runs[0].directory.name}/model"
    return row


def evaluation_sets(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of the sets that the rows have means of, dev first."""
    names = dict.fromkeys(key.removesuffix("_mean") for row in rows for key in row if key.endswith("_mean"))
    return sorted(names, key=lambda name: name != "dev")


def judged_set(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """The set by which settings are judged: test if any has it, else the first that chose nothing, else dev."""
    return next(iter(judging_order(evaluation_sets(rows))), None)


def dev_curves(directory: Path, plan: StudyPlan) -> list[DevCurve]:
    """How the finished runs of a plan went, mark by mark."""
    curves = []
    for job in plan.jobs(directory):
        run = finished_run(job.directory)
        if run is None:
            continue
        metric = metric_named(str(run.metrics.primary), stated_metrics(run.manifest))
        lines = [line for line in run.log if line.dev is not None]
        scores = {
            int(line.mark or n): metric.sign * score
            for n, line in enumerate(lines, start=1)
            if (score := line.scores.get(metric.name)) is not None
        }
        curves.append(DevCurve(job.setting.name, job.seed, scores, run.manifest.pruned is not None))
    return curves


def write_tables(directory: Path, rows: Sequence[Row], chosen: str | None) -> None:
    """Write table.csv with every figure; table.md and table.tex as people print them, the chosen setting in bold."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    for ending, content in (("csv", text.getvalue()), ("md", markdown(rows, chosen)), ("tex", latex(rows, chosen))):
        write_text(directory / f"table.{ending}", content)


def printed(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return headings and cells, as people print a search in a paper."""
    figures = ("_mean", "_std", "_low", "_high")
    swept = list(dict.fromkeys(key for row in rows for key in row if "." in key and not key.endswith(figures)))
    scored = [r for r in rows if "metric" in r]
    metric = scored[0]["metric"] if scored else "score"
    sets = evaluation_sets(rows)
    headings = ["setting", *(key.partition(".")[2].replace("_", " ") for key in swept)]
    headings += [f"{name} {metric}".replace("_", " ") for name in sets] + ["n"]
    cells = []
    for row in rows:
        line = [row["setting"], *(_value(row.get(key, "")) for key in swept)]
        line += [_score(row, name) for name in sets] + [str(row["n"])]
        if row.get("pruned"):
            line[len(swept) + 1] += f" (stopped at mark {row['pruned']})"
        cells.append(line)
    return headings, cells


def markdown(rows: Sequence[Row], chosen: str | None) -> str:
    headings, cells = printed(rows)
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    for row, line in zip(rows, cells, strict=True):
        bold = row["setting"] == chosen
        safe = [cell.replace("|", "\\|") for cell in line]
        lines.append("| " + " | ".join(f"**{c}**" if bold and c else c for c in safe) + " |")
    return "\n".join(lines) + "\n"


def latex(rows: Sequence[Row], chosen: str | None) -> str:
    """A tabular of booktabs."""
    headings, cells = printed(rows)
    lines = [f"\\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}", "\\toprule"]
    lines += [" & ".join(map(_tex, headings)) + " \\\\", "\\midrule"]
    for row, line in zip(rows, cells, strict=True):
        bold = row["setting"] == chosen
        lines.append(" & ".join(f"\\textbf{{{_tex(c)}}}" if bold and c else _tex(c) for c in line) + " \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


def _tex(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "±": r"$\pm$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {c: f"\\{c}" for c in "&%$#_{}"}
    return "".join(special.get(c, c) for c in text)


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _score(row: Mapping[str, Any], name: str) -> str:
    mean, std = row.get(f"{name}_mean"), row.get(f"{name}_std")
    if mean is None:
        return "–"
    return f"{mean:.3f}" if std is None else f"{mean:.3f} ± {std:.3f}"
