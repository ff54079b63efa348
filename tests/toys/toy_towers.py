"""A toy objective over two towers, as another package would write it: which of these vectors belongs to which of those?

Its data are arrays, its model is no body of blocks, and its loss compares every example of a step with every other,
whichever part and process they are in. So the parts are embedded twice: first without gradients, to know the loss and
what it asks of each embedding; then part after part with them (gradient caching; Gao and others, 2021).

Letters: b examples of a part, m of this process, n of the step in all processes; d the width of an embedding; 2 towers.
"""

import copy
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from pydantic import Field
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from heedful.building.protocol import BuiltModel, ModelKind, Request
from heedful.data.protocol import Data
from heedful.errors import RequestError
from heedful.evaluation.metrics import fill_in, mean_of
from heedful.evaluators.protocol import BaselineSet, Evaluation, Evaluator
from heedful.inference.reader import TextReader, at_least_float32
from heedful.inputs.protocol import Inputs, Sampler, Setup, Step
from heedful.objectives.protocol import Objective, Partial, StepContext
from heedful.recipes.schema import DataTable, ModelTable, ObjectiveTable, Recipe
from heedful.storage.directories import replace_directory
from heedful.storage.shared import SharedStore
from heedful.streams import in_parts, seed_of, shuffled

Floats = npt.NDArray[np.float32]
TERM = "contrast"
TOWERS = ("first", "second")


# Data: two views of each example


class ViewsTable(DataTable):
    train: str | None = None
    """A .npz file with the arrays first_train, second_train, first_dev and so on: a row for each example."""


class ViewsData(Data):
    Table = ViewsTable

    def __init__(self, name: str, views: Mapping[str, tuple[Floats, Floats]]) -> None:
        self.name, self.views = name, views

    @staticmethod
    def check(recipe: Recipe) -> None:
        if recipe.data.train is None:
            raise RequestError("data.train is missing: name a .npz file.")

    @classmethod
    def read(cls, recipe: Recipe, seed: int, store: SharedStore) -> "ViewsData":
        path = Path(recipe.data.train)
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: np.asarray(file[name], dtype=np.float32) for name in file.files}
            names = [name for name in ("train", "dev", "test") if f"first_{name}" in arrays]
            return cls(path.stem, {name: (arrays[f"first_{name}"], arrays[f"second_{name}"]) for name in names})
        except (OSError, ValueError, KeyError) as error:
            raise RequestError(f"{path}: is no .npz file of two views of each set ({error}).") from None

    def describe(self) -> dict[str, Any]:
        prints = {
            name: hashlib.sha256(b"".join(view.tobytes() for view in views)).hexdigest()
            for name, views in self.views.items()
        }
        sizes = {name: len(first) for name, (first, _) in self.views.items()}
        return {"name": self.name, "sizes": sizes, "fingerprints": prints}

    def sample(self, rows: int) -> "ViewsData":
        first, second = self.views["train"]
        return ViewsData(self.name, {**self.views, "train": (first[:rows], second[:rows])})


# The model


class TowersTable(ModelTable):
    width: int = Field(8, ge=1)
    """Width of the embeddings."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Within each tower."""

    @property
    def title(self) -> str:
        return self.name or f"towers of width {self.width}"


@dataclass(frozen=True)
class TowersShape:
    first: int
    second: int
    width: int
    dropout: float


class TwoTowers(nn.Module):
    def __init__(self, shape: TowersShape) -> None:
        super().__init__()
        self.sizes = shape
        self.towers = nn.ModuleDict(
            {
                name: nn.Sequential(
                    nn.Linear(size, 2 * shape.width), nn.Tanh(), nn.Dropout(shape.dropout),
                    nn.Linear(2 * shape.width, shape.width),
                )
                for name, size in zip(TOWERS, (shape.first, shape.second), strict=True)
            }
        )  # fmt: skip

    def initialise(self, generator: torch.Generator) -> None:
        with torch.no_grad():
            for p in self.parameters():
                p.uniform_(-1, 1, generator=generator).div_(math.sqrt(p.shape[-1]))

    def forward(self, name: str, x_bf: Tensor) -> Tensor:
        """Return embeddings of length 1 (b, d)."""
        return F.normalize(self.towers[name](x_bf), dim=-1)


@dataclass
class TowersCheckpoint:
    """config.json with the family, towers.json with the sizes, and model.safetensors."""

    module: TwoTowers
    family: str = "toy-towers"
    sources: dict[str, str] = field(default_factory=dict)
    source: str = ""
    tokenizer_fingerprint: None = None

    def copied(self) -> "TowersCheckpoint":
        return replace(self, module=copy.deepcopy(self.module), sources=dict(self.sources))

    def write(self, directory: Path, shared: SharedStore | None = None, moved: bool = False) -> None:
        def write_into(folder: Path) -> None:
            (folder / "config.json").write_text(json.dumps({"model_type": self.family}))
            (folder / "towers.json").write_text(json.dumps(vars(self.module.sizes)))
            save_file({n: t.contiguous() for n, t in self.module.state_dict().items()}, folder / "model.safetensors")

        replace_directory(directory, write_into, frozenset({"config.json", "towers.json", "model.safetensors"}))


def read_towers(directory: Path) -> TwoTowers:
    model = TwoTowers(TowersShape(**json.loads((directory / "towers.json").read_text())))
    model.load_state_dict(load_file(directory / "model.safetensors"))
    return model


class Towers(ModelKind):
    Table = TowersTable
    TUNINGS = ("full",)

    @staticmethod
    def build(request: Request) -> BuiltModel:
        table, data = request.recipe.model, request.data
        assert isinstance(table, TowersTable)
        assert isinstance(data, ViewsData)
        name = table.name_for(request.seed)
        if name is not None:
            weights = (Path(name) / "model.safetensors").read_bytes()
            model, print_of = read_towers(Path(name)), hashlib.sha256(weights).hexdigest()
        else:
            sizes = [view.shape[1] for view in data.views["train"]]
            model, print_of = TwoTowers(TowersShape(*sizes, table.width, table.dropout)), ""
            model.initialise(torch.Generator().manual_seed(seed_of(request.seed, "towers")))
        sources = {n: "new" if name is None else name for n, _ in model.named_parameters()}
        checkpoint = TowersCheckpoint(model, sources=sources)
        return BuiltModel(checkpoint, name or table.title, print_of, {"towers": print_of})


# Steps


@dataclass(frozen=True)
class ViewsStep(Step):
    views: tuple[Tensor, Tensor]
    parameters: int

    def forward_flops(self, shape: Any) -> int:
        return 2 * self.parameters * len(self.rows)


class ViewsInputs(Inputs[ViewsData]):
    def __init__(self, data: ViewsData, checkpoint: TowersCheckpoint, setup: Setup) -> None:
        self.data, self.seed, self.size = data, setup.seed, setup.recipe.training.batch_size
        self.views = {name: tuple(map(torch.from_numpy, views)) for name, views in data.views.items()}
        self.parameters = sum(p.numel() for p in checkpoint.module.parameters())

    def sampler(self) -> "ViewsSampler":
        return ViewsSampler(self)


class ViewsSampler(Sampler):
    def __init__(self, inputs: ViewsInputs) -> None:
        self.inputs, self.rows = inputs, len(inputs.views["train"][0])

    def epoch_steps(self, epoch: int) -> int:
        return -(-self.rows // self.inputs.size)

    def step(self, number: int, done: float) -> ViewsStep:
        epoch, place = divmod(number, self.epoch_steps(0))
        order = shuffled(self.rows, self.inputs.seed, epoch, "views")
        rows = order[place * self.inputs.size : (place + 1) * self.inputs.size].tolist()
        first, second = self.inputs.views["train"]
        return ViewsStep(rows, (), (first[rows], second[rows]), self.inputs.parameters)


# Evaluation


def found(first_nd: Floats, second_nd: Floats) -> dict[str, npt.NDArray[np.float64]]:
    """Return of each example whether its second view is the nearest to its first, and 1 / its rank among all."""
    similar_nn = first_nd @ second_nd.T
    rank_n = (similar_nn > np.diag(similar_nn)[:, None]).sum(axis=1)
    return {"found": (rank_n == 0) * 1.0, "rank": 1.0 / (1 + rank_n)}


class AsTheyAre(BaselineSet):
    """The cosine of the two views, if they are equally long."""

    def __init__(self, evaluator: "ViewsEvaluator") -> None:
        self.evaluator = evaluator

    def scores(self) -> dict[str, dict[str, Any]]:
        facts: dict[str, Any] = {"seconds": 0.0, "values": {}, "tested": True}
        for name, views in self.evaluator.data.views.items():
            if name != "train":
                columns = found(*(x / np.linalg.norm(x, axis=1, keepdims=True) for x in views))
                facts[name] = self.evaluator.scores_of(columns)
                facts["values"][name] = {**columns, "row": list(range(1, len(columns["found"]) + 1))}
        return {"cosine of the views": facts}


class ViewsEvaluator(Evaluator[ViewsData]):
    METRICS = (
        mean_of("retrieval", "retrieval accuracy", True, "found", (0.0, 1.0)),
        mean_of("mrr", "mean reciprocal rank", True, "rank", (0.0, 1.0)),
    )

    def __init__(self, data: ViewsData) -> None:
        self.data = data

    def scores_of(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        return fill_in({"n": len(columns["found"])}, columns, self.METRICS)

    def evaluate(self, reader: TextReader, inputs: ViewsInputs, name: str, final: bool = False) -> Evaluation:
        with torch.inference_mode():
            first_nd, second_nd = (x.cpu().double().numpy() for x in embedded(reader, inputs.views[name]).unbind(1))
        columns, nearest = found(first_nd, second_nd), (first_nd @ second_nd.T).argmax(axis=1)
        rows = range(1, len(nearest) + 1)
        lines = [(str(1 + at),) for at in nearest]
        return Evaluation(self.scores_of(columns), rows, columns, ("nearest",), lambda: lines)

    def baselines(self) -> BaselineSet:
        return AsTheyAre(self)


# The loss


class ContrastTable(ObjectiveTable):
    kind: Literal["towers"] = "towers"
    """Tell which two views are of one example."""
    temperature: float = Field(0.1, gt=0)
    """What similarities are divided by."""


class Contrast(Objective):
    Table = ContrastTable
    DATA = ViewsData
    MODEL = Towers
    EVALUATOR = ViewsEvaluator

    def __init__(self, recipe: Recipe, data: ViewsData) -> None:
        assert isinstance(recipe.objective, ContrastTable)
        self.data, self.temperature = data, recipe.objective.temperature

    def inputs(self, checkpoint: TowersCheckpoint, setup: Setup) -> ViewsInputs:
        return ViewsInputs(self.data, checkpoint, setup)

    def evaluator(self) -> ViewsEvaluator:
        return ViewsEvaluator(self.data)

    def counts(self, step: ViewsStep) -> dict[str, float]:
        return {TERM: float(len(step.rows))}

    def losses(
        self, reader: TextReader, step: ViewsStep, counts: Mapping[str, float], context: StepContext
    ) -> Iterator[Partial]:
        parts = in_parts(range(len(step.rows)), context.parts)
        own_m = [place for _, places in parts for place in places]
        with torch.no_grad():
            once = [self._embedded(reader, step, part, places, context) for part, places in parts]
        own_m2d = torch.cat(once) if once else torch.empty(0, 2, reader.module.sizes.width, device=reader.device)
        with torch.enable_grad():
            own_m2d.requires_grad_()
            loss_m = self._losses(own_m2d, own_m, context) / counts[TERM]
            (gradient_m2d,) = torch.autograd.grad(loss_m.sum(), own_m2d)
        at = 0
        for part, places in parts:
            now = slice(at, at := at + len(places))
            product = (self._embedded(reader, step, part, places, context) * gradient_m2d[now]).sum()
            yield Partial(product, {TERM: loss_m[now].detach().sum()})

    def _embedded(
        self, reader: TextReader, step: ViewsStep, part: int, places: Sequence[int], context: StepContext
    ) -> Tensor:
        """Return the embeddings of a part (b, 2, d), with the same dropout whenever they are asked for."""
        context.reseed(part)
        return embedded(reader, tuple(view[list(places)] for view in step.views))

    def _losses(self, own_m2d: Tensor, own_m: Sequence[int], context: StepContext) -> Tensor:
        """Return the losses of this process's examples (m), each compared with all examples of the step."""
        all_n2d = context.gather(own_m2d)
        all_n = context.gather(torch.tensor(own_m, dtype=torch.int64, device=own_m2d.device))
        right_m = (all_n[None] == torch.tensor(own_m, dtype=torch.int64)[:, None].to(all_n)).float().argmax(dim=1)
        (own_u, own_v), (all_u, all_v) = own_m2d.unbind(1), all_n2d.unbind(1)
        both = ((own_u, all_v), (own_v, all_u))
        return sum(F.cross_entropy(a @ b.T / self.temperature, right_m, reduction="none") for a, b in both) / 2


def embedded(reader: TextReader, views: tuple[Tensor, ...]) -> Tensor:
    """Return what the two towers make of the two views (b, 2, d)."""
    dtype = next(reader.module.parameters()).dtype
    with reader.precision():
        u_bd, v_bd = (reader.module(name, x.to(reader.device, dtype)) for name, x in zip(TOWERS, views, strict=True))
    return torch.stack([at_least_float32(u_bd), at_least_float32(v_bd)], dim=1)
