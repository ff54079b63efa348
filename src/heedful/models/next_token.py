"""What a language model says comes next: tokens in, the scores of the next one and a longer cache out."""

import torch
from torch import Tensor

from heedful.models.batch import Batch
from heedful.models.body import Cache
from heedful.models.composition import Composition
from heedful.models.shape import Shape
from heedful.models.transformer import LAST, Transformer


class NextToken:
    """A model's language-model head as a function of new tokens and a cache. It is what `heedful.decoding` asks for."""

    def __init__(self, transformer: Transformer, head: str, adapters: Composition | None = None) -> None:
        """`adapters`: those to read through instead of the head's own."""
        if transformer.head_shapes[head].kind != "language-model":
            raise ValueError(f"the head {head!r} does not score what comes next")
        self.transformer, self.head = transformer, head
        self.adapters = transformer.through(head, adapters)

    def __call__(self, ids_bn: Tensor, real_bn: Tensor | None, cache: Cache | None) -> tuple[Tensor, Cache]:
        """The scores (b, v) of what follows the last token. `real_bn` is False on padding, which may stand before the
        first tokens alone: every text is counted from its own first token. None: there is none."""
        cache = Cache() if cache is None else cache
        batch = place(self.transformer.shape, ids_bn, real_bn, cache)
        states = self.transformer.body(batch, LAST, cache=cache, adapters=self.adapters)
        table_vd = self.transformer.body.embeddings.token.weight
        scores_bv: Tensor = self.transformer.heads[self.head](states.last[:, 0], table_vd)
        assert states.cache is not None
        return scores_bv, states.cache


def place(shape: Shape, ids_bn: Tensor, real_bn: Tensor | None, cache: Cache) -> Batch:
    """New tokens after those of a cache, counted from the first token of each text: padding is passed over, wherever it
    stands."""
    positions_bn = None
    if shape.positions_from == "pad" and shape.pad_id is not None:  # such a body counts past padding by itself
        ids_bn = ids_bn if real_bn is None else ids_bn.masked_fill(~real_bn, shape.pad_id)
    elif real_bn is not None or cache.real_bs is not None:
        positions_bn = _count(ids_bn, real_bn, cache)
    return Batch(ids_bn, real_bn, positions_bt=positions_bn)


def _count(ids_bn: Tensor, real_bn: Tensor | None, cache: Cache) -> Tensor:
    """(b, n): from 0 at the first token of each text."""
    count_bn = (torch.ones_like(ids_bn) if real_bn is None else real_bn.long()).cumsum(1)
    if cache.positions_bs is None:
        return (count_bn - 1).clamp(min=0)
    return cache.positions_bs[:, -1:] + count_bn
