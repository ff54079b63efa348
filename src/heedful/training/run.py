"""One run: a recipe with a seed, from data to a model directory with its metrics, in a directory of its own."""

import json
import platform
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from heedful.checkpoints.atomic import make_directory
from heedful.checkpoints.directory import write_model
from heedful.errors import RequestError
from heedful.models.inventory import take_inventory
from heedful.recipes.schema import Recipe
from heedful.training.cost import forward_flops, peak_gpu_memory, peak_memory
from heedful.training.loop import Fit, Stopped
from heedful.training.outcome import Outcome, judge_dev, write_outcome
from heedful.training.progress import Narrator, silent
from heedful.training.setting import Setting, load_data, prepare
from heedful.training.shelf import Shelf, alone
from heedful.training.state import Progress
from heedful.training.threads import threads_of

FORMAT = 1
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
    shelf: Shelf | None = None,
    threads: int | None = None,
    bars: Mapping[int, float] | None = None,
) -> dict[str, Any]:
    """Run, or go on from where an earlier call was stopped; a finished run is left as it is. Returns the manifest.

    `baselines` and the `shelf` can be handed over by a study, which has them for all its runs. `threads` is for a
    recipe that does not say how many. `bars` are scores on dev (higher is better) that the best epoch so far must reach
    by the end of each epoch; if it does not, training ends there, which the manifest then says under "pruned".
    """
    _open(directory, recipe, seed)  # what is not ours is refused before anything is written there
    with alone(directory), threads_of(None):
        manifest = _open(directory, recipe, seed)
        if manifest.get("state") == "done":
            _tidy(directory)
            return manifest
        torch.set_num_threads(manifest.get("threads") or recipe.training.threads or threads or torch.get_num_threads())
        started = time.monotonic()
        narrator = narrator or Narrator(directory.name, silent if quiet else None)
        dataset = load_data(recipe.data, seed)
        if manifest and manifest["data"]["fingerprints"] != dataset.fingerprints:
            raise RequestError(f"{directory}: the data have changed since this run began; choose another with --out.")
        setting = prepare(recipe, seed, dataset, shelf or Shelf(directory / ".shared"))
        if manifest and manifest["model"].get("fingerprint") != setting.fingerprint:
            raise RequestError(f"{directory}: the model has changed since this run began; choose another with --out.")
        if manifest and (manifest["versions"]["torch"], manifest["device"]) != (version("torch"), str(setting.device)):
            raise RequestError(
                f"{directory}: was begun with torch {manifest['versions']['torch']} on {manifest['device']}, and would "
                "not go on to the same bits here; choose another directory with --out."
            )
        manifest = manifest or _manifest(recipe, seed, setting, command, bars or {})
        _write(directory / "manifest.json", manifest)
        narrator.tokens_per_step = setting.tokens_per_step
        if (directory / "checkpoints").exists():
            narrator.say("going on from the last checkpoint")
        with _Interruptible() as should_stop:
            fit = _fit(recipe, seed, directory, setting, narrator, should_stop, started, manifest.get("bars", {}))
            progress = fit.progress
            metrics = write_outcome(directory, Outcome(recipe, seed, setting, progress), baselines)
        setting.method.finish(progress.decay)
        if setting.checkpoint.tokenizer is not None:  # what is beyond it was cut in training, and will be
            setting.checkpoint.tokenizer.max_length = recipe.training.max_length
            setting.checkpoint.chunked = recipe.training.long_texts == "chunk"
        write_model(directory / "model", setting.checkpoint)
        if progress.pruned:
            narrator.say(f"stopped after epoch {progress.epochs}: behind the median of earlier settings")
            manifest["pruned"] = progress.epochs
        manifest["cost"] = _cost(setting, progress, progress.total_seconds + time.monotonic() - fit.clock)
        manifest["state"] = "done"
        _write(directory / "metrics.json", metrics)
        _write(directory / "manifest.json", manifest)
        _tidy(directory)
        return manifest


def _tidy(directory: Path) -> None:
    """What a finished run needs no more, and what sittings that were killed while they saved have left."""
    for path in [directory / "checkpoints", directory / ".shared", *directory.glob(".*.new")]:
        shutil.rmtree(path, ignore_errors=True)


def _fit(
    recipe: Recipe,
    seed: int,
    directory: Path,
    setting: Setting,
    narrator: Narrator,
    should_stop: Callable[[], bool],
    started: float,
    bars: dict[str, float],
) -> Fit:
    fit = Fit(
        method=setting.method,
        loss=setting.loss,
        targets=setting.targets["train"],
        rows=setting.dataset.train.rows,
        training=recipe.training,
        tuning=recipe.tuning,
        seed=seed,
        directory=directory,
        judge=(lambda: judge_dev(recipe, setting)) if "dev" in setting.targets else None,
        watch=narrator.watch,
        should_stop=should_stop,
        bars={int(epoch): bar for epoch, bar in bars.items()},
        clock=started,
    )
    try:
        fit.run()
    except Stopped:
        narrator.say(f"stopped at step {fit.progress.step}; the same command goes on from there")
        raise KeyboardInterrupt from None
    return fit


def _open(directory: Path, recipe: Recipe, seed: int) -> dict[str, Any]:
    """The manifest of an earlier sitting, {} if there was none; a directory with something else in it is refused."""
    path = directory / "manifest.json"
    if not directory.exists():
        make_directory(directory)
        return {}
    if not path.exists():
        if any(not p.name.startswith(".") for p in directory.iterdir()):
            raise RequestError(f"{directory}: holds something that is not a run; choose another directory with --out.")
        return {}
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if not {"format", "recipe", "seed", "data", "model", "versions", "device"} <= manifest.keys():
            raise ValueError
    except (ValueError, AttributeError):
        raise RequestError(f"{path}: damaged; remove {directory} and run again.") from None
    if manifest["format"] != FORMAT:
        raise RequestError(f"{path}: was written by another version of heedful; choose another directory with --out.")
    if manifest["recipe"] != recipe.model_dump(mode="json", exclude={"seeds", "study"}) or manifest["seed"] != seed:
        raise RequestError(f"{directory}: holds the run of another recipe or seed; choose another with --out.")
    return manifest


def _manifest(recipe: Recipe, seed: int, setting: Setting, command: str, bars: Mapping[int, float]) -> dict[str, Any]:
    data, inventory = setting.dataset, take_inventory(setting.checkpoint.transformer)
    trainable = sum(p.numel() for p in setting.method.trainable().values())
    whole_table = setting.whole_table_parameters
    return {
        "format": FORMAT,
        "heedful": version("heedful"),
        "recipe": recipe.model_dump(mode="json", exclude={"seeds", "study"}),
        "seed": seed,
        "command": command or shlex.join(sys.argv),
        **({"bars": {str(epoch): bar for epoch, bar in bars.items()}} if bars else {}),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in _VERSIONS}},
        "threads": torch.get_num_threads(),
        "device": str(setting.device),
        "data": {
            "name": data.name,
            "kind": data.kind,
            "labels": list(data.labels),
            "sizes": {split: len(held) for split, held in setting.examples.items()},
            "fingerprints": data.fingerprints,
            "hidden": list(data.hidden),
            "licence": data.licence,
            "contamination": data.contamination,
            "notes": data.notes,
        },
        "model": {
            "source": setting.source,
            "fingerprint": setting.fingerprint,
            "family": setting.checkpoint.transformer.shape.family,
            "parameters": {
                "total": inventory.total + whole_table,
                "trainable": trainable + whole_table * (trainable > 0),
            },
            "licence": setting.licence,
            "trained_on": setting.trained_on,
        },
        "state": "running",
    }


def _cost(setting: Setting, progress: Progress, total_seconds: float) -> dict[str, Any]:
    shape = setting.checkpoint.transformer.shape
    first_only = setting.checkpoint.transformer.head_shapes["classify"].reads in ("first", "pooled")
    once = forward_flops(shape, setting.train_lengths, first_only)
    passes = 1 if setting.frozen else 3 * progress.epochs  # a backward pass costs two forward ones
    training = setting.feature_seconds + progress.seconds  # the features may be another run's work
    return {
        "training_seconds": training,
        "total_seconds": max(training, total_seconds),
        "peak_memory_bytes": peak_memory(),
        "gpu_memory_bytes": peak_gpu_memory(setting.device),
        "flops": once * passes,
        "tokens": sum(setting.train_lengths) * (1 if setting.frozen else progress.epochs),
        "padding_share": setting.padding_share,
        "truncated_share": setting.truncated_share,
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    part = path.with_name(f".{path.name}")
    part.write_text(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    part.replace(path)


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
