"""A head that is solved: it is the optimum that scikit-learn finds too, whatever the seed; dev chooses the penalty."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from sklearn.linear_model import LogisticRegression, Ridge

from heedful.errors import RequestError
from heedful.inputs.labelled import LabelledInputs
from heedful.inputs.protocol import Inputs
from heedful.objectives.classify import Classify
from heedful.storage.shared import SharedStore
from heedful.training.assembly import assemble, read_source
from heedful.training.run import execute
from heedful.tuning import solving
from heedful.tuning.frozen import Frozen
from heedful.tuning.protocol import DevScore
from tests.support.small_fits import CLASSES, CPU, Small, dataset, recipe_of, small, texts, weights_of
from tests.support.training_samples import (
    assert_same_run,
    read_log,
    read_tsv,
    sentences,
    tiny_model,
    tiny_recipe,
    write_csv,
    write_data,
    write_tiny,
)

Array = np.ndarray[Any, np.dtype[np.float64]]
SPLITS = ("train", "dev", "test")
LOSSES: dict[str, dict[str, Any]] = {
    "plain": {},
    "smoothed": {"label_smoothing": 0.2},
    "balanced": {"class_weights": "balanced"},
    "both": {"label_smoothing": 0.1, "class_weights": "balanced"},
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("world")
    return write_tiny(folder / "model"), write_data(folder / "data")


def solve(folder: Path, penalties: list[float], kind: str = "classes", classes: int = CLASSES, **tables: Any) -> Small:
    """One solution per penalty; all are equal on dev, so the largest penalty's is kept."""
    rows, targets = texts(60)
    targets = [min(t, classes - 1) for t in targets]
    model = tiny_model(folder / "model", 1 if kind == "score" else classes, "mean")
    recipe = recipe_of("solved", tuning={"penalties": penalties}, **tables)
    values = [0.7 * t + len(row) / 50 for t, row in zip(targets, rows, strict=True)] if kind == "score" else targets
    one = small(model, dataset(rows, values, kind=kind, number=classes), recipe, folder / "store")
    one.tuning.solve(one.objective, one.inputs.everything(), lambda facts: DevScore(0.0, 0.0))  # type: ignore[misc]
    return one


def features(one: Small) -> tuple[Array, float]:
    """As the body gives them, and what makes them vary by one on average."""
    x_nd = np.asarray(one.tuning.reader.cache.arrays["train"], dtype=np.float64)  # type: ignore[attr-defined]
    return x_nd, 1 / math.sqrt(x_nd.var(axis=0).mean())


def head(one: Small) -> tuple[torch.Tensor, torch.Tensor]:
    found = weights_of(one.tuning.transformer.heads["classify"])
    assert all(p.dtype == torch.float32 for p in found.values())
    return found["output.weight"].double(), found["output.bias"].double()


@pytest.mark.parametrize("penalty", [1e-3, 0.1])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_gradient_vanishes(loss: str, penalty: float, tmp_path: Path) -> None:
    """The regularised loss written out here: mean cross-entropy by the classes' weights, and λ/2 ‖W‖² of the matrix
    that belongs to features that vary by one on average."""
    one = solve(tmp_path, [penalty], objective=LOSSES[loss])
    x_nd, scale = features(one)
    w_kd, b_k = head(one)
    w_kd = (w_kd / scale).requires_grad_()
    b_k.requires_grad_()
    targets = one.inputs.targets["train"]
    weights = torch.ones(CLASSES) if one.objective.class_weights is None else one.objective.class_weights
    smoothing = LOSSES[loss].get("label_smoothing", 0.0)
    scores_nk = torch.from_numpy(x_nd * scale) @ w_kd.T + b_k
    losses_n = F.cross_entropy(scores_nk, targets, reduction="none", label_smoothing=smoothing)
    total = (losses_n * weights[targets]).sum() / weights[targets].sum()
    gradient_of_the_loss = torch.autograd.grad(total, w_kd, retain_graph=True)[0]
    total = total + penalty / 2 * (w_kd**2).sum()
    gradients = torch.autograd.grad(total, [w_kd, b_k])
    assert max(float(g.abs().max()) for g in gradients) < 1e-6
    assert float(gradient_of_the_loss.abs().max()) > 1e-4  # the penalty has a part in it


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("loss", LOSSES)
def test_it_is_logistic_regression(loss: str, classes: int, tmp_path: Path) -> None:
    """Smoothing as rows that have a share in every class. Two classes are one weight vector there, and two here whose
    difference it is: the penalty on it is half of ours."""
    penalty = 3e-3
    one = solve(tmp_path, [penalty], classes=classes, objective=LOSSES[loss])
    if classes == 2:
        assert head(one)[0].shape == (2, 16)
    x_nd, scale = features(one)
    gold = one.inputs.targets["train"].numpy()
    smoothing = LOSSES[loss].get("label_smoothing", 0.0)
    by_class = np.ones(classes) if one.objective.class_weights is None else one.objective.class_weights.double().numpy()
    share_nk = (1 - smoothing) * np.eye(classes)[gold] + smoothing / classes
    weight_n = by_class[gold]
    rows = np.repeat(x_nd * scale, classes, axis=0)
    peer = LogisticRegression(
        C=(1 if classes > 2 else 2) / (penalty * weight_n.sum()), tol=1e-10, max_iter=20_000, solver="lbfgs"
    )
    keep = (share_nk * weight_n[:, None]).ravel() > 0
    labels = np.tile(np.arange(classes), len(gold))
    peer.fit(rows[keep], labels[keep], sample_weight=(share_nk * weight_n[:, None]).ravel()[keep])
    with torch.no_grad():
        found = one.scores(range(len(gold))).double().softmax(-1).numpy()
    np.testing.assert_allclose(found, peer.predict_proba(x_nd * scale), atol=1e-4)
    assert found.max(1).std() > 0.01  # not the same answer to everything


@pytest.mark.parametrize("penalty", [1e-3, 0.1])
def test_a_score_is_ridge_regression(penalty: float, tmp_path: Path) -> None:
    one = solve(tmp_path, [penalty], "score")
    x_nd, scale = features(one)
    gold = one.inputs.targets["train"].numpy()
    peer = Ridge(alpha=penalty * len(gold) / 2).fit(x_nd * scale, gold)
    with torch.no_grad():
        found = one.scores(range(len(gold)))[:, 0].numpy()
    np.testing.assert_allclose(found, peer.predict(x_nd * scale), atol=1e-4)
    assert np.corrcoef(found, gold)[0, 1] > 0.5


def test_other_losses_have_other_optima(tmp_path: Path) -> None:
    """Negative control: smoothing, weights and penalty each move the head by more than what is tolerated above."""
    base = head(solve(tmp_path, [1e-3]))[0]
    for tables in ({"objective": LOSSES["smoothed"]}, {"objective": LOSSES["balanced"]}):
        assert float((head(solve(tmp_path, [1e-3], **tables))[0] - base).abs().max()) > 1e-2
    assert float((head(solve(tmp_path, [1.1e-3]))[0] - base).abs().max()) > 1e-3


def test_the_parts_of_the_sum_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = head(solve(tmp_path, [1e-2]))
    monkeypatch.setattr(solving, "_ROWS", 7)
    for a, b in zip(whole, head(solve(tmp_path, [1e-2])), strict=True):
        assert float((a - b).abs().max()) < 1e-4


def chosen(scores: list[tuple[float, float]], folder: Path, penalties: list[float]) -> tuple[int, int]:
    """Which of the solutions that were judged, given their metrics and losses on dev, is kept; how many were."""
    rows, targets = texts(30)
    model = tiny_model(folder / "model", CLASSES, "mean")
    one = small(model, dataset(rows, targets), recipe_of("solved", tuning={"penalties": penalties}), folder / "store")
    seen, told = [], []

    def judge(facts: dict[str, Any]) -> DevScore:
        told.append(facts)
        seen.append(weights_of(model[0].heads["classify"]))
        metric, loss = scores[len(seen) - 1]
        return DevScore(metric, -loss)

    one.tuning.solve(one.objective, one.inputs.everything(), judge)  # type: ignore[misc]
    assert [facts["penalty"] for facts in told] == sorted(penalties, reverse=True)[: len(told)]
    assert [facts["loss"] for facts in told] == sorted((f["loss"] for f in told), reverse=True)
    kept = weights_of(model[0].heads["classify"])
    equal = [all(torch.equal(kept[n], s[n]) for n in kept) for s in seen]
    assert sum(equal) == 1
    return equal.index(True), len(seen)


@pytest.mark.parametrize(
    ("metrics", "best"),
    [
        ([0.1, 0.4, 0.9, 0.2], 2),
        ([0.5, 0.9, 0.9, 0.9], 1),  # the largest of equals
        ([0.7, 0.7, 0.7, 0.7], 0),
        ([-3.0, -2.0, -1.0, -0.5], 3),
        ([-math.inf, -math.inf, -math.inf, -math.inf], 0),  # undefined on dev: all are equal
        ([-math.inf, -math.inf, 0.1, -math.inf], 2),
    ],
)
def test_dev_chooses_the_penalty(metrics: list[float], best: int, tmp_path: Path) -> None:
    equal = [(metric, 0.5) for metric in metrics]
    assert chosen(equal, tmp_path, [1e-3, 1e-1, 3e-2, 1e-2]) == (best, 4)


@pytest.mark.parametrize(
    ("scores", "best", "tried"),
    [
        ([(0.7, 0.6), (0.7, 0.5), (0.7, 0.55), (0.7, 0.52)], 1, 4),  # of equals, the lowest loss
        ([(0.7, 0.4), (0.8, 0.6), (0.8, 0.6), (0.7, 0.3)], 1, 4),  # the metric comes first
        ([(-math.inf, 0.6), (-math.inf, 0.5), (0.1, 0.9), (0.1, 0.8)], 3, 4),
        # While the loss falls, a metric that does not move ends nothing.
        ([(0.0, 0.6 - i / 100) for i in range(6)] + [(0.1, 0.7), (0.2, 0.8), (0.1, 0.9), (0.1, 0.9)], 7, 10),
        # Four that improve neither end it, though the fifth would be better.
        ([(0.7, 0.5), *[(0.7, 0.5)] * 4, (0.9, 0.1), (0.9, 0.1), (0.9, 0.1), (0.9, 0.1), (0.9, 0.1)], 0, 5),
    ],
)
def test_the_loss_on_dev_breaks_ties(scores: list[tuple[float, float]], best: int, tried: int, tmp_path: Path) -> None:
    assert chosen(scores, tmp_path, [10.0 / 2**i for i in range(len(scores))]) == (best, tried)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_on_dev_is_the_one_that_is_trained(loss: str, tmp_path: Path) -> None:
    """On the training rows, it is what the solution has minimised, without the penalty."""
    rows, targets = texts(60)
    model = tiny_model(tmp_path / "model", CLASSES, "mean")
    recipe = recipe_of("solved", tuning={"penalties": [1e-2]}, objective=LOSSES[loss])
    one = small(model, dataset(rows, targets, dev=60), recipe, tmp_path / "store")
    minima: list[float] = []

    def judge(facts: dict[str, Any]) -> DevScore:
        minima.append(facts["loss"])
        return DevScore(0.0, 0.0)

    one.tuning.solve(one.objective, one.inputs.everything(), judge)  # type: ignore[misc]
    penalty = 1e-2 / 2 * float(((head(one)[0] / features(one)[1]) ** 2).sum())
    judgement = one.evaluator.evaluate(one.tuning.reader, one.inputs, "dev")
    found = one.evaluator.loss(judgement, "dev")
    assert found == pytest.approx(minima[0] - penalty, abs=1e-5)
    assert (found == pytest.approx(judgement.metrics["log_loss"])) == (loss == "plain")


def test_a_rare_class_is_not_given_up(tmp_path: Path) -> None:
    """Strong penalties answer with the most common class and tie at a Matthews correlation of 0; weaker ones do not."""
    rows = sentences(700)
    few = [row for row in rows if row[1] == "good"][:30] + [row for row in rows if row[1] == "bad"][:270]
    header = ("text", "label")
    files = {name: str(write_csv(tmp_path / f"{name}.csv", header, few[i::3])) for i, name in enumerate(SPLITS)}
    where = write_tiny(tmp_path / "model")
    recipe = tiny_recipe(
        where, {**files, "text": "text", "label": "label"}, "solved", evaluation={"metric": "matthews"}
    )
    execute(recipe, 0, tmp_path / "run", quiet=True)
    scores = [line["dev"]["matthews"] for line in read_log(tmp_path / "run")]
    assert scores[:5] == [0.0] * 5
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["splits"]["dev"]["matthews"] == metrics["best"]["score"] == max(scores) > 0.3


def test_a_run(world: Any, tmp_path: Path) -> None:
    recipe = tiny_recipe(*world, "solved")
    manifest = execute(recipe, 7, tmp_path / "run", quiet=True)
    log = read_log(tmp_path / "run")
    accuracies, losses = ([line["dev"][key] for line in log] for key in ("accuracy", "log_loss"))
    best = max(range(len(log)), key=lambda i: (accuracies[i], -losses[i]))
    least = losses.index(min(losses))
    tried = sorted(solving.PENALTIES, reverse=True)[: max(accuracies.index(max(accuracies)), least) + 5]
    assert len(log) > least + 1  # the weakest are worse
    assert [(line["mark"], line["penalty"]) for line in log] == list(enumerate(tried, start=1))
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["best"] == {"mark": best + 1, "score": max(accuracies)}
    assert metrics["splits"]["dev"]["accuracy"] == max(accuracies)
    assert manifest["model"]["parameters"]["trainable"] == 16 * 2 + 2
    assert manifest["cost"]["training_seconds"] > 0


def test_no_seed_has_a_part_in_it(world: Any, tmp_path: Path) -> None:
    """The same bits; nor has the dropout of the checkpoint."""
    recipes = {"a": (tiny_recipe(*world, "solved"), 1), "b": (tiny_recipe(*world, "solved"), 2)}
    for name, (recipe, seed) in recipes.items():
        execute(recipe, seed, tmp_path / name, quiet=True)
    first = tmp_path / "a"
    weights = load_file(first / "model/model.safetensors")
    for name in recipes:
        other = load_file(tmp_path / name / "model/model.safetensors")
        assert all(torch.equal(weights[n], other[n]) for n in weights)
        for part in ("log.jsonl", "predictions/dev.tsv", "predictions/test.tsv", "model/model.safetensors"):
            assert (tmp_path / name / part).read_bytes() == (first / part).read_bytes(), (name, part)
    header, rows = read_tsv(first / "predictions/dev.tsv")
    assert len({row[2] for row in rows}) > 6
    assert header == ["row", "label", "p:bad", "p:good"]


def test_killed_before_the_end_it_begins_anew(world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = tiny_recipe(*world, "solved")
    inner, calls = solving._Problem.minimise, []

    def die(self: Any, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return inner(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(solving._Problem, "minimise", die)
        with pytest.raises(KeyboardInterrupt):
            execute(recipe, 7, tmp_path / "a/run", command="x", quiet=True)
    assert not (tmp_path / "a/run/log.jsonl").exists()
    for name in ("a", "b"):
        execute(recipe, 7, tmp_path / f"{name}/run", command="x", quiet=True)
    assert_same_run(tmp_path / "a/run", tmp_path / "b/run")


def test_heads_of_two_layers_are_trained(world: Any) -> None:
    """They have no one optimum: what is about steps means something, and the seed too."""
    recipe = tiny_recipe(*world, "solved", model={"head": "two-layer"}, training={"epochs": 2, "lr": 1e-3})
    assert Frozen.random(recipe)
    assert not Frozen.random(tiny_recipe(*world, "solved"))
    with pytest.raises(RequestError, match=r'tuning\.solve needs model\.head = "linear"'):
        tiny_recipe(*world, "solved", model={"head": "two-layer"}, tuning={"solve": True})


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [("training", "lr", 1e-3), ("training", "epochs", 9), ("training", "batch_tokens", 99), ("model", "dropout", 0.2)],
)
def test_what_has_no_effect_is_refused(table: str, key: str, value: Any, world: Any) -> None:
    with pytest.raises(RequestError, match=rf'{table}\.{key} means nothing with tuning\.method = "frozen", whose'):
        tiny_recipe(*world, "solved", **{table: {key: value}})


def test_penalties_mean_nothing_to_steps(world: Any) -> None:
    with pytest.raises(RequestError, match=r"tuning\.penalties means nothing where the head is trained step by step"):
        tiny_recipe(*world, "frozen", tuning={"penalties": [0.5]})


class StreamInputs(LabelledInputs):
    """No end, so no sum over all of it."""

    everything = Inputs.everything  # type: ignore[assignment]


class UnreadInputs(StreamInputs):
    def cached_texts(self) -> dict[str, Any]:
        return {}


class Stream(Classify):
    INPUTS = StreamInputs


class Unread(Classify):
    INPUTS = UnreadInputs


def test_streams_are_refused(tmp_path: Path) -> None:
    data, recipe = dataset(*texts(9)), recipe_of("solved")
    one = small(tiny_model(tmp_path, CLASSES, "mean"), data, recipe, tmp_path / "a", Stream)
    with pytest.raises(RequestError, match="cannot be solved at once"):
        one.tuning.solve(one.objective, one.inputs.everything(), lambda facts: DevScore(0.0, 0.0))  # type: ignore[misc]
    with pytest.raises(RequestError, match=r'"frozen" needs an objective whose heads read one state of each text'):
        small(tiny_model(tmp_path, CLASSES, "mean"), data, recipe, tmp_path / "b", Unread)
    assert one.tuning.reader.device == CPU


@pytest.mark.parametrize("penalties", [[0.0], [1e-3, -1.0]])
def test_penalties_must_be_above_zero(penalties: list[float]) -> None:
    with pytest.raises(RequestError, match=r"tuning\.penalties = .*each must be above 0"):
        recipe_of("solved", tuning={"penalties": penalties})


def test_without_dev_several_penalties_are_refused(tmp_path: Path) -> None:
    rows = [(text, label) for text, label in sentences(20)]
    write_csv(tmp_path / "a.csv", ("text", "label"), rows)
    data = {"train": str(tmp_path / "a.csv"), "test": str(tmp_path / "a.csv"), "dev": str(tmp_path / "a.csv")}
    recipe = tiny_recipe(write_tiny(tmp_path / "model"), {**data, "text": "text", "label": "label"}, "solved")
    source = read_source(recipe, 0, SharedStore(tmp_path / "store"))
    source.data.splits.pop("dev")  # type: ignore[attr-defined]
    parts = assemble(source, SharedStore(tmp_path / "store"))
    assert parts.tuning.solve is not None
    with pytest.raises(RequestError, match=r"tuning\.penalties: without a dev set"):
        parts.tuning.solve(parts.objective, parts.inputs.everything(), lambda facts: None)
