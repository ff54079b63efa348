"""A language model as a sequence-to-sequence model: source and target are one text, and the target's start token stands
between them."""

import torch
from torch import Tensor, nn

from heedful.models.batch import Batch
from heedful.models.body import Cache, States
from heedful.models.next_token import place
from heedful.models.seq2seq.protocol import Step
from heedful.models.transformer import LAST, Transformer
from heedful.nn.blocks import Read


class DecoderOnly(nn.Module):
    """A `heedful.models.seq2seq.protocol.Seq2Seq`: sources are a `Batch`, what is encoded and kept is a `Cache`.

    Positions go on from the source to the target, past padding on the right of either.
    """

    def __init__(self, transformer: Transformer, head: str) -> None:
        super().__init__()
        if transformer.head_shapes[head].kind != "language-model" or not transformer.shape.causal:
            raise ValueError(f"the head {head!r} does not score what comes next in a causal body")
        self.shape, self.transformer, self.head = transformer.shape, transformer, head

    def forward(self, source: Batch, target: Batch, read: Read | None = None) -> Tensor:
        """In one pass; the source's rows of the last block are not computed."""
        _refuse_more(source, target)
        real_bn = None
        if source.real_bt is not None or target.real_bt is not None:
            real_bn = torch.cat([_real(source), _real(target)], dim=1)
        whole = place(self.shape, torch.cat([source.ids_bt, target.ids_bt], dim=1), real_bn, Cache())
        s, t = source.ids_bt.shape[1], target.ids_bt.shape[1]
        if isinstance(read, Tensor):
            read = read + s
        else:
            start, stop, step = (read or slice(None)).indices(t)
            read = slice(s + start, s + stop, step)
        states: States = self.transformer.body(whole, read)
        return self._scores(states.last)

    def encode(self, source: Batch) -> Cache:
        _refuse_more(source)
        return self._go_on(source.ids_bt, source.real_bt, Cache(), LAST)[1]

    def decode(self, encoded: Cache, target: Batch, read: Read | None = None) -> Tensor:
        _refuse_more(target)
        return self._scores(self._go_on(target.ids_bt, target.real_bt, encoded, read)[0].last)

    def step(
        self,
        encoded: Cache,
        ids_bn: Tensor,
        real_bn: Tensor | None,
        kept: Cache | None,
        want_weights: bool = False,
    ) -> Step[Cache]:
        """The weights are the mean over the heads of the last block, and what is missing to 1 went to the target."""
        kept = encoded if kept is None else kept
        states, cache = self._go_on(ids_bn, real_bn, kept, None if want_weights else LAST, want_weights)
        weights = None if states.weights is None else states.weights[-1].mean(dim=1)[..., : encoded.tokens]
        return Step(self._scores(states.last[:, -1]), cache, weights)

    def source_weights(self, source: Batch, target: Batch) -> tuple[Tensor | None, ...]:
        """(b, h, t, s) of each block: how much each target token looks at each source token while the one after it is
        predicted. What is missing to 1 went to the target."""
        encoded = self.encode(source)
        states, _ = self._go_on(target.ids_bt, target.real_bt, encoded, None, everything=True)
        assert states.weights is not None
        return tuple(None if w is None else w[..., : encoded.tokens] for w in states.weights)

    def _go_on(
        self, ids_bn: Tensor, real_bn: Tensor | None, cache: Cache, read: Read | None, everything: bool = False
    ) -> tuple[States, Cache]:
        batch = place(self.shape, ids_bn, real_bn, cache)
        states: States = self.transformer.body(batch, read, everything, cache=cache)
        assert states.cache is not None
        return states, states.cache

    def initialise(self, generator: torch.Generator, only: tuple[str, ...] = ("",)) -> None:
        """As `Transformer.initialise`, of parts that are called "transformer.body.blocks.0." and so on."""
        self.transformer.initialise(generator, tuple(name.removeprefix("transformer.") for name in only))

    def _scores(self, x: Tensor) -> Tensor:
        table_vd = self.transformer.body.embeddings.token.weight
        return self.transformer.heads[self.head](x, table_vd)  # type: ignore[no-any-return]


def _real(batch: Batch) -> Tensor:
    return torch.ones_like(batch.ids_bt, dtype=torch.bool) if batch.real_bt is None else batch.real_bt.bool()


def _refuse_more(*batches: Batch) -> None:
    if any(b.blocks_bt is not None or b.positions_bt is not None or b.segments_bt is not None for b in batches):
        raise ValueError("source and target become one text here: give them without blocks, positions and segments")
