"""From what the user calls a model, a run or a study to what is probed."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from heedful.checkpoints.tfidf import is_tfidf
from heedful.errors import RequestError
from heedful.inference.loading import Classifier, load_classifier
from heedful.probes.models import Subject
from heedful.storage.runs import has_weights, read_run, read_study

_COMMON = ("best", "model", "baselines", "tfidf")


def listed(one_or_more: Any, needed: str) -> list[Any]:
    """One as a list of one. `needed`: what to say where there is none."""
    if isinstance(one_or_more, Iterable) and not isinstance(one_or_more, (str, Path)):
        several = list(one_or_more)
    else:
        several = [] if one_or_more is None else [one_or_more]
    if not several:
        raise RequestError(needed)
    return several


def all_subjects(names: Sequence[str | Path]) -> list[Subject]:
    """Those of each name; none may be called as another is."""
    subjects = [subject for name in names for subject in find_subjects(name)]
    refuse_same_names("model", [subject.name for subject in subjects])
    return subjects


def find_subjects(name: str | Path) -> list[Subject]:
    """A model, the model of a run, or all settings of a study that have models."""
    path = Path(name).expanduser()
    if (path / "study.json").is_file():
        return _of_study(path)
    if (path / "manifest.json").is_file() and not (path / "config.json").exists():
        run = read_run(path)
        loads = partial(_loaded, path / "model")
        return [Subject(path.absolute().name, ((run.seed, loads),), random=True, recipe=run.manifest.recipe or None)]
    called = _short_name(path) if path.is_dir() else str(name)
    return [Subject(called, (("", partial(_loaded, name)),), recipe=_recipe_beside(path) if path.is_dir() else None)]


def refuse_same_names(what: str, names: Sequence[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise RequestError(f"the {what} {name} is named {count} times. Name it once.")


def _short_name(path: Path) -> str:
    """The last part of a path that is not called alike everywhere, with what follows it."""
    parts = path.absolute().parts
    first = next((i for i in range(len(parts) - 1, 0, -1) if parts[i] not in _COMMON), len(parts) - 1)
    return "/".join(parts[first:])


def _recipe_beside(model: Path) -> Mapping[str, Any] | None:
    """That of the run, or of the chosen setting of the study, in whose directory a model lies."""
    folder = model.absolute().parent
    if model.absolute().name == "model" and (folder / "manifest.json").is_file():
        return read_run(folder).manifest.recipe or None
    if model.absolute().name == "best" and (folder / "study.json").is_file():
        record = read_study(folder).record
        return next((one.recipe or None for one in record.settings if one.name == record.chosen.setting), None)
    return None


def _of_study(path: Path) -> list[Subject]:
    study = read_study(path)
    made = []
    for setting in study.record.settings:
        runs = tuple(
            (str(entry.seed), partial(_loaded, run.directory / "model"))
            for entry, run in study.runs
            if run is not None and entry.setting == setting.name and has_weights(run.directory / "model")
        )
        begun = sum(entry.setting == setting.name for entry, _ in study.runs)
        note = f"{path}: of {begun} runs of {setting.name}, {len(runs)} have a model; the others are left out."
        if runs:
            missing = note if len(runs) < begun else ""
            made.append(Subject(setting.name, runs, not setting.fixed, missing, setting.recipe or None))
    known = {subject.name for subject in made}
    for folder in sorted((path / "baselines").glob("*/config.json")):
        if folder.parent.name not in known and is_tfidf(folder.parent):
            made.append(Subject(folder.parent.name, (("", partial(_loaded, folder.parent)),)))
    if not made:
        raise RequestError(f"{path}: this study has no model yet. Finish it first.")
    place = path.absolute().name
    return [replace(one, name=f"{place}: {one.name}") for one in made]


def _loaded(source: str | Path) -> Classifier:
    path = Path(source).expanduser()
    return load_classifier(path if path.exists() else source)
