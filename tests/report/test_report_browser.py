"""The page in a real browser: nothing leaves it, nothing complains, every chart is drawn, at both widths."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from report_samples import make_run, make_study

from heedful.report.run import write_run_report
from heedful.report.study import write_study_report

pytestmark = pytest.mark.full

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
    study = make_study(base / "study", ["negative", "neutral", "positive"], failed=1)
    hostile = make_study(base / "hostile", HOSTILE, settings=dict.fromkeys(HOSTILE[:2], (2.0, 5.0)), seeds=(1, 2))
    for folder in (study, hostile):
        write_study_report(folder)
    return {folder.name: folder / "report.html" for folder in (run, many, numbers, study, hostile)}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["run", "many", "numbers", "study", "hostile"])
def test_the_page(name: str, width: int, scheme: str, browser: Any, reports: dict[str, Path]) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(reports[name].as_uri())
    page.wait_for_selector("html.drawn", timeout=20_000)
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [reports[name].as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    sizes = page.evaluate(
        "[...document.querySelectorAll('.chart')].map(c => { const b = c.querySelector('svg').getBoundingClientRect();"
        " return [b.width, b.height, c.querySelectorAll('.mark-rule, .mark-line, .mark-rect, .mark-symbol').length]; })"
    )
    assert sizes
    assert all(w > 0.8 * (min(width, 736) - 40) and h > 150 and marks > 0 for w, h, marks in sizes)
    assert page.evaluate("window.broken") is None
    ink = page.evaluate("getComputedStyle(document.querySelector('.chart text')).fill")
    light = sum(int(x) for x in ink[4:-1].split(",")[:3]) > 380
    assert light == (scheme == "dark")
    if folder := os.environ.get("HEEDFUL_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}-{width}-{scheme}.png", full_page=True)
    context.close()


def test_another_setting_can_be_picked(browser: Any, reports: dict[str, Path]) -> None:
    page = browser.new_page()
    page.goto(reports["study"].as_uri())
    page.wait_for_selector("html.drawn")
    counts = "[...document.querySelectorAll('#chart-confusion .mark-text text')].map(t => t.textContent).join()"
    before = page.evaluate(counts)
    page.locator("#confusions select").select_option("minilm · frozen")
    page.wait_for_function(f"{counts} !== '{before}'")
    assert len(page.evaluate(counts).split(",")) >= 9
    page.close()


def test_a_hostile_tooltip_is_text(browser: Any, reports: dict[str, Path]) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(reports["hostile"].as_uri())
    page.wait_for_selector("html.drawn")
    page.locator("#chart-confusion .mark-rect path").first.hover(force=True)
    tip = page.wait_for_selector("#vg-tooltip-element.visible", timeout=5_000)
    assert "<script>" in tip.text_content()
    assert page.evaluate("document.querySelectorAll('#vg-tooltip-element img, #vg-tooltip-element script').length") == 0
    assert page.evaluate("window.broken") is None
    page.close()


def test_paper_is_light_even_from_a_dark_screen(browser: Any, reports: dict[str, Path]) -> None:
    page = browser.new_page(color_scheme="dark", viewport={"width": 700, "height": 900})
    page.goto(reports["study"].as_uri())
    page.wait_for_selector("html.drawn")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(34, 38, 43)"
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    page.close()
