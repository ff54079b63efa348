"""Real studies from data to card: the same setting is chosen, tested and shipped, by every kind of metric."""

import json
from pathlib import Path
from typing import Any

import pytest
from test_card import every_number_stands_in_the_files, rendered

from heedful.report.page.words import title_of
from heedful.report.study import write_reports
from heedful.studies.plan import plan_comparison
from heedful.studies.study import run_study
from tests.support.training_samples import sentences, write_csv, write_data, write_tiny


def write_scores(folder: Path) -> dict[str, Any]:
    """The same texts with a number to predict: how long they are."""
    folder.mkdir()
    every = [(text, len(text) / 7 + 0.25) for text, _ in sentences(64)]
    for split, rows in (("train", every[:40]), ("dev", every[40:52]), ("test", every[52:])):
        write_csv(folder / f"{split}.csv", ("text", "label"), rows)
    files = {split: str(folder / f"{split}.csv") for split in ("train", "dev", "test")}
    return {**files, "text": "text", "label": "label", "kind": "score"}


@pytest.mark.parametrize("metric", ["accuracy", "f1", "matthews", "pearson"])
def test_one_subject(metric: str, tmp_path: Path) -> None:
    files = write_scores(tmp_path / "data") if metric == "pearson" else write_data(tmp_path / "data")
    changes = {"training": {"epochs": 3, "lr": 3e-3, "max_length": 16}, "evaluation": {"metric": metric}}
    plan = plan_comparison(files, [str(write_tiny(tmp_path))], ["frozen", "full"], (0, 1), changes)
    study = tmp_path / "study"
    run_study(plan, study, quiet=True)
    write_reports(study)
    words, text, statistics, facts = rendered(study)
    every_number_stands_in_the_files(words, statistics, facts)
    chosen = facts["chosen"]["setting"]
    assert statistics["chosen"] == chosen
    assert statistics["metric"] == metric
    row = next(row for row in facts["table"] if row["setting"] == chosen)
    assert all(row["dev_mean"] >= other["dev_mean"] for other in facts["table"])
    seed = facts["chosen"]["seed"]
    shipped = study / (row["model_directory"] if seed is None else f"runs/{chosen}-seed{seed}/model")
    for path in shipped.iterdir():
        if path.is_file():
            assert (study / "best" / path.name).read_bytes() == path.read_bytes()
    pairs = {frozenset((c["a"], c["b"])): c for c in statistics["comparisons"]}
    guesses = {"majority", "random"} if metric != "pearson" else set()  # a constant has no correlation
    assert set(pairs) == {
        *(frozenset(p) for p in (("tiny-frozen", "tiny-full"), ("tiny-frozen", "tfidf"), ("tiny-full", "tfidf"))),
        *(frozenset((chosen, guess)) for guess in guesses),
    }
    learned = all(pairs[frozenset((chosen, guess))]["better"] == "a" for guess in guesses)
    assert words.startswith(f"{'Use ' if learned else ''}{title_of(chosen)} {'' if learned else 'is not '}")
    for c in pairs.values():
        beaten = title_of(c["b"] if c["better"] == "a" else c["a"])
        assert c["a"] == chosen or chosen not in (c["a"], c["b"])
        assert (c["better"] is not None) == (c["p_corrected"] is not None and c["p_corrected"] <= statistics["alpha"])
        if chosen in (c["a"], c["b"]) and c["better"] != "a":
            assert f"It beats {beaten} by" not in words
    assert json.loads((study / "study.json").read_text())["chosen"] == facts["chosen"]
    assert "| chosen |" in text


@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)])
def test_who_learned_nothing_is_not_recommended(seeds: tuple[int, ...], tmp_path: Path) -> None:
    """Thirty rows whose labels have nothing to do with their texts."""
    rows = [(text, "ham" if n % 3 else "spam") for n, (text, _) in enumerate(sentences(30))]
    files = {"text": "text", "label": "label"}
    for split, part in (("train", rows[:12]), ("dev", rows[12:21]), ("test", rows[21:])):
        files[split] = str(write_csv(tmp_path / f"{split}.csv", ("text", "label"), part))
    changes = {"training": {"epochs": 1, "lr": 1e-4, "max_length": 16}, "evaluation": {"metric": "accuracy"}}
    plan = plan_comparison(files, [str(write_tiny(tmp_path))], ["frozen", "full"], seeds, changes)
    run_study(plan, tmp_path / "study", quiet=True)
    write_reports(tmp_path / "study")
    words, text, statistics, facts = rendered(tmp_path / "study")
    every_number_stands_in_the_files(words, statistics, facts)
    chosen = statistics["chosen"]
    assert {"majority", "random"} <= set(statistics["settings"])
    assert {c["a"] for c in statistics["comparisons"] if {c["a"], c["b"]} & {"majority", "random"}} == {chosen}
    alike = next(c for c in statistics["comparisons"] if c["b"] == "majority")
    assert alike["better"] is None
    title = title_of(chosen)
    assert words.startswith((f"{title} is not good enough yet ", f"{title} is not shown to beat the commonest class "))
    assert "the commonest class" in words.partition(" Expect ")[0]
    assert "ready to use" not in words
    assert f"Use {title}" not in text
