"""Pictures in fewer bytes: smaller, and the same picture."""

import numpy as np
import pytest

from heedful.report.page import charts, plots
from heedful.report.page.compact import compact


def decoded(png: bytes) -> np.ndarray:
    image = pytest.importorskip("PIL.Image")
    import io

    return np.asarray(image.open(io.BytesIO(png)).convert("RGBA"))


def test_the_same_picture_in_fewer_bytes() -> None:
    whole = charts.png(plots.lines([{"x": i, "y": i * i} for i in range(9)], "x", "y"), scale=1)
    small = compact(whole)
    assert len(small) < len(whole) / 2
    assert (decoded(small) == decoded(whole)).all()
    assert compact(small) == small  # already has a palette


def test_shades_too_many_for_a_palette_are_hardly_changed() -> None:
    rows = [{"x": i % 30, "y": i // 30, "value": i / 900} for i in range(900)]
    whole = charts.png(plots.grid(rows, "x", "y", "value"), scale=1)
    assert len(np.unique(decoded(whole).reshape(-1, 4), axis=0)) > 256
    small = compact(whole)
    assert len(small) < len(whole) / 2
    assert np.abs(decoded(small).astype(int) - decoded(whole)).max() <= 16
