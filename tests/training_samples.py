"""A tiny task, a tiny model with a vocabulary of its own, and runs of them in processes that can be killed."""

import csv
import json
import multiprocessing
import os
import random
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from heedful.checkpoints.config import make_head
from heedful.checkpoints.directory import Checkpoint, write_model
from heedful.checkpoints.families import FAMILIES
from heedful.models.shape import Head, Shape
from heedful.models.transformer import Transformer
from heedful.recipes.reading import make_recipe
from heedful.recipes.schema import Recipe
from heedful.text.tokenizer import Tokenizer
from heedful.text.training import train_wordpiece

GOOD = ("a gem", "warm", "bright and moving", "lovely", "a joy to see", "clever", "tender")
BAD = ("a bore", "cold", "dull and loud", "ugly", "a pain to sit through", "stupid", "hollow")
THINGS = ("film", "story", "cast", "score", "ending", "opening scene", "long middle part that goes on and on")
WORDS = " ".join([*GOOD, *BAD, *THINGS]).split()


def sentences(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Different texts of many lengths, with their labels."""
    made: dict[str, str] = {}
    draw = random.Random(seed)
    while len(made) < count:
        label = draw.choice(("bad", "good"))
        said = draw.choice(GOOD if label == "good" else BAD)
        text = " ".join([*draw.choices(THINGS, k=draw.randint(1, 3)), said, str(draw.randint(0, 9))])
        made.setdefault(text, label)
    return list(made.items())


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def write_data(folder: Path, train: int = 40, dev: int = 12, test: int = 12) -> dict[str, str]:
    """Three files; returns the data table of a recipe for them."""
    folder.mkdir(parents=True, exist_ok=True)
    every = sentences(train + dev + test)
    parts = {"train": every[:train], "dev": every[train : train + dev], "test": every[train + dev :]}
    for split, rows in parts.items():
        write_csv(folder / f"{split}.csv", ("text", "label"), rows)
    return {**{split: str(folder / f"{split}.csv") for split in parts}, "text": "text", "label": "label"}


@cache
def _tokenizer(folder: Path) -> Tokenizer:
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join([*(text for text, _ in sentences(150, seed=9)), *WORDS * 2]) + "\n")
    return train_wordpiece([corpus], 180)


def tokenizer_in(folder: Path) -> Tokenizer:
    folder.mkdir(parents=True, exist_ok=True)
    return _tokenizer(folder)


def tiny_shape(vocabulary: int, **changes: Any) -> Shape:
    sizes: dict[str, Any] = {
        "family": "bert", "vocabulary": vocabulary, "width": 16, "layers": 2, "heads": 2, "inner": 24, "positions": 40,
        "segments": 2, "pooler": True, "initializer_range": 0.2,
    }  # fmt: skip
    return Shape(**{**sizes, **changes})


def tiny_model(folder: Path, classes: int = 2, reads: str = "pooled", **changes: Any) -> tuple[Transformer, Tokenizer]:
    tokenizer = tokenizer_in(folder)
    shape = tiny_shape(tokenizer.size, **changes)
    transformer = Transformer(shape, {"classify": Head("linear", reads, classes)})  # type: ignore[arg-type]
    transformer.initialise(torch.Generator().manual_seed(3))
    return transformer, tokenizer


def write_tiny(folder: Path, family: str = "bert", **changes: Any) -> Path:
    """A model directory without a classifier, as one would find it."""
    tokenizer = tokenizer_in(folder)
    shape = tiny_shape(tokenizer.size, **changes)
    assert family == "bert"
    head = make_head(FAMILIES[family], "masked-word", shape, 0)
    transformer = Transformer(shape, {"mask": head})
    transformer.initialise(torch.Generator().manual_seed(3))
    directory = folder / "tiny"
    write_model(directory, Checkpoint(transformer, tokenizer))
    return directory


DEFAULTS: dict[str, Any] = {
    "epochs": 3, "batch_size": 8, "lr": 2e-3, "max_length": 32, "threads": 1, "device": "cpu", "checkpoint_seconds": 0,
}  # fmt: skip


def tiny_recipe(where: Path, files: Mapping[str, Any], method: str = "full", /, **tables: Mapping[str, Any]) -> Recipe:
    """`tables` add to or replace keys of the recipe's tables."""
    content: dict[str, Any] = {
        "model": {"name": str(where)},
        "data": dict(files),
        "tuning": {"method": method},
        "training": dict(DEFAULTS),
        "evaluation": {"baselines": False},
    }
    for table, keys in tables.items():
        content.setdefault(table, {}).update(keys)
    return make_recipe(content)


def run_in_child(recipe: dict[str, Any], seed: int, directory: str) -> None:
    from heedful.training.run import execute

    sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 (until the process ends)
    execute(make_recipe(recipe), seed, Path(directory), command="test", quiet=True)


@cache
def _server() -> Any:
    """Children are forked from a process that has imported everything and computed nothing: they start at once."""
    context = multiprocessing.get_context("forkserver")
    late = ["torch._dynamo", "scipy.optimize", "safetensors.torch"]  # imported by what is called, when it is called
    context.set_forkserver_preload(["heedful.training.run", "heedful.recipes.reading", *late])
    return context


class Child:
    def __init__(self, recipe: Recipe, seed: int, directory: Path) -> None:
        content = recipe.model_dump(exclude_none=True)
        self.process = _server().Process(target=run_in_child, args=(content, seed, str(directory)))
        self.process.start()

    def kill(self) -> bool:
        """SIGKILL; False if it had ended before."""
        self.process.kill()
        self.process.join()
        self.killed = self.process.exitcode == -9
        return self.killed

    def finish(self) -> None:
        self.process.join(120)
        assert self.process.exitcode == 0, self.process.exitcode


TIMES = ("training_seconds", "total_seconds", "peak_memory_bytes")


def everything_left(directory: Path) -> dict[str, Any]:
    """What a finished run left, all but times and memory."""
    manifest = json.loads((directory / "manifest.json").read_text())
    for key in TIMES:
        assert manifest["cost"].pop(key) > 0
    return {
        "manifest": manifest,
        "metrics": (directory / "metrics.json").read_text(),
        "log": (directory / "log.jsonl").read_text(),
        "predictions": {p.name: p.read_text() for p in sorted((directory / "predictions").iterdir())},
        "model": {p.name: p.read_bytes() for p in sorted((directory / "model").iterdir())},
        "names": sorted(p.name for p in directory.iterdir()),
    }


def assert_same_run(a: Path, b: Path) -> None:
    """Equal to the bit, whatever happened on the way."""
    ours, other = everything_left(a), everything_left(b)
    weights, others = load_file(a / "model/model.safetensors"), load_file(b / "model/model.safetensors")
    differ = [n for n, w in weights.items() if not torch.equal(w, others[n])]
    assert not differ
    for part, value in ours.items():
        assert value == other[part], part


def read_log(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines()]


def read_tsv(path: Path) -> tuple[list[str], list[list[str]]]:
    header, *rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return header, rows
