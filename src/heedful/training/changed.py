"""Which data are others than those that a run or a study began with."""

from collections.abc import Mapping

from heedful.recipes.schema import DataTable


def changed_data(before: Mapping[str, str], now: Mapping[str, str], data: DataTable) -> str:
    """From the fingerprints of the sets, those that differ, each with the file that the recipe names for it: "train
    (a.txt) and dev"; nothing if all are the same."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    parts = [name for name in names if data.files(name)]  # of each task there is a fingerprint beside that of all
    names = parts if any("-" in name for name in parts) else names
    said = []
    for name in names:
        files = _files(name, before.get(name, ""), now.get(name, ""), data)
        said.append(f"{name} ({', '.join(files)})" if files else name)
    return " and ".join(filter(None, [", ".join(said[:-1]), *said[-1:]]))


def _files(name: str, before: str, now: str, data: DataTable) -> list[str]:
    """Return those of a set that have changed; none where it is held out of another, or a named set."""
    files, prints = data.files(name), list(zip(before.split(), now.split(), strict=False))
    one_for_each = len(files) == len(before.split()) == len(now.split())
    return [file for file, (a, b) in zip(files, prints, strict=True) if a != b] if one_for_each else files
