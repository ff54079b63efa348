"""Ways to compute one thing that must agree: in parts, cached, compacted, chunked, in any company; with gradients."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from heedful.models.transformer import Transformer
from heedful.objectives.classify import Loss, average_chunks, balanced_weights, collate, make_items
from heedful.recipes.schema import TrainingTable, TuningTable
from heedful.training.loop import Fit
from heedful.tuning.methods import Frozen, Full, Method, features_of
from training_samples import DEFAULTS, sentences, tiny_model

CPU = torch.device("cpu")
NO_DROPOUT = {
    "dropout": 0.0, "embedding_dropout": 0.0, "attention_dropout": 0.0, "attention_output_dropout": 0.0,
    "head_dropout": 0.0,
}  # fmt: skip
CLASSES = 3
Maker = Callable[..., tuple[Transformer, Any]]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    folder = tmp_path_factory.mktemp("model")
    return lambda **changes: tiny_model(folder, CLASSES, **{**NO_DROPOUT, **changes})


def texts(count: int = 30) -> tuple[list[str], list[int]]:
    """The targets are far from balanced."""
    return [text for text, _ in sentences(count)], [0 if i % 5 < 3 else 1 if i % 5 == 3 else 2 for i in range(count)]


def fit(method: Method, loss: Loss, targets: Tensor, folder: Path, tuning: Any = None, **training: Any) -> Fit:
    table = TrainingTable(**{**DEFAULTS, "checkpoint_seconds": 1e6, **training})
    return Fit(
        method=method,
        loss=loss,
        targets=targets,
        rows=range(len(targets)),
        training=table,
        tuning=TuningTable(**(tuning or {})),
        seed=5,
        directory=folder,
        judge=None,
        watch=lambda *_: None,
        should_stop=lambda: False,
    )


def weights_of(transformer: Transformer) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in transformer.named_parameters()}


def furthest(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    assert a.keys() == b.keys()
    return max(float((a[n] - b[n]).abs().max()) for n in a)


@pytest.mark.parametrize("parts", [4, 50])
@pytest.mark.parametrize("kind", ["plain", "weighted", "score"])
def test_accumulation_is_the_full_batch(kind: str, parts: int, make: Maker, tmp_path: Path) -> None:
    """30 rows in steps of 8: the last step has 6, which 4 and 50 parts do not divide."""
    found = []
    for accumulate in (1, parts):
        transformer, tokenizer = make()
        rows, targets = texts()
        items = {"train": make_items(tokenizer, rows, None, 32)}
        method = Full(transformer.double(), items, CPU)
        if kind == "score":
            loss, targets_b = Loss(0), torch.tensor(targets, dtype=torch.float64) * 0.7
        else:
            loss = Loss(CLASSES, 0.1, balanced_weights(targets, CLASSES).double() if kind == "weighted" else None)
            targets_b = torch.tensor(targets)
        folder = tmp_path / str(accumulate)
        folder.mkdir()
        one = fit(method, loss, targets_b, folder, accumulate=accumulate, epochs=2)
        one.run()
        method.finish(one.progress.decay)
        found.append((weights_of(transformer), (folder / "log.jsonl").read_text()))
    start = weights_of(make()[0].double())
    assert furthest(found[0][0], start) > 1e-3  # it did learn
    assert furthest(found[0][0], found[1][0]) < 1e-10
    losses = [[float(line.split('"loss": ')[1].rstrip("}")) for line in log.splitlines()] for _, log in found]
    assert losses[0] == pytest.approx(losses[1], rel=1e-10)


def test_accumulation_notices_a_mean_of_means(make: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: dividing each part by its own weight is another step when parts differ in size."""
    rows, targets = texts(10)
    found, right = [], Loss.sum
    for wrong in (False, True):
        transformer, tokenizer = make()
        method = Full(transformer.double(), {"train": make_items(tokenizer, rows, None, 32)}, CPU)
        if wrong:
            monkeypatch.setattr(Loss, "sum", lambda self, s, t: right(self, s, t) * (10 / 3) / len(t))
        (folder := tmp_path / str(wrong)).mkdir()
        fit(method, Loss(CLASSES), torch.tensor(targets), folder, batch_size=10, accumulate=3, epochs=1).run()
        found.append(weights_of(transformer))
    assert furthest(*found) > 1e-6


def test_a_step_is_adamw_on_the_mean_loss(make: Maker, tmp_path: Path) -> None:
    """The whole loop against one written here with nothing but torch: schedule, clipping, decay on matrices alone."""
    rows, targets = texts()
    weights = balanced_weights(targets, CLASSES).double()
    transformer, tokenizer = make()
    peer = deepcopy(transformer).double()
    items = make_items(tokenizer, rows, None, 32)
    theirs = deepcopy(items)
    method = Full(transformer.double(), {"train": items}, CPU)
    training = {"lr": 3e-3, "weight_decay": 0.3, "clip": 0.5, "warmup": 0.25, "epochs": 3}
    one = fit(method, Loss(CLASSES, 0.1, weights), torch.tensor(targets), tmp_path, {"layer_decay": 0.5}, **training)
    one.run()
    method.finish(one.progress.decay)

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
        for chosen in one._batches(method.lengths("train"), epoch):
            batch, _ = collate([theirs[r] for r in chosen], 0, CPU)
            optimiser.zero_grad()
            scores_bk = peer("classify", *batch)
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
    assert furthest(weights_of(transformer), weights_of(peer)) < 1e-10


@pytest.mark.parametrize("keep", ["last", "best"])
def test_the_compact_table_is_the_whole_one(keep: str, make: Maker, tmp_path: Path) -> None:
    """Rows that never occurred end where torch's own AdamW on the whole table takes them."""
    rows = ["film warm", "cold", "story dull and loud 3", "lovely cast", "score 1", "ugly ending"]
    targets = torch.tensor([0, 1, 2, 0, 1, 2])
    transformer, tokenizer = make(reads="first")
    transformer = transformer.double()  # in fp32, AdamW makes steps of the noise in gradients that are zero
    peer = deepcopy(transformer)
    items = make_items(tokenizer, rows, None, 32)
    theirs = deepcopy(items)
    method = Full(transformer, {"train": items}, CPU)
    small = len(transformer.body.embeddings.token.weight)
    assert small < len(peer.body.embeddings.token.weight) / 2
    one = fit(
        method, Loss(CLASSES), targets, tmp_path,
        lr=1e-2, weight_decay=0.5, clip=None, warmup=0, schedule="constant", batch_size=3, epochs=6, keep=keep,
    )  # fmt: skip
    best_epoch = 3
    scores = iter([0.1, 0.2, 0.9, 0.4, 0.5, 0.6])
    one.judge = lambda: {"score": next(scores), "metrics": {}}
    progress = one.run()
    method.finish(progress.decay)

    matrices = [p for p in peer.parameters() if p.ndim > 1]
    optimiser = torch.optim.AdamW(
        [{"params": matrices}, {"params": [p for p in peer.parameters() if p.ndim == 1], "weight_decay": 0.0}],
        lr=1e-2,
        weight_decay=0.5,
    )
    for epoch in range(6 if keep == "last" else best_epoch):
        for chosen in one._batches(method.lengths("train"), epoch):
            optimiser.zero_grad()
            batch, _ = collate([theirs[r] for r in chosen], 0, CPU)
            F.cross_entropy(peer("classify", *batch), targets[chosen]).backward()
            optimiser.step()
    ours, other = weights_of(transformer), weights_of(peer)
    never = [i for i in range(tokenizer.size) if all(i not in c for item in theirs for c in item.chunks) and i]
    table = "body.embeddings.token.weight"
    assert float((ours[table][never] - other[table][never]).abs().max()) < 1e-6
    assert furthest(ours, other) < 1e-6
    assert ours[table].shape == other[table].shape


def test_compacting_changes_no_score(make: Maker) -> None:
    transformer, tokenizer = make()
    rows, _ = texts()
    items = make_items(tokenizer, rows, None, 32)
    before = features_of(transformer.eval(), items, CPU)
    whole = transformer.body.embeddings.token.weight.detach().clone()
    method = Full(transformer, {"train": items}, CPU)
    assert torch.equal(features_of(transformer.eval(), items, CPU), before)
    method.finish(1.0)
    assert torch.equal(transformer.body.embeddings.token.weight, whole)


@pytest.mark.parametrize("reads", ["pooled", "first", "mean", "max", "last"])
def test_cached_features_are_the_uncached_forward(reads: str, make: Maker, tmp_path: Path) -> None:
    """Dropout is in the body's shape, and must not be in what is cached."""
    transformer, tokenizer = make(reads=reads, dropout=0.3, attention_dropout=0.3, embedding_dropout=0.3)
    rows, _ = texts(70)
    items = make_items(tokenizer, rows, None, 32)
    transformer.train()
    folders = {"train": tmp_path / "a", "dev": tmp_path / "b"}
    method = Frozen(transformer, {"train": items, "dev": items[:5]}, CPU, folders)
    with torch.no_grad():
        for row, item in enumerate(items):
            alone = features_of(transformer, [item], CPU)[0]
            np.testing.assert_allclose(method.features["train"][row], alone.numpy(), atol=1e-6)
        method.train(False)
        some = [3, 1, 69, 40]
        scores = method.scores("train", some)
        full = transformer.eval()("classify", *collate([items[r] for r in some], 0, CPU)[0])
    assert float((scores - full).abs().max()) <= 1e-6
    method.train(True)
    assert not transformer.body.training
    assert transformer.heads["classify"].training


def test_a_head_trained_on_the_cache_is_the_head_trained_without_it(make: Maker, tmp_path: Path) -> None:
    rows, targets = texts()
    transformer, tokenizer = make(reads="mean")
    peer = deepcopy(transformer)
    items = make_items(tokenizer, rows, None, 32)
    body = {n: p.clone() for n, p in transformer.body.named_parameters()}
    method = Frozen(transformer, {"train": items}, CPU, {"train": tmp_path / "features"})
    one = fit(method, Loss(CLASSES), torch.tensor(targets), tmp_path, lr=0.05, epochs=4)
    one.run()

    class Uncached(Frozen):
        def scores(self, split: str, chosen: Sequence[int]) -> Tensor:
            with torch.no_grad():
                x_bd = features_of(self.transformer, [items[r] for r in chosen], CPU)
            return self.transformer.heads["classify"](x_bd)  # type: ignore[no-any-return]

    other = Uncached(peer, {"train": items}, CPU, {"train": tmp_path / "others"})
    (tmp_path / "log").mkdir()
    fit(other, Loss(CLASSES), torch.tensor(targets), tmp_path / "log", lr=0.05, epochs=4).run()
    ours, theirs = weights_of(transformer.heads["classify"]), weights_of(peer.heads["classify"])  # type: ignore[arg-type]
    assert furthest(ours, theirs) < 1e-6
    assert float(ours["output.weight"].abs().max()) > 0.1
    assert all(torch.equal(p, body[n]) for n, p in transformer.body.named_parameters())


def test_features_that_are_half_written_are_made_again(make: Maker, tmp_path: Path) -> None:
    transformer, tokenizer = make()
    items = make_items(tokenizer, texts(5)[0], None, 32)
    (tmp_path / "features").mkdir()
    (tmp_path / "features/.train.npy").write_bytes(b"\x93NUMPY half")
    method = Frozen(transformer, {"train": items}, CPU, {"train": tmp_path / "features"})
    assert method.features["train"].shape == (5, 16)
    again = Frozen(transformer, {"train": items}, CPU, {"train": tmp_path / "features"})
    np.testing.assert_array_equal(again.features["train"], method.features["train"])


LONG = "a long middle part that goes on and on and on until the ending of the opening scene is dull 7 8 9"


def test_chunks_cover_the_text_and_one_chunk_is_plain(make: Maker) -> None:
    transformer, tokenizer = make()
    whole = tokenizer.encode([LONG])[0].ids
    for room in range(4, len(whole) + 3):
        (item,) = make_items(tokenizer, [LONG], None, room, chunked=True)
        assert all(len(c) <= room and c[0] == tokenizer.cls_id and c[-1] == tokenizer.sep_id for c in item.chunks)
        assert [i for c in item.chunks for i in c[1:-1]] == whole[1:-1]
        assert max(map(len, item.chunks)) - min(map(len, item.chunks)) < max(len(c) for c in item.chunks)
        if len(whole) <= room:
            assert item.chunks == [whole]
            plain = make_items(tokenizer, [LONG], None, room)
            assert torch.equal(
                features_of(transformer.eval(), [item], CPU), features_of(transformer.eval(), plain, CPU)
            )


def test_chunks_are_averaged(make: Maker) -> None:
    transformer, tokenizer = make(reads="mean")
    transformer = transformer.double().eval()
    items = make_items(tokenizer, ["film warm", LONG, "cold", f"{LONG} {LONG}"], None, 12, chunked=True)
    assert [len(item.chunks) for item in items][::2] == [1, 1]
    found = features_of(transformer, items, CPU)
    for item, x_d in zip(items, found, strict=True):
        each = [transformer.features("mean", torch.tensor([chunk]))[0] for chunk in item.chunks]
        assert float((x_d - torch.stack(each).mean(0)).detach().abs().max()) < 1e-10


def test_the_gradient_of_the_average() -> None:
    x_cd = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    owner = torch.tensor([0, 1, 1, 1, 2])
    assert torch.autograd.gradcheck(lambda x: average_chunks(x, owner), x_cd)
    expected = torch.stack([x_cd[0], x_cd[1:4].mean(0), x_cd[4]])
    assert torch.allclose(average_chunks(x_cd, owner), expected, atol=1e-12)


@pytest.mark.parametrize("chunked", [False, True])
def test_company_does_not_change_a_score(chunked: bool, make: Maker) -> None:
    transformer, tokenizer = make()
    transformer = transformer.double().eval()
    rows = [*texts(12)[0], LONG, "warm"]
    items = make_items(tokenizer, rows, None, 10, chunked)
    method = Full(transformer, {"dev": items}, CPU)
    with torch.no_grad():
        together = method.scores("dev", range(len(rows)))
        alone = torch.cat([method.scores("dev", [r]) for r in range(len(rows))])
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(1)).tolist()
        shuffled = torch.cat([method.scores("dev", order[at : at + 5]) for at in range(0, len(order), 5)])
    assert float((together - alone).abs().max()) < 1e-10
    assert float((together[order] - shuffled).abs().max()) < 1e-10


def test_company_does_not_change_the_score_of_a_pair(make: Maker) -> None:
    transformer, tokenizer = make()
    transformer = transformer.double().eval()
    rows = texts(9)[0]
    items = make_items(tokenizer, rows, rows[::-1], 20)
    assert all(1 in item.segments for item in items if item.segments)
    with torch.no_grad():
        together = features_of(transformer, items, CPU)
        alone = torch.cat([features_of(transformer, [item], CPU) for item in items])
    assert float((together - alone).abs().max()) < 1e-10


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 9), st.integers(2, 5), st.floats(0, 0.9), st.booleans(), st.integers(0, 1000),
)  # fmt: skip
def test_the_loss_is_torchs_own(b: int, k: int, smoothing: float, weighted: bool, seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    scores_bk = torch.randn(b, k, generator=g, dtype=torch.float64) * 3
    targets = torch.randint(0, k, (b,), generator=g)
    weights = torch.rand(k, generator=g, dtype=torch.float64) + 0.1 if weighted else None
    loss = Loss(k, smoothing, weights)
    plain = F.cross_entropy(scores_bk, targets, reduction="sum", label_smoothing=smoothing)
    if weights is None:
        assert float(loss.sum(scores_bk, targets)) == pytest.approx(float(plain), rel=1e-10)
        assert float(loss.weights(targets).sum()) == b
    else:
        rows = F.cross_entropy(scores_bk, targets, reduction="none", label_smoothing=smoothing) * weights[targets]
        assert float(loss.sum(scores_bk, targets)) == pytest.approx(float(rows.sum()), rel=1e-10)
        mean = float(loss.sum(scores_bk, targets) / loss.weights(targets).sum())
        if (
            smoothing == 0
        ):  # torch's weighted mean is the same; with smoothing it weighs the classes of the rest as well
            assert mean == pytest.approx(float(F.cross_entropy(scores_bk, targets, weights)), rel=1e-10)
    score = Loss(0).sum(scores_bk[:, :1], targets.double())
    assert float(score) == pytest.approx(float(((scores_bk[:, 0] - targets) ** 2).sum()))


def test_half_precision_scores_are_lost_in_single() -> None:
    scores = torch.tensor([[300.0, 299.0]], dtype=torch.bfloat16)
    found = Loss(2).sum(scores, torch.tensor([0]))
    assert found.dtype == torch.float32


def test_balanced_weights() -> None:
    found = balanced_weights([0, 0, 0, 1], 3)
    assert found.tolist() == pytest.approx([4 / 9, 4 / 3, 4 / 3])
    targets = [0] * 7 + [1] * 2 + [2]
    from sklearn.utils.class_weight import compute_class_weight

    expected = compute_class_weight("balanced", classes=np.arange(3), y=targets)
    np.testing.assert_allclose(balanced_weights(targets, 3).numpy(), expected, rtol=1e-6)
    assert float(balanced_weights(targets, 3)[targets].mean()) == pytest.approx(1.0)
