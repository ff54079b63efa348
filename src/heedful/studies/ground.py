"""What the runs of a study are held against: the data as a whole, and the baselines on the same rows."""

import hashlib
import json
from pathlib import Path
from typing import Any

from heedful.data.examples import Dataset
from heedful.errors import RequestError
from heedful.recipes.schema import Recipe
from heedful.studies.parts import StudyPlan
from heedful.training.outcome import baselines_of, without_predictions
from heedful.training.setting import load_data


def whole_data(plan: StudyPlan) -> Dataset:
    """With all training rows, of which a setting may have a part."""
    dataset = load_data(plan.settings[0].recipe.data.model_copy(update={"limit": None, "fraction": None}))
    for setting in plan.settings:
        rows = dict(setting.values).get("data.limit")
        if rows is not None and rows > len(dataset.train):
            raise RequestError(f"[study]: {rows} rows are more than the {len(dataset.train)} that can be trained on.")
    return dataset


class Baselines:
    """Those of each set of rows that a study has, made once and kept."""

    def __init__(self, folder: Path, fingerprints: dict[str, str]) -> None:
        self.folder, self.fingerprints = folder, fingerprints

    def of(self, recipe: Recipe, seed: int) -> dict[str, Any] | None:
        """Their scores; the seed matters where it picks the rows."""
        return without_predictions(self._whole(recipe, seed)) if recipe.evaluation.baselines else None

    def predictions(self, recipe: Recipe, seed: int) -> dict[str, Any] | None:
        """What TF-IDF says of each example, by split; None where numbers are predicted, or nobody wants to know."""
        return self._whole(recipe, seed)["tfidf"].get("predicted") if recipe.evaluation.baselines else None

    def _whole(self, recipe: Recipe, seed: int) -> dict[str, Any]:
        drawn = seed if recipe.data.redraw else None
        facts = json.dumps([self.fingerprints, recipe.data.model_dump(mode="json"), drawn])
        path = self.folder / f"{hashlib.sha256(facts.encode()).hexdigest()[:16]}.json"
        if not path.exists():
            found = baselines_of(load_data(recipe.data, seed))
            self.folder.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f".{path.name}")
            part.write_text(json.dumps(found), encoding="utf-8")
            part.rename(path)
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return content
