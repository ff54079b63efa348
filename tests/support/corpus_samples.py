"""A small corpus of documents whose words tell which document they are from, and recipes that learn from it."""

import random
from pathlib import Path
from typing import Any

from torch import Tensor

from heedful.inputs.word_rows import Row, WordInputs
from heedful.objectives.protocol import StepContext
from heedful.recipes.reading import make_recipe
from heedful.recipes.schema import Recipe
from heedful.streams import Parts
from heedful.training.assembly import Assembly

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


def row_of(inputs: WordInputs, name: str, number: int, epoch: int | str) -> Row:
    """A row of a set in an epoch."""
    return inputs.row(inputs.rows[name], name, number, epoch)


def alone(parts: int = 1) -> StepContext:
    """A step in so many parts, all of them in one process that draws nothing."""
    return StepContext(Parts(parts), lambda part: None, lambda rows: rows)


def loss_and_gradients(parts: Assembly, steps: int, accumulate: int) -> tuple[float, dict[str, Tensor]]:
    """Of an objective of words: the sum over steps, in so many parts each."""
    objective, model, loss = parts.objective, parts.tuning.transformer, 0.0
    model.zero_grad()
    for number in range(steps):
        step = parts.sampler.step(number, 0.0)
        counts = objective.counts(step)
        for one in objective.losses(parts.tuning.reader, step, counts, alone(accumulate)):
            one.loss.backward()
            loss += one.loss.item()
    return loss, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_packed_is_unpacked(with_padding: Assembly, packed: Assembly) -> None:
    """Loss and gradients of two assemblies that differ in `pack`; in double precision."""
    for parts in (with_padding, packed):
        parts.tuning.transformer.double()
    inputs = packed.inputs
    assert isinstance(inputs, WordInputs)
    rows = [row_of(inputs, "train", n, 0) for n in range(len(inputs.rows["train"]))]
    assert len(inputs.layout.collate(rows, packed.device).batch.ids_bt) < len(rows)  # some share a row
    expected_loss, expected = loss_and_gradients(with_padding, 2, 1)
    assert max(gradient.abs().max() for gradient in expected.values()) > 1e-3  # or the comparison says nothing
    for accumulate in (1, 3):
        loss, found = loss_and_gradients(packed, 2, accumulate)
        assert abs(loss - expected_loss) < 1e-10
        assert found.keys() == expected.keys()
        for name, gradient in expected.items():
            assert (found[name] - gradient).abs().max() < 1e-10, name
