"""TF-IDF is a model like the others: saved, read back to the bit, predicting, and refused in words when damaged."""

import json
import random
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers
from safetensors import torch as torch_files
from safetensors.numpy import load_file, save_file

import heedful
from heedful.checkpoints.directory import read_model, write_model
from heedful.checkpoints.tfidf import is_tfidf, read_tfidf, tfidf_files, write_tfidf
from heedful.cli.main import main
from heedful.errors import RequestError
from heedful.evaluation.metrics import CLASS_METRICS, NUMBER_METRICS, Metric
from heedful.evaluation.scores import score_classes, score_numbers
from heedful.evaluation.tfidf import STRENGTHS, TfidfModel, _folds, fit_tfidf
from tests.support.checkpoint_samples import make_good, names_in

CUES = ["dull film 映画", "bright film", "odd 😀 film", "never seen"]
LABELS = ("bad", "good", "odd", "žádný")


def texts_of(labels: list[int], seed: int = 0, noise: float = 0.0) -> list[str]:
    rng = random.Random(seed)
    fill = [f"w{i}" for i in range(40)]
    shown = [rng.choice(labels) if rng.random() < noise else k for k in labels]
    return [" ".join([*rng.choices(fill, k=6), CUES[k]]) for k in shown]


@cache
def fitted(kind: str) -> tuple[TfidfModel, list[str], list[str] | None]:
    """A model of each kind, and texts for it."""
    rng = random.Random(1)
    labels = (
        [0] * 20 if kind == "one class" else [rng.randrange(2 if kind in ("two", "pairs") else 3) for _ in range(60)]
    )
    texts = texts_of(labels)
    pairs = texts_of(labels[::-1], seed=3) if kind == "pairs" else None
    if kind == "numbers":
        return fit_tfidf(texts, None, np.array(labels) * 1.7, (), NUMBER_METRICS["pearson"], 0), texts[:9], None
    names = LABELS[:2] if kind == "two" else LABELS
    model = fit_tfidf(texts, pairs, np.array(labels), names, CLASS_METRICS["accuracy"], 0)
    return model, ["", *texts[:9]], None if pairs is None else ["x", *pairs[:9]]


@pytest.mark.parametrize("kind", ["two", "many", "one class", "pairs", "numbers"])
def test_it_comes_back_to_the_bit(kind: str, tmp_path: Path) -> None:
    model, texts, pairs = fitted(kind)
    expected = model.predict(texts, pairs)
    write_tfidf(tmp_path / "model", model)
    again = read_tfidf(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(texts, pairs), expected)
    assert tfidf_files(again) == tfidf_files(model) == {p.name: p.read_bytes() for p in (tmp_path / "model").iterdir()}
    loaded = heedful.load(tmp_path / "model")
    found = loaded.predict(texts if pairs is None else list(zip(texts, pairs, strict=True)))
    if kind == "numbers":
        assert found.scores is not None
        np.testing.assert_array_equal(found.scores, expected)
        assert loaded.labels == found.names == ("score",)
    else:
        np.testing.assert_array_equal(found.probabilities, expected)
        np.testing.assert_allclose(expected.sum(axis=1), 1)
        assert found.labels == [model.labels[i] for i in expected.argmax(axis=1)]
        assert loaded.labels == found.names == model.labels
    if kind in ("two", "many"):
        assert found.labels[1:] == [
            model.labels[i] for i in [next(k for k in range(3) if CUES[k] in t) for t in texts[1:]]
        ]
    loaded.save(tmp_path / "again")
    assert names_in(tmp_path / "again") == names_in(tmp_path / "model")


def test_the_same_numbers_as_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    model, texts, _ = fitted("many")
    rng = random.Random(1)
    gold = [rng.randrange(3) for _ in range(60)]
    peer = OneVsRestClassifier(
        LogisticRegression(C=model.strength, solver="liblinear", dual=True, max_iter=1000, random_state=0)
    )
    peer.fit(model.features.transform(texts_of(gold), None), gold)
    theirs = peer.predict_proba(model.features.transform(texts, None))
    np.testing.assert_allclose(model.predict(texts)[:, :3], theirs, atol=1e-6)


@pytest.mark.parametrize("table", [CLASS_METRICS, NUMBER_METRICS], ids=["classes", "numbers"])
def test_the_strength_is_chosen_by_the_metric(table: dict[str, Metric]) -> None:
    """As trying each on the folds says; and metrics differ in what they choose."""
    rng = random.Random(2)
    labels = np.array([int(rng.random() < 0.25) for _ in range(150)])
    texts = texts_of(labels.tolist(), noise=0.6)
    classes = table is CLASS_METRICS
    gold = labels if classes else labels + np.array([rng.gauss(0, 0.3) for _ in labels])
    chosen = {}
    for name, metric in table.items():
        model = fit_tfidf(texts, None, gold, LABELS[:2] if classes else (), metric, 0)
        chosen[name] = model.strength
        assert model.strength == best_strength(model, texts, gold, metric, classes), name
    assert len(set(chosen.values())) > 1, chosen


def best_strength(model: TfidfModel, texts: list[str], gold: Any, metric: Any, classes: bool) -> float:
    from sklearn.linear_model import LogisticRegression, Ridge

    x, means = model.features.transform(texts, None), []
    for strength in STRENGTHS:
        values = []
        for train, held_out in _folds(gold, 0):
            if classes:
                peer: Any = LogisticRegression(C=strength, solver="liblinear", dual=True, max_iter=1000, random_state=0)
                p = peer.fit(x[train], gold[train]).predict_proba(x[held_out])
                scores = score_classes(gold[held_out], p, LABELS[:2])
            else:
                peer = Ridge(alpha=1 / strength, solver="sparse_cg", tol=1e-6, max_iter=500).fit(x[train], gold[train])
                scores = score_numbers(gold[held_out], peer.predict(x[held_out]))
            values.append(metric.sign * scores[metric.name])
        means.append(np.mean(values))
    return STRENGTHS[int(np.argmax(means))]


def test_hugging_face_refuses_it_and_so_does_what_needs_a_transformer(tmp_path: Path) -> None:
    write_tfidf(tmp_path / "model", fitted("two")[0])
    with pytest.raises(ValueError, match="heedful-tfidf"):
        transformers.AutoModel.from_pretrained(tmp_path / "model")
    model = heedful.load(tmp_path / "model")
    assert not any(hasattr(model, name) for name in ("encode", "tokenizer", "transformer", "shape"))
    with pytest.raises(RequestError, match="TF-IDF model, which has no transformer"):
        heedful.load(tmp_path / "model", body_only=True)
    with pytest.raises(RequestError, match="heedful-tfidf"):
        read_model(tmp_path / "model")
    with pytest.raises(RequestError, match="was trained on single texts; give it no pairs"):
        model.predict([("a", "b")])
    make_good("bert", tmp_path / "bert")
    assert not is_tfidf(tmp_path / "bert")
    write_model(tmp_path / "model", read_model(tmp_path / "bert"))  # each may take the other's place
    assert names_in(tmp_path / "model") == names_in(tmp_path / "bert")
    write_tfidf(tmp_path / "model", fitted("two")[0])
    assert names_in(tmp_path / "model") == ["config.json", "model.safetensors", "vocabulary.json"]


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model, texts, _ = fitted("many")
    write_tfidf(tmp_path / "model", model)
    (tmp_path / "texts.csv").write_text("text\n" + "\n".join(texts[1:]) + "\n", encoding="utf-8")
    header, *lines = command(capsys, monkeypatch, "predict", "model", "texts.csv", "--text", "text").splitlines()
    assert header.split("\t") == ["row", "label", *(f"p:{label}" for label in LABELS)]
    shown = np.array([[float(p) for p in line.split("\t")[2:]] for line in lines])
    np.testing.assert_allclose(shown, model.predict(texts[1:]), atol=1e-6)
    assert "TF-IDF with a linear model" in command(capsys, monkeypatch, "inspect", "model")
    facts = json.loads(command(capsys, monkeypatch, "inspect", "model", "--json"))
    assert facts["vocabulary"] == len(model.features.vocabulary)


def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    monkeypatch.setattr(sys, "argv", ["heedful", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    return capsys.readouterr().out


def edited(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    def edit(model: Path) -> None:
        path = model / name
        if name.endswith("safetensors"):
            save_file(change(load_file(path)), path)
        else:
            path.write_text(json.dumps(change(json.loads(path.read_text()))))

    return edit


def notes(**changes: Any) -> Callable[[Path], None]:
    return edited("config.json", lambda c: {**c, "heedful": {**c["heedful"], **changes}})


def cut(name: str) -> Callable[[Path], None]:
    return lambda model: (model / name).write_bytes((model / name).read_bytes()[:-7]) and None


@pytest.mark.parametrize(
    "damage",
    [
        notes(format=9), notes(labels=["a", "a", "b", "c"]), notes(labels="ab"), notes(seen=[0, 9]), notes(seen=[]),
        notes(seen=[2, 1]), notes(pairs="no"), notes(pairs=True), notes(strength="much"), notes(labels=["a", "b", "c"]),
        notes(strength=10**400), notes(strength=float("nan")), notes(strength=0),
        edited("config.json", lambda c: {"model_type": c["model_type"]}),
        edited("vocabulary.json", lambda words: words[1:]), edited("vocabulary.json", lambda words: [*words, 3]),
        edited("vocabulary.json", lambda words: {"a": 1}), edited("vocabulary.json", lambda words: ["a", "a"]),
        edited("model.safetensors", lambda t: {**t, "bias": t["bias"] * np.nan}),
        edited("model.safetensors", lambda t: {**t, "weight": t["weight"][:1]}),
        edited("model.safetensors", lambda t: {**t, "weight": t["weight"].astype(np.float64) * 1e300}),
        edited("model.safetensors", lambda t: {**t, "idf": t["idf"] * 1e300}),
        edited("model.safetensors", lambda t: {**t, "more": t["bias"]}),
        edited("model.safetensors", lambda t: {"idf": t["idf"]}),
        cut("vocabulary.json"), cut("model.safetensors"),
        lambda model: (model / "vocabulary.json").unlink(), lambda model: (model / "model.safetensors").unlink(),
    ],
)  # fmt: skip
def test_a_damaged_one_is_refused_in_a_sentence(damage: Callable[[Path], None], tmp_path: Path) -> None:
    write_tfidf(tmp_path / "model", fitted("many")[0])
    damage(tmp_path / "model")
    with pytest.raises(RequestError) as found:
        heedful.load(tmp_path / "model")
    assert str(tmp_path / "model") in str(found.value)
    assert "\n" not in str(found.value)


def test_weights_of_fewer_bits_are_read(tmp_path: Path) -> None:
    model, texts, _ = fitted("many")
    write_tfidf(tmp_path / "model", model)
    path = tmp_path / "model" / "model.safetensors"
    torch_files.save_file({name: t.bfloat16() for name, t in torch_files.load_file(path).items()}, path)
    found = heedful.load(tmp_path / "model").predict(texts)
    np.testing.assert_allclose(found.probabilities, model.predict(texts), atol=0.02)


@pytest.mark.parametrize(
    ("row", "reason"),
    [(("a", "b", "c"), "has 3 parts"), (("a", None), "is missing"), (3, "is int"), ("ab", "was trained on pairs")],
)
def test_what_is_no_pair_is_refused(row: Any, reason: str, tmp_path: Path) -> None:
    write_tfidf(tmp_path / "model", fitted("pairs")[0])
    with pytest.raises(RequestError, match=reason):
        heedful.load(tmp_path / "model").predict([("a", "b"), row])
