"""The BERT family: every token sees every other. BERT, RoBERTa (BERTweet too) and DistilBERT are one assembly."""

import torch
from torch import Tensor, nn

from heedful.models.body import States, make_blocks, run_blocks
from heedful.models.shape import Shape
from heedful.nn.blocks import FUSED, Kernels
from heedful.nn.embeddings import Embeddings
from heedful.nn.heads import Pooler
from heedful.nn.masks import padding_mask
from heedful.nn.norms import LayerNorm, PostNorm


class Encoder(nn.Module):
    def __init__(self, shape: Shape, kernels: Kernels = FUSED) -> None:
        super().__init__()
        # RoBERTa counts positions from pad_id + 1 over the tokens that are not padding, and gives padding pad_id.
        self.counted_from_pad = shape.pad_id if shape.family == "roberta" else None
        self.embeddings = Embeddings(
            shape.vocabulary,
            shape.width,
            shape.positions,
            shape.segments,
            LayerNorm(shape.width, shape.norm_eps, kernels.normalise),
            shape.embedding_dropout,
            shape.pad_id,
            self.counted_from_pad,
        )
        self.blocks = make_blocks(shape, kernels, PostNorm)
        self.pooler = Pooler(shape.width) if shape.pooler else None

    def forward(
        self,
        ids_bt: Tensor,
        real_bt: Tensor | None = None,
        segments_bt: Tensor | None = None,
        positions_bt: Tensor | None = None,
        read: slice | None = None,
        everything: bool = False,
    ) -> States:
        """`real_bt` is False on padding; None: there is none. `read`: see `run_blocks`."""
        if segments_bt is not None and self.embeddings.segment is None:
            raise ValueError("this encoder has no segment table")
        if positions_bt is None:
            positions_bt = self._positions(ids_bt)
        x_btd = self.embeddings(ids_bt, positions_bt, segments_bt)
        mask = None if real_bt is None else padding_mask(real_bt)
        return run_blocks(self.blocks, x_btd, mask, read, everything)

    def _positions(self, ids_bt: Tensor) -> Tensor:
        pad = self.counted_from_pad
        if pad is None:
            return torch.arange(ids_bt.shape[1], device=ids_bt.device)
        token = (ids_bt != pad).long()
        return token.cumsum(dim=1) * token + pad
