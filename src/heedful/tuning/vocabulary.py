"""The token table, cut down to the tokens that occur: the others have no gradient, so an optimiser step on them is
weight decay alone, which is made up for in one multiplication at the end."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from heedful.models.transformer import Transformer
from heedful.objectives.classify import Item


class CompactTable:
    """Takes the place of the model's token table until `expand` puts the whole one back."""

    def __init__(self, transformer: Transformer, items: Iterable[Item]) -> None:
        self.transformer = transformer
        whole: nn.Embedding = transformer.body.embeddings.token
        self.whole: Tensor = whole.weight.detach().cpu().clone()
        used = torch.zeros(len(self.whole), dtype=torch.bool)
        pad = transformer.shape.pad_id or 0
        used[: pad + 1] = True  # padding keeps its id, since positions may be counted from it
        used[torch.tensor([i for item in items for chunk in item.chunks for i in chunk])] = True
        self.kept = used.nonzero()[:, 0]
        self.new_id = torch.cumsum(used, 0) - 1
        small = nn.Embedding(
            len(self.kept), whole.embedding_dim, padding_idx=whole.padding_idx, _weight=self.whole[self.kept]
        )
        transformer.body.embeddings.token = small.to(whole.weight.device)

    def renumber(self, items: Iterable[Item]) -> None:
        new_id = self.new_id.tolist()
        for item in items:
            item.chunks = [[new_id[i] for i in chunk] for chunk in item.chunks]

    def expand(self, decay: float) -> None:
        """`decay`: the product of all steps' (1 − lr · weight decay), which the rows that never occurred missed."""
        small: nn.Embedding = self.transformer.body.embeddings.token
        rows = self.whole * decay
        rows[self.kept] = small.weight.detach().cpu()
        whole = nn.Embedding(len(rows), small.embedding_dim, padding_idx=small.padding_idx, _weight=rows)
        self.transformer.body.embeddings.token = whole.to(small.weight.device)
