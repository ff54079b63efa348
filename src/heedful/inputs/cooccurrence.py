"""What a new model's table of tokens can begin with: which tokens stand near which in the text.

Tokens that occur beside the same others get similar rows before the first step: the leading singular vectors of the
positive pointwise mutual information of neighbours (Levy and Goldberg, 2014), smoothed as by Levy et al. (2015).
Counting is cheap, and a small model that predicts words had not found as much after six million tokens (docs/log.md).

What it needs in memory grows with the pairs of tokens that occur, some 50 bytes for each, and not with the text.

Letters: v the vocabulary, d the model's width, n tokens of a part of the text.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from heedful.inputs.corpora import Ints, Spans

_PART = 4_000_000  # tokens that are counted at a time
_SMOOTHING = 0.75  # the power of the contexts' counts
_ROUNDS = 4  # of power iteration


def neighbour_table(text: Spans, vocabulary: int, reach: int, width: int) -> npt.NDArray[np.float32]:
    """(v, d), each row of mean square 1; rows of tokens without neighbours are zero. `reach`: how many tokens apart
    two of one document may be."""
    from sklearn.utils.extmath import randomized_svd

    information_vv = _positive_information(_count_pairs(text, vocabulary, reach))
    u_vd, s_d, _ = randomized_svd(information_vv, width, n_iter=_ROUNDS, random_state=0)
    table_vd = u_vd * np.sqrt(s_d)
    size_v = np.sqrt((table_vd**2).mean(1, keepdims=True))
    known_v = information_vv.getnnz(axis=1)[:, None] > 0  # the others' rows are no exact zeros after the decomposition
    return np.where(known_v, table_vd / np.maximum(size_v, 1e-30), 0.0).astype(np.float32)


def _count_pairs(text: Spans, vocabulary: int, reach: int) -> Any:
    """How often each token stands near each other, both ways: sparse, (v, v)."""
    shape = (vocabulary, vocabulary)
    counts_vv = sparse.csr_matrix(shape, dtype=np.float32)
    for ids_n in _parts(text, gap=np.full(reach, vocabulary)):
        for apart in range(1, reach + 1):
            first, second = ids_n[:-apart], ids_n[apart:]
            within = (first < vocabulary) & (second < vocabulary)
            ones = np.ones(int(within.sum()), dtype=np.float32)
            counts_vv = counts_vv + sparse.coo_matrix((ones, (first[within], second[within])), shape).tocsr()
    return counts_vv + counts_vv.T


def _parts(text: Spans, gap: Ints) -> Iterator[npt.NDArray[np.int32]]:
    """The text, several documents at a time with a gap after each, so that no pair is of two of them."""
    part: list[Ints] = []
    held = 0
    for start, end in zip(text.starts_n.tolist(), text.ends_n.tolist(), strict=True):
        part += [text.corpus.ids(start, end), gap]
        held += end - start + len(gap)
        if held >= _PART:
            yield np.concatenate(part).astype(np.int32)
            part, held = [], 0
    if part:
        yield np.concatenate(part).astype(np.int32)


def _positive_information(counts_vv: Any) -> Any:
    """max(0, log p(a, b) / p(a) p(b)), with the context b's share smoothed; sparse as the counts are."""
    pairs = counts_vv.tocoo()
    count_v = np.asarray(counts_vv.sum(1)).ravel()
    context_v = count_v**_SMOOTHING / max(1e-30, (count_v**_SMOOTHING).sum())
    information = np.log(pairs.data / (count_v[pairs.row] * context_v[pairs.col]))
    kept = information > 0
    return sparse.csr_matrix((information[kept], (pairs.row[kept], pairs.col[kept])), counts_vv.shape)
