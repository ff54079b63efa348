"""Which rows form a step, how far it goes, and that the optimiser's state survives the disk."""

import math
import random
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn

from heedful.inputs.step_rows import EpochRows, by_tokens, padding_share
from heedful.recipes.schema import TrainingTable
from heedful.streams import Parts, in_parts
from heedful.training.optimisers.common import make_optimiser, optimiser_tensors, restore_optimiser
from heedful.training.schedule import lr_factor
from heedful.training.state import Progress, load_state, save_state
from tests.support.small_fits import dataset, recipe_of, small, texts
from tests.support.training_samples import tiny_model

TABLE = TrainingTable(weight_decay=0.1)
LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=300)


def epoch_batches(lengths: list[int], seed: int, epoch: int, size: int, tokens: int | None = None) -> list[list[int]]:
    return EpochRows(lengths, seed, size, tokens).batches(epoch)


def same(name: str) -> float:
    return 1.0


@settings(max_examples=80)
@given(LENGTHS, st.integers(0, 2**32 - 1), st.integers(0, 50), st.integers(1, 40))
def test_every_row_once_by_count(lengths: list[int], seed: int, epoch: int, size: int) -> None:
    batches = epoch_batches(lengths, seed, epoch, size)
    assert sorted(r for b in batches for r in b) == list(range(len(lengths)))
    assert len(batches) == -(-len(lengths) // size)  # as the schedule counts on
    assert sorted(map(len, batches))[1:] == [size] * (len(batches) - 1)
    assert batches == epoch_batches(lengths, seed, epoch, size)


@settings(max_examples=80)
@given(LENGTHS, st.integers(0, 100), st.integers(0, 5), st.integers(16, 400))
def test_every_row_once_by_tokens(lengths: list[int], seed: int, epoch: int, tokens: int) -> None:
    batches = epoch_batches(lengths, seed, epoch, 8, tokens)
    assert sorted(r for b in batches for r in b) == list(range(len(lengths)))
    for b in batches:
        assert len(b) == 1 or len(b) * max(lengths[r] for r in b) <= tokens
    assert batches == epoch_batches(lengths, seed, epoch, 8, tokens)


def test_batches_by_tokens_look_up_every_row_once() -> None:
    """And not all rows for each pool of rows that are sorted together, of which there are many here."""

    class Counted(list[int]):
        looked_up = 0

        def __getitem__(self, at: Any) -> Any:
            Counted.looked_up += 1
            return super().__getitem__(at)

    assert len(by_tokens(range(1000), Counted([8] * 1000), 8)) == 1000
    assert Counted.looked_up <= 2000
    with patch("heedful.inputs.step_rows.by_tokens", wraps=by_tokens) as batched:
        epoch_batches([8] * 40_000, 0, 0, 8, tokens=8)
    pools = [call.args[:2] for call in batched.call_args_list]
    assert len(pools) == 800
    assert len({id(lengths) for _, lengths in pools}) == 1  # made once, not for each pool
    assert sum(len(rows) for rows, _ in pools) == 40_000


BOTH = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=300)


@settings(max_examples=80)
@given(BOTH, st.integers(0, 100), st.integers(0, 5), st.integers(16, 400), st.none() | st.integers(1, 40))
def test_both_sides_stay_within_the_tokens(
    both: list[tuple[int, int]], seed: int, epoch: int, tokens: int, size: int | None
) -> None:
    targets, sources = [t for t, _ in both], [s for _, s in both]
    limit = tokens if size is None else None
    batches = EpochRows(targets, seed, size or 8, limit, sources).batches(epoch)
    assert sorted(r for b in batches for r in b) == list(range(len(both)))
    for b in batches:
        if size is not None:
            assert len(b) <= size
        elif len(b) > 1:
            assert len(b) * max(targets[r] for r in b) <= tokens
            assert len(b) * max(sources[r] for r in b) <= tokens
    assert batches == EpochRows(targets, seed, size or 8, limit, sources).batches(epoch)


def test_rows_are_alike_on_both_sides() -> None:
    draw = random.Random(0)
    targets = [draw.randint(3, 60) for _ in range(4000)]
    sources = [max(1, t + draw.randint(-8, 8)) for t in targets]
    sides = [[n] for n in targets], [[n] for n in sources]
    by_one = padding_share(EpochRows(targets, 0, 8, 1000).batches(0), *sides)
    by_both = padding_share(EpochRows(targets, 0, 8, 1000, sources).batches(0), *sides)
    unsorted = padding_share([list(range(at, at + 20)) for at in range(0, 4000, 20)], *sides)
    assert by_both < 0.7 * by_one < 0.3 * unsorted
    epochs = [EpochRows(targets, seed, 8, 1000, sources).batches(epoch) for seed, epoch in ((0, 0), (0, 1), (1, 0))]
    assert epochs[0] != epochs[1]
    assert epochs[0] != epochs[2]


def test_padding_of_two_sides_by_hand() -> None:
    # Rectangles of 2 × 4 and 1 × 2 for one side, of 2 × 3 and 1 × 7 for the other: 23 places for 4 + 1 + 2 + 3 + 2 + 7.
    assert padding_share([[0, 1], [2]], [[4], [1], [2]], [[3], [2], [7]]) == pytest.approx(1 - 19 / 23, abs=1e-12)


@settings(max_examples=60)
@given(LENGTHS, st.integers(0, 100), st.integers(1, 40), st.none() | st.integers(16, 400), st.randoms())
def test_steps_go_through_the_epochs(
    lengths: list[int], seed: int, size: int, tokens: int | None, draw: random.Random
) -> None:
    """Step by step, or from any step on: the rows of a step hang on its number alone."""
    rows = EpochRows(lengths, seed, size, tokens)
    expected = [batch for epoch in range(3) for batch in rows.batches(epoch)]
    assert [rows.steps(epoch) for epoch in range(3)] == [len(rows.batches(epoch)) for epoch in range(3)]
    assert [rows.of_step(number) for number in range(len(expected))] == expected
    places = draw.sample(range(len(expected)), min(5, len(expected)))
    fresh = EpochRows(lengths, seed, size, tokens)
    assert [fresh.of_step(number) for number in places] == [expected[number] for number in places]


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=6), min_size=1, max_size=6))
def test_padding_share_by_brute_force(groups: list[list[int]]) -> None:
    lengths = [n for group in groups for n in group]
    rows = iter(range(len(lengths)))
    batches = [[next(rows) for _ in group] for group in groups]
    cells = [cell for g in groups for n in g for cell in [1] * n + [0] * (max(g) - n)]
    assert padding_share(batches, [[n] for n in lengths]) == pytest.approx(cells.count(0) / len(cells), abs=1e-12)
    together = [list(range(len(groups)))]  # the same with each group as the chunks of one row, all in one batch
    longest = max(lengths)
    assert padding_share(together, groups) == pytest.approx(1 - sum(lengths) / (longest * len(lengths)), abs=1e-12)


def test_epochs_and_seeds_differ_and_padding_is_little() -> None:
    lengths = torch.randint(3, 60, (2000,), generator=torch.Generator().manual_seed(0)).tolist()
    batches = epoch_batches(lengths, 0, 0, 16)
    others = [epoch_batches(lengths, 0, 1, 16), epoch_batches(lengths, 1, 0, 16), epoch_batches(lengths, 1, 1, 16)]
    assert all(batches != other for other in others)
    assert {frozenset(b) for b in batches} != {frozenset(b) for b in others[0]}
    plain = [list(range(at, at + 16)) for at in range(0, 2000, 16)]
    rows = [[n] for n in lengths]
    assert padding_share(batches, rows) < 0.3 * padding_share(plain, rows)
    longest = [max(lengths[r] for r in b) for b in batches]
    assert longest != sorted(longest)  # batches of one length do not follow one another
    assert longest != sorted(longest, reverse=True)


@given(st.lists(st.integers(), min_size=1, max_size=40, unique=True), st.integers(1, 60))
def test_parts_of_a_step(rows: list[int], parts: int) -> None:
    found = in_parts(rows, Parts(parts))
    assert [r for _, part in found for r in part] == rows
    assert [number for number, _ in found] == list(range(len(found)))
    assert len(found) <= parts
    assert all(part for _, part in found)


@given(st.lists(st.integers(), min_size=1, max_size=40, unique=True), st.integers(1, 60), st.integers(1, 8))
def test_parts_of_a_step_are_dealt_out_to_processes(rows: list[int], parts: int, processes: int) -> None:
    """Each part to one of them, under the number that it has where one process computes them all."""
    dealt = [part for i in range(processes) for part in in_parts(rows, Parts(parts, range(i, parts, processes)))]
    assert sorted(dealt, key=lambda part: part[0]) == in_parts(rows, Parts(parts))


@given(st.integers(1, 400), st.floats(0, 0.95), st.sampled_from(["linear", "cosine", "constant"]))
def test_learning_rate(steps: int, warmup: float, schedule: str) -> None:
    rising = int(warmup * steps)
    found = [lr_factor(step, steps, warmup, schedule) for step in range(steps)]
    assert all(0 < f <= 1 for f in found)
    assert found[:rising] == sorted(found[:rising])
    assert found[rising] == 1.0
    assert found[rising:] == sorted(found[rising:], reverse=True)
    if rising:  # in equal strides, from nearly nothing
        assert found[:rising] == pytest.approx([(i + 1) / (rising + 1) for i in range(rising)])
    left = steps - rising
    if schedule == "constant":
        assert set(found[rising:]) == {1.0}
    elif schedule == "linear":
        assert found[-1] == pytest.approx(1 / left)
        assert found[rising:] == pytest.approx([1 - i / left for i in range(left)])
    else:
        assert found[rising:] == pytest.approx([0.5 + 0.5 * math.cos(math.pi * i / left) for i in range(left)])


def test_groups_of_the_optimiser(tmp_path: Path) -> None:
    model = tiny_model(tmp_path, 3)
    one = small(model, dataset(*texts(6)), recipe_of(tuning={"layer_decay": 0.5}), tmp_path / "store")
    parameters = one.tuning.trainable()
    assert parameters.keys() == dict(model[0].named_parameters()).keys()
    optimiser = make_optimiser(parameters, TrainingTable(weight_decay=0.25), one.tuning.lr_scale, {})
    name_of = {p: name for name, p in parameters.items()}
    seen = {}
    for group in optimiser.param_groups:
        for p in group["params"]:
            seen[name_of[p]] = (group["weight_decay"], group["scale"])
    assert seen.keys() == parameters.keys()
    for name, (decay, scale) in seen.items():
        is_matrix = name.endswith("weight") and "norm" not in name
        assert decay == (0.25 if is_matrix else 0.0), name
        expected = {"body.embeddings.": 0.25, "body.blocks.0.": 0.5}
        assert scale == next((v for k, v in expected.items() if name.startswith(k)), 1.0), name


def test_each_layer_has_its_share_of_the_learning_rate(tmp_path: Path) -> None:
    def scales(layers: int, decay: float) -> dict[str, float]:
        model = tiny_model(tmp_path, 3, layers=layers)
        recipe = recipe_of(tuning={"layer_decay": decay})
        tuning = small(model, dataset(*texts(6)), recipe, tmp_path / "store").tuning
        return {name: tuning.lr_scale(name) for name in tuning.trainable()}

    assert set(scales(2, 1.0).values()) == {1.0}
    twelve = scales(12, 0.9)
    assert twelve["body.blocks.11.attention.output.weight"] == 1.0
    assert twelve["body.blocks.1.attention.output.weight"] == pytest.approx(0.9**10)
    assert twelve["body.embeddings.token.weight"] == pytest.approx(0.9**12)
    assert twelve["heads.classify.output.weight"] == 1.0


@pytest.mark.parametrize(("reads", "pooler"), [("pooled", True), ("mean", False)])
def test_a_pooler_that_no_head_reads_is_left_out(reads: str, pooler: bool, tmp_path: Path) -> None:
    """It has no gradient, and would only decay."""
    model = tiny_model(tmp_path, 3, reads)
    one = small(model, dataset(*texts(6)), recipe_of(), tmp_path / "store")
    left_out = dict(model[0].named_parameters()).keys() - one.tuning.trainable().keys()
    assert left_out == (set() if pooler else {"body.pooler.dense.weight", "body.pooler.dense.bias"})


def _train(parameters: dict[str, nn.Parameter], optimiser: torch.optim.AdamW, start: int, steps: int) -> None:
    for step in range(start, start + steps):
        g = torch.Generator().manual_seed(step)
        for name, p in parameters.items():
            p.grad = None if name == "never" else torch.randn(p.shape, generator=g)
        for group in optimiser.param_groups:
            group["lr"] = 0.01
        optimiser.step()


def _some() -> dict[str, nn.Parameter]:
    """One matrix lies column by column in memory, as those of linear maps do; one has no gradient, ever."""
    g = torch.Generator().manual_seed(0)
    columns = nn.Parameter(torch.empty(6, 5).T)
    with torch.no_grad():
        columns.normal_(generator=g)
    assert not columns.is_contiguous()
    rest = {"rows": (4, 3), "bias": (3,), "never": (2, 2)}
    return {"columns": columns, **{n: nn.Parameter(torch.randn(s, generator=g)) for n, s in rest.items()}}


def test_state_goes_to_disk_and_back(tmp_path: Path) -> None:
    straight = _some()
    _train(straight, make_optimiser(straight, TABLE, same, {}), 0, 9)

    first = _some()
    optimiser = make_optimiser(first, TABLE, same, {})
    _train(first, optimiser, 0, 4)
    progress = Progress(
        step=4,
        decay=0.1 + 0.2,
        best={"step": 2, "mark": 1, "epoch": 0.5, "score": 1 / 3},
        losses=[{"loss": 0.1}, {"loss": 2 / 3, "penalty": 1e-9}],
        sampler={"place": [3, "a"]},
        stages=[{"judged": {"test-a": 0.5}}],
    )
    best = {name: p.detach() * 2 for name, p in first.items()}
    save_state(tmp_path / "checkpoints", progress, first, optimiser, best)
    assert sorted(p.suffix for p in (tmp_path / "checkpoints").iterdir()) == [".json"] + [".safetensors"] * 3

    second = {name: nn.Parameter(torch.zeros_like(p)) for name, p in first.items()}
    assert not second["columns"].is_contiguous()
    fresh = make_optimiser(second, TABLE, same, {})
    found, found_best = load_state(tmp_path / "checkpoints", second, fresh)
    assert found == progress
    assert found_best is not None
    assert all(torch.equal(found_best[n], best[n]) for n in best)
    _train(second, fresh, 4, 5)
    for name, p in straight.items():
        assert torch.equal(p, second[name]), name


def test_tensors_of_the_optimiser(tmp_path: Path) -> None:
    parameters = _some()
    optimiser = make_optimiser(parameters, TABLE, same, {})
    assert optimiser_tensors(optimiser, parameters) == {}
    _train(parameters, optimiser, 0, 3)
    tensors = optimiser_tensors(optimiser, parameters)
    assert not any("never" in name for name in tensors)
    save_file(tensors, tmp_path / "o.safetensors")
    other = make_optimiser(parameters, TABLE, same, {})
    restore_optimiser(other, parameters, load_file(tmp_path / "o.safetensors"))
    again = optimiser_tensors(other, parameters)
    assert tensors.keys() == again.keys()
    assert all(torch.equal(tensors[name], again[name]) for name in tensors)
    assert float(tensors["step.rows"]) == 3


def test_no_state_is_a_beginning(tmp_path: Path) -> None:
    parameters = _some()
    before = {name: p.detach().clone() for name, p in parameters.items()}
    progress, best = load_state(tmp_path / "none", parameters, make_optimiser(parameters, TABLE, same, {}))
    assert (progress, best) == (Progress(), None)
    assert all(torch.equal(p, before[name]) for name, p in parameters.items())
