"""The GPT family: a token sees itself and what came before."""

import torch
from torch import Tensor, nn

from heedful.models.body import States, make_blocks, run_blocks
from heedful.models.shape import Shape
from heedful.nn.blocks import FUSED, Kernels
from heedful.nn.embeddings import Embeddings
from heedful.nn.masks import causal_mask, padding_mask
from heedful.nn.norms import LayerNorm, PreNorm


class Decoder(nn.Module):
    def __init__(self, shape: Shape, kernels: Kernels = FUSED) -> None:
        super().__init__()
        self.embeddings = Embeddings(shape.vocabulary, shape.width, shape.positions, dropout=shape.embedding_dropout)
        self.blocks = make_blocks(shape, kernels, PreNorm)
        self.norm = LayerNorm(shape.width, shape.norm_eps, kernels.normalise)
        self.pooler = None

    def forward(
        self,
        ids_bt: Tensor,
        real_bt: Tensor | None = None,
        segments_bt: Tensor | None = None,
        positions_bt: Tensor | None = None,
        read: slice | None = None,
        everything: bool = False,
    ) -> States:
        """As `Encoder.forward`, but that there are no segments."""
        if segments_bt is not None:
            raise ValueError("a decoder has no segment table")
        t = ids_bt.shape[1]
        if positions_bt is None:
            positions_bt = torch.arange(t, device=ids_bt.device)
        x_btd = self.embeddings(ids_bt, positions_bt)
        mask = causal_mask(t, t, ids_bt.device)
        if real_bt is not None:
            mask = mask & padding_mask(real_bt)
        states = run_blocks(self.blocks, x_btd, mask, read, everything)
        last = self.norm(states.last)
        if states.layers is None:
            return States(last)
        return States(last, (*states.layers[:-1], last), states.weights)
