"""How fast gradients vanish in a recurrence of sigmoids, how loose the bound is, and what growth would need."""

import math

import torch
from torch import Tensor

from heedful.report.page import plots
from heedful.report.page.pieces import Block
from heedful.theory.demonstration import Check, Shown
from heedful.theory.drawing import curves
from heedful.theory.draws import jacobian, normal, orthogonal, stretch, uniform
from heedful.theory.page import Page

PAGE = Page.read(__name__)

WIDTH, STEPS = 6, 10
"""The length n of the sequence x_1 … x_n."""
SLOPE = 0.25
"""The largest derivative of a sigmoid, at 0."""
ROUNDING = 1e-12


def drawn_matrices(draws: int, generator: torch.Generator, largest: float) -> Tensor:
    """Normal matrices, scaled so that σ_max(W) is `largest`."""
    w = normal(generator, draws, WIDTH, WIDTH)
    return largest * w / stretch(w)[:, None, None]


def balanced_matrices(draws: int, generator: torch.Generator, largest: float) -> Tensor:
    """W 𝟏 = 0 and 𝟏ᵀW = 0; on what is orthogonal to 𝟏 it is a rotation times `largest`."""
    basis: Tensor = torch.linalg.qr(torch.cat([torch.ones(WIDTH, 1), torch.eye(WIDTH)[:, 1:]], dim=1).double()).Q[:, 1:]
    return largest * basis @ orthogonal(generator, draws, WIDTH - 1) @ basis.T


class Recurrence:
    """x_{t+1} = φ(W x_t): ∂x_n/∂x_1, and for each step the largest φ′ that occurred."""

    def __init__(self, w: Tensor, x: Tensor, n: int = STEPS, tanh: bool = False) -> None:
        self.jacobians = [torch.eye(WIDTH, dtype=torch.float64).expand(len(w), -1, -1)]
        self.slopes = []
        for _ in range(n - 1):
            a = (w @ x[..., None])[..., 0]
            x = a.tanh() if tanh else a.sigmoid()
            slope = 1 - x**2 if tanh else x * (1 - x)
            self.slopes.append(slope.amax(dim=1))
            self.jacobians.append(slope[..., None] * w @ self.jacobians[-1])

    def sizes(self) -> Tensor:
        """(b, n): σ_max(∂x_t/∂x_1) for t = 1 … n."""
        return stretch(torch.stack(self.jacobians, dim=1))

    def last_size(self) -> Tensor:
        """(b): σ_max(∂x_n/∂x_1)."""
        return stretch(self.jacobians[-1])

    def tighter(self, largest: float) -> Tensor:
        """(b, n): Π σ_max(W) · max σ′, with the derivatives that occurred."""
        steps = torch.stack(self.slopes, dim=1) * largest
        return torch.cat([torch.ones(len(steps), 1, dtype=torch.float64), steps.cumprod(dim=1)], dim=1)


def bound(largest: float, n: int = STEPS) -> Tensor:
    """(n): (σ_max(W)/4)^(t−1) for t = 1 … n."""
    return (largest * SLOPE) ** torch.arange(n, dtype=torch.float64)


def show(draws: int, generator: torch.Generator) -> Shown:
    x = normal(generator, draws, WIDTH)
    w = drawn_matrices(draws, generator, 0.25)
    run = Recurrence(w, x)
    sizes, tighter = run.sizes(), run.tighter(0.25)
    level = uniform(generator, -2.0, 2.0, draws, 1).expand(-1, WIDTH)
    attained = Recurrence(balanced_matrices(draws, generator, 0.25), level).sizes()
    checks = (
        PAGE.holds("product", _autograd(w, x, run), 1e-10),
        PAGE.holds("bound", (sizes / bound(0.25) - 1)[:, 1:].amax(dim=1), ROUNDING, steps=STEPS),
        PAGE.holds(
            "tighter", torch.maximum(sizes / tighter - 1, tighter / bound(0.25) - 1)[:, 1:].amax(dim=1), ROUNDING
        ),
        PAGE.holds("attained", (attained / bound(0.25) - 1).abs().amax(dim=1), 1e-9),
    )
    return Shown(checks, _figures(sizes, tighter, draws, generator), _growth(draws, generator, level))


def _autograd(w: Tensor, x: Tensor, run: Recurrence) -> Tensor:
    first = x.detach().requires_grad_()
    last = first
    for _ in range(STEPS - 1):
        last = torch.sigmoid((w @ last[..., None])[..., 0])
    made = jacobian(last, first)
    return stretch(made - run.jacobians[-1]) / stretch(made)


def _growth(draws: int, generator: torch.Generator, level: Tensor) -> tuple[Check, ...]:
    x = normal(generator, draws, WIDTH)
    powers = torch.arange(STEPS, dtype=torch.float64)
    four = Recurrence(drawn_matrices(draws, generator, 4.0), x).sizes()
    eight = Recurrence(drawn_matrices(draws, generator, 8.0), x).last_size()
    grown = Recurrence(balanced_matrices(draws, generator, 8.0), level).sizes()
    rotation = orthogonal(generator, draws, WIDTH)
    origin = torch.zeros(draws, WIDTH, dtype=torch.float64)
    tanh = Recurrence(1.5 * rotation, origin, tanh=True).sizes()
    linear = stretch(torch.matrix_power(rotation, 50))
    return (
        PAGE.holds("four", (four - 1)[:, 1:].amax(dim=1), ROUNDING),
        PAGE.fails("eight", 1 - eight, 0.0),
        PAGE.holds("eight-example", (grown / 2**powers - 1).abs().amax(dim=1), 1e-9),
        PAGE.holds("tanh", (tanh / 1.5**powers - 1).abs().amax(dim=1), 1e-9),
        PAGE.holds("linear", (linear - 1).abs(), 1e-9),
    )


def _figures(sizes: Tensor, tighter: Tensor, draws: int, generator: torch.Generator) -> tuple[Block, ...]:
    series = {
        "the bound": torch.ones(STEPS),
        "Π ¼ max σ′, median": (tighter / bound(0.25)).median(dim=0).values,
        "the gradient, median": (sizes / bound(0.25)).median(dim=0).values,
    }
    axes = "n", "share of the bound (1/16)^(n−1)"
    loose = (bound(0.25) / sizes).log10()[:, 1:]
    x = normal(generator, draws, WIDTH)
    table = []
    for largest in (0.25, 1.0, 4.0, 8.0, 16.0, 64.0):
        last = Recurrence(drawn_matrices(draws, generator, largest), x).last_size()
        table.append((f"{largest:g}", *(_power(float(v)) for v in (bound(largest)[-1], last.median(), last.max()))))
    return (
        PAGE.figure("bound", curves(range(1, STEPS + 1), series, *axes, log_y=True)),
        PAGE.figure(
            "loose",
            plots.histogram({f"n = {n}": loose[:, n - 2].tolist() for n in (3, 6, STEPS)}, "log₁₀ of bound / gradient"),
            draws=f"{draws:,}",
            early=f"{float(loose[:, 1].median()):.1f}",
            late=f"{float(loose[:, -1].median()):.1f}",
            steps=STEPS,
        ),
        PAGE.prose("large-weights"),
        PAGE.table("large-weights-table", ("σ_max(W)", "bound", "median", "largest"), table, steps=STEPS),
    )


def _power(value: float) -> str:
    """The nearest power of ten: 10⁻³."""
    return "10" + str(round(math.log10(value))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
