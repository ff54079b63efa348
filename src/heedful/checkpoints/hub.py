"""Models from the Hugging Face hub, through `huggingface_hub`, whose cache, token, mirror and offline mode serve."""

import contextlib
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from heedful.errors import RequestError, WorkError
from heedful.hub_client import quietly, say

_SMALL = re.compile(
    r"(config|tokenizer|tokenizer_config|special_tokens_map|vocab|added_tokens)\.json|vocab\.txt|merges\.txt|bpe\.codes"
    r"|heads\.safetensors|adapters/[^/]+/[^/]+\.(json|safetensors)"
    r"|generation_config\.json|target_vocab\.json|(source|target)\.spm|(target|bert)/[^/]+\.(json|txt|spm|safetensors)"
)
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
_SHARDED = re.compile(r"model\.safetensors\.index\.json|model-\d+-of-\d+\.safetensors")


def is_hub_id(source: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?", source) is not None and ".." not in source


def fetch(
    repo: str, revision: str | None = None, into: Path | None = None, only: Collection[str] | None = None
) -> Path:
    """The directory of a hub model: from the cache if it is up to date there, else fetched. `into`: not the cache.
    `only`: these files, as far as they are there, instead of those of a model."""
    import huggingface_hub as hub
    from huggingface_hub import constants, errors

    if constants.HF_HUB_OFFLINE:
        return _from_cache(repo, revision, "HF_HUB_OFFLINE is set", only)
    try:
        with quietly():
            info = hub.HfApi().model_info(repo, revision=revision, files_metadata=True)
            sizes = {s.rfilename: s.size or 0 for s in info.siblings or []}
            wanted = choose_files(repo, list(sizes)) if only is None else [n for n in sizes if n in only]
            absent = [n for n in wanted if into or not _is_cached(repo, n, info.sha)]
            if absent:
                count = f"{len(absent)} file{'s' if len(absent) > 1 else ''}"
                size = sum(sizes[n] for n in absent) / 1e6
                say(f"downloading {repo} ({revision or 'main'}) from the hub: {count}, {size:.1f} MB")
            return Path(hub.snapshot_download(repo, revision=revision, allow_patterns=wanted, local_dir=into))
    except errors.GatedRepoError:
        raise RequestError(
            f"{repo}: its owner must grant you access on the hub; then set HF_TOKEN, or log in with `hf auth login`."
        ) from None
    except errors.RevisionNotFoundError:
        raise RequestError(f"{repo}: the hub has no revision {revision!r} of it.") from None
    except (errors.RepositoryNotFoundError, errors.HFValidationError):
        raise RequestError(
            f"{repo}: neither a directory here, nor a name that `heedful models` lists, nor a model that the hub shows "
            "you; check the spelling, or set HF_TOKEN if it is private."
        ) from None
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, OSError) as error:
        if isinstance(error, OSError) and error.errno in (28, 13, 30):  # no space, no permission, read-only
            raise WorkError(f"{repo}: could not be stored ({error.strerror}: {error.filename}).") from None
        return _after_failure(repo, revision, into, error, only)
    except Exception as error:
        # The client's own transport errors have no common base that is stable over its releases.
        if type(error).__module__.split(".")[0] in ("httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3"):
            return _after_failure(repo, revision, into, error, only)
        raise


def choose_files(repo: str, names: list[str]) -> list[str]:
    """Config, tokenizer and one form of the weights, the safest that there is."""
    small = [n for n in names if _SMALL.fullmatch(n)]
    if "model.safetensors" in names:
        return [*small, "model.safetensors"]
    sharded = [n for n in names if _SHARDED.fullmatch(n)]
    if "model.safetensors.index.json" in sharded:
        return small + sharded
    if "pytorch_model.bin" in names:
        return [*small, "pytorch_model.bin"]
    raise RequestError(f"{repo}: the hub has no model.safetensors and no pytorch_model.bin of it.")


def _after_failure(
    repo: str, revision: str | None, into: Path | None, error: BaseException, only: Collection[str] | None
) -> Path:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    if into is None:
        with contextlib.suppress(WorkError):
            cached = _from_cache(repo, revision, "", only)
            say(f"the hub is unreachable ({reason}); using the cached copy of {repo}")
            return cached
    raise WorkError(f"{repo}: no directory here, and the hub cannot be reached ({reason}); check path or network.")


def _from_cache(repo: str, revision: str | None, why: str, only: Collection[str] | None = None) -> Path:
    import huggingface_hub as hub
    from huggingface_hub import errors

    # Not through snapshot_download, which counts a snapshot without the files that we never want as incomplete.
    with contextlib.suppress(errors.HFValidationError):
        for name in ("config.json",) if only is None else only:
            file = hub.try_to_load_from_cache(repo, name, revision=revision)
            if isinstance(file, str) and (only or any((Path(file).parent / w).exists() for w in _WEIGHTS)):
                return Path(file).parent
    raise WorkError(
        f"{repo}: not in the hub's cache, and {why}; fetch it once with the network on, or name a local directory."
    )


def _is_cached(repo: str, name: str, commit: str | None) -> bool:
    import huggingface_hub as hub

    return isinstance(hub.try_to_load_from_cache(repo, name, revision=commit), str)


def cached_models() -> list[tuple[str, int]]:
    """Models that the hub's cache holds, with their size in bytes."""
    import huggingface_hub as hub
    from huggingface_hub import errors

    try:
        repositories: Any = hub.scan_cache_dir().repos
    except (errors.CacheNotFound, OSError):
        return []
    return sorted((r.repo_id, r.size_on_disk) for r in repositories if r.repo_type == "model")
