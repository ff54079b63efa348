"""Models by hub id, against a hub on this machine; every call is a process of its own with its own cache."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import heedful
from heedful.checkpoints.directory import read_model
from heedful.errors import RequestError
from tests.support.checkpoint_caller import Caller, assert_refused
from tests.support.checkpoint_samples import WEIGHTS, assert_same, make_good, shard
from tests.support.hub_server import Hub, Repository, commit, serve

NEEDED = ["config.json", "model.safetensors", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"]
UNNEEDED = ["README.md", "pytorch_model.bin", "tf_model.h5", "onnx/model.onnx", "training_args.bin", "modeling_evil.py"]


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serve() as made:
        yield made


@pytest.fixture
def model(tmp_path: Path, hub: Hub) -> Path:
    """someone/bert, with more files than a model needs."""
    folder = make_good("bert", tmp_path / "repos" / "bert")
    for name in UNNEEDED:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("not needed")
    hub.repositories["someone/bert"] = Repository({"main": folder})
    return folder


@pytest.fixture
def call(hub: Hub, tmp_path: Path) -> Caller:
    return Caller(hub.url, tmp_path / "home")


def test_fetch_once_then_never_again(hub: Hub, model: Path, call: Caller) -> None:
    size = sum((model / n).stat().st_size for n in NEEDED) / 1e6
    first = call.run("-m", "heedful", "inspect", "someone/bert")
    assert first.returncode == 0, first.stderr
    assert first.stderr == f"downloading someone/bert (main) from the hub: 5 files, {size:.1f} MB\n"
    assert "no, yes, perhaps" in first.stdout
    assert hub.fetched() == NEEDED

    hub.log.clear()
    second = call.fetch("someone/bert")
    assert (second.returncode, second.stderr) == (0, "")
    assert hub.fetched() == []
    folder = Path(second.stdout.strip())
    assert sorted(p.name for p in folder.iterdir()) == NEEDED
    stored, sent = load_file(folder / WEIGHTS), load_file(model / WEIGHTS)
    assert all(torch.equal(stored[n], sent[n]) for n in sent)


def test_what_changed_is_fetched_and_counted(hub: Hub, model: Path, call: Caller, tmp_path: Path) -> None:
    assert call.fetch("someone/bert").returncode == 0
    newer = make_good("bert", tmp_path / "repos" / "newer")
    (newer / "tokenizer_config.json").write_text('{"model_max_length": 9}')
    hub.repositories["someone/bert"].revisions["main"] = newer
    hub.log.clear()
    done = call.fetch("someone/bert")
    assert done.returncode == 0
    assert done.stderr.startswith("downloading someone/bert (main) from the hub: ")
    assert "tokenizer_config.json" in hub.fetched()
    assert (Path(done.stdout.strip()) / "tokenizer_config.json").read_text() == '{"model_max_length": 9}'


def test_revisions(hub: Hub, model: Path, call: Caller, tmp_path: Path) -> None:
    older = make_good("gpt2", tmp_path / "repos" / "older")
    hub.repositories["someone/bert"].revisions["v1.0"] = older
    done = call.fetch("someone/bert", "v1.0")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("downloading someone/bert (v1.0) from the hub: 5 files, ")
    assert read_model(Path(done.stdout.strip())).family == "gpt2"
    by_commit = call.fetch("someone/bert", commit(older))
    assert (by_commit.returncode, by_commit.stderr) == (0, "")
    assert_refused(call.fetch("someone/bert", "v9"), 2, "someone/bert", "no revision 'v9'")
    offline = call.fetch("someone/bert", "v1.0", HF_HUB_OFFLINE="1")
    assert offline.stdout == by_commit.stdout


def test_a_repository_that_is_not_there(hub: Hub, model: Path, call: Caller) -> None:
    done = call.run("-m", "heedful", "inspect", "someone/brt")
    assert_refused(done, 2, "someone/brt", "spelling", "HF_TOKEN")
    assert hub.fetched() == []


def test_private_and_gated(hub: Hub, model: Path, call: Caller) -> None:
    hub.repositories["someone/bert"].token = "hf_secret"
    assert_refused(call.fetch("someone/bert"), 2, "HF_TOKEN")
    assert_refused(call.fetch("someone/bert", HF_TOKEN="hf_wrong"), 2, "HF_TOKEN")
    done = call.fetch("someone/bert", HF_TOKEN="hf_secret")
    assert done.returncode == 0, done.stderr
    assert "hf_secret" not in done.stderr
    assert hub.fetched() == NEEDED
    hub.repositories["someone/bert"].gated = True
    assert_refused(call.fetch("someone/bert"), 2, "grant")


def test_offline(hub: Hub, model: Path, call: Caller) -> None:
    assert_refused(call.fetch("someone/bert", HF_HUB_OFFLINE="1"), 1, "someone/bert", "HF_HUB_OFFLINE")
    assert hub.log == []
    fetched = call.fetch("someone/bert")
    hub.log.clear()
    done = call.fetch("someone/bert", HF_HUB_OFFLINE="1")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", fetched.stdout)
    assert hub.log == []
    assert_refused(call.fetch("someone/bert", "v1", HF_HUB_OFFLINE="1"), 1, "HF_HUB_OFFLINE")


def test_half_a_download_is_no_model(hub: Hub, model: Path, call: Caller) -> None:
    folder = Path(call.fetch("someone/bert").stdout.strip())
    (folder / WEIGHTS).unlink()
    assert_refused(call.fetch("someone/bert", HF_HUB_OFFLINE="1"), 1, "someone/bert")
    done = call.fetch("someone/bert")
    assert done.stderr.startswith("downloading someone/bert (main) from the hub: 1 file, ")
    assert (folder / WEIGHTS).exists()


def test_a_hub_that_does_not_answer(hub: Hub, model: Path, tmp_path: Path, call: Caller) -> None:
    fetched = call.fetch("someone/bert")
    nowhere = Caller("http://127.0.0.1:9", tmp_path / "home")  # nothing listens there
    done = nowhere.fetch("someone/bert")
    assert (done.returncode, done.stdout) == (0, fetched.stdout)
    assert done.stderr.startswith("the hub is unreachable (")
    assert done.stderr.endswith("using the cached copy of someone/bert\n")
    assert_refused(nowhere.fetch("someone/other"), 1, "someone/other", "cannot be reached")


def test_a_hub_that_is_broken(hub: Hub, model: Path, tmp_path: Path, call: Caller) -> None:
    fetched = call.fetch("someone/bert")
    hub.broken = True
    done = call.fetch("someone/bert")
    assert (done.returncode, done.stdout) == (0, fetched.stdout)
    assert done.stderr.count("\n") == 1
    assert_refused(call.fetch("someone/other"), 1, "someone/other")


def test_shards_and_old_files(hub: Hub, call: Caller, tmp_path: Path) -> None:
    shards = make_good("roberta", tmp_path / "repos" / "shards")
    shard(shards, parts=3)
    old = make_good("gpt2", tmp_path / "repos" / "old")
    torch.save(load_file(old / WEIGHTS), old / "pytorch_model.bin")
    (old / WEIGHTS).unlink()
    (old / "rust_model.ot").write_text("not needed")
    hub.repositories |= {"a/shards": Repository({"main": shards}, redirect=True), "a/old": Repository({"main": old})}
    done = call.fetch("a/shards")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("downloading a/shards (main) from the hub: 8 files, ")
    assert_same(read_model(Path(done.stdout.strip())), read_model(shards))
    hub.log.clear()
    done = call.fetch("a/old")
    assert done.returncode == 0, done.stderr
    assert_same(read_model(Path(done.stdout.strip())), read_model(old))
    assert hub.fetched() == sorted({*NEEDED, "pytorch_model.bin"} - {WEIGHTS})


def test_a_repository_of_other_things(hub: Hub, call: Caller, tmp_path: Path) -> None:
    folder = tmp_path / "repos" / "other"
    folder.mkdir(parents=True)
    for name in ("tf_model.h5", "flax_model.msgpack", "config.json", "adapter_model.safetensors"):
        (folder / name).write_text("{}")
    hub.repositories["a/other"] = Repository({"main": folder})
    assert_refused(call.fetch("a/other"), 2, "a/other", "model.safetensors", "pytorch_model.bin")
    assert hub.fetched() == []


ODD_NAMES = ("a/b/c", "../x", "a//b", "/a/b", "a b", "", "http://x/y", "-a/b", "a/..", "a/b\n", "x\0y")


@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
def test_names_that_are_no_ids(name: str) -> None:
    """Refused before anyone is asked; an empty name is the directory that one is in."""
    with pytest.raises(RequestError):
        heedful.load(name)
