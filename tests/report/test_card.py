"""The decision card: its numbers stand in the files, and no two sentences of a report contradict each other."""

import functools
import json
import re
import shutil
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from heedful.report.facts.comparison import compare
from heedful.report.glance import card_lines, closing_lines
from heedful.report.page import markdown
from heedful.report.page.words import count, duration, figure, percent, probability, signed, size, title_of
from heedful.report.page.write import page
from heedful.report.sections.card import card
from heedful.report.sections.of_study import study_report
from heedful.storage.runs import read_study
from tests.support.report_samples import decide, make_study

TWO, THREE = ["no", "yes"], ["negative", "neutral", "positive"]
SETTINGS = {"frozen": (2.6, 9.0), "full": (3.0, 61.0), "weak": (1.2, 24.0)}
METRICS = {"accuracy": THREE, "macro_f1": THREE, "f1": TWO, "matthews": TWO, "pearson": None, "mse": None}
UNITS = r" (?:%|ms|s|min \d+ s|h \d+ min|[kMG]?B)(?!\w)"
CASES: dict[str, dict[str, Any]] = {
    "the leader": {},
    "not the leader on test": {"chosen": "frozen"},
    "the weakest": {"chosen": "weak"},
    "no seed": {"fixed": ("frozen",), "chosen": "frozen"},
    "a baseline": {"chosen": "tfidf"},
}


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A study for each metric, made when it is asked for."""
    base = tmp_path_factory.mktemp("cards")

    @functools.cache
    def made(metric: str) -> Path:
        folder = base / metric
        (folder / "best").mkdir(parents=True)
        return make_study(folder, METRICS[metric], settings=SETTINGS, seeds=(1, 2, 3), n=120, steps=20, primary=metric)

    return made


def rendered(folder: Path) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    """The card on the page as text, the report in Markdown, statistics.json and study.json."""
    report = study_report(read_study(folder))
    html = page(report)
    made = re.search(r'<article class="card".*?</article>', html, flags=re.DOTALL)
    assert made is not None
    words = unescape(re.sub(r"<[^>]+>", " ", made[0])).replace("\N{NO-BREAK SPACE}", " ")
    text = unescape(markdown.render(report, None)).replace("\\", "").replace("\N{NO-BREAK SPACE}", " ")
    files = [json.loads((folder / name).read_text()) for name in ("statistics.json", "study.json")]
    return " ".join(words.split()), text, files[0], files[1]


def numbers_in(facts: Any) -> list[float]:
    if isinstance(facts, dict):
        return [n for value in facts.values() for n in numbers_in(value)]
    if isinstance(facts, list):
        return [n for value in facts for n in numbers_in(value)]
    return [float(facts)] if isinstance(facts, int | float) and not isinstance(facts, bool) else []


def every_number_stands_in_the_files(words: str, found: dict[str, Any], study: dict[str, Any]) -> None:
    sentence = found["how_many_more"]["sentence"]
    assert sentence in words
    of_settings = [[s["seeds"], s["expected"]] for s in found["settings"].values()]
    known = {1 - found["alpha"], *numbers_in([found["examples"], of_settings, found["comparisons"], study["table"]])}
    forms = [figure, lambda v: figure(v, 3), lambda v: figure(abs(v), 3), signed, lambda v: signed(-v), probability]
    forms += [count, duration, size, percent, lambda v: figure(-v, 3)]
    printed = {form(value).replace("\N{NO-BREAK SPACE}", " ") for value in known if abs(value) < 1e15 for form in forms}
    rest = words.replace(sentence, "").replace("for 1,000 new texts", "").partition(" heedful predict ")[0]
    shown = re.findall(rf"[−+]?\d+(?:[.,]\d+)*(?:{UNITS})?", rest.replace("< 0.001", ""))
    assert len(shown) >= 6
    missing = [n for n in shown if n not in printed]
    assert missing == [], words


@pytest.mark.parametrize(
    ("metric", "case"),
    [(m, c) for m in METRICS for c in CASES if m == "accuracy" or c in ("the leader", "not the leader on test")],
)
def test_the_card_and_the_report(metric: str, case: str, studies: Any) -> None:
    folder = decide(studies(metric), **CASES[case])
    words, text, found, study = rendered(folder)
    every_number_stands_in_the_files(words, found, study)
    chosen = title_of(found["chosen"])
    assert study["chosen"]["setting"] == found["chosen"]
    assert words.startswith(f"Use {chosen} the best on dev ")
    rows = {row["b"]: row for row in found["comparisons"] if row["a"] == found["chosen"]}
    for name, row in rows.items():
        title = title_of(name)
        shown = row["better"] == "a" and row["p_corrected"] <= found["alpha"]
        assert (f"It beats {title} by" in words) == shown
        assert (f"Not shown to beat {title}" in words) == (name == "tfidf" and row["better"] is None)
        assert ("| shown to be worse |" in _line(text, title)) == shown
        higher = (row["difference"] < 0) == found["higher_is_better"]
        assert (f"{title} scored " in words) == (higher and name != "tfidf")
        if higher:
            assert f"{title} (paired test)" not in words
            assert "not shown to be worse" not in _line(text, title)
    assert f"**{chosen}**" in text
    assert text.count("| chosen |") == 1
    assert "| chosen |" in _line(text, chosen)
    subjects = ["{} against the others", "Use {}"]
    if METRICS[metric]:
        subjects.append("Each class on test, {}")
        subjects += ["{}: Answering only", "{} on test, when it may"] if "abstention" in found else []
    for subject in subjects:
        assert subject.format(chosen) in text
        assert not [s for s in found["settings"] if s != found["chosen"] and subject.format(title_of(s)) in text]
    for gone in ("overlap", "Next comes", "will do", "significant", "paired bootstrap"):
        assert gone not in text
    assert "is in best/" in words
    assert f"heedful predict {folder / 'best'} " in words


def _line(text: str, name: str) -> str:
    """The first line of the table of results that is about this setting."""
    return next(line for line in text.splitlines() if re.match(rf"\| \**{re.escape(name.strip('*'))}\** \|", line))


def test_the_card_ends_a_command(studies: Any) -> None:
    folder = decide(studies("accuracy"), chosen="frozen")
    made = card(compare(read_study(folder)))
    assert made is not None
    lines = card_lines(made)
    assert closing_lines(read_study(folder))[-len(lines) :] == lines
    assert lines[0] == "Use frozen (the best on dev)"
    assert lines[-1] == f'  heedful predict {folder / "best"} "a new text"'
    assert max(map(cell_len, lines[:-1])) <= 80
    said = " ".join(" ".join(lines).split())
    for what, text, _ in made.lines:
        assert f"{what} {text}".strip().replace("\N{NO-BREAK SPACE}", " ") in said


def test_a_model_of_pairs_asks_for_both_columns(studies: Any) -> None:
    """As the data say, whatever the recipe names and whatever errors are kept."""
    folder = decide(studies("pearson"))
    for path in folder.glob("runs/*/metrics.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "errors": []}))
    made = card(compare(read_study(folder)))
    assert made is not None
    assert made.command.endswith("FILE.csv --text COLUMN --pair COLUMN")


def test_no_other_baseline_is_simpler_than_one_that_is_chosen(studies: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(decide(studies("accuracy"), chosen="tfidf"), tmp_path / "study")
    facts = json.loads((folder / "study.json").read_text())
    for one in facts["settings"]:
        one["baseline"] = one["name"] != "full"
    (folder / "study.json").write_text(json.dumps(facts))
    words = rendered(folder)[0]
    assert "frozen is in " in words  # it is said of a baseline where its model is
    assert "the simpler model" not in words


def test_a_terminal_says_what_the_settings_of_a_search_are(tmp_path: Path) -> None:
    directory = make_study(tmp_path / "study", THREE, settings=SETTINGS)
    assert not [line for line in closing_lines(read_study(directory)) if " = " in line]
    facts = json.loads((directory / "study.json").read_text())
    facts["settings"][0]["values"] = {"training.lr": 1e-4, "model.scratch": True, "training.schedule": "x" * 90}
    (directory / "study.json").write_text(json.dumps(facts))
    lines = closing_lines(read_study(directory))
    said = "".join(lines)
    name = facts["settings"][0]["name"]
    assert f"{name}: training.lr = 0.0001, model.scratch = true, training.schedule =" in said
    assert "x" * 60 in said
    assert max(map(cell_len, lines)) <= 80
