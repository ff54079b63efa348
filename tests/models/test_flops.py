"""Operations by formula are those that PyTorch counts while the model runs; parameters are those of the formulas."""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from heedful.models.batch import Batch
from heedful.models.flops import forward_flops
from heedful.models.inventory import take_inventory
from heedful.models.kinds import ATTENTION_KINDS
from heedful.models.shape import NAMED_SHAPES, Head, Shape
from heedful.models.transformer import FIRST, Transformer
from heedful.nn.blocks import REFERENCE
from tests.support.formula_models import SHAPES

KINDS = [kind for kind in ATTENTION_KINDS if kind != "synthesizer"]  # one of the tests alone, another in each layer


def small(body: str, kind: str) -> Shape:
    return replace(SHAPES[body], pooler=False, attention=kind, width=18)


@pytest.mark.parametrize("body", ["distilbert", "gpt2"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("one_read", [False, True])
def test_flops_are_those_that_run(body: str, kind: str, one_read: bool) -> None:
    model = Transformer(small(body, kind), kernels=REFERENCE).eval()
    lengths = [5, 9, 1]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        for n in lengths:
            model.body(Batch(torch.arange(n)[None]), read=FIRST if one_read else None)
    assert forward_flops(model.shape, lengths, [1] * len(lengths) if one_read else None) == counter.get_total_flops()


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_of_each_kind(kind: str) -> None:
    shape = small("gpt2", kind)
    d, h, p, layers = shape.width, shape.heads, shape.positions, shape.layers
    maps = 4 * (d * d + d)
    own = {
        "dot-product": maps,
        "rotary": maps,
        "relative": maps + 32 * h,
        "synthesizer-dense": 3 * (d * d + d) + d * p + h * p,
        "synthesizer-random": 2 * (d * d + d) + h * p * p,
    }
    found = take_inventory(Transformer(shape))
    parts = [part for part in found.parts if ".attention." in part.name]
    assert sum(part.count for part in parts) == layers * own[kind]
    assert found.total == found.trainable


def test_the_small_gpt_has_the_parameters_of_the_course() -> None:
    """There, the output layer has a matrix of its own beside the token table; here they are one."""
    with torch.device("meta"):
        model = Transformer(NAMED_SHAPES["gpt-mini"], {"causal": Head("language-model", "every")})
    assert take_inventory(model).total + 256 * 256 == 3_323_392
