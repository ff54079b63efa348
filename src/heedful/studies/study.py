"""A study on disk: study.json, a directory for each run, table.csv, and the best model."""

import csv
import io
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from heedful.errors import RequestError, WorkError
from heedful.evaluation.spread import summarise
from heedful.studies.plan import Job, StudyPlan
from heedful.training.outcome import baselines_of
from heedful.training.run import execute
from heedful.training.setting import load_data

FORMAT = 1
Result = tuple[Job, str, str | None]
"""A job, its state ("done" or "failed"), and why it failed."""
Executor = Callable[[Iterable[Job], Callable[[Job], None]], Iterator[Result]]
"""How jobs are carried out: given the jobs and what does one, yields each as it ends."""


def in_turn(jobs: Iterable[Job], do: Callable[[Job], None]) -> Iterator[Result]:
    """One after another in this process; a job that fails does not stop the others."""
    for job in jobs:
        try:
            do(job)
        except WorkError as error:
            yield job, "failed", str(error)
        else:
            yield job, "done", None


def run_study(
    plan: StudyPlan, directory: Path, *, command: str = "", quiet: bool = False, executor: Executor = in_turn
) -> dict[str, Any]:
    """Run what is not done yet; the same plan again in the same directory goes on. Returns what study.json holds."""
    described = _describe(plan)
    study = _open(directory, described)
    dataset = load_data(plan.settings[0].recipe.data)
    with_baselines = plan.settings[0].recipe.evaluation.baselines
    baselines = study.get("baselines") or (baselines_of(dataset) if with_baselines else None)
    study = {"format": FORMAT, "command": command, **described, "baselines": baselines, "runs": study.get("runs", [])}
    jobs = list(plan.jobs(directory))
    states = {run["name"]: run for run in study["runs"]}

    def do(job: Job) -> None:
        execute(
            job.setting.recipe, job.seed, job.directory, command=command, quiet=quiet, dataset=dataset,
            baselines=baselines,
        )  # fmt: skip

    _write(directory, study)
    for job, state, reason in executor(jobs, do):
        states[job.name] = {
            "name": job.name, "setting": job.setting.name, "seed": job.seed, "state": state, "reason": reason,
        }  # fmt: skip
        study["runs"] = [states[j.name] for j in jobs if j.name in states]
        manifest = directory / "runs" / job.name / "manifest.json"
        if "data" not in study and manifest.exists():
            study["data"] = json.loads(manifest.read_text(encoding="utf-8"))["data"]
        _write(directory, study)
    rows = table(directory, plan)
    _write_table(directory / "table.csv", rows)
    _keep_best(directory, plan, rows)
    return study


def _describe(plan: StudyPlan) -> dict[str, Any]:
    return {
        "settings": [
            {
                "name": s.name, "model": s.model, "method": s.method,
                "recipe": s.recipe.model_dump(mode="json", exclude={"seeds"}),
            }
            for s in plan.settings
        ],
        "seeds": list(plan.seeds),
    }  # fmt: skip


def _open(directory: Path, described: dict[str, Any]) -> dict[str, Any]:
    path = directory / "study.json"
    if not path.exists():
        if directory.exists() and any(not p.name.startswith(".") for p in directory.iterdir()):
            raise RequestError(
                f"{directory}: holds something that is not a study; choose another directory with --out."
            )
        directory.mkdir(parents=True, exist_ok=True)
        return {}
    try:
        study: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise RequestError(f"{path}: damaged; choose another directory with --out.") from None
    if study.get("format") != FORMAT or study.get("settings") != described["settings"]:
        raise RequestError(f"{directory}: holds another study; choose another directory with --out.")
    return study


def table(directory: Path, plan: StudyPlan) -> list[dict[str, Any]]:
    """One row for each setting: the primary metric on dev and test over the seeds, and what it cost."""
    rows = []
    for setting in plan.settings:
        found = [_facts(directory / "runs" / f"{setting.name}-seed{seed}") for seed in plan.seeds]
        done = [f for f in found if f is not None]
        row: dict[str, Any] = {
            "setting": setting.name,
            "model": setting.model,
            "method": setting.method,
            "n": len(done),
        }
        if done:
            metric = done[0][1]["primary"]
            row["metric"] = metric
            for split in ("dev", "test"):
                values = [m["splits"][split][metric] for _, m in done if split in m["splits"]]
                if values and None not in values:
                    spread = summarise(values)
                    row |= {f"{split}_mean": spread["mean"], f"{split}_std": spread["std"]}
                    row |= {f"{split}_low": spread["low"], f"{split}_high": spread["high"]}
            row["training_seconds"] = sum(m["cost"]["training_seconds"] for m, _ in done) / len(done)
            row["trainable_parameters"] = done[0][0]["model"]["parameters"]["trainable"]
        rows.append(row)
    return rows


def _facts(run: Path) -> tuple[dict[str, Any], dict[str, Any]] | None:
    if not (run / "metrics.json").exists():
        return None
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    return (
        (manifest, json.loads((run / "metrics.json").read_text(encoding="utf-8")))
        if manifest["state"] == "done"
        else None
    )


def _keep_best(directory: Path, plan: StudyPlan, rows: list[dict[str, Any]]) -> None:
    """The model of the setting that is best on dev over its seeds, and of its seeds the best on dev."""
    scored = [r for r in rows if r.get("dev_mean") is not None]
    if not scored:
        return
    sign = -1 if scored[0]["metric"] == "log_loss" else 1
    best = max(scored, key=lambda r: sign * r["dev_mean"])
    runs = [directory / "runs" / f"{best['setting']}-seed{seed}" for seed in plan.seeds]
    found = [(run, facts) for run in runs if (facts := _facts(run)) is not None]
    chosen = max(found, key=lambda f: sign * f[1][1]["splits"]["dev"][best["metric"]])[0]
    part = directory / ".best"
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(chosen / "model", part)
    shutil.rmtree(directory / "best", ignore_errors=True)
    part.rename(directory / "best")


def _write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(text.getvalue(), encoding="utf-8")


def _write(directory: Path, study: dict[str, Any]) -> None:
    part = directory / ".study.json"
    part.write_text(json.dumps(study, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(directory / "study.json")
