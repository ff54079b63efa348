"""The optimum of a linear head on features that do not move.

The objective's own loss over all training examples plus λ/2 ‖W‖² (features shifted and scaled, biases not penalised) is
convex in a linear head; L-BFGS finds its minimum in double precision. Which λ is best, dev says.

Letters: b examples of a part, n all of them, f features that the head reads, k its outputs.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heedful.errors import RequestError, WorkError
from heedful.inference.items import Item
from heedful.inference.reader import CachedFeatures, TextReader
from heedful.inputs.protocol import Step
from heedful.models.composition import Composition
from heedful.nn.heads import LinearHead, blocks_of
from heedful.objectives.protocol import Objective, Partial, StepContext
from heedful.streams import Parts
from heedful.tuning.protocol import DevScore

PENALTIES = [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]
_ROWS = 8192  # examples in a part of the loss
_ROOM = 2**26  # numbers of the features that are kept in memory: half a gigabyte
_CPU = torch.device("cpu")
_PATIENCE = 4  # weaker penalties in a row that improve neither metric nor loss on dev; they take the longest to solve
_CURVATURE = 0.5  # of cross-entropy in a score, at most; where a loss curves otherwise, L-BFGS takes some steps more
_LBFGS = {"maxiter": 2000, "maxfun": 4000, "maxcor": 50, "gtol": 1e-7, "ftol": 0.0}


def solve_head(
    reader: TextReader,
    head: str,
    penalties: Sequence[float],
    objective: Objective,
    step: Step,
    judge: Callable[[dict[str, Any]], DevScore | None],
) -> None:
    """Leave the head as the best on dev of the solutions for each penalty: see `Solve` in the protocol."""
    module = reader.transformer.heads[head]
    assert isinstance(module, LinearHead)
    module.eval()
    problem = _Problem(reader, head, module.output, objective, step)
    best: DevScore | None = None
    highest, kept, behind = (-np.inf, -np.inf), dict[str, Tensor](), 0
    for penalty in sorted(penalties, reverse=True):  # from the strongest on: each starts where the one before ended
        if behind == _PATIENCE:
            break
        behind += 1
        loss = problem.minimise(penalty)
        problem.put(module.output)
        dev = judge({"penalty": penalty, "loss": loss})
        if dev is None and len(penalties) > 1:
            raise RequestError("tuning.penalties: without a dev set nothing chooses among several; name one.")
        if dev is not None and any(now > before for now, before in zip(dev, highest, strict=True)):
            highest, behind = (max(dev[0], highest[0]), max(dev[1], highest[1])), 0
        if dev is None or best is None or dev > best:
            best = dev
            kept = {name: p.detach().clone() for name, p in module.output.named_parameters()}
    module.output.load_state_dict(kept)


class _Inputs(TextReader):
    """Scores by a linear map in double precision of what the head reads, shifted and scaled; kept as far as there is
    room. Every pass over the loss asks for the same parts."""

    def __init__(self, reader: TextReader, output: nn.Linear) -> None:
        assert reader.cache is not None
        cache = CachedFeatures(reader.cache.arrays, reader.cache.reads, _CPU, torch.float64)
        super().__init__(reader.transformer, _CPU, cache)
        self.output = output
        self.parts: dict[tuple[Any, int], Sequence[Item]] = {}
        self.kept: dict[tuple[Any, int], Tensor] = {}
        self.shift_f, self.scale_f = torch.zeros(output.in_features), torch.ones(output.in_features)

    def scores(self, items: Sequence[Item], head: str, adapters: Composition | None = None) -> Tensor:
        return self.output(self.inputs(items, head))  # type: ignore[no-any-return]

    def inputs(self, items: Sequence[Item], head: str, adapters: Composition | None = None) -> Tensor:
        key = (items[0].cache_key, len(items))
        self.parts.setdefault(key, items)
        if key not in self.kept:
            x_bf = (super().inputs(items, head) - self.shift_f) * self.scale_f
            if x_bf.numel() + sum(x.numel() for x in self.kept.values()) > _ROOM:
                return x_bf
            self.kept[key] = x_bf
        return self.kept[key]

    def adapt(self, head: str, centred: bool) -> None:
        """From now on every feature has mean zero, if there is a bias to make up for it, and each block (a tower, their
        product, their cosine) varies as much as any other: by one for each feature of the body's width."""
        squares_f, count = torch.zeros_like(self.shift_f, dtype=torch.float64), 0
        sums_f = torch.zeros_like(squares_f)
        for items in self.parts.values():
            x_bf = self.inputs(items, head)
            sums_f, squares_f, count = sums_f + x_bf.sum(0), squares_f + (x_bf**2).sum(0), count + len(x_bf)
        shift_f = sums_f / count if centred else torch.zeros_like(sums_f)
        variance_f = squares_f / count - shift_f**2
        width, pairs = self.transformer.shape.width, self.transformer.head_shapes[head].pairs
        scales = []
        for block in torch.split(variance_f, list(blocks_of(width, pairs))):
            total = float(block.sum())
            scales.append(torch.full_like(block, math.sqrt(width / total) if total > 0 else 1.0))
        self.kept.clear()
        self.shift_f, self.scale_f = shift_f, torch.cat(scales)


class _Problem:
    """The regularised loss of a linear head, and its minimum for one penalty after another.

    L-BFGS sees W L, where L Lᵀ is the covariance of the features (times the most that a score can curve the loss) plus
    λ: in these coordinates the loss is about as curved in every direction, and few steps are enough.
    """

    def __init__(self, reader: TextReader, head: str, layer: nn.Linear, objective: Objective, step: Step) -> None:
        biased = layer.bias is not None
        self.output = nn.Linear(layer.in_features, layer.out_features, biased, dtype=torch.float64)
        for p in self.output.parameters():
            nn.init.zeros_(p)
        self.objective, self.step = objective, step
        self.counts = objective.counts(self.step)
        self.inputs = _Inputs(reader, self.output)
        for _ in self._losses():
            pass  # so that the parts are known
        self.inputs.adapt(head, centred=biased)
        parts = [self.inputs.inputs(items, head) for items in self.inputs.parts.values()]
        self.covariance_ff = sum((x_bf.T @ x_bf for x_bf in parts), torch.zeros(())) / len(self.step.rows)

    def _losses(self) -> Iterator[Partial]:
        parts = Parts(-(-len(self.step.rows) // _ROWS))
        context = StepContext(parts, lambda part: None, lambda rows: rows)
        return self.objective.losses(self.inputs, self.step, self.counts, context)

    def minimise(self, penalty: float) -> float:
        """Goes on from where the parameters are; returns the least loss."""
        from scipy.optimize import minimize

        weight_kf, bias_k = self.output.weight, self.output.bias
        identity_ff = torch.eye(len(self.covariance_ff), dtype=torch.float64)
        factor_ff = torch.linalg.cholesky(_CURVATURE * self.covariance_ff + penalty * identity_ff)

        def fill(x: np.ndarray) -> None:
            tilted_kf = torch.from_numpy(x[: weight_kf.numel()]).view(weight_kf.shape)
            with torch.no_grad():
                weight_kf.copy_(torch.linalg.solve_triangular(factor_ff, tilted_kf, upper=False, left=False))
                if bias_k is not None:
                    bias_k.copy_(torch.from_numpy(x[weight_kf.numel() :]))

        def loss_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
            fill(x)
            self.output.zero_grad()
            total = penalty / 2 * float((weight_kf.detach() ** 2).sum())
            for partial in self._losses():
                partial.loss.backward()  # type: ignore[no-untyped-call]
                total += float(partial.loss.detach())
            assert weight_kf.grad is not None
            gradient_kf = weight_kf.grad + penalty * weight_kf.detach()
            tilted_kf = torch.linalg.solve_triangular(factor_ff.T, gradient_kf, upper=True, left=False)
            rest = [] if bias_k is None or bias_k.grad is None else [bias_k.grad]
            return total, torch.cat([tilted_kf.reshape(-1), *rest]).numpy()

        with torch.no_grad():
            start = torch.cat([(weight_kf @ factor_ff).reshape(-1), *([] if bias_k is None else [bias_k])]).numpy()
        result = minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", options=_LBFGS)
        if not np.isfinite(result.fun):
            raise WorkError("the head's loss has no finite optimum; look at the features of this model.")
        fill(result.x)
        return float(result.fun)

    def put(self, head: nn.Linear) -> None:
        """The solution for shifted and scaled features as a head for the features as they are."""
        with torch.no_grad():
            weight_kf = self.output.weight * self.inputs.scale_f
            head.weight.copy_(weight_kf)
            if head.bias is not None:
                head.bias.copy_(self.output.bias - weight_kf @ self.inputs.shift_f)
