"""What a study keeps of its baselines: made once, made again if the file is damaged or the data are others, and told as
the table has it."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from safetensors.numpy import save

from heedful.evaluation.metrics import METRICS
from heedful.evaluators.protocol import BaselineSet
from heedful.recipes.reading import make_recipe
from heedful.report.facts.comparison import compare
from heedful.report.glance import glance_at_study
from heedful.report.sections.card import card
from heedful.storage.run_record import Manifest, Metrics
from heedful.storage.runs import Run, Study, read_study
from heedful.storage.shared import SharedStore
from heedful.storage.study_record import RunEntry, StudyRecord
from heedful.studies import baselines
from heedful.studies.plan import plan_recipe
from heedful.studies.study import run_study
from tests.support.corpus_samples import corpus_recipe, documents, write_text

RECIPE = {"model": {"name": "minilm"}, "data": {"train": "x.csv", "text": "t", "label": "l"}}


class Fitted(BaselineSet):
    made = saved = 0
    facts: ClassVar[dict[str, Any]] = {"test": {"accuracy": 0.5}}

    def scores(self) -> dict[str, Any]:
        Fitted.made += 1
        return {"tfidf": self.facts}

    def save(self, name: str, directory: Path) -> bool:
        Fitted.saved += 1
        directory.mkdir(exist_ok=True)
        (directory / "config.json").write_text("{}")
        (directory / "model.safetensors").write_bytes(save({"x": np.zeros(2)}))
        return True


def source(*_: Any) -> Any:
    data = SimpleNamespace(
        describe=lambda: {"fingerprints": {"test": "x"}, "sizes": {"train": 9}}, sets=lambda: {"test": True}
    )
    return SimpleNamespace(data=data, evaluator=SimpleNamespace(baselines=Fitted))


def test_a_torn_file_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "read_source", source)
    recipe = make_recipe(RECIPE)
    store = SharedStore(tmp_path / "shared")
    for made, content in ((1, None), (1, None), (2, '{"tfidf": {"te'), (3, "")):
        for path in (tmp_path / "kept").glob("*.json") if content is not None else ():
            path.write_text(content)
        whole = baselines.Baselines(tmp_path / "kept", store)._whole(recipe, 0)
        assert whole == {"tfidf": {"test": {"accuracy": 0.5}}}
        assert Fitted.made == made


def test_the_model_is_saved_again_when_it_was_fitted_on_other_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baselines, "read_source", source)
    monkeypatch.setattr(Fitted, "facts", {**Fitted.facts, "tested": True, "seconds": 1.0})
    all_rows, some = make_recipe(RECIPE), make_recipe({**RECIPE, "data": {**RECIPE["data"], "limit": 5}})
    kept = tmp_path / "kept"

    def saved(recipe: Any) -> int:
        """In a sitting of its own."""
        (row,) = baselines.Baselines(kept, SharedStore(tmp_path / "shared")).rows(recipe, 0, METRICS["accuracy"])
        assert (row["test_mean"], row["model_directory"]) == (0.5, "kept/tfidf")
        return Fitted.saved

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
        (
            RunEntry(name=f"r-{i}", setting=f"s-{i}"),
            Run(tmp_path, Manifest(seed=0), Metrics.model_validate({"baselines": {"tfidf": {"test": s}}})),
        )
        for i, s in enumerate(scores)
    ]

    def told(mean: float) -> dict[str, Any]:
        row = {"setting": "tfidf", "baseline": True, "metric": "accuracy", "test_mean": mean}
        facts = {"table": [row], "baselines": {"tfidf": {"test": scores[1]}}}
        setting = compare(Study(tmp_path, StudyRecord.model_validate(facts), runs)).setting("tfidf")  # type: ignore[arg-type]
        assert setting is not None
        return setting.runs[0].scores("test").written

    assert told(0.9) == scores[0]
    assert told(0.6) == scores[1]
    assert told(0.7) == {"accuracy": 0.7}


@pytest.mark.parametrize(("metric", "tested"), [("auto", True), ("next_sentence_accuracy", False)])
def test_word_frequencies_stand_beside_a_model_of_words(metric: str, tested: bool, tmp_path: Path) -> None:
    """Each run judges them, since they depend on its tokenizer, and the study tests them on the same rows; by a metric
    of which they say nothing there is no such baseline."""
    corpus = write_text(tmp_path / "corpus.txt", documents(60))
    recipe = corpus_recipe(corpus, {"kind": "mask"}, steps=2, mark_steps=2, checkpoint_seconds=60)
    recipe = recipe.model_copy(update={"evaluation": recipe.evaluation.model_copy(update={"metric": metric})})
    out = tmp_path / "study"
    run_study(plan_recipe(recipe, "words", range(2)), out, quiet=True)
    statistics = json.loads((out / "statistics.json").read_text())
    assert statistics["chosen"] == "words"
    assert ("word-frequencies" in statistics["settings"]) == tested
    c = compare(read_study(out))
    made = card(c)
    assert made is not None
    said = " ".join(f"{what} {text}" for what, text, _ in made.lines)
    if not tested:
        assert "There is no baseline to compare with." in said
        return
    run = c.runs[0]
    loss = run.baseline("word-frequencies").scores("dev").number("masked_word_loss")
    assert loss == pytest.approx(run.scores("dev").number("unigram_loss"))
    about = statistics["settings"]["word-frequencies"]
    assert (about["baseline"], about["random"]) == (True, False)
    assert about["expected"]["mean"] == pytest.approx(loss)
    (row,) = statistics["comparisons"]
    assert (row["a"], row["b"], row["better"]) == ("words", "word-frequencies", "b")  # two steps teach nothing
    assert made.title == "words is not good enough yet"
    assert made.note.endswith("guessing by word frequency is shown to be better")
    assert "guessing by word frequency is shown to be better on dev, by " in said
    assert "ready to use" not in said
    shown = next(row.cells for row in glance_at_study(c).table.rows if row.role == "baseline")
    assert shown[:2] == ("guessing by word frequency", f"{loss:.3f}")


def test_no_baselines_where_none_are_wanted(tmp_path: Path) -> None:
    recipe = corpus_recipe(write_text(tmp_path / "corpus.txt"), {"kind": "mask"}, steps=1, mark_steps=1)
    recipe = recipe.model_copy(update={"evaluation": recipe.evaluation.model_copy(update={"baselines": False})})
    run_study(plan_recipe(recipe, "words", range(1)), tmp_path / "study", quiet=True)
    assert "baselines" not in json.loads((tmp_path / "study/runs/words-seed0/metrics.json").read_text())
    assert set(json.loads((tmp_path / "study/statistics.json").read_text())["settings"]) == {"words"}
