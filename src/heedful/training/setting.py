"""From a recipe to everything that the loop needs: data, model, items, method, loss."""

import contextlib
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from heedful.checkpoints.catalog import CATALOG
from heedful.checkpoints.config import make_head, with_pooler_for
from heedful.checkpoints.directory import Checkpoint, read_model
from heedful.checkpoints.families import FAMILIES
from heedful.checkpoints.finding import find, fingerprint
from heedful.data.examples import Dataset, Examples, load_dataset
from heedful.errors import RequestError
from heedful.models.shape import NAMED_SHAPES
from heedful.models.transformer import Transformer
from heedful.nn.heads import Reads
from heedful.objectives.classify import Loss, balanced_weights, make_items
from heedful.recipes.schema import DataTable, Recipe
from heedful.streams import seed_of, shuffled
from heedful.text.files import read_tokenizer
from heedful.text.tokenizer import Tokenizer
from heedful.text.training import train_bpe, train_wordpiece
from heedful.training.batches import epoch_batches, padding_share
from heedful.training.shelf import Shelf
from heedful.tuning.methods import Frozen, Full, Method


@dataclass
class Setting:
    dataset: Dataset
    examples: dict[str, Examples]
    """The splits there are."""
    targets: dict[str, Tensor]
    """Class numbers or scores of the splits whose labels are known."""
    checkpoint: Checkpoint
    method: Method
    loss: Loss
    device: torch.device
    source: str
    licence: str
    trained_on: str
    fingerprint: str
    """Of the model directory that it began from; "" if from random weights."""
    frozen: bool
    feature_seconds: float
    """What it took to compute what a frozen body gives, which is nearly all of the cost of training a head; a study
    does it once, and every run that would have had to states it."""
    train_lengths: list[int]
    """Of the chunks that the model reads."""
    padding_share: float
    truncated_share: float
    tokens_per_step: float
    whole_table_parameters: int
    """Parameters of the rows of the token table that do not occur and so are set aside while training."""


def load_data(table: DataTable, seed: int = 0) -> Dataset:
    """`seed`, a run's, matters for rows that are drawn anew for each."""
    data = load_dataset(
        name=table.name, train=table.train, dev=table.dev, test=table.test, text=table.text, pair=table.pair,
        label=table.label, kind=table.kind, split_seed=table.split_seed, dev_share=table.dev_share,
        test_share=table.test_share, options=table.options,
    )  # fmt: skip
    whole = len(data.train)
    rows = table.limit or max(1, round((table.fraction or 1) * whole))
    if rows < whole:
        order = shuffled(whole, table.split_seed, seed if table.redraw else "every seed")
        data = replace(data, train=data.train.take(sorted(order[:rows].tolist())))
        data.notes.append(f"trained on {rows} of {whole} rows of the training set")
    return data


def prepare(recipe: Recipe, seed: int, dataset: Dataset, shelf: Shelf) -> Setting:
    table = recipe.training
    held = {"train": dataset.train, "dev": dataset.dev, "test": dataset.test if recipe.evaluation.test else None}
    examples = {split: e for split, e in held.items() if e is not None and len(e)}
    if len(dataset.train) == 0:
        raise RequestError(f"{dataset.name}: there are no rows to train on.")
    _check_metric(recipe, dataset)
    checkpoint, source, origin = _model(recipe, seed, dataset)
    tokenizer = checkpoint.tokenizer
    if tokenizer is None:
        raise RequestError(f"{source}: has no tokenizer; put tokenizer.json or vocab.txt beside its weights.")
    _check_length(recipe, checkpoint)
    segments = checkpoint.transformer.shape.segments > 1
    chunked = table.long_texts == "chunk"
    if chunked and dataset.train.pairs is not None:
        raise RequestError('training.long_texts = "chunk" is for single texts, not for pairs.')
    rows = [recipe.data.limit, recipe.data.fraction, seed if recipe.data.redraw else None]
    tokenizing = {
        "model": origin or [recipe.model.shape, recipe.tokenizer and recipe.tokenizer.model_dump(), rows],
        "data": [dataset.fingerprints, recipe.data.model_dump(exclude={"limit", "fraction", "redraw"})],
        "length": [table.max_length, table.long_texts],
    }
    facts = {split: {**tokenizing, "rows": rows} if split == "train" else tokenizing for split in examples}
    items = {
        split: shelf.items(
            facts[split],
            split,
            partial(make_items, tokenizer, e.texts, e.pairs, table.max_length, chunked, segments),
        )
        for split, e in examples.items()
    }
    lengths = [item.tokens for item in items["train"]]
    chunk_lengths = [[len(chunk) for chunk in item.chunks] for item in items["train"]]
    truncated = sum(item.truncated for item in items["train"]) / len(lengths)
    device = _device(table.device)
    before = checkpoint.transformer.body.embeddings.token.weight.numel()
    frozen = recipe.tuning.method == "frozen"
    method: Method
    if frozen:
        drawn = seed if origin == "" or recipe.tuning.reinit_layers else None  # the body then depends on the seed
        reads = checkpoint.transformer.head_shapes["classify"].reads
        body = [reads, drawn, recipe.tuning.reinit_layers, str(device), torch.get_num_threads()]
        with contextlib.ExitStack() as places:  # in the order of the splits, so that nobody waits in a circle
            folders = {s: places.enter_context(shelf.place({**facts[s], "body": body, "split": s})) for s in items}
            method = Frozen(checkpoint.transformer, items, device, folders)
        feature_seconds = method.seconds
    else:
        method, feature_seconds = Full(checkpoint.transformer, items, device), 0.0
    targets = {split: t for split, e in examples.items() if (t := _targets(dataset, e, device)) is not None}
    batches = epoch_batches(lengths, seed, 0, table.batch_size, table.batch_tokens)
    named = CATALOG.get(recipe.model.name or "")
    return Setting(
        dataset=dataset,
        examples=examples,
        targets=targets,
        checkpoint=checkpoint,
        method=method,
        loss=_loss(recipe, dataset, targets["train"], device),
        device=device,
        source=source,
        licence=named.licence if named else "",
        trained_on=named.trained_on if named else "",
        fingerprint=origin,
        frozen=frozen,
        feature_seconds=feature_seconds,
        train_lengths=[n for row in chunk_lengths for n in row],
        padding_share=0.0 if frozen else padding_share(batches, chunk_lengths),
        truncated_share=truncated,
        tokens_per_step=sum(lengths) / len(batches),
        whole_table_parameters=before - checkpoint.transformer.body.embeddings.token.weight.numel(),
    )


def _targets(dataset: Dataset, examples: Examples, device: torch.device) -> Tensor | None:
    if dataset.kind == "score":
        return None if examples.scores is None else torch.tensor(examples.scores, dtype=torch.float32, device=device)
    if examples.labels is None:
        return None
    number = {name: i for i, name in enumerate(dataset.labels)}
    return torch.tensor([number[label] for label in examples.labels], device=device)


def _loss(recipe: Recipe, dataset: Dataset, targets: Tensor, device: torch.device) -> Loss:
    if dataset.kind == "score":
        if recipe.objective.label_smoothing or recipe.objective.class_weights != "none":
            raise RequestError("objective.label_smoothing and objective.class_weights are for classes, not for scores.")
        return Loss(classes=0)
    k = len(dataset.labels)
    weights = None
    if recipe.objective.class_weights == "balanced":
        weights = balanced_weights(targets.tolist(), k).to(device)
    return Loss(k, recipe.objective.label_smoothing, weights)


def _model(recipe: Recipe, seed: int, dataset: Dataset) -> tuple[Checkpoint, str, str]:
    """The model with its new head, what it is called, and the fingerprint of where it is from."""
    table, origin = recipe.model, ""
    labels = dataset.labels if dataset.kind == "classes" else ("score",)
    pooling = table.pooling or ("mean" if recipe.tuning.method == "frozen" else None)
    reads: Reads | None = "pooled" if pooling == "cls" else pooling
    if table.name is not None:
        directory = find(table.name, table.revision)
        origin = fingerprint(directory)
        found = read_model(directory, table.head, labels, seed=seed, reads=reads, head_dropout=table.dropout)
        if recipe.tuning.method == "frozen" and "new" in {
            s for n, s in found.sources.items() if n.startswith("body.pooler.")
        }:
            raise RequestError(
                f'{table.name}: has no pooler, so model.pooling = "cls" has nothing to freeze; use "mean".'
            )
    else:
        found = _random_model(recipe, seed, dataset, labels, reads)
    depth = recipe.tuning.reinit_layers
    layers = found.transformer.shape.layers
    if depth:
        if depth > layers:
            raise RequestError(f"tuning.reinit_layers = {depth}, but the model has {layers} layers.")
        fresh = tuple(f"body.blocks.{i}." for i in range(layers - depth, layers))
        found.transformer.initialise(torch.Generator().manual_seed(seed_of(seed, "layers")), only=fresh)
    return found, table.name or f"shape {table.shape}", origin


def _random_model(
    recipe: Recipe, seed: int, dataset: Dataset, labels: tuple[str, ...], reads: Reads | None
) -> Checkpoint:
    table = recipe.model
    if table.shape not in NAMED_SHAPES:
        raise RequestError(f"model.shape = {table.shape!r} is unknown; choose {', '.join(NAMED_SHAPES)}.")
    shape = NAMED_SHAPES[table.shape]
    tokenizer = _make_tokenizer(recipe, dataset, shape.family)
    shape = replace(shape, vocabulary=tokenizer.size, pad_id=tokenizer.pad_id)
    if table.dropout is not None:
        shape = replace(shape, head_dropout=table.dropout)
    family = FAMILIES[shape.family]
    if table.head not in family.heads:
        raise RequestError(f'model.head = "{table.head}" is not possible on {family.name}; leave it out.')
    head = make_head(family, table.head, shape, len(labels), reads)
    shape = with_pooler_for(shape, family, head)
    transformer = Transformer(shape, {"classify": head})
    transformer.initialise(torch.Generator().manual_seed(seed))
    sources = dict.fromkeys((n for n, _ in transformer.named_parameters()), "new")
    return Checkpoint(transformer, tokenizer, labels, sources)


def _make_tokenizer(recipe: Recipe, dataset: Dataset, family: str) -> Tokenizer:
    table = recipe.tokenizer
    assert table is not None  # the recipe was refused otherwise
    if table.name is not None:
        found = read_tokenizer(find(table.name), family)
        if found is None:
            raise RequestError(f"tokenizer.name = {table.name!r}: there is no tokenizer in it.")
        return found
    import tempfile

    with tempfile.TemporaryDirectory(prefix="heedful-") as scratch:
        corpus = Path(scratch) / "train.txt"
        texts = [*dataset.train.texts, *(dataset.train.pairs or [])]
        corpus.write_text("\n".join(" ".join(t.split()) for t in texts) + "\n", encoding="utf-8")
        if table.kind == "wordpiece":
            return train_wordpiece([corpus], table.size, family=family)
        return train_bpe([corpus], table.size, family=family)


def _check_metric(recipe: Recipe, dataset: Dataset) -> None:
    wanted, of_scores = recipe.evaluation.metric, ("pearson", "spearman")
    fits = (wanted in of_scores) == (dataset.kind == "score")
    if wanted != "auto" and not fits:
        raise RequestError(f'evaluation.metric = "{wanted}" does not go with {dataset.kind}; use "auto".')
    if wanted == "f1" and len(dataset.labels) != 2:
        raise RequestError('evaluation.metric = "f1" is for two classes; use "macro_f1".')


def _check_length(recipe: Recipe, checkpoint: Checkpoint) -> None:
    shape = checkpoint.transformer.shape
    room = shape.positions - (shape.pad_id + 1 if shape.family == "roberta" and shape.pad_id is not None else 0)
    if recipe.training.max_length > room:
        raise RequestError(f"training.max_length = {recipe.training.max_length}, but the model reads {room} tokens.")


def _device(wanted: str) -> torch.device:
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if not there[wanted]:
        raise RequestError(f'training.device = "{wanted}" is not to be had on this machine; use "auto".')
    return torch.device(wanted)
