"""The masked-word loss is a sum of log-probabilities of single words, each given the text that is left."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.nn.activations import ACTIVATIONS
from heedful.nn.heads import MaskedWordHead
from heedful.nn.norms import LayerNorm
from heedful.report.page import plots
from heedful.report.page.pieces import Block, Column, Figure, Prose, Row, Table
from heedful.theory.demonstration import Check, Demonstration, Shown
from heedful.theory.draws import normal, permutations, redraw, uniform

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
        Check(
            f"Cross-entropy with reduction “sum” over the masked rows is −Σ_t log p(y_t | ŷ), 1 to {MOST} masked "
            f"tokens of {LENGTH}.",
            (of_texts[0] + summed(by_hand(all_rows, words[masked]), text, draws)).abs().detach(),
            ROUNDING,
        ),
        Check(
            "Our head computed for the masked rows alone gives the scores that it gives them among all rows.",
            summed((few - all_rows).abs().amax(dim=1), text, draws).detach(),
            ROUNDING,
        ),
        Check("The gradients by the states are the same.", (by_rows - by_all).abs().flatten(1).amax(dim=1), ROUNDING),
        Check(
            "So are those by the weights of the head and by the token table (along a random direction of all of them).",
            (_along(of_texts[0], weights, directions) - _along(of_texts[1], weights, directions)).abs(),
            ROUNDING,
        ),
        Check(
            "With all rows computed, the states that are not masked get the gradient 0 from the head.",
            (by_all * ~masked[..., None]).abs().flatten(1).amax(dim=1),
            0.0,
        ),
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
        Check(
            f"The mean over all masked tokens of {TEXTS} texts is the mean of the texts' means.",
            (mean - of_text.mean(dim=1)).abs(),
            1e-3,
            "fails",
        ),
        Check(
            "It is the texts' means weighted by m_i/M, m_i the masked tokens of text i and M all of them.",
            (mean - (counts / total[:, None] * of_text).sum(dim=1)).abs(),
            ROUNDING,
        ),
        Check(
            "If every text has the same number of masked tokens, the two means are one.",
            (equal.mean(dim=(1, 2)) - equal.mean(dim=2).mean(dim=1)).abs(),
            ROUNDING,
        ),
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
        Check(
            "A text of two words: the products p(a | b) p(b | a) of all texts sum to 1, as probabilities must.",
            (total - 1).abs(),
            1e-3,
            "fails",
        ),
        Check(
            "They sum to 1 + χ² instead, which is above 1 unless the words are independent.",
            (total - 1 - chi_squared(joint)).abs(),
            ROUNDING,
        ),
        Check(
            "The likelier of two texts has the larger product (a rare pair whose words belong together, against the "
            "likeliest pair).",
            products(tied)[:, 2, 2] - likeliest,
            1e-9,
            "fails",
        ),
        Check(
            "Two tables of conditionals, p(a | b) and p(b | a), belong to one joint distribution (random tables, as a "
            "network may give them: their odds ratios agree).",
            (_odds(one) - _odds(two)).abs(),
            0.01,
            "fails",
        ),
        Check(
            "Both words masked at once, the best possible loss is the entropy of the pair plus the mutual information "
            "of the two words.",
            (_entropy(first) + _entropy(second) - _entropy(joint) - information).abs(),
            ROUNDING,
        ),
    )


def _odds(table_b22: Tensor) -> Tensor:
    """The logarithm of the odds ratio, which a joint and both of its conditionals share."""
    return (table_b22[:, 0, 0] * table_b22[:, 1, 1] / (table_b22[:, 0, 1] * table_b22[:, 1, 0])).log()


def _figures(draws: int, generator: torch.Generator) -> tuple[Block, ...]:
    rows = [
        {"masked tokens m of the text": m, "weight of one token": round(value, 4), "of": name}
        for name, weight in (("mean over all tokens", lambda m: 1 / 36), ("mean of means", lambda m: 1 / (8 * m)))
        for m, value in ((m, weight(m)) for m in range(1, 9))
    ]
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
        Figure(
            "masked-word-loss-weights",
            "What one masked token weighs in a batch of eight texts with 1, 2, … 8 masked tokens: with the mean of "
            "means, the only masked token of a text weighs eight times as much as each of eight.",
            plots.lines(rows, "masked tokens m of the text", "weight of one token", "of", points=True),
        ),
        Prose("Two words, of which each decides the other:"),
        Table(
            "A distribution over four texts, and what masking one word at a time makes of it",
            (Column("text"), Column("p(a, b)", numeric=True), Column("p(a | b) · p(b | a)", numeric=True)),
            (*table, Row(("sum", "1", f"{float(conditional.sum()):g}"), "baseline")),
        ),
        Figure(
            "masked-word-loss-sums",
            f"The sum of p(a | b) p(b | a) over all texts of two words, for {draws:,} random distributions with 2, 4 "
            "and 8 words. A likelihood would give 1.",
            plots.histogram(totals, "sum over all texts"),
        ),
    )


DEMONSTRATION = Demonstration(
    name="masked-word-loss",
    chapter="Masked-word loss",
    order=1,
    title="The masked-word loss is a sum of log-probabilities, and not a likelihood",
    claim=(
        "The loss of masked words is −Σ_t log p(y_t | ŷ) over the masked places t: cross-entropy with the reduction "
        "“sum”. It is the same, with its gradients, whether the head computes the masked rows alone or all rows. It "
        "is not −log p(text)."
    ),
    reason=(
        "The letters: y is the text, ŷ the text with some words masked, t a masked place, and y_t the word that stood "
        "there. The model gives a score z_v for each word v of the vocabulary at place t, and p(v | ŷ) = exp(z_v)/Σ_w "
        "exp(z_w).",
        "Step 1. Cross-entropy between the true word (all weight on y_t) and the model is −Σ_v [v = y_t] log p(v | ŷ) "
        "= −log p(y_t | ŷ). One term is left. With the reduction “sum” these are added up over t.",
        "Step 2. The head, E LayerNorm(φ(Wx_t + b)) + c, works on each row x_t alone: W and b are a matrix and a "
        "bias, φ an activation, E the token table, c a bias. The score of row t asks for no other row, so rows that "
        "are not masked need not be computed. They would add nothing to the gradient either: their loss is not in the "
        "sum. With 15 % masked, the head (the vocabulary is its largest matrix) costs 15 % as much.",
        "Step 3. A mean is a sum divided by a count, and the count matters. Let text i have m_i masked tokens, M in "
        "all. The mean over all tokens weighs each token 1/M. The mean of the means of B texts weighs a token of text "
        "i with 1/(B m_i): tokens of texts with few masks count for more. The same happens if the losses of small "
        "batches are averaged. The remedy: add up sums, add up counts, divide once.",
    ),
    ends=(
        "The mean of means is the mean over tokens if all counts are equal, and in general not otherwise.",
        "Not a likelihood. log p(a, b) = log p(a) + log p(b | a): the second factor knows a, the first knows nothing. "
        "Mask one word at a time, and each factor knows the other: log p(a | b) + log p(b | a), the "
        "pseudo-log-likelihood. Its exponentials do not sum to 1 over all texts but to 1 + χ², where χ² = Σ (p(a, b) "
        "− p(a)p(b))²/(p(a)p(b)) measures how much the words depend on each other. To see it, multiply out: Σ p(a, "
        "b)²/(p(a)p(b)) − 1 = χ².",
        "So pseudo-log-likelihoods may not be compared as if they were probabilities of texts: a rare pair of words "
        "that always come together gets log 1 = 0, the largest value there is.",
        "A network need not be consistent. Its p(a | b) and p(b | a) are two tables, and in general there is no joint "
        "distribution that has both as its conditionals.",
        "Masked together, two words are guessed apart: each without the other. The best possible loss is then above "
        "the entropy of the pair by exactly their mutual information.",
    ),
    show=show,
    published="Given in print as −Σ log p(y_t | ŷ) over masked t, which is right. Programs often report the mean over "
    "masked tokens, which is this sum divided by their number.",
    paper="“BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding” (2019)",
    see=("nn/heads.py",),
)
