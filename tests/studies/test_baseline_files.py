"""What a study keeps of its baselines: made once, made again if the file is damaged or the data are others, and told as
the table has it."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from safetensors.numpy import save

from heedful.evaluation.metrics import METRICS
from heedful.recipes.reading import make_recipe
from heedful.report.facts.comparison import compare
from heedful.storage.runs import Run, Study
from heedful.storage.shared import SharedStore
from heedful.studies import baselines

RECIPE = {"model": {"name": "minilm"}, "data": {"train": "x.csv", "text": "t", "label": "l"}}


class Objective:
    made = saved = 0
    facts: ClassVar[dict[str, Any]] = {"test": {"accuracy": 0.5}}

    def description(self) -> dict[str, Any]:
        return {"fingerprints": {"test": "x"}, "sizes": {"train": 9}}

    def baselines(self) -> dict[str, Any]:
        Objective.made += 1
        return {"tfidf": self.facts}

    def sets(self) -> dict[str, int]:
        return {"test": 4}

    def save_baseline(self, name: str, directory: Path) -> bool:
        Objective.saved += 1
        directory.mkdir(exist_ok=True)
        (directory / "config.json").write_text("{}")
        (directory / "model.safetensors").write_bytes(save({"x": np.zeros(2)}))
        return True


def test_a_torn_file_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "read_objective", lambda *_: Objective())
    recipe = make_recipe(RECIPE)
    store = SharedStore(tmp_path / "shared")
    for made, content in ((1, None), (1, None), (2, '{"tfidf": {"te'), (3, "")):
        for path in (tmp_path / "kept").glob("*.json") if content is not None else ():
            path.write_text(content)
        whole = baselines.Baselines(tmp_path / "kept", store)._whole(recipe, 0)
        assert whole == {"tfidf": {"test": {"accuracy": 0.5}}}
        assert Objective.made == made


def test_the_model_is_saved_again_when_it_was_fitted_on_other_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baselines, "read_objective", lambda *_: Objective())
    monkeypatch.setattr(Objective, "facts", {**Objective.facts, "tested": True, "seconds": 1.0})
    all_rows, some = make_recipe(RECIPE), make_recipe({**RECIPE, "data": {**RECIPE["data"], "limit": 5}})
    kept = tmp_path / "kept"

    def saved(recipe: Any) -> int:
        """In a sitting of its own."""
        (row,) = baselines.Baselines(kept, SharedStore(tmp_path / "shared")).rows(recipe, 0, METRICS["accuracy"])
        assert (row["test_mean"], row["model_directory"]) == (0.5, "kept/tfidf")
        return Objective.saved

    assert [saved(recipe) for recipe in (all_rows, all_rows, some, some, all_rows)] == [1, 1, 2, 2, 3]

    def kill(path: Path, content: dict[str, Any]) -> None:
        assert (path.name, list(content)) == ("tfidf.json", ["of"])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(baselines, "write_json", kill)
        with pytest.raises(KeyboardInterrupt):
            saved(some)
    assert saved(all_rows) == 5  # what is there is of the other rows


def test_the_report_tells_of_a_baseline_what_the_table_does(tmp_path: Path) -> None:
    """Settings with other rows have another TF-IDF beside them."""
    scores = [{"accuracy": 0.9, "macro_f1": 0.8}, {"accuracy": 0.6, "macro_f1": 0.5}]
    runs = [
        ({"name": f"r-{i}", "setting": f"s-{i}"}, Run(tmp_path, {"seed": 0}, {"baselines": {"tfidf": {"test": s}}}))
        for i, s in enumerate(scores)
    ]

    def told(mean: float) -> dict[str, Any]:
        row = {"setting": "tfidf", "baseline": True, "metric": "accuracy", "test_mean": mean}
        facts = {"table": [row], "baselines": {"tfidf": {"test": scores[1]}}}
        setting = compare(Study(tmp_path, facts, runs)).setting("tfidf")  # type: ignore[arg-type]
        assert setting is not None
        return setting.runs[0].scores()["test"]

    assert told(0.9) == scores[0]
    assert told(0.6) == scores[1]
    assert told(0.7) == {"accuracy": 0.7}
