"""Recurrent decoders that look at the source: one state for each target token, from the one before.

h_j are the states of the source, s_i those of the target, y_{i−1} the embedding of the token before token i.
    e_ij = score(s, h_j),  α_ij = softmax_j(e_ij),  c_i = Σ_j α_ij h_j
    score: v·tanh(W s + U h_j) (additive), s·h_j (dot), s·h_j/√d (scaled dot)

`BahdanauDecoder` looks before each step, with s_{i−1}, and `LuongDecoder` after it, with s_i. A step needs the state
before it, so there is a loop over the target's tokens; what does not need it (U h_j, W y, the readout where it is not
fed back) is computed for all tokens at once outside it.

Letters: b sentences, t target tokens, s source tokens, e the width of an embedding and of a readout, d that of a state
(of source and target), a that in which additive scores are computed, g all gates of a cell.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from heedful.nn.dropout import Dropout

CellKind = Literal["gru", "lstm"]
ScoreKind = Literal["additive", "dot", "scaled-dot"]


class State(NamedTuple):
    """Where a decoder is. `h` and `c` (d) of each layer, the top one last; a GRU has no c. `fed` (e) is the readout
    before, of a decoder that is fed with it."""

    h: tuple[Tensor, ...]
    c: tuple[Tensor, ...] = ()
    fed: Tensor | None = None

    def reorder(self, index_b: Tensor) -> "State":
        """Row i becomes what row index_b[i] was; a row may be taken several times, or not at all."""
        return State(
            tuple(h[index_b] for h in self.h),
            tuple(c[index_b] for c in self.c),
            None if self.fed is None else self.fed[index_b],
        )

    def where(self, real_b: Tensor, other: "State") -> "State":
        """This state in the rows that are real, the other in the rest."""
        real_b1 = real_b[:, None]

        def choose(mine: tuple[Tensor, ...], others: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return tuple(torch.where(real_b1, m, o) for m, o in zip(mine, others, strict=True))

        fed = None if self.fed is None or other.fed is None else torch.where(real_b1, self.fed, other.fed)
        return State(choose(self.h, other.h), choose(self.c, other.c), fed)


class Source(NamedTuple):
    """What is looked at, the same at every step."""

    states_bsd: Tensor
    keys: Tensor
    """What the score makes of the states once: U h_j (b, s, a), or the states themselves."""
    hidden_bs: Tensor | None
    """True on padding, which gets no weight; None: there is none."""

    def reorder(self, index_b: Tensor) -> "Source":
        hidden_bs = None if self.hidden_bs is None else self.hidden_bs[index_b]
        return Source(self.states_bsd[index_b], self.keys[index_b], hidden_bs)


class AdditiveScore(nn.Module):
    """v·tanh(W s + U h_j) ("Neural Machine Translation by Jointly Learning to Align and Translate", appendix A.1.2)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, inner, bias=False)  # W
        self.key = nn.Linear(width, inner)  # U; its bias serves W too
        self.v = nn.Linear(inner, 1, bias=False)

    def keys(self, states_bsd: Tensor) -> Tensor:
        return self.key(states_bsd)  # type: ignore[no-any-return]

    def forward(self, s_bd: Tensor, keys_bsa: Tensor) -> Tensor:
        return self.v(torch.tanh(self.query(s_bd)[:, None] + keys_bsa)).squeeze(-1)  # type: ignore[no-any-return]


class DotScore(nn.Module):
    """s·h_j ("Effective Approaches to Attention-based Neural Machine Translation", section 3.1), perhaps over √d."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale

    def keys(self, states_bsd: Tensor) -> Tensor:
        return states_bsd

    def forward(self, s_bd: Tensor, keys_bsd: Tensor) -> Tensor:
        return (keys_bsd @ s_bd[:, :, None]).squeeze(-1) * self.scale


Score = AdditiveScore | DotScore


def make_score(kind: ScoreKind, width: int) -> Score:
    return AdditiveScore(width, width) if kind == "additive" else DotScore(width**-0.5 if kind == "scaled-dot" else 1.0)


def look(score: Score, s_bd: Tensor, source: Source) -> tuple[Tensor, Tensor]:
    """c_i (b, d) and α_i (b, s)."""
    e_bs = score(s_bd, source.keys)
    if source.hidden_bs is not None:
        e_bs = e_bs.masked_fill(source.hidden_bs, -torch.inf)
    alpha_bs = torch.softmax(e_bs, dim=-1)
    return (alpha_bs[:, None] @ source.states_bsd)[:, 0], alpha_bs


class Cells(nn.Module):
    """Layers of GRU or LSTM cells, one step at a time: the equations of `recurrent`, gates in PyTorch's order.

    The gates of the first layer's input, W x + b, are given: they can be computed for all steps at once.
    """

    def __init__(self, kind: CellKind, width_in: int, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.kind, self.gates = kind, {"gru": 3, "lstm": 4}[kind] * width
        self.inputs = nn.ModuleList(nn.Linear(width if i else width_in, self.gates) for i in range(layers))  # W, b
        self.recurrent = nn.ModuleList(nn.Linear(width, self.gates) for _ in range(layers))  # U, b′
        self.dropout = Dropout(dropout)

    def forward(self, gates_bg: Tensor, state: State) -> State:
        hs: list[Tensor] = []
        cs: list[Tensor] = []
        for i, (h_bd, recurrent) in enumerate(zip(state.h, self.recurrent, strict=True)):
            if i:
                gates_bg = self.inputs[i](self.dropout(hs[-1]))
            if self.kind == "gru":
                hs.append(gru_cell(gates_bg, recurrent(h_bd), h_bd))
            else:
                h_bd, c_bd = lstm_cell(gates_bg + recurrent(h_bd), state.c[i])
                hs.append(h_bd)
                cs.append(c_bd)
        return State(tuple(hs), tuple(cs), state.fed)


def gru_cell(x_bg: Tensor, u_bg: Tensor, h_bd: Tensor) -> Tensor:
    """h_t from x = W x_t + b and u = U h_{t−1} + b′."""
    d = h_bd.shape[-1]
    r_bd, z_bd = torch.sigmoid(x_bg[:, : 2 * d] + u_bg[:, : 2 * d]).chunk(2, dim=-1)
    n_bd = torch.tanh(x_bg[:, 2 * d :] + r_bd * u_bg[:, 2 * d :])
    return n_bd + z_bd * (h_bd - n_bd)


def lstm_cell(gates_bg: Tensor, c_bd: Tensor) -> tuple[Tensor, Tensor]:
    """h_t and c_t from W x_t + b + U h_{t−1} + b′."""
    i_bd, f_bd, g_bd, o_bd = gates_bg.chunk(4, dim=-1)
    c_bd = torch.sigmoid(f_bd) * c_bd + torch.sigmoid(i_bd) * torch.tanh(g_bd)
    return torch.sigmoid(o_bd) * torch.tanh(c_bd), c_bd


class Decoded(NamedTuple):
    readout_bte: Tensor
    """What the scores of the tokens are made of."""
    state: State
    weights_bts: Tensor
    """α"""


class BahdanauDecoder(nn.Module):
    """It looks, then steps ("Neural Machine Translation by Jointly Learning to Align and Translate", appendix A.2.2):
    α_i and c_i from s_{i−1},  s_i = f([y_{i−1}; c_i], s_{i−1}),
    t̃_i = U_o s_i + V_o y_{i−1} + C_o c_i,  the readout t_i is the larger of each two neighbours in t̃_i (maxout).

    The paper has one layer, a GRU; with more, c_i enters the first and the top one looks. Nothing of the readout is fed
    back, so it is computed for all tokens after the loop.
    """

    FED = False

    def __init__(
        self, kind: CellKind, score: Score, embedding: int, width: int, layers: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.score = score
        self.cells = Cells(kind, embedding, width, layers, dropout)
        self.context = nn.Linear(width, self.cells.gates, bias=False)  # c_i's part of the first W
        self.readout = nn.Linear(2 * width + embedding, 2 * embedding)  # U_o, C_o and V_o side by side

    def forward(self, y_bte: Tensor, source: Source, state: State, real_bt: Tensor | None = None) -> Decoded:
        """`real_bt` is False on padding, over which the state stays as it is; None: none, or all of it at the end."""
        s, c, alpha = [], [], []
        for i, gates_bg in enumerate(self.cells.inputs[0](y_bte).unbind(1)):
            c_bd, alpha_bs = look(self.score, state.h[-1], source)
            new = self.cells(gates_bg + self.context(c_bd), state)
            state = new if real_bt is None else new.where(real_bt[:, i], state)
            s.append(state.h[-1])
            c.append(c_bd)
            alpha.append(alpha_bs)
        t_bt2e = self.readout(torch.cat([torch.stack(s, 1), torch.stack(c, 1), y_bte], dim=-1))
        return Decoded(t_bt2e.unflatten(-1, (-1, 2)).amax(-1), state, torch.stack(alpha, 1))


class LuongDecoder(nn.Module):
    """It steps, then looks ("Effective Approaches to Attention-based Neural Machine Translation", sections 3 and 3.3):
    s_i = f([y_{i−1}; s̃_{i−1}], s_{i−1}),  α_i and c_i from s_i,  the readout s̃_i = tanh(W_c [c_i; s_i]).

    Input feeding: the readout before is part of each step's input, zeros at first, so that a step knows where the last
    one looked; it has to be computed within the loop.
    """

    FED = True

    def __init__(
        self, kind: CellKind, score: Score, embedding: int, width: int, layers: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.score = score
        self.cells = Cells(kind, embedding, width, layers, dropout)
        self.feed = nn.Linear(embedding, self.cells.gates, bias=False)  # s̃'s part of the first W
        self.readout = nn.Linear(2 * width, embedding, bias=False)  # W_c

    def forward(self, y_bte: Tensor, source: Source, state: State, real_bt: Tensor | None = None) -> Decoded:
        """As `BahdanauDecoder.forward`."""
        readouts, alpha = [], []
        for i, gates_bg in enumerate(self.cells.inputs[0](y_bte).unbind(1)):
            new = self.cells(gates_bg + self.feed(state.fed), state)
            c_bd, alpha_bs = look(self.score, new.h[-1], source)
            readout_be = torch.tanh(self.readout(torch.cat([c_bd, new.h[-1]], dim=-1)))
            new = new._replace(fed=readout_be)
            state = new if real_bt is None else new.where(real_bt[:, i], state)
            readouts.append(readout_be)
            alpha.append(alpha_bs)
        return Decoded(torch.stack(readouts, 1), state, torch.stack(alpha, 1))


class Bridge(nn.Module):
    """The decoder's first state from the encoder's last ones, layer by layer: h = tanh(W h′ + b); of an LSTM, the c of
    a layer is linear in the encoder's c′, whose range is open.

    Bahdanau's paper gives the backward reader's end alone; here W is given the ends of both.
    """

    def __init__(self, kind: CellKind, width: int, layers: int) -> None:
        super().__init__()
        self.h = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.c = nn.ModuleList(nn.Linear(width, width) for _ in range(layers if kind == "lstm" else 0))

    def forward(self, h_lbd: Tensor, c_lbd: Tensor | None) -> State:
        h = tuple(torch.tanh(w(end)) for w, end in zip(self.h, h_lbd, strict=True))
        c = () if c_lbd is None else tuple(w(end) for w, end in zip(self.c, c_lbd, strict=True))
        return State(h, c)
