"""Ways to compute one thing that must agree: in parts, cached, compacted, chunked, in any company; with gradients."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from heedful.data.labelled import LabelledData
from heedful.inference.items import encode_texts
from heedful.inference.reader import TextReader, average_chunks, collate
from heedful.models.batch import Batch
from heedful.models.transformer import Transformer
from heedful.objectives.classify import Classify, balanced_weights
from tests.support.small_fits import CLASSES, CPU, dataset, features_of, furthest, recipe_of, small, texts, weights_of
from tests.support.training_samples import read_log, tiny_model

NO_DROPOUT = {
    "dropout": 0.0, "embedding_dropout": 0.0, "attention_dropout": 0.0, "attention_output_dropout": 0.0,
    "head_dropout": 0.0,
}  # fmt: skip
Maker = Callable[..., tuple[Transformer, Any]]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    folder = tmp_path_factory.mktemp("model")
    return lambda **changes: tiny_model(folder, CLASSES, **{**NO_DROPOUT, **changes})


def doubled(model: tuple[Transformer, Any]) -> tuple[Transformer, Any]:
    return model[0].double(), model[1]


@pytest.mark.parametrize("parts", [4, 50])
@pytest.mark.parametrize("kind", ["plain", "weighted", "score"])
def test_accumulation_is_the_full_batch(kind: str, parts: int, make: Maker, tmp_path: Path) -> None:
    """30 rows in steps of 8: the last step has 6, which 4 and 50 parts do not divide."""
    found = []
    rows, targets = texts()
    for accumulate in (1, parts):
        model = doubled(make())
        loss = {"label_smoothing": 0.1, "class_weights": "balanced" if kind == "weighted" else "none"}
        tables = {} if kind == "score" else {"objective": loss}
        recipe = recipe_of(training={"accumulate": accumulate, "epochs": 2}, **tables)
        score = kind == "score"
        data = dataset(rows, [0.7 * t if score else t for t in targets], kind="score" if score else "classes")
        folder = tmp_path / str(accumulate)
        one = small(model, data, recipe, tmp_path / "store")
        assert (one.objective.class_weights is not None) == (kind == "weighted")
        one.train(folder)
        found.append((weights_of(model[0]), [line["loss"] for line in read_log(folder)]))
    start = weights_of(make()[0].double())
    assert furthest(found[0][0], start) > 1e-3  # it did learn
    assert furthest(found[0][0], found[1][0]) < 1e-10
    assert found[0][1]
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-10)


def test_accumulation_notices_a_mean_of_means(make: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: dividing each part by its own weight is another step when parts differ in size."""
    found, right = [], Classify.loss_sum
    for wrong in (False, True):
        model = doubled(make())
        recipe = recipe_of(training={"batch_size": 10, "accumulate": 3, "epochs": 1})
        if wrong:
            monkeypatch.setattr(Classify, "loss_sum", lambda self, s, t: right(self, s, t) * (10 / 3) / len(t))
        small(model, dataset(*texts(10)), recipe, tmp_path / "store").train(tmp_path / str(wrong))
        found.append(weights_of(model[0]))
    assert furthest(*found) > 1e-6


def test_a_step_is_adamw_on_the_mean_loss(make: Maker, tmp_path: Path) -> None:
    """The whole loop against one written here with nothing but torch: schedule, clipping, decay on matrices alone."""
    rows, targets = texts()
    weights = balanced_weights(targets, CLASSES).double()
    model = doubled(make())
    peer = deepcopy(model[0])
    theirs = encode_texts(model[1], rows, 32)
    recipe = recipe_of(
        training={"lr": 3e-3, "weight_decay": 0.3, "clip": 0.5, "warmup": 0.25, "epochs": 3},
        tuning={"layer_decay": 0.5},
        objective={"label_smoothing": 0.1, "class_weights": "balanced"},
    )
    one = small(model, dataset(rows, targets), recipe, tmp_path / "store")
    one.objective.class_weights = weights
    one.train(tmp_path)

    scale = {"body.embeddings": 0.25, "body.blocks.0": 0.5}
    optimiser = torch.optim.AdamW(
        [
            {
                "params": [p],
                "weight_decay": 0.3 if p.ndim > 1 else 0.0,
                "times": next((v for k, v in scale.items() if name.startswith(k)), 1.0),
            }
            for name, p in peer.named_parameters()
        ],
        lr=0.0,
    )
    criterion = nn.CrossEntropyLoss(weight=weights)
    step, steps = 0, 12
    for epoch in range(3):
        for chosen in one.inputs.row_batches().batches(epoch):
            batch, _ = collate([theirs[r] for r in chosen], 0, CPU)
            optimiser.zero_grad()
            scores_bk = peer("classify", batch)
            target = torch.tensor([targets[r] for r in chosen])
            plain = criterion(scores_bk, target)
            even = -(F.log_softmax(scores_bk, -1).mean(-1) * weights[target]).sum() / weights[target].sum()
            (0.9 * plain + 0.1 * even).backward()
            nn.utils.clip_grad_norm_(peer.parameters(), 0.5)
            factor = (step + 1) / 4 if step < 3 else 1 - (step - 3) / (steps - 3)
            for group in optimiser.param_groups:
                group["lr"] = 3e-3 * factor * group["times"]
            optimiser.step()
            step += 1
    assert step == steps
    assert furthest(weights_of(model[0]), weights_of(peer)) < 1e-10


@pytest.mark.parametrize("keep", ["last", "best"])
def test_the_compact_table_is_the_whole_one(keep: str, make: Maker, tmp_path: Path) -> None:
    """Rows that never occurred end where torch's own AdamW on the whole table takes them."""
    rows = ["film warm", "cold", "story dull and loud 3", "lovely cast", "score 1", "ugly ending"]
    targets = torch.tensor([0, 1, 2, 0, 1, 2])
    # in fp32, AdamW makes steps of the noise in gradients that are zero
    transformer, tokenizer = doubled(make(reads="first"))
    peer = deepcopy(transformer)
    theirs = encode_texts(tokenizer, rows, 32)
    training = {
        "lr": 1e-2, "weight_decay": 0.5, "clip": None, "warmup": 0, "schedule": "constant", "batch_size": 3,
        "epochs": 6, "keep": keep,
    }  # fmt: skip
    recipe = recipe_of(training=training)
    one = small((transformer, tokenizer), dataset(rows, targets.tolist()), recipe, tmp_path / "store")
    occur = len(transformer.body.embeddings.token.weight)
    assert occur < len(peer.body.embeddings.token.weight) / 2
    best_epoch = 3
    scores = iter([0.1, 0.2, 0.9, 0.4, 0.5, 0.6])
    one.train(tmp_path, lambda stage: {"score": next(scores), "metrics": {}})

    matrices = [p for p in peer.parameters() if p.ndim > 1]
    optimiser = torch.optim.AdamW(
        [{"params": matrices}, {"params": [p for p in peer.parameters() if p.ndim == 1], "weight_decay": 0.0}],
        lr=1e-2,
        weight_decay=0.5,
    )
    for epoch in range(6 if keep == "last" else best_epoch):
        for chosen in one.inputs.row_batches().batches(epoch):
            optimiser.zero_grad()
            batch, _ = collate([theirs[r] for r in chosen], 0, CPU)
            F.cross_entropy(peer("classify", batch), targets[chosen]).backward()
            optimiser.step()
    ours, other = weights_of(transformer), weights_of(peer)
    never = [i for i in range(tokenizer.size) if all(i not in c for item in theirs for c in item.chunks) and i]
    table = "body.embeddings.token.weight"
    assert float((ours[table][never] - other[table][never]).abs().max()) < 1e-6
    assert furthest(ours, other) < 1e-6
    assert ours[table].shape == other[table].shape


def test_compacting_changes_no_score(make: Maker, tmp_path: Path) -> None:
    transformer, tokenizer = make()
    rows, targets = texts()
    before = features_of(transformer.eval(), encode_texts(tokenizer, rows, 32))
    whole = transformer.body.embeddings.token.weight.detach().clone()
    one = small((transformer, tokenizer), dataset(rows, targets), recipe_of(), tmp_path)
    assert len(transformer.body.embeddings.token.weight) < len(whole)
    assert one.tuning.set_aside == whole.numel() - transformer.body.embeddings.token.weight.numel()
    assert torch.equal(features_of(transformer.eval(), one.items), before)
    one.tuning.finish(1.0)
    assert torch.equal(transformer.body.embeddings.token.weight, whole)


@pytest.mark.parametrize("reads", ["pooled", "first", "mean", "max", "last"])
def test_cached_features_are_the_uncached_forward(reads: str, make: Maker, tmp_path: Path) -> None:
    """Dropout is in the body's shape, and must not be in what is cached."""
    transformer, tokenizer = make(reads=reads, dropout=0.3, attention_dropout=0.3, embedding_dropout=0.3)
    transformer.train()
    one = small((transformer, tokenizer), dataset(*texts(70), dev=5), recipe_of("frozen"), tmp_path)
    items = one.items
    with torch.no_grad():
        for row, item in enumerate(items):
            alone = features_of(transformer, [item])[0]
            np.testing.assert_allclose(one.tuning.reader.cache.arrays["train"][row], alone.numpy(), atol=1e-6)  # type: ignore[attr-defined]
        np.testing.assert_allclose(
            one.tuning.reader.cache.arrays["dev"], one.tuning.reader.cache.arrays["train"][:5], atol=1e-6
        )  # type: ignore[attr-defined]
        one.tuning.train(False)
        some = [3, 1, 69, 40]
        scores = one.scores(some)
        full = transformer.eval()("classify", collate([items[r] for r in some], 0, CPU)[0])
    assert float((scores - full).abs().max()) <= 1e-6
    one.tuning.train(True)
    assert not transformer.body.training
    assert transformer.heads["classify"].training


def test_a_head_trained_on_the_cache_is_the_head_trained_without_it(make: Maker, tmp_path: Path) -> None:
    data, recipe = dataset(*texts()), recipe_of("frozen", training={"lr": 0.05, "epochs": 4})
    model = make(reads="mean")
    peer = deepcopy(model[0])
    body = weights_of(model[0].body)
    small(model, data, recipe, tmp_path / "features").train(tmp_path / "ours")

    other = small((peer, model[1]), data, recipe, tmp_path / "others")
    other.tuning.reader = TextReader(peer, CPU)  # without the cache
    other.train(tmp_path / "theirs")
    ours, theirs = weights_of(model[0].heads["classify"]), weights_of(peer.heads["classify"])
    assert furthest(ours, theirs) < 1e-6
    assert float(ours["output.weight"].abs().max()) > 0.1
    assert all(torch.equal(p, body[n]) for n, p in model[0].body.named_parameters())


def test_features_that_are_half_written_are_made_again(make: Maker, tmp_path: Path) -> None:
    model, data, recipe = make(), dataset(*texts(5)), recipe_of("frozen")
    first = small(model, data, recipe, tmp_path / "whole").tuning.reader.cache.arrays["train"]  # type: ignore[attr-defined]
    (written,) = (tmp_path / "whole").glob("*/features.npy")
    half = tmp_path / "half" / written.parent.name
    half.mkdir(parents=True)
    (half / ".features.npy").write_bytes(b"\x93NUMPY half")
    again = small(model, data, recipe, tmp_path / "half").tuning.reader.cache.arrays["train"]  # type: ignore[attr-defined]
    assert first.shape == (5, 16)
    np.testing.assert_array_equal(again, first)
    assert [p.name for p in sorted(half.iterdir())] == ["features.npy", "seconds.json"]


LONG = "a long middle part that goes on and on and on until the ending of the opening scene is dull 7 8 9"


def test_chunks_cover_the_text_and_one_chunk_is_plain(make: Maker) -> None:
    transformer, tokenizer = make()
    whole = tokenizer.encode([LONG])[0].ids
    for room in range(4, len(whole) + 3):
        (item,) = encode_texts(tokenizer, [LONG], room, chunked=True)
        assert all(len(c) <= room and c[0] == tokenizer.cls_id and c[-1] == tokenizer.sep_id for c in item.chunks)
        assert [i for c in item.chunks for i in c[1:-1]] == whole[1:-1]
        assert max(map(len, item.chunks)) - min(map(len, item.chunks)) < max(len(c) for c in item.chunks)
        if len(whole) <= room:
            assert item.chunks == [whole]
            plain = encode_texts(tokenizer, [LONG], room)
            assert torch.equal(features_of(transformer.eval(), [item]), features_of(transformer.eval(), plain))


def test_chunks_are_averaged(make: Maker) -> None:
    transformer, tokenizer = make(reads="mean")
    transformer = transformer.double().eval()
    items = encode_texts(tokenizer, ["film warm", LONG, "cold", f"{LONG} {LONG}"], 12, chunked=True)
    assert [len(item.chunks) for item in items][::2] == [1, 1]
    found = features_of(transformer, items)
    for item, x_d in zip(items, found, strict=True):
        each = [transformer.features("mean", Batch(torch.tensor([chunk])))[0] for chunk in item.chunks]
        assert float((x_d - torch.stack(each).mean(0)).detach().abs().max()) < 1e-10


def test_the_gradient_of_the_average() -> None:
    x_cd = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    owner = torch.tensor([0, 1, 1, 1, 2])
    assert torch.autograd.gradcheck(lambda x: average_chunks(x, owner), x_cd)
    expected = torch.stack([x_cd[0], x_cd[1:4].mean(0), x_cd[4]])
    assert torch.allclose(average_chunks(x_cd, owner), expected, atol=1e-12)


@pytest.mark.parametrize("chunked", [False, True])
def test_company_does_not_change_a_score(chunked: bool, make: Maker, tmp_path: Path) -> None:
    transformer, tokenizer = doubled(make())
    transformer.eval()
    rows = [*texts(12)[0], LONG, "warm"]
    recipe = recipe_of(training={"max_length": 10, "long_texts": "chunk" if chunked else "cut"})
    one = small((transformer, tokenizer), dataset(rows, [i % 3 for i in range(len(rows))]), recipe, tmp_path)
    assert any(len(item.chunks) > 1 for item in one.items) == chunked
    with torch.no_grad():
        together = one.scores(range(len(rows)))
        alone = torch.cat([one.scores([r]) for r in range(len(rows))])
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(1)).tolist()
        shuffled = torch.cat([one.scores(order[at : at + 5]) for at in range(0, len(order), 5)])
    assert float((together - alone).abs().max()) < 1e-10
    assert float((together[order] - shuffled).abs().max()) < 1e-10
    every = one.tuning.reader.all_scores(one.items, "classify")  # in batches, the longest first
    assert float((together - every).abs().max()) < 1e-10


def test_company_does_not_change_the_score_of_a_pair(make: Maker) -> None:
    transformer, tokenizer = make()
    transformer = transformer.double().eval()
    rows = texts(9)[0]
    items = encode_texts(tokenizer, list(zip(rows, rows[::-1], strict=True)), 20)
    assert all(1 in item.segments for item in items if item.segments)
    with torch.no_grad():
        together = features_of(transformer, items)
        alone = torch.cat([features_of(transformer, [item]) for item in items])
    assert float((together - alone).abs().max()) < 1e-10


@settings(max_examples=60)
@given(
    st.integers(1, 9), st.integers(2, 5), st.floats(0, 0.9), st.booleans(), st.integers(0, 1000),
)  # fmt: skip
def test_the_loss_is_torchs_own(b: int, k: int, smoothing: float, weighted: bool, seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    scores_bk = torch.randn(b, k, generator=g, dtype=torch.float64) * 3
    targets = torch.randint(0, k, (b,), generator=g)
    weights = torch.rand(k, generator=g, dtype=torch.float64) + 0.1 if weighted else None
    loss = loss_of(k, smoothing, weights)
    plain = F.cross_entropy(scores_bk, targets, reduction="sum", label_smoothing=smoothing)
    count = loss._weights(targets).sum()
    if weights is None:
        assert float(loss.loss_sum(scores_bk, targets)) == pytest.approx(float(plain), rel=1e-10)
        assert float(count) == b
    else:
        rows = F.cross_entropy(scores_bk, targets, reduction="none", label_smoothing=smoothing) * weights[targets]
        assert float(loss.loss_sum(scores_bk, targets)) == pytest.approx(float(rows.sum()), rel=1e-10)
        mean = float(loss.loss_sum(scores_bk, targets) / count)
        if (
            smoothing == 0
        ):  # torch's weighted mean is the same; with smoothing it weighs the classes of the rest as well
            assert mean == pytest.approx(float(F.cross_entropy(scores_bk, targets, weights)), rel=1e-10)
    score = loss_of(0).loss_sum(scores_bk[:, :1], targets.double())
    assert float(score) == pytest.approx(float(((scores_bk[:, 0] - targets) ** 2).sum()))


def loss_of(classes: int, smoothing: float = 0.0, weights: torch.Tensor | None = None) -> Classify:
    """An objective without a model, for its loss; no classes: a score."""
    data = dataset(["a"], [0], kind="classes" if classes else "score")
    objective = Classify(recipe_of(objective={"label_smoothing": smoothing}), LabelledData(data))
    objective.class_weights = weights
    return objective


def test_half_precision_scores_are_lost_in_single() -> None:
    scores = torch.tensor([[300.0, 299.0]], dtype=torch.bfloat16)
    found = loss_of(2).loss_sum(scores, torch.tensor([0]))
    assert found.dtype == torch.float32


def test_a_step_is_divided_by_the_weights_of_its_rows() -> None:
    """Known before the first part, so that each part can be told the sum."""
    targets = [0] * 7 + [1] * 2 + [2]
    recipe = recipe_of(objective={"class_weights": "balanced"})
    step: Any = SimpleNamespace(targets=torch.tensor([targets[r] for r in (0, 7, 9)]))
    weighted = Classify(recipe, LabelledData(dataset(["a"] * 10, targets)))
    assert weighted.counts(step) == {"loss": pytest.approx(10 / 21 + 10 / 6 + 10 / 3)}
    plain = Classify(recipe_of(), LabelledData(dataset(["a"] * 10, targets)))
    assert plain.counts(step) == {"loss": 3.0}


def test_balanced_weights() -> None:
    found = balanced_weights([0, 0, 0, 1], 3)
    assert found.tolist() == pytest.approx([4 / 9, 4 / 3, 4 / 3])
    targets = [0] * 7 + [1] * 2 + [2]
    from sklearn.utils.class_weight import compute_class_weight

    expected = compute_class_weight("balanced", classes=np.arange(3), y=targets)
    np.testing.assert_allclose(balanced_weights(targets, 3).numpy(), expected, rtol=1e-6)
    assert float(balanced_weights(targets, 3)[targets].mean()) == pytest.approx(1.0)
