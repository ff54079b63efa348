"""Numbers from attention weights, computed in float64.

Letters: l layers, h heads, t queries (rows), s keys (columns). A weight is how much of what a query takes comes from a
key; the weights of a row sum to 1.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

MEASURES: dict[str, str] = {
    "entropy": "How diffuse the attention is: −Σ w ln w over the weights of a token, in nats. 0: all weight on one "
    "token; ln n: equal weight on all n tokens.",
    "distance": "Mean distance of attention, in tokens: Σ w · |from − to|.",
    "itself": "The weight that a token gives to itself: the diagonal.",
    "previous": "The weight on the token before.",
    "next": "The weight on the token after.",
    "first": "The weight on the first token of the text ([CLS], <s> or an ordinary token).",
    "separators": "The weight on all separators together ([SEP], </s>, the end of a text), if there are any.",
    "gradient": "The head's share of gradient × attention: of what raises the score, summed over all heads and layers.",
}
"""The measures of each head; all but the last are means over the query tokens."""


def entropy(weights: npt.ArrayLike) -> Array:
    """Of each row, in nats; 0 · ln 0 is 0. A row that does not sum to 1 is divided by its sum first."""
    w = np.asarray(weights, dtype=np.float64)
    total = w.sum(axis=-1, keepdims=True)
    w = np.divide(w, total, out=np.zeros_like(w), where=total > 0)
    return np.asarray(np.abs((w * np.log(np.where(w > 0, w, 1.0))).sum(axis=-1)))


def summarise(weights_lhts: npt.ArrayLike, separators: Sequence[int], own: bool) -> dict[str, Array]:
    """The measures of each head (l, h). `own`: a text looks at itself, so that places of rows and columns are the same;
    otherwise distance, itself, previous and next mean nothing and are NaN, as is whatever the text has no token for."""
    w = np.asarray(weights_lhts, dtype=np.float64)
    t, s = w.shape[-2:]
    nothing = np.full(w.shape[:2], np.nan)
    made = {name: nothing for name in MEASURES if name != "gradient"}
    made["entropy"] = entropy(w).mean(axis=-1)
    made["first"] = w[..., 0].mean(axis=-1)
    if separators:
        made["separators"] = w[..., list(separators)].sum(axis=-1).mean(axis=-1)
    if own:
        apart = np.abs(np.arange(t)[:, None] - np.arange(s))
        made["distance"] = (w * apart).sum(axis=-1).mean(axis=-1)
        made["itself"] = _diagonal(w, 0)
        if t > 1:
            made["previous"], made["next"] = _diagonal(w, -1), _diagonal(w, 1)
    return made


def _diagonal(w: Array, offset: int) -> Array:
    """The mean over the rows that have such a token."""
    return np.asarray(np.diagonal(w, offset, axis1=-2, axis2=-1).mean(axis=-1))


def rollout(own_lhts: npt.ArrayLike, memory_lhts: npt.ArrayLike | None = None) -> tuple[Array, Array | None]:
    """Attention rollout (Abnar and Zuidema, 2020) up to each layer: (l, t, t), and to a memory (l, t, s).

    With A the mean over a layer's heads, R ← (½A + ½I) R, from R = I: where the information of a token would come from
    if every layer passed on half of what it had and half of what it looked at. Attention to a memory halves once more:
    R ← ½R, and M ← ½M + ½A for what came from the memory. The rows of R and M together sum to 1.
    """
    own = np.asarray(own_lhts, dtype=np.float64).mean(axis=1)
    crossed = None if memory_lhts is None else np.asarray(memory_lhts, dtype=np.float64).mean(axis=1)
    r, m = np.eye(own.shape[-1]), None if crossed is None else np.zeros(crossed.shape[1:])
    rs, ms = [], []
    for layer, a in enumerate(own):
        r = 0.5 * a @ r + 0.5 * r
        if crossed is not None and m is not None:
            m = 0.5 * a @ m + 0.5 * m
            r, m = 0.5 * r, 0.5 * m + 0.5 * crossed[layer]
            ms.append(m)
        rs.append(r)
    return np.stack(rs), np.stack(ms) if ms else None


def gradient_by_layer(gradient_lhts: npt.ArrayLike) -> Array:
    """(l, t, s): the mean over heads of (∇A ∘ A)⁺, what raises the score (Chefer, Gur and Wolf, 2021b, equation 5)."""
    return np.asarray(np.maximum(np.asarray(gradient_lhts, dtype=np.float64), 0).mean(axis=1))


def relevance(gradient_lhts: npt.ArrayLike) -> Array:
    """(t, t): the layers' gradient × attention multiplied up, R ← R + ĀR from R = I (equation 6 of the same paper),
    without the I that every token has of itself."""
    by_layer = gradient_by_layer(gradient_lhts)
    r = np.eye(by_layer.shape[-1])
    for a in by_layer:
        r = r + a @ r
    return r - np.eye(len(r))


def shares(gradient_lhts: npt.ArrayLike) -> Array:
    """(l, h): each head's part of the sum of (∇A ∘ A)⁺; zeros where nothing raises the score."""
    sums = np.maximum(np.asarray(gradient_lhts, dtype=np.float64), 0).sum(axis=(-2, -1))
    total = sums.sum()
    return np.asarray(sums / total if total > 0 else sums)
