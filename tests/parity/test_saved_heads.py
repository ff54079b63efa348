"""Promise 5: what a run saves opens in the peer with equal probabilities, calibration included, or with its classifier
reported as missing. It never answers otherwise without a word."""

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import heedful
from heedful.checkpoints.directory import write_model
from heedful.errors import RequestError
from heedful.recipes.schema import Recipe
from heedful.storage.shared import SharedStore
from heedful.training.assembly import assemble, read_source
from heedful.tuning.protocol import DevScore
from tests.support.training_samples import sentences, tiny_recipe, write_csv, write_family

TOLERANCE = 1e-5
FAMILIES = ("bert", "roberta", "distilbert", "gpt2", "roformer")
METHODS = ("solved", "frozen", "full")
"""Of `tiny_recipe`: a head that is solved, one that is trained by steps, and every weight."""
NATIVE = {
    "bert": ("linear", "cls"),
    "roberta": ("two-layer", "first"),
    "distilbert": ("two-layer", "first"),
    "gpt2": ("linear", "last"),
    "roformer": ("two-layer", "first"),
}
"""The one classifier that the peer has for each family: its kind, and which state it reads."""
NO_POOLER = ("distilbert", "gpt2")


@dataclass(frozen=True)
class Variant:
    """A way to make a head, over which families and methods are crossed."""

    name: str
    model: dict[str, Any] = field(default_factory=dict)
    """Keys of [model]."""
    training: dict[str, Any] = field(default_factory=dict)
    data: str = "texts"
    """Which file of `data_files`."""
    native: bool = True
    """Whether it is the peer's own head if kind and state are; False: never."""


POOLINGS = ("cls", "first", "mean", "max", "last")
VARIANTS = [
    *(Variant(f"{head}-{pooling}", {"head": head, "pooling": pooling})
      for head in ("linear", "two-layer") for pooling in POOLINGS),
    Variant("default"),
    Variant("chunked", {"head": "linear"}, {"long_texts": "chunk", "max_length": 10}, native=False),
    Variant("pairs", {"head": "linear", "pooling": "cls", "pairs": "joint"}, data="pairs"),
    Variant("towers", {"head": "linear", "pairs": "towers"}, data="pairs", native=False),
    Variant("score", {"head": "two-layer", "pooling": "first"}, data="score"),
]  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("heads")
    files = data_files(folder)
    return {"files": files, "texts": sentences(6, seed=4)} | {f: write_family(folder / f, f) for f in FAMILIES}


def data_files(folder: Path) -> dict[str, dict[str, str]]:
    some = [text for text, _ in sentences(24, seed=1)]
    columns = {
        "texts": [(a, "", ("no", "yes", "perhaps")[i % 3]) for i, a in enumerate(some)],
        "pairs": [(a, b, ("no", "yes")[i % 2]) for i, (a, b) in enumerate(zip(some, some[::-1], strict=True))],
        "score": [(a, "", i * 0.37) for i, a in enumerate(some)],
    }
    files = {}
    for name, rows in columns.items():
        write_csv(folder / f"{name}.csv", ("one", "two", "label"), rows[:16])
        write_csv(folder / f"{name}-dev.csv", ("one", "two", "label"), rows[16:])
        paths = {"train": str(folder / f"{name}.csv"), "dev": str(folder / f"{name}-dev.csv")}
        pair = {"pair": "two"} if name == "pairs" else {}
        files[name] = {
            **paths,
            "text": "one",
            "label": "label",
            **pair,
            "kind": "score" if name == "score" else "classes",
        }
    return files


def save(recipe: Recipe, directory: Path) -> None:
    """As a run does, but for the steps of the optimiser."""
    store = SharedStore(directory.parent / "store")
    parts = assemble(read_source(recipe, 7, store), store)
    if parts.tuning.solve is not None:
        parts.tuning.solve(parts.objective, parts.inputs.everything(), lambda facts: DevScore(0.0, 0.0))
    parts.tuning.train(False)
    parts.evaluator.calibrate(parts.tuning.reader, parts.inputs)
    parts.tuning.finish(1.0)
    parts.objective.finish(parts.checkpoint)
    write_model(directory, parts.checkpoint)


def cases() -> list[Any]:
    """Every family × method × variant. The default tier leaves out what differs from another in a word alone: heads of
    a kind that the peer does not have, and for a body that does not move the states that nobody reads by default."""
    made = []
    for family, method, variant in itertools.product(FAMILIES, METHODS, VARIANTS):
        head, state = (variant.model.get(key) for key in ("head", "pooling"))
        alike = head not in (None, NATIVE[family][0]) and variant.name != "linear-mean"
        alike |= method != "full" and state not in (None, "mean", NATIVE[family][1])
        name = f"{family}-{method}-{variant.name}"
        made.append(pytest.param(family, method, variant, id=name, marks=[pytest.mark.full] if alike else []))
    return made


@pytest.mark.parametrize(("family", "method", "variant"), cases())
def test_equal_or_missing(family: str, method: str, variant: Variant, world: dict[str, Any], tmp_path: Path) -> None:
    model = {"head": "linear", **variant.model}
    data = world["files"][variant.data]
    recipe = tiny_recipe(world[family], data, method, model=variant.model, training=variant.training)
    if refused(family, model):
        with pytest.raises(RequestError):
            save(recipe, tmp_path / "model")
        return
    save(recipe, tmp_path / "model")
    ours = heedful.load(tmp_path / "model")
    head = ours.transformer.head_shapes["classify"]
    state = "cls" if head.reads == "pooled" else head.reads
    native = variant.native and (head.kind, state) == NATIVE[family]
    assert state == model.get("pooling", state)
    assert (head.temperature == 1.0) == (variant.data == "score")
    auto = transformers.AutoModelForSequenceClassification
    peer, info = auto.from_pretrained(tmp_path / "model", output_loading_info=True)
    prefix = peer.base_model_prefix
    classifier = {name for name, _ in peer.named_parameters() if not name.startswith(f"{prefix}.")}
    missing, unexpected = (
        {n for n in info[f"{what}_keys"] if "pooler." not in n} for what in ("missing", "unexpected")
    )
    assert missing == (set() if native else classifier)  # a pooler is the body's, which not every classifier reads
    assert not unexpected
    assert not info["mismatched_keys"]
    if native:
        texts = [text for text, _ in world["texts"]]
        rows = list(zip(texts, texts[::-1], strict=True)) if variant.data == "pairs" else texts
        found = ours.predict(rows)
        theirs = np.array([peer_answer(peer.eval(), ours, row) for row in rows])
        answers = found.scores[:, None] if found.scores is not None else found.probabilities
        np.testing.assert_allclose(answers, theirs, atol=TOLERANCE)
        assert np.ptp(answers, axis=0).max() > 10 * TOLERANCE


def refused(family: str, model: dict[str, Any]) -> bool:
    no_pooler = model.get("pooling") == "cls" and family in NO_POOLER
    return no_pooler or (model["head"] == "two-layer" and family == "gpt2")


def peer_answer(peer: Any, ours: Any, row: Any) -> list[float]:
    (tokens,) = ours.tokenizer.encode([row], ours.max_length)
    segments = {"token_type_ids": torch.tensor([tokens.segments])} if ours.shape.segments > 1 else {}
    with torch.no_grad():
        (scores,) = peer(torch.tensor([tokens.ids]), **segments).logits.double()
    return scores.tolist() if len(scores) == 1 else scores.softmax(-1).tolist()
