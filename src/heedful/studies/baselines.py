"""What the runs of a study are compared with: the data as a whole, and the baselines on the same rows."""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from heedful.data.protocol import Data
from heedful.errors import RequestError
from heedful.evaluation.metrics import Columns, Metric
from heedful.evaluators.protocol import BaselineSet
from heedful.recipes.schema import Recipe
from heedful.storage.directories import make_directory
from heedful.storage.examples import write_examples
from heedful.storage.hashing import sha256_of
from heedful.storage.reading import read_object
from heedful.storage.run_record import BaselineScores
from heedful.storage.runs import has_weights
from heedful.storage.shared import SharedStore
from heedful.storage.whole import write_json
from heedful.studies.parts import SettingPlan, StudyPlan
from heedful.training.assembly import Source, read_source
from heedful.training.outcome import primary_metric, without_values


def data_key(recipe: Recipe) -> str:
    """Names the data of a recipe with all their rows, of which a setting may train on a part."""
    rows = {"limit", "fraction", "redraw"}
    return json.dumps([recipe.objective.kind, recipe.data.model_dump(mode="json", exclude_defaults=True, exclude=rows)])


def whole_data(plan: StudyPlan, store: SharedStore) -> dict[str, Source]:
    """Return what is learned with all training rows, by `data_key`: one, unless the settings differ in their data."""
    sources: dict[str, Source] = {}
    metrics: dict[str, None] = {}
    for setting in plan.settings:
        key = data_key(setting.recipe)
        if key not in sources:
            sources[key] = read_source(_with_all_rows(setting.recipe), plan.seeds[0], store)
        there = sources[key].data.describe()["sizes"].get("train")
        rows = dict(setting.values).get("data.limit")
        if rows is not None and there is not None and rows > there:
            raise RequestError(f"[study]: {rows} rows are more than the {there} that can be trained on.")
        metrics[primary_metric(setting.recipe, sources[key].evaluator.metrics).name] = None
    if len(metrics) > 1:
        raise RequestError(
            f"[study]: its settings are judged by {' and '.join(metrics)}, which cannot be ranked together; make "
            "a study of each."
        )
    return sources


def _with_all_rows(recipe: Recipe) -> Recipe:
    evaluation = recipe.evaluation.model_copy(update={"test": True})
    return recipe.model_copy(update={"data": recipe.data.with_all_rows(), "evaluation": evaluation})


def most_rows(plan: StudyPlan, like: Recipe) -> SettingPlan:
    """Of the settings on the same data, the last: that of a learning curve with the most rows."""
    return [s for s in plan.settings if data_key(s.recipe) == data_key(like)][-1]


def keep_examples(folder: Path, data: Data) -> None:
    """What is right, and the texts, of the evaluation sets, for whoever looks at the runs' predictions."""
    prints = data.describe()["fingerprints"]
    for name in data.sets():
        lines = data.examples(name)
        if lines:
            write_examples(folder, name, lines, prints.get(name))


def _as_lists(content: Any) -> Any:
    """Return scores as JSON can hold them: columns may be arrays."""
    if isinstance(content, np.ndarray):
        return content.tolist()
    return {key: _as_lists(value) for key, value in content.items()} if isinstance(content, Mapping) else content


class Baselines:
    """Those of each set of training rows that a study has, made once and kept."""

    def __init__(self, folder: Path, store: SharedStore) -> None:
        self.folder, self.store = folder, store
        self.paths: dict[str, Path] = {}

    def scores(self, recipe: Recipe, seed: int) -> dict[str, Any] | None:
        """By baseline and evaluation set; the seed matters where it picks the rows. None if nobody wants to know."""
        return without_values(self._whole(recipe, seed)) if recipe.evaluation.baselines else None

    def values(self, recipe: Recipe, seed: int, kind: Literal["tested", "floor"]) -> dict[str, dict[str, Columns]]:
        """Return the columns of each baseline of a kind (see `BaselineSet.scores`) on each evaluation set, one number
        for each example."""
        whole = self._whole(recipe, seed) if recipe.evaluation.baselines else {}
        return {name: baseline["values"] for name, baseline in whole.items() if baseline.get(kind)}

    def rows(self, recipe: Recipe, seed: int, metric: Metric) -> list[dict[str, Any]]:
        """Rows of the table, for those that are models: they are saved, and compete with the settings on dev."""
        whole = self.scores(recipe, seed) or {}
        source = read_source(recipe, seed, self.store)
        baselines, rows = source.evaluator.baselines(), []
        for name, facts in whole.items():
            if not facts.get("tested") or not self._save(baselines, name, self._path(recipe, seed).stem):
                continue
            row = {"setting": name, "model": name, "method": name, "baseline": True, "random": False, "n": 1}
            row |= {"metric": metric.name, "higher_is_better": metric.higher_is_better}
            known = BaselineScores.model_validate(facts)
            for split in source.data.sets():
                score = known.scores(split).number(metric.name)
                if score is not None:
                    row |= {f"{split}_mean": score, f"{split}_std": None}
            row |= {"train_rows": source.data.describe()["sizes"].get("train"), "training_seconds": facts["seconds"]}
            row |= {key: facts.get(key) for key in ("prediction_seconds", "model_bytes")}
            rows.append({**row, "model_directory": f"{self.folder.name}/{name}"})
        return rows

    def _save(self, baselines: BaselineSet, name: str, of: str) -> bool:
        """As a model directory, once for as long as what is compared with it has the same data: a note beside it says
        which, and is there only while it is true."""
        note, said = self.folder / f"{name}.json", {"of": of}
        with contextlib.suppress(RequestError):
            if has_weights(self.folder / name) and read_object(note) == said:
                return True
        note.unlink(missing_ok=True)
        saved = baselines.save(name, self.folder / name)
        if saved:
            write_json(note, said)
        return saved

    def _whole(self, recipe: Recipe, seed: int) -> dict[str, Any]:
        return read_object(self._path(recipe, seed))

    def _path(self, recipe: Recipe, seed: int) -> Path:
        """Of the file with all that is known of them, which is named after their data."""
        drawn = seed if recipe.data.redrawn else None
        key = json.dumps([recipe.objective.kind, recipe.data.model_dump(mode="json"), drawn, recipe.evaluation.metric])
        if key not in self.paths:
            source = read_source(recipe, seed, self.store)
            facts = key + json.dumps(source.data.describe()["fingerprints"])
            path = self.folder / f"{sha256_of([facts])[:16]}.json"
            try:
                read_object(path)
            except RequestError:  # it is not there, or damaged, and made again either way
                make_directory(self.folder)
                write_json(path, _as_lists(source.evaluator.baselines().scores()))
            self.paths[key] = path
        return self.paths[key]
