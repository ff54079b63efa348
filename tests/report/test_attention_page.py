"""The page of an attention view: what it says, what it holds, and that no token leaves its place."""

import base64
import hashlib
import json
import re
import zlib
from pathlib import Path

import numpy as np
import pytest

from heedful.probes.attention.look import look
from heedful.probes.attention.page import page, quantised
from heedful.probes.attention.views import View
from tests.support.attention_samples import TEXTS, draw_weights, make_attention, make_small, make_view
from tests.support.page_reader import Page

HOSTILE = [
    "</script><script>window.broken = 1</script>",
    "<img src=x onerror=alert(1)>",
    "😀",
    "مرحبا",
    "a\u202eb",
    "<!--",
]


def unpacked(html: str) -> list[dict[str, np.ndarray]]:
    """The numbers as a browser would get them from the page."""
    found = Page(html)
    data = json.loads(found.scripts[0])
    made = []
    for view, packed in zip(data, found.scripts[1:], strict=False):
        content, at = zlib.decompress(base64.b64decode(packed)), 0
        shape = len(view["rows"]), len(view["columns"] or view["rows"])
        maps = {}
        for name, scales in view["scales"].items():
            count = len(scales) * shape[0] * shape[1]
            parts = np.frombuffer(content, np.uint8, count, at).reshape(-1, *shape) / 255
            maps[name] = parts**2 * np.array(scales)[:, None, None]
            at += count
        assert at == len(content)
        made.append(maps)
    return made


def test_the_numbers_on_the_page_are_those_of_the_model(tmp_path: Path) -> None:
    attention = look(make_small(tmp_path), (TEXTS[0], TEXTS[1]), label="good")
    (view,), (maps,) = attention.views, unpacked(page(attention))
    expected = {
        "weights": view.weights.reshape(-1, *view.weights.shape[2:]),
        "rollout": view.rollout,
        "gradient": np.maximum(view.gradient, 0).mean(1),
        "relevance": view.relevance[None],
    }
    assert maps.keys() == expected.keys()
    for name, matrices in expected.items():
        off = np.abs(maps[name] - matrices).max(axis=(1, 2))
        assert (off <= 0.004 * matrices.max(axis=(1, 2)) + 1e-9).all(), name
    html = page(attention)
    text = Page(html).text
    for words in ("3 layers of 3 heads", "a gem of a film", "the score of 'good' by the head 'classify'", "Rollout"):
        assert words in text
    assert "0.4 % of the largest in the same picture" in text
    assert "--arrays" in text


def test_bytes_keep_small_weights() -> None:
    weights = np.array([[1.0, 1e-4, 0.0], [0.5, 1e-3, 0.02]])
    found, largest = quantised(weights)
    assert largest == 1.0
    assert found.dtype == np.uint8
    assert (found[weights > 0] > 0).all()  # in even steps, 1e-3 and 1e-4 would be 0
    assert np.abs((found / 255) ** 2 - weights).max() < 0.004
    nothing, zero = quantised(np.zeros((2, 2)))
    assert (nothing.max(), zero) == (0, 0.0)


def test_the_table_of_heads_needs_no_script(tmp_path: Path) -> None:
    attention = look(make_small(tmp_path), TEXTS[0])
    found = Page(page(attention))
    (view,) = attention.views
    rows = [row for row in found.rows if row[0].startswith("layer")]
    assert len(rows) == 9
    assert rows[5][0] == "layer 2, head 3"
    assert float(rows[5][1]) == pytest.approx(view.summary["entropy"][1, 2], abs=0.006)
    assert float(rows[5][3]) == pytest.approx(view.summary["itself"][1, 2], abs=0.0006)
    assert found.rows[0][1:] == ["entropy", "distance", "itself", "previous", "next", "first", "separators", "gradient"]
    assert "The pictures need JavaScript" in found.text
    pictures = [a for tag, a in found.tags if a.get("id") == "pictures"]
    assert "hidden" in pictures[0]  # until the script has unpacked them


def test_only_its_own_script_runs_and_nothing_is_asked_for(tmp_path: Path) -> None:
    html = page(look(make_small(tmp_path), TEXTS[0]))
    found = Page(html)
    policy = next(a["content"] for a in found.named("meta") if a.get("http-equiv") == "Content-Security-Policy")
    digest = base64.b64encode(hashlib.sha256(found.scripts[-1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    assert re.findall(r"https?://", html) == []
    kinds = [a.get("type") for a in found.named("script")]
    assert kinds == ["application/json", "text/plain", None]


def hostile() -> tuple[View, str]:
    view = make_view(draw_weights(2, 2, len(HOSTILE), len(HOSTILE)), HOSTILE)
    return view, page(make_attention(view, notes=(HOSTILE[0],), text=HOSTILE[1]))


def test_a_token_stays_text() -> None:
    _, html = hostile()
    found = Page(html)
    assert len(found.scripts) == 3
    assert found.named("img") == []
    assert "window.broken = 1</script>" not in html
    tokens = [row[0] for row in json.loads(found.scripts[0])[0]["rows"]]
    assert tokens[:4] == HOSTILE[:4]
    assert tokens[4] == "a\\u202eb"  # what turns the direction of the text is shown, not obeyed
    assert tokens[5] == "<!--"
    assert HOSTILE[0] in found.text
    assert "“<img src=x onerror=alert(1)>”" in found.text


def test_a_memory_and_two_texts_are_views_of_one_page(tmp_path: Path) -> None:
    own = make_view(draw_weights(2, 3, 4, 4), list("abcd"))
    crossed = make_view(draw_weights(2, 3, 4, 7), list("abcd"), list("pqrstuv"), kind="memory")
    html = page(make_attention(own, crossed))
    data = json.loads(Page(html).scripts[0])
    assert [view["title"] for view in data] == ["The text looking at itself", "The text looking at the memory"]
    assert [len(view["columns"] or []) for view in data] == [0, 7]
    assert set(data[1]["summary"]) == {"entropy", "first"}
    assert np.abs(unpacked(html)[1]["weights"].reshape(2, 3, 4, 7) - crossed.weights).max() < 0.004
    assert "4 tokens to 7" in Page(html).text
    apart = page(look(make_small(tmp_path, ("apart",)), ("a gem", "a film")))
    assert [view["title"] for view in json.loads(Page(apart).scripts[0])] == [
        "The first text looking at itself",
        "The second text looking at itself",
    ]


def test_one_token_is_a_page_too() -> None:
    found = Page(page(make_attention(make_view(np.ones((1, 1, 1, 1), np.float32), ["a"]))))
    assert found.rows[0] == ["head", "entropy", "distance", "itself", "first"]
