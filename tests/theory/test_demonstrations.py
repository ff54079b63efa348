"""Every demonstration: each of its checks over 1,000 draws, and the pages that are made of them."""

import importlib
import re
from functools import cache
from pathlib import Path

import pytest
import torch

from heedful.theory import demonstrations as folder
from heedful.theory import pages
from heedful.theory.catalog import CHAPTERS, demonstrations, run
from heedful.theory.demonstration import DRAWS, Check, Demonstration, Shown, measured, number, outcome

DOCS = Path(__file__).parents[2] / "docs" / "theory"
ALL = {d.name: d for d in demonstrations()}
each = pytest.mark.parametrize("name", ALL)


@cache
def shown(name: str) -> Shown:
    return run([ALL[name]])[0][1]


@each
def test_every_check_comes_out_as_it_should(name: str) -> None:
    result = shown(name)
    assert result.checks
    assert all(check.expected == "holds" for check in result.checks)
    for check in (*result.checks, *result.limits):
        assert check.draws >= DRAWS, check.statement
        assert check.deviations.dtype == torch.float64, check.statement
        assert check.passed, f"{check.statement} {outcome(check)}: {measured(check, exactly=True)}"
    assert result.passed


@pytest.mark.full
@each
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_other_draws_change_nothing(name: str, seed: int) -> None:
    result = run([ALL[name]], 3000, seed)[0][1]
    failed = [check.statement for check in (*result.checks, *result.limits) if not check.passed]
    assert not failed


@each
def test_it_says_where_it_ends_with_a_counterexample(name: str) -> None:
    """A claim that no check can break would prove nothing: beyond its limits the same yardstick finds it broken."""
    assert ALL[name].ends
    broken = [check for check in shown(name).limits if check.expected == "fails"]
    assert broken
    for check in broken:
        assert not Check(check.statement, check.deviations, check.tolerance).passed


@each
def test_it_is_written_for_a_reader(name: str) -> None:
    d = ALL[name]
    assert d.reason
    assert d.chapter in CHAPTERS
    assert len(d.title) <= 72
    assert pages.figures([(d, shown(name))])
    assert all(figure.name.startswith(name) for figure in pages.figures([(d, shown(name))]))


@each
def test_every_statement_of_its_page_is_checked(name: str) -> None:
    page = importlib.import_module(f"{folder.__name__}.{name.replace('-', '_')}").PAGE
    result = shown(name)
    for section, checks in (("Checks", result.checks), ("Checks of the limits", result.limits)):
        templates = [re.sub(r"\\\$\\?\{?\w+\\?\}?", ".+", re.escape(text)) for text in page.sentences[section].values()]
        assert all(any(re.fullmatch(template, check.statement) for check in checks) for template in templates)
        assert all(any(re.fullmatch(template, check.statement) for template in templates) for check in checks)


def test_the_pages_in_the_docs_are_what_the_demonstrations_say() -> None:
    runs = [(d, shown(d.name)) for d in demonstrations()]
    made = pages.texts(runs)
    assert {file.name for file in DOCS.glob("*.md")} == set(made)
    for file, text in made.items():
        assert (DOCS / file).read_text(encoding="utf-8") == text, f"regenerate it: heedful theory --markdown {DOCS}"
    drawn = [figure.name for figure in pages.figures(runs)]
    assert len(drawn) == len(set(drawn))
    assert {file.stem for file in (DOCS / pages.PICTURES).glob("*.png")} == set(drawn)
    assert sum(file.stat().st_size for file in DOCS.rglob("*")) < 1_500_000


def test_a_wrong_number_is_noticed() -> None:
    """The negative control of all the others: each way in which a check can go wrong."""
    good, bad = torch.full((1000,), 1e-12), torch.full((1000,), 0.5)
    one = good.clone()
    one[17] = 0.5
    nan = good.clone()
    nan[3] = float("nan")
    assert Check("", good, 1e-9).passed
    for deviations in (bad, one, nan):
        check = Check("", deviations, 1e-9)
        assert not check.passed
        assert outcome(check) == "DOES NOT HOLD"
        assert "are off by more than 1e−9" in measured(check, exactly=False)
    assert not Check("", good, 1e-9, "fails").passed
    assert not Check("", one, 1e-9, "fails").passed  # one counterexample is not a limit
    assert Check("", bad, 1e-9, "fails").passed
    assert [number(x) for x in (-0.032, 2.5e-7, 1e5, 0.0)] == ["−0.032", "2.5e−7", "1e5", "0"]
    assert measured(Check("", good, 1e-9), exactly=False) == "1,000 draws; none is off by more than 1e−9"
    broken = Shown((Check("", one, 1e-9),), (), ())
    assert not broken.passed
    assert "1 failed" in pages.texts([(_plain(broken), broken)])[pages.INDEX]


def _plain(result: Shown) -> Demonstration:
    return Demonstration("plain", "Plain", "Plain", "A claim.", ("Because.",), ("Here.",), lambda _, __: result)
