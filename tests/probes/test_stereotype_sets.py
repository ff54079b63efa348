"""CrowS-Pairs and StereoSet files: what is read, what is refused, and the scores made of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.probes.bias.crows_pairs import read_crows_pairs
from heedful.probes.bias.stereoset import Item, StereoSetScores, read_stereoset, stereoset_pairs, stereoset_table
from tests.support.stereotype_samples import STEREOSET

HEADER = ",sent_more,sent_less,stereo_antistereo,bias_type,anon_writer\n"
ROWS = (
    '0,"He said, ""late"".","She said, ""late"".",stereo,gender,a1\n'
    '1,"Old\npeople",Young people,antistereo,age,a2\n'
    "2,He is,She is,antistereo,gender,a1\n"
)


def test_crows_pairs_are_read_with_their_writers(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(HEADER + ROWS, encoding="utf-8")
    pairs = read_crows_pairs(path)
    assert [pair.b for pair in pairs.rows] == ['He said, "late".', "Old\npeople", "He is"]
    assert (pairs.factors, pairs.parts) == (("writer",), ("bias_type", "direction"))
    assert pairs.rows[1].levels == {"pair": "2", "bias_type": "age", "direction": "antistereo", "writer": "a2"}
    path.write_text("sent_more,sent_less,stereo_antistereo,bias_type\nHe,She,stereo,gender\n", encoding="utf-8")
    assert read_crows_pairs(path).factors == ("pair",)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("sent_more,sent_less,bias_type\na,b,gender\n", "no column 'stereo_antistereo'"),
        (HEADER + ROWS + "3,He,She,both,gender,a\n", "line 6, has 'both' as 'stereo_antistereo'"),
        (HEADER + "0,He, ,stereo,gender,a\n", "line 2, has an empty 'sent_less'"),
        (HEADER + "0,He,She,stereo,,a\n", "line 2, has an empty 'bias_type'"),
        (HEADER + ROWS + "3,He,She,stereo\n", "line 6, has 4 cells"),
        (HEADER + '0,"He,She,stereo,gender,a\n', "line 2"),
        (HEADER, "no pairs"),
    ],
)
def test_bad_crows_pairs_are_refused_with_their_line(content: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(heedful.RequestError) as refusal:
        read_crows_pairs(path)
    assert reason in str(refusal.value)
    assert str(path) in str(refusal.value)


def write(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "dev.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_the_table_is_a_mean_over_targets() -> None:
    def item(target: str, kind: str) -> Item:
        return Item("", ("", "", ""), (), {"item": "", "target": target, "bias_type": kind, "task": "intrasentence"})

    items = (item("he", "gender"), item("he", "gender"), item("she", "gender"), item("monk", "religion"))
    values = np.array([[3, 2, 1], [1, 3, 2], [2, 1, 3], [2, 2, 1]], dtype=float)
    scores = StereoSetScores(items, values)
    table = {tuple(row.levels.values()): row for row in stereoset_table(scores)}
    gender = table["gender",]
    assert (gender.items, gender.targets) == (3, 2)
    assert gender.language == pytest.approx(np.mean([np.mean([1, 0.5]), 0]))
    assert gender.stereotype == pytest.approx(np.mean([0.5, 1]))
    assert gender.icat == pytest.approx(0.375 * 0.25 / 0.5)
    assert (table["religion",].stereotype, table["religion",].icat) == (0.5, 1.0)
    assert table[()].stereotype == pytest.approx(np.mean([0.5, 1, 0.5]))


def test_items_are_pairs_and_what_cannot_be_asked_is_said(tmp_path: Path) -> None:
    items = read_stereoset(write(tmp_path, STEREOSET))
    every = stereoset_pairs("dev.json", items, with_following=True)
    assert [row.levels["task"] for row in every.rows] == ["intrasentence"] * 3 + ["intersentence"]
    assert (every.rows[2].a, every.rows[2].b) == ("a woman said", "a doctor said")
    assert every.rows[3].b == (items[3].context, items[3].sentences[0])
    some = stereoset_pairs("dev.json", items, with_following=False)
    assert len(some.rows) == len(some.items) == 3
    assert some.notes[0].startswith("1 of 4 items need a next sentence, and are skipped")
    with pytest.raises(heedful.RequestError, match="all its items need a next sentence"):
        stereoset_pairs("dev.json", items[3:], with_following=False)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda d: d.pop("data"), "key data: is not an object"),
        (lambda d: d["data"].update(intrasentence={}), "key data.intrasentence: is not a list"),
        (lambda d: d["data"].update(intrasentence=[], intersentence=[]), "has no items"),
        (lambda d: d["data"]["intrasentence"].insert(1, "x"), "key data.intrasentence[1].context: must be text"),
        (lambda d: d["data"]["intersentence"][0].pop("target"), "key data.intersentence[0].target: must be text"),
        (lambda d: d["data"]["intrasentence"][0].update(context="x"), "intrasentence[0].context: has no BLANK"),
        (lambda d: d["data"]["intrasentence"][0]["sentences"].pop(), "[0].sentences: an item has one sentence each"),
        (lambda d: d["data"]["intrasentence"][0]["sentences"][0].update(gold_label=1), "sentences[0].gold_label"),
        (lambda d: d["data"]["intrasentence"][0]["sentences"][1].update(gold_label="unrelated"), "[1].gold_label: is"),
        (lambda d: d["data"]["intrasentence"][0]["sentences"][0].update(sentence="the"), "no word where its context"),
    ],
)
def test_bad_stereoset_files_are_refused_with_their_key(
    change: Callable[[dict[str, Any]], object], reason: str, tmp_path: Path
) -> None:
    content = json.loads(json.dumps(STEREOSET))
    change(content)
    path = write(tmp_path, content)
    with pytest.raises(heedful.RequestError) as refusal:
        read_stereoset(path)
    assert reason in str(refusal.value)
    assert str(path) in str(refusal.value)


def test_a_file_that_is_no_json_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(heedful.RequestError, match="line 2"):
        read_stereoset(write(tmp_path, '{"data":\n'))
