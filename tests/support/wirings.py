"""Small models of every wiring, and a kind of attention that is defined here alone."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from heedful.models.shape import Head, Shape
from heedful.models.transformer import Transformer
from heedful.nn.attention import Attended, KeysValues, MultiHeadAttention, Places, join_heads, split_heads
from heedful.nn.blocks import Kernels
from heedful.nn.initial import Scale, draw_linear
from tests.support.formula_models import SHAPES, formula_model


class Synthesizer(nn.Module):
    """Weights made from each token alone ("Synthesizer", 2020): softmax(W₂ relu(W₁ x)) V, a score for each position."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        self.heads, self.layer = shape.heads, layer
        self.up = nn.Linear(shape.width, 4 + layer)  # no two layers alike
        self.scores = nn.Linear(4 + layer, shape.heads * shape.positions)
        self.value = nn.Linear(shape.width, shape.width)
        self.output = nn.Linear(shape.width, shape.width)

    def forward(
        self,
        x_btd: Tensor,
        whole_bsd: Tensor | None = None,
        mask: Tensor | None = None,
        places: Places | None = None,
        past: KeysValues | None = None,
        want_weights: bool = False,
    ) -> Attended:
        v = split_heads(self.value(x_btd if whole_bsd is None else whole_bsd), self.heads)
        if past is not None:
            v = torch.cat([past.v_bhsk, v], dim=2)
        assert places is not None
        scores_bthp = self.scores(torch.relu(self.up(x_btd))).unflatten(-1, (self.heads, -1))
        at = places[1].expand(len(x_btd), -1)[:, None, None].expand(-1, self.heads, x_btd.shape[1], -1)
        scores_bhts = scores_bthp.transpose(1, 2).gather(-1, at)
        if mask is not None:
            scores_bhts = scores_bhts.masked_fill(~mask, torch.finfo(x_btd.dtype).min)
        weights = torch.softmax(scores_bhts, dim=-1)
        return Attended(self.output(join_heads(weights @ v)), weights if want_weights else None, KeysValues(v, v))

    def draw(self, generator: torch.Generator, scale: Scale) -> None:
        for linear in (self.up, self.scores, self.value):
            draw_linear(linear, generator, scale.sigma)
        draw_linear(self.output, generator, scale.residual)


def synthesizer(shape: Shape, layer: int, kernels: Kernels) -> nn.Module:
    """The first layer attends as always, the others do not."""
    if layer == 0:
        return MultiHeadAttention(shape.width, shape.heads, shape.attention_dropout, kernels.attend)
    return Synthesizer(shape, layer)


DECODER = SHAPES["gpt2"]
WIRINGS: dict[str, Shape] = {
    **SHAPES,
    "rotary encoder": replace(SHAPES["distilbert"], position_kind="none", attention="rotary", width=18),
    "rotary decoder": replace(DECODER, position_kind="none", attention="rotary", width=18),
    "sinusoidal decoder": replace(DECODER, position_kind="sinusoidal", norm="post"),
    "counting decoder": replace(SHAPES["roberta"], causal=True, segments=0, pooler=False),
    "synthesizer encoder": replace(SHAPES["distilbert"], attention="synthesizer"),
    "synthesizer decoder": replace(DECODER, attention="synthesizer"),
    **{
        f"{kind} {body}": replace(shape, attention=kind, position_kind="none" if kind == "relative" else "learned")
        for kind in ("relative", "synthesizer-dense", "synthesizer-random")
        for body, shape in {
            "encoder": SHAPES["distilbert"],
            "counting encoder": SHAPES["roberta"],
            "decoder": DECODER,
            "counting decoder": replace(SHAPES["roberta"], causal=True, segments=0, pooler=False),
        }.items()
    },
}
CAUSAL = [name for name, shape in WIRINGS.items() if shape.causal]


def make_model(shape: Shape, heads: dict[str, Head] | None = None) -> Transformer:
    """Formula weights, with gains around 1: what is normalised is then not all but lost."""
    model = formula_model(shape, heads)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("norm.weight"):
                p.add_(1.0)
    return model


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def gradients(model: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    loss.backward()
    return {n: torch.zeros_like(p) if p.grad is None else p.grad.clone() for n, p in model.named_parameters()}


def assert_close(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    assert a.keys() == b.keys()
    for name, value in a.items():
        scale = max(1.0, float(value.abs().max()))
        assert (value - b[name]).abs().max() <= 1e-10 * scale, name
