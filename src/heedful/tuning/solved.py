"""A linear head on a body that does not move, solved to its optimum instead of trained: no seed, no learning rate.

The objective's own loss over all training examples plus λ/2 ‖W‖² (features scaled to a mean square of one, biases not
penalised) is convex in a linear head; L-BFGS finds its minimum in double precision. Which λ is best, dev says.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from heedful.errors import RequestError, WorkError
from heedful.models.transformer import Transformer
from heedful.objectives.protocol import Objective
from heedful.objectives.texts import CachedFeatures, TextReader
from heedful.recipes.schema import Recipe, TuningTable
from heedful.tuning.frozen import Frozen
from heedful.tuning.protocol import Surroundings

PENALTIES = [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1]
_ROWS = 8192  # examples in a part of the loss
_CPU = torch.device("cpu")
_LBFGS = {"maxiter": 2000, "maxfun": 4000, "maxcor": 100, "gtol": 1e-7, "ftol": 0.0}  # a long memory: few steps


class SolvedTable(TuningTable):
    method: Literal["solved"] = "solved"
    """The head alone moves, to the optimum of its regularised loss, which no seed has a part in."""
    penalties: list[float] = Field(PENALTIES, min_length=1)
    """The weights λ of the penalty λ/2 ‖W‖² that are tried; the best on dev is kept, the largest of equals."""


class Solved(Frozen):
    Table = SolvedTable
    COMPARE_DEFAULTS: ClassVar = {}

    def __init__(self, transformer: Transformer, objective: Objective, around: Surroundings) -> None:
        if any(transformer.head_shapes[name].kind != "linear" for name in objective.heads(self.READS)):
            raise RequestError('tuning.method = "solved" needs model.head = "linear": others have no one optimum.')
        super().__init__(transformer, objective, around)
        table = around.recipe.tuning
        assert isinstance(table, SolvedTable)
        self.penalties = sorted(table.penalties, reverse=True)
        self.objective = objective
        self.solve = self._solve

    @staticmethod
    def check(recipe: Recipe) -> None:
        Frozen.check(recipe)
        table = recipe.tuning
        assert isinstance(table, SolvedTable)
        if min(table.penalties) <= 0:
            raise RequestError(f"tuning.penalties = {table.penalties}: each must be above 0, or there is no optimum.")

    def _solve(self, judge: Callable[[dict[str, Any]], float | None]) -> None:
        cache = self.computed.cache
        square = np.einsum("ij,ij->", cache.arrays["train"], cache.arrays["train"], dtype=np.float64)
        scale = float(np.sqrt(cache.arrays["train"].size / square)) if square > 0 else 1.0
        scaled = {"train": cache.arrays["train"].astype(np.float64) * scale}
        reader = TextReader(self.transformer, _CPU, CachedFeatures(scaled, cache.reads, _CPU))
        parameters = self.trainable()
        best, kept = -np.inf, dict[str, Tensor]()
        x = np.zeros(sum(p.numel() for p in parameters.values()))
        for penalty in self.penalties:  # from the strongest on: each starts where the one before ended
            x, loss = self._minimise(reader, x, penalty)
            self._put(x, scale)
            score = judge({"penalty": penalty, "loss": loss})
            if score is None and len(self.penalties) > 1:
                raise RequestError("tuning.penalties: without a dev set nothing chooses among several; name one.")
            if score is None or score > best or not kept:
                best = -np.inf if score is None else score
                kept = {name: p.detach().clone() for name, p in parameters.items()}
        with torch.no_grad():
            for name, p in parameters.items():
                p.copy_(kept[name])

    def _minimise(self, reader: TextReader, start: np.ndarray, penalty: float) -> tuple[np.ndarray, float]:
        from scipy.optimize import minimize

        heads = self.transformer.heads
        heads.cpu().double().train(False)  # not every device has double precision
        parameters = list(self.trainable().values())
        step = self.objective.everything()
        counts = self.objective.counts(step)
        parts = -(-len(step.rows) // _ROWS)

        def loss_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
            _fill(parameters, x)
            weights = [p for p in parameters if p.ndim > 1]
            total = 0.0
            for p in parameters:
                p.grad = None
            for one in self.objective.losses(reader, step, counts, parts, lambda part: None):
                one.loss.backward()  # type: ignore[no-untyped-call]
                total += float(one.loss.detach())
            total += penalty / 2 * sum(float((w.detach() ** 2).sum()) for w in weights)
            gradients = [p.grad + penalty * p.detach() if p.ndim > 1 else p.grad for p in parameters]  # type: ignore[operator]
            return total, torch.cat([g.reshape(-1) for g in gradients]).numpy()  # type: ignore[union-attr]

        result = minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", options=_LBFGS)
        for p in parameters:
            p.grad = None
        heads.float().to(self.reader.device)
        if not np.isfinite(result.fun):
            raise WorkError("the head's loss has no finite optimum; look at the features of this model.")
        return result.x, float(result.fun)

    def _put(self, x: np.ndarray, scale: float) -> None:
        """The solution for scaled features as a head for the features as they are."""
        parameters = list(self.trainable().values())
        _fill(parameters, x)
        with torch.no_grad():
            for p in parameters:
                if p.ndim > 1:
                    p.mul_(scale)


def _fill(parameters: Sequence[nn.Parameter], x: np.ndarray) -> None:
    """Into the parameters as they lie in memory, which the order of sums depends on."""
    at = 0
    with torch.no_grad():
        for p in parameters:
            p.copy_(torch.from_numpy(x[at : at + p.numel()]).view(p.shape))
            at += p.numel()


TUNING = Solved
