"""A toy objective, as another package would write it: how long is each line of an endless stream, and is it "warm"?"""

import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F

from heedful.checkpoints.directory import Checkpoint
from heedful.checkpoints.heads import NewHead
from heedful.evaluation.metrics import mean_of
from heedful.inference.items import encode_texts
from heedful.inference.reader import TextReader
from heedful.objectives.protocol import Judgement, Objective, Partial, Reseed, Step
from heedful.recipes.schema import ObjectiveTable, Recipe
from heedful.storage.shared import SharedStore
from heedful.streams import Parts, in_parts


class LinesTable(ObjectiveTable):
    kind: Literal["lines"] = "lines"
    """Learn the length of lines, and whether they are warm."""
    warm_weight: float = 0.5
    """Weight of the second loss."""


class Lines(Objective):
    Table = LinesTable
    METRICS = (mean_of("gap", "gap in length", False, "gap"), mean_of("felt", "warmth felt", True, "felt"))

    def __init__(self, recipe: Recipe, lines: list[str]) -> None:
        self.recipe, self.place = recipe, 0
        self.lines = {"train": lines[:-30], "dev": lines[-30:-15], "test": lines[-15:]}
        self.long = {name: torch.tensor([len(x) / 40 for x in some]) for name, some in self.lines.items()}
        self.warm = {name: torch.tensor([int("warm" in x) for x in some]) for name, some in self.lines.items()}

    @classmethod
    def read(cls, recipe: Recipe, seed: int, store: SharedStore) -> "Lines":
        return cls(recipe, Path(str(recipe.data.train)).read_text().splitlines())

    def description(self) -> dict[str, Any]:
        prints = {name: str(zlib.crc32("\n".join(x).encode())) for name, x in self.lines.items()}
        return {"name": "lines", "sizes": {name: len(x) for name, x in self.lines.items()}, "fingerprints": prints}

    def heads(self, reads: Any) -> Mapping[str, NewHead]:
        return {"long": NewHead("linear", ("length",), reads), "warm": NewHead("linear", ("no", "yes"), reads)}

    def prepare(self, checkpoint: Checkpoint, facts: Mapping[str, Any], store: SharedStore) -> None:
        self.items = {name: encode_texts(checkpoint.tokenizer, x, 32) for name, x in self.lines.items()}  # type: ignore[arg-type]

    def step(self, number: int) -> Step:
        rows = [(self.place + i) % len(self.lines["train"]) for i in range(self.recipe.training.batch_size)]
        self.place = rows[-1] + 1
        return Step(rows, [self.items["train"][r].tokens for r in rows])

    def state(self) -> dict[str, Any]:
        return {"place": self.place}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.place = state.get("place", 0)

    def counts(self, step: Step) -> dict[str, float]:
        return {"long": len(step.rows), "warm": len(step.rows)}

    def losses(self, reader: TextReader, step: Step, counts: Any, parts: Parts, reseed: Reseed) -> Iterator[Partial]:
        for part, rows in in_parts(step.rows, parts):
            reseed(part)
            texts = [self.items["train"][r] for r in rows]
            long = ((reader.scores(texts, "long")[:, 0] - self.long["train"][rows]) ** 2).sum() / counts["long"]
            warm = F.cross_entropy(reader.scores(texts, "warm"), self.warm["train"][rows], reduction="sum")
            warm = self.recipe.objective.warm_weight * warm / counts["warm"]  # type: ignore[attr-defined]
            yield Partial(long + warm, {"long": long.detach(), "warm": warm.detach()})

    def judge(self, reader: TextReader, name: str) -> Judgement:
        said, felt = (reader.all_scores(self.items[name], head) for head in ("long", "warm"))
        gap, right = (said[:, 0] - self.long[name]).abs().numpy(), (felt.argmax(1) == self.warm[name]).numpy()
        metrics = {"n": len(said), "gap": float(gap.mean()), "felt": float(right.mean())}
        lines = [(f"{x:.5f}",) for x in said[:, 0]]
        return Judgement(metrics, range(1, 16), {"gap": gap, "felt": right * 1.0}, ("length",), lambda: lines)
