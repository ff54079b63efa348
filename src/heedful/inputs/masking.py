"""Which tokens of a row are hidden, and what stands in their place (BERT's paper, section 3.1 and appendix C.2)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heedful.streams import uniforms

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Masking:
    share: float
    """Of the tokens that may be hidden, how many are."""
    mask_id: int
    ordinary: Ints
    """The ids of tokens that stand for text, of which a random one may take a token's place."""
    hidden: float = 0.8
    """Of the chosen tokens, the share that becomes [MASK]."""
    swapped: float = 0.1
    """The share that becomes a random token; the rest stays, and is asked for all the same."""
    begins_word: npt.NDArray[np.bool_] | None = None
    """If whole words are hidden: of each id, whether a word begins with it."""
    weight_v: npt.NDArray[np.float64] | None = None
    """How readily a token is chosen beside others, above 0; None: all alike."""

    def draw(self, ids_t: Ints, places_n: Ints, *parts: int | str) -> tuple[Ints, Ints]:
        """The row with the chosen tokens hidden, and their places in order. `places_n`: those of the tokens that may be
        chosen. What is drawn depends on `parts` alone."""
        count = min(len(places_n), max(1, round(self.share * len(places_n))))
        draws = uniforms(3 * len(places_n), *parts)
        order_u, what_u, which_u = draws[0::3], draws[1::3], draws[2::3]
        if self.weight_v is not None:  # the first of waiting times at these rates (Efraimidis and Spirakis, 2006)
            order_u = -np.log1p(-order_u) / self.weight_v[ids_t[places_n]]
        if self.begins_word is None:
            chosen = np.sort(np.argsort(order_u, kind="stable")[:count])
        else:
            chosen = self._whole_words(ids_t[places_n], order_u, count)
        places, what, which = places_n[chosen], what_u[chosen], which_u[chosen]
        random = self.ordinary[(which * len(self.ordinary)).astype(np.int64)]
        hidden_t = ids_t.copy()
        hidden_t[places] = np.where(
            what < self.hidden, self.mask_id, np.where(what < self.hidden + self.swapped, random, ids_t[places])
        )
        return hidden_t, places

    def _whole_words(self, ids_n: Ints, order_u: npt.NDArray[np.float64], count: int) -> Ints:
        """Words in a random order, but for those that are too long for what is left; if all are, a part of one."""
        assert self.begins_word is not None
        begins = self.begins_word[ids_n].copy()
        begins[:1] = True
        word_n = np.cumsum(begins) - 1
        sizes = np.bincount(word_n)
        order = np.argsort(order_u[begins], kind="stable")
        taken = np.zeros(len(sizes), dtype=bool)
        left = count
        for word in order:
            if sizes[word] <= left:
                taken[word] = True
                left -= sizes[word]
            if not left:
                break
        if len(order) and not taken.any():
            return np.flatnonzero(word_n == order[0])[:count]
        return np.flatnonzero(taken[word_n])
