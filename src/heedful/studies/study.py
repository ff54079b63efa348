"""A study on disk: study.json, a directory for each run, its tables, its statistics, and the best model."""

import itertools
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from heedful.checkpoints.atomic import make_directory, replace_directory
from heedful.checkpoints.directory import MODEL_FILES
from heedful.data.examples import Dataset
from heedful.errors import RequestError, WorkError
from heedful.recipes.reading import make_recipe
from heedful.studies.board import board
from heedful.studies.estimate import expected_seconds
from heedful.studies.evidence import weigh, write_examples
from heedful.studies.executors import Executor, Result, Task, in_turn
from heedful.studies.ground import Baselines, whole_data
from heedful.studies.parts import Course, Job, StudyPlan, choose
from heedful.studies.table import courses, facts_of, table, write_tables
from heedful.training.progress import roughly
from heedful.training.shelf import alone

FORMAT = 1


def run_study(
    plan: StudyPlan, directory: Path, *, command: str = "", quiet: bool = False, executor: Executor = in_turn,
    threads: int | None = None, at_once: int | None = 1,
) -> dict[str, Any]:  # fmt: skip
    """Run what is not done yet; the same plan again in the same directory goes on. Returns what study.json holds.

    A search is run first, without its test; then the setting that is best on dev, with seeds that took no part in
    choosing it. `threads` is for runs whose recipe does not say how many; `at_once`, how many runs the executor makes
    at a time, for the estimate of the time that is told before it starts.
    """
    described = _describe(plan)
    _open(directory, described)  # what is not ours is refused before anything is written there
    with alone(directory):
        study = {"format": FORMAT, "command": command, **described, "runs": []} | _open(directory, described)
        study |= {"seeds": described["seeds"]}
        _write(directory, study)
        dataset = whole_data(plan)
        if study.get("data", {}).get("fingerprints", dataset.fingerprints) != dataset.fingerprints:
            raise RequestError(f"{directory}: the data have changed since this study began; choose another --out.")
        known = Baselines(directory / "baselines", dataset.fingerprints)
        largest = plan.settings[-1].recipe  # of a learning curve, the one with the most rows
        study["baselines"] = study.get("baselines") or known.of(largest, plan.seeds[0])
        write_examples(directory / "examples", dataset)
        rows, seen, every, phase = list[dict[str, Any]](), list[Course](), list[str](), plan
        while True:
            jobs = list(phase.jobs(directory))
            every += [job.name for job in jobs]
            waiting = [job for job in jobs if not _done(job)]
            tasks = [_task(job, study, known, directory, threads, phase.bars(job, seen)) for job in waiting]
            _write(directory, study)  # what the runs of this phase are is known before the first one begins
            done = {job.name for job in jobs if job not in waiting}
            seconds = None if quiet or not waiting else _announce(phase, waiting, dataset, threads, at_once)
            with board([job.name for job in jobs], done, quiet, seconds) as watch:
                finished = (Result(name, "done") for name in done)
                for result in itertools.chain(finished, executor(tasks, watch)):
                    if result.name not in done:
                        watch(result.name, {"ended": result.state})
                    _record(directory, study, jobs, result, every)
            rows += table(directory, phase)
            seen += courses(directory, phase) if phase.rounds else []
            following = phase.after(rows, seen)
            if following is None:
                break
            phase = _told(following, study)
        study["runs"] = [run for run in study["runs"] if run["name"] in every]
        study["table"] = rows
        write_tables(directory, rows)
        _write(directory, study)
        _keep_best(directory, phase, rows)
        weigh(directory, study, rows, known.predictions(largest, plan.seeds[0]))
        if all(run["state"] == "done" for run in study["runs"]):
            shutil.rmtree(directory / ".shared", ignore_errors=True)
        return study


def _done(job: Job) -> bool:
    """Whether this very run has been made: one of another recipe in its place is refused by whoever runs it."""
    facts = facts_of(job.directory)
    wanted = job.setting.recipe.model_dump(mode="json", exclude={"seeds", "study"})
    return facts is not None and facts[0]["recipe"] == wanted and facts[0]["seed"] == job.seed


def _announce(
    phase: StudyPlan, waiting: list[Job], dataset: Dataset, threads: int | None, at_once: int | None
) -> float | None:
    """Says how long these runs will take, and returns it in seconds; None if it cannot be told."""
    try:
        seconds = expected_seconds([(job.setting.recipe, job.seed) for job in waiting], dataset, threads)
    except (RequestError, WorkError, OSError, RuntimeError, MemoryError):
        return None  # if something is wrong, the run itself says what
    count = len(waiting)
    what = f"{count} run{'s' if count > 1 else ''}" + (" of the next round" if phase.earlier else "")
    if at_once is None:
        print(f"{what}: about {roughly(seconds)} of computing in all", file=sys.stderr)
        return None
    together = min(at_once, count)
    how = f", {together} at a time" if together > 1 else ""
    print(f"{what}{how}: about {roughly(seconds / together)}", file=sys.stderr, flush=True)
    return seconds / together


def _told(phase: StudyPlan, study: dict[str, Any]) -> StudyPlan:
    """The next phase, and its settings in study.json. A round that had begun before stays as it was, even if a run that
    failed then has been made since and would have led elsewhere."""
    if phase.rounds is None:
        study["chosen"] = _describe(phase)["settings"]
        return phase
    known = {s["name"]: s for s in study["settings"]}
    settings = []
    for setting in phase.settings:
        old = known.get(setting.name)
        if old is not None:
            recipe = make_recipe(old["recipe"])
            setting = replace(setting, recipe=recipe, values=tuple(old["values"].items()))
        settings.append(setting)
    phase = replace(phase, settings=tuple(settings))
    study["settings"] += [s for s in _describe(phase)["settings"] if s["name"] not in known]
    return phase


def raise_failures(study: dict[str, Any]) -> None:
    """Says that runs have failed, if any have, with the first one's reason."""
    failed = [run for run in study["runs"] if run["state"] == "failed"]
    if failed:
        first = failed[0]
        raise WorkError(f"{len(failed)} of {len(study['runs'])} runs failed; {first['name']}: {first['reason']}")


def _record(directory: Path, study: dict[str, Any], jobs: list[Job], result: Result, order: list[str]) -> None:
    """A run has ended: that goes into study.json at once."""
    job = next(j for j in jobs if j.name == result.name)
    known = {run["name"]: run for run in study["runs"]}
    known[job.name] = {
        "name": job.name, "setting": job.setting.name, "seed": job.seed, "state": result.state, "reason": result.reason,
    }  # fmt: skip
    later = [name for name in known if name not in order]
    study["runs"] = [known[name] for name in [*order, *later] if name in known]
    manifest = job.directory / "manifest.json"
    if manifest.exists():
        data = json.loads(manifest.read_text(encoding="utf-8"))["data"]
        if data["sizes"]["train"] > study.get("data", data)["sizes"]["train"] or "data" not in study:
            study["data"] = data  # of a learning curve, that of the most rows
    _write(directory, study)


def _task(
    job: Job, study: dict[str, Any], known: Baselines, directory: Path, threads: int | None, bars: dict[int, float]
) -> Task:
    """What a run has to reach is written down, so that it stays the same whatever is made again before it."""
    if bars:
        held = study.setdefault("bars", {}).setdefault(job.name, {str(epoch): bar for epoch, bar in bars.items()})
        bars = {int(epoch): bar for epoch, bar in held.items()}
    recipe = job.setting.recipe
    return Task(
        name=job.name,
        recipe=recipe.model_dump(exclude={"seeds", "study"}),
        seed=job.seed,
        directory=str(job.directory),
        shelf=str(directory / ".shared"),
        command=study["command"],
        baselines=known.of(recipe, job.seed),
        threads=threads,
        bars=bars,
    )


def _describe(plan: StudyPlan) -> dict[str, Any]:
    return {
        "settings": [
            {
                "name": s.name, "group": s.group, "model": s.model, "method": s.method,
                "values": dict(s.values), "recipe": s.recipe.model_dump(mode="json", exclude={"seeds", "study"}),
            }
            for s in plan.settings
        ],
        "seeds": list(plan.seeds),
        **({"search": dict(plan.search)} if plan.search else {}),
    }  # fmt: skip


def _open(directory: Path, described: dict[str, Any]) -> dict[str, Any]:
    path = directory / "study.json"
    if directory.exists() and not directory.is_dir():
        raise RequestError(f"{directory}: is a file; choose another directory with --out.")
    if not path.exists():
        if directory.exists() and any(not p.name.startswith(".") for p in directory.iterdir()):
            raise RequestError(
                f"{directory}: holds something that is not a study; choose another directory with --out."
            )
        make_directory(directory)
        return {}
    try:
        study: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(study, dict):
            raise ValueError
    except (ValueError, OSError):
        raise RequestError(f"{path}: damaged; choose another directory with --out.") from None
    if not any(directory.glob("runs/*/manifest.json")):
        return {}  # nothing was begun: the request may have been wrong, and be right now
    same = study.get("format") == FORMAT and study.get("settings", [])[: len(described["settings"])]
    grown = len(study.get("settings", [])) > len(described["settings"])  # a search in rounds, which hang on the seeds
    other = study.get("search") != described.get("search") or (grown and study.get("seeds") != described["seeds"])
    if same != described["settings"] or other:
        raise RequestError(f"{directory}: holds another study; choose another directory with --out.")
    return study


def _keep_best(directory: Path, plan: StudyPlan, rows: list[dict[str, Any]]) -> None:
    """The model of the setting that is best on dev over its seeds, and of its seeds the best on dev."""
    names = {s.name for s in (*plan.earlier, *plan.settings)}
    best = choose([row for row in rows if row["setting"] in names])
    if best is None:
        return
    sign = -1 if best["metric"] == "log_loss" else 1
    runs = [directory / "runs" / f"{best['setting']}-seed{seed}" for seed in plan.seeds]
    found = [(run, facts) for run in runs if (facts := facts_of(run)) is not None]
    chosen = max(found, key=lambda f: float(sign * f[1][1]["splits"]["dev"][best["metric"]]))[0]

    def copy(into: Path) -> None:
        shutil.copytree(chosen / "model", into, dirs_exist_ok=True)

    replace_directory(directory / "best", copy, MODEL_FILES)


def _write(directory: Path, study: dict[str, Any]) -> None:
    part = directory / ".study.json"
    part.write_text(json.dumps(study, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(directory / "study.json")
