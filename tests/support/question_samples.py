"""Questions about made-up people: eight answers of which every figure is known, and files for a tiny model."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from heedful.data.records import Questions
from heedful.probes.knowledge.ask import Said
from heedful.probes.knowledge.material import Material
from heedful.probes.knowledge.names import KnownNames, KnownText
from heedful.probes.knowledge.spelling import Spelling, spelling_of
from heedful.recipes.reading import make_recipe
from heedful.recipes.schema import Recipe
from heedful.text.tokenizer import Tokenizer
from heedful.text.training import train_on_texts

TRAIN = {"Ada Ray": "Rome", "Ada Fox": "Oslo", "Bo Lund": "Rome", "Cy Moss": "Lima", "Di Moss": "Rome"}
LINES = (
    "Eve Ray. Eve Ray was born in Oslo.",
    "Kim Fox. Kim Fox, a painter, lives in Paris.",
    "Lee Lund. Lee Lund comes from Londonderry.",
    "J. R. Moss. J. R. Moss was born in Rome.",
)
ASKED = (
    ("Eve Ray", "Oslo", "Oslo", 0.9),  # right; in the line
    ("Kim Fox", "Rome", "Paris", 0.8),  # wrong, but a word of the text; the line lacks the true answer
    ("Lee Lund", "London", "Rome", 0.7),  # the answer of Bo Lund; London is not in Londonderry, nor a training answer
    ("J. R. Moss", "Rome", "Rome", 0.95),  # right; in the line
    ("Ada Moss", "Lima", "Rome", 0.6),  # nobody knows the name; the answer of Di Moss
    ("Zed Quill", "Rome", "Rome", 0.5),  # nobody knows the name; right
    ("Ada Ray", "Rome", "Xanadu", 0.4),  # a training question; made up
    ("Uma Fox", "Oslo", "", 0.3),  # nobody knows the name; nothing is said
)
"""The name, the true answer, what is said, and how surely."""
PLACES = ("Rome", "Oslo", "Lima", "New York")
NAMES = [f"{first} {last}" for first in ("Ada", "Bo", "Cy", "Di", "Eli") for last in ("Ray", "Fox", "Lund", "Moss")]


def born(name: str) -> str:
    return f"Where was {name} born?"


def questions(pairs: dict[str, str]) -> Questions:
    return Questions([born(name) for name in pairs], list(pairs.values()), list(range(1, len(pairs) + 1)))


def known_material(with_text: bool = True, with_train: bool = True) -> Material:
    train = questions(TRAIN) if with_train else None
    return Material(
        "people.tsv",
        questions({name: answer for name, answer, _, _ in ASKED}),
        "train.tsv" if with_train else "",
        train,
        KnownText("lines.txt", LINES) if with_text else None,
        names=None if train is None else KnownNames(train),
    )


def known_answers(**options: bool) -> Said:
    texts, confidence = tuple(said for _, _, said, _ in ASKED), np.array([[sure for _, _, _, sure in ASKED]])
    material = known_material(**options)
    return Said("known", False, ("",), material, (texts,), confidence, (to_the_letter(material),))


def to_the_letter(material: Material) -> Spelling:
    """That of a tokenizer that spells everything as it is written."""
    return spelling_of(byte_tokenizer(), material)


@cache
def byte_tokenizer() -> Tokenizer:
    return train_on_texts(LINES, "bpe", 300, "gpt2")


def write_people(folder: Path, asked_from: int = 10) -> dict[str, Any]:
    """Fourteen people to train on, and those from a number on, six of them others, to ask about; a line about each.
    Returns the data table of a recipe."""
    folder.mkdir(parents=True, exist_ok=True)
    of = {name: PLACES[i * 7 % 4] for i, name in enumerate(NAMES)}
    asked = [f"{born(name)}\t{place}\n" for name, place in of.items()]
    (folder / "train.tsv").write_text("".join(asked[:14]))
    (folder / "dev.tsv").write_text("".join(asked[asked_from:]))
    lines = [f"{name}. {name}, a painter, was born in {place} long ago.\n" for name, place in of.items()]
    (folder / "text.txt").write_text("".join(lines))
    return {"train": str(folder / "train.tsv"), "dev": str(folder / "dev.tsv"), "corpus": str(folder / "text.txt")}


SMALL = {"shape": "gpt-mini", "layers": 2, "width": 32, "heads": 2, "attention": "rotary", "body_dropout": 0.0}
WORDS = {"kind": "bpe", "size": 400, "prefix_space": True}
"""The tables [model] and [tokenizer] of a model that learns these questions in seconds."""


def answer_recipe(data: dict[str, Any], steps: int = 60) -> Recipe:
    return make_recipe(
        {
            "model": SMALL,
            "tokenizer": WORDS,
            "data": data,
            "objective": {"kind": "answer", "reading": 0.25, "answer_tokens": 8},
            "training": {
                "steps": steps,
                "mark_steps": steps,
                "batch_size": 16,
                "lr": 5e-3,
                "max_length": 64,
                "threads": 1,
                "device": "cpu",
            },
        }
    )
