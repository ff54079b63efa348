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
from heedful.report.page.pieces import Figure
from heedful.theory.demonstration import Check, Demonstration, Shown
from heedful.theory.draws import normal, permutations, redraw

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
        Check(
            "Two blocks of ours (attention and feed-forward, post-norm) without positions: f(Px) = Pf(x).",
            off["no positions, post-norm"].amax(dim=1),
            EXACT,
        ),
        Check("The same with pre-norm.", off["no positions, pre-norm"].amax(dim=1), EXACT),
        Check("The mean over the tokens does not change at all when they change places.", means, EXACT),
    )
    limits = (
        Check(
            "With sinusoidal positions added to the tokens: f(Px) = Pf(x).",
            off["sinusoidal positions added"].amax(dim=1),
            SEEN,
            "fails",
        ),
        Check("With rotary positions: f(Px) = Pf(x).", off["rotary positions"].amax(dim=1), SEEN, "fails"),
        Check(
            "With a causal mask and no positions: f(Px) = Pf(x).",
            off["a causal mask, no positions"].amax(dim=1),
            SEEN,
            "fails",
        ),
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
    return (
        Check("One causal block: the last token sees the earlier ones without their order.", one, EXACT),
        Check("Two causal blocks: the last token sees the earlier ones without their order.", two, SEEN, "fails"),
    )


def _figures(off: dict[str, Tensor]) -> tuple[Piece, ...]:
    rows = [
        {"token": i + 1, "model": name, "difference": round(float(values[:, i].median()), 2)}
        for name, values in off.items()
        for i in range(LENGTH)
    ]
    return (
        Figure(
            "positions-permutation",
            "How much f(Px) and Pf(x) differ at each place of the permuted text (median over draws; the darker, the "
            "more). Without positions: nothing but rounding.",
            plots.grid(rows, "token", "model", "difference"),
        ),
    )


DEMONSTRATION = Demonstration(
    name="positions-permutation",
    chapter="Positions",
    order=1,
    title="Why positions at all: attention is blind to order",
    claim=(
        "A transformer without positions and without a mask is permutation-equivariant: if the tokens change places, "
        "the outputs change places in the same way, and nothing else changes. “Dog bites man” and “man bites dog” get "
        "the same three vectors."
    ),
    reason=(
        "The letters: x_1 … x_n are the tokens. P is a permutation: (Px)_i = x_{π(i)}. A function f is equivariant if "
        "f(Px) = P f(x).",
        "Attention. Token i computes y_i = Σ_j a_ij v_j with a_ij = softmax_j(q_iᵀk_j/√k). Queries, keys and values "
        "are computed from each token alone, so they move with it. The sum and the softmax run over the set of all "
        "tokens, and a sum does not ask in which order. So y moves with its token, and has the same value.",
        "Feed-forward, LayerNorm and the residual sum work on each token alone. They are equivariant at once.",
        "One equivariant function after another is equivariant. So are all layers together, however many.",
        "What follows: the state of a word is the same wherever it stands, and the mean over the tokens does not "
        "change at all. Such a model sees a bag of words.",
    ),
    ends=(
        "Positions break it, which is why they are there: added to the tokens (learned or sinusoidal), or rotary, "
        "inside the product of query and key.",
        "A causal mask breaks it too, without any positions: token i sees the tokens up to i, and how many these are "
        "depends on i. But one causal block alone still shows the last token an unordered bag of the earlier ones. "
        "Two blocks do not: in the second, the earlier tokens carry what they saw.",
        "The two results are equal to rounding, not to the last bit: a computer's sum does depend on the order a "
        "little.",
    ),
    show=show,
    published="Published answers say the same: attention without positions is permutation-equivariant. That is right, "
    "for attention without a mask.",
    paper="“Attention Is All You Need” (2017)",
    see=("nn/attention.py", "nn/blocks.py", "nn/masks.py"),
)
