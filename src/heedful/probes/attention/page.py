"""The page of an attention view: one file that asks the network for nothing.

A matrix is on the page as a byte for each weight: round(255 √(w / m)), where m is the largest of its matrix, so that
small weights keep their digits; what is read back is off by at most 0.4 % of m. The bytes of a view are deflated
together.
"""

import base64
import zlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.probes.attention.measures import MEASURES
from heedful.probes.attention.views import Attention, Score, Token, View
from heedful.report.page import write as pages
from heedful.report.page.words import NOTHING, capital, figure, several, shortened, visible
from heedful.storage.whole import write_text

HERE = Path(__file__).parent
DIGITS = {"entropy": 2, "distance": 1}
"""How many are shown of a measure; of the others three."""


def write_page(attention: Attention, path: Path) -> None:
    """In the place of whatever file was there; the folder must exist."""
    write_text(path, page(attention))


def page(attention: Attention) -> str:
    from markupsafe import Markup

    packed = [_pack(view) for view in attention.views]
    data = [_data(view, scales, attention.score) for view, (_, scales) in zip(attention.views, packed, strict=True)]
    scripts, digests = pages.seal([(HERE / "attention.js").read_text(encoding="utf-8")])
    style = [(folder / name).read_text(encoding="utf-8") for folder, name in STYLES]
    return pages.template(HERE, "attention.html.j2").render(
        attention=attention,
        subtitle=_subtitle(attention),
        tables=[_table(view) for view in attention.views],
        measures=_meanings(attention),
        version=version("heedful"),
        style=Markup("".join(style)),  # noqa: S704 (our own files)
        scripts=scripts,
        digests=digests,
        data=Markup(pages.json_in_html(data)),  # noqa: S704 (escaped for a script element)
        packed=[Markup(text) for text, _ in packed],  # noqa: S704 (base64)
    )


STYLES = ((pages.HERE, "page.css"), (HERE, "attention.css"))


def quantised(matrix: npt.NDArray[np.floating]) -> tuple[npt.NDArray[np.uint8], float]:
    """The bytes, and the largest value that they are parts of."""
    largest = float(matrix.max())
    if largest <= 0:
        return np.zeros(matrix.shape, dtype=np.uint8), 0.0
    return np.rint(255 * np.sqrt(np.maximum(matrix, 0) / largest)).astype(np.uint8), largest


def _maps(view: View) -> list[tuple[str, npt.NDArray[np.floating]]]:
    """All that is drawn, each kind as a list of matrices (n, t, s), in the order in which the page unpacks them."""
    kinds: list[tuple[str, npt.NDArray[np.floating] | None]] = [
        ("weights", view.weights.reshape(-1, *view.weights.shape[2:])),
        ("rollout", view.rollout),
        ("gradient", view.by_layer),
        ("relevance", None if view.relevance is None else view.relevance[None]),
    ]
    return [(name, array) for name, array in kinds if array is not None]


def _pack(view: View) -> tuple[str, dict[str, list[float]]]:
    """The bytes of all matrices, deflated, in base64; and the largest value of each."""
    parts, scales = [], {}
    for name, array in _maps(view):
        made = [quantised(matrix) for matrix in array]
        parts += [found.tobytes() for found, _ in made]
        scales[name] = [float(f"{largest:.6g}") for _, largest in made]
    return base64.b64encode(zlib.compress(b"".join(parts))).decode(), scales


def _data(view: View, scales: dict[str, list[float]], score: Score | None) -> dict[str, Any]:
    return {
        "title": view.title,
        "rows": [_token(token) for token in view.rows],
        "columns": None if view.kind == "self" else [_token(token) for token in view.columns],
        "layers": [layer + 1 for layer in view.layers],
        "heads": view.weights.shape[1],
        "scales": scales,
        "score": None if score is None else visible(score.words),
        "read": None if score is None else _row_read(score, len(view.rows)),
        "summary": {
            name: [[_shown(name, value) for value in row] for row in values] for name, values in _measured(view).items()
        },
    }


def _row_read(score: Score, rows: int) -> int | None:
    """The only token whose last state the head reads, if it is one."""
    one = {"first": 0, "pooled": 0, "last": rows - 1, "every": score.position}
    return one.get(score.reads)


def _token(token: Token) -> list[Any]:
    """Its text, whether it follows without a space, whether it is special, and how the vocabulary spells it."""
    return [visible(token.text), int(token.joined), int(token.part is None), visible(token.piece)]


def _measured(view: View) -> dict[str, npt.NDArray[np.float32]]:
    """The measures that mean something here."""
    return {name: view.summary[name] for name in MEASURES if not np.isnan(view.summary[name]).all()}


def _shown(name: str, value: float) -> str:
    return NOTHING if np.isnan(value) else figure(float(value), DIGITS.get(name, 3))


def _table(view: View) -> dict[str, Any]:
    measured = _measured(view)
    heads = [(i, head) for i in range(len(view.layers)) for head in range(view.weights.shape[1])]
    rows = [
        {
            "layer": view.layers[i] + 1,
            "head": head + 1,
            "place": (i, head),
            "cells": [_shown(name, values[i, head]) for name, values in measured.items()],
        }
        for i, head in heads
    ]
    return {"title": view.title, "columns": list(measured), "rows": rows}


def _meanings(attention: Attention) -> list[tuple[str, str]]:
    used = {name for view in attention.views for name in _measured(view)}
    return [(capital(name), meaning) for name, meaning in MEASURES.items() if name in used]


def _subtitle(attention: Attention) -> str:
    parts = [attention.source]
    for view in attention.views:
        n, m = len(view.rows), len(view.columns)
        parts.append(several(n, "token") if view.kind == "self" else f"{several(n, 'token')} to {m:,}")
    view = attention.views[0]
    parts.append(f"{several(len(view.layers), 'layer')} of {several(view.weights.shape[1], 'head')}")
    parts.append(" / ".join(f"“{shortened(text, 100)}”" for text in attention.texts))
    return " · ".join(parts)
