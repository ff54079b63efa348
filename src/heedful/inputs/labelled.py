"""Labelled texts and pairs as token ids, and the rows of each step."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, cast

from torch import Tensor

from heedful.checkpoints.directory import Checkpoint
from heedful.data.labelled import LabelledData
from heedful.errors import RequestError
from heedful.evaluation.targets import Target
from heedful.inference.items import (
    EncodedText,
    Item,
    encode_pairs,
    encode_texts,
    pack_pairs,
    pack_texts,
    texts_of,
    unpack_pairs,
    unpack_texts,
)
from heedful.inputs.protocol import Inputs, Sampler, Setup, Step, first_rows
from heedful.inputs.step_rows import EpochRows, padding_share
from heedful.models.flops import forward_flops
from heedful.models.shape import Shape
from heedful.nn.heads import ONE_STATE
from heedful.recipes.schema import RowsTable

HEAD = "classify"
"""What a head is called where it is the only task."""


@dataclass(frozen=True)
class LabelledStep(Step):
    task: str
    """The head that is trained."""
    items: Sequence[Item]
    """One for each row, as the head reads it."""
    targets: Tensor
    """One for each row."""
    numbers: Sequence[int]
    """The number of each row in its file."""
    one_state: bool
    """Whether one token's state of the last block is enough for the head."""

    def forward_flops(self, shape: Shape) -> int:
        return forward_flops(shape, self.lengths, [1] * len(self.lengths) if self.one_state else None)

    def where(self) -> str:
        task = "" if self.task == HEAD else f"{self.task}, "
        return f"{task}rows {first_rows(self.numbers)}"


class LabelledInputs(Inputs[LabelledData]):
    def __init__(
        self, data: LabelledData, checkpoint: Checkpoint, target: Target, setup: Setup, task: str = HEAD
    ) -> None:
        """`task` is the name of the head, and tells the sets of one of several tasks apart in a cache."""
        self.data, self.training, self.seed, self.task = data, setup.recipe.training, setup.seed, task
        table, tokenizer, shape = self.training, checkpoint.tokenizer, checkpoint.transformer.shape
        assert tokenizer is not None
        if table.max_length > shape.longest:
            raise RequestError(f"training.max_length = {table.max_length}, but the model reads {shape.longest} tokens.")
        self.targets = {name: t for name, e in data.splits.items() if (t := target.parse(e)) is not None}
        self.items: dict[str, Sequence[Item]] = {}
        chunked, segments = table.long_texts == "chunk", shape.segments > 1
        keys, head = setup.recipe.data, checkpoint.transformer.head_shapes[task]
        assert isinstance(keys, RowsTable)
        rows = [keys.limit, keys.fraction, setup.seed if keys.redraw else None]
        for name, e in data.splits.items():
            key = {**self._cache_key(setup), "rows": rows if name == "train" else None}
            if head.pairs == "joint":
                encode = partial(encode_texts, tokenizer, e.inputs, table.max_length, chunked, segments)
                stored = setup.store.tensors(key, name, lambda encode=encode: pack_texts(encode()))  # type: ignore[misc]
                self.items[name] = unpack_texts(stored)
            else:
                apart = partial(encode_pairs, tokenizer, cast(Any, e.inputs), table.max_length)
                stored = setup.store.tensors(key, f"{name}-apart", lambda apart=apart: pack_pairs(apart()))  # type: ignore[misc]
                self.items[name] = unpack_pairs(stored)
            for items in (texts_of(self.items[name]), self.items[name]):
                for i, item in enumerate(items):
                    item.cache_key = (self._cached_name(name), i)
        self.one_state = head.reads in ONE_STATE
        self.lengths = [item.tokens for item in self.items["train"]]

    def _cache_key(self, setup: Setup) -> dict[str, Any]:
        """Return what token ids depend on, except for the rows that are trained on."""
        keys = setup.recipe.data.model_dump(mode="json", exclude={"limit", "fraction", "redraw"})
        length = [self.training.max_length, self.training.long_texts]
        return {"model": dict(setup.model_key), "data": [self.data.dataset.fingerprints, keys], "length": length}

    def _cached_name(self, name: str) -> str:
        """Return what a cache calls the set: those of several tasks must not meet."""
        return name if self.task == HEAD else f"{name}-{self.task}"

    def row_batches(self) -> EpochRows:
        return EpochRows(self.lengths, self.seed, self.training.batch_size, self.training.batch_tokens)

    def sampler(self) -> "LabelledSampler":
        return LabelledSampler(self)

    def step_of(self, rows: Sequence[int]) -> LabelledStep:
        items = [self.items["train"][r] for r in rows]
        lengths = [len(chunk) for item in items for chunk in item.chunks]
        numbers = [self.data.dataset.train.rows[r] for r in rows]
        return LabelledStep(rows, lengths, self.task, items, self.targets["train"][list(rows)], numbers, self.one_state)

    def everything(self) -> LabelledStep:
        return self.step_of(range(len(self.items["train"])))

    def statistics(self) -> dict[str, float]:
        chunk_lengths = [[len(chunk) for chunk in item.chunks] for item in self.items["train"]]
        return {
            "padding_share": padding_share(self.row_batches().batches(0), chunk_lengths),
            "truncated_share": sum(item.truncated for item in self.items["train"]) / len(self.items["train"]),
        }

    def token_ids(self) -> Iterable[int]:
        return (i for text in self._texts() for chunk in text.chunks for i in chunk)

    def renumber(self, new_id: Sequence[int]) -> None:
        for text in self._texts():
            text.chunks = [[new_id[i] for i in chunk] for chunk in text.chunks]

    def _texts(self) -> list[EncodedText]:
        return texts_of(chain.from_iterable(self.items.values()))

    def cached_texts(self) -> Mapping[str, Sequence[EncodedText]]:
        return {self._cached_name(name): texts_of(items) for name, items in self.items.items()}

    def texts_are_cached(self) -> None:
        self.lengths = [1] * len(self.items["train"])

    def labelled_texts(self, name: str) -> tuple[Sequence[EncodedText], Sequence[str | None]]:
        gold: Sequence[str | None] = self.data.splits[name].labels or [None] * len(self.items[name])
        texts = [(text, label) for item, label in zip(self.items[name], gold, strict=True) for text in texts_of([item])]
        return [text for text, _ in texts], [label for _, label in texts]


class LabelledSampler(Sampler):
    def __init__(self, inputs: LabelledInputs) -> None:
        self.inputs, self.rows = inputs, inputs.row_batches()

    def step(self, number: int, done: float) -> LabelledStep:
        return self.inputs.step_of(self.rows.of_step(number))

    def epoch_steps(self, epoch: int) -> int:
        return self.rows.steps(epoch)

    def step_rows(self) -> float | None:
        return self.rows.mean_rows
