"""The token table, cut down to the tokens that occur: the others have no gradient, so an optimiser step on them is
weight decay alone, which is made up for in one multiplication at the end. For tunings in which the table trains."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from heedful.models.transformer import Transformer


class CompactTable:
    """Takes the place of the model's token table; `expand` puts the whole one back, into the model or a copy of it."""

    def __init__(self, transformer: Transformer, ids: Iterable[int]) -> None:
        whole: nn.Embedding = transformer.body.embeddings.token
        self.whole: Tensor = whole.weight.detach().cpu().clone()
        used = torch.zeros(len(self.whole), dtype=torch.bool)
        pad = transformer.shape.pad_id or 0
        used[: pad + 1] = True  # padding keeps its id, since positions may be counted from it
        used[torch.tensor(sorted(set(ids)))] = True
        self.kept = used.nonzero()[:, 0]
        self.new_id: list[int] = (torch.cumsum(used, 0) - 1).tolist()
        small = nn.Embedding(
            len(self.kept), whole.embedding_dim, padding_idx=whole.padding_idx, _weight=self.whole[self.kept]
        )
        transformer.body.embeddings.token = small.to(whole.weight.device)

    @property
    def set_aside(self) -> int:
        """Parameters of the rows that do not occur."""
        return (len(self.whole) - len(self.kept)) * self.whole.shape[1]

    def expand(self, decay: float, transformer: Transformer) -> None:
        """`decay`: the product of all steps' (1 − lr · weight decay), which the rows that never occurred missed."""
        small: nn.Embedding = transformer.body.embeddings.token
        rows = self.whole * decay
        rows[self.kept] = small.weight.detach().cpu()
        whole = nn.Embedding(len(rows), small.embedding_dim, padding_idx=small.padding_idx, _weight=rows)
        transformer.body.embeddings.token = whole.to(small.weight.device)
