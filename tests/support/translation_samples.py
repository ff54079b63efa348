"""Words in Pig Latin, and a small recipe for every kind of model that can learn them."""

import random
from pathlib import Path
from typing import Any

import torch

from heedful.data.pig_latin import translate_word
from heedful.recipes.reading import make_recipe
from heedful.recipes.schema import Recipe
from heedful.storage.shared import SharedStore
from heedful.training.assembly import Assembly, assemble, read_source
from tests.support.corpus_samples import alone
from tests.support.training_samples import write_csv, write_tiny

KINDS = ("encoder-decoder", "recurrent", "decoder-only", "bert-fused")
SIZES: dict[str, dict[str, Any]] = {
    "encoder-decoder": {"layers": 1, "width": 16, "heads": 2},
    "recurrent": {"width": 16},
    "decoder-only": {"layers": 2, "width": 16, "heads": 2},
    "bert-fused": {"layers": 1, "width": 16, "heads": 2},
}


def words(count: int, seed: int = 0) -> list[str]:
    draw, made = random.Random(seed), dict[str, None]()
    while len(made) < count:
        made["".join(draw.choice("abdost") for _ in range(draw.randint(1, 6)))] = None
    return list(made)


def write_words(folder: Path, train: int = 30, dev: int = 8, test: int = 8) -> dict[str, str]:
    """Three files; the data table of a recipe for them."""
    folder.mkdir(parents=True, exist_ok=True)
    every = [(word, translate_word(word)) for word in words(train + dev + test)]
    parts = {"train": every[:train], "dev": every[train : train + dev], "test": every[train + dev :]}
    for split, rows in parts.items():
        write_csv(folder / f"{split}.csv", ("plain", "pig"), rows)
    return {**{split: str(folder / f"{split}.csv") for split in parts}, "source": "plain", "target": "pig"}


TRAINING: dict[str, Any] = {
    "epochs": 3, "batch_size": 8, "lr": 5e-3, "max_length": 16, "threads": 1, "device": "cpu", "checkpoint_seconds": 0,
}  # fmt: skip


def translation(kind: str, folder: Path, **tables: Any) -> Recipe:
    """`tables` add to or replace keys of the recipe's tables; those that are None are left out."""
    content: dict[str, Any] = {
        "model": {"kind": kind, **SIZES[kind]},
        "tokenizer": {"kind": "characters"},
        "data": write_words(folder / "words"),
        "objective": {"kind": "translate"},
        "training": dict(TRAINING),
    }
    if kind == "bert-fused":
        content["model"]["bert"] = str(folder / "bert/tiny")
        if not (folder / "bert/tiny").is_dir():
            write_tiny(folder / "bert")
    for table, keys in tables.items():
        if keys is None:
            content.pop(table)
        else:
            content.setdefault(table, {}).update(keys)
    content = {table: {k: v for k, v in keys.items() if v is not None} for table, keys in content.items()}
    return make_recipe(content)


def without_dropout(kind: str) -> dict[str, Any]:
    return {"body_dropout": 0.0, **({"drop_net": 0.0} if kind == "bert-fused" else {})}


def assembled(recipe: Recipe, folder: Path, seed: int = 7) -> Assembly:
    store = SharedStore(folder)
    return assemble(read_source(recipe, seed, store), store)


def gradients(parts: Assembly, accumulate: int = 1, number: int = 0) -> tuple[float, dict[str, torch.Tensor]]:
    """What a step logs, and the gradient of every weight."""
    objective, module = parts.objective, parts.checkpoint.module
    module.zero_grad()
    step, logged = parts.sampler.step(number, 0.0), 0.0
    for partial in objective.losses(parts.tuning.reader, step, objective.counts(step), alone(accumulate)):
        partial.loss.backward()  # type: ignore[no-untyped-call]
        logged += float(sum(map(float, partial.terms.values())))
    return logged, {n: p.grad.clone() for n, p in module.named_parameters() if p.grad is not None}


def furthest(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    assert a.keys() == b.keys()
    return max(float((a[name] - b[name]).abs().max()) for name in a)
