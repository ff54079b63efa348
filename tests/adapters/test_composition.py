"""The algebra of adapters: what can be written and read back, what is refused, and what each composition computes."""

from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import heedful
from heedful.checkpoints.directory import read_model
from heedful.errors import RequestError
from heedful.models.adapters import (
    PLACEMENTS,
    BottleneckShape,
    FusionShape,
    LowRankShape,
    activate,
    add_adapter,
    add_fusion,
    remove_adapter,
)
from heedful.models.batch import Batch
from heedful.models.composition import Average, Composition, Fuse, Stack, names_of, parse_composition
from heedful.models.merging import merge
from heedful.models.transformer import Transformer
from tests.support.adapter_samples import FAMILY_BASES, formula, their_inputs

NAMES = st.text(st.characters(codec="utf-8", categories=("L", "N"), include_characters="-_@/+"), min_size=1, max_size=9)


@st.composite
def compositions(draw: Any) -> Composition:
    names = draw(st.lists(NAMES, min_size=2, max_size=6, unique=True))
    weights = draw(st.lists(st.floats(0.01, 100), min_size=len(names), max_size=len(names)))
    kind = draw(st.sampled_from(["one", "fuse", "average", "stack", "nested"]))
    if kind == "one":
        return str(names[0])
    if kind == "fuse":
        return Fuse(*names)
    if kind == "average":
        return Average(*names, weights=weights)
    if kind == "nested" and len(names) > 2:
        return Stack(names[0], draw(st.sampled_from([Fuse(*names[1:]), Average(*names[1:])])))
    return Stack(*names)


@example(Average("a", "b", "c", weights=[0.33333333333333337] * 3))
@given(compositions())
def test_what_is_written_is_read_back(composition: Composition) -> None:
    assert parse_composition(str(composition)) == composition


@given(st.text(max_size=30))
def test_whatever_is_written_is_read_or_refused_in_words(text: str) -> None:
    try:
        made = parse_composition(text)
    except RequestError as error:
        assert str(error).endswith(".")  # noqa: PT017 (either is right)
    else:
        assert names_of(made)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Fuse("a"), "needs at least two adapters"),
        (lambda: Fuse("a", "a"), "names 'a' twice"),
        (lambda: Fuse("a", Stack("b", "c")), "nothing nested"),  # type: ignore[arg-type]
        (lambda: Average("a", "b", weights=[1]), "one weight"),
        (lambda: Average("a", "b", weights=[-1, 2]), "one weight"),
        (lambda: Average("a", "b", weights=[0, 0]), "not all of them 0"),
        (lambda: Average("a", "b", weights=[float("nan"), 1]), "one weight"),
        (lambda: Stack("a"), "at least two parts"),
        (lambda: Stack("a", Stack("b", "c")), "a stack in a stack"),  # type: ignore[arg-type]
        (lambda: Stack("a", Fuse("a", "b")), "names 'a' twice"),
        (lambda: parse_composition(""), "is not a composition of adapters"),
        (lambda: parse_composition("fuse(a, b"), "cannot be read"),
        (lambda: parse_composition("fuse(a, b))"), "cannot be read"),
        (lambda: parse_composition("fuse(a*2, b)"), "cannot be read"),
        (lambda: parse_composition("sum(a, b)"), "cannot be read"),
        (lambda: parse_composition("a b"), "cannot be read"),
        (lambda: parse_composition("average(a*x, b)"), "cannot be read"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        make()


def adapted(**shapes: Any) -> Transformer:
    """A tiny body in double precision with these adapters, their weights by formula."""
    transformer = read_model(FAMILY_BASES["bert"], body_only=True).transformer.double().eval()
    for name, shape in shapes.items():
        for n, p in add_adapter(transformer, name, shape).double().named_parameters():
            p.data = formula(f"{name} {n}", p.shape).double() + (1.0 if "norm" in n and "weight" in n else 0.0)
    return transformer


def states(transformer: Transformer, composition: Composition | None) -> torch.Tensor:
    inputs = their_inputs("bert")
    activate(transformer, composition)
    with torch.no_grad():
        batch = Batch(inputs["input_ids"], inputs["attention_mask"].bool(), inputs["token_type_ids"])
        return transformer.body(batch, adapters=transformer.through(None)).last[batch.real_bt]  # type: ignore[no-any-return]


PFEIFFER = BottleneckShape(reduction=4)


def test_switching_leaves_nothing_behind() -> None:
    transformer = adapted(a=PFEIFFER, b=PLACEMENTS["houlsby"], low=LowRankShape())
    plain, weights = states(transformer, None), [p.clone() for p in transformer.parameters()]
    first = {name: states(transformer, name) for name in ("a", "b", "low")}
    for name in ("low", "b", "a", "low"):
        assert torch.equal(states(transformer, name), first[name])
    assert torch.equal(states(transformer, None), plain)
    assert all(not torch.allclose(x, plain) for x in first.values())
    assert all(torch.equal(p, q) for p, q in zip(transformer.parameters(), weights, strict=True))


def test_an_average_of_one_thing_is_that_thing() -> None:
    transformer = adapted(a=PFEIFFER, b=PFEIFFER)
    transformer.adapters["b"].load_state_dict(transformer.adapters["a"].state_dict())
    for weights in (None, [1.0, 3.0]):
        assert torch.allclose(
            states(transformer, Average("a", "b", weights=weights)), states(transformer, "a"), atol=1e-12
        )


def test_a_fusion_that_knows_one_adapter_uses_it_alone() -> None:
    """Where the scores of one adapter are far above the others, fusion with V = I is that adapter."""
    transformer = adapted(a=PFEIFFER, b=PFEIFFER)
    for place in add_fusion(transformer, FusionShape(("a", "b"))).double().children():
        for fusion in place.children():
            torch.nn.init.eye_(fusion.value.weight)
            torch.nn.init.eye_(fusion.query.weight)
            torch.nn.init.eye_(fusion.key.weight)
            torch.nn.init.zeros_(fusion.query.bias)
            torch.nn.init.zeros_(fusion.key.bias)
    mixed = states(transformer, Fuse("a", "b"))
    assert not torch.allclose(mixed, states(transformer, "a"), atol=1e-3)
    transformer.adapters["b"].load_state_dict(transformer.adapters["a"].state_dict())
    assert torch.allclose(states(transformer, Fuse("a", "b")), states(transformer, "a"), atol=1e-12)


@pytest.mark.parametrize(
    ("composition", "says"),
    [
        ("zzz", "the model has no adapter 'zzz'; it has a, b, houlsby, par, low"),
        (Fuse("a", "b"), "the fusion part is missing; the model has none"),
        (Fuse("a", "houlsby"), "are at different places or read different states"),
        (Fuse("a", "low"), "'low' is low-rank"),
        (Fuse("par", "par2"), "has no adapter 'par2'"),
        (Average("a", "houlsby"), "are at different places"),
        (Average("a", "low"), "'low' is low-rank"),
        (Stack("a", "par"), "a parallel adapter cannot be stacked"),
    ],
)
def test_what_a_model_cannot_put_together_is_refused(composition: Composition, says: str) -> None:
    shapes = {"a": PFEIFFER, "b": PFEIFFER, "houlsby": PLACEMENTS["houlsby"], "par": PLACEMENTS["parallel"]}
    transformer = adapted(**shapes, low=LowRankShape())
    before = states(transformer, "a")
    with pytest.raises(RequestError, match=says):
        activate(transformer, composition)
    assert transformer.active == "a"
    assert torch.equal(states(transformer, "a"), before)


def test_names() -> None:
    transformer = adapted(a=PFEIFFER)
    for name in ("", "a.b", "a,b", "a b", "x(y)", "train", "..", "a/b", "x" * 200, "a\nb"):
        with pytest.raises(RequestError, match="is not a valid name for an adapter"):
            add_adapter(transformer, name, PFEIFFER)
    with pytest.raises(RequestError, match="already has an adapter 'a'"):
        add_adapter(transformer, "a", PFEIFFER)
    activate(transformer, "a")
    with pytest.raises(RequestError, match="is in use"):
        remove_adapter(transformer, "a")
    with pytest.raises(RequestError, match="is in none of the model's 3 layers"):
        add_adapter(transformer, "nowhere", BottleneckShape(left_out=(0, 1, 2)))


def test_only_low_rank_changes_can_be_merged() -> None:
    transformer = adapted(a=PFEIFFER, low=LowRankShape())
    activate(transformer, None)
    with pytest.raises(RequestError, match="nothing to merge"):
        merge(transformer)
    activate(transformer, Stack("low", "a"))
    with pytest.raises(RequestError, match="'a' is a bottleneck, which cannot be a part of the weights"):
        merge(transformer)
    activate(transformer, "low")
    with pytest.raises(RequestError, match="the adapter 'a' would then read a different body"):
        merge(transformer)


def test_they_are_part_of_the_package() -> None:
    assert heedful.Stack("a", heedful.Fuse("b", "c")) == parse_composition("stack(a, fuse(b, c))")
    assert str(heedful.Average("a", "b", weights=[1, 3])) == "average(a*0.25, b*0.75)"
