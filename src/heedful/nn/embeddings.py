"""From token ids to the first states: token + position + segment tables, then (in BERT) norm and dropout."""

import torch
from torch import Tensor, nn

from heedful.nn.dropout import Dropout
from heedful.nn.initial import draw_table
from heedful.nn.norms import LayerNorm


class Embeddings(nn.Module):
    def __init__(
        self,
        token: nn.Embedding,
        position: nn.Module | None = None,
        segment: nn.Embedding | None = None,
        norm: LayerNorm | None = None,
        dropout: float = 0.0,
        scale: float = 1.0,
    ) -> None:
        """`position`: a table, or whatever else makes (…, d) of positions; None: attention looks at them, or nobody.
        `scale`: what the token's row is multiplied by, before anything is added."""
        super().__init__()
        self.token = token
        self.position = position
        self.segment = segment
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.scale = scale

    def forward(self, ids_bt: Tensor, positions_bt: Tensor, segments_bt: Tensor | None = None) -> Tensor:
        """No segments given: every token is in segment 0."""
        x_btd: Tensor = self.token(ids_bt)
        if self.scale != 1.0:
            x_btd = x_btd * self.scale
        if self.segment is not None:
            x_btd = x_btd + (self.segment.weight[0] if segments_bt is None else self.segment(segments_bt))
        if self.position is not None:
            x_btd = x_btd + self.position(positions_bt).to(x_btd.dtype)
        if self.norm is not None:
            x_btd = self.norm(x_btd)
        return self.dropout(x_btd)  # type: ignore[no-any-return]

    def draw(self, generator: torch.Generator, sigma: float, with_tokens: bool = True) -> None:
        """`with_tokens` is False where the table of tokens is another part's to draw."""
        for table in (self.token if with_tokens else None, self.position, self.segment):
            if isinstance(table, nn.Embedding):
                draw_table(table, generator, sigma)
        if self.norm is not None:
            self.norm.draw(generator)
