"""From what the user calls a model to its directory."""

import difflib
from collections.abc import Iterator
from pathlib import Path

from heedful.checkpoints import catalog, hub
from heedful.checkpoints.adapters import FOLDER, files_fingerprint
from heedful.errors import RequestError
from heedful.storage.hashing import lines_of_files, sha256_of
from heedful.storage.runs import MARK_DIGITS, names_mark


def find(source: str | Path, revision: str | None = None) -> Path:
    """The directory that `source` means, fetched if it has to be: a directory, marks/N for the Nth mark of a run, a
    named model, or a hub id."""
    name = str(source)
    path = Path(source)
    if name.startswith("~"):
        path = path.expanduser()
    if not name or not name.isprintable() or len(name) > 1000:
        raise RequestError(f"{name[:40]!r} is not a valid model name.")
    if path.is_dir():
        if revision is not None:
            raise RequestError(f"{path}: a directory has no revisions. Remove revision.")
        for kind, file, folder in (("study", "study.json", "best"), ("run", "manifest.json", "model")):
            if (path / file).is_file() and not (path / "config.json").exists():
                raise RequestError(
                    f"{path}: is a {kind}, whose model is in {path / folder} when it is done; name that."
                )
        return path
    if path.parent.is_dir() and names_mark(path):
        if revision is not None:
            raise RequestError(f"{path}: an evaluation step has no revisions. Remove revision.")
        return _mark(path)
    if path.exists():
        raise RequestError(f"{path}: is a file; name the directory that holds config.json and the weights.")
    if name in catalog.CATALOG:
        if revision is not None:
            raise RequestError(f"{name}: a named model has no revisions. Remove revision.")
        return catalog.get(name)
    near = [] if "/" in name else difflib.get_close_matches(name.lower(), catalog.CATALOG, 1, cutoff=0.8)
    if near:
        raise RequestError(f"{name}: no such directory, and no model of that name. Did you mean {near[0]}?")
    if isinstance(source, Path) or not hub.is_hub_id(name):
        raise RequestError(f"{source}: no such directory, and a hub id looks like owner/name.")
    return hub.fetch(name, revision)


def _mark(path: Path) -> Path:
    """Marks by tokens are at other steps with each seed, so that their number alone names them for all."""
    there = sorted((p for p in path.parent.iterdir() if names_mark(p)), key=lambda p: int(p.name))
    number = int(path.name)
    if len(path.name) >= MARK_DIGITS or not 1 <= number <= len(there):
        names = ", ".join(p.name for p in there[:6]) + (", …" if len(there) > 6 else "")
        raise RequestError(
            f"{path}: no such evaluation step. {path.parent} has {len(there)} ({names}): name one, or 1 for the first."
        )
    return there[number - 1]


def fingerprint(directory: Path) -> str:
    """The sha256 of everything in a model directory that is read: config, weights, tokenizer, adapters."""
    return sha256_of(_parts(directory))


def _parts(directory: Path) -> Iterator[str]:
    yield from lines_of_files(directory, {".json", ".safetensors", ".bin", ".txt", ".spm"})
    if (directory / FOLDER).is_dir():
        for path in sorted(p for p in (directory / FOLDER).iterdir() if p.is_dir()):
            yield f"{path.name} {files_fingerprint(path)}\n"
    for name in ("target", "bert"):  # of translators
        if (directory / name).is_dir():
            yield f"{name} {fingerprint(directory / name)}\n"
