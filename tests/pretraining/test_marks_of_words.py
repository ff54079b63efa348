"""Marks of runs that learn words: each is a model that gives what the log says of it, whatever happened on the way."""

import random
import time
from pathlib import Path
from typing import Any

import pytest

from heedful.building.body import BodyTable, Recipe
from heedful.storage.shared import SharedStore
from heedful.training.assembly import assemble, read_source
from heedful.training.run import execute
from tests.support.corpus_samples import corpus_recipe, write_text
from tests.support.killing import step_on_disk
from tests.support.question_samples import write_people
from tests.support.training_samples import Child, read_log

SEED = 7
STEPS = [5, 10, 12]
GPT = {"shape": "gpt-mini", "layers": 2, "width": 32, "heads": 2, "positions": 256, "attention": "rotary"}
BPE = {"kind": "bpe", "size": 300}
KINDS: dict[str, dict[str, Any]] = {
    "mask": {},
    "causal": {"model": GPT, "tokenizer": BPE},
    "span": {"model": GPT, "tokenizer": {"kind": "characters", "size": None}, "max_length": 96},
    "answer": {"model": GPT, "tokenizer": {**BPE, "prefix_space": True}, "max_length": 64},
}


def recipe_for(kind: str, folder: Path) -> Recipe:
    corpus, changes = folder / "corpus.txt", dict(KINDS[kind])
    if not corpus.exists():
        write_text(corpus)
    if kind == "answer":
        changes["data"] = {**write_people(folder / "people"), "dev_share": None}
    return corpus_recipe(corpus, {"kind": kind}, keep="last", keep_marks=True, **changes)


def files_of(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_mark_gives_what_the_log_says_of_it(kind: str, tmp_path: Path) -> None:
    recipe = recipe_for(kind, tmp_path)
    execute(recipe, SEED, tmp_path / "run", quiet=True)
    said = {line["step"]: line["dev"] for line in read_log(tmp_path / "run") if "dev" in line}
    assert list(said) == STEPS
    assert len({str(line) for line in said.values()}) == len(STEPS)
    assert all(any(name.endswith("loss") and name != "unigram_loss" for name in line) for line in said.values())
    assert sorted(p.name for p in (tmp_path / "run/marks").iterdir()) == [f"{step:08}" for step in STEPS]
    store = SharedStore(tmp_path / "shared")
    for step, expected in said.items():
        model = BodyTable(name=str(tmp_path / f"run/marks/{step:08}"))
        there = recipe.model_copy(update={"model": model, "tokenizer": None})
        parts = assemble(read_source(there, SEED, store), store)
        assert parts.checkpoint.sources
        assert "new" not in parts.checkpoint.sources.values()
        parts.tuning.train(False)
        judged = parts.evaluator.evaluate(parts.tuning.reader, parts.inputs, "dev").metrics
        assert {name: judged[name] for name in expected} == pytest.approx(expected, rel=1e-6), step


@pytest.mark.parametrize("kind", KINDS)
def test_killed_and_resumed_it_leaves_the_same_marks(kind: str, tmp_path: Path) -> None:
    recipe, directory, draw = recipe_for(kind, tmp_path), tmp_path / "killed", random.Random(3)
    execute(recipe, SEED, tmp_path / "whole", command="test", quiet=True)
    kills = 0
    for goal in (4, 9, 11):
        child = Child(recipe, SEED, directory)
        while child.process.is_alive() and step_on_disk(directory) < goal:
            time.sleep(0.0005)
        time.sleep(draw.uniform(0, 0.02))
        kills += child.kill()
    assert kills
    Child(recipe, SEED, directory).finish()
    assert files_of(directory / "marks") == files_of(tmp_path / "whole/marks")
    assert files_of(directory / "model") == files_of(tmp_path / "whole/model")
