"""The page in a real browser: nothing leaves it, nothing complains, all charts are drawn, all links lead somewhere."""

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heedful.probes.bias.ask import ask
from heedful.probes.bias.findings import findings
from heedful.probes.bias.report import write_bias_report
from heedful.report.run import write_run_report
from heedful.report.study import write_reports, write_study_report
from heedful.theory.catalog import demonstrations
from heedful.theory.catalog import run as run_demonstrations
from heedful.theory.pages import write_page
from tests.support.bias_samples import Planted, crossed, subject
from tests.support.large_samples import make_comparison, make_search
from tests.support.report_samples import make_run, make_study

pytestmark = pytest.mark.full

Opened = tuple[Any, list[str], list[str]]
HOSTILE = ["</script><script>window.broken = 1</script>", "<img src=x onerror='window.broken = 2'>", "plain"]


@pytest.fixture(scope="module")
def browser() -> Any:
    playwright = pytest.importorskip("playwright.sync_api")
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium here")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("pages")
    run = make_run(base / "run", ["anger", "fear", "joy", "love", "sadness", "surprise"])
    many = make_run(base / "many", [f"intent number {i}" for i in range(40)], n=600, skill=4.0)
    numbers = make_run(base / "numbers", None)
    for folder in (run, many, numbers):
        write_run_report(folder)
    study = make_study(base / "study", ["negative", "neutral", "positive"], failed=1, tested=True)
    (study / "best").mkdir()
    write_reports(study)
    hostile = make_study(base / "hostile", HOSTILE, settings=dict.fromkeys(HOSTILE[:2], (2.0, 5.0)), seeds=(1, 2))
    large, search = make_comparison(base / "large"), make_search(base / "search")
    write_run_report(large / "runs" / "setting0-seed1")
    for folder in (hostile, large, search):
        write_study_report(folder)
    pages = {folder.name: folder / "report.html" for folder in (run, many, numbers, study, hostile, large, search)}
    write_page(run_demonstrations(demonstrations()), base / "theory.html")
    return {**pages, "theory": base / "theory.html", "bias": write_bias(base / "bias")}


def write_bias(folder: Path) -> Path:
    """Two models on two sets, with names and levels that would be markup, and a set of two pairs that says nothing."""
    whole = crossed(4, 5, 4)
    rows = tuple(replace(row, levels={**row.levels, "profession": HOSTILE[0]}) if i % 5 == 0 else row
                 for i, row in enumerate(whole.rows))  # fmt: skip
    sets = (replace(whole, name=HOSTILE[1], rows=rows), replace(whole, name="few", rows=whole.rows[:2], controls=()))
    subjects = [
        subject(HOSTILE[0], *(Planted(0.1, seed) for seed in (0, 1)), random=True),
        subject("other", Planted(0.0)),
    ]
    folder.mkdir()
    facts = {"format": 1, "sets": [findings(one, [ask(s, one) for s in subjects]) for one in sets]}
    write_bias_report(facts, folder)
    return folder / "report.html"


def opened(browser: Any, path: Path, width: int, scheme: str = "light") -> Opened:
    """The page when all is drawn, what it has said to the console, and what it has asked for."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("html.drawn", timeout=20_000)
    return page, said, asked


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["run", "many", "numbers", "study", "hostile", "large", "search", "theory", "bias"])
def test_the_page(name: str, width: int, scheme: str, browser: Any, reports: dict[str, Path]) -> None:
    page, said, asked = opened(browser, reports[name], width, scheme)
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [reports[name].as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    sizes = page.evaluate(
        "[...document.querySelectorAll('.chart')].map(c => { const b = c.querySelector('svg').getBoundingClientRect();"
        " return [b.width, b.height, c.querySelectorAll('.mark-rule, .mark-line, .mark-rect, .mark-symbol').length]; })"
    )
    assert sizes
    assert all(w > 0.8 * (min(width, 480) - 40) and h > 100 and marks > 0 for w, h, marks in sizes)
    assert page.evaluate("window.broken") is None
    ink = page.evaluate("getComputedStyle(document.querySelector('.chart text')).fill")
    light = sum(int(x) for x in ink[4:-1].split(",")[:3]) > 380
    assert light == (scheme == "dark")
    if folder := os.environ.get("HEEDFUL_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}-{width}-{scheme}.png", full_page=True)
    page.close()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["study", "large", "search"])
def test_every_link_leads_to_its_section(name: str, width: int, browser: Any, reports: dict[str, Path]) -> None:
    page, said, _ = opened(browser, reports[name], width)
    links = page.locator("nav a")
    titles = links.all_text_contents()
    assert len(titles) >= 10
    for i, title in enumerate(titles):
        page.evaluate("window.scrollTo(0, 0)")
        links.nth(i).click()
        section = page.evaluate("document.querySelector(location.hash).querySelector('h2').textContent")
        assert section == title
        place = page.evaluate("document.querySelector(location.hash).getBoundingClientRect().top")
        at_the_end = page.evaluate("innerHeight + scrollY >= document.documentElement.scrollHeight - 2")
        assert 0 <= place < 900 if at_the_end else abs(place) < 2
    assert said == []
    page.close()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["study", "large", "search"])
def test_every_fold_opens(name: str, width: int, browser: Any, reports: dict[str, Path]) -> None:
    page, said, _ = opened(browser, reports[name], width)
    folds = page.locator("details")
    assert folds.count() >= 6
    assert page.locator("details[open]").count() == 0
    for i in range(folds.count()):
        closed = folds.nth(i).bounding_box()["height"]
        folds.nth(i).locator("> summary").click()
        assert folds.nth(i).bounding_box()["height"] > closed + 30
    assert page.locator("details[open]").count() == folds.count()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert said == []
    page.close()


SHOWN = "(e => [...e.querySelectorAll('figure')].filter(f => getComputedStyle(f).visibility === 'visible')"
SHOWN += ".map(f => f.querySelector('svg').innerHTML).join())"


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["study", "large"])
def test_every_choice_changes_its_chart(name: str, width: int, browser: Any, reports: dict[str, Path]) -> None:
    page, said, _ = opened(browser, reports[name], width)
    assert page.locator("select").count() == 3
    for part in ("cost", "confusions", "calibration"):
        section = page.locator(f"#{part}")
        choice = section.locator("select")
        options = choice.locator("option").all_text_contents()
        assert len(options) >= 3
        for option in options[1:4]:
            before = section.evaluate(SHOWN)
            choice.select_option(option)
            page.wait_for_function(f"([e, before]) => {SHOWN}(e) !== before", arg=[section.element_handle(), before])
        assert section.locator("svg:visible").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert said == []
    page.close()


def test_another_setting_is_the_one_that_was_picked(browser: Any, reports: dict[str, Path]) -> None:
    page, _, _ = opened(browser, reports["study"], 1280)
    counts = (
        "[...document.querySelectorAll('#chart-confusion .mark-text.role-mark text')].map(t => t.textContent).join()"
    )
    before = page.evaluate(counts)
    page.locator("#confusions select").select_option("minilm · frozen")
    page.wait_for_function(f"{counts} !== '{before}'")
    page.get_by_text("minilm · frozen as a table").click()
    cells = page.locator("#confusions details[open] td").all_text_contents()
    assert page.evaluate(counts).split(",") == cells
    page.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_a_run_is_a_click_away(width: int, browser: Any, reports: dict[str, Path]) -> None:
    page, said, asked = opened(browser, reports["study"], width)
    links = page.locator("#runs tbody a")
    assert links.count() == 8  # the ninth run has failed
    for i in (0, 7):
        name = links.nth(i).text_content()
        links.nth(i).click()
        page.wait_for_selector("html.drawn")
        assert page.locator("h1").text_content() == "A run on reviews"
        assert page.locator(".subtitle").text_content().endswith(f"seed {name[-1]}")
        assert page.url == (reports["study"].parent / "runs" / name / "report.html").as_uri()
        page.go_back()
        page.wait_for_selector("html.drawn")
    assert said == []
    assert all(url.startswith(("data:", reports["study"].parent.as_uri())) for url in asked)
    page.close()


def test_a_hostile_tooltip_is_text(browser: Any, reports: dict[str, Path]) -> None:
    page, _, _ = opened(browser, reports["hostile"], 1280)
    page.locator("#chart-confusion .mark-rect path").first.hover(force=True)
    tip = page.wait_for_selector("#vg-tooltip-element.visible", timeout=5_000)
    assert "<script>" in tip.text_content()
    assert page.evaluate("document.querySelectorAll('#vg-tooltip-element img, #vg-tooltip-element script').length") == 0
    assert page.evaluate("window.broken") is None
    page.close()


def test_paper_is_light_and_short_even_from_a_dark_screen(browser: Any, reports: dict[str, Path]) -> None:
    page, said, _ = opened(browser, reports["study"], 700, "dark")
    assert page.locator("#cost figure:visible").count() == 1
    pages = page.pdf(prefer_css_page_size=True).count(b"/Type /Page\n")
    assert 1 <= pages <= 6
    page.emulate_media(media="print")
    assert page.locator("#cost figure:visible").count() == 1
    assert page.locator("details:visible").count() == 0  # what is folded away is not printed
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(34, 38, 43)"
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    assert said == []
    page.close()


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1280, 800)])
def test_the_card_is_on_the_first_screen(width: int, height: int, browser: Any, reports: dict[str, Path]) -> None:
    page, _, _ = opened(browser, reports["study"], width)
    for name in (".card", "#chart-leaderboard svg")[: 1 if width < 500 else 2]:
        box = page.locator(name).bounding_box()
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= height
    assert "Use minilm · full" in page.locator(".card h2").text_content()
    page.locator("[data-copy]").click()
    page.close()


READ = """[...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && [...e.childNodes].some(
  n => n.nodeType === 3 && n.textContent.trim()) && !e.closest('script, style, svg, select')).map(e => {
  let back = e; while (back && getComputedStyle(back).backgroundColor === 'rgba(0, 0, 0, 0)') back = back.parentElement;
  const under = getComputedStyle(back || document.body).backgroundColor;
  return [getComputedStyle(e).color, under, e.textContent.slice(0, 40)]; })"""


def contrast(a: str, b: str) -> float:
    """WCAG's ratio of two colours as a browser writes them."""

    def light(colour: str) -> float:
        parts = [int(x) / 255 for x in re.findall(r"\d+", colour)[:3]]
        linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, bright = sorted((light(a), light(b)))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["run", "study", "large"])
def test_all_words_stand_out(name: str, scheme: str, browser: Any, reports: dict[str, Path]) -> None:
    page, _, _ = opened(browser, reports[name], 1280, scheme)
    page.evaluate("document.querySelectorAll('details').forEach(d => (d.open = true))")
    read = page.evaluate(READ)
    assert len(read) > 100
    assert [(words, round(contrast(a, b), 2)) for a, b, words in read if contrast(a, b) < 4.5] == []
    page.close()


def test_words_of_the_trade_are_explained_without_a_mouse(browser: Any, reports: dict[str, Path]) -> None:
    page, said, _ = opened(browser, reports["study"], 390)
    term = page.locator("#classes .term", has_text="recall")
    term.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")  # now it was reached by the keyboard
    shown = term.evaluate("e => getComputedStyle(e, '::after').content")
    assert "Of the examples that have this class" in shown
    meaning = page.locator(f"#{term.get_attribute('aria-describedby')}")
    assert meaning.text_content() in shown
    page.keyboard.press("Enter")
    assert meaning.evaluate("e => e.getBoundingClientRect().top < innerHeight")
    assert said == []
    page.close()


def test_whoever_does_not_see_a_chart_hears_its_caption(browser: Any, reports: dict[str, Path]) -> None:
    page, _, _ = opened(browser, reports["study"], 1280)
    for place in page.locator("[data-chart]").all():
        caption = page.locator(f"#{place.get_attribute('aria-labelledby')}").text_content()
        assert place.get_attribute("role") in ("img", "graphics-document")
        assert place.get_attribute("aria-label") in (None, caption)
        assert caption
    page.close()
