"""The slow tier: the real sets where there is a data folder, and a million rows."""

import csv
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from heedful.data.catalog import PAIRS
from heedful.data.checks import check_splits
from heedful.data.examples import Dataset, load_dataset
from heedful.data.named import NAMED
from heedful.data.pig_latin import translate
from heedful.data.translations import load_pairs

pytestmark = pytest.mark.full
real = pytest.mark.skipif(not os.environ.get("HEEDFUL_DATA"), reason="needs HEEDFUL_DATA")

PUBLISHED = {
    "sst2": {"train": 6920, "dev": 872, "test": 1821},
    "sst5": {"train": 8544, "dev": 1101, "test": 2210},
    "cfimdb": {"train": 1536, "dev": 171, "test": 245},
    "rte": {"train": 2241, "dev": 249, "test": 277},
    "mnli": {"train": 8899, "dev": 989, "test": 6238},
    "qnli": {"train": 9427, "dev": 1048, "test": 5463},
    "sick": {"train": 4500, "dev": 500, "test": 4927},
}
"""Where a dev split is carved, train and dev together are the official train split."""

FOUND = {
    "sst2": {("duplicates", "train"): [9], ("leakage", "test"): [2]},
    "sst5": {
        ("duplicates", "train"): [10],
        ("duplicates", "dev"): [1],
        ("leakage", "dev"): [2],
        ("leakage", "test"): [2],
    },
    "cfimdb": {},
    "rte": {("duplicates", "train"): [2]},
    "mnli": {},
    "qnli": {},
    "sick": {("duplicates", "train"): [30], ("leakage", "dev"): [3], ("leakage", "test"): [49, 5]},
}


def sizes(dataset: Dataset) -> dict[str, int]:
    return {name: len(examples) for name, examples in dataset.splits().items()}


@real
@pytest.mark.parametrize("name", PUBLISHED)
def test_real_sets(name: str) -> None:
    dataset = load_dataset(name=name)
    assert sizes(dataset) == PUBLISHED[name]
    assert dataset.labels == NAMED[name].labels
    assert dataset.hidden == ()
    assert not any("are published" in note for note in dataset.notes)
    assert all(check["state"] == "pass" for check in dataset.checks if check["name"] in ("reading", "rows"))
    for examples in dataset.splits().values():
        assert examples.labels is not None
        assert set(examples.labels) == set(dataset.labels)
        assert not any("\r" in text or "\t" in text for text in examples.texts)
    found: dict[tuple[str, str], list[int]] = {}
    for finding in check_splits(dataset.splits()):
        found.setdefault((finding.check, finding.split), []).append(finding.count)
    assert found == FOUND[name]


@real
@pytest.mark.parametrize(("name", "rows"), [("rte", 3000), ("cfimdb", 488)])
def test_hidden_splits(name: str, rows: int) -> None:
    dataset = load_dataset(name=name, options={"splits": "official"})
    assert dataset.hidden == ("test",)
    assert dataset.test is not None
    assert (len(dataset.test), dataset.test.labels) == (rows, None)


@real
def test_known_rows() -> None:
    rte = load_dataset(name="rte", options={"splits": "official"}).train
    assert rte.pairs is not None
    assert rte.labels is not None
    assert (rte.pairs[0], rte.labels[0]) == ("Weapons of Mass Destruction Found in Iraq.", "not_entailment")
    sick = load_dataset(name="sick", label="relatedness_score")
    assert sick.train.scores is not None
    assert sick.train.scores[:3] == [4.5, 3.2, 4.7]
    sst2 = load_dataset(name="sst2").train
    assert sst2.labels is not None
    assert sst2.labels.count("positive") == 3610


_STREAM = """
import sys
from heedful.data.files import read_rows
def memory():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
before, letters = memory(), 0
for row in read_rows(sys.argv[1], "text"):
    letters += len(row.text)
print(row.number, letters, memory() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux to measure memory")
@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "csv.gz", "parquet"])
def test_a_million_rows_in_constant_memory(form: str, tmp_path: Path) -> None:
    path, letters = write_million(tmp_path, form)
    done = subprocess.run([sys.executable, "-c", _STREAM, str(path)], capture_output=True, text=True, check=True)
    rows, read, grown = map(int, done.stdout.split())
    assert (rows, read) == (1_000_000, letters)
    assert grown < (150_000 if form == "parquet" else 20_000)  # kB; the file has some 90 MB


def write_million(folder: Path, form: str) -> tuple[Path, int]:
    path = folder / f"rows.{form}"
    texts = [f"row {i} of a long file, {'with some words in it, ' * (i % 5)}and no end" for i in range(1_000_000)]
    if form == "parquet":
        pyarrow.parquet.write_table(pyarrow.table({"text": texts}), path, row_group_size=50_000)
        return path, sum(map(len, texts))
    with gzip.open(path, "wt", compresslevel=1) if form.endswith("gz") else path.open("w") as file:
        if form == "jsonl":
            file.writelines(json.dumps({"text": text, "id": i}) + "\n" for i, text in enumerate(texts))
        else:
            writer = csv.writer(file, delimiter="\t" if form == "tsv" else ",", lineterminator="\n")
            writer.writerow(["text", "id"])
            writer.writerows((text, i) for i, text in enumerate(texts))
    return path, sum(map(len, texts))


@real
@pytest.mark.parametrize(
    ("name", "recurring"), [("multi30k-en-de", {"dev": 1}), ("en-my", {"dev": 242, "test": 252}), ("pig-latin", {})]
)
def test_real_translations(name: str, recurring: dict[str, int]) -> None:
    data = load_pairs(name=name)
    assert {split: len(pairs) for split, pairs in data.splits.items()} == PAIRS[name].sizes
    assert {split: len(rows) for split, rows in data.recurring.items()} == recurring
    assert not data.notes
    states = {check["name"]: check["state"] for check in data.checks}
    assert states["alignment"] == states["rows"] == "pass"


@real
def test_the_lines_of_en_my_that_recur() -> None:
    """143 different ones; 140 if spaces at the ends of lines count."""
    data = load_pairs(name="en-my")
    test = data.splits["test"]
    known = set(data.recurring["test"])
    assert len({source for row, source in zip(test.rows, test.sources, strict=True) if row in known}) == 143
    assert len(data.without_recurring("test")) == 666


@real
def test_pig_latin_as_published() -> None:
    splits = load_pairs(name="pig-latin").splits.values()
    pairs = {source: target for some in splits for source, target in zip(some.sources, some.targets, strict=True)}
    assert len(pairs) == 6387
    assert {source for source, target in pairs.items() if translate(source) != target} == {"md", "mp"}
