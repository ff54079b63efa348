"""A toy objective, as another package would write it: how long is each line of an endless stream, and is it "warm"?"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F

from heedful.checkpoints.directory import Checkpoint
from heedful.checkpoints.heads import NewHead
from heedful.data.protocol import Data
from heedful.evaluation.metrics import mean_of
from heedful.evaluators.protocol import Evaluation, Evaluator
from heedful.inference.items import EncodedText, encode_texts
from heedful.inference.reader import TextReader
from heedful.inputs.protocol import Inputs, Sampler, Setup, Step
from heedful.nn.heads import HeadInput
from heedful.objectives.protocol import Objective, Partial, StepContext
from heedful.recipes.schema import DataTable, ObjectiveTable, Recipe
from heedful.storage.shared import SharedStore
from heedful.streams import in_parts


class LinesTable(ObjectiveTable):
    kind: Literal["lines"] = "lines"
    """Learn the length of lines, and whether they are warm."""
    warm_weight: float = 0.5
    """Weight of the second loss."""


class LinesDataTable(DataTable):
    train: str | None = None
    """A file of lines."""


class LinesData(Data):
    Table = LinesDataTable

    def __init__(self, lines: list[str]) -> None:
        self.lines = {"train": lines[:-30], "dev": lines[-30:-15], "test": lines[-15:]}
        self.long = {name: torch.tensor([len(x) / 40 for x in rows]) for name, rows in self.lines.items()}
        self.warm = {name: torch.tensor([int("warm" in x) for x in rows]) for name, rows in self.lines.items()}

    @classmethod
    def read(cls, recipe: Recipe, seed: int, store: SharedStore) -> "LinesData":
        return cls(Path(str(recipe.data.train)).read_text().splitlines())

    def describe(self) -> dict[str, Any]:
        prints = {name: str(zlib.crc32("\n".join(x).encode())) for name, x in self.lines.items()}
        return {"name": "lines", "sizes": {name: len(x) for name, x in self.lines.items()}, "fingerprints": prints}


@dataclass(frozen=True)
class LinesStep(Step):
    texts: list[EncodedText]
    long_b: torch.Tensor
    warm_b: torch.Tensor


class LinesInputs(Inputs[LinesData]):
    def __init__(self, data: LinesData, checkpoint: Checkpoint, setup: Setup) -> None:
        assert checkpoint.tokenizer is not None
        self.data, self.size = data, setup.recipe.training.batch_size
        self.items = {name: encode_texts(checkpoint.tokenizer, x, 32) for name, x in data.lines.items()}

    def sampler(self) -> "LinesSampler":
        return LinesSampler(self)


class LinesSampler(Sampler):
    """A stream, which remembers its place."""

    def __init__(self, inputs: LinesInputs) -> None:
        self.inputs, self.place = inputs, 0

    def step(self, number: int, done: float) -> LinesStep:
        data, items = self.inputs.data, self.inputs.items["train"]
        rows = [(self.place + i) % len(items) for i in range(self.inputs.size)]
        self.place = rows[-1] + 1
        texts = [items[r] for r in rows]
        return LinesStep(rows, [t.tokens for t in texts], texts, data.long["train"][rows], data.warm["train"][rows])

    def state(self) -> dict[str, Any]:
        return {"place": self.place}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.place = state.get("place", 0)


class LinesEvaluator(Evaluator[LinesData]):
    METRICS = (mean_of("gap", "gap in length", False, "gap"), mean_of("felt", "warmth felt", True, "felt"))

    def __init__(self, data: LinesData) -> None:
        self.data = data

    def evaluate(self, reader: TextReader, inputs: LinesInputs, name: str, final: bool = False) -> Evaluation:
        long_n, warm_n = (reader.all_scores(inputs.items[name], head) for head in ("long", "warm"))
        gap = (long_n[:, 0] - self.data.long[name]).abs().numpy()
        right = (warm_n.argmax(1) == self.data.warm[name]).numpy()
        metrics = {"n": len(gap), "gap": float(gap.mean()), "felt": float(right.mean())}
        lines = [(f"{x:.5f}",) for x in long_n[:, 0]]
        return Evaluation(metrics, range(1, 16), {"gap": gap, "felt": right * 1.0}, ("length",), lambda: lines)


class Lines(Objective):
    Table = LinesTable
    DATA = LinesData
    EVALUATOR = LinesEvaluator

    def __init__(self, recipe: Recipe, data: LinesData) -> None:
        assert isinstance(recipe.objective, LinesTable)
        self.data, self.warm_weight = data, recipe.objective.warm_weight

    def heads(self, default: HeadInput) -> Mapping[str, NewHead]:
        reads = default.reads
        return {"long": NewHead("linear", ("length",), reads), "warm": NewHead("linear", ("no", "yes"), reads)}

    def inputs(self, checkpoint: Checkpoint, setup: Setup) -> LinesInputs:
        return LinesInputs(self.data, checkpoint, setup)

    def evaluator(self) -> LinesEvaluator:
        return LinesEvaluator(self.data)

    def counts(self, step: LinesStep) -> dict[str, float]:
        return {"long": len(step.rows), "warm": len(step.rows)}

    def losses(
        self, reader: TextReader, step: LinesStep, counts: Mapping[str, float], context: StepContext
    ) -> Iterator[Partial]:
        for part, places in in_parts(range(len(step.rows)), context.parts):
            context.reseed(part)
            texts, at = [step.texts[i] for i in places], list(places)
            long = ((reader.scores(texts, "long")[:, 0] - step.long_b[at]) ** 2).sum() / counts["long"]
            warm = F.cross_entropy(reader.scores(texts, "warm"), step.warm_b[at], reduction="sum")
            warm = self.warm_weight * warm / counts["warm"]
            yield Partial(long + warm, {"long": long.detach(), "warm": warm.detach()})
