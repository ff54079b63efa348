"""Recurrent networks against their equations, token by token; padding, company and order play no part."""

import warnings
from typing import get_args

import pytest
import torch
from torch import Tensor, nn

from heedful.building.body import RecurrentPooling
from heedful.nn.heads import LinearHead, TwoLayerHead
from heedful.nn.recurrent import Recurrent, RecurrentHead, RecurrentKind, default_width

KINDS: tuple[RecurrentKind, ...] = get_args(RecurrentKind)
WIDTH, EACH_WAY = 5, 4
LENGTHS = (3, 7, 1, 7, 2)


def make(kind: RecurrentKind, dtype: torch.dtype = torch.float64) -> Recurrent:
    made = Recurrent(kind, WIDTH, EACH_WAY).to(dtype)
    made.draw(torch.Generator().manual_seed(3))
    return made


def states(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Of texts of several lengths; what stands on padding is large."""
    x_btd = torch.randn(len(LENGTHS), max(LENGTHS), WIDTH, generator=torch.Generator().manual_seed(1), dtype=dtype)
    real_bt = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    return x_btd.masked_fill(~real_bt[:, :, None], 1e3), real_bt


def by_hand(rnn: nn.RNNBase, x_td: Tensor, way: str) -> Tensor:
    """h at the end of one text in one direction; `way` is "" or "_reverse"."""
    w, u, b, b_h = (getattr(rnn, f"{name}_l0{way}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    h = c = torch.zeros(rnn.hidden_size, dtype=x_td.dtype)
    for x in x_td if way == "" else x_td.flip(0):
        of_x, of_h = w @ x + b, u @ h + b_h
        if isinstance(rnn, nn.LSTM):
            i, f, g, o = (of_x + of_h).chunk(4)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        else:
            (r_x, z_x, n_x), (r_h, z_h, n_h) = of_x.chunk(3), of_h.chunk(3)
            z = (z_x + z_h).sigmoid()
            n = (n_x + (r_x + r_h).sigmoid() * n_h).tanh()
            h = (1 - z) * n + z * h
    return h


def equations(module: Recurrent, x_btd: Tensor) -> Tensor:
    ways = ("", "_reverse") if module.rnn.bidirectional else ("",)
    texts = [x_td[:length] for x_td, length in zip(x_btd, LENGTHS, strict=True)]
    return torch.stack([torch.cat([by_hand(module.rnn, x_td, way) for way in ways]) for x_td in texts])


def text_by_text(module: Recurrent, x_btd: Tensor) -> Tensor:
    """torch's own network on each text alone, without padding: the outputs at its ends."""
    ends = []
    for x_td, length in zip(x_btd, LENGTHS, strict=True):
        y_th = module.rnn(x_td[None, :length])[0][0]
        ends.append(torch.cat([y_th[-1, :EACH_WAY], y_th[0, EACH_WAY:]]))  # the second is empty for one direction
    return torch.stack(ends)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("peer", [equations, text_by_text])
def test_it_is_its_equations_with_gradients(kind: RecurrentKind, peer: object) -> None:
    module, found = make(kind), []
    x_btd, real_bt = states()
    for compute in (lambda x: module(x, real_bt), lambda x: peer(module, x)):  # type: ignore[operator]
        module.zero_grad()
        x = x_btd.clone().requires_grad_()
        y_bf = compute(x)
        (y_bf**3).sum().backward()
        found.append([y_bf.detach(), x.grad, *(p.grad.clone() for p in module.parameters())])  # type: ignore[union-attr]
    assert found[0][0].shape == (len(LENGTHS), module.width)
    assert module.width == EACH_WAY * (2 if kind.startswith("bi") else 1)
    for ours, theirs in zip(*found, strict=True):
        assert float((ours - theirs).abs().max()) < 1e-12
    assert float(found[0][1][~real_bt].abs().max()) == 0  # padding learns nothing
    assert float(found[0][2].abs().max()) > 1e-3


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("kind", KINDS)
def test_neither_padding_nor_company_nor_order_matters(
    kind: RecurrentKind, dtype: torch.dtype, tolerance: float
) -> None:
    module = make(kind, dtype)
    x_btd, real_bt = states(dtype)
    with torch.no_grad():
        found = module(x_btd, real_bt)
        wider = torch.cat([x_btd, torch.full((len(LENGTHS), 4, WIDTH), -7.0, dtype=dtype)], dim=1)
        padded = module(wider, torch.cat([real_bt, torch.zeros(len(LENGTHS), 4, dtype=torch.bool)], dim=1))
        alone = torch.cat([module(x[None, :n]) for x, n in zip(x_btd, LENGTHS, strict=True)])  # without a mask
        masked = torch.cat([module(x[None, :n], r[None, :n]) for x, r, n in zip(x_btd, real_bt, LENGTHS, strict=True)])
        order = torch.tensor([4, 0, 3, 1, 2])
        shuffled = module(x_btd[order], real_bt[order])
        of_numbers = module(x_btd, real_bt.long())
    for other in (padded, alone, masked, of_numbers):
        assert float((found - other).abs().max()) < tolerance
    assert float((found[order] - shuffled).abs().max()) < tolerance
    assert float((found[1] - found[3]).abs().max()) > 1e-2


@pytest.mark.parametrize("kind", KINDS)
def test_it_reads_to_the_last_real_token_and_in_order(kind: RecurrentKind) -> None:
    """The last token counts, and so does the order of the others; what comes after the text does not."""
    module = make(kind)
    x_btd, real_bt = states()
    with torch.no_grad():
        found = module(x_btd, real_bt)
        for token, counts in ((2, True), (0, True), (3, False), (6, False)):
            changed = x_btd.clone()
            changed[0, token] += 1.0
            differs = (module(changed, real_bt)[0] - found[0]).abs()
            assert (float(differs.max()) > 1e-3) == counts
            assert bool((differs[:EACH_WAY] > 0).any()) == counts
        turned = x_btd.clone()
        turned[0, :3] = x_btd[0, :3].flip(0)
        assert float((module(turned, real_bt)[0] - found[0]).abs().max()) > 1e-2


def test_padding_elsewhere_is_refused() -> None:
    x_btd, real_bt = states()
    with pytest.raises(ValueError, match="padded on the right"):
        make("lstm")(x_btd, real_bt.flip(1))


@pytest.mark.parametrize("kind", KINDS)
def test_weights_come_from_the_generator_alone(kind: RecurrentKind) -> None:
    torch.manual_seed(1)
    first = make(kind)
    torch.manual_seed(2)
    again, before = make(kind), torch.get_rng_state()
    again.draw(torch.Generator().manual_seed(3))
    assert torch.equal(torch.get_rng_state(), before)
    for a, b in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)
    wide = Recurrent(kind, 50, 64)
    wide.draw(torch.Generator().manual_seed(3))
    for p in map(torch.Tensor.detach, wide.parameters()):  # U(−1/√64, 1/√64)
        assert 0.9 / 8 < float(p.abs().max()) <= 1 / 8
        assert float(p.std()) == pytest.approx(1 / 8 / 3**0.5, rel=0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_it_keeps_its_precision_and_says_nothing(kind: RecurrentKind) -> None:
    """Around it everything may be cast; a cast network would be off by a thousandth."""
    module = make(kind, torch.float32).eval()
    x_btd, real_bt = states(torch.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = module(x_btd, real_bt)
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(module(x_btd, real_bt), expected)
        assert module(x_btd.bfloat16(), real_bt).dtype == torch.float32
        moved = Recurrent(kind, WIDTH, EACH_WAY).to("meta").to_empty(device="cpu")
        moved.load_state_dict(module.state_dict())
        assert torch.equal(moved(x_btd, real_bt), expected)
    with torch.inference_mode():
        assert torch.equal(module(x_btd, real_bt), expected)


def test_the_default_width_is_about_the_bodys() -> None:
    assert [default_width(kind, 16) for kind in KINDS] == [16, 8, 16, 8]
    assert [default_width(kind, 7) for kind in KINDS] == [7, 4, 7, 4]
    assert set(get_args(RecurrentPooling)) == set(KINDS)  # what a recipe calls them


def test_a_head_is_the_classifier_of_its_features() -> None:
    x = torch.randn(2, 8, generator=torch.Generator().manual_seed(1))
    for classifier in (LinearHead(8, 3, dropout=0.5), TwoLayerHead(8, 8, 3, dropout=0.5)):
        head = RecurrentHead(Recurrent("bilstm", WIDTH, EACH_WAY), classifier)
        head.draw(torch.Generator().manual_seed(1), sigma=0.02)
        assert torch.equal(head.eval()(x), classifier(x))
        assert head.output is classifier.output
        names = {name.split(".")[0] for name, _ in head.named_parameters()}
        assert names == {"extractor", "classifier"}
        head.train()
        assert not torch.equal(head(x), head(x))  # dropout before the classifier
