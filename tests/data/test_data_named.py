"""Named sets: from a folder in the real layouts, from a hub that is not there, from the package."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import huggingface_hub
import pyarrow
import pyarrow.parquet
import pytest
from huggingface_hub import errors

from heedful.data.examples import load_dataset
from heedful.data.named import NAMED, where_from
from heedful.errors import RequestError, WorkError
from tests.support.small_folder import lines, make_folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEEDFUL_DATA", str(tmp_path / "data"))
    return make_folder(tmp_path / "data")


def test_where_a_set_is_looked_for_is_said_truthfully(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_folder(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("data", "~/data"):
        monkeypatch.setenv("HEEDFUL_DATA", value)
        assert where_from(NAMED["sst2"]) == (str(tmp_path / "data" / "sst2"), True)
        assert len(load_dataset(name="sst2").train) == 24
    monkeypatch.setenv("HEEDFUL_DATA", "~/nothing")
    with pytest.raises(RequestError, match=rf"HEEDFUL_DATA=~/nothing \(that is {tmp_path}/nothing\) is not a folder"):
        load_dataset(name="sst2")
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("HEEDFUL_DATA", "empty")
    with pytest.raises(RequestError, match=rf"{tmp_path}/empty has no cfimdb/cfimdb-train\.txt\) and not on the hub"):
        load_dataset(name="cfimdb")
    monkeypatch.delenv("HEEDFUL_DATA")
    with pytest.raises(RequestError, match=r"cfimdb is not here \(HEEDFUL_DATA is not set\)"):
        load_dataset(name="cfimdb")


def sizes(dataset: Any) -> dict[str, int]:
    return {name: len(examples) for name, examples in dataset.splits().items()}


def test_sets_with_true_test_labels_keep_their_splits(folder: Path) -> None:
    sst2 = load_dataset(name="sst2")
    assert sizes(sst2) == {"train": 24, "dev": 6, "test": 8}
    assert sst2.labels == ("negative", "positive")
    assert sst2.train.texts[1] == "train film 1 . 'quoted \" oddly"
    assert sst2.train.labels is not None
    assert sst2.train.labels[:3] == ["negative", "positive", "negative"]
    assert sst2.train.rows == list(range(1, 25))
    assert "stsa.binary.train has 24 rows, where 6,920 are published." in sst2.notes
    assert sst2.licence == "MIT"
    sst5 = load_dataset(name="sst5")
    assert sst5.labels == ("very negative", "negative", "neutral", "positive", "very positive")
    assert sst5.train.texts[4] == "train film 4 ||| bars"
    assert sst5.train.labels is not None
    assert sst5.train.labels[4] == "very positive"


@pytest.mark.parametrize(
    ("name", "train", "test"), [("rte", 24, 6), ("cfimdb", 24, 6), ("mnli", 30, 9), ("qnli", 20, 6)]
)
def test_hidden_test_labels_make_the_official_dev_the_test(folder: Path, name: str, train: int, test: int) -> None:
    dataset = load_dataset(name=name)
    dev = round(train / 10)
    assert sizes(dataset) == {"train": train - dev, "dev": dev, "test": test}
    assert dataset.hidden == ()
    assert dataset.test is not None
    assert dataset.dev is not None
    assert dataset.test.labels is not None
    assert set(dataset.test.labels) == set(dataset.labels)
    assert all(text.startswith(dataset.train.texts[0].split(" ")[0]) for text in dataset.dev.texts)
    assert any(note.startswith("test: the official dev split") for note in dataset.notes)
    assert load_dataset(name=name) == dataset


def test_official_splits_on_request(folder: Path) -> None:
    for name in ("rte", "cfimdb"):
        dataset = load_dataset(name=name, options={"splits": "official"})
        assert sizes(dataset) == {"train": 24, "dev": 6, "test": 8}
        assert dataset.hidden == ("test",)
        assert dataset.test is not None
        assert dataset.test.labels is None
    with pytest.raises(RequestError, match="this copy of mnli has no test split"):
        load_dataset(name="mnli", options={"splits": "official"})
    with pytest.raises(RequestError, match="rte has no option splits = 'mine'"):
        load_dataset(name="rte", options={"splits": "mine"})


def test_rte_is_read_without_quoting_and_sick_without_carriage_returns(folder: Path) -> None:
    rte = load_dataset(name="rte", options={"splits": "official"})
    assert rte.train.texts[0] == 'He said "train 0.'
    assert rte.train.pairs is not None
    assert rte.train.pairs[0] == "He spoke 0."
    sick = load_dataset(name="sick")
    assert sizes(sick) == {"train": 12, "dev": 6, "test": 9}
    assert sick.labels == ("entailment", "neutral", "contradiction")
    assert sick.test is not None
    assert sick.test.labels is not None
    assert Counter(sick.test.labels) == dict.fromkeys(sick.labels, 3)
    related = load_dataset(name="sick", label="relatedness_score")
    assert related.kind == "score"
    assert related.labels == ()
    assert related.train.scores is not None
    assert related.train.scores[:3] == [1.0, 1.25, 1.5]
    with pytest.raises(RequestError, match="it has entailment_judgment and relatedness_score"):
        load_dataset(name="sick", label="pair_ID")


def test_a_broken_folder_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines(folder / "sst2/stsa.binary.dev", ["0 fine", "2 what"])
    with pytest.raises(RequestError, match=r"stsa\.binary\.dev, line 2: the label '2' is none of 0, 1"):
        load_dataset(name="sst2")
    lines(folder / "sst5/sst-dev.txt", ["0 ||| fine", "1 no bars"])
    with pytest.raises(RequestError, match=r"sst-dev\.txt, line 2: not of the form 'label \|\|\| text'"):
        load_dataset(name="sst5")
    (folder / "rte/dev.tsv").unlink()
    with pytest.raises(RequestError, match=r"rte/dev\.tsv does not exist"):
        load_dataset(name="rte")
    monkeypatch.setenv("HEEDFUL_DATA", str(folder / "nowhere"))
    with pytest.raises(RequestError, match=r"HEEDFUL_DATA=.*nowhere is not a folder"):
        load_dataset(name="rte")


class Hub:
    """A hub in a folder: `<root>/<repository>/<file>`."""

    def __init__(self, root: Path, cached: bool = False) -> None:
        self.root, self.cached, self.asked = root, cached, list[tuple[str, str]]()

    def path(self, repository: str, name: str) -> Path:
        return self.root / repository / name

    def put(self, repository: str, name: str, columns: dict[str, list[Any]]) -> None:
        path = self.path(repository, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("jsonl"):
            rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            pyarrow.parquet.write_table(pyarrow.table(columns), path)

    def download(self, repository: str, name: str, *, repo_type: str, revision: str) -> str:
        assert repo_type == "dataset"
        self.asked.append((repository, revision))
        path = self.path(repository, name)
        if not path.exists():
            there = (self.root / repository).exists()
            raise errors.EntryNotFoundError("404") if there else errors.LocalEntryNotFoundError("no network")
        return str(path)

    def cache(self, repository: str, name: str, *, repo_type: str, revision: str) -> str | None:
        path = self.path(repository, name)
        return str(path) if self.cached and path.exists() else None


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    found = Hub(tmp_path / "hub")
    monkeypatch.delenv("HEEDFUL_DATA", raising=False)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", found.download)
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", found.cache)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    return found


def fill_glue(hub: Hub, task: str, columns: tuple[str, ...], labels: list[Any]) -> None:
    for split, count in (("train", 20), ("validation", 6), ("test", 4)):
        table: dict[str, list[Any]] = {c: [f"{split} {c} {i}" for i in range(count)] for c in columns}
        answers = [labels[i % len(labels)] for i in range(count)]
        table["label"] = [-1] * count if split == "test" else answers
        table["idx"] = list(range(count))
        kind = "_matched" if task == "mnli" and split != "train" else ""
        hub.put("nyu-mll/glue", f"{task}/{split}{kind}-00000-of-00001.parquet", table)


@pytest.mark.parametrize(
    ("name", "columns", "labels"),
    [
        ("rte", ("sentence1", "sentence2"), ("entailment", "not_entailment")),
        ("qnli", ("question", "sentence"), ("entailment", "not_entailment")),
        ("mnli", ("premise", "hypothesis"), ("entailment", "neutral", "contradiction")),
        ("mrpc", ("sentence1", "sentence2"), ("not_equivalent", "equivalent")),
        ("cola", ("sentence",), ("unacceptable", "acceptable")),
    ],
)
def test_glue_from_the_hub(
    hub: Hub, capsys: pytest.CaptureFixture[str], name: str, columns: tuple[str, ...], labels: tuple[str, ...]
) -> None:
    fill_glue(hub, name, columns, list(range(len(labels))))
    dataset = load_dataset(name=name)
    assert sizes(dataset) == {"train": 18, "dev": 2, "test": 6}
    assert dataset.labels == labels
    assert dataset.test is not None
    assert dataset.test.labels == [labels[i % len(labels)] for i in range(6)]
    assert dataset.test.texts[1] == f"validation {columns[0]} 1"
    assert (dataset.test.pairs is None) == (len(columns) == 1)
    said = capsys.readouterr()
    looked = "" if name in ("mrpc", "cola", "stsb") else " (HEEDFUL_DATA is not set)"
    assert said.err == f"downloading nyu-mll/glue from the hub: 2 files for {name}{looked}\n"
    assert said.out == ""
    assert f"{name}: from nyu-mll/glue on the hub." in dataset.notes


def test_scores_from_the_hub(hub: Hub) -> None:
    fill_glue(hub, "stsb", ("sentence1", "sentence2"), [5.0, 3.8, 0.25, 4.0])
    dataset = load_dataset(name="stsb")
    assert dataset.kind == "score"
    assert dataset.test is not None
    assert dataset.test.scores == [5.0, 3.8, 0.25, 4.0, 5.0, 3.8]
    official = load_dataset(name="stsb", options={"splits": "official"})
    assert official.hidden == ("test",)


def test_treebank_and_sick_from_the_hub(hub: Hub) -> None:
    for split, count in (("train", 20), ("dev", 6), ("test", 6)):
        for name, classes in (("sst2", 2), ("sst5", 5)):
            answers = [i % classes for i in range(count)]
            hub.put(
                f"SetFit/{name}", f"{split}.jsonl", {"text": [f"{split} {i}" for i in range(count)], "label": answers}
            )
        part = {"dev": "validation"}.get(split, split)
        columns = {c: [f"{split} {c} {i}" for i in range(count)] for c in ("sentence_A", "sentence_B")}
        rest = {"label": [i % 3 for i in range(count)], "relatedness_score": [1 + i / 5 for i in range(count)]}
        hub.put("RobZamp/sick", f"default/{part}/0000.parquet", {**columns, **rest})
    assert load_dataset(name="sst2").train.labels == ["negative", "positive"] * 10
    sst5 = load_dataset(name="sst5").train
    assert sst5.labels is not None
    assert sst5.labels[:5] == list(NAMED["sst5"].labels)
    sick = load_dataset(name="sick").train
    assert sick.labels is not None
    assert sick.labels[:3] == ["entailment", "neutral", "contradiction"]
    assert load_dataset(name="sick", label="relatedness_score").train.scores == [1 + i / 5 for i in range(20)]
    assert ("RobZamp/sick", "refs/convert/parquet") in hub.asked


def test_the_cache_needs_no_fetching_and_says_nothing(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    fill_glue(hub, "cola", ("sentence",), [0, 1])
    assert where_from(NAMED["cola"]) == ("hub: nyu-mll/glue", False)
    hub.cached = True
    assert where_from(NAMED["cola"]) == ("hub: nyu-mll/glue", True)
    load_dataset(name="cola")
    assert hub.asked == []
    assert capsys.readouterr().err == ""


def test_a_hub_out_of_reach_is_one_sentence(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        WorkError, match=r"rte: not here \(HEEDFUL_DATA is not set\).*cannot be reached \(no connection\).*rte/"
    ):
        load_dataset(name="rte")
    with pytest.raises(RequestError, match=r"and not on the hub; set HEEDFUL_DATA .*cfimdb/cfimdb-train\.txt"):
        load_dataset(name="cfimdb")
    for error, kind, said in (
        (ConnectionError("refused"), WorkError, "refused"),
        (OSError(28, "No space left on device", "/full"), WorkError, "could not be stored"),
        (errors.EntryNotFoundError("gone"), RequestError, "no longer has"),
    ):

        def fail(*_: Any, error: Exception = error, **__: Any) -> str:
            raise error

        monkeypatch.setattr(huggingface_hub, "hf_hub_download", fail)
        with pytest.raises(kind, match=said):
            load_dataset(name="rte")


def test_parquet_without_pyarrow_names_the_extra(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_glue(hub, "cola", ("sentence",), [0, 1])
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(RequestError, match=r"needs pyarrow; install it: pip install 'heedful\[hub\]'"):
        load_dataset(name="cola")


def test_the_folder_comes_before_the_hub(folder: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_DATA", str(folder))
    load_dataset(name="rte")
    assert hub.asked == []
    shutil.rmtree(folder / "rte")
    with pytest.raises(WorkError):
        load_dataset(name="rte")
    assert hub.asked


def test_tickets_are_in_the_package() -> None:
    dataset = load_dataset(name="tickets")
    assert sizes(dataset) == NAMED["tickets"].sizes == {"train": 636, "dev": 159, "test": 265}
    assert dataset.labels == ("account", "app", "billing", "delivery", "product", "subscription")
    assert dataset.notes == []  # no duplicates, no leakage, no label in one split alone
    rows = [row for examples in dataset.splits().values() for row in examples.rows]
    assert sorted(rows) == list(range(1, 1061))
    for examples in dataset.splits().values():
        assert examples.labels is not None
        assert max(Counter(examples.labels).values()) < 0.3 * len(examples)


def test_every_named_set_says_what_a_reader_must_know() -> None:
    for name, entry in NAMED.items():
        assert entry.name == name
        assert entry.what
        assert entry.contamination
        assert "\n" not in entry.what + entry.licence + entry.contamination
        assert set(entry.sizes) == {"train", "dev", "test"}
        assert (entry.kind == "classes") == bool(entry.labels)
