"""Several crossed factors: the mean of a probe's values, for other seeds, templates, professions and terms.

Each of N values y_i has a level of every factor. For a set A of factors, K_A[i, j] is 1 where rows i and j share their
levels of all of A, else 0. What the factors of A do together varies by σ²_A, and rows are alike in it if they share A:

    Var(ȳ) = Σ_A σ²_A 1ᵀK_A1 / N²

With e = y − ȳ, Q_A = eᵀK_A e (the squared sums of the cells of A, added up) has the mean Σ_B M_AB σ²_B, where

    M_AB = tr(K_A P K_B P) = 1ᵀK_{A∪B}1 − (2/N) Σ_i n_A(i) n_B(i) + (1ᵀK_A1)(1ᵀK_B1)/N²

with P = I − 11ᵀ/N and n_A(i) the rows in the cell of row i. M σ² = Q is solved for the σ², whether the design is
balanced, unbalanced or nested; sets with the same cells are one. If it is balanced, these are the estimates of the
analysis of variance, and with seeds and examples V̂ = vS + vE − vR as in crossed.py. As there, the variance is no less
than that of any one factor f alone, which is what it would be if nothing else made rows alike:

    V = max(V̂, max_f V_f)    with V_f = (1ᵀK_f1/N²) Q_f / M_ff

(if balanced, the variance of the means of the G levels, divided by G), and Satterthwaite's 1/ν = Σ_f w_f/(G_f − 1) with
w_f = (V_f/V)² gives its degrees of freedom. Where levels have unequal numbers of rows, G_f = N²/Σn². Few levels may
agree by chance, so that up to five w_f is V_f/Σ V_f, not its square, and with two or three a power of G_f/4 of that. A
factor nested in another has no w_f: its spread is in that of the other. How often all this holds is in
benchmarks/bias.py.

A factor with one level says nothing of other levels: it does not count, and the estimate holds for this level alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import combinations
from math import inf

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from heedful.evaluation.metrics import Bounds
from heedful.evaluation.statistics.crossed import FEW as FEW_SEEDS
from heedful.evaluation.statistics.crossed import SeedsByExamples, Variance, p_value, pooled, within

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
SEED = "seed"
"""The name of the factor whose levels are the runs of one setting."""
ROWS = ()
"""The set of factors whose cells are the rows, where some rows share all levels: what varies between those."""
FEW = 5
"""A factor of up to so many levels is taken with care."""
_SINGULAR = 1e-9


@dataclass(frozen=True)
class Estimate:
    """A mean, and how sure one may be of it for other levels of its factors."""

    mean: float
    variance: float
    """V, of the mean. Infinite if no factor has two levels: then nothing is known."""
    freedom: float
    n: int
    """Rows."""
    levels: dict[str, int]
    """Of each factor that counts."""
    fixed: tuple[str, ...] = ()
    """Factors with one level, for which alone the estimate holds."""
    components: dict[tuple[str, ...], float] = field(default_factory=dict)
    """σ²_A of each set of factors, without bias and so perhaps below 0; ROWS for rows that share all levels."""
    this_run: bool = False
    """Whether a seed plays a part but there is one run, so that nothing is said of others."""

    @property
    def _of(self) -> Variance:
        return Variance(np.asarray(self.variance), np.asarray(self.freedom), np.zeros(()))

    def interval(self, level: float = 0.95, bounds: Bounds = (None, None)) -> tuple[float, float]:
        low, high = interval(np.asarray(self.mean), self._of, self.levels, level, bounds)
        return float(low), float(high)

    @property
    def p(self) -> float:
        """Two-sided, against a mean of 0; 1 if nothing varies and the mean is 0."""
        return float(p_value(np.asarray(self.mean), self._of))

    def visible(self, tests: int = 1, alpha: float = 0.05, power: float = 0.8) -> float:
        return float(visible(self._of, tests, alpha, power))


def interval(
    mean: Floats, of: Variance, levels: Mapping[str, int], level: float = 0.95, bounds: Bounds = (None, None)
) -> tuple[Floats, Floats]:
    """In the score form if it is between 0 and 1, else cut off at its bounds; no narrower than these if nothing is
    known. `levels`: how many of each factor that counts; where all rows are 0, or all 1, the most of them are counted
    as so many examples."""
    low, high = (end if end is not None else sign * inf for end, sign in zip(bounds, (-1, 1), strict=True))
    half = of.half(level)
    if bounds != (0, 1):
        return np.maximum(low, mean - half), np.minimum(high, mean + half)
    known = np.isfinite(half)
    ends = within(mean, np.where(known, half, 0.0), bounds, max(levels.values(), default=1), level)
    return np.where(known, ends[0], low), np.where(known, ends[1], high)


def visible(of: Variance, tests: int = 1, alpha: float = 0.05, power: float = 0.8) -> Floats:
    """The smallest true mean that another such sample would show in this share of cases, corrected for so many tests.
    V is as little known here as there: with ν degrees of freedom, it is c√V̂ where P(c√V̂ + √V z > t√V̂′) is the power, V̂
    and V̂′ being V χ²/ν of either sample, z normal, and t the quantile of the test. For ν = ∞ c is t plus a quantile."""
    inverse, c = _factors_of_visible(tests, alpha, power)
    return np.asarray(np.exp(np.interp(1 / of.freedom, inverse, np.log(c))) * np.sqrt(of.v))


@cache
def _factors_of_visible(tests: int, alpha: float, power: float) -> tuple[Floats, Floats]:
    """c at some 1/ν between 0 and 1, by bisection, over quantiles of χ²."""
    inverse, quantiles = np.linspace(0, 1, 25), (np.arange(40) + 0.5) / 40
    freedom = 1 / np.maximum(inverse, 1e-5)
    root = np.sqrt(special.chdtri(freedom[:, None], quantiles) / freedom[:, None])
    t = special.stdtrit(freedom, 1 - alpha / 2 / tests)
    low, high = np.full_like(t, 1e-3), 1e3 * t
    for _ in range(50):
        c = np.sqrt(low * high)
        shown = special.ndtr((c[:, None] * root)[:, :, None] - (t[:, None] * root)[:, None, :]).mean(axis=(1, 2))
        low, high = np.where(shown < power, c, low), np.where(shown < power, high, c)
    return inverse, high


@dataclass(frozen=True)
class Term:
    """A factor's part in V."""

    v: Floats
    """V_f."""
    freedom: Floats
    """G_f − 1; infinite if the factor is nested in another."""
    backed: bool = False
    """Whether another setting's spread backs it, so that few levels need no more care."""


@dataclass(frozen=True, eq=False)
class Design:
    """Which rows share which levels. Of one design the means of many values can be estimated."""

    levels: Mapping[str, npt.ArrayLike]
    """Of each factor the level of each row, (n,)."""

    def __post_init__(self) -> None:
        shapes = {np.shape(of_row) for of_row in self.levels.values()}
        if len(shapes) != 1 or len(shape := shapes.pop()) != 1 or shape[0] == 0:
            raise ValueError("each factor has a level of every row, and there is a factor and a row")

    @cached_property
    def n(self) -> int:
        return len(np.asarray(next(iter(self.levels.values()))))

    @cached_property
    def _codes(self) -> dict[str, Ints]:
        """Levels as 0, 1, … in the order in which the rows have them."""
        return {name: _numbered(np.asarray(of_row)) for name, of_row in self.levels.items()}

    @cached_property
    def counted(self) -> dict[str, int]:
        """The factors with two levels or more, and how many."""
        return {name: count for name, of_row in self._codes.items() if (count := int(of_row.max()) + 1) > 1}

    @property
    def fixed(self) -> tuple[str, ...]:
        return tuple(name for name in self.levels if name not in self.counted)

    @cached_property
    def _cells(self) -> tuple[dict[tuple[str, ...], Ints], dict[frozenset[str], int]]:
        """The cell of each row for each set of factors with cells of its own, and which of these each set has."""
        cells: dict[tuple[str, ...], Ints] = {}
        seen: dict[bytes, int] = {}
        number: dict[frozenset[str], int] = {}
        of_set: dict[tuple[str, ...], Ints] = {}
        for size in range(1, len(self.counted) + 1):
            for names in combinations(self.counted, size):
                last = self._codes[names[-1]]
                joint = last if size == 1 else _numbered(of_set[names[:-1]] * self.counted[names[-1]] + last)
                of_set[names] = joint
                at = seen.setdefault(joint.tobytes(), len(cells))
                number[frozenset(names)] = at
                if at == len(cells):
                    cells[names] = joint
        if self.counted and int(joint.max()) + 1 < self.n:
            cells[ROWS] = np.arange(self.n)
        return cells, number

    @cached_property
    def sets(self) -> tuple[tuple[str, ...], ...]:
        """The sets of factors that have components of their own."""
        return tuple(self._cells[0])

    @cached_property
    def _counts(self) -> list[Ints]:
        """The rows of each cell of each set."""
        return [np.bincount(of_row) for of_row in self._cells[0].values()]

    @cached_property
    def same(self) -> Floats:
        """(sets,): 1ᵀK_A1, the pairs of rows that share A."""
        return np.array([float(counts @ counts) for counts in self._counts])

    @cached_property
    def moments(self) -> Floats:
        """(sets, sets): M."""
        cells, number = self._cells
        lines = [n[of_row] for n, of_row in zip(self._counts, cells.values(), strict=True)]
        counts = np.array(lines, dtype=np.float64).reshape(len(lines), self.n)
        # a set that has no number is that of the rows, which are the cells of its union with any other
        last = len(self.sets) - 1
        union = np.array(
            [[number[frozenset((*a, *b))] if ROWS not in (a, b) else last for b in self.sets] for a in self.sets],
            dtype=np.int64,
        ).reshape(len(lines), len(lines))
        return np.asarray(
            self.same[union] - 2 / self.n * counts @ counts.T + np.outer(self.same, self.same) / self.n**2
        )

    @cached_property
    def _solve(self) -> Floats:
        """(sets, sets): from Q to σ²."""
        scale = np.sqrt(np.maximum(np.diag(self.moments), np.finfo(np.float64).tiny))
        both = np.outer(scale, scale)
        return np.asarray(np.linalg.pinv(self.moments / both, rcond=_SINGULAR, hermitian=True) / both)

    @cached_property
    def _sums(self) -> list[sparse.csr_array]:
        """Of each set (cells, n): 1 where a row is in a cell."""
        return [
            sparse.csr_array((np.ones(self.n), (of_row, np.arange(self.n))), shape=(len(counts), self.n))
            for of_row, counts in zip(self._cells[0].values(), self._counts, strict=True)
        ]

    def squares(self, values: Floats) -> Floats:
        """(…, sets): Q of values (…, n)."""
        lines = values.reshape(-1, self.n)
        rest = np.ascontiguousarray((lines - lines.mean(axis=-1, keepdims=True)).T)
        of_sets = np.empty((len(lines), len(self.sets)))
        for at, add in enumerate(self._sums):
            of_sets[:, at] = np.square(add @ rest).sum(axis=0)
        return of_sets.reshape(*values.shape[:-1], len(self.sets))

    def components(self, squares: Floats) -> Floats:
        """(…, sets): σ² from Q."""
        return np.asarray(squares @ self._solve)

    def unbiased(self, squares: Floats) -> Floats:
        """(…): V̂ from Q."""
        return np.asarray(self.components(squares) @ self.same / self.n**2)

    def _nested(self, name: str) -> bool:
        """Whether each of its levels lies within one level of another factor."""
        number = self._cells[1]
        at = number[frozenset((name,))]
        return any(number[frozenset((name, other))] == at != number[frozenset((other,))] for other in self.counted)

    def terms(self, squares: Floats) -> dict[str, Term]:
        """Of each factor that counts, from Q."""
        found = {}
        for name in self.counted:
            at = self._cells[1][frozenset((name,))]
            alone = self.same[at] / self.n**2 / self.moments[at, at] * squares[..., at]
            freedom = inf if self._nested(name) else max(1.0, self.n**2 / self.same[at] - 1)
            found[name] = Term(np.asarray(alone), np.asarray(freedom))
        return found

    def of_seeds(self, values: Floats) -> Floats:
        """(…): V_f of the seeds; 0 where they do not count."""
        return self.terms(self.squares(values))[SEED].v if SEED in self.counted else np.zeros(values.shape[:-1])

    def variance(self, values: Floats, together: Floats | None = None) -> Variance:
        """V and ν of the means of values (…, n). V_f of two seeds is no less than `together`."""
        if not self.counted:
            return _unknown(values[..., 0])
        squares = self.squares(values)
        unbiased, terms = self.unbiased(squares), self.terms(squares)
        if together is not None and self.counted.get(SEED) == 2:
            own = terms[SEED]
            terms[SEED] = replace(own, v=np.maximum(own.v, together), backed=True)
            unbiased = unbiased + terms[SEED].v - own.v
        return _variance(unbiased, terms)

    def across(self, seeds: int) -> "Design":
        """The same rows in so many runs, as values (seeds, n) that are laid out in one line."""
        if seeds not in self._in_runs:
            tiled = {name: np.tile(of_row, seeds) for name, of_row in self._codes.items()}
            self._in_runs[seeds] = Design({SEED: np.repeat(np.arange(seeds), self.n), **tiled})
        return self._in_runs[seeds]

    @cached_property
    def _in_runs(self) -> dict[int, "Design"]:
        """Designs of so many runs, since two settings mostly have equal numbers."""
        return {}

    def estimate(self, values: npt.ArrayLike, together: Floats | None = None) -> Estimate:
        """`together`: as in `variance`."""
        y = np.asarray(values, dtype=np.float64)
        if y.shape != (self.n,):
            raise ValueError(f"there are {self.n} rows, so values of shape ({self.n},), not {y.shape}")
        of = self.variance(y, together)
        components = self.components(self.squares(y))
        return Estimate(
            float(y.mean()),
            float(of.v),
            float(of.freedom),
            self.n,
            dict(self.counted),
            self.fixed,
            {names: float(c) for names, c in zip(self.sets, components, strict=True)},
            SEED in self.fixed,
        )


def _numbered(of_row: npt.NDArray[np.generic]) -> Ints:
    """0, 1, … in the order in which they are met, so that equal partitions have equal numbers."""
    _, first, inverse = np.unique(of_row, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def _unknown(like: Floats) -> Variance:
    return Variance(np.full_like(like, inf), np.ones_like(like), np.zeros_like(like))


def _variance(unbiased: Floats, terms: Mapping[str, Term]) -> Variance:
    of_seeds = sum((term.v for name, term in terms.items() if name.startswith(SEED)), np.zeros_like(unbiased))
    v = np.max([np.zeros_like(unbiased), unbiased, of_seeds, *(term.v for term in terms.values())], axis=0)
    own = [term for term in terms.values() if np.isfinite(term.freedom).all()]
    total = sum((term.v for term in own), np.zeros_like(v))
    below = np.zeros_like(v)
    for term in own:
        few = (term.freedom <= FEW - 1) & (not term.backed)
        share = term.v / np.where(few, np.where(total > 0, total, 1.0), np.where(v > 0, v, 1.0))
        below += share ** np.where(few, np.minimum(1.0, (term.freedom + 1) / 4), 2.0) / term.freedom
    return Variance(v, np.maximum(1.0, 1.0 / np.where(below > 0, below, 1.0)), of_seeds)


def estimate(values: npt.ArrayLike, levels: Mapping[str, npt.ArrayLike]) -> Estimate:
    """The mean of values (n,), each with a level of every factor. Seeds are the factor "seed", if they play a part;
    where it has one level, the estimate is about this run."""
    return Design(levels).estimate(values)


def by_level(values: npt.ArrayLike, levels: Mapping[str, npt.ArrayLike], factor: str) -> list[tuple[int, Estimate]]:
    """The mean within each level of a factor, for other levels of the other factors; the levels in their order. Two
    seeds spread no less within one level than within all on average: among many levels they nearly agree in some. A
    correction for how many levels there are is the caller's."""
    y, of_row = np.asarray(values, dtype=np.float64), np.asarray(levels[factor])
    others = {name: np.asarray(level) for name, level in levels.items() if name != factor} or {factor: of_row}
    parts = []
    for level in np.unique(of_row):
        inside = of_row == level
        parts.append((int(level), Design({name: x[inside] for name, x in others.items()}), y[inside]))
    together = np.mean([design.of_seeds(part) for _, design, part in parts])
    found = [(level, design.estimate(part, np.asarray(together))) for level, design, part in parts]
    return [(level, replace(x, this_run=x.this_run or factor == SEED)) for level, x in found]


def difference(
    values_a: npt.ArrayLike,
    values_b: npt.ArrayLike,
    levels: Mapping[str, npt.ArrayLike],
    random_a: bool = True,
    random_b: bool = True,
) -> Estimate:
    """The mean of a minus that of b, each (seeds, n), on the same rows but with seeds of their own. `levels` are those
    of the n rows, without seeds; `random_…` says whether a seed plays a part."""
    a, b = (np.asarray(x, dtype=np.float64) for x in (values_a, values_b))
    design = Design(levels)
    if any(x.ndim != 2 or not len(x) or x.shape[1] != design.n for x in (a, b)):
        raise ValueError(f"there are {design.n} rows, so values of shape (seeds, {design.n}), not {a.shape}, {b.shape}")
    of = variance_of_difference(design, a, b, random_a, random_b)
    d = a.mean(axis=0) - b.mean(axis=0)
    rows = design.estimate(d)
    settings = {f"{SEED} of a": (a, random_a), f"{SEED} of b": (b, random_b)}
    seeds = {name: len(x) for name, (x, random) in settings.items() if random}
    return Estimate(
        float(d.mean()),
        float(of.v),
        float(of.freedom),
        design.n,
        {**{name: count for name, count in seeds.items() if count > 1}, **rows.levels},
        (*(name for name, count in seeds.items() if count == 1), *rows.fixed),
        rows.components,
        1 in seeds.values(),
    )


def variance_of_difference(
    design: Design, a: Floats, b: Floats, random_a: bool = True, random_b: bool = True
) -> Variance:
    """Of mean(a) − mean(b), each (…, seeds, n), on the rows of a design without seeds. What the rows do is in the
    difference of the means over seeds, and each setting with several seeds adds what its runs vary by as a whole: its V̂
    with seeds as a factor less that of its mean over seeds."""
    settings = {f"{SEED} of a": (a, random_a), f"{SEED} of b": (b, random_b)}
    runs = {name: x for name, (x, random) in settings.items() if random and x.shape[-2] > 1}
    if not design.counted and not runs:
        return _unknown(a[..., 0, 0])
    squares = design.squares(a.mean(axis=-2) - b.mean(axis=-2))
    unbiased, terms = design.unbiased(squares), design.terms(squares)
    for name, x in runs.items():
        whole = design.across(x.shape[-2])
        of_runs = whole.squares(x.reshape(*x.shape[:-2], -1))
        unbiased = unbiased + whole.unbiased(of_runs) - design.unbiased(design.squares(x.mean(axis=-2)))
        terms[name] = whole.terms(of_runs)[SEED]
    if len(runs) == 2:
        together = pooled([SeedsByExamples(x) for x in runs.values()])
        assert together is not None
        for name, x in runs.items():
            own, of_both = terms[name], together.between / x.shape[-2]
            larger = (of_both > own.v) & (x.shape[-2] <= FEW_SEEDS)
            v = np.where(larger, of_both, own.v)
            unbiased = unbiased + v - own.v
            terms[name] = Term(v, np.where(larger, together.freedom, own.freedom), backed=True)
    return _variance(unbiased, terms)
