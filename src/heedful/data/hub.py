"""Files of data repositories on the Hugging Face hub, through `huggingface_hub`, with one line of output."""

from collections.abc import Sequence
from pathlib import Path

from heedful.errors import RequestError, WorkError
from heedful.hub_client import quietly, say

HUB = "hub:"
"""What a file of a repository on the hub begins with: hub:OWNER/REPOSITORY/FILE."""


def fetch_by_name(name: str, key: str) -> Path:
    """Return the local path of hub:OWNER/REPOSITORY/FILE. `key`: where the user has written it."""
    repository, file = _parts(name, key)
    return fetch_files(repository, [file], "main", name)[0]


def fetch_first(names: Sequence[str], key: str) -> Path:
    """Do the same for the first of several names that exists: in the hub's cache, else on the hub."""
    for name in names:
        repository, file = _parts(name, key)
        if (path := cached_file(repository, file, "main")) is not None:
            return path
    refused: list[RequestError] = []
    for name in names:
        try:
            return fetch_by_name(name, key)
        except RequestError as error:
            refused.append(error)
    raise refused[0]


def _parts(name: str, key: str) -> tuple[str, str]:
    owner, _, rest = name.removeprefix(HUB).partition("/")
    repository, _, file = rest.partition("/")
    if not (owner and repository and file):
        raise RequestError(f"{key} = {name!r}: write {HUB}OWNER/REPOSITORY/FILE, the file with its folders.")
    return f"{owner}/{repository}", file


def fetch_files(repository: str, names: list[str], revision: str, wanted_by: str, looked: str = "") -> list[Path]:
    """Return local paths of the files, from the hub's cache if they are in it. `looked`: where they were not found
    before."""
    looked = f" ({looked})" if looked else ""
    import huggingface_hub as hub
    from huggingface_hub import errors

    cached = [cached_file(repository, name, revision) for name in names]
    absent = [name for name, path in zip(names, cached, strict=True) if path is None]
    if absent and not _offline():
        count = "1 file" if len(absent) == 1 else f"{len(absent)} files"
        say(f"downloading {repository} from the hub: {count} for {wanted_by}{looked}")
    try:
        with quietly():
            return [
                path or Path(hub.hf_hub_download(repository, name, repo_type="dataset", revision=revision))
                for name, path in zip(names, cached, strict=True)
            ]
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.EntryNotFoundError) as error:
        if not isinstance(error, errors.LocalEntryNotFoundError):
            raise _missing(wanted_by, repository, absent[0]) from None
        reason = "HF_HUB_OFFLINE is set" if _offline() else "no connection"
        raise _unreachable(wanted_by, looked, repository, reason) from None
    except Exception as error:
        # The client's own transport errors have no common base that is stable over its releases.
        package = type(error).__module__.split(".")[0]
        if isinstance(error, OSError) and error.errno in (28, 13, 30):  # no space, no permission, read-only
            raise WorkError(f"{wanted_by}: could not be stored ({error.strerror}: {error.filename}).") from None
        if isinstance(error, OSError) or package in ("huggingface_hub", "httpx", "httpcore", "requests", "urllib3"):
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise _unreachable(wanted_by, looked, repository, reason) from None
        raise


def cached_file(repository: str, name: str, revision: str) -> Path | None:
    import huggingface_hub as hub

    path = hub.try_to_load_from_cache(repository, name, repo_type="dataset", revision=revision)
    return Path(path) if isinstance(path, str) else None


def _missing(wanted_by: str, repository: str, file: str) -> RequestError:
    if wanted_by.startswith(HUB):
        return RequestError(
            f"{wanted_by}: the hub shows no file {file} in the data set {repository}; check the spelling, or set "
            "HF_TOKEN if it is private."
        )
    return RequestError(
        f"{wanted_by}: the hub no longer has {file} of {repository} as heedful knows it; put the set into "
        "HEEDFUL_DATA, or give files."
    )


def _unreachable(wanted_by: str, looked: str, repository: str, reason: str) -> WorkError:
    other = (
        "name a file that is here"
        if wanted_by.startswith(HUB)
        else f"set HEEDFUL_DATA to a folder that has {wanted_by}/"
    )
    return WorkError(
        f"{wanted_by}: not here{looked}, not in the hub's cache, and {repository} on the hub cannot be reached "
        f"({reason}); check the network, or {other}."
    )


def _offline() -> bool:
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)
