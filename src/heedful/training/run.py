"""One run: a recipe with a seed, from data to a model directory with its metrics, in a directory of its own."""

import json
import math
import platform
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any, cast

import torch

from heedful.checkpoints.adapters import FOLDER as ADAPTERS
from heedful.checkpoints.finding import find
from heedful.errors import RequestError
from heedful.models.inventory import take_inventory
from heedful.recipes.reading import same_recipe
from heedful.recipes.schema import Recipe
from heedful.storage.directories import make_directory
from heedful.storage.locks import alone
from heedful.storage.reading import read_object
from heedful.storage.run_record import FORMAT
from heedful.storage.runs import MARK_DIGITS, MARKS, finished_run, names_mark, run_files, trained_to
from heedful.storage.shared import SharedStore
from heedful.storage.whole import write_json, write_text
from heedful.training.assembly import Assembly, assemble, read_source
from heedful.training.changed import changed_data
from heedful.training.cost import peak_gpu_memory, peak_memory, unshared
from heedful.training.loop import Fit, Stopped
from heedful.training.outcome import dev_judge, write_outcome
from heedful.training.processes import Processes, join
from heedful.training.progress import Narrator, silent
from heedful.training.state import Progress
from heedful.training.threads import threads_of
from heedful.tuning.protocol import DevScore

ENGINE = 3
"""Of what a step computes and what is made of it at the end: raised when the same recipe and seed would lead to other
bits, so that a run that was begun before is not continued into a mixture. 2: what is saved and judged is calibrated.
3: the loss on dev breaks ties between the penalties of a head that is solved."""
_VERSIONS = ("torch", "tokenizers", "safetensors", "numpy", "scikit-learn")


def execute(
    recipe: Recipe,
    seed: int,
    directory: Path,
    *,
    command: str = "",
    quiet: bool = False,
    narrator: Narrator | None = None,
    baselines: dict[str, Any] | None = None,
    store: SharedStore | None = None,
    threads: int | None = None,
    thresholds: Mapping[int, float] | None = None,
) -> dict[str, Any]:
    """Run, or go on from where an earlier call was stopped; a finished run is left as it is. Returns the manifest.

    `baselines` and the `store` can be handed over by a study, which has them for all its runs. `threads` is for a
    recipe that does not say how many. `thresholds` are scores on dev (higher is better) that the best mark so far must
    reach at each mark; if it does not, training ends there, which the manifest then says under "pruned".

    Under torchrun every process of the group calls it; the first does all of it, and the others, for whom what is
    returned is empty, help with the steps.
    """
    group = join()
    if not group.first:
        _assist(group, recipe, seed, directory, store)
        return {}
    _open(directory, recipe, seed)  # what is not ours is refused before anything is written there
    with alone(directory), threads_of(None):
        manifest = _open(directory, recipe, seed)
        damaged = manifest.get("state") == "done" and finished_run(directory) is None
        if manifest.get("state") == "done" and not damaged:
            _tidy(directory)
            group.tell({"needed": False})
            return manifest
        torch.set_num_threads(manifest.get("threads") or recipe.training.threads or threads or torch.get_num_threads())
        started = time.monotonic()
        narrator = narrator or Narrator(directory.name, silent if quiet else None)
        if damaged:
            narrator.say("was finished, but its files are damaged; running it again")
            manifest = _begin_again(directory)
        if store is None:
            store = SharedStore(directory / ".shared")
            store.forget("data")  # they may have changed since an earlier sitting, which is then refused
        source = read_source(recipe, seed, store)
        if manifest:
            before, now = manifest["data"]["fingerprints"], source.data.describe()["fingerprints"]
            if changed := changed_data(before, now, recipe.data):
                raise RequestError(
                    f"{directory}: the data have changed since this run began: {changed}; choose another with --out."
                )
        parts = assemble(source, store)
        if manifest:
            _refuse_another_machine(directory, manifest, parts, group)
        group.check(parts.device)
        manifest = manifest or _manifest(recipe, seed, parts, command, thresholds or {}, group)
        write_json(directory / "manifest.json", manifest)
        for warning in manifest["data"].get("warnings", []):
            narrator.say(warning)
        if (directory / "checkpoints").exists():
            narrator.say("resuming from the last checkpoint")
        group.tell(_for_the_others(parts, manifest))
        with _Interruptible() as should_stop:
            if parts.tuning.solve is not None:
                progress, clock = _solve(recipe, directory, parts, narrator, should_stop), started
            else:
                limits = manifest.get("thresholds", {})
                fit = _fit(recipe, seed, directory, parts, store, narrator, should_stop, started, limits, group)
                progress, clock = fit.progress, fit.clock
                if early := _ended_early(fit):
                    manifest["stopped_early"] = early
                    where = f"at step {early['step']} of {early['steps']}"
                    narrator.say(f"stopped early {where}: no improvement on dev (training.patience)")
            metrics = write_outcome(directory, recipe, parts, progress, baselines)
        parts.tuning.finish(progress.decay)
        parts.objective.finish(parts.checkpoint)
        parts.checkpoint.write(directory / "model", store, moved=parts.tuning.MOVES_BODY)
        if progress.pruned:
            narrator.say(f"stopped at evaluation {progress.marks}: below the median of earlier settings")
            manifest["pruned"] = progress.marks
        manifest["cost"] = _cost(parts, progress, progress.total_seconds + time.monotonic() - clock)
        manifest["cost"] |= _use(directory / "model", parts)
        write_json(directory / "metrics.json", metrics)
        manifest["files"] = run_files(directory)
        manifest["state"] = "done"
        write_json(directory / "manifest.json", manifest)
        _tidy(directory)
        if should_stop():  # asked while the last of it was written
            raise KeyboardInterrupt
        return manifest


def _for_the_others(parts: Assembly, manifest: dict[str, Any]) -> dict[str, Any]:
    """What the other processes of a group are told before the first step."""
    return {
        "needed": parts.tuning.solve is None,
        "threads": manifest["threads"],
        "thresholds": manifest.get("thresholds", {}),
        "made_of": _made_of(parts),
    }


def _made_of(parts: Assembly) -> list[Any]:
    return [parts.fingerprint, dict(parts.made_from), parts.data.describe()["fingerprints"]]


def _assist(group: Processes, recipe: Recipe, seed: int, directory: Path, store: SharedStore | None) -> None:
    """Of a group, all processes but the first: when that has put everything in its place, they compute their parts of
    each step, and write nothing."""
    told = group.hear()
    if not told["needed"]:
        return
    with threads_of(told["threads"]), _Interruptible() as should_stop:
        store = store or SharedStore(directory / ".shared")
        parts = assemble(read_source(recipe, seed, store), store)
        if _made_of(parts) != told["made_of"]:
            raise RequestError(
                f"{directory}: process {group.rank + 1} of {group.count} reads other data or another model than the "
                "first; give all of them the same files."
            )
        narrator = Narrator(directory.name, silent)
        started, limits = time.monotonic(), told["thresholds"]
        _fit(recipe, seed, directory, parts, store, narrator, should_stop, started, limits, group)


def _begin_again(directory: Path) -> dict[str, Any]:
    """A run that was finished and is no longer whole is made anew in its place, as if there had been none. Its manifest
    stays until the new one is there, so that the directory is known as a run's."""
    for name in ("metrics.json", "log.jsonl"):
        (directory / name).unlink(missing_ok=True)
    for name in ("checkpoints", "predictions", "values", MARKS):
        shutil.rmtree(directory / name, ignore_errors=True)
    return {}


def _tidy(directory: Path) -> None:
    """What a finished run needs no more, and what sittings that were killed while they saved have left."""
    for path in [
        directory / "checkpoints",
        directory / ".shared",
        *directory.glob(".*.new"),
        *directory.glob(f"{MARKS}/.*.new"),
    ]:
        shutil.rmtree(path, ignore_errors=True)
    for path in directory.glob("**/.*.part"):
        path.unlink(missing_ok=True)


def _fit(
    recipe: Recipe,
    seed: int,
    directory: Path,
    parts: Assembly,
    store: SharedStore,
    narrator: Narrator,
    should_stop: Callable[[], bool],
    started: float,
    thresholds: Mapping[str, float],
    group: Processes,
) -> Fit:
    fit = Fit(
        objective=parts.objective,
        inputs=parts.inputs,
        sampler=parts.sampler,
        evaluator=parts.evaluator,
        tuning=parts.tuning,
        training=recipe.training,
        seed=seed,
        directory=directory,
        judge=dev_judge(recipe, parts),
        watch=narrator.watch,
        should_stop=should_stop,
        thresholds={int(mark): score for mark, score in thresholds.items()},
        keep_mark=partial(_keep_mark, directory / MARKS, parts, store) if recipe.training.keep_marks else None,
        clock=started,
        group=group,
    )
    try:
        fit.run()
    except Stopped:
        narrator.say(f"stopped at step {fit.progress.step}; run the same command to resume")
        raise KeyboardInterrupt from None
    return fit


def _ended_early(fit: Fit) -> dict[str, int]:
    """Where training.patience has ended training before its end; nothing if it has not."""
    progress = fit.progress
    if progress.pruned or fit.schedule.is_end(progress.step, progress.tokens):
        return {}
    steps = fit.schedule.expected_steps(progress.step, progress.tokens)
    return {"step": progress.step, "steps": steps, "marks_without_gain": progress.marks_without_gain}


def _keep_mark(folder: Path, parts: Assembly, store: SharedStore, progress: Progress) -> None:
    """The model as it is, put together as at the end: in a copy, since training goes on with its own."""
    mark = parts.checkpoint.copied()
    parts.tuning.finish(progress.decay, cast(Any, mark.module))
    parts.objective.finish(mark)
    mark.write(folder / f"{progress.step:0{MARK_DIGITS}}", store, moved=parts.tuning.MOVES_BODY)


def _solve(
    recipe: Recipe, directory: Path, parts: Assembly, narrator: Narrator, should_stop: Callable[[], bool]
) -> Progress:
    """A tuning that solves: a line of the log for each solution that was judged. Killed, it begins anew."""
    progress, judge = Progress(), dev_judge(recipe, parts)
    lines: list[dict[str, Any]] = []
    best: DevScore | None = None

    def judged(facts: dict[str, Any]) -> DevScore | None:
        nonlocal best
        if should_stop():
            raise KeyboardInterrupt
        progress.marks += 1
        result: dict[str, Any] = judge(0) if judge is not None else {"score": None, "metrics": {}}
        lines.append({"mark": progress.marks, **facts, "dev": result["metrics"]})
        narrator.watch(progress, 0, {"mark": progress.marks, **result})
        if judge is None:
            return None
        dev = DevScore(result["score"], -math.inf if result["loss"] is None else -result["loss"])
        if math.isfinite(dev.metric) and (best is None or dev > best):
            best, progress.best = dev, {"mark": progress.marks, "score": dev.metric}
        return dev

    started = time.monotonic()
    assert parts.tuning.solve is not None
    parts.tuning.train(False)
    parts.tuning.solve(parts.objective, parts.inputs.everything(), judged)
    progress.seconds, progress.finished = time.monotonic() - started, True
    write_text(directory / "log.jsonl", "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    return progress


def _open(directory: Path, recipe: Recipe, seed: int) -> dict[str, Any]:
    """The manifest of an earlier sitting, {} if there was none; a directory with something else in it is refused."""
    path = directory / "manifest.json"
    if not directory.exists():
        make_directory(directory)
        return {}
    if not path.exists():
        if any(not p.name.startswith(".") for p in directory.iterdir()):
            raise RequestError(
                f"{directory}: contains something that is not a run. Choose another directory with --out."
            )
        return {}
    try:
        manifest = read_object(path)
        if not {"format", "recipe", "seed", "data", "model", "versions", "device"} <= manifest.keys():
            raise RequestError("keys are missing")
    except RequestError:
        raise RequestError(f"{path}: damaged. Remove {directory} and run again.") from None
    if manifest["format"] != FORMAT:
        raise RequestError(
            f"{path}: was written by a different version of heedful. Choose another directory with --out."
        )
    if manifest["seed"] != seed or not same_recipe(manifest["recipe"], recipe):
        raise RequestError(f"{directory}: contains the run of a different recipe or seed. Choose another with --out.")
    return manifest


def _refuse_another_machine(directory: Path, manifest: dict[str, Any], parts: Assembly, group: Processes) -> None:
    """A run goes on only where that leads to the same bits."""
    if manifest["model"].get("fingerprint") != parts.fingerprint:
        raise RequestError(f"{directory}: the model has changed since this run began. Choose another with --out.")
    tokenizer = parts.checkpoint.tokenizer_fingerprint
    if tokenizer is not None and manifest["model"].get("tokenizer", tokenizer) != tokenizer:
        raise RequestError(f"{directory}: the tokenizer has changed since this run began. Choose another with --out.")
    for source, print_of in parts.made_from.items():
        if manifest["model"].get("made_from", {}).get(source) != print_of:
            raise RequestError(f"{directory}: {source} has changed since this run began. Choose another with --out.")
    if (manifest["versions"]["torch"], manifest["device"]) != (version("torch"), str(parts.device)):
        raise RequestError(
            f"{directory}: was started with torch {manifest['versions']['torch']} on {manifest['device']}, here it is "
            f"torch {version('torch')} on {parts.device}; results would differ, so it is not resumed. Choose another "
            "directory with --out."
        )
    processes = manifest.get("processes", 1)  # earlier versions had one
    if processes != group.count:
        raise RequestError(
            f"{directory}: was started with {processes} process{'es' if processes > 1 else ''}, here there are "
            f"{group.count}; results would differ, so it is not resumed. Use the same number of processes, or choose "
            "another directory with --out."
        )
    if manifest.get("engine") != ENGINE:
        raise RequestError(
            f"{directory}: was started with heedful {manifest.get('heedful')}. This version computes slightly "
            "different numbers, so it cannot resume the run. Finish it with that version, or choose another directory "
            "with --out."
        )


def _manifest(
    recipe: Recipe, seed: int, parts: Assembly, command: str, thresholds: Mapping[int, float], group: Processes
) -> dict[str, Any]:
    total = take_inventory(parts.checkpoint.module).total
    trainable = sum(p.numel() for p in parts.tuning.trainable().values())
    cut_into = group.parts(recipe.training.accumulate).count
    return {
        "format": FORMAT,
        "engine": ENGINE,
        "heedful": version("heedful"),
        "recipe": recipe.model_dump(mode="json", exclude={"seeds", "study"}),
        "seed": seed,
        "command": command or shlex.join(sys.argv),
        **({"thresholds": {str(mark): score for mark, score in thresholds.items()}} if thresholds else {}),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in _VERSIONS}},
        "threads": torch.get_num_threads(),
        "processes": group.count,
        **({"parts": cut_into} if cut_into != recipe.training.accumulate and parts.tuning.solve is None else {}),
        "device": str(parts.device),
        "metrics": [metric.stated() for metric in parts.evaluator.metrics],
        "data": parts.describe(),
        "model": {
            "source": parts.source,
            "fingerprint": parts.fingerprint,
            "family": parts.checkpoint.family,
            **({"tokenizer": tokenizer} if (tokenizer := parts.checkpoint.tokenizer_fingerprint) else {}),
            "parameters": {
                "total": total + parts.tuning.set_aside,
                "trainable": trainable + parts.tuning.set_aside,
            },
            **({"made_from": dict(parts.made_from)} if parts.made_from else {}),
            **_pretrained(recipe, seed),
            **parts.catalogued,
        },
        "state": "running",
    }


def _pretrained(recipe: Recipe, seed: int) -> dict[str, Any]:
    """How far the model that a run begins from had come, if a run of ours has left it."""
    name = recipe.model.weights_for(seed)
    if name is None:
        return {}
    place = Path(name).expanduser()
    far = trained_to(find(place) if names_mark(place) and place.parent.is_dir() else place)
    return {"pretrained": far} if far else {}


def _cost(parts: Assembly, progress: Progress, total_seconds: float) -> dict[str, Any]:
    spent = parts.tuning.cost(progress.forward_flops, progress.tokens)
    once_flops, once_seconds = parts.inputs.spent_once()
    training = spent.seconds + once_seconds + progress.seconds  # what was computed once may be another run's work
    padding = {} if spent.padding_share is None else {"padding_share": spent.padding_share}
    return {
        "training_seconds": training,
        "total_seconds": max(training, total_seconds),
        "peak_memory_bytes": peak_memory(),
        "gpu_memory_bytes": peak_gpu_memory(parts.device),
        "flops": spent.flops + once_flops,
        "tokens": spent.tokens,
        **parts.inputs.statistics(),
        **padding,
    }


def _use(model: Path, parts: Assembly) -> dict[str, Any]:
    """What it costs to use what was trained."""
    parts.checkpoint.module.eval()
    adapters = _bytes_in(model / ADAPTERS)

    def predicting() -> float | None:
        return parts.evaluator.prediction_seconds(parts.checkpoint, parts.inputs, parts.device)

    return {
        "prediction_seconds": unshared(predicting) if parts.device.type == "cpu" else predicting(),
        "model_bytes": _bytes_in(model),
        **({"adapter_bytes": adapters} if adapters else {}),
    }


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class _Interruptible:
    """While inside, the first Ctrl-C asks for a stop at the next step; the second one is obeyed at once."""

    def __enter__(self) -> Callable[[], bool]:
        self.asked = False
        try:
            self.before = signal.signal(signal.SIGINT, self._ask)
        except ValueError:  # not the main thread: Ctrl-C does not come here
            self.before = None
        return lambda: self.asked

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *_: object) -> None:
        if self.before is not None:
            signal.signal(signal.SIGINT, self.before)
