"""The small recipes whose losses are kept in `losses/`: whatever is rebuilt, they may not move.

PYTHONPATH=tests:src python tests/training/loss_recipes.py     writes the files anew, when a change is meant
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heedful.checkpoints.config import make_head
from heedful.checkpoints.directory import Checkpoint, write_model
from heedful.checkpoints.families import FAMILIES
from heedful.models.transformer import Transformer
from heedful.recipes.schema import Recipe
from heedful.streams import seed_of
from heedful.text.training import train_bpe, train_wordpiece
from heedful.training.run import execute
from training_samples import BAD, GOOD, THINGS, read_log, sentences, tiny_recipe, tiny_shape, write_csv, write_data

FOLDER = Path(__file__).parent / "losses"
FAMILY_CHANGES: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {"segments": 1, "norm_eps": 1e-5, "pad_id": 1},
    "distilbert": {"segments": 0, "pooler": False, "attention_output_dropout": 0.0, "head_dropout": 0.2},
    "gpt2": {"segments": 0, "pooler": False, "pad_id": None, "activation": "gelu_new", "norm_eps": 1e-5,
             "head_dropout": 0.0},
}  # fmt: skip


def write_family(folder: Path, family: str) -> Path:
    """A tiny model of this family with formula weights, so that no generator's stream is part of the file."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join([*(text for text, _ in sentences(150, seed=9)), *GOOD, *BAD, *THINGS]) + "\n")
    if family in ("roberta", "gpt2"):
        tokenizer = train_bpe([corpus], 320, family=family)
    else:
        tokenizer = train_wordpiece([corpus], 180, family=family)
    shape = tiny_shape(tokenizer.size, family=family, **FAMILY_CHANGES[family])
    kind = "language-model" if family == "gpt2" else "masked-word"
    dialect = FAMILIES[family]
    head = make_head(dialect, kind, shape, 0)  # type: ignore[arg-type]
    transformer = Transformer(shape, {"causal" if family == "gpt2" else "mask": head})
    with torch.no_grad():
        for name, p in transformer.named_parameters():
            wave = torch.sin(torch.arange(p.numel(), dtype=torch.float64) * 0.7 + seed_of(name) % 1000)
            p.copy_((0.2 * wave).reshape(p.shape) + (1.0 if "norm.weight" in name else 0.0))
    directory = folder / family
    write_model(directory, Checkpoint(transformer, tokenizer))
    return directory


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
    yield "pooling-cls-frozen", tiny_recipe(bert, data, "frozen", model={"pooling": "cls"})
    yield "two-layer-dropout", tiny_recipe(bert, data, "full", model={"head": "two-layer", "dropout": 0.3})
    moving = {"layer_decay": 0.8, "reinit_layers": 1}
    yield "layer-decay-reinit", tiny_recipe(bert, data, "full", tuning=moving, training={"schedule": "cosine"})
    loss = {"label_smoothing": 0.1, "class_weights": "balanced"}
    yield "smoothed-balanced", tiny_recipe(bert, data, "full", objective=loss, evaluation={"metric": "log_loss"})
    sizes = {"weight_decay": 0.2, "clip": 0.5, "patience": 1, "schedule": "constant"}
    yield "limit-early-stop", tiny_recipe(bert, {**data, "limit": 30, "redraw": True}, "full", training=sizes)


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
