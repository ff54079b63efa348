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

from heedful.checkpoints.directory import Checkpoint, write_model
from heedful.checkpoints.families import FAMILIES
from heedful.checkpoints.heads import NewHead, make_head
from heedful.models.shape import Head, Shape
from heedful.models.transformer import Transformer
from heedful.recipes.reading import make_recipe
from heedful.recipes.schema import Recipe
from heedful.streams import seed_of
from heedful.text.tokenizer import Tokenizer
from heedful.text.training import train_bpe, train_wordpiece

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


FAMILY_CHANGES: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {"segments": 1, "norm_eps": 1e-5, "pad_id": 1},
    "distilbert": {"segments": 0, "pooler": False, "attention_output_dropout": 0.0, "head_dropout": 0.2},
    "roformer": {},
    "gpt2": {"segments": 0, "pooler": False, "pad_id": None, "activation": "gelu_new", "norm_eps": 1e-5,
             "head_dropout": 0.0},
}  # fmt: skip
"""What makes the tiny shape one of each family's."""


@cache
def _tokenizer(folder: Path, family: str, words: tuple[str, ...]) -> Tokenizer:
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join([*(text for text, _ in sentences(150, seed=9)), *words]) + "\n")
    if family in ("roberta", "gpt2"):
        return train_bpe([corpus], 320, family=family)
    return train_wordpiece([corpus], 180, family=FAMILIES[family].tokens)


def tokenizer_in(folder: Path, family: str = "bert", words: Sequence[str] = WORDS * 2) -> Tokenizer:
    folder.mkdir(parents=True, exist_ok=True)
    return _tokenizer(folder, family, tuple(words))


def tiny_shape(vocabulary: int, **changes: Any) -> Shape:
    sizes: dict[str, Any] = {
        "vocabulary": vocabulary, "width": 16, "layers": 2, "heads": 2, "inner": 24, "positions": 40,
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
    tokenizer = tokenizer_in(folder, family)
    transformer = _pretrained(tokenizer, family, **changes)
    transformer.initialise(torch.Generator().manual_seed(3))
    write_model(folder / "tiny", Checkpoint(transformer, family, tokenizer))
    return folder / "tiny"


def write_family(folder: Path, family: str) -> Path:
    """A tiny model of this family with formula weights, so that no generator's stream is part of the file."""
    tokenizer = tokenizer_in(folder, family, (*GOOD, *BAD, *THINGS))
    transformer = _pretrained(tokenizer, family)
    with torch.no_grad():
        for name, p in transformer.named_parameters():
            wave = torch.sin(torch.arange(p.numel(), dtype=torch.float64) * 0.7 + seed_of(name) % 1000)
            p.copy_((0.2 * wave).reshape(p.shape) + (1.0 if "norm.weight" in name else 0.0))
    write_model(folder / family, Checkpoint(transformer, family, tokenizer))
    return folder / family


def _pretrained(tokenizer: Tokenizer, family: str, **changes: Any) -> Transformer:
    """With the head that it was pretrained with, and no weights yet."""
    shape = tiny_shape(tokenizer.size, **{**FAMILIES[family].fixed, **FAMILY_CHANGES[family], **changes})
    kind, name = ("language-model", "causal") if family == "gpt2" else ("masked-word", "mask")
    return Transformer(shape, {name: make_head(FAMILIES[family], shape, NewHead(kind))})  # type: ignore[arg-type]


DEFAULTS: dict[str, Any] = {
    "epochs": 3, "batch_size": 8, "lr": 2e-3, "max_length": 32, "threads": 1, "device": "cpu", "checkpoint_seconds": 0,
}  # fmt: skip


SOLVED = ("max_length", "threads", "device")
"""Those of them that mean something where a head is solved."""
HOW: dict[str, dict[str, Any]] = {"frozen": {"method": "frozen", "solve": False}, "solved": {"method": "frozen"}}
"""A frozen body with a head that is trained step by step, or solved."""


def tiny_recipe(where: Path, files: Mapping[str, Any], how: str = "full", /, **tables: Mapping[str, Any]) -> Recipe:
    """`tables` add to or replace keys of the recipe's tables."""
    content: dict[str, Any] = {
        "model": {"name": str(where)},
        "data": dict(files),
        "tuning": dict(HOW.get(how, {"method": how})),
        "training": {k: v for k, v in DEFAULTS.items() if how not in ("solved", "cosine") or k in SOLVED},
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
def forkserver() -> Any:
    """Children are forked from a process that has imported everything and computed nothing: they start at once."""
    context = multiprocessing.get_context("forkserver")
    late = ["torch._dynamo", "scipy.optimize", "safetensors.torch"]  # imported by what is called, when it is called
    context.set_forkserver_preload(["heedful.training.run", "heedful.recipes.reading", *late])
    return context


class Child:
    def __init__(self, recipe: Recipe, seed: int, directory: Path) -> None:
        content = recipe.model_dump(exclude_none=True)
        self.process = forkserver().Process(target=run_in_child, args=(content, seed, str(directory)))
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
    measured = manifest["cost"].pop("prediction_seconds")  # not every objective predicts texts
    assert measured is None or measured > 0
    return {
        "manifest": manifest,
        "metrics": (directory / "metrics.json").read_text(),
        "log": (directory / "log.jsonl").read_text(),
        "predictions": {p.name: p.read_text() for p in sorted((directory / "predictions").iterdir())},
        "values": {p.name: p.read_text() for p in sorted((directory / "values").iterdir())},
        "model": {
            str(p.relative_to(directory)): p.read_bytes()
            for p in sorted((directory / "model").rglob("*"))
            if p.is_file()
        },
        "names": sorted(p.name for p in directory.iterdir()),
    }


def assert_same_run(a: Path, b: Path, but_for: Sequence[str] = ()) -> None:
    """Equal to the bit, whatever happened on the way; `but_for`: keys of the manifest that may differ."""
    ours, other = everything_left(a), everything_left(b)
    for key in but_for:
        ours["manifest"].pop(key), other["manifest"].pop(key)
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
