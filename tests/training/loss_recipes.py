"""The small recipes whose losses are kept in `losses/`: whatever is rebuilt, they may not move.

python -m tests.training.loss_recipes     writes the files anew, when a change is meant
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heedful.recipes.reading import make_recipe
from heedful.recipes.schema import Recipe
from heedful.training.run import execute
from tests.support.corpus_samples import corpus_recipe, write_text
from tests.support.question_samples import SMALL, WORDS, write_people
from tests.support.task_samples import tasks_recipe, write_tasks
from tests.support.training_samples import (
    FAMILY_CHANGES,
    read_log,
    sentences,
    tiny_recipe,
    write_csv,
    write_data,
    write_family,
)
from tests.support.translation_samples import KINDS, translation

FOLDER = Path(__file__).parent / "losses"


def loss_recipes(folder: Path) -> Iterator[tuple[str, Recipe]]:
    data = write_data(folder / "data")
    models = {family: write_family(folder / "models" / family, family) for family in FAMILY_CHANGES}
    bert = models["bert"]
    for family, model in models.items():
        calm = {"lr": 2e-4} if family == "gpt2" else {}  # its last bits grow to the fourth digit at the others' rate
        yield f"{family}-full", tiny_recipe(model, data, "full", training=calm)
        yield f"{family}-frozen", tiny_recipe(model, data, "frozen")
    rows = [(text, f"{sum(map(ord, text)) % 50 / 10}") for text, _ in sentences(60, seed=4)]
    scores = {"train": str(write_csv(folder / "scores.csv", ("text", "label"), rows)), "text": "text", "label": "label"}
    yield "scores-full", tiny_recipe(bert, {**scores, "kind": "score"}, "full")
    yield "scores-frozen", tiny_recipe(bert, {**scores, "kind": "score"}, "frozen")
    paired = [(a, b, "same" if x == y else "other") for (a, x), (b, y) in zip(*[iter(sentences(96, seed=5))] * 2)]  # noqa: B905
    pairs = {"train": str(write_csv(folder / "pairs.csv", ("a", "b", "label"), paired)), "text": "a", "pair": "b"}
    yield "pairs-full", tiny_recipe(bert, {**pairs, "label": "label"}, "full")
    chunks = {"max_length": 12, "long_texts": "chunk"}
    yield "chunks-full", tiny_recipe(bert, data, "full", training=chunks)
    yield "chunks-frozen", tiny_recipe(models["gpt2"], data, "frozen", training=chunks)
    yield "batch-tokens", tiny_recipe(bert, data, "full", training={"batch_tokens": 120})
    yield "accumulate", tiny_recipe(bert, data, "full", training={"accumulate": 3})
    for pooling in ("first", "mean", "max", "last"):
        yield f"pooling-{pooling}", tiny_recipe(bert, data, "full", model={"pooling": pooling})
    recurrent = {"pooling": "bilstm", "rnn_width": 6}
    yield "pooling-bilstm", tiny_recipe(bert, data, "full", model=recurrent)
    yield "pooling-cls-frozen", tiny_recipe(bert, data, "frozen", model={"pooling": "cls"})
    yield "two-layer-dropout", tiny_recipe(bert, data, "full", model={"head": "two-layer", "dropout": 0.3})
    bottleneck = {"reduction": 4, "dropout": 0.2}
    yield "adapter", tiny_recipe(bert, data, "adapter", tuning=bottleneck)
    yield "adapter-upper", tiny_recipe(models["roberta"], data, "adapter", tuning={**bottleneck, "layers": [-1]})
    yield "lora", tiny_recipe(models["distilbert"], data, "lora", tuning={"rank": 2, "dropout": 0.2})
    yield "bias", tiny_recipe(bert, data, "bias")
    moving = {"layer_decay": 0.8, "reinit_layers": 1}
    yield "layer-decay-reinit", tiny_recipe(bert, data, "full", tuning=moving, training={"schedule": "cosine"})
    loss = {"label_smoothing": 0.1, "class_weights": "balanced"}
    yield "smoothed-balanced", tiny_recipe(bert, data, "full", objective=loss, evaluation={"metric": "log_loss"})
    sizes = {"weight_decay": 0.2, "clip": 0.5, "patience": 1, "schedule": "constant"}
    yield "limit-early-stop", tiny_recipe(bert, {**data, "limit": 30, "redraw": True}, "full", training=sizes)

    yield from _of_words(folder)
    tables = write_tasks(folder / "tasks")
    for sampling in ("square-root", "annealed", "in-turn"):  # frozen, as their last bits grow otherwise
        yield f"tasks-{sampling}", tasks_recipe(bert, tables, "frozen", objective={"sampling": sampling})
    for kind in KINDS:
        yield f"translate-{kind}", translation(kind, folder / "translate")


def _of_words(folder: Path) -> Iterator[tuple[str, Recipe]]:
    corpus, encoder = write_text(folder / "corpus.txt"), {"layers": 2, "width": 32, "heads": 2}
    mask = {"kind": "mask", "subsample": 0.05, "whole_words": True}
    yield "mask", corpus_recipe(corpus, mask, model=encoder)
    grows = {"batch_warmup": 0.6, "length_warmup": 0.6, "accumulate": 2}
    yield "mask-grows", corpus_recipe(corpus, {"kind": "mask", "next_sentence": False}, model=encoder, **grows)
    packed = {"kind": "causal", "pack": True, "neighbours": 4}
    yield "causal-packed", corpus_recipe(corpus, packed, model=SMALL)
    for style in ("one", "sentinels"):
        characters = {"kind": "characters", "size": None}
        yield (
            f"span-{style}",
            corpus_recipe(corpus, {"kind": "span", "style": style}, model=SMALL, tokenizer=characters),
        )
    people = write_people(folder / "people", 14)
    training = {
        "steps": 12, "batch_size": 8, "lr": 3e-3, "max_length": 64, "threads": 1, "device": "cpu", "mark_steps": 5,
    }  # fmt: skip
    for name, keys in {"answer": {}, "answer-recall": {"recall": True}}.items():
        content = {"model": SMALL, "tokenizer": WORDS, "data": people, "training": training}
        yield name, make_recipe({**content, "objective": {"kind": "answer", **keys}})


def measure(recipe: Recipe, directory: Path) -> dict[str, Any]:
    """What the run logged and scored, every number as it is."""
    execute(recipe, 5, directory, command="test", quiet=True)
    metrics = json.loads((directory / "metrics.json").read_text())
    log = [{k: v for k, v in line.items() if k in ("step", "loss", "dev")} for line in read_log(directory)]
    kept = ("accuracy", "log_loss", "pearson", "mse")
    splits = {split: {k: v for k, v in s.items() if k in kept} for split, s in metrics["splits"].items()}
    return {"log": log, "splits": splits}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name, recipe in loss_recipes(Path(scratch)):
            found = measure(recipe, Path(scratch) / "runs" / name)
            (FOLDER / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            print(name, found["log"][-1], file=sys.stderr)


if __name__ == "__main__":
    main()
