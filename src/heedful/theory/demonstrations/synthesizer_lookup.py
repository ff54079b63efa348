"""A Synthesizer's weights do not see the other tokens, so it cannot look anything up; attention can."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.nn.attention import dot_product
from heedful.report.page import plots
from heedful.report.page.pieces import Block
from heedful.theory.demonstration import Check, Shown
from heedful.theory.demonstrations.relative_convolution import one_head
from heedful.theory.draws import attention_of, normal, permutations, worst
from heedful.theory.page import Page

PAGE = Page.read(__name__)

RECORDS, VALUES, HIDDEN = 6, 10, 16
WIDTH = RECORDS + VALUES + RECORDS
"""A token: which key it has, which value, which key it asks for."""
KEY, VALUE, ASKED = slice(RECORDS), slice(RECORDS, RECORDS + VALUES), slice(RECORDS + VALUES, WIDTH)
LENGTH = RECORDS + 1
TOLERANCE = 1e-6
BEST = 1 / RECORDS
"""The largest share of texts in which a row of weights that knows the asking token alone can be right."""


class DenseSynthesizer:
    """A_i = softmax(W₂ relu(W₁ x_i)), each draw with its own W₁ and W₂."""

    def __init__(self, draws: int, generator: torch.Generator) -> None:
        self.w1 = normal(generator, draws, HIDDEN, WIDTH)
        self.w2 = normal(generator, draws, LENGTH, HIDDEN)

    def __call__(self, x_bnd: Tensor) -> Tensor:
        """(b, n, n)"""
        return (torch.relu(x_bnd @ self.w1.mT) @ self.w2.mT).softmax(dim=-1)


class RandomSynthesizer:
    """A_i = softmax(R_i), R learned and the same for all texts."""

    def __init__(self, draws: int, generator: torch.Generator) -> None:
        self.r = normal(generator, draws, LENGTH, LENGTH)

    def __call__(self, x_bnd: Tensor) -> Tensor:
        return self.r.softmax(dim=-1)


def texts(draws: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """N texts of each draw that differ in their keys alone, (N, b, n, d): the values stay, the keys move round by one.
    The place of the record that is asked for (N, b), and its value (N, b)."""
    values = permutations(generator, draws, VALUES)[:, :RECORDS]
    keys = permutations(generator, draws, RECORDS)
    asked = torch.randint(0, RECORDS, (draws,), generator=generator)
    every, places, answers = [], [], []
    for _ in range(RECORDS):
        keys = keys.roll(1, dims=1)
        every.append(_tokens(keys, values, asked))
        places.append((keys == asked[:, None]).int().argmax(dim=1))
        answers.append(values.gather(1, places[-1][:, None])[:, 0])
    return torch.stack(every), torch.stack(places), torch.stack(answers)


def _tokens(keys_bn: Tensor, values_bn: Tensor, asked_b: Tensor) -> Tensor:
    x = torch.zeros(len(asked_b), LENGTH, WIDTH, dtype=torch.float64)
    x[:, :-1, KEY] = F.one_hot(keys_bn, RECORDS).double()
    x[:, :-1, VALUE] = F.one_hot(values_bn, VALUES).double()
    x[:, -1, ASKED] = F.one_hot(asked_b, RECORDS).double()
    return x


def show(draws: int, generator: torch.Generator) -> Shown:
    x, places, answers = texts(draws, generator)
    dense, random = DenseSynthesizer(draws, generator), RandomSynthesizer(draws, generator)
    rows = torch.stack([dense(text)[:, -1] for text in x])  # (N, b, n): how the last token looks at the text
    on_place = rows.gather(2, places[..., None])[..., 0]
    found = (rows[..., :-1].argmax(dim=2) == places).double().mean(dim=0)
    checks = (
        PAGE.holds("derivative", _derivative(dense, draws, generator), 0.0),
        PAGE.holds("same-weights", (rows - rows[0]).abs().amax(dim=(0, 2)), 1e-15, records=RECORDS),
        PAGE.holds("largest", found - BEST, 1e-12, records=RECORDS),
        PAGE.holds(
            "mean-weight", (on_place.mean(dim=0) - BEST * rows[0, :, :-1].sum(dim=1)).abs(), 1e-12, records=RECORDS
        ),
        *(_read(name, weights, x, answers, generator) for name, weights in (("Dense", dense), ("Random", random))),
        *_attention(x, answers, draws, generator),
    )
    return Shown(checks, _figures(generator), _limits(x, answers, draws, generator))


def _derivative(weights: DenseSynthesizer | None, draws: int, generator: torch.Generator) -> Tensor:
    """The largest entry of ∂(c·A_i)/∂x_m over all m ≠ i, c random; without a Synthesizer, of dot-product attention."""
    x = normal(generator, draws, LENGTH, WIDTH).requires_grad_()
    made = (x @ x.mT / math.sqrt(WIDTH)).softmax(dim=-1) if weights is None else weights(x)
    i = LENGTH // 2
    (gradient,) = torch.autograd.grad((made[:, i] * normal(generator, draws, LENGTH)).sum(), x)
    others = [m for m in range(LENGTH) if m != i]
    return worst(gradient[:, others])


def _read(
    name: str, weights: DenseSynthesizer | RandomSynthesizer, x: Tensor, answers: Tensor, generator: torch.Generator
) -> Check:
    """The values are mixed, and a random network reads the mixture and the asking token."""
    draws = x.shape[1]
    first = normal(generator, draws, VALUES + RECORDS, HIDDEN)
    second = normal(generator, draws, HIDDEN, VALUES)
    right = []
    for text, answer in zip(x, answers, strict=True):
        y = (weights(text)[:, -1:] @ text[..., VALUE])[:, 0]
        read = torch.cat([y, text[:, -1, ASKED]], dim=1)
        scores = (torch.tanh(read[:, None] @ first) @ second)[:, 0]
        right.append(scores.argmax(dim=1) == answer)
    return PAGE.holds("read", torch.stack(right).double().mean(dim=0) - BEST, 1e-12, name=name, records=RECORDS)


def _attention(x: Tensor, answers: Tensor, draws: int, generator: torch.Generator) -> tuple[Check, ...]:
    """Dot-product attention looks the record up, in one layer and in the form “copy what follows” in two."""
    c = math.log(RECORDS / TOLERANCE)
    query, key, value = (torch.zeros(WIDTH, WIDTH, dtype=torch.float64) for _ in range(3))
    query[KEY, ASKED] = c * math.sqrt(WIDTH) * torch.eye(RECORDS, dtype=torch.float64)
    key[KEY, KEY] = torch.eye(RECORDS)
    value[VALUE, VALUE] = torch.eye(VALUES)
    attention = attention_of(query, key, value)
    off = [
        (attention(text).y_btd[:, -1, VALUE] - F.one_hot(answer, VALUES)).abs().amax(dim=1)
        for text, answer in zip(x, answers, strict=True)
    ]
    return (
        PAGE.holds("attention", torch.stack(off).amax(dim=0), TOLERANCE, records=RECORDS),
        PAGE.holds("follows", _follows(draws, generator), TOLERANCE),
    )


def _follows(draws: int, generator: torch.Generator) -> Tensor:
    """k₁ v₁ k₂ v₂ … k_N v_N k: how far the last output is from the value that follows k."""
    words = RECORDS + VALUES
    keys, values = permutations(generator, draws, RECORDS), permutations(generator, draws, VALUES)[:, :RECORDS]
    which = torch.randint(0, RECORDS, (draws, 1), generator=generator)
    ids = torch.cat([torch.stack([keys, RECORDS + values], dim=2).flatten(1), keys.gather(1, which)], dim=1)
    own = F.one_hot(ids, words).double()
    previous = one_head(own, torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64).expand(draws, -1))
    c = math.log(2 * RECORDS / TOLERANCE)
    places = torch.arange(ids.shape[1])
    q, k, v = (part[:, None] for part in (c * math.sqrt(words) * own, previous, own))
    y, _ = dot_product(q, k, v, None, (places, places), 0.0, False)
    wanted = F.one_hot(RECORDS + values.gather(1, which)[:, 0], words)
    return (y[:, 0, -1] - wanted).abs().amax(dim=1)


def _limits(x: Tensor, answers: Tensor, draws: int, generator: torch.Generator) -> tuple[Check, ...]:
    off_reader, off_layers = [], []
    c = math.log(RECORDS / TOLERANCE)
    for text, answer in zip(x, answers, strict=True):
        wanted = F.one_hot(answer, VALUES).double()
        asked = text[:, -1, ASKED]
        # one layer of equal weights: each token has a coordinate for its (key, value), and the mean keeps them all
        pairs = (text[..., KEY, None] * text[..., None, VALUE]).mean(dim=1)
        units = torch.relu(asked[..., None] + LENGTH * pairs - 1)
        off_reader.append((units.sum(dim=1) - wanted).abs().amax(dim=1))
        # two layers: the first brings the table of keys and places to the last token, whose own weights then use it
        table = (text[:, :-1, KEY].mT).contiguous() / LENGTH
        row = (c * torch.relu(asked[..., None] + LENGTH * table - 1)).sum(dim=1).softmax(dim=-1)
        off_layers.append(((row[:, None] @ text[:, :-1, VALUE])[:, 0] - wanted).abs().amax(dim=1))
    return (
        PAGE.fails("attention-derivative", _derivative(None, draws, generator), 1e-6),
        PAGE.holds("wide-mixture", torch.stack(off_reader).amax(dim=0), 1e-12, records=RECORDS, values=VALUES),
        PAGE.holds("two-layers", torch.stack(off_layers).amax(dim=0), TOLERANCE, records=RECORDS),
    )


def _figures(generator: torch.Generator) -> tuple[Block, ...]:
    x, _, _ = texts(1, generator)
    dense = DenseSynthesizer(1, generator)
    rows, cells = [], []
    for s, text in enumerate(x):
        weights = dense(text)[0, -1]
        scores = text[0, :, KEY] @ text[0, -1, ASKED]
        looked = (5.0 * scores).softmax(dim=0)
        for j in range(LENGTH):
            place = "asking" if j == RECORDS else f"{j + 1}"
            rows.append({"place": place, "text": s + 1, "weight": round(float(weights[j]), 3)})
            cells.append({"place": place, "text": s + 1, "weight": round(float(looked[j]), 3)})
    table = [(f"{n:,}", f"{100 / n:.2g}%", f"{math.log(n / TOLERANCE):.1f}") for n in (2, 6, 20, 100, 1000)]
    return (
        PAGE.figure("dense", plots.grid(rows, "place", "text", "weight"), records=RECORDS),
        PAGE.figure("attention", plots.grid(cells, "place", "text", "weight")),
        PAGE.prose("costs"),
        PAGE.table(
            "costs-table", ("records N", "Synthesizer: right at most", "attention: C for an error of 10⁻⁶"), table
        ),
    )
