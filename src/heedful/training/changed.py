"""Which data are others than those that a run or a study began with."""

from collections.abc import Mapping

from heedful.recipes.schema import DataTable, SourceTable


def changed_data(before: Mapping[str, str], now: Mapping[str, str], data: DataTable) -> str:
    """From the fingerprints of the sets, those that differ, each with the file that the recipe names for it: "train
    (a.txt) and dev"; nothing if all are the same."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if data.tasks:  # of each task there is a fingerprint beside that of all together
        names = [name for name in names if "-" in name] or names
    said = []
    for name in names:
        files = _files(name, before.get(name, ""), now.get(name, ""), data)
        said.append(f"{name} ({', '.join(files)})" if files else name)
    return " and ".join(filter(None, [", ".join(said[:-1]), *said[-1:]]))


def _files(name: str, before: str, now: str, data: DataTable) -> list[str]:
    """Those of a set that have changed; none where it is held out of another, or a named set."""
    split, _, task = name.partition("-")
    if split == "corpus" or (split == "train" and data.corpora and data.train is None):
        each = list(zip(data.corpora, before.split(), now.split(), strict=False))
        one_for_each = len(data.corpora) == len(before.split()) == len(now.split())
        return [file for file, a, b in each if a != b] if one_for_each else data.corpora
    table: SourceTable | None = data
    if task:
        table = next((one for one in data.tasks if one.title == task), None)
    file = getattr(table, split, None)
    return [] if file is None else [str(file)]
