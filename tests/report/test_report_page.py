"""The page asks for nothing, runs nothing but its own two scripts, and no text of the user's can change that."""

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

from heedful.report.page import charts
from heedful.report.page.markdown import escape
from heedful.report.page.write import json_in_html
from heedful.report.run import write_run_report
from heedful.report.study import write_study_report
from tests.support.page_reader import Page
from tests.support.report_samples import make_run, make_study, write_json

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    '"><svg onload=alert(3)>',
    "{{ 7 * 7 }} | `code` [link](http://evil.example) <!--",
]
TEXT = "<script>alert(4)</script> & <b>bold</b> | a pipe\nand a line \u2028 javascript:alert(5) ]]>"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    base = tmp_path_factory.mktemp("hostile")
    run = make_run(base / "run", HOSTILE, text=TEXT, name=HOSTILE[0])
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["data"]["notes"] = [HOSTILE[1]]
    manifest["command"] = TEXT
    manifest["recipe"]["data"]["train"] = HOSTILE[2]
    write_json(run / "manifest.json", manifest)
    write_run_report(run)
    study = make_study(
        base / "study", HOSTILE, settings=dict.fromkeys(HOSTILE[:2], (2.0, 5.0)), seeds=(1, 2), text=TEXT
    )
    write_study_report(study)
    return [run, study]


def test_hostile_text_is_text(hostile: list[Path]) -> None:
    for folder in hostile:
        page = Page((folder / "report.html").read_text(encoding="utf-8"))
        assert len(page.scripts) == 3
        assert page.named("img") == []
        assert page.named("b") == []
        assert all(not name.startswith("on") for _, attributes in page.tags for name in attributes)
        assert HOSTILE[1] in page.text
        labels = json.dumps(page.specs, ensure_ascii=False)
        assert json.dumps(HOSTILE[0])[1:-1] in labels  # whole, inside the JSON
        assert "49" not in page.named("title")
        assert "</script" not in page.scripts[0]


def test_hostile_text_in_markdown(hostile: list[Path]) -> None:
    for folder in hostile:
        text = (folder / "report.md").read_text(encoding="utf-8")
        outside_code = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        assert "<" not in outside_code
        assert not re.search(r"(?<!\\)\]\(http", outside_code)
        widths: list[int] = []
        for line in text.splitlines():
            if line.startswith("|"):
                widths.append(len(re.findall(r"(?<!\\)\|", line)))
            elif widths:
                assert len(set(widths)) == 1
                widths = []


def test_escaped_markdown() -> None:
    assert escape("a|b *c* <d> & `e`") == r"a\|b \*c\* &lt;d&gt; &amp; \`e\`"
    assert escape("1. no list") == r"1\. no list"
    assert escape("- no list") == r"\- no list"
    assert escape("0.9123 ± 0.0061") == "0.9123 ± 0.0061"


def test_json_survives_the_page() -> None:
    for text in (*HOSTILE, TEXT, "</SCRIPT >", "<!--<script"):
        written = json_in_html({"x": text})
        assert "<" not in written
        assert json.loads(written) == {"x": text}


def test_nothing_external(hostile: list[Path]) -> None:
    for folder in hostile:
        html = (folder / "report.html").read_text(encoding="utf-8")
        page = Page(html)
        for tag, attributes in page.tags:
            for name in ("src", "href", "srcset", "action", "data", "poster", "background"):
                value = attributes.get(name)
                assert value is None or value.startswith(("#", "data:", "runs/")), (tag, name, value)
        assert "url(" not in page.styles[0]
        assert "@import" not in page.styles[0]
        assert "http" not in json.dumps(list(page.specs)) + page.scripts[2]
        assert '"$schema"' not in page.scripts[0]
        assert page.scripts[1].count("window.vegaEmbed") == 1


def test_the_policy_names_the_two_scripts(hostile: list[Path]) -> None:
    page = Page((hostile[0] / "report.html").read_text(encoding="utf-8"))
    policy = next(m["content"] or "" for m in page.named("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none';")
    for script in page.scripts[1:]:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "unsafe-eval" not in policy


def test_tables_are_tables(hostile: list[Path]) -> None:
    page = Page((hostile[0] / "report.html").read_text(encoding="utf-8"))
    scopes = [a.get("scope") for a in page.named("th")]
    assert set(scopes) == {"col", "row"}
    assert len(page.named("caption")) >= 3
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    anchors = [a["href"][1:] for a in page.named("a") if (a["href"] or "").startswith("#")]
    assert set(anchors) <= set(ids)
    assert (hostile[0] / "report.html").stat().st_size < 1_500_000


def test_a_long_log_is_thinned() -> None:
    rows = [{"step": i, "loss": float(i % 7)} for i in range(10_000)]
    found = charts.thinned(rows, "step", "loss")
    assert len(found) == 400
    assert found[-1]["step"] == 9_999
    assert sum(r["loss"] for r in found) / 400 == pytest.approx(sum(r["loss"] for r in rows) / 10_000)
    assert charts.thinned(rows[:3], "step", "loss") == rows[:3]


def test_more_rows_than_a_default_chart_may_have() -> None:
    labels = [str(i) for i in range(80)]
    rows = [{"gold": g, "predicted": p, "n": 1, "share": 0.5} for g in labels for p in labels]
    assert charts.for_page(charts.confusion(rows, labels))["width"] == "container"


def test_a_long_label_of_emoji_can_be_drawn() -> None:
    """The renderer shortens labels, and would cut one of these in half."""
    label = "customer is happy " + "\N{GRINNING FACE}" * 30
    rows = [{"setting": label, "epoch": e, "score": 0.5, "low": 0.4, "high": 0.6, "seeds": 2} for e in (1, 2)]
    drawn = charts.png(charts.bands(rows, "epoch", "accuracy", [label], None))
    assert drawn.startswith(b"\x89PNG")
