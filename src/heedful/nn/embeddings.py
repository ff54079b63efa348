"""From token ids to the first states: token + position + segment tables, then (in BERT) norm and dropout."""

from torch import Tensor, nn

from heedful.nn.dropout import Dropout
from heedful.nn.norms import LayerNorm


class Embeddings(nn.Module):
    def __init__(
        self,
        vocabulary: int,
        width: int,
        positions: int,
        segments: int = 0,
        norm: LayerNorm | None = None,
        dropout: float = 0.0,
        pad_id: int | None = None,
        pad_position: int | None = None,
    ) -> None:
        """`segments` = 0: no segment table. The rows `pad_id` and `pad_position` get no gradient when looked up."""
        super().__init__()
        self.token = nn.Embedding(vocabulary, width, padding_idx=pad_id)
        self.position = nn.Embedding(positions, width, padding_idx=pad_position)
        self.segment = nn.Embedding(segments, width) if segments else None
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(self, ids_bt: Tensor, positions_bt: Tensor, segments_bt: Tensor | None = None) -> Tensor:
        """No segments given: every token is in segment 0."""
        x_btd: Tensor = self.token(ids_bt)
        if self.segment is not None:
            x_btd = x_btd + (self.segment.weight[0] if segments_bt is None else self.segment(segments_bt))
        x_btd = x_btd + self.position(positions_bt)
        if self.norm is not None:
            x_btd = self.norm(x_btd)
        return self.dropout(x_btd)  # type: ignore[no-any-return]
