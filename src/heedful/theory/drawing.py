"""Charts of tensors, for the demonstrations."""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from torch import Tensor

from heedful.report.page import plots

if TYPE_CHECKING:
    from heedful.report.page.charts import Chart


def curves(
    at: Iterable[float],
    series: Mapping[str, Iterable[float]],
    x: str,
    y: str,
    by: str = "of",
    *,
    above: float = -math.inf,
    log_x: bool = False,
    log_y: bool = False,
    points: bool = False,
) -> "Chart":
    """Draw a line for each series over the same values of x, to four digits; leave values up to `above` out."""
    values = [float(value) for value in at]
    rows = [
        {x: value, y: float(f"{float(height):.4g}"), by: name}
        for name, heights in series.items()
        for value, height in zip(values, heights, strict=True)
        if height > above
    ]
    return plots.lines(rows, x, y, by, log_x=log_x, log_y=log_y, points=points)


def heatmap(matrix: Tensor, x: str, y: str, value: str, *, first: int = 1, signed: bool = False) -> "Chart":
    """Draw a matrix, its columns from left to right and its rows downwards, numbered from `first`."""
    rows = [
        {x: first + j, y: first + i, value: round(entry, 3)}
        for i, row in enumerate(matrix.tolist())
        for j, entry in enumerate(row)
    ]
    return plots.grid(rows, x, y, value, signed=signed)
