"""A run's report says what the run's files say, whatever shape they have and whatever is missing."""

import copy
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import heedful.report.page.markdown as markdown
from heedful.report.run import write_run_report
from heedful.report.sections.of_run import run_report, sampling_error
from heedful.storage.run_record import Scores
from heedful.storage.runs import Run, read_run
from tests.support.page_reader import Page
from tests.support.report_samples import make_run, write_json

SHAPES: dict[str, dict[str, Any]] = {
    "two classes": {"labels": ["negative", "positive"]},
    "six classes": {"labels": ["anger", "fear", "joy", "love", "sadness", "surprise"]},
    "forty classes": {"labels": [f"intent {i}" for i in range(40)], "n": 400, "skill": 4.0},
    "numbers": {"labels": None},
    "hidden test": {"labels": ["negative", "positive"], "splits": ("dev",)},
}


@pytest.fixture(scope="module", params=SHAPES)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = make_run(tmp_path_factory.mktemp("run") / "run", **SHAPES[request.param])
    write_run_report(folder)
    return request.param, folder


def figures(metrics: dict[str, Any]) -> list[str]:
    """Every score of every split and baseline, as it has to appear."""
    found = []
    sources = [metrics["splits"], *metrics["baselines"].values()]
    for source in sources:
        for split in metrics["splits"]:
            for name, value in source[split].items():
                if name != "n" and isinstance(value, float):
                    found.append(f"{value:.4f}".replace("-", "−").replace("−0.0000", "0.0000"))
    return found


def test_both_forms_hold_every_figure(made: tuple[str, Path]) -> None:
    _, folder = made
    metrics = json.loads((folder / "metrics.json").read_text())
    text = (folder / "report.md").read_text(encoding="utf-8")
    page = Page((folder / "report.html").read_text(encoding="utf-8"))
    wanted = figures(metrics)
    assert len(wanted) >= 8
    for value in wanted:
        assert value in text
        assert value in page.text


def test_a_row_holds_its_own_figures(made: tuple[str, Path]) -> None:
    _, folder = made
    metrics = json.loads((folder / "metrics.json").read_text())
    page = Page((folder / "report.html").read_text(encoding="utf-8"))
    split = next(iter(metrics["splits"]))
    tfidf = metrics["baselines"]["tfidf"][split]
    row = next(r for r in page.rows if r[0] == "TF-IDF")
    order = [m for m in ("accuracy", "macro_f1", "f1", "matthews", "log_loss", "ece") if m in tfidf]
    order = order or ["pearson", "spearman", "mse", "mae"]
    assert row[1:-1] == [f"{tfidf[m]:.4f}" for m in order]


def test_pictures_are_there_and_are_pictures(made: tuple[str, Path]) -> None:
    shape, folder = made
    text = (folder / "report.md").read_text(encoding="utf-8")
    stems = {"loss", "dev"} if shape == "numbers" else {"loss", "dev", "classes", "confusion", "reliability"}
    assert {p.stem for p in (folder / "report").glob("*.png")} == stems
    for stem in stems:
        assert f"](report/{stem}.png)" in text
        assert (folder / "report" / f"{stem}.png").read_bytes().startswith(b"\x89PNG")


def test_what_a_run_cannot_say(made: tuple[str, Path]) -> None:
    shape, folder = made
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert "It is one seed: how much another would differ is not known." in text
    flattering = "chose the checkpoint, so the score is somewhat flattering" in text
    assert flattering == (shape == "hidden test")
    assert ("The labels of test are not public" in text) == (shape == "hidden test")
    assert "heedful run 'my recipe.toml' --seeds 1" in text
    assert "training.lr: 5e-05" in text


def test_a_second_report_replaces_the_first(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", ["a", "b"])
    (folder / "report").mkdir()
    (folder / "report" / "old.png").write_bytes(b"")
    write_run_report(folder)
    first = (folder / "report.html").read_bytes()
    assert not (folder / "report" / "old.png").exists()
    write_run_report(folder)
    assert (folder / "report.html").read_bytes() == first
    assert not list(folder.glob(".report*"))


def test_a_failed_run_says_so_and_shows_how_far_it_came(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", ["a", "b"], state="failed")
    (folder / "metrics.json").unlink()
    shutil.rmtree(folder / "predictions")
    manifest = json.loads((folder / "manifest.json").read_text())
    write_json(folder / "manifest.json", {**manifest, "reason": "the loss was not finite at step 120"})
    torn = (folder / "log.jsonl").read_text() + '{"step": 121, "lo'
    (folder / "log.jsonl").write_text(torn)
    write_run_report(folder)
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert "did not finish; its state is “failed”: the loss was not finite at step 120." in text
    assert "There are no scores to report" in text
    assert "report/loss.png" in text


def test_the_barest_run(tmp_path: Path) -> None:
    write_json(tmp_path / "manifest.json", {})
    write_run_report(tmp_path)
    assert "no scores to report" in (tmp_path / "report.md").read_text()
    page = Page((tmp_path / "report.html").read_text())
    assert page.scripts == []
    assert not (tmp_path / "report").exists()


def test_a_model_that_loses_to_its_baseline_is_said_to(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", ["a", "b", "c"], skill=0.1))
    assert ": the model does not beat it." in markdown.render(run_report(run), "report")


def test_sampling_error_is_half_of_wilsons_interval() -> None:
    from scipy.stats import binomtest

    low, high = binomtest(270, 300).proportion_ci(0.95, method="wilson")
    scores = Scores.model_validate({"n": 300, "accuracy": 0.9})
    assert sampling_error(scores) == pytest.approx((high - low) / 2, rel=1e-3)
    assert sampling_error(Scores.model_validate({"accuracy": 0.9})) is None


def keys_of(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(content, list):
        content = dict(enumerate(content[:1]))
    if not isinstance(content, dict):
        return []
    return [p for key, value in content.items() for p in ((*path, key), *keys_of(value, (*path, key)))]


def changed(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy with the value at that path, or without the key if it is `...`."""
    content = copy.deepcopy(content)
    place = content
    for key in path[:-1]:
        place = place[key]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return content


@pytest.mark.parametrize("file", ["manifest", "metrics"])
def test_no_key_is_needed(file: str, tmp_path: Path) -> None:
    """Any one of the upper keys may be missing, and the report is still made."""
    run = read_run(make_run(tmp_path / "run", ["a", "b"], n=30))
    for path in keys_of(getattr(run, file).written):
        if len(path) <= 2 and not (path[0] == "metrics" and len(path) == 2):  # what decides must be stated
            _report_of(run, file, path, ...)


@pytest.mark.full
@pytest.mark.parametrize("value", [..., None, "x", [], -1, {"q": [1]}], ids=repr)
@pytest.mark.parametrize("file", ["manifest", "metrics"])
def test_no_value_is_trusted(file: str, value: Any, tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", ["a", "b"], n=30))
    for path in keys_of(getattr(run, file).written):
        # A metric whose direction nobody states is refused.
        if (path, value) != (("primary",), "x") and not (path[0] == "metrics" and len(path) > 1):
            _report_of(run, file, path, value)


def _report_of(run: Run, file: str, path: tuple[Any, ...], value: Any) -> None:
    record = getattr(run, file)
    damaged = type(record).model_validate(changed(record.written, path, value))
    assert markdown.render(run_report(replace(run, **{file: damaged})), "report").startswith("# A run on")
