"""The table of a study: a row for each setting, for programs (CSV), for people (Markdown) and for papers (LaTeX)."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heedful.evaluation.spread import summarise
from heedful.studies.parts import Course, StudyPlan, choose

Row = dict[str, Any]


def table(directory: Path, plan: StudyPlan) -> list[Row]:
    """One row for each setting: what a search varies, the primary metric on dev and test over the seeds, the cost."""
    rows = []
    for setting in plan.settings:
        found = [facts_of(directory / "runs" / f"{setting.name}-seed{seed}") for seed in plan.seeds]
        done = [f for f in found if f is not None]
        row: Row = {"setting": setting.name, "model": setting.model, "method": setting.method, **dict(setting.values)}
        row["n"] = len(done)
        if any("pruned" in manifest for manifest, _ in done):
            row["pruned"] = max(manifest.get("pruned", 0) for manifest, _ in done)
        if done:
            metric = done[0][1]["primary"]
            row["metric"] = metric
            for split in ("dev", "test"):
                values = [m["splits"][split][metric] for _, m in done if split in m["splits"]]
                if values and None not in values:
                    spread = summarise(values)
                    row |= {f"{split}_mean": spread["mean"], f"{split}_std": spread["std"]}
                    row |= {f"{split}_low": spread["low"], f"{split}_high": spread["high"]}
            row["train_rows"] = done[0][0]["data"]["sizes"]["train"]
            row["training_seconds"] = sum(m["cost"]["training_seconds"] for m, _ in done) / len(done)
            row["trainable_parameters"] = done[0][0]["model"]["parameters"]["trainable"]
        rows.append(row)
    return rows


def courses(directory: Path, plan: StudyPlan) -> list[Course]:
    """How the finished runs of a plan went, epoch by epoch."""
    found = []
    for job in plan.jobs(directory):
        known = facts_of(job.directory)
        if known is None:
            continue
        manifest, metrics = known
        metric = metrics["primary"]
        sign = -1 if metric == "log_loss" else 1
        lines = map(json.loads, (job.directory / "log.jsonl").read_text(encoding="utf-8").splitlines())
        told = {x["epoch"]: x["dev"].get(metric) for x in lines if "dev" in x}
        scores = {epoch: sign * score for epoch, score in told.items() if score is not None and math.isfinite(score)}
        found.append(Course(job.setting.name, job.seed, scores, "pruned" in manifest))
    return found


def facts_of(run: Path) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Manifest and metrics of a run that is done; None otherwise."""
    try:
        manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
        metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
        return (manifest, metrics) if manifest["state"] == "done" else None
    except (OSError, ValueError, KeyError, TypeError):
        return None  # whoever runs it says what is wrong


def write_tables(directory: Path, rows: Sequence[Row]) -> None:
    """table.csv with every figure; table.md and table.tex as people print them, the best on dev marked."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    for ending, content in (("csv", text.getvalue()), ("md", markdown(rows)), ("tex", latex(rows))):
        part = directory / f".table.{ending}"
        part.write_text(content, encoding="utf-8")
        part.replace(directory / f"table.{ending}")


def printed(rows: Sequence[Row]) -> tuple[list[str], list[list[str]], set[int]]:
    """Headings, cells and the numbers of the rows to mark: as people print a search in a paper."""
    swept = list(dict.fromkeys(key for row in rows for key in row if "." in key))
    scored = [r for r in rows if "metric" in r]
    metric = scored[0]["metric"] if scored else "score"
    splits = [s for s in ("dev", "test") if any(f"{s}_mean" in r for r in rows)]
    headings = ["setting", *(key.partition(".")[2].replace("_", " ") for key in swept)]
    headings += [f"{split} {metric}".replace("_", " ") for split in splits] + ["n"]
    cells = []
    for row in rows:
        line = [row["setting"], *(_value(row.get(key, "")) for key in swept)]
        line += [_score(row, split) for split in splits] + [str(row["n"])]
        if row.get("pruned"):
            line[len(swept) + 1] += f" (stopped after {row['pruned']})"
        cells.append(line)
    return headings, cells, _marked(rows, bool(swept))


def _marked(rows: Sequence[Row], search: bool) -> set[int]:
    """What a search has chosen; before that, the best on dev, in a search of each model and method."""
    chosen = {i for i, row in enumerate(rows) if str(row["setting"]).endswith("-chosen")}
    groups: dict[Any, list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault((row.get("model"), row.get("method")) if search else None, []).append(i)
    best = [choose([rows[i] for i in group]) for group in groups.values()]
    return chosen or {i for i, row in enumerate(rows) if any(row is b for b in best)}


def markdown(rows: Sequence[Row]) -> str:
    headings, cells, best = printed(rows)
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    for i, line in enumerate(cells):
        safe = [cell.replace("|", "\\|") for cell in line]
        lines.append("| " + " | ".join(f"**{c}**" if i in best and c else c for c in safe) + " |")
    return "\n".join(lines) + "\n"


def latex(rows: Sequence[Row]) -> str:
    """A tabular of booktabs."""
    headings, cells, best = printed(rows)
    lines = [f"\\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}", "\\toprule"]
    lines += [" & ".join(map(_tex, headings)) + " \\\\", "\\midrule"]
    for i, line in enumerate(cells):
        lines.append(" & ".join(f"\\textbf{{{_tex(c)}}}" if i in best and c else _tex(c) for c in line) + " \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


def _tex(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "±": r"$\pm$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {c: f"\\{c}" for c in "&%$#_{}"}
    return "".join(special.get(c, c) for c in text)


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _score(row: Mapping[str, Any], split: str) -> str:
    mean, std = row.get(f"{split}_mean"), row.get(f"{split}_std")
    if mean is None:
        return "–"
    return f"{mean:.3f}" if std is None else f"{mean:.3f} ± {std:.3f}"
