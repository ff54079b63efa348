"""The public contract in Python: `heedful.load` and what it returns."""

import contextlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from heedful.checkpoints.dialect import SLOTS
from heedful.checkpoints.directory import Checkpoint, read_model, write_model
from heedful.checkpoints.finding import find
from heedful.checkpoints.heads import NewHead
from heedful.errors import RequestError
from heedful.evaluation.calibration import apply as probabilities
from heedful.findings import Study
from heedful.models.batch import Batch, pad
from heedful.models.shape import HeadKind, Shape, main_head
from heedful.models.transformer import Transformer
from heedful.objectives.texts import TextReader, make_texts
from heedful.text.tokenizer import Text, Tokenizer, Tokens
from heedful.training.device import pick_device

Pooling = Literal["cls", "first", "mean", "max", "last"]
_WINDOW = 8192  # texts tokenised and sorted at a time, so that memory does not grow with the input


def run(
    recipe: str | Path,
    *,
    settings: Sequence[str] = (),
    seeds: int | Sequence[int] | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    on: str | None = None,
) -> Study:
    """Run a recipe (a file, or a built-in name) with its seeds, or go on where an earlier call was stopped.

    `workers` runs are made at a time, in processes: here one if it is not said, on a cluster as many as it has cores.
    `on` is "ray" or "ray://HOST:PORT" for a cluster.
    """
    from heedful.recipes.reading import read_recipe
    from heedful.report.study import write_reports
    from heedful.studies.executors import executor_for
    from heedful.studies.plan import plan_recipe
    from heedful.studies.study import raise_failures, run_study

    name = Path(recipe).stem
    plan = plan_recipe(read_recipe(recipe, settings), name, range(seeds) if isinstance(seeds, int) else seeds)
    directory = Path(out) if out is not None else Path("runs") / name
    place = executor_for(on, workers if on is not None else workers or 1, len(plan.seeds) * len(plan.settings))
    study = run_study(plan, directory, **place._asdict())
    write_reports(directory)
    raise_failures(study)
    return Study(directory)


def load(
    source: str | Path,
    *,
    revision: str | None = None,
    new_head: HeadKind | None = None,
    labels: Sequence[str] = (),
    head: str | None = None,
    keep_heads: bool = False,
    body_only: bool = False,
    family: str | None = None,
    seed: int = 0,
    device: str | torch.device = "cpu",
) -> "Model":
    """A model from a directory, a name that `heedful models` lists, or a hub id (looked for in this order).

    Every stored tensor must have a home in the model and every part of the model a tensor. Two exceptions can be asked
    for: `new_head` (with `labels` for a classifier) puts a fresh head, drawn from `seed`, in the place of those stored,
    or with `keep_heads` beside them, under the name `head` (default: "classify" for a classifier); `body_only` leaves
    heads away. `family` helps an old directory whose config.json does not name its model_type.
    """
    place = pick_device(device, "device")
    if isinstance(labels, str) or not all(isinstance(name, str) for name in labels):
        raise RequestError("labels is not a list of names.")
    if new_head is None and (labels or head is not None):
        raise RequestError("labels and head belong to a new_head; leave them out, or say which new_head it is.")
    directory = find(source, revision)
    new_heads = {}
    if new_head is not None:
        new_heads[head or SLOTS.get(new_head, "classify")] = NewHead(new_head, tuple(labels))
    checkpoint = read_model(directory, new_heads, keep_heads, body_only, family, seed)
    checkpoint.transformer.to(place)
    return Model(checkpoint, str(source))


class Model:
    """A transformer with its heads, the names of their labels, and its tokenizer."""

    def __init__(self, checkpoint: Checkpoint, source: str) -> None:
        self.checkpoint = checkpoint
        self.source = source

    @property
    def transformer(self) -> Transformer:
        return self.checkpoint.transformer

    @property
    def shape(self) -> Shape:
        return self.checkpoint.transformer.shape

    @property
    def labels(self) -> tuple[str, ...]:
        """Of the head "classify", or of the only head with labels."""
        name = main_head(self.transformer.head_shapes)
        return () if name is None else self.transformer.head_shapes[name].labels

    @property
    def tokenizer(self) -> Tokenizer:
        if self.checkpoint.tokenizer is None:
            raise RequestError(f"{self.source}: has no tokenizer; put tokenizer.json or vocab.txt beside its weights.")
        return self.checkpoint.tokenizer

    @property
    def max_length(self) -> int:
        """The most tokens that one text may have, special tokens included."""
        longest = self.shape.longest
        stated = self.checkpoint.tokenizer.max_length if self.checkpoint.tokenizer else None
        return min(longest, stated or longest)

    def save(self, directory: str | Path) -> None:
        """Write a model directory in one step: a crash leaves what was there before, or the whole new directory."""
        write_model(Path(directory).expanduser(), self.checkpoint)

    def __repr__(self) -> str:
        s = self.shape
        return f"<heedful model {self.source}: {self.checkpoint.family}, {s.layers} layers of width {s.width}>"

    def encode(
        self,
        texts: Iterable[Text],
        pooling: Pooling = "mean",
        max_length: int | None = None,
        batch_size: int = 32,
    ) -> npt.NDArray[np.float32]:
        """Features (n, width), one row for each text or pair of texts, in their order.

        `pooling`: "cls" (the first state through the checkpoint's pooler, as Hugging Face does), "first", "mean", "max"
        or "last" state. How the texts are put in batches does not change the answer.
        """
        if isinstance(texts, str) or not isinstance(texts, Iterable):
            raise RequestError("encode takes a list of texts; put the one text in a list.")
        texts = list(texts)
        self._check_pooling(pooling)
        limit = self.max_length if max_length is None else max_length
        if not isinstance(limit, int) or not 1 <= limit <= self.max_length:
            raise RequestError(
                f"max_length={max_length} is not between 1 and the {self.max_length} that the model can read."
            )
        if not isinstance(batch_size, int) or batch_size < 1:
            raise RequestError(f"batch_size={batch_size!r} is not a whole number from 1.")
        features = np.empty((len(texts), self.shape.width), dtype=np.float32)
        cut = 0
        with torch.inference_mode(), _evaluating(self.transformer):
            for start in range(0, len(texts), _WINDOW):
                window = self.tokenizer.encode(texts[start : start + _WINDOW], limit)
                for row, tokens in enumerate(window, start):
                    if not tokens.ids:
                        raise RequestError(
                            f"row {row} of the texts has no tokens, so it has no features; leave it out."
                        )
                    cut += tokens.truncated
                for rows, batch in self._batches(window, batch_size):
                    features[[start + r for r in rows]] = self._pooled(batch, pooling).float().cpu().numpy()
        if cut and max_length is None:
            warnings.warn(
                f"{cut} of {len(texts)} texts are longer than the {limit} tokens that the model can read and were cut; "
                "give max_length to say that this is meant.",
                stacklevel=2,
            )
        return features

    def predict(self, texts: Iterable[Text], batch_size: int = 32, head: str | None = None) -> "Predictions":
        """A label and the probability of every class for each text or pair, in their order; a score for a regression.

        Texts beyond the length that the model was trained with are cut or read in chunks, as they were in training.
        `head`: which classifier, where the model has several; default: "classify", or the only one.
        """
        name = self._classifier(head)
        labels = self.transformer.head_shapes[name].labels
        if isinstance(texts, str) or not isinstance(texts, Iterable):
            raise RequestError("predict takes a list of texts; put the one text in a list.")
        if not isinstance(batch_size, int) or batch_size < 1:
            raise RequestError(f"batch_size={batch_size!r} is not a whole number from 1.")
        texts, tokenizer = list(texts), self.tokenizer
        scores = np.empty((len(texts), len(labels)))
        cut = 0
        with torch.inference_mode(), _evaluating(self.transformer):
            for start in range(0, len(texts), _WINDOW):
                if self.transformer.head_shapes[name].chunked:
                    scores[start : start + _WINDOW] = self._in_chunks(name, texts[start : start + _WINDOW], batch_size)
                    continue
                window = tokenizer.encode(texts[start : start + _WINDOW], self.max_length)
                cut += sum(tokens.truncated for tokens in window)
                for rows, batch in self._batches(window, batch_size):
                    scores[[start + r for r in rows]] = self.transformer(name, batch).cpu().double().numpy()
        return Predictions(labels, scores, cut)

    def _classifier(self, head: str | None) -> str:
        shapes = self.transformer.head_shapes
        labelled = [name for name, shape in shapes.items() if shape.labels]
        name = main_head(shapes) if head is None else head
        if not labelled:
            raise RequestError(f"{self.source}: has no classification head; train one with `heedful run`.")
        if name not in labelled:
            raise RequestError(f"{self.source}: head={head!r} is not one of its classifiers, {', '.join(labelled)}.")
        return name

    def _in_chunks(self, head: str, texts: list[Text], batch_size: int) -> npt.NDArray[np.float64]:
        if not all(isinstance(text, str) for text in texts):
            raise RequestError(f"{self.source}: was trained on single texts, in chunks; give it no pairs.")
        items = make_texts(self.tokenizer, [str(t) for t in texts], None, self.max_length, chunked=True)
        device = self.transformer.body.embeddings.token.weight.device
        return TextReader(self.transformer, device).all_scores(items, head, batch_size).numpy()

    def _check_pooling(self, pooling: str) -> None:
        if pooling not in get_args(Pooling):
            raise RequestError(f"pooling={pooling!r} is unknown; choose {', '.join(get_args(Pooling))}.")
        if pooling == "cls" and self.transformer.body.pooler is None:
            raise RequestError(
                f"{self.source}: has no pooler, so pooling='cls' is not possible; choose 'first' or 'mean'."
            )

    def _batches(self, window: list[Tokens], size: int) -> Iterator[tuple[list[int], Batch]]:
        """Batches of similar length, padded on the right; the longest first, so that their memory is reused."""
        order = sorted(range(len(window)), key=lambda r: -len(window[r].ids))
        for at in range(0, len(order), size):
            rows = order[at : at + size]
            yield rows, self._collate([window[r] for r in rows])

    def _collate(self, tokens: list[Tokens]) -> Batch:
        device = self.transformer.body.embeddings.token.weight.device
        segments = [t.segments for t in tokens] if self.shape.segments > 1 else None
        return pad([t.ids for t in tokens], segments, self.shape.pad_id, device)

    def _pooled(self, batch: Batch, pooling: Pooling) -> Tensor:
        return self.transformer.features("pooled" if pooling == "cls" else pooling, batch)


class Predictions:
    """`labels` (n) and `probabilities` (n, classes) with the classes' `names`; `scores` (n) alone for a regression."""

    def __init__(self, names: tuple[str, ...], raw: npt.NDArray[np.float64], truncated: int) -> None:
        self.names, self.truncated = names, truncated
        self.scores = raw[:, 0] if len(names) == 1 else None
        self.probabilities = probabilities(raw)
        self.labels = [names[i] for i in self.probabilities.argmax(axis=1)] if len(raw) else []


@contextlib.contextmanager
def _evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Without dropout inside, as it was outside."""
    was_training = module.training
    if was_training:
        module.eval()
    try:
        yield
    finally:
        if was_training:
            module.train()
