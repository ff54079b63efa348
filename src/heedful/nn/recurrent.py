"""Recurrent networks that read the states of a text one after another: for a head that stands on what they end with, or
for a decoder (`recurrent_attention`) that looks at all their states.

LSTM (Hochreiter and Schmidhuber, 1997; the forget gate is younger), each gate with its own W, b, U, b′:
    i, f, o = σ(W x_t + b + U h_{t−1} + b′),  g = tanh(W x_t + b + U h_{t−1} + b′)
    c_t = f ∘ c_{t−1} + i ∘ g,  h_t = o ∘ tanh(c_t)
GRU (Cho et al., 2014), with the reset gate after the product, as cuDNN has it:
    r, z = σ(W x_t + b + U h_{t−1} + b′),  n = tanh(W x_t + b + r ∘ (U h_{t−1} + b′))
    h_t = (1 − z) ∘ n + z ∘ h_{t−1}

They begin with zeros; "bi" stands for two of them, one of which reads from the last token to the first.

Letters: b texts, t tokens, d the width of a state, f that of a feature, x directions, h the width of each.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from heedful.nn.heads import LinearHead, TwoLayerHead

RecurrentKind = Literal["lstm", "bilstm", "gru", "bigru"]


def default_width(kind: RecurrentKind, width: int) -> int:
    """Each way, for states of this width: as wide as they are, or half of it where there are two ways."""
    return -(-width // 2) if kind.startswith("bi") else width


class Recurrent(nn.Module):
    """One feature of each text, made of all its states: the output at its last token; with two directions, beside it
    the output of the one that reads backwards at the first token, where that one ends."""

    def __init__(self, kind: RecurrentKind, width: int, each_way: int) -> None:
        super().__init__()
        ways, network = 2 if kind.startswith("bi") else 1, nn.LSTM if kind.endswith("lstm") else nn.GRU
        self.rnn = network(width, each_way, batch_first=True, bidirectional=ways == 2)
        self.width = ways * each_way
        """f"""

    def forward(self, x_btd: Tensor, real_bt: Tensor | None = None) -> Tensor:
        """(b, f). `real_bt` is False on padding, which stands on the right and plays no part; None: there is none.

        In the precision of its weights, whatever is cast around it: the errors of a long text add up.
        """
        with torch.autocast(x_btd.device.type, enabled=False), _kernels(self, x_btd):
            x_btd = x_btd.to(next(self.rnn.parameters()).dtype)
            _, end = self.rnn(x_btd if real_bt is None else _without_padding(x_btd, real_bt))
        h_xbh: Tensor = end[0] if isinstance(end, tuple) else end
        return torch.cat(list(h_xbh), dim=1)

    def draw(self, generator: torch.Generator) -> None:
        draw_uniform(self.rnn, generator, self.rnn.hidden_size)


class Encoding(NamedTuple):
    states_btf: Tensor
    """The outputs of the top layer, those of both directions side by side; zeros on padding."""
    h_lbf: Tensor
    """Where each layer ended: after the last token, and the one that reads backwards after the first."""
    c_lbf: Tensor | None
    """The same of an LSTM's c."""


class RecurrentEncoder(nn.Module):
    """Every state of a text, and where its reading ended; in several layers, one on top of the other."""

    def __init__(self, kind: RecurrentKind, width: int, each_way: int, layers: int = 1, dropout: float = 0.0) -> None:
        """`dropout`: between layers."""
        super().__init__()
        ways, network = 2 if kind.startswith("bi") else 1, nn.LSTM if kind.endswith("lstm") else nn.GRU
        between = dropout if layers > 1 else 0.0
        self.rnn = network(width, each_way, layers, batch_first=True, bidirectional=ways == 2, dropout=between)
        self.ways, self.width = ways, ways * each_way
        """x, f"""

    def forward(self, x_btd: Tensor, real_bt: Tensor | None = None) -> Encoding:
        """`real_bt` as in `Recurrent.forward`."""
        with _kernels(self, x_btd):
            out, end = self.rnn(x_btd if real_bt is None else _without_padding(x_btd, real_bt))
        if real_bt is not None:
            out, _ = pad_packed_sequence(out, batch_first=True, total_length=x_btd.shape[1])
        h, c = end if isinstance(end, tuple) else (end, None)
        return Encoding(out, self._ends(h), None if c is None else self._ends(c))

    def _ends(self, end: Tensor) -> Tensor:
        """(l, b, f) of (l·x, b, h), in which the directions of a layer follow each other."""
        n, b, h = end.shape
        return end.view(n // self.ways, self.ways, b, h).movedim(1, 2).flatten(2)

    def draw(self, generator: torch.Generator) -> None:
        draw_uniform(self.rnn, generator, self.rnn.hidden_size)


@torch.no_grad()
def draw_uniform(module: nn.Module, generator: torch.Generator, width: int) -> None:
    """U(−1/√h, 1/√h), biases too: a state goes through the same matrix at every token."""
    for parameter in module.parameters():
        parameter.uniform_(-(width**-0.5), width**-0.5, generator=generator)


def _kernels(module: nn.Module, x_btd: Tensor) -> AbstractContextManager[None]:
    """cuDNN gives no gradients outside training, where a probe may ask for them."""
    asked = x_btd.is_cuda and torch.is_grad_enabled() and not module.training
    return torch.backends.cudnn.flags(enabled=False) if asked else nullcontext()


def _without_padding(x_btd: Tensor, real_bt: Tensor) -> PackedSequence:
    real_bt = real_bt.bool().cpu()
    if bool((real_bt[:, 1:] & ~real_bt[:, :-1]).any()):
        raise ValueError("a recurrent network reads texts that are padded on the right")
    return pack_padded_sequence(x_btd, real_bt.sum(dim=1), batch_first=True, enforce_sorted=False)


class RecurrentHead(nn.Module):
    """A classifier of features that its own `extractor` makes of each text or chunk, before these are put together."""

    def __init__(self, extractor: Recurrent, classifier: LinearHead | TwoLayerHead) -> None:
        super().__init__()
        self.extractor, self.classifier = extractor, classifier

    def forward(self, x: Tensor) -> Tensor:
        """The scores of features, not of states."""
        return self.classifier(x)  # type: ignore[no-any-return]

    @property
    def output(self) -> nn.Linear:
        """The last layer."""
        return self.classifier.output

    def draw(self, generator: torch.Generator, sigma: float) -> None:
        self.extractor.draw(generator)
        self.classifier.draw(generator, sigma)
