"""Several labels for a text, by a target of another package: one file, and everything goes as with classes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score, log_loss

import heedful
from heedful.data.records import Examples
from heedful.errors import RequestError
from heedful.training.run import execute
from tests.support.toy_world import finish, kill
from tests.support.training_samples import (
    THINGS,
    assert_same_run,
    read_log,
    read_tsv,
    sentences,
    tiny_recipe,
    write_csv,
    write_tiny,
)
from tests.toys.toy_topics import SeveralLabels, Topics, TopicsTable

LABELS = ("cast", "film", "score", "story")


def write_topics(folder: Path) -> dict[str, str]:
    """Which of the things a text is about, joined as people join them; returns the data table of a recipe."""
    rows = [(text, "|".join(t for t in THINGS[:4] if t in text) or "nothing") for text, _ in sentences(160, seed=4)]
    path = write_csv(folder / "topics.csv", ("text", "label"), rows)
    return {"train": str(path), "text": "text", "label": "label"}


def test_the_target_counts_as_another_library_does() -> None:
    target, draw = SeveralLabels(LABELS), np.random.default_rng(1)
    gold_nk = draw.integers(0, 2, (30, 4))
    written = [
        "|".join(label for label, there in zip(LABELS, row, strict=True) if there) or "nothing" for row in gold_nk
    ]
    parsed = target.parse(Examples([""] * 30, None, written, None, list(range(30))))
    assert parsed is not None
    assert parsed.tolist() == gold_nk.tolist()
    scores_nk = draw.normal(size=(30, 4))
    p_nk = target.decide(scores_nk)
    found = target.score(parsed.numpy(), p_nk)
    assert found["micro_f1"] == pytest.approx(f1_score(gold_nk, p_nk > 0.5, average="micro"))
    assert found["subset_accuracy"] == accuracy_score(gold_nk, p_nk > 0.5)
    loss_b = target.losses(torch.from_numpy(scores_nk), parsed)
    assert found["label_loss"] == pytest.approx(float(loss_b.mean()))
    assert found["label_loss"] == pytest.approx(log_loss(gold_nk.ravel(), p_nk.ravel()))
    answers = {row[0] for row in target.lines(np.array([[0.9, 0.2, 0.1, 0.8], [0.1] * 4]))}
    assert answers == {"cast|story", "nothing"}


@pytest.mark.parametrize("how", ["full", "solved"])
def test_a_run(how: str, offered: None, tmp_path: Path) -> None:
    recipe = tiny_recipe(
        write_tiny(tmp_path), write_topics(tmp_path), how,
        objective={"kind": "topics"}, evaluation={"baselines": True},
    )  # fmt: skip
    assert isinstance(recipe.objective, TopicsTable)
    manifest = execute(recipe, 7, tmp_path / "run", quiet=True)
    assert manifest["data"]["labels"] == list(LABELS)
    assert [metric["name"] for metric in manifest["metrics"]] == ["micro_f1", "subset_accuracy", "label_loss"]
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    scores, shares = metrics["splits"]["test"], metrics["baselines"]["shares"]["test"]
    assert metrics["primary"] == "micro_f1"
    assert scores["label_loss"] < shares["label_loss"]
    assert (scores["micro_f1"] > 0.7) == (how == "solved")  # the other is not trained for long
    header, rows = read_tsv(tmp_path / "run/predictions/test.tsv")
    assert header == ["row", "labels", *(f"p:{label}" for label in LABELS)]
    named = [{label for label, p in zip(LABELS, row[2:], strict=True) if float(p) > 0.5} for row in rows]
    assert [set(row[1].split("|")) - {"nothing"} for row in rows] == named
    with pytest.raises(RequestError, match="gives a text several labels, which is not supported"):
        heedful.load(tmp_path / "run/model")  # and is never read with a softmax
    again = tiny_recipe(tmp_path / "run/model", write_topics(tmp_path), how, objective={"kind": "topics"})
    execute(again, 7, tmp_path / "again", quiet=True)


def test_what_is_about_classes_is_refused(offered: None, tmp_path: Path) -> None:
    model, data = write_tiny(tmp_path), write_topics(tmp_path)
    recipe = tiny_recipe(model, data, objective={"kind": "topics", "label_smoothing": 0.1})
    with pytest.raises(RequestError, match="label_smoothing and"):
        execute(recipe, 0, tmp_path / "run", quiet=True)
    with pytest.raises(RequestError, match=r"evaluation\.metric = 'accuracy' is not right"):
        tiny_recipe(model, data, objective={"kind": "topics"}, evaluation={"metric": "accuracy"})
    with pytest.raises(RequestError, match="looks like several labels"):
        execute(tiny_recipe(model, data), 0, tmp_path / "classes", quiet=True)
    assert Topics.EVALUATOR.METRICS == SeveralLabels.METRICS


@pytest.mark.full
@pytest.mark.parametrize("kills", [1, 3])
def test_run_kill_and_resume(kills: int, world: Path, heedful_command: Any) -> None:
    write_topics(world)
    (world / "topics.toml").write_text(
        """
[model]
name = "model/tiny"
[data]
train = "topics.csv"
text = "text"
label = "label"
[objective]
kind = "topics"
[training]
epochs = 3
batch_size = 8
accumulate = 2
lr = 3e-3
threads = 1
device = "cpu"
checkpoint_seconds = 0
max_length = 32
"""
    )
    finish(heedful_command("run", "topics.toml", "--out", "whole-topics", "--workers", "1"))
    assert kill(kills, world, heedful_command, "topics") == kills
    finish(heedful_command("run", "topics.toml", "--out", "killed-topics", "--workers", "1"))
    runs = [world / f"{name}-topics/runs/topics-seed0" for name in ("whole", "killed")]
    assert_same_run(*runs, but_for=("command",))
    assert [line["epoch"] for line in read_log(runs[0]) if "dev" in line] == [1, 2, 3]


@pytest.mark.full
def test_compare_statistics_report_results(world: Path, heedful_command: Any) -> None:
    write_topics(world)
    said = finish(
        heedful_command(
            "compare", "topics.csv", "--models", "model/tiny", "--methods", "frozen,full", "--seeds", "2",
            "--workers", "2", "--out", "topics", "--set", "objective.kind=topics", "--set", "training.threads=1",
            "--set", "training.max_length=32", "--set", "full:training.lr=1e-3",
        )
    )  # fmt: skip
    assert "micro F1" in said
    study = heedful.results(world / "topics")
    rows = {row["setting"]: row for row in study.table}
    assert rows.keys() >= {"tiny-frozen", "tiny-full"}
    assert all(row["metric"] == "micro_f1" for row in rows.values())
    best = max(("tiny-frozen", "tiny-full"), key=lambda name: rows[name]["dev_mean"])
    statistics = json.loads((world / "topics/statistics.json").read_text())
    assert statistics["chosen"] == best
    assert best in study.verdict
    comparisons = {(c["a"], c["b"]): c["difference"] for c in statistics["comparisons"]}
    other = next(name for name in ("tiny-frozen", "tiny-full") if name != best)
    difference = rows[best]["test_mean"] - rows[other]["test_mean"]
    assert comparisons[best, other] == pytest.approx(difference, abs=1e-9)
    report = (world / "topics/report.md").read_text()
    assert "micro F1" in report
    assert "several labels" in report
    assert (world / "topics/best/model.safetensors").exists()
    predicted = study.runs[0].predictions("test")
    assert len(predicted) == 32
    assert all("gold" in row and set(row["labels"].split("|")) <= {*LABELS, "nothing"} for row in predicted)
