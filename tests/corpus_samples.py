"""A small corpus of documents whose words tell which document they are from, and recipes that learn from it."""

import random
from pathlib import Path
from typing import Any

from heedful.recipes.reading import make_recipe
from heedful.recipes.schema import Recipe

NOUNS = ("river", "lantern", "sparrow", "kettle", "harbour", "violin", "meadow", "compass", "orchard", "thimble")
VERBS = ("wakes", "follows", "answers", "paints", "forgets", "measures")
DEFAULTS: dict[str, Any] = {
    "steps": 12, "batch_size": 6, "lr": 2e-3, "max_length": 32, "threads": 1, "device": "cpu", "checkpoint_seconds": 0,
    "mark_steps": 5,
}  # fmt: skip


def documents(count: int = 24, sentences: int = 6, seed: int = 0) -> list[list[str]]:
    """Of each document its sentences; each has its document's number in it, and its own."""
    draw = random.Random(seed)
    return [
        [
            f"The {draw.choice(NOUNS)} {draw.choice(VERBS)} the {draw.choice(NOUNS)} {document} "
            f"{'very ' * draw.randint(0, 6)}well{sentence}."
            for sentence in range(draw.randint(1, sentences))
        ]
        for document in range(count)
    ]


def write_text(path: Path, made: list[list[str]] | None = None, between: str = "\n\n", within: str = " ") -> Path:
    path.write_text(between.join(within.join(sentences) for sentences in made or documents()) + "\n", encoding="utf-8")
    return path


def corpus_recipe(corpus: Path, objective: dict[str, Any], **training: Any) -> Recipe:
    """`training` holds keys of [training]; under "model", "tokenizer" and "data" changes of those tables, None to leave
    a key or a table out."""
    tables: dict[str, dict[str, Any]] = {
        "model": {"shape": "bert-tiny"},
        "tokenizer": {"kind": "wordpiece", "size": 300},
        "data": {"corpus": str(corpus), "dev_share": 0.2},
    }
    content: dict[str, Any] = {"objective": objective}
    for name, table in tables.items():
        changes = training.pop(name, {})
        if changes is not None:
            content[name] = {key: value for key, value in {**table, **changes}.items() if value is not None}
    return make_recipe({**content, "training": {**DEFAULTS, **training}})
