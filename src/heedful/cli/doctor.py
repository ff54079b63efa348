"""`heedful doctor`: check the installation and suggest fixes."""

import importlib.metadata
import os
import platform
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from heedful.cli.show import print_json, size
from heedful.errors import RequestError, WorkError


@dataclass(frozen=True)
class Finding:
    what: str
    value: str
    state: str
    """"ok", "absent" (fine until needed) or "problem"."""
    remedy: str = ""


def doctor(
    sanity: Annotated[
        str | None, typer.Option(help="Model to compare with stored activations of Hugging Face's.", metavar="MODEL")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="The .npz file of activations; default: in $HEEDFUL_DATA/sanity/.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Output JSON.")] = False,
) -> None:
    """Check versions, device, threads, extras, cache and data folders. Print one line each, with the fix."""
    if against is not None and sanity is None:
        raise RequestError("--against needs --sanity MODEL.")
    findings = list(examine())
    if sanity is not None:
        findings.append(check_activations(sanity, against or _stored_activations(sanity)))
    if as_json:
        print_json([asdict(f) for f in findings])
    else:
        for f in findings:
            mark = {"ok": "ok", "absent": "–", "problem": "!!"}[f.state]
            print(f"{mark:<3}{f.what:<17} {f.value}" + (f"; {f.remedy}" if f.remedy else ""))
    if any(f.state == "problem" for f in findings):
        raise typer.Exit(1)


def examine() -> Iterator[Finding]:
    yield Finding("python", platform.python_version(), "ok")
    for package in ("heedful", "torch", "tokenizers", "safetensors", "huggingface_hub", "numpy"):
        yield _check_package(package)
    yield from _check_device_and_threads()
    yield from _check_extras()
    yield from _check_folders()
    yield from _check_models()


def _check_package(name: str) -> Finding:
    try:
        return Finding(name, importlib.metadata.version(name), "ok")
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "missing", "problem", "reinstall heedful with pip")


def _check_device_and_threads() -> Iterator[Finding]:
    try:
        import torch
    except ImportError as error:
        yield Finding("device", f"torch cannot be imported ({error})", "problem", "reinstall torch")
        return
    if torch.cuda.is_available():
        yield Finding("device", f"cuda ({torch.cuda.get_device_name()})", "ok")
    elif torch.backends.mps.is_available():
        yield Finding("device", "mps (Apple GPU)", "ok")
    else:
        yield Finding("device", "cpu", "ok")
    threads, cores = torch.get_num_threads(), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    cores = cores or os.cpu_count() or 1
    if threads > cores:
        remedy = f"set OMP_NUM_THREADS={cores}"
        yield Finding("threads", f"{threads} on {cores} cores, which is slow", "problem", remedy)
    else:
        yield Finding("threads", f"{threads} on {cores} cores", "ok")


def _check_extras() -> Iterator[Finding]:
    """Check for each extra of the package whether its requirements are installed."""
    try:
        facts = importlib.metadata.metadata("heedful")
    except importlib.metadata.PackageNotFoundError:
        return
    requirements = facts.get_all("Requires-Dist") or []
    for extra in facts.get_all("Provides-Extra") or []:
        wanted = [r for r in requirements if re.search(rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]", r)]
        names = [match[0] for r in wanted if (match := re.match(r"[\w.-]+", r))]
        absent = [n for n in names if not _is_installed(n)]
        if absent:
            yield Finding(f"extra {extra}", f"missing {', '.join(absent)}", "absent", f"pip install 'heedful[{extra}]'")
        else:
            yield Finding(f"extra {extra}", "installed", "ok")


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _check_folders() -> Iterator[Finding]:
    from heedful.checkpoints.catalog import cache_folder

    cache = cache_folder()
    nearest = next(p for p in (cache, *cache.parents) if p.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        yield Finding("cache", f"{cache} is not writable", "problem", "set HEEDFUL_CACHE to a writable folder")
    else:
        yield Finding("cache", f"{cache}, {size(shutil.disk_usage(nearest).free)} free", "ok")
    data = os.environ.get("HEEDFUL_DATA")
    if not data:
        yield Finding("data", "HEEDFUL_DATA is not set", "absent", "optional: set it to a folder of data sets")
    elif not Path(data).expanduser().is_dir():
        yield Finding("data", f"HEEDFUL_DATA={data} is not a folder", "problem", "correct or unset it")
    else:
        yield Finding("data", data, "ok")


def _check_models() -> Iterator[Finding]:
    from heedful.checkpoints import catalog

    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON")
    place = os.environ.get("HF_ENDPOINT", "default address")
    if offline:
        yield Finding("hub", "offline mode", "absent", "unset HF_HUB_OFFLINE to download models")
    else:
        yield Finding("hub", f"{place}, contacted only to download a model", "ok")
    for name in catalog.CATALOG:
        if catalog.is_present(name):
            yield Finding(f"model {name}", str(catalog.location(name)), "ok")
        else:
            yield Finding(f"model {name}", "not downloaded", "absent", f"heedful models get {name}")


def _stored_activations(model: str) -> Path:
    data = os.environ.get("HEEDFUL_DATA")
    name = f"sanity_check_{Path(model).name.replace('-', '_')}.npz"
    if not data:
        raise RequestError("--sanity needs --against FILE.npz, or a folder sanity/ in HEEDFUL_DATA.")
    return Path(data).expanduser() / "sanity" / name


def check_activations(source: str, path: Path, tolerance: float = 1e-4) -> Finding:
    """Run the stored ids through the model and compare with the stored states."""
    import zipfile

    import numpy as np
    import torch

    from heedful.checkpoints.directory import read_model
    from heedful.checkpoints.finding import find
    from heedful.models.batch import Batch

    try:
        stored = np.load(path, allow_pickle=False)
        ids, mask = stored["input_ids"], stored["attention_mask"].astype(bool)
        states, pooled = stored["last_hidden_state"], stored["pooler_output"]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise RequestError(f"{path}: not a file of stored activations ({error}).") from None
    transformer = read_model(find(source), body_only=True).transformer
    try:
        with torch.inference_mode():
            batch = Batch(torch.from_numpy(ids), torch.from_numpy(mask))
            ours = transformer.body(batch, adapters=transformer.through(None))
            ours_pooled = transformer.pick(ours, "pooled", batch).numpy()
        worst = max(np.abs(ours.last.numpy() - states)[mask].max(), np.abs(ours_pooled - pooled).max())
    except (IndexError, ValueError, RuntimeError) as problem:
        raise WorkError(f"{path}: does not fit {source} ({str(problem).splitlines()[0]}).") from None
    if worst <= tolerance:
        return Finding("sanity", f"{source} agrees with {path.name}, largest error {worst:.1e}", "ok")
    remedy = "the file was made with different weights"
    return Finding("sanity", f"{source} differs from {path.name} by {worst:.1e}", "problem", remedy)
