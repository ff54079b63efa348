"""A study on disk: study.json, a directory for each run, its tables, its statistics, and the best model."""

import hashlib
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
from heedful.recipes.schema import Recipe
from heedful.studies.board import board
from heedful.studies.estimate import expected_seconds
from heedful.studies.evidence import weigh, write_examples
from heedful.studies.executors import Executor, Result, Task, in_turn
from heedful.studies.parts import Course, Job, StudyPlan, choose
from heedful.studies.table import courses, facts_of, table, write_tables
from heedful.training.outcome import baselines_of, without_predictions
from heedful.training.progress import roughly
from heedful.training.setting import load_data
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
        dataset = load_data(plan.settings[0].recipe.data)
        if study.get("data", {}).get("fingerprints", dataset.fingerprints) != dataset.fingerprints:
            raise RequestError(f"{directory}: the data have changed since this study began; choose another --out.")
        known = Baselines(directory / ".shared", dataset.fingerprints)
        study["baselines"] = study.get("baselines") or known.of(plan.settings[-1].recipe)  # of a curve, all rows
        write_examples(directory / "examples", dataset)
        rows, seen, earlier = list[dict[str, Any]](), list[Course](), {run["name"]: run for run in study["runs"]}
        study["runs"], phase = [], plan
        while True:
            jobs = list(phase.jobs(directory))
            study["runs"] += [earlier[job.name] for job in jobs if job.name in earlier]
            waiting = [job for job in jobs if facts_of(job.directory) is None]
            tasks = [_task(job, command, known, directory, threads, phase.bars(job, seen)) for job in waiting]
            done = {job.name for job in jobs if job not in waiting}
            seconds = None if quiet or not waiting else _announce(phase, waiting, dataset, threads, at_once)
            with board([job.name for job in jobs], done, quiet, seconds) as watch:
                finished = (Result(name, "done") for name in done)
                for result in itertools.chain(finished, executor(tasks, watch)):
                    if result.name not in done:
                        watch(result.name, {"ended": result.state})
                    _record(directory, study, jobs, result)
            rows += table(directory, phase)
            seen += courses(directory, phase) if phase.rounds else []
            following = phase.after(rows, seen)
            if following is None:
                break
            phase = _told(following, study)
        write_tables(directory, rows)
        study["table"] = rows
        _write(directory, study)
        _keep_best(directory, phase, rows)
        weigh(directory, study, rows, known.predictions(plan.settings[-1].recipe))
        if all(run["state"] == "done" for run in study["runs"]):
            shutil.rmtree(directory / ".shared", ignore_errors=True)
        return study


def _announce(
    phase: StudyPlan, waiting: list[Job], dataset: Dataset, threads: int | None, at_once: int | None
) -> float | None:
    """Says how long these runs will take, and returns it in seconds; None if it cannot be told."""
    try:
        seconds = expected_seconds([job.setting.recipe for job in waiting], dataset, threads) / (at_once or 1)
    except (RequestError, WorkError, OSError):
        return None  # the run itself says what is wrong
    count = len(waiting)
    what = f"{count} run{'s' if count > 1 else ''}" + (" of the next round" if phase.earlier else "")
    if at_once is None:
        print(f"{what}: about {roughly(seconds)} of computing in all", file=sys.stderr)
        return None
    how = f", {min(at_once, count)} at a time" if min(at_once, count) > 1 else ""
    print(f"{what}{how}: about {roughly(seconds)}", file=sys.stderr, flush=True)
    return seconds


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
        raise WorkError(f"{len(failed)} of {len(study['runs'])} runs failed; the first: {failed[0]['reason']}")


def _record(directory: Path, study: dict[str, Any], jobs: list[Job], result: Result) -> None:
    """A run has ended: that goes into study.json at once."""
    job = next(j for j in jobs if j.name == result.name)
    known = {run["name"]: run for run in study["runs"]}
    known[job.name] = {
        "name": job.name, "setting": job.setting.name, "seed": job.seed, "state": result.state, "reason": result.reason,
    }  # fmt: skip
    order = [j.name for j in jobs]
    others = [name for name in known if name not in order]
    study["runs"] = [known[name] for name in [*others, *order] if name in known]
    manifest = job.directory / "manifest.json"
    if "data" not in study and manifest.exists():
        study["data"] = json.loads(manifest.read_text(encoding="utf-8"))["data"]
    _write(directory, study)


def _task(
    job: Job, command: str, known: "Baselines", directory: Path, threads: int | None, bars: dict[int, float]
) -> Task:
    recipe = job.setting.recipe
    return Task(
        name=job.name,
        recipe=recipe.model_dump(exclude={"seeds", "study"}),
        seed=job.seed,
        directory=str(job.directory),
        shelf=str(directory / ".shared"),
        command=command,
        baselines=known.of(recipe),
        threads=threads,
        bars=bars,
    )


class Baselines:
    """Those of each data set that a study has, made once and kept until its end."""

    def __init__(self, folder: Path, fingerprints: dict[str, str]) -> None:
        self.folder, self.fingerprints = folder, fingerprints

    def of(self, recipe: Recipe) -> dict[str, Any] | None:
        """Their scores."""
        return without_predictions(self._whole(recipe)) if recipe.evaluation.baselines else None

    def predictions(self, recipe: Recipe) -> dict[str, Any] | None:
        """What TF-IDF says of each example, by split; None where numbers are predicted, or nobody wants to know."""
        return self._whole(recipe)["tfidf"].get("predicted") if recipe.evaluation.baselines else None

    def _whole(self, recipe: Recipe) -> dict[str, Any]:
        facts = json.dumps([self.fingerprints, recipe.data.model_dump(mode="json")])
        key = hashlib.sha256(facts.encode()).hexdigest()[:16]
        path = self.folder / f"baselines-{key}.json"
        if not path.exists():
            found = baselines_of(load_data(recipe.data))
            self.folder.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f".{path.name}")
            part.write_text(json.dumps(found), encoding="utf-8")
            part.rename(path)
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return content


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
    if same != described["settings"] or (grown and study.get("seeds") != described["seeds"]):
        raise RequestError(f"{directory}: holds another study; choose another directory with --out.")
    return study


def _keep_best(directory: Path, plan: StudyPlan, rows: list[dict[str, Any]]) -> None:
    """The model of the setting that is best on dev over its seeds, and of its seeds the best on dev."""
    names = {s.name for s in plan.settings}
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
