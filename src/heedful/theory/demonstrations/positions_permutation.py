"""Without positions a transformer cannot see order: permute the tokens, and the outputs are permuted alike."""

from collections.abc import Callable

import torch
from torch import Tensor

from heedful.nn.activations import ACTIVATIONS
from heedful.nn.attention import MultiHeadAttention, dot_product
from heedful.nn.blocks import Block, FeedForward
from heedful.nn.masks import causal_mask
from heedful.nn.norms import LayerNorm, PostNorm, PreNorm
from heedful.nn.positions import RotaryAttention, sinusoidal
from heedful.report.page import plots
from heedful.report.page.pieces import Block as Piece
from heedful.theory.demonstration import Check, Shown
from heedful.theory.draws import normal, permutations, redraw
from heedful.theory.page import Page

PAGE = Page.read(__name__)

LENGTH, WIDTH, HEADS = 7, 8, 2
EXACT = 1e-9
SEEN = 1e-3
"""A difference that is no rounding error."""


def drawn_blocks(generator: torch.Generator, pre: bool, rotary: bool = False, count: int = 2) -> list[Block]:
    """Whole blocks of ours, every weight random."""
    kind = PreNorm if pre else PostNorm
    attend = RotaryAttention(attend=dot_product) if rotary else dot_product
    made = []
    for _ in range(count):
        around = [kind(LayerNorm(WIDTH, 1e-5), 0.0) for _ in range(2)]
        feed_forward = FeedForward(WIDTH, 2 * WIDTH, ACTIVATIONS["gelu"])
        block = Block(MultiHeadAttention(WIDTH, HEADS, attend=attend), feed_forward, around[0], around[1]).double()
        redraw(block, generator, 0.5)
        made.append(block.requires_grad_(False))
    return made


def through(blocks: list[Block], x_bnd: Tensor, mask: Tensor | None = None) -> Tensor:
    for block in blocks:
        x_bnd = block(x_bnd, mask).x_btd
    return x_bnd


def permuted(x_bnd: Tensor, order_bn: Tensor) -> Tensor:
    return x_bnd.gather(1, order_bn[..., None].expand_as(x_bnd))


def differences(model: Callable[[Tensor], Tensor], x_bnd: Tensor, order_bn: Tensor) -> Tensor:
    """(b, n): the largest difference at each token between f(Px) and P f(x)."""
    return (model(permuted(x_bnd, order_bn)) - permuted(model(x_bnd), order_bn)).abs().amax(dim=2)


def show(draws: int, generator: torch.Generator) -> Shown:
    x = normal(generator, draws, LENGTH, WIDTH)
    order = permutations(generator, draws, LENGTH)
    post, pre = (drawn_blocks(generator, kind) for kind in (False, True))
    rotary = drawn_blocks(generator, pre=True, rotary=True)
    places = sinusoidal(torch.arange(LENGTH), WIDTH)
    causal = causal_mask(LENGTH, LENGTH)
    models: dict[str, Callable[[Tensor], Tensor]] = {
        "no positions, post-norm": lambda x: through(post, x),
        "no positions, pre-norm": lambda x: through(pre, x),
        "sinusoidal positions added": lambda x: through(pre, x + places),
        "rotary positions": lambda x: through(rotary, x),
        "a causal mask, no positions": lambda x: through(pre, x, causal),
    }
    off = {name: differences(model, x, order) for name, model in models.items()}
    means = (through(post, permuted(x, order)).mean(dim=1) - through(post, x).mean(dim=1)).abs().amax(dim=1)
    checks = (
        PAGE.holds("post-norm", off["no positions, post-norm"].amax(dim=1), EXACT),
        PAGE.holds("pre-norm", off["no positions, pre-norm"].amax(dim=1), EXACT),
        PAGE.holds("mean", means, EXACT),
    )
    limits = (
        PAGE.fails("sinusoidal", off["sinusoidal positions added"].amax(dim=1), SEEN),
        PAGE.fails("rotary", off["rotary positions"].amax(dim=1), SEEN),
        PAGE.fails("causal", off["a causal mask, no positions"].amax(dim=1), SEEN),
        *_causal(x, generator, pre, causal),
    )
    return Shown(checks, _figures(off), limits)


def _causal(x: Tensor, generator: torch.Generator, blocks: list[Block], mask: Tensor) -> tuple[Check, ...]:
    """What the last token sees, if those before it change places; it stays where it is."""
    earlier = permutations(generator, len(x), LENGTH - 1)
    other = permuted(x, torch.cat([earlier, torch.full((len(x), 1), LENGTH - 1)], dim=1))
    one, two = (
        (through(blocks[:count], other, mask) - through(blocks[:count], x, mask))[:, -1].abs().amax(dim=1)
        for count in (1, 2)
    )
    return (PAGE.holds("one-causal", one, EXACT), PAGE.fails("two-causal", two, SEEN))


def _figures(off: dict[str, Tensor]) -> tuple[Piece, ...]:
    rows = [
        {"token": i + 1, "model": name, "difference": round(float(values[:, i].median()), 2)}
        for name, values in off.items()
        for i in range(LENGTH)
    ]
    return (PAGE.figure("tokens", plots.grid(rows, "token", "model", "difference")),)
