"""The page of attention views in a real browser: it is small, quiet, and reads out the numbers of the arrays."""

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_report_browser as pages

from heedful.probes.attention.look import look
from heedful.probes.attention.page import write_page
from heedful.probes.attention.views import Attention
from tests.support.attention_samples import TEXTS, draw_weights, make_attention, make_small, make_view

pytestmark = pytest.mark.full

browser, opened, contrast = pages.browser, pages.opened, pages.contrast
Made = dict[str, tuple[Path, Attention]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    base = tmp_path_factory.mktemp("attention")
    large = make_small(base, layers=12, heads=12, width=96, positions=128, norm="pre", initializer_range=0.15)
    large.max_length = 128
    small = make_small(base, ("apart",))
    crossed = make_view(draw_weights(2, 3, 4, 7), list("abcd"), list("pqrstuv"), kind="memory")
    odd = [*pages.HOSTILE, "😀", "مرحبا"]
    seen = {
        "large": look(large, " ".join(TEXTS * 20), label="good"),
        "apart": look(small, (TEXTS[0], TEXTS[1])),
        "memory": make_attention(make_view(draw_weights(2, 3, 4, 4), list("abcd")), crossed),
        "hostile": make_attention(make_view(draw_weights(2, 2, 5, 5), odd), text=odd[0], notes=tuple(odd)),
        "single": make_attention(make_view(np.ones((1, 1, 1, 1), np.float32), ["a"])),
    }
    for name, attention in seen.items():
        write_page(attention, base / f"{name}.html")
    return {name: (base / f"{name}.html", attention) for name, attention in seen.items()}


def shown(page: Any) -> float:
    return float(page.locator("#cell").get_attribute("data-value"))


def hover(page: Any, row: int, column: int, like: np.ndarray) -> None:
    """The middle of a cell; where the picture begins is asked of the page's own size of it."""
    canvas = page.locator("#matrix")
    canvas.scroll_into_view_if_needed()
    t, s = like.shape
    page.evaluate("document.querySelector('#matrix').scrollIntoView({ block: 'center' })")
    box = canvas.bounding_box()
    # The labels take what the cells leave; cells are square, of whole points.
    cell = next(c for c in range(44, 3, -1) if s * c <= box["width"] - 10 and t * c <= box["height"] - 10)
    x = box["x"] + box["width"] - (s - column - 0.5) * cell
    y = box["y"] + box["height"] - (t - row - 0.5) * cell
    page.mouse.move(x, y)
    wait_for(page, row, column)


def wait_for(page: Any, row: int, column: int) -> None:
    """Until the weight of this place is read out."""
    page.locator("#cell", has_text=re.compile(rf"\({row + 1}\) → .* \({column + 1}\): ")).wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["large", "apart", "memory", "hostile", "single"])
def test_the_page(name: str, width: int, scheme: str, browser: Any, made: Made) -> None:
    path, attention = made[name]
    page, said, asked = opened(browser, path, width, scheme)
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    view = attention.views[0]
    assert page.locator("#grid canvas").count() == view.weights.shape[0] * view.weights.shape[1]
    assert page.locator("#failed").is_hidden()
    assert page.evaluate("window.broken") is None
    # What is drawn is not one colour, and its ground is that of the scheme.
    count = "(c => new Set(new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size)"
    if name != "single":
        assert page.evaluate(f"{count}(document.querySelector('#matrix'))") > 20
        assert page.evaluate(f"[...document.querySelectorAll('#grid canvas')].every(c => {count}(c) > 3)")
    if folder := os.environ.get("HEEDFUL_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"attention-{name}-{width}-{scheme}.png", full_page=True)
    page.close()


def test_a_long_text_in_a_large_model_is_a_small_page(browser: Any, made: Made) -> None:
    path, attention = made["large"]
    assert attention.views[0].weights.shape == (12, 12, 128, 128)
    assert attention.views[0].gradient is not None
    assert path.stat().st_size < 5_000_000
    page, _, _ = opened(browser, path, 1280)
    assert page.locator("#rows button").count() == 128
    page.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_a_clicked_head_is_shown_and_reads_its_numbers(width: int, browser: Any, made: Made) -> None:
    path, attention = made["large"]
    (view,) = attention.views
    page, said, _ = opened(browser, path, width)
    page.locator('#grid [data-layer="4"][data-head="6"]').click()
    assert page.locator("#one-head").text_content() == "Layer 5, head 7"
    assert page.locator('#grid [aria-pressed="true"]').get_attribute("aria-label") == "Layer 5, head 7"
    weights = view.weights[4, 6]
    other = view.weights[0, 0]
    for row, column in ((0, 0), (3, 40), (70, 5), (127, 60)):
        hover(page, row, column, weights)
        assert abs(shown(page) - weights[row, column]) <= 0.004 * weights.max() + 1e-6
    assert abs(shown(page) - other[127, 60]) > 0.004 * weights.max()  # another head would have been noticed
    assert page.locator("#cell").text_content().startswith(view.rows[127].text)
    page.locator('#grid [data-layer="2"].layer').click()
    assert page.locator("#one-head").text_content() == "Layer 3, mean of its heads"
    assert abs(shown(page) - view.weights[2, :, 127, 60].mean()) <= 0.008 * view.weights[2].max()
    assert said == []
    page.close()


def test_every_map_is_that_of_the_arrays(browser: Any, made: Made) -> None:
    path, attention = made["large"]
    (view,) = attention.views
    page, said, _ = opened(browser, path, 1280)
    for name, array in (("rollout", view.rollout), ("gradient", view.by_layer)):
        page.locator("#map").select_option(name)
        for layer in (0, 7, 11):
            page.locator("#layer").select_option(index=layer)
            column = int(array[layer, 0].argmax())
            hover(page, 0, column, array[layer])
            assert abs(shown(page) - array[layer, 0, column]) <= 0.004 * array[layer].max()
            assert f" {view.rows[column].text} " in page.locator("#mostly").text_content()
    page.locator("#map").select_option("relevance")
    hover(page, 0, 9, view.relevance)
    assert abs(shown(page) - view.relevance[0, 9]) <= 0.004 * view.relevance.max()
    assert "the score of 'good'" in page.locator("#measured").text_content()
    assert said == []
    page.close()


def test_all_of_it_without_a_mouse(browser: Any, made: Made) -> None:
    path, attention = made["large"]
    (view,) = attention.views
    page, said, _ = opened(browser, path, 1280)
    assert page.locator('#grid button[tabindex="0"]').count() == 1
    page.locator('#grid button[tabindex="0"]').focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert page.locator("#one-head").text_content() == "Layer 3, head 2"
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Layer 3, head 2"
    for key in ("ArrowLeft", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
    assert page.locator("#one-head").text_content() == "Layer 3, mean of its heads"
    page.keyboard.press("ArrowRight")
    weights = view.weights[2, 0]
    page.locator('#rows button[tabindex="0"]').focus()
    page.keyboard.press("ArrowRight")
    wait_for(page, 2, 1)
    best = int(weights[2].argmax())
    assert page.locator("#mostly").text_content().startswith(f"{view.rows[2].text} → {view.rows[best].text} ")
    page.locator("#matrix").focus()
    for key in ("ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    wait_for(page, 3, 2)
    assert abs(shown(page) - weights[3, 2]) <= 0.004 * weights.max() + 1e-6
    assert said == []
    page.close()


def test_the_table_sorts_and_opens_heads(browser: Any, made: Made) -> None:
    path, attention = made["large"]
    (view,) = attention.views
    page, said, _ = opened(browser, path, 1280)
    first = page.locator("tbody tr").first
    title = page.locator("thead th", has_text="entropy")
    title.locator("button").click()
    assert title.get_attribute("aria-sort") == "descending"
    entropies = [float(x) for x in page.locator("tbody tr td:nth-child(2)").all_text_contents()]
    assert entropies == sorted(entropies, reverse=True)
    title.locator("button").click()
    layer, head = np.unravel_index(view.summary["entropy"].argmin(), (12, 12))
    name = f"layer {layer + 1}, head {head + 1}"
    assert float(first.locator("td").first.text_content()) == pytest.approx(view.summary["entropy"].min(), abs=0.006)
    page.locator("tbody button", has_text=name).first.click()
    assert page.locator("#one-head").text_content() == name.capitalize()
    assert said == []
    page.close()


@pytest.mark.parametrize("name", ["memory", "apart"])
def test_the_second_view_is_a_choice_away(name: str, browser: Any, made: Made) -> None:
    path, attention = made[name]
    page, said, _ = opened(browser, path, 1280)
    second = attention.views[1]
    page.locator("#view").select_option(second.title)
    hover(page, 2, 1, second.weights[0, 0])
    assert abs(shown(page) - second.weights[0, 0, 2, 1]) <= 0.004 * second.weights[0, 0].max()
    assert page.locator("#columns span").count() == (7 if name == "memory" else 0)
    assert page.locator("[data-table]:visible").count() == 1
    assert second.title in page.locator("[data-table]:visible caption").text_content()
    assert said == []
    page.close()


def test_hostile_tokens_are_text(browser: Any, made: Made) -> None:
    page, said, _ = opened(browser, made["hostile"][0], 390)
    assert page.locator("#rows button").all_text_contents() == [*pages.HOSTILE, "😀", "مرحبا"]
    page.locator("#rows button").nth(1).hover()
    wait_for(page, 1, 0)
    assert page.locator("#mostly").text_content().startswith("<img src=x onerror='window.broken = 2'> → ")
    assert page.evaluate("document.querySelectorAll('img, #rows script').length") == 0
    assert page.evaluate("window.broken") is None
    assert said == []
    page.close()


def test_without_scripts_there_is_a_sentence_and_the_table(browser: Any, made: Made) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(made["apart"][0].as_uri())
    assert page.locator("noscript p").is_visible()
    assert page.locator("#pictures").is_hidden()
    assert page.locator("[data-table]:visible").count() == 2
    assert page.get_by_text("layer 3, head 3").count() == 2
    context.close()


@pytest.mark.parametrize("broken", ["delete window.DecompressionStream", "window.atob = () => 'x'"])
def test_pictures_that_cannot_be_unpacked_are_said(broken: str, browser: Any, made: Made) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(broken)
    page.goto(made["apart"][0].as_uri())
    page.wait_for_selector("html.drawn")
    words = "no DecompressionStream" if "delete" in broken else "could not be unpacked"
    assert words in page.locator("#failed").text_content()
    assert page.locator("#failed").is_visible()
    assert page.locator("[data-table]:visible").count() == 2
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_words_stand_out(scheme: str, browser: Any, made: Made) -> None:
    page, _, _ = opened(browser, made["large"][0], 1280, scheme)
    read = [row for row in page.evaluate(pages.READ) if row[1].startswith("rgb(")]
    assert len(read) > 1000
    assert [(words, a, b) for a, b, words in read if contrast(a, b) < 4.5] == []
    # The darkest token: what is not its tint is the ground.
    colour = "getComputedStyle(document.documentElement).getPropertyValue(n).match(/[0-9a-f]{2}/g)"
    tint, ground, ink = page.evaluate(f"['--tint', '--paper', '--ink'].map(n => {colour}.map(x => parseInt(x, 16)))")
    mixed = [round(0.85 * a + 0.15 * b) for a, b in zip(tint, ground, strict=True)]
    assert contrast(str(mixed), str(ink)) > 4.5
    page.close()
