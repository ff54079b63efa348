"""The files of a run and of a study, read back. Whatever is optional may be missing; whatever is damaged is named."""

import csv
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heedful.errors import RequestError

FORMAT = 1


@dataclass(frozen=True)
class Run:
    directory: Path
    manifest: dict[str, Any]
    metrics: dict[str, Any] = field(default_factory=dict)
    log: list[dict[str, Any]] = field(default_factory=list)

    @property
    def done(self) -> bool:
        return self.manifest.get("state", "done") == "done" and bool(self.scores())

    @property
    def seed(self) -> str:
        seed = self.manifest.get("seed")
        return "–" if seed is None else str(seed)

    def scores(self) -> dict[str, dict[str, Any]]:
        """The splits that have scores."""
        return {name: s for name, s in table(self.metrics, "splits").items() if isinstance(s, dict)}

    def baselines(self) -> dict[str, dict[str, Any]]:
        return {name: b for name, b in table(self.metrics, "baselines").items() if isinstance(b, dict)}

    def predictions(self, split: str) -> dict[str, str]:
        """The predicted label of each row; empty where none were written."""
        path = self.directory / "predictions" / f"{split}.tsv"
        if not path.is_file():
            return {}
        try:
            with path.open(encoding="utf-8", newline="") as lines:
                reader = csv.DictReader(lines, dialect="excel-tab")
                return {str(line["row"]): str(line["label"]) for line in reader}
        except (OSError, UnicodeDecodeError, csv.Error, KeyError) as error:
            raise RequestError(f"{path} cannot be read as predictions ({error}); make it anew with the run.") from None


@dataclass(frozen=True)
class Study:
    directory: Path
    facts: dict[str, Any]
    runs: list[tuple[dict[str, Any], Run | None]]
    """Each entry of study.json, with the run's files where there are any."""
    statistics: dict[str, Any] = field(default_factory=dict)


def kind_of(directory: Path) -> str:
    """ "run" or "study"; refuses everything else in one sentence."""
    if not directory.is_dir():
        raise RequestError(f"{directory} is not a directory; give the directory of a run or a study.")
    if (directory / "study.json").exists():
        return "study"
    if (directory / "manifest.json").exists():
        return "run"
    raise RequestError(f"{directory} is neither a run nor a study: it has no manifest.json and no study.json.")


def study_of(run: Path) -> Path | None:
    """The study in whose directory this run lies; None for a run that stands alone."""
    folder = run.absolute().parent
    return folder.parent if folder.name == "runs" and (folder.parent / "study.json").is_file() else None


def read_run(directory: Path) -> Run:
    manifest = _read_object(directory / "manifest.json")
    _check_format(manifest, directory / "manifest.json")
    metrics = _read_object(directory / "metrics.json") if (directory / "metrics.json").exists() else {}
    return Run(directory, manifest, metrics, read_lines(directory / "log.jsonl"))


def read_study(directory: Path) -> Study:
    path = directory / "study.json"
    facts = _read_object(path)
    _check_format(facts, path)
    runs: list[tuple[dict[str, Any], Run | None]] = []
    for entry in records(facts, "runs"):
        name = str(entry.get("name", ""))
        if Path(name).name != name or name in ("", ".", ".."):
            raise RequestError(f"{path} names the run {name!r}, which cannot be a folder in runs/; correct the name.")
        folder = directory / "runs" / name
        runs.append((entry, read_run(folder) if (folder / "manifest.json").exists() else None))
    path = directory / "statistics.json"
    return Study(directory, facts, runs, _read_object(path) if path.exists() else {})


def begun(study: Study) -> list[tuple[dict[str, Any], Run]]:
    """The runs that have files: those that study.json names, then those under way, which it will name at their end."""
    found = [(entry, run) for entry, run in study.runs if run is not None]
    known = {str(entry.get("name")) for entry, _ in study.runs}
    for path in sorted((study.directory / "runs").glob("*/manifest.json")):
        name = path.parent.name
        if name not in known:
            run = read_run(path.parent)
            found.append(({"name": name, "setting": name.rpartition("-seed")[0], "state": "running"}, run))
    return found


def table(facts: dict[str, Any], key: str) -> dict[str, Any]:
    """The nested table of that name; empty if it is missing or something else."""
    found = facts.get(key)
    return found if isinstance(found, dict) else {}


def records(facts: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = facts.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def names(facts: dict[str, Any], key: str) -> list[str]:
    found = facts.get(key)
    return [str(one) for one in found] if isinstance(found, list) else []


def number(facts: dict[str, Any], key: str) -> float | None:
    found = facts.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        return None
    return float(found)


def _check_format(facts: dict[str, Any], path: Path) -> None:
    version = facts.get("format", FORMAT)
    if version != FORMAT:
        raise RequestError(f"{path} has format {version!r}, this heedful reads format {FORMAT}; update heedful.")


def _read_object(path: Path) -> dict[str, Any]:
    content = _parse(_read_text(path), str(path))
    if not isinstance(content, dict):
        raise RequestError(f"{path} must hold a JSON object, not {type(content).__name__}; restore it or run again.")
    return content


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Every whole line of a .jsonl file; the last may be torn, since a run can be killed while it writes."""
    if not path.exists():
        return []
    found = []
    lines = _read_text(path).split("\n")
    for i, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            content = _parse(line, f"{path}, line {i}")
        except RequestError:
            if i == len(lines):
                break
            raise
        if isinstance(content, dict):
            found.append(content)
    return found


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise RequestError(
            f"{path} cannot be read ({error.strerror or error}); check the path and its rights."
        ) from None
    except UnicodeDecodeError:
        raise RequestError(f"{path} is damaged (not UTF-8 text); restore it or run again.") from None


def _parse(text: str, place: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise RequestError(f"{place} is damaged ({error.msg}, {where}); restore it or run again.") from None
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{place} is damaged ({error}); restore it or run again.") from None
