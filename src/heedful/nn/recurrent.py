"""Recurrent networks that read the states of a text one after another, and the head that stands on what they end with.

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
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

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
        with torch.autocast(x_btd.device.type, enabled=False), self._kernels(x_btd):
            x_btd = x_btd.to(next(self.rnn.parameters()).dtype)
            _, end = self.rnn(x_btd if real_bt is None else _without_padding(x_btd, real_bt))
        h_xbh: Tensor = end[0] if isinstance(end, tuple) else end
        return torch.cat(list(h_xbh), dim=1)

    def _kernels(self, x_btd: Tensor) -> AbstractContextManager[None]:
        """cuDNN gives no gradients outside training, where a probe may ask for them."""
        asked = x_btd.is_cuda and torch.is_grad_enabled() and not self.training
        return torch.backends.cudnn.flags(enabled=False) if asked else nullcontext()

    @torch.no_grad()
    def draw(self, generator: torch.Generator) -> None:
        """U(−1/√h, 1/√h), biases too: a state goes through the same matrix at every token."""
        bound = self.rnn.hidden_size**-0.5
        for parameter in self.rnn.parameters():
            parameter.uniform_(-bound, bound, generator=generator)


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
