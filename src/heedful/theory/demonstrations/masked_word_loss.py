"""The masked-word loss is a sum of log-probabilities of single words, each given the text that is left."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.nn.activations import ACTIVATIONS
from heedful.nn.heads import MaskedWordHead
from heedful.nn.norms import LayerNorm
from heedful.report.page import plots
from heedful.report.page.pieces import Block, Column, Row, Table
from heedful.theory.demonstration import Check, Shown
from heedful.theory.drawing import curves
from heedful.theory.draws import normal, permutations, redraw, uniform, worst
from heedful.theory.page import Page

PAGE = Page.read(__name__)

LENGTH, WIDTH, WORDS, MOST = 10, 8, 30, 6
"""Tokens of a text, width, size of the vocabulary, most masked tokens of a text."""
ROUNDING = 1e-10
TEXTS = 8
"""In a batch, where the means are compared."""


def drawn_head(generator: torch.Generator) -> tuple[MaskedWordHead, Tensor]:
    """A head of ours and the token table that it is tied to, every weight random."""
    head = MaskedWordHead(WIDTH, WORDS, ACTIVATIONS["gelu"], LayerNorm(WIDTH, 1e-12)).double()
    redraw(head, generator, 0.5)
    return head, (0.5 * normal(generator, WORDS, WIDTH)).requires_grad_()


def by_hand(logits_nv: Tensor, words_n: Tensor) -> Tensor:
    """(n): log p(y_t | ŷ), the softmax written out."""
    p = logits_nv.exp() / logits_nv.exp().sum(dim=-1, keepdim=True)
    return p.gather(-1, words_n[..., None])[..., 0].log()


def summed(values_n: Tensor, text_n: Tensor, draws: int) -> Tensor:
    """(draws): the sum over the masked tokens of each text."""
    return torch.zeros(draws, dtype=torch.float64).index_add(0, text_n, values_n)


def show(draws: int, generator: torch.Generator) -> Shown:
    head, table = drawn_head(generator)
    x = normal(generator, draws, LENGTH, WIDTH).requires_grad_()
    words = torch.randint(0, WORDS, (draws, LENGTH), generator=generator)
    counts = torch.randint(1, MOST + 1, (draws, 1), generator=generator)
    masked = permutations(generator, draws, LENGTH) < counts
    text = masked.nonzero()[:, 0]
    few, all_rows = head(x[masked], table), head(x, table)[masked]
    of_texts = [
        summed(F.cross_entropy(scores, words[masked], reduction="none"), text, draws) for scores in (few, all_rows)
    ]
    by_rows, by_all = (torch.autograd.grad(losses.sum(), x, retain_graph=True)[0] for losses in of_texts)
    weights = [*head.parameters(), table]
    directions = [normal(generator, *part.shape) for part in weights]
    checks = (
        PAGE.holds(
            "sum",
            (of_texts[0] + summed(by_hand(all_rows, words[masked]), text, draws)).abs().detach(),
            ROUNDING,
            most=MOST,
            length=LENGTH,
        ),
        PAGE.holds("masked-rows", summed((few - all_rows).abs().amax(dim=1), text, draws).detach(), ROUNDING),
        PAGE.holds("state-gradients", worst(by_rows - by_all), ROUNDING),
        PAGE.holds(
            "weight-gradients",
            (_along(of_texts[0], weights, directions) - _along(of_texts[1], weights, directions)).abs(),
            ROUNDING,
        ),
        PAGE.holds("zero-gradient", worst(by_all * ~masked[..., None]), 0.0),
    )
    limits = (*_means(draws, generator), *_likelihood(draws, generator))
    return Shown(checks, _figures(draws, generator), limits)


def _along(losses_b: Tensor, parameters: list[Tensor], directions: list[Tensor]) -> Tensor:
    """(b): the derivative of each text's loss along a direction of all weights.

    The gradient of Σ_b c_b loss_b, times the direction, is linear in c; its derivative by c_b is what text b adds.
    """
    c = torch.ones_like(losses_b, requires_grad=True)
    gradients = torch.autograd.grad((c * losses_b).sum(), parameters, create_graph=True)
    along = torch.stack([(g * u).sum() for g, u in zip(gradients, directions, strict=True)]).sum()
    return torch.autograd.grad(along, c)[0]


def _means(draws: int, generator: torch.Generator) -> tuple[Check, ...]:
    """A batch of texts with different numbers of masked tokens."""
    losses = -uniform(generator, 0.001, 1.0, draws, TEXTS, MOST).log()
    counts = (1 + permutations(generator, draws, TEXTS) % MOST).double()
    there = torch.arange(MOST) < counts[..., None]
    kept = losses * there
    of_text = kept.sum(dim=2) / counts
    total = counts.sum(dim=1)
    mean = kept.sum(dim=(1, 2)) / total
    equal = losses[..., :3]
    return (
        PAGE.fails("mean-of-means", (mean - of_text.mean(dim=1)).abs(), 1e-3, texts=TEXTS),
        PAGE.holds("weighted", (mean - (counts / total[:, None] * of_text).sum(dim=1)).abs(), ROUNDING),
        PAGE.holds("equal-counts", (equal.mean(dim=(1, 2)) - equal.mean(dim=2).mean(dim=1)).abs(), ROUNDING),
    )


def products(joint_bvw: Tensor) -> Tensor:
    """(b, v, w): p(a | b) p(b | a) for each pair of words."""
    return (joint_bvw / joint_bvw.sum(dim=1, keepdim=True)) * (joint_bvw / joint_bvw.sum(dim=2, keepdim=True))


def chi_squared(joint_bvw: Tensor) -> Tensor:
    """χ² = Σ (p(a, b) − p(a)p(b))² / (p(a)p(b)): 0 if and only if the two words are independent."""
    apart = joint_bvw.sum(dim=2, keepdim=True) * joint_bvw.sum(dim=1, keepdim=True)
    return ((joint_bvw - apart) ** 2 / apart).sum(dim=(1, 2))


def _joints(draws: int, generator: torch.Generator, words: int = 4) -> Tensor:
    joint = -uniform(generator, 1e-6, 1.0, draws, words, words).log()
    return joint / joint.sum(dim=(1, 2), keepdim=True)


def _entropy(p: Tensor) -> Tensor:
    return -(p * p.log()).flatten(1).sum(dim=1)


def _likelihood(draws: int, generator: torch.Generator) -> tuple[Check, ...]:
    joint = _joints(draws, generator)
    total = products(joint).sum(dim=(1, 2))
    first, second = joint.sum(dim=2), joint.sum(dim=1)
    information = (joint * (joint / (first[:, :, None] * second[:, None, :])).log()).sum(dim=(1, 2))
    rare = uniform(generator, 0.001, 0.05, draws)
    tied = torch.zeros(draws, 3, 3, dtype=torch.float64)
    tied[:, :2, :2] = (1 - rare)[:, None, None] * _joints(draws, generator, 2)
    tied[:, 2, 2] = rare
    likeliest = products(tied).flatten(1).gather(1, tied.flatten(1).argmax(dim=1, keepdim=True))[:, 0]
    guesses = normal(generator, 2, draws, 2, 2)
    one, two = guesses[0].softmax(dim=1), guesses[1].softmax(dim=2)
    return (
        PAGE.fails("sums-to-one", (total - 1).abs(), 1e-3),
        PAGE.holds("chi-squared", (total - 1 - chi_squared(joint)).abs(), ROUNDING),
        PAGE.fails("rare-pair", products(tied)[:, 2, 2] - likeliest, 1e-9),
        PAGE.fails("one-joint", (_odds(one) - _odds(two)).abs(), 0.01),
        PAGE.holds("information", (_entropy(first) + _entropy(second) - _entropy(joint) - information).abs(), ROUNDING),
    )


def _odds(table_b22: Tensor) -> Tensor:
    """The logarithm of the odds ratio, which a joint and both of its conditionals share."""
    return (table_b22[:, 0, 0] * table_b22[:, 1, 1] / (table_b22[:, 0, 1] * table_b22[:, 1, 0])).log()


def _figures(draws: int, generator: torch.Generator) -> tuple[Block, ...]:
    counts = range(1, 9)
    weights = {"mean over all tokens": [1 / 36] * 8, "mean of means": [1 / (8 * m) for m in counts]}
    totals: dict[str, Sequence[float]] = {
        f"{n} words": products(_joints(draws, generator, n)).sum(dim=(1, 2)).tolist() for n in (2, 4, 8)
    }
    names = ("San Francisco", "New York", "San York", "New Francisco")
    joint = torch.tensor([[[0.5, 0.0], [0.0, 0.5]]], dtype=torch.float64)
    conditional = products(joint)[0]
    cells = [(0, 0), (1, 1), (0, 1), (1, 0)]
    table = tuple(
        Row((name, f"{float(joint[0, i, j]):g}", f"{float(conditional[i, j]):g}"))
        for name, (i, j) in zip(names, cells, strict=True)
    )
    return (
        PAGE.figure(
            "weights", curves(counts, weights, "masked tokens m of the text", "weight of one token", points=True)
        ),
        PAGE.prose("two-words"),
        Table(
            PAGE.caption("table"),
            (Column("text"), Column("p(a, b)", numeric=True), Column("p(a | b) · p(b | a)", numeric=True)),
            (*table, Row(("sum", "1", f"{float(conditional.sum()):g}"), "baseline")),
        ),
        PAGE.figure("sums", plots.histogram(totals, "sum over all texts"), draws=f"{draws:,}"),
    )
