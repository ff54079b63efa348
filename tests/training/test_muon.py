"""Muon: as PyTorch's on plain matrices, each third of fused projections for itself, AdamW for the rest."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from heedful.errors import RequestError
from heedful.nn.attention import MemoryAttention, linear_maps
from heedful.recipes.reading import make_recipe
from heedful.recipes.schema import TrainingTable
from heedful.training.optimisers.common import make_optimiser, optimiser_tensors, restore_optimiser
from heedful.training.optimisers.muon import orthogonalise
from tests.support.small_fits import dataset, furthest, recipe_of, small, texts, weights_of
from tests.support.training_samples import tiny_model

SIZES = {"body.blocks.0.a.weight": (6, 6), "body.blocks.0.wide.weight": (4, 9), "body.blocks.1.tall.weight": (12, 5)}
MUON = TrainingTable(optimiser="muon", lr=1e-3, muon_lr=0.05, weight_decay=0.1)
Named = dict[str, nn.Parameter]


def half(name: str) -> float:
    return 0.5


def matrices(dtype: torch.dtype) -> Named:
    g = torch.Generator().manual_seed(0)
    made = {name: nn.Parameter(torch.randn(size, generator=g, dtype=dtype)) for name, size in SIZES.items()}
    return {**made, "heads.a.weight": nn.Parameter(torch.ones(3, 2, dtype=dtype))}


def apart(ours: Named, theirs: Named) -> float:
    return furthest({n: ours[n].detach() for n in SIZES}, {n: theirs[n].detach() for n in SIZES})


def take_steps(parameters: Named, optimiser: torch.optim.Optimizer, start: int = 0, steps: int = 6) -> None:
    """With another gradient and another learning rate each."""
    for step in range(start, start + steps):
        g = torch.Generator().manual_seed(step)
        for p in parameters.values():
            p.grad = torch.randn(p.shape, generator=g, dtype=torch.float64).to(p.dtype)
        for group in optimiser.param_groups:
            group["lr"] = MUON.lr * (1 + step) / 3 * group.get("scale", 1.0)
        optimiser.step()


@pytest.mark.parametrize(
    ("dtype", "exact", "tolerance"),
    [(torch.float64, True, 1e-10), (torch.float32, True, 1e-5), (torch.float32, False, 2e-2)],
)
def test_plain_matrices_move_as_pytorchs_muon_moves_them(
    dtype: torch.dtype, exact: bool, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch computes in bfloat16; where it is kept from that, the two agree in the last digits."""
    ours, theirs = matrices(dtype), matrices(dtype)
    take_steps(ours, make_optimiser(ours, MUON, half, dict.fromkeys(SIZES, 1)))
    peer = torch.optim.Muon([theirs[name] for name in SIZES], lr=0.0, weight_decay=0.1)
    for group in peer.param_groups:
        group["scale"] = 0.5 * MUON.muon_lr / MUON.lr
    if exact:
        monkeypatch.setattr(torch.Tensor, "bfloat16", lambda self: self.clone())
    take_steps(theirs, peer)
    assert apart(ours, theirs) < tolerance
    assert apart(ours, matrices(dtype)) > 0.05


def test_each_map_of_a_fused_matrix_is_made_orthogonal_for_itself() -> None:
    """As three matrices of their own would be, and not as one."""
    g = torch.Generator().manual_seed(1)
    name, whole = "body.blocks.0.attention.qkv.weight", torch.randn(18, 6, generator=g, dtype=torch.float64)
    gradients = [torch.randn(18, 6, generator=g, dtype=torch.float64) for _ in range(3)]

    def moved(parts: list[torch.Tensor], pieces: int, rows: int) -> torch.Tensor:
        named = {f"{name}{i}": nn.Parameter(part.clone()) for i, part in enumerate(parts)}
        head = {"head": nn.Parameter(torch.ones(1))}
        optimiser = make_optimiser({**named, **head}, MUON, lambda _: 1.0, dict.fromkeys(named, pieces))
        for gradient in gradients:
            for p, some in zip(named.values(), gradient.split(rows), strict=True):  # type: ignore[no-untyped-call]
                p.grad = some.clone()
            for group in optimiser.param_groups:
                group["lr"] = MUON.lr * group["scale"]
            optimiser.step()
        return torch.cat([p.detach() for p in named.values()])

    thirds = moved(list(whole.split(6)), 1, 6)  # type: ignore[no-untyped-call]
    assert float((moved([whole], 3, 18) - thirds).abs().max()) < 1e-12
    assert float((moved([whole], 1, 18) - thirds).abs().max()) > 1e-3


@settings(max_examples=40)
@given(st.integers(1, 3), st.integers(1, 20), st.integers(1, 20), st.integers(0, 1000), st.floats(1e-4, 1e4))
def test_singular_values_become_about_one(maps: int, rows: int, columns: int, seed: int, size: float) -> None:
    """Those that were not tiny beside the others, whatever the length of the whole."""
    x = size * torch.randn(maps, rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    before, after = torch.linalg.svdvals(x), torch.linalg.svdvals(orthogonalise(x, torch.float64))
    share = before / before.norm(dim=1, keepdim=True)
    assert float(after.max()) < 1.3
    assert float(after[share > 0.02].min()) > 0.4


def test_which_parameters_are_whose(tmp_path: Path) -> None:
    model = tiny_model(tmp_path, 3)
    recipe = recipe_of(training={"optimiser": "muon", "muon_lr": 0.01, "lr": 1e-3}, tuning={"layer_decay": 0.5})
    one = small(model, dataset(*texts(6)), recipe, tmp_path / "store")
    parameters, maps = one.tuning.trainable(), linear_maps(model[0])
    optimiser = make_optimiser(parameters, recipe.training, one.tuning.lr_scale, maps)
    inside = {n for n in parameters if n.startswith("body.blocks.") and n.endswith("weight") and "norm" not in n}
    assert len(inside) == 2 * 4
    assert {n for n in inside if maps[n] == 3} == {f"body.blocks.{i}.attention.qkv.weight" for i in (0, 1)}
    own = {p for group in optimiser.own for p in group["params"]}  # type: ignore[attr-defined]
    assert {n for n, p in parameters.items() if p in own} == inside
    scales = {p: group["scale"] for group in optimiser.param_groups for p in group["params"]}
    assert scales.keys() == set(parameters.values())
    for name, p in parameters.items():
        assert scales[p] == pytest.approx(one.tuning.lr_scale(name) * (10 if name in inside else 1)), name


def test_the_maps_of_attention_to_a_memory() -> None:
    found = linear_maps(nn.ModuleDict({"m": MemoryAttention(8, 6, 2)}))
    assert found == {"m.query.weight": 1, "m.keys_values.weight": 2, "m.output.weight": 1}


def test_what_is_not_inside_the_blocks_moves_as_with_adamw(tmp_path: Path) -> None:
    """To the bit, in a first step, whose gradients are the same."""
    found = {}
    for name in ("adamw", "muon"):
        model = tiny_model(tmp_path, 3)
        recipe = recipe_of(training={"optimiser": name, "steps": 1})
        one = small(model, dataset(*texts(24)), recipe, tmp_path / "store")
        one.train(tmp_path / name)
        found[name] = weights_of(model[0])
    maps = linear_maps(model[0])
    for name, weight in found["adamw"].items():
        same = torch.equal(weight, found["muon"][name])
        assert same == (not (name.startswith("body.blocks.") and name in maps)), name


def test_the_state_survives() -> None:
    straight, first = matrices(torch.float32), matrices(torch.float32)
    maps = dict.fromkeys(SIZES, 1)
    take_steps(straight, make_optimiser(straight, MUON, half, maps))
    optimiser = make_optimiser(first, MUON, half, maps)
    assert optimiser_tensors(optimiser, first) == {}
    take_steps(first, optimiser, 0, 4)
    kept = optimiser_tensors(optimiser, first)
    assert {name.split(".")[0] for name in kept} == {"momentum", "exp_avg", "exp_avg_sq", "step"}
    fresh = make_optimiser(first, MUON, half, maps)
    restore_optimiser(fresh, first, kept)
    take_steps(first, fresh, 4, 2)
    assert all(torch.equal(p, first[name]) for name, p in straight.items())


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ({"training": {"muon_lr": 0.1}}, r'muon_lr goes with training\.optimiser = "muon", not "adamw"'),
        ({"training": {"betas": [0.9]}}, r"training\.betas = \[0\.9\] is not right: give two numbers"),
        ({"training": {"betas": [0.9, 1.0]}}, r"training\.betas\.1 = 1\.0 is not right: it must be below 1"),
        *(
            ({"training": {"optimiser": "muon"}, "tuning": tuning}, rf'which tuning\.method = "{tuning["method"]}"')
            for tuning in ({"method": "bias"}, {"method": "lora"}, {"method": "frozen", "solve": False})
        ),
        ({"training": {"optimiser": "sgd"}}, r"training\.optimiser = 'sgd' is not right: choose 'adamw' or 'muon'"),
    ],
)
def test_what_is_refused(tables: dict[str, dict[str, object]], sentence: str) -> None:
    with pytest.raises(RequestError, match=sentence):
        make_recipe({"model": {"name": "m"}, "data": {"name": "small"}, **tables})


def test_no_matrix_of_a_block_is_refused() -> None:
    with pytest.raises(RequestError, match='"muon" is for matrices of the blocks, of which none moves'):
        make_optimiser({"heads.a.weight": nn.Parameter(torch.ones(2, 2))}, MUON, half, {"heads.a.weight": 1})
