"""How fast gradients vanish in a recurrence of sigmoids, how loose the bound is, and what growth would need."""

import math

import torch
from torch import Tensor

from heedful.report.page import plots
from heedful.report.page.pieces import Block, Column, Figure, Prose, Row, Table
from heedful.theory.demonstration import Check, Demonstration, Shown
from heedful.theory.draws import jacobian, normal, orthogonal, stretch, uniform

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
        Check(
            "The product of the steps' matrices is what automatic differentiation gives (relative error).",
            _autograd(w, x, run),
            1e-10,
        ),
        Check(
            f"σ_max(W) = ¼: σ_max(∂x_n/∂x_1) ≤ (1/16)^(n−1), n = 2 … {STEPS} (as a ratio, minus 1).",
            (sizes / bound(0.25) - 1)[:, 1:].amax(dim=1),
            ROUNDING,
        ),
        Check(
            "Tighter, with the derivatives that occurred: σ_max(∂x_n/∂x_1) ≤ Π_t ¼ · max_i σ′(a_t,i) ≤ (1/16)^(n−1).",
            torch.maximum(sizes / tighter - 1, tighter / bound(0.25) - 1)[:, 1:].amax(dim=1),
            ROUNDING,
        ),
        Check(
            "The bound is attained: equal at every n if W𝟏 = 0, W is ¼ times a rotation of the rest, and x_1 = c𝟏.",
            (attained / bound(0.25) - 1).abs().amax(dim=1),
            1e-9,
        ),
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
        Check("σ_max(W) ≤ 4: the gradient never grows.", (four - 1)[:, 1:].amax(dim=1), ROUNDING),
        Check("σ_max(W) = 8 > 4 makes it grow.", 1 - eight, 0.0, "fails"),
        Check(
            "σ_max(W) = 8 can make it grow: by exactly 8/4 = 2 at every step, in the example with W𝟏 = 0.",
            (grown / 2**powers - 1).abs().amax(dim=1),
            1e-9,
        ),
        Check(
            "tanh has slope 1 at 0: with W = 1.5 times a rotation and x_1 = 0 it grows by 1.5 at every step.",
            (tanh / 1.5**powers - 1).abs().amax(dim=1),
            1e-9,
        ),
        Check("Without a nonlinearity and with a rotation, 50 steps keep the gradient at 1.", (linear - 1).abs(), 1e-9),
    )


def _figures(sizes: Tensor, tighter: Tensor, draws: int, generator: torch.Generator) -> tuple[Block, ...]:
    rows = [
        {"n": t + 1, "share of the bound (1/16)^(n−1)": float(f"{value:.3g}"), "of": name}
        for name, values in (
            ("the bound", torch.ones(STEPS)),
            ("Π ¼ max σ′, median", (tighter / bound(0.25)).median(dim=0).values),
            ("the gradient, median", (sizes / bound(0.25)).median(dim=0).values),
        )
        for t, value in enumerate(values.tolist())
    ]
    loose = (bound(0.25) / sizes).log10()[:, 1:]
    x = normal(generator, draws, WIDTH)
    table = []
    for largest in (0.25, 1.0, 4.0, 8.0, 16.0, 64.0):
        last = Recurrence(drawn_matrices(draws, generator, largest), x).last_size()
        table.append(
            Row(
                (
                    f"{largest:g}",
                    _power(float(bound(largest)[-1])),
                    _power(float(last.median())),
                    _power(float(last.max())),
                )
            )
        )
    return (
        Figure(
            "rnn-sigmoid-bound",
            "What is left of the bound, for random W with σ_max(W) = ¼. The derivatives that occur, max σ′ in the "
            "place of ¼, explain next to nothing of the loss: what the bound neglects is that W turns the direction "
            "that it stretched most.",
            plots.lines(rows, "n", "share of the bound (1/16)^(n−1)", "of", log_y=True),
        ),
        Figure(
            "rnn-sigmoid-loose",
            f"How many times too large the bound is, as a power of ten, over {draws:,} random matrices: "
            f"{float(loose[:, 1].median()):.1f} powers of ten at n = 3 (median) and "
            f"{float(loose[:, -1].median()):.1f} at n = {STEPS}.",
            plots.histogram({f"n = {n}": loose[:, n - 2].tolist() for n in (3, 6, STEPS)}, "log₁₀ of bound / gradient"),
        ),
        Prose(
            "The other side: what happens as σ_max(W) grows. Large weights push the sigmoids to where they are flat, "
            "and the gradient of random matrices falls again."
        ),
        Table(
            f"σ_max(∂x_n/∂x_1) at n = {STEPS} for random matrices, in powers of ten",
            (
                Column("σ_max(W)", numeric=True),
                Column("bound", numeric=True),
                Column("median", numeric=True),
                Column("largest", numeric=True),
            ),
            tuple(table),
        ),
    )


def _power(value: float) -> str:
    """The nearest power of ten: 10⁻³."""
    return "10" + str(round(math.log10(value))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


DEMONSTRATION = Demonstration(
    name="rnn-sigmoid",
    chapter="RNN gradients",
    order=2,
    title="Sigmoid matrices: at least sixteen times smaller at every step",
    claim=(
        "For x_{t+1} = σ(Wx_t) with σ_max(W) = ¼, where σ is the sigmoid: σ_max(∂x_n/∂x_1) ≤ (1/16)^(n−1). The bound "
        "cannot be improved for all W; for random W it is more too large with every step. For the gradient to grow at "
        "all, σ_max(W) must be above 4."
    ),
    reason=(
        "The letters: x_t is a vector, W a square matrix, and σ(a) = 1/(1 + e^(−a)) is taken of each coordinate. "
        "σ_max(M) is the largest singular value of a matrix M: the most by which M can stretch a vector.",
        "Step 1. The derivative of the sigmoid is σ′(a) = σ(a)(1 − σ(a)). A number times one minus itself is largest "
        "at ½, so σ′ ≤ ¼, with equality at a = 0.",
        "Step 2. One step has the derivative ∂x_{t+1}/∂x_t = D_t W, where D_t is diagonal with the entries σ′(a_t,i), "
        "a_t = Wx_t. A diagonal matrix stretches by its largest entry, so σ_max(D_t) ≤ ¼.",
        "Step 3. A product stretches at most by the product: σ_max(AB) ≤ σ_max(A) σ_max(B). So",
        "    σ_max(∂x_n/∂x_1) ≤ Π_t σ_max(D_t) σ_max(W) ≤ (¼ · ¼)^(n−1) = (1/16)^(n−1).",
        "Is it loose? Two inequalities lose something. σ′ may be below ¼: use the derivatives that occurred, and the "
        "bound becomes Π_t ¼ max_i σ′(a_t,i). And the vector that one step stretches most is rarely the one that the "
        "next step stretches most: this is the larger loss for random W.",
        "Is it the best bound? Yes. Let W𝟏 = 0, where 𝟏 is the vector of ones, and let W be ¼ times a rotation of all "
        "that is orthogonal to 𝟏. Start at x_1 = c𝟏. Then Wx_1 = 0, all σ′ are ¼ exactly, x_2 = ½𝟏, and so on for "
        "ever: every step multiplies by 1/16.",
    ),
    ends=(
        "Growth. The same steps with any W give σ_max(∂x_n/∂x_1) ≤ (σ_max(W)/4)^(n−1). For a gradient to grow, "
        "σ_max(W) must be above 4. That is needed, and not enough: with random W of σ_max = 8, most gradients still "
        "shrink, because W also turns and the sigmoids leave the place where they are steep. It can be enough: the "
        "example above with 8 in the place of ¼ doubles the gradient at every step.",
        "Other nonlinearities. tanh has slope 1 at 0, so its threshold is σ_max(W) = 1 instead of 4: around 0, 1.5 "
        "times a rotation grows by 1.5 at every step. A linear recurrence with a rotation neither grows nor shrinks.",
        "With inputs and biases, x_{t+1} = σ(Wx_t + Uu_t + b), the bound is the same: they change where σ′ is taken "
        "and nothing else.",
    ),
    show=show,
    published=(
        "A published answer derives (1/16)^(n−1) with these steps; it is right. How loose it is, it does not say."
    ),
    paper="“On the difficulty of training recurrent neural networks” (2013)",
)
