"""A study on disk: study.json, a directory for each run, its tables, its statistics, and the best model."""

import itertools
import shutil
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from heedful.checkpoints.adapters import find_adapter
from heedful.checkpoints.finding import find, fingerprint
from heedful.checkpoints.hub import is_hub_id
from heedful.errors import RequestError, WorkError
from heedful.recipes.reading import make_recipe, same_recipe
from heedful.storage.directories import make_directory
from heedful.storage.locks import alone
from heedful.storage.reading import read_object
from heedful.storage.run_record import FORMAT
from heedful.storage.runs import finished_run, read_run
from heedful.storage.shared import SharedStore
from heedful.storage.statistics_record import Statistics
from heedful.storage.whole import write_json
from heedful.studies.baselines import Baselines, data_key, keep_examples, most_rows, whole_data
from heedful.studies.board import board
from heedful.studies.estimate import expected_seconds
from heedful.studies.executors import Executor, Result, Task, in_turn
from heedful.studies.kinds.protocol import SoFar
from heedful.studies.outcome import conclude
from heedful.studies.parts import Job, SettingPlan, StudyPlan
from heedful.studies.plan import with_baselines
from heedful.training.assembly import Source
from heedful.training.changed import changed_data
from heedful.training.progress import roughly
from heedful.training.run import ENGINE


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
    _open(directory, plan, described)  # what is not ours is refused before anything is written there
    with alone(directory):
        before = _open(directory, plan, described)
        study = {"format": FORMAT, "command": command, **described, "runs": []} | before
        if not before:
            _write(directory, study)
        store = SharedStore(directory / ".shared")
        store.forget("data")  # they are read once in each sitting, in which nobody expects them to change
        sources = whole_data(plan, store)
        of_pairs = {key for key, source in sources.items() if source.data.has_pairs}
        plan = with_baselines(plan, of_pairs)
        known = {s["name"] for s in study["settings"]}
        study["settings"] += [s for s in _describe(plan)["settings"] if s["name"] not in known]
        if not quiet:
            _say_warnings(sources)
        prints = {key: source.data.describe()["fingerprints"] for key, source in sources.items()}
        _refuse_other_data(directory, plan, study.get("fingerprints", {}), prints)
        study |= {"seeds": described["seeds"], "command": command}  # not of a request that was refused
        study["fingerprints"] = study.get("fingerprints", {}) | prints
        first = plan.settings[0].recipe
        baselines = Baselines(directory / "baselines", store)
        largest = most_rows(plan, first).recipe
        study["baselines"] = study.get("baselines") or baselines.scores(largest, plan.seeds[0])
        _refuse_names(plan, study["baselines"] or {})
        _refuse_missing_models(plan)
        keep_examples(directory / "examples", sources[data_key(first)].data)
        sitting = _Sitting(directory, study, store, baselines, executor, quiet, threads, at_once)
        so_far = _run_plans(plan, sitting, of_pairs)
        if not quiet:
            _say_left_out(directory, sitting.order)
            for note in so_far.notes:
                print(note, file=sys.stderr)
        if all(run["state"] == "done" for run in study["runs"]):
            shutil.rmtree(directory / ".shared", ignore_errors=True)
        return study


def _refuse_other_data(
    directory: Path, plan: StudyPlan, before: Mapping[str, Mapping[str, str]], now: Mapping[str, Mapping[str, str]]
) -> None:
    for recipe in (setting.recipe for setting in plan.settings):
        key = data_key(recipe)
        if key in before and (changed := changed_data(before[key], now[key], recipe.data)):
            raise RequestError(
                f"{directory}: the data have changed since this study began: {changed}; choose another --out."
            )


@dataclass(frozen=True)
class _Sitting:
    """What every phase of a study needs to be run."""

    directory: Path
    study: dict[str, Any]
    store: SharedStore
    baselines: Baselines
    executor: Executor
    quiet: bool
    threads: int | None
    at_once: int | None
    order: list[str] = field(default_factory=list)
    """The names of the runs of this request so far."""


def _run_plans(first: StudyPlan, sitting: _Sitting, of_pairs: Collection[str]) -> SoFar:
    """Run the plan, then whatever its kind wants after it; return what came of it, concluded."""
    study, kind = sitting.study, first.kind

    def concluded(so_far: SoFar) -> Statistics:
        study["runs"] = [run for run in study["runs"] if run["name"] in sitting.order]
        return conclude(first, so_far, study, sitting.baselines, sitting.store)

    so_far, plan = SoFar(sitting.directory, concluded), first
    while True:
        _run_jobs(plan, sitting, so_far)
        so_far.add(plan)
        following = kind.after(so_far)
        if following is None:
            _ = so_far.statistics
            return so_far
        if not {s.name for s in following.settings} <= {s.name for s in so_far.settings}:
            following = with_baselines(following, of_pairs) if following.final else following
            following = _noted(following, study)
        plan = following


def _run_jobs(plan: StudyPlan, sitting: _Sitting, so_far: SoFar) -> None:
    """The runs of a plan that are not done yet."""
    directory, study, quiet = sitting.directory, sitting.study, sitting.quiet
    jobs = list(plan.jobs(directory))
    sitting.order.extend(job.name for job in jobs if job.name not in sitting.order)
    waiting = [job for job in jobs if not _done(job)]
    tasks = [
        _task(job, study, sitting.baselines, directory, sitting.threads, plan.kind.thresholds(job, so_far))
        for job in waiting
    ]
    _write(directory, study)  # what the runs of this plan are is known before the first one begins
    done = {job.name for job in jobs if job not in waiting}
    _refuse_a_mixture(directory, [job for job in jobs if job.name in done], bool(waiting))
    seconds = None
    if waiting and not quiet:
        seconds = _announce(plan, so_far, waiting, sitting)
    with board([job.name for job in jobs], done, quiet, seconds) as watch:
        finished = (Result(name, "done") for name in done)
        for result in itertools.chain(finished, sitting.executor(tasks, watch)):
            if result.name not in done:
                watch(result.name, {"ended": result.state})
            _record(directory, study, jobs, result, sitting.order)


def _done(job: Job) -> bool:
    """Whether this very run has been made: one of another recipe in its place is refused by whoever runs it."""
    run = finished_run(job.directory)
    if run is None or run.manifest.seed != job.seed:
        return False
    return same_recipe(run.manifest.recipe, job.setting.recipe)


def _refuse_a_mixture(directory: Path, done: list[Job], waiting: bool) -> None:
    """What is done is of a kind: made from the model that goes by this name now and, if runs are still to be made, with
    the same engine and torch as those will be."""
    now: dict[tuple[str, str | None], str | None] = {}
    for job in done:
        run = finished_run(job.directory)
        if run is None:
            continue
        manifest, name = run.manifest, job.setting.recipe.model.weights_for(job.seed)
        if name is not None:
            key = (name, job.setting.recipe.model.revision)
            if key not in now:
                now[key] = _fingerprint(*key, needed=waiting)
            if now[key] not in (None, manifest.model.fingerprint):
                raise RequestError(f"{directory}: {name} has changed since {job.name} was made; choose another --out.")
        for source, known in manifest.model.made_from.items():
            place = source.replace("{seed}", str(job.seed))
            is_model = source in job.setting.recipe.model.other_models()  # the others are adapters
            found = _fingerprint(place, None, waiting) if is_model else _adapter_fingerprint(place, waiting)
            if found not in (None, known):
                raise RequestError(f"{directory}: {place} has changed since {job.name} was made; choose another --out.")
        if waiting and (manifest.engine, manifest.versions.get("torch")) != (ENGINE, version("torch")):
            raise RequestError(
                f"{directory}: {job.name} was made with heedful {manifest.heedful} and torch "
                f"{manifest.versions.get('torch')}, whose numbers differ from those made now; choose another --out."
            )


def _adapter_fingerprint(source: str, needed: bool) -> str | None:
    """Of the adapter as it is now. One that is gone has not changed: None, unless runs still need it."""
    try:
        return find_adapter(source).fingerprint
    except RequestError:
        if needed:
            raise
        return None


def _fingerprint(name: str, revision: str | None, needed: bool) -> str | None:
    """Of the model as it is now. One that is gone has not changed: None, unless runs still need it."""
    try:
        return fingerprint(find(name, revision))
    except RequestError:
        if needed:
            raise
        return None


def _say_warnings(sources: Mapping[str, Source]) -> None:
    """What may be wrong with the data, before any of it is trained on."""
    for source in sources.values():
        for check in source.data.describe().get("checks", []):
            if check["state"] == "warn":
                print(f"data: {check['sentence']}", file=sys.stderr)


def _say_left_out(directory: Path, order: list[str]) -> None:
    """Runs of earlier requests in the same place that this one does not ask for."""
    others = sorted(path.parent.name for path in directory.glob("runs/*/manifest.json"))
    others = [name for name in others if name not in order]
    if others:
        what = f"{len(others)} further run{'s' if len(others) > 1 else ''} of this place"
        more = ", …" if len(others) > 5 else ""
        are = "are" if len(others) > 1 else "is"
        print(f"{what} {are} left out: {', '.join(others[:5])}{more}", file=sys.stderr)


def _refuse_names(plan: StudyPlan, baselines: Mapping[str, Any]) -> None:
    for setting in plan.settings:
        if setting.name in baselines:
            raise RequestError(f"{setting.name}: is also the name of a baseline; rename the recipe.")


def _refuse_missing_models(plan: StudyPlan) -> None:
    """Where each seed has a model of its own, those of the seeds that come last must be there at the beginning."""
    for setting in plan.settings:
        model = setting.recipe.model
        for seed in plan.later_seeds if "{seed}" in (model.name or "") else ():
            name = str(model.name_for(seed))
            if is_hub_id(name) and not Path(name).exists():
                continue  # on the hub, which is not asked before it must be
            try:
                find(name, model.revision)
            except RequestError as error:
                raise RequestError(
                    f"{str(error).rstrip('.')}. What is chosen is tested with the fresh seeds "
                    f"{', '.join(map(str, plan.later_seeds))}: make their models, set study.final_seeds to fewer, or "
                    'study.test = "all" to test each setting with its own seeds.'
                ) from None


def _announce(plan: StudyPlan, so_far: SoFar, waiting: list[Job], sitting: _Sitting) -> float | None:
    """Print how long these runs will take, and return it in seconds; None if that is unknown."""
    at_once = sitting.at_once
    try:
        recipes = [(job.setting.recipe, job.seed) for job in waiting]
        seconds = expected_seconds(recipes, sitting.store, sitting.threads)
    except Exception:
        return None  # if something is wrong, the run itself says what
    count = len(waiting)
    next_round = so_far.plans and not plan.final and plan.seeds_by_setting is None
    what = f"{count} run{'s' if count > 1 else ''}" + (" of the next round" if next_round else "")
    if at_once is None:
        print(f"{what}: about {roughly(seconds)} of computing in total", file=sys.stderr)
        return None
    together = min(at_once, count)
    how = f", {together} in parallel" if together > 1 else ""
    print(f"{what}{how}: about {roughly(seconds / together)}", file=sys.stderr, flush=True)
    return seconds / together


def _noted(plan: StudyPlan, study: dict[str, Any]) -> StudyPlan:
    """The next plan, and its settings in study.json. A round that had begun before stays as it was, even if a run that
    failed then has been made since and would have led elsewhere."""
    if plan.final:
        study["final_settings"] = _describe(plan)["settings"]
        return plan
    known = {s["name"]: s for s in study["settings"]}
    settings = []
    for setting in plan.settings:
        old = known.get(setting.name)
        if old is not None:
            recipe = make_recipe(old["recipe"])
            model, method = recipe.model.title, recipe.tuning.method
            setting = replace(setting, model=model, method=method, recipe=recipe, values=tuple(old["values"].items()))
        settings.append(setting)
    plan = replace(plan, settings=tuple(settings))
    study["settings"] += [s for s in _describe(plan)["settings"] if s["name"] not in known]
    return plan


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
    if (job.directory / "manifest.json").exists():
        data = read_run(job.directory).manifest.data.written
        if data["sizes"].get("train", 0) > study.get("data", data)["sizes"].get("train", 0) or "data" not in study:
            study["data"] = data  # of a learning curve, that of the most rows
    _write(directory, study)


def _task(
    job: Job,
    study: dict[str, Any],
    baselines: Baselines,
    directory: Path,
    threads: int | None,
    thresholds: Mapping[int, float],
) -> Task:
    """What a run has to reach is written down, so that it stays the same whatever is made again before it."""
    if thresholds:
        as_json = {str(mark): score for mark, score in thresholds.items()}
        noted = study.setdefault("thresholds", {}).setdefault(job.name, as_json)
        thresholds = {int(mark): score for mark, score in noted.items()}
    recipe = job.setting.recipe
    return Task(
        name=job.name,
        recipe=recipe.identity(),
        seed=job.seed,
        directory=str(job.directory),
        store=str(directory / ".shared"),
        command=study["command"],
        baselines=baselines.scores(recipe, job.seed),
        threads=threads,
        thresholds=dict(thresholds),
    )


def _describe(plan: StudyPlan) -> dict[str, Any]:
    return {
        "settings": [
            {
                "name": s.name, "group": s.group, "model": s.model, "method": s.method, "random": s.random,
                "baseline": s.baseline,
                "values": dict(s.values), "recipe": s.recipe.model_dump(mode="json", exclude={"seeds", "study"}),
            }
            for s in plan.settings
        ],
        "seeds": list(plan.seeds),
        "kind": plan.kind.name,
        **({"search": dict(plan.search)} if plan.search else {}),
    }  # fmt: skip


def _open(directory: Path, plan: StudyPlan, described: dict[str, Any]) -> dict[str, Any]:
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
        study = read_object(path)
    except RequestError:
        raise RequestError(f"{path}: damaged; choose another directory with --out.") from None
    if not any(directory.glob("runs/*/manifest.json")):
        return {}  # nothing was begun: the request may have been wrong, and be right now
    if study.get("format") != FORMAT:
        raise RequestError(
            f"{path}: has format {study.get('format')!r}, and this version writes {FORMAT}; choose another --out."
        )
    before = [s for s in study.get("settings", []) if not s.get("baseline")]
    grown = len(before) > len(plan.settings)  # a search in rounds, which depend on the seeds
    other = study.get("kind", described["kind"]) != described["kind"]  # an earlier version did not say
    other = other or study.get("search") != described.get("search")
    other = other or (grown and study.get("seeds") != described["seeds"])
    if other or len(before) < len(plan.settings) or not all(map(_same_setting, before, plan.settings)):
        raise RequestError(f"{directory}: contains a different study. Choose another directory with --out.")
    return study


def free_place(plan: StudyPlan, directory: Path) -> Path:
    """The directory, or if it holds something else, the first of directory-2, directory-3, … that holds this study or
    is not there yet."""
    described = _describe(plan)
    for number in itertools.count(1):
        place = directory if number == 1 else directory.with_name(f"{directory.name}-{number}")
        if not place.exists():
            break
        try:
            _open(place, plan, described)
        except RequestError:
            continue
        break
    return place


def _same_setting(stored: dict[str, Any], setting: SettingPlan) -> bool:
    """Also if an earlier version, which knew fewer keys, wrote it down."""
    names = (stored.get("name"), stored.get("group"), stored.get("values"))
    return names == (setting.name, setting.group, dict(setting.values)) and same_recipe(
        stored.get("recipe", {}), setting.recipe
    )


def _write(directory: Path, study: dict[str, Any]) -> None:
    write_json(directory / "study.json", study)
