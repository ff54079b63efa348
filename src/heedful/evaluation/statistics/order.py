"""Almost stochastic order: is A better than B over its whole distribution of scores, not in the mean alone?

del Barrio, Cuesta-Albertos and Matrán, "An optimal transportation approach for assessing almost stochastic order"
(2018); for seeds of neural networks: Dror, Shlomov and Reichart, "Deep Dominance" (2019).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Order:
    violation: float
    """Share of the squared Wasserstein distance where B's quantile is above A's: 0 if A dominates, 1 if B does."""
    bound: float
    """Upper confidence bound of it; below ½, A is almost stochastically better."""
    sentence: str


def violation_ratio(a_n: Floats, b_m: Floats) -> float:
    """∫ max(0, B⁻¹ − A⁻¹)² dt / ∫ (B⁻¹ − A⁻¹)² dt over the empirical quantile functions, exactly; ½ if equal."""
    a, b = np.sort(a_n), np.sort(b_m)
    steps = np.unique(np.concatenate([np.arange(1, len(a) + 1) / len(a), np.arange(1, len(b) + 1) / len(b)]).round(12))
    widths = np.diff(steps, prepend=0.0)
    middle = steps - widths / 2
    gap = b[(middle * len(b)).astype(int)] - a[(middle * len(a)).astype(int)]
    whole = float((widths * gap**2).sum())
    return float((widths * np.maximum(gap, 0) ** 2).sum()) / whole if whole > 0 else 0.5


def almost_stochastic_order(
    a: Sequence[float], b: Sequence[float], level: float = 0.95, draws: int = 1000, seed: int = 0
) -> Order:
    a_n, b_m = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    n, m = len(a_n), len(b_m)
    if min(n, m) < 2:
        raise ValueError("almost stochastic order needs at least two seeds of each")
    violation = violation_ratio(a_n, b_m)
    random, scale = np.random.default_rng(seed), math.sqrt(n * m / (n + m))
    again = [violation_ratio(random.choice(a_n, n), random.choice(b_m, m)) for _ in range(draws)]
    sigma = float(np.std(scale * (np.array(again) - violation)))
    bound = float(np.clip(violation - sigma / scale * special.ndtri(1 - level), 0, 1))
    if bound < 0.5:
        words = f"A is almost stochastically better than B (ε = {violation:.2f}, at most {bound:.2f} with {level:.0%}; "
        words += "< 0.5)"
    else:
        words = (
            f"A is not shown to be almost stochastically better than B (ε = {violation:.2f}, but up to {bound:.2f} "
            f"with {level:.0%}; 0.5 is no order at all)"
        )
    return Order(violation, bound, words + ".")
