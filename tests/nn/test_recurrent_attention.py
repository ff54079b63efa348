"""Recurrent encoders and decoders with attention against their equations, sentence by sentence and number by number."""

from itertools import product
from typing import TypeVar

import pytest
import torch
from torch import Tensor, nn

from heedful.nn.recurrent import RecurrentEncoder, RecurrentKind
from heedful.nn.recurrent_attention import (
    AdditiveScore,
    BahdanauDecoder,
    Bridge,
    Cells,
    DotScore,
    LuongDecoder,
    Source,
    State,
    make_score,
)

E, D, LENGTHS = 4, 6, (3, 7, 1, 5)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


M = TypeVar("M", bound=nn.Module)


def randomised(module: M) -> M:
    module.double()
    with torch.no_grad():
        for n, p in enumerate(module.parameters()):
            p.copy_(0.6 * draw(*p.shape, seed=n))
    return module


# The encoder


def texts() -> tuple[Tensor, Tensor]:
    """What stands on padding is large."""
    real_bt = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    return draw(4, 7, E).masked_fill(~real_bt[:, :, None], 1e3), real_bt


def layer_by_layer(encoder: RecurrentEncoder, x_td: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """One text, through networks of one layer and one way with the same weights: states, ends h, ends c."""
    rnn, hs, cs = encoder.rnn, [], []
    for layer in range(rnn.num_layers):
        outs, h, c = [], [], []
        for way in ["", "_reverse"][: encoder.ways]:
            single = type(rnn)(x_td.shape[1], rnn.hidden_size, dtype=torch.float64)
            with torch.no_grad():
                for name, p in single.named_parameters():
                    p.copy_(getattr(rnn, name.replace("_l0", f"_l{layer}{way}")))
            out, end = single(x_td.flip(0) if way else x_td)
            outs.append(out.flip(0) if way else out)
            end = end if isinstance(end, tuple) else (end,)
            h.append(end[0][0])
            c += [e[0] for e in end[1:]]
        x_td = torch.cat(outs, dim=1)
        hs.append(torch.cat(h))
        cs += [torch.cat(c)] if c else []
    return x_td, hs, cs


@pytest.mark.parametrize("kind", ["gru", "bigru", "lstm", "bilstm"])
@pytest.mark.parametrize("layers", [1, 3])
def test_an_encoder_is_its_layers(kind: RecurrentKind, layers: int) -> None:
    encoder = randomised(RecurrentEncoder(kind, E, 5, layers, dropout=0.5)).eval()
    x_btd, real_bt = texts()
    found = encoder(x_btd, real_bt)
    assert found.states_btf.shape == (4, 7, encoder.width)
    assert float(found.states_btf[~real_bt].detach().abs().max()) == 0
    for i, n in enumerate(LENGTHS):
        states, hs, cs = layer_by_layer(encoder, x_btd[i, :n])
        assert (found.states_btf[i, :n] - states).abs().max() < 1e-12
        assert (found.h_lbf[:, i] - torch.stack(hs)).abs().max() < 1e-12
        assert (found.c_lbf is None) == (not cs)
        if cs:
            assert (found.c_lbf[:, i] - torch.stack(cs)).abs().max() < 1e-12
        alone = encoder(x_btd[i : i + 1, :n])
        assert (alone.states_btf[0] - states).abs().max() < 1e-12
        assert (alone.h_lbf[:, 0] - torch.stack(hs)).abs().max() < 1e-12


def test_an_encoder_drops_between_its_layers_alone() -> None:
    x_btd, _ = texts()
    one, two = (randomised(RecurrentEncoder("gru", E, 5, layers, dropout=0.5)).train() for layers in (1, 2))
    assert torch.equal(one(x_btd).states_btf, one(x_btd).states_btf)
    assert not torch.equal(two(x_btd).states_btf, two(x_btd).states_btf)


# The cells


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_cells_are_pytorchs(kind: str) -> None:
    cells = randomised(Cells(kind, E, D, 2, dropout=0.0))  # type: ignore[arg-type]
    peers = []
    for i, width in enumerate((E, D)):
        peer = (nn.GRUCell if kind == "gru" else nn.LSTMCell)(width, D, dtype=torch.float64)
        peer.weight_ih.data, peer.bias_ih.data = cells.inputs[i].weight.data, cells.inputs[i].bias.data
        peer.weight_hh.data, peer.bias_hh.data = cells.recurrent[i].weight.data, cells.recurrent[i].bias.data
        peers.append(peer)
    x, h, c = draw(3, E), [draw(3, D, seed=1), draw(3, D, seed=2)], [draw(3, D, seed=3), draw(3, D, seed=4)]
    state = cells(cells.inputs[0](x), State(tuple(h), tuple(c) if kind == "lstm" else ()))
    for i, peer in enumerate(peers):
        out = peer(x, h[i] if kind == "gru" else (h[i], c[i]))
        x = out if kind == "gru" else out[0]
        assert (state.h[i] - x).abs().max() < 1e-12
        if kind == "lstm":
            assert (state.c[i] - out[1]).abs().max() < 1e-12
    assert len(state.c) == (2 if kind == "lstm" else 0)


# The decoders


def sigma(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def cell(cells: Cells, layer: int, gates: Tensor, h: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """One step of one sentence by the equations; `gates`: W x + b."""
    u = cells.recurrent[layer].weight @ h + cells.recurrent[layer].bias
    if c is None:
        (xr, xz, xn), (ur, uz, un) = gates.split(D), u.split(D)
        r, z = sigma(xr + ur), sigma(xz + uz)
        n = torch.tanh(xn + r * un)
        return (1 - z) * n + z * h, None
    i, f, g, o = (gates + u).split(D)
    c = sigma(f) * c + sigma(i) * torch.tanh(g)
    return sigma(o) * torch.tanh(c), c


def weights_of(decoder: BahdanauDecoder | LuongDecoder, s: Tensor, h_sd: Tensor) -> Tensor:
    score, e = decoder.score, []
    for h in h_sd:
        if isinstance(score, AdditiveScore):
            inner = score.query.weight @ s + score.key.weight @ h + score.key.bias
            e.append((score.v.weight[0] * torch.tanh(inner)).sum())
        else:
            e.append((s * h).sum() * score.scale)
    exp = torch.exp(torch.stack(e))
    return exp / exp.sum()


def by_hand(decoder: BahdanauDecoder | LuongDecoder, y_te: Tensor, h_sd: Tensor, state: State) -> tuple[Tensor, Tensor]:
    """Readouts (t, e) and weights (t, s) of one sentence, with nothing computed ahead."""
    cells, (hs, cs) = decoder.cells, (list(state.h), list(state.c))
    fed, readouts, weights = torch.zeros(E, dtype=torch.float64), [], []

    def step(first: Tensor) -> None:
        gates = first
        for i in range(len(hs)):
            if i:
                gates = cells.inputs[i].weight @ hs[i - 1] + cells.inputs[i].bias
            hs[i], c = cell(cells, i, gates, hs[i], cs[i] if cs else None)
            if c is not None:
                cs[i] = c

    for y in y_te:
        first = cells.inputs[0].weight @ y + cells.inputs[0].bias
        if isinstance(decoder, BahdanauDecoder):
            alpha = weights_of(decoder, hs[-1], h_sd)
            c = (alpha[:, None] * h_sd).sum(0)
            step(first + decoder.context.weight @ c)
            t = decoder.readout.weight @ torch.cat([hs[-1], c, y]) + decoder.readout.bias
            readouts.append(torch.stack([torch.maximum(t[2 * k], t[2 * k + 1]) for k in range(E)]))
        else:
            step(first + decoder.feed.weight @ fed)
            alpha = weights_of(decoder, hs[-1], h_sd)
            c = (alpha[:, None] * h_sd).sum(0)
            fed = torch.tanh(decoder.readout.weight @ torch.cat([c, hs[-1]]))
            readouts.append(fed)
        weights.append(alpha)
    return torch.stack(readouts), torch.stack(weights)


@pytest.mark.parametrize("made", [BahdanauDecoder, LuongDecoder])
@pytest.mark.parametrize(("kind", "layers"), list(product(["gru", "lstm"], [1, 2])))
@pytest.mark.parametrize("score", ["additive", "dot", "scaled-dot"])
def test_a_decoder_is_its_equations_with_gradients(made: type, kind: str, layers: int, score: str) -> None:
    decoder = randomised(made(kind, make_score(score, D), E, D, layers))  # type: ignore[arg-type]
    h_bsd, y_bte = draw(4, 7, D, seed=10), draw(4, 5, E, seed=11)
    real_bs = torch.arange(7) < torch.tensor(LENGTHS)[:, None]
    begin = [draw(4, D, seed=20 + i) for i in range(2 * layers)]
    found = []
    for hand in (False, True):
        decoder.zero_grad()
        inputs = [t.clone().requires_grad_() for t in (h_bsd, y_bte, *begin)]
        h, y = inputs[:2]
        state = State(
            tuple(inputs[2 : 2 + layers]),
            tuple(inputs[2 + layers :]) if kind == "lstm" else (),
            torch.zeros(4, E, dtype=torch.float64) if decoder.FED else None,
        )
        if hand:
            rows = [by_hand(decoder, y[i], h[i, :n], state.reorder(torch.tensor(i))) for i, n in enumerate(LENGTHS)]
            readout = torch.stack([r for r, _ in rows])
            weights = torch.stack([nn.functional.pad(w, (0, 7 - w.shape[1])) for _, w in rows])
        else:
            readout, _, weights = decoder(y, Source(h, decoder.score.keys(h), ~real_bs), state)
        ((readout**3).sum() + (weights**3).sum()).backward()
        gradients = [t.grad for t in (*inputs, *decoder.parameters()) if t.grad is not None]
        found.append([readout.detach(), weights.detach(), *gradients])
    assert len(found[0]) == len(found[1])
    for ours, theirs in zip(*found, strict=True):
        assert (ours - theirs).abs().max() <= 1e-10
    assert float(found[0][2][~real_bs].abs().max()) == 0  # padding learns nothing
    assert min(float(g.abs().max()) for g in found[0]) > 1e-6


def test_another_score_would_be_noticed() -> None:
    h_bsd, s_bd = draw(2, 5, D), draw(2, D, seed=1)
    dot, scaled = (make_score(kind, D)(s_bd, h_bsd) for kind in ("dot", "scaled-dot"))
    assert torch.allclose(dot / D**0.5, scaled)
    assert (dot - scaled).abs().max() > 1e-2
    assert isinstance(make_score("dot", D), DotScore)


def test_the_bridge_starts_each_layer_from_the_encoders() -> None:
    for kind in ("gru", "lstm"):
        bridge = randomised(Bridge(kind, D, 2))  # type: ignore[arg-type]
        h, c = draw(2, 3, D), draw(2, 3, D, seed=1)
        state = bridge(h, c if kind == "lstm" else None)
        for i in range(2):
            assert torch.allclose(state.h[i], torch.tanh(h[i] @ bridge.h[i].weight.T + bridge.h[i].bias), atol=1e-12)
            if kind == "lstm":
                assert torch.allclose(state.c[i], c[i] @ bridge.c[i].weight.T + bridge.c[i].bias, atol=1e-12)
        assert len(state.c) == (2 if kind == "lstm" else 0)
