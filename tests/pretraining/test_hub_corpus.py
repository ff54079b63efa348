"""A corpus that is a file on the hub, against a hub on this machine: fetched once, sharded, trained on, refused."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from heedful.data.corpus.shards import Corpus
from tests.support.corpus_samples import documents, write_text
from tests.support.hub_server import Hub, Repository, serve

NAME = "hub:someone/tales/texts/tales.txt"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """With one data set, whose text is in a folder of it and is sent as large files are."""
    (tmp_path / "tales/texts").mkdir(parents=True)
    write_text(tmp_path / "tales/texts/tales.txt", documents(30))
    with serve() as made:
        made.repositories["datasets/someone/tales"] = Repository({"main": tmp_path / "tales"}, redirect=True)
        yield made


def ask(hub: Hub, home: Path, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, since the client reads its settings when it is imported."""
    own = {"HF_ENDPOINT": hub.url, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
    own |= {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    command = [sys.executable, "-m", "heedful", *map(str, arguments)]
    kept = {key: value for key, value in os.environ.items() if key not in ("HF_TOKEN", "HEEDFUL_DATA")}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=200, env={**kept, **own, **environment}
    )


def test_from_the_hub_to_a_model(hub: Hub, tmp_path: Path) -> None:
    home, out = tmp_path / "home", tmp_path / "corpus"
    done = ask(hub, home, "data", "shard", NAME, "--out", out, "--vocabulary", 300)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0] == f"downloading someone/tales from the hub: 1 file for {NAME}"
    assert f"{NAME}: each document is a blank-line" in done.stdout
    assert hub.fetched() == ["tales.txt"]
    assert Corpus(out).documents == 30
    hub.log.clear()
    lines = [
        "seeds = 1", "[model]", 'shape = "bert-tiny"', "[tokenizer]", 'kind = "wordpiece"', "size = 300",
        "[data]", f'corpus = "{NAME}"', "[objective]", 'kind = "mask"',
        "[training]", "steps = 2", "batch_size = 4", "max_length = 32", "lr = 1e-3",
    ]  # fmt: skip
    (tmp_path / "tales.toml").write_text("\n".join(lines))
    done = ask(hub, home, "run", tmp_path / "tales.toml", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert hub.fetched() == []
    assert "downloading" not in done.stderr
    (run,) = tmp_path.glob("run/**/metrics.json")
    manifest = json.loads((run.parent / "manifest.json").read_text())
    assert manifest["data"]["name"] == "tales.txt"
    assert manifest["data"]["fingerprints"]["train"] == Corpus(out).facts["sources"][0]["sha256"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hub:someone/tales/texts/talse.txt", "the hub shows no file texts/talse.txt in the data set someone/tales"),
        ("hub:someone/tails/tales.txt", "the hub shows no file tales.txt in the data set someone/tails"),
        ("hub:someone/tales", "write hub:OWNER/REPOSITORY/FILE"),
    ],
)
def test_what_the_hub_has_not_is_one_sentence(hub: Hub, tmp_path: Path, name: str, words: str) -> None:
    done = ask(hub, tmp_path / "home", "data", "shard", name, "--out", tmp_path / "out")
    told = [line for line in done.stderr.splitlines() if not line.startswith("downloading ")]
    assert (done.returncode, done.stdout, len(told)) == (2, "", 1), done.stderr
    assert words in told[0]
    assert told[0].count(name) >= 1
    assert not (tmp_path / "out").exists()


def test_without_the_network_it_is_one_sentence(hub: Hub, tmp_path: Path) -> None:
    done = ask(hub, tmp_path / "home", "data", "shard", NAME, "--out", tmp_path / "out", HF_HUB_OFFLINE="1")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert f"{NAME}: not here" in done.stderr
    assert done.stderr.endswith("check the network, or name a file that is here.\n")
