"""What a run leaves behind (manifest, metrics, predictions, a model that opens here and there), and when it stops."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import heedful
from heedful.data.loading import load_data
from heedful.errors import RequestError, WorkError
from heedful.evaluation.calibration import fit_temperature
from heedful.evaluation.scores import log_loss
from heedful.inference import reader
from heedful.inference.batching import BatchRule
from heedful.models import shape as shapes
from heedful.models.batch import Batch
from heedful.objectives.classify import Classify
from heedful.recipes.reading import make_recipe
from heedful.recipes.schema import Recipe
from heedful.report.run import write_run_report
from heedful.storage.shared import SharedStore
from heedful.training import run as runs
from heedful.training.assembly import assemble, read_source
from heedful.training.loop import Fit
from heedful.training.progress import Narrator
from heedful.training.run import execute
from tests.support.training_samples import (
    assert_same_run,
    read_log,
    read_tsv,
    sentences,
    tiny_recipe,
    tokenizer_in,
    write_csv,
    write_data,
    write_tiny,
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("world")
    return write_tiny(folder / "model"), write_data(folder / "data")


@pytest.fixture(scope="module")
def finished(world: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A run of each method, with baselines, made once."""
    folder = tmp_path_factory.mktemp("finished")

    def run(method: str) -> Path:
        directory = folder / method
        if not directory.exists():
            evaluation = {"baselines": True}
            execute(tiny_recipe(*world, method, evaluation=evaluation), 7, directory, command="as typed", quiet=True)
        return directory

    return run


@pytest.fixture
def store(tmp_path: Path) -> SharedStore:
    return SharedStore(tmp_path / "store")


def judged(patch: pytest.MonkeyPatch, *scores: float) -> None:
    """Dev is said to have these scores, one mark after another; the last again and again."""
    inner, left = runs.dev_judge, list(scores)

    def maker(recipe: Any, parts: Any) -> Any:
        judge = inner(recipe, parts)
        assert judge is not None
        return lambda stage: {**judge(stage), "score": left.pop(0) if len(left) > 1 else left[0]}

    patch.setattr(runs, "dev_judge", maker)


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda word: pytest.fail(f"{word} in {path}"))


@pytest.mark.parametrize("method", ["frozen", "full"])
def test_the_manifest(method: str, finished: Callable[[str], Path], world: Any) -> None:
    directory = finished(method)
    manifest = read(directory / "manifest.json")
    model = heedful.load(directory / "model")
    assert manifest["state"] == "done"
    assert (manifest["format"], manifest["engine"], manifest["seed"]) == (2, 3, 7)
    assert manifest["command"] == "as typed"
    assert make_recipe(manifest["recipe"]).model_dump(exclude={"seeds"}) == (
        tiny_recipe(*world, method, evaluation={"baselines": True}).model_dump(exclude={"seeds"})
    )
    assert manifest["versions"]["torch"] == torch.__version__.split("+")[0] or torch.__version__
    assert manifest["data"]["labels"] == ["bad", "good"]
    assert manifest["data"]["pairs"] is False
    assert manifest["data"]["sizes"] == {"train": 40, "dev": 12, "test": 12}
    assert set(manifest["data"]["fingerprints"]) == {"train", "dev", "test"}
    whole = sum(p.numel() for p in model.transformer.parameters())
    moving = 16 * 2 + 2 if method == "frozen" else whole
    assert manifest["model"]["parameters"] == {"total": whole, "trainable": moving}
    cost = manifest["cost"]
    assert 0 < cost["training_seconds"] < cost["total_seconds"]
    assert cost["peak_memory_bytes"] > 1e7
    assert cost["flops"] > 0
    assert sorted(p.name for p in directory.iterdir() if not p.name.startswith(".")) == [
        "log.jsonl", "manifest.json", "metrics.json", "model", "predictions", "values",
    ]  # fmt: skip


@pytest.mark.parametrize("method", ["frozen", "full"])
def test_predictions(method: str, finished: Callable[[str], Path], world: Any, store: SharedStore) -> None:
    directory = finished(method)
    model = heedful.load(directory / "model")
    data = load_data(tiny_recipe(*world).data, 7, store)
    metrics = read(directory / "metrics.json")
    for split, examples in data.splits().items():
        if split == "train":
            assert not (directory / "predictions/train.tsv").exists()
            continue
        header, rows = read_tsv(directory / f"predictions/{split}.tsv")
        assert header == ["row", "label", "p:bad", "p:good"]
        assert [int(r[0]) for r in rows] == examples.rows
        p_nk = np.array([[float(x) for x in r[2:]] for r in rows])
        np.testing.assert_allclose(p_nk.sum(1), 1, atol=2e-6)
        assert [r[1] for r in rows] == [("bad", "good")[i] for i in p_nk.argmax(1)]
        ids = model.tokenizer.encode(examples.texts, 32)
        with torch.no_grad():  # the saved model, one text at a time, says the same
            scores = torch.cat([model.transformer("classify", Batch(torch.tensor([t.ids]))) for t in ids])
        np.testing.assert_allclose(p_nk, scores.softmax(-1).numpy(), atol=1e-5)
        assert examples.labels is not None
        right = np.mean([r[1] == gold for r, gold in zip(rows, examples.labels, strict=True)])
        assert metrics["splits"][split]["accuracy"] == pytest.approx(right)
        assert metrics["splits"][split]["n"] == len(rows)


def test_metrics(finished: Callable[[str], Path]) -> None:
    directory = finished("full")
    metrics, log = read(directory / "metrics.json"), read_log(directory)
    assert metrics["primary"] == "accuracy"
    dev = [line for line in log if "dev" in line]
    assert [line["epoch"] for line in dev] == [1, 2, 3]
    best = max(dev, key=lambda line: (line["dev"]["accuracy"], -line["epoch"]))
    assert [line["mark"] for line in dev] == [1, 2, 3]
    place = {key: best[key] for key in ("step", "mark", "epoch")}
    assert metrics["best"] == {**place, "score": best["dev"]["accuracy"]}
    assert metrics["splits"]["dev"]["accuracy"] == best["dev"]["accuracy"]  # the weights kept are the best ones
    assert set(metrics["calibration"]) == {"dev", "test"}
    assert metrics["baselines"]
    for error in metrics["errors"]:
        assert error["gold"] != error["predicted"]
        assert 0.5 <= error["probability"] <= 1


@pytest.mark.parametrize(
    ("method", "head", "long_texts"),
    [
        ("frozen", "linear", "cut"),
        ("solved", "linear", "chunk"),
        ("full", "two-layer", "cut"),
        ("full", "linear", "chunk"),
    ],
)
def test_what_is_saved_is_calibrated(method: str, head: str, long_texts: str, world: Any, tmp_path: Path) -> None:
    steps = {} if method == "solved" else {"epochs": 2}
    training = {**steps, "long_texts": long_texts, "max_length": 8}
    recipe = tiny_recipe(*world, method, model={"head": head}, training=training)
    execute(recipe, 7, tmp_path / "run", quiet=True)
    metrics, model = read(tmp_path / "run/metrics.json"), heedful.load(tmp_path / "run/model")
    temperature = metrics["temperature"]
    assert abs(temperature - 1) > 0.01  # or this test shows nothing
    assert read(tmp_path / "run/model/config.json")["heedful"]["heads"]["classify"]["temperature"] == temperature
    data = load_data(recipe.data, 7, SharedStore(tmp_path / "store"))
    assert data.dev is not None
    answers, raw = (model.predict(data.dev.texts, raw=raw) for raw in (False, True))
    _, rows = read_tsv(tmp_path / "run/predictions/dev.tsv")
    np.testing.assert_allclose(answers.probabilities, [[float(x) for x in r[2:]] for r in rows], atol=2e-6)
    gold = [data.labels.index(label) for label in data.dev.labels or ()]
    assert fit_temperature(np.log(raw.probabilities), gold) == pytest.approx(temperature, rel=1e-3)
    dev, calibration = metrics["splits"]["dev"], metrics["calibration"]["dev"]
    assert calibration["after"] == {"ece": dev["ece"], "log_loss": dev["log_loss"]}
    assert calibration["before"]["log_loss"] == pytest.approx(log_loss(gold, raw.probabilities), rel=1e-4)
    assert calibration["after"]["log_loss"] < calibration["before"]["log_loss"]
    judged = [line["dev"]["log_loss"] for line in read_log(tmp_path / "run") if "dev" in line]
    assert min(abs(x - calibration["before"]["log_loss"]) for x in judged) < 1e-5  # marks know no temperature
    model.save(tmp_path / "again")
    assert heedful.load(tmp_path / "again").transformer.head_shapes == model.transformer.head_shapes


def test_the_model_opens_in_transformers(world: Any, tmp_path: Path) -> None:
    execute(tiny_recipe(*world, model={"pooling": "cls"}, training={"epochs": 1}), 7, tmp_path / "run", quiet=True)
    directory = tmp_path / "run/model"
    ours = heedful.load(directory)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(directory).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    assert theirs.config.id2label == {0: "bad", 1: "good"}
    texts = [text for text, _ in sentences(9, seed=4)]
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = theirs(**batch).logits
        found = ours.transformer("classify", Batch(batch["input_ids"], batch["attention_mask"].bool()))
    assert float((expected - found).abs().max()) < 1e-5
    start = heedful.load(world[0], body_only=True).transformer.body.blocks[0].attention.output.weight
    assert not torch.equal(ours.transformer.body.blocks[0].attention.output.weight, start)  # it is not the old body


def test_keep_best_or_last(world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dev is told to be best after the first epoch: "best" is the model of a run that is stopped there."""
    found = {}
    for keep in ("best", "last"):
        with monkeypatch.context() as patch:
            judged(patch, 0.9, 0.8, 0.7)
            execute(tiny_recipe(*world, training={"keep": keep}), 7, tmp_path / keep, quiet=True)
        found[keep] = dict(heedful.load(tmp_path / keep / "model").transformer.named_parameters())
    with monkeypatch.context() as patch:
        judged(patch, 0.9, 0.8, 0.7)
        recipe = tiny_recipe(*world, training={"patience": 1})
        execute(recipe, 7, tmp_path / "patient", quiet=True)
    patient = dict(heedful.load(tmp_path / "patient/model").transformer.named_parameters())
    assert all(torch.equal(patient[n], p) for n, p in found["best"].items())  # the token table included
    assert not all(torch.equal(patient[n], p) for n, p in found["last"].items())
    assert read(tmp_path / "best/metrics.json")["best"]["epoch"] == 1
    log = read_log(tmp_path / "patient")
    assert max(line["epoch"] for line in log) == 2
    costs = [read(tmp_path / name / "manifest.json")["cost"] for name in ("patient", "best")]
    for key in ("flops", "tokens"):  # what was not computed is not counted
        assert costs[0][key] * 3 == costs[1][key] * 2


def test_early_stopping_is_kept_over_an_interruption(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_recipe(*world, training={"patience": 1, "epochs": 5})
    judged(monkeypatch, 0.5)
    heard: list[str] = []
    narrator = Narrator("run", lambda _, news: heard.append(news.get("line", "")))
    execute(recipe, 7, tmp_path / "straight/run", command="x", narrator=narrator)
    log = read_log(tmp_path / "straight/run")
    assert max(line["epoch"] for line in log) == 2
    step = max(line["step"] for line in log)
    stopped = {"step": step, "steps": step * 5 // 2, "marks_without_gain": 1}
    assert read(tmp_path / "straight/run/manifest.json")["stopped_early"] == stopped
    where = f"stopped early at step {step} of {step * 5 // 2}"
    assert f"{where}: no improvement on dev (training.patience)" in heard
    with monkeypatch.context() as patch:
        patch.setattr(runs, "write_outcome", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            execute(recipe, 7, tmp_path / "broken/run", command="x", quiet=True)
    execute(recipe, 7, tmp_path / "broken/run", command="x", quiet=True)
    assert_same_run(tmp_path / "straight/run", tmp_path / "broken/run")
    write_run_report(tmp_path / "straight/run")
    assert f"Training {where[:13]}, {where[14:]}" in (tmp_path / "straight/run/report.md").read_text()


def test_a_loss_that_is_not_finite_stops_before_the_step(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, directory = tiny_recipe(*world), tmp_path / "run"
    inner, count, batches = Classify.loss_sum, 0, []
    step = Fit._step

    def poisoned(self: Classify, scores: Any, targets: Any) -> Any:
        nonlocal count
        count += 1
        return inner(self, scores, targets) * (float("nan") if count == 7 else 1)

    def remembered(self: Fit, one: Any, lr: float) -> None:
        batches.append(list(one.numbers))
        step(self, one, lr)

    with monkeypatch.context() as patch:
        patch.setattr(Classify, "loss_sum", poisoned)
        patch.setattr(Fit, "_step", remembered)
        with pytest.raises(WorkError, match=r"step 7: the loss is not finite") as caught:
            execute(recipe, 7, directory, command="x", quiet=True)
    assert f"(rows {', '.join(map(str, batches[-1]))})" in str(caught.value)
    assert read(directory / "checkpoints/state.json")["step"] == 6
    execute(recipe, 7, directory, command="x", quiet=True)
    execute(recipe, 7, tmp_path / "straight/run", command="x", quiet=True)
    assert_same_run(directory, tmp_path / "straight/run")


@pytest.mark.parametrize("clip", [1.0, None])
def test_a_gradient_that_is_not_finite_stops_before_the_step(
    clip: float | None, world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = Classify.loss_sum
    counts = iter(range(100))

    def poisoned(self: Classify, scores: Any, targets: Any) -> Any:
        loss = inner(self, scores, targets)
        if next(counts) == 4:
            loss.register_hook(lambda gradient: gradient * float("inf"))
        return loss

    monkeypatch.setattr(Classify, "loss_sum", poisoned)
    with pytest.raises(WorkError, match=r"step 5: the gradient is not finite"):
        execute(tiny_recipe(*world, training={"clip": clip}), 7, tmp_path / "run", quiet=True)
    assert read(tmp_path / "run/checkpoints/state.json")["step"] == 4


@pytest.mark.parametrize("method", ["frozen", "full"])
def test_a_learning_rate_that_is_far_too_high(method: str, world: Any, tmp_path: Path) -> None:
    training = {"lr": 1e38, "clip": None, "warmup": 0, "weight_decay": 10.0}
    with pytest.raises(WorkError, match="not finite"):
        execute(tiny_recipe(*world, method, training=training), 7, tmp_path / "run", quiet=True)
    assert read(tmp_path / "run/manifest.json")["state"] == "running"
    assert not (tmp_path / "run/model").exists()


@pytest.mark.parametrize("kind", ["classes", "score"])
def test_the_tfidf_of_an_objective_is_a_model(kind: str, world: Any, store: SharedStore, tmp_path: Path) -> None:
    data = world[1]
    if kind == "score":
        rows = [(text, round(len(text) / 20, 3)) for text, _ in sentences(60)]
        write_csv(tmp_path / "scores.csv", ("text", "stars"), rows)
        data = {"train": str(tmp_path / "scores.csv"), "text": "text", "label": "stars", "kind": "score"}
    source = read_source(tiny_recipe(world[0], data), 7, store)
    baselines = source.evaluator.baselines()
    scores = baselines.scores()["tfidf"]
    assert not baselines.save("majority", tmp_path / "none")
    assert baselines.save("tfidf", tmp_path / "tfidf")
    assert scores["model_bytes"] == sum(p.stat().st_size for p in (tmp_path / "tfidf").iterdir())
    assert 0 < scores["prediction_seconds"] < 60
    assert baselines.evaluate("majority", "test") is None
    judgement = baselines.evaluate("tfidf", "test")
    assert judgement is not None
    metric = {"classes": "log_loss", "score": "pearson"}[kind]
    assert judgement.metrics[metric] == scores["test"][metric]
    assert {k: v.tolist() for k, v in judgement.columns.items()} == {
        k: v for k, v in scores["values"]["test"].items() if k != "row"
    }
    loaded = heedful.load(tmp_path / "tfidf")
    assert loaded.labels == (("bad", "good") if kind == "classes" else ("score",))
    found = loaded.predict([e["text"] for e in source.data.examples("test")])
    lines = list(judgement.predictions())
    if found.scores is not None:
        assert [line[0] for line in lines] == [f"{x:.6g}" for x in found.scores]
    else:
        assert [line[0] for line in lines] == found.labels


def test_a_score(world: Any, tmp_path: Path) -> None:
    rows = [(text, round(len(text) / 20 + i % 3 * 0.1, 3)) for i, (text, _) in enumerate(sentences(60))]
    write_csv(tmp_path / "scores.csv", ("text", "stars"), rows)
    data = {"train": str(tmp_path / "scores.csv"), "text": "text", "label": "stars", "kind": "score"}
    recipe = tiny_recipe(world[0], data, training={"epochs": 4, "lr": 5e-3}, evaluation={"baselines": True})
    execute(recipe, 7, tmp_path / "run", quiet=True)
    metrics = read(tmp_path / "run/metrics.json")
    assert metrics["primary"] == "pearson"
    dev = [line["dev"]["pearson"] for line in read_log(tmp_path / "run") if "dev" in line]
    assert metrics["best"]["score"] == max(dev) == metrics["splits"]["dev"]["pearson"]
    assert "calibration" not in metrics
    header, found = read_tsv(tmp_path / "run/predictions/test.tsv")
    assert header == ["row", "score"]
    gold = [rows[int(row) - 1][1] for row, _ in found]
    values = [float(value) for _, value in found]
    assert np.mean((np.array(values) - gold) ** 2) == pytest.approx(metrics["splits"]["test"]["mse"], rel=1e-4)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "run/model")
    assert theirs.config.num_labels == 1


def test_a_score_that_cannot_be_judged(world: Any, tmp_path: Path) -> None:
    """Every dev answer is equal: no correlation on dev, and still a run that ends and says so."""
    write_csv(tmp_path / "train.csv", ("t", "s"), [(text, i * 0.37) for i, (text, _) in enumerate(sentences(30))])
    write_csv(tmp_path / "dev.csv", ("t", "s"), [(text, 0.37) for text, _ in sentences(6, seed=3)])
    data = {"train": str(tmp_path / "train.csv"), "dev": str(tmp_path / "dev.csv"), "text": "t", "label": "s"}
    recipe = tiny_recipe(world[0], {**data, "kind": "score"}, training={"epochs": 2})
    execute(recipe, 7, tmp_path / "run", quiet=False)
    metrics = read(tmp_path / "run/metrics.json")
    assert metrics["best"] == {"step": 6, "mark": 2, "epoch": 2, "score": None}  # the last, as none is better
    assert metrics["splits"]["dev"]["pearson"] is None


@pytest.mark.parametrize(
    ("metric", "classes", "words"),
    [("f1", 3, "macro_f1"), ("pearson", 2, "does not go with"), ("accuracy", 0, "does not go with")],
)
def test_a_metric_that_does_not_fit_is_refused(
    metric: str, classes: int, words: str, world: Any, tmp_path: Path
) -> None:
    rows = [(text, f"c{i % classes}" if classes else i * 0.7) for i, (text, _) in enumerate(sentences(30))]
    write_csv(tmp_path / "a.csv", ("t", "l"), rows)
    data = {"train": str(tmp_path / "a.csv"), "text": "t", "label": "l", "kind": "classes" if classes else "score"}
    recipe = tiny_recipe(world[0], data, evaluation={"metric": metric})
    with pytest.raises(RequestError, match=words):
        execute(recipe, 7, tmp_path / "run", quiet=True)


def test_log_loss_is_better_when_lower(world: Any, tmp_path: Path) -> None:
    recipe = tiny_recipe(*world, evaluation={"metric": "log_loss"})
    execute(recipe, 7, tmp_path / "run", quiet=True)
    metrics = read(tmp_path / "run/metrics.json")
    dev = [line["dev"]["log_loss"] for line in read_log(tmp_path / "run") if "dev" in line]
    calibration = metrics["calibration"]["dev"]  # marks are judged as the head is then; what is saved is calibrated
    assert calibration["before"]["log_loss"] == pytest.approx(min(dev), rel=1e-5)
    assert metrics["splits"]["dev"]["log_loss"] == calibration["after"]["log_loss"] <= min(dev)


@pytest.mark.parametrize("method", ["frozen", "full"])
def test_pairs_and_a_test_split_with_hidden_labels(method: str, world: Any, tmp_path: Path) -> None:
    texts = [text for text, _ in sentences(60)]
    rows = [(a, b, "yes" if i % 2 else "no") for i, (a, b) in enumerate(zip(texts, texts[::-1], strict=True))]
    write_csv(tmp_path / "train.csv", ("one", "two", "same"), rows[:48])
    write_csv(tmp_path / "test.csv", ("one", "two"), [r[:2] for r in rows[48:]])
    data = {
        "train": str(tmp_path / "train.csv"), "test": str(tmp_path / "test.csv"), "text": "one", "pair": "two",
        "label": "same",
    }  # fmt: skip
    tables = {"model": {"pairs": "joint"}, "training": {"epochs": 1}, "evaluation": {"baselines": True}}
    recipe = tiny_recipe(world[0], data, method, **tables)
    manifest = execute(recipe, 7, tmp_path / "run", quiet=True)
    assert manifest["data"]["hidden"] == ["test"]
    metrics = read(tmp_path / "run/metrics.json")
    assert set(metrics["splits"]) == set(metrics["calibration"]) == {"dev"}
    assert {e["split"] for e in metrics["errors"]} <= {"dev"}
    assert all(e["pair"] for e in metrics["errors"])
    header, found = read_tsv(tmp_path / "run/predictions/test.tsv")
    assert header == ["row", "label", "p:no", "p:yes"]
    assert len(found) == 12
    model = heedful.load(tmp_path / "run/model")
    tokens = model.tokenizer.encode([(a, b) for a, b, _ in rows[48:]], 32)
    with torch.no_grad():
        scores = torch.cat(
            [
                model.transformer("classify", Batch(torch.tensor([t.ids]), None, torch.tensor([t.segments])))
                for t in tokens
            ]
        )
    expected = scores.softmax(-1).numpy()
    np.testing.assert_allclose(np.array([[float(x) for x in r[2:]] for r in found]), expected, atol=1e-5)


def test_long_texts_in_chunks(world: Any, tmp_path: Path, store: SharedStore) -> None:
    recipe = tiny_recipe(*world, training={"max_length": 8, "long_texts": "chunk", "epochs": 1})
    manifest = execute(recipe, 7, tmp_path / "chunk", quiet=True)
    assert manifest["cost"]["truncated_share"] == 0
    model = heedful.load(tmp_path / "chunk/model")
    test = load_data(recipe.data, 7, store).test
    assert test is not None
    texts = test.texts
    _, rows = read_tsv(tmp_path / "chunk/predictions/test.tsv")
    written = np.array([[float(x) for x in row[2:]] for row in rows])
    found = model.predict(texts)
    np.testing.assert_allclose(found.probabilities, written, atol=1e-5)
    assert found.truncated == 0
    heedful.load(tmp_path / "chunk/model").save(tmp_path / "again")
    np.testing.assert_array_equal(heedful.load(tmp_path / "again").predict(texts).probabilities, found.probabilities)
    with pytest.raises(RequestError, match="give it no pairs"):
        model.predict([("a", "b")])
    recipe = tiny_recipe(*world, training={"max_length": 8, "epochs": 1})
    manifest = execute(recipe, 7, tmp_path / "cut", quiet=True)
    assert manifest["cost"]["truncated_share"] > 0.3
    assert (tmp_path / "cut/predictions/dev.tsv").read_text() != (tmp_path / "chunk/predictions/dev.tsv").read_text()


@pytest.mark.parametrize(
    ("family", "kind"),
    [("bert-tiny", "wordpiece"), ("distilbert-base", "wordpiece"), ("roberta-base", "bpe"), ("gpt2", "bpe")],
)
def test_random_weights_with_a_tokenizer_of_ones_own(
    family: str, kind: str, world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {"width": 16, "heads": 2, "inner": 24, "layers": 2, "positions": 40}
    monkeypatch.setitem(shapes.NAMED_SHAPES, family, replace(shapes.NAMED_SHAPES[family], **small))
    content = tiny_recipe(*world, training={"epochs": 1}).model_dump(exclude_none=True)
    content |= {"model": {"shape": family}, "tokenizer": {"kind": kind, "size": 300}}
    recipe = make_recipe(content)
    for name in ("a", "b"):
        execute(recipe, 7, tmp_path / name / "run", command="x", quiet=True)
    assert_same_run(tmp_path / "a/run", tmp_path / "b/run")
    execute(recipe, 8, tmp_path / "c", quiet=True)
    model, other = heedful.load(tmp_path / "a/run/model"), heedful.load(tmp_path / "c/model")
    assert model.labels == ("bad", "good")
    assert model.shape.vocabulary == model.tokenizer.size <= 300
    dropout = shapes.NAMED_SHAPES[family].head_dropout
    assert model.shape.head_dropout in (dropout, 0.1 if dropout is None else dropout)
    name = "body.blocks.0.attention.output.weight"
    ours, theirs = dict(model.transformer.named_parameters())[name], dict(other.transformer.named_parameters())[name]
    assert not torch.allclose(ours, theirs, atol=1e-3)  # another seed, other weights
    sizes = transformers.AutoConfig.from_pretrained(tmp_path / "a/run/model")
    assert sizes.num_hidden_layers == 2
    recipe = make_recipe({**content, "model": {"shape": "bert-teeny"}})
    with pytest.raises(RequestError, match=r"model\.shape = 'bert-teeny' is unknown"):
        execute(recipe, 7, tmp_path / "d", quiet=True)


def test_fresh_top_layers(world: Any, tmp_path: Path, store: SharedStore) -> None:
    """They differ with the seed, and the layers below do not."""
    found = []
    for seed in (1, 2):
        recipe = tiny_recipe(*world, tuning={"reinit_layers": 1})
        parts = assemble(read_source(recipe, seed, store), store)
        found.append({n: p.detach().clone() for n, p in parts.checkpoint.transformer.named_parameters()})
    differ = {n for n in found[0] if not torch.equal(found[0][n], found[1][n])}
    assert any(n.startswith("body.blocks.1.") for n in differ)
    assert all(n.startswith(("body.blocks.1.", "heads.")) for n in differ)
    with pytest.raises(RequestError, match=r"tuning\.reinit_layers = 3, but the model has 2 layers"):
        execute(tiny_recipe(*world, tuning={"reinit_layers": 3}), 7, tmp_path / "run", quiet=True)


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"training": {"max_length": 41}}, r"training\.max_length = 41, but the model reads 40 tokens"),
        ({"model": {"name": "no/such/directory"}}, "no/such/directory"),
        ({"data": {"train": "no/such.csv"}}, r"no/such\.csv"),
        ({"data": {"text": "review"}}, "review"),
    ],
)
def test_requests_that_cannot_be_met(tables: dict[str, Any], words: str, world: Any, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=words) as caught:
        execute(tiny_recipe(*world, **tables), 7, tmp_path / "run", quiet=True)
    assert str(caught.value).strip().endswith(".")


def test_a_few_rows_only(world: Any, tmp_path: Path, store: SharedStore) -> None:
    data = load_data(tiny_recipe(*world, data={"limit": 10}).data, 7, store)
    again = load_data(tiny_recipe(*world, data={"limit": 10}).data, 8, SharedStore(tmp_path / "other"))
    assert len(data.train) == 10
    assert data.train == again.train
    assert data.train.rows == sorted(data.train.rows)
    assert any("10 of 40 rows" in note for note in data.notes)
    half = load_data(tiny_recipe(*world, data={"fraction": 0.5}).data, 7, store)
    assert set(data.train.rows) < set(half.train.rows)  # fewer rows are a part of more
    assert len(half.train) == 20
    drawn = [load_data(tiny_recipe(*world, data={"limit": 10, "redraw": True}).data, s, store) for s in (7, 7, 8)]
    assert drawn[0].train == drawn[1].train != drawn[2].train


def test_predictions_do_not_depend_on_their_batch(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: Callable[[str], Path]
) -> None:
    monkeypatch.setattr(reader, "rule_for", lambda device: BatchRule(rows=3))
    recipe: Recipe = tiny_recipe(*world, evaluation={"baselines": True})
    execute(recipe, 7, tmp_path / "run", quiet=True)
    for split in ("dev", "test"):
        ours, theirs = (read_tsv(d / f"predictions/{split}.tsv")[1] for d in (tmp_path / "run", finished("full")))
        a, b = (np.array([[float(x) for x in r[2:]] for r in rows]) for rows in (ours, theirs))
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_classes_with_awkward_names(world: Any, tmp_path: Path) -> None:
    names = {"bad": "a\tb", "good": 'c "d"\ne'}
    write_csv(tmp_path / "a.csv", ("t", "l"), [(text, names[label]) for text, label in sentences(40)])
    data = {"train": str(tmp_path / "a.csv"), "text": "t", "label": "l"}
    execute(tiny_recipe(world[0], data, training={"epochs": 1}), 7, tmp_path / "run", quiet=True)
    with (tmp_path / "run/predictions/test.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, "excel-tab"))
    assert rows[0] == ["row", "label", *(f"p:{name}" for name in names.values())]
    assert {row[1] for row in rows[1:]} <= set(names.values())
    assert heedful.load(tmp_path / "run/model").labels == tuple(names.values())


def test_the_tokenizer_of_the_samples_knows_their_words(tmp_path: Path) -> None:
    tokenizer = tokenizer_in(tmp_path)
    unknown = tokenizer.id("[UNK]")
    assert not any(unknown in t.ids for t in tokenizer.encode([text for text, _ in sentences(50)]))
