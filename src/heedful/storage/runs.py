"""The files of a run and of a study, read back: the one reader for tables, statistics, reports, mirrors and Python.
Whatever is optional may be missing; whatever is damaged is named."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from heedful.errors import RequestError
from heedful.storage.reading import read_lines, read_object
from heedful.storage.run_record import FORMAT, BaselineScores, LogLine, Manifest, Metrics, Scores
from heedful.storage.statistics_record import Statistics
from heedful.storage.study_record import RunEntry, StudyRecord

MARKS, MARK_DIGITS = "marks", 8
"""The folder of a run's kept marks, each called by its step in so many digits or more."""


@dataclass(frozen=True)
class Run:
    directory: Path
    manifest: Manifest
    metrics: Metrics = field(default_factory=Metrics)
    log: list[LogLine] = field(default_factory=list)

    @property
    def done(self) -> bool:
        return self.manifest.state == "done" and bool(self.metrics)

    @property
    def seed(self) -> str:
        return "–" if self.manifest.seed is None else str(self.manifest.seed)

    @property
    def evaluations(self) -> list[LogLine]:
        """The lines of the log that have scores on dev."""
        return [line for line in self.log if line.dev]

    def scores(self, name: str | None) -> Scores:
        """The scores on an evaluation set; empty if there are none."""
        return self.metrics.splits.get(name or "", Scores())

    def baseline(self, name: str) -> BaselineScores:
        """What is known of a baseline; empty if nothing is."""
        return self.metrics.baselines.get(name, BaselineScores())

    def fingerprint(self, name: str) -> str | None:
        """Of the rows of an evaluation set, in their order; None if nobody noted it down."""
        return self.manifest.data.fingerprints.get(name)


@dataclass(frozen=True)
class Study:
    directory: Path
    record: StudyRecord
    runs: list[tuple[RunEntry, Run | None]]
    """Each entry of study.json, with the run's files where there are any."""
    statistics: Statistics = field(default_factory=Statistics)


def judging_order(names: Iterable[str]) -> list[str]:
    """Evaluation sets by how well they judge: test, then others, dev last, since it chose the checkpoint."""
    return sorted(names, key=lambda name: (name != "test", name == "dev"))


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
    """Return a run as its files are now. They are parsed once for as long as they do not change."""
    return _parsed(
        directory, tuple(_stamp(directory / name) for name in ("manifest.json", "metrics.json", "log.jsonl"))
    )


def _stamp(path: Path) -> tuple[int, ...] | None:
    """What changes with a file; None if there is none."""
    try:
        known = path.stat()
    except OSError:
        return None
    return known.st_dev, known.st_ino, known.st_size, known.st_mtime_ns


@lru_cache(maxsize=512)
def _parsed(directory: Path, stamps: tuple[tuple[int, ...] | None, ...]) -> Run:
    remedy = f"restore it, or delete {directory} and run again"
    manifest = read_object(directory / "manifest.json", remedy)
    _check_format(manifest, directory / "manifest.json")
    metrics = read_object(directory / "metrics.json", remedy) if (directory / "metrics.json").exists() else {}
    log = [LogLine.model_validate(line) for line in read_lines(directory / "log.jsonl", remedy)]
    return Run(directory, Manifest.model_validate(manifest), Metrics.model_validate(metrics), log)


def finished_run(directory: Path) -> Run | None:
    """The run, if it is done and whole; None if it is not there, under way or damaged: whoever runs it makes it again,
    or says what is wrong."""
    try:
        run = read_run(directory)
    except RequestError:
        return None
    return run if run.done and "state" in run.manifest.model_fields_set and _is_whole(run) else None


def names_mark(path: Path) -> bool:
    """Whether it is marks/ and a number: a step of eight digits, or which mark it is."""
    return path.parent.name == MARKS and path.name.isascii() and path.name.isdigit()


def trained_to(model: Path) -> dict[str, int]:
    """Of a model directory that a run has left at a mark or at its end: after which step and, where the run's log says
    so, how many tokens. Empty for any other directory, and where the run is no longer around it."""
    model = model.absolute()
    at_mark = names_mark(model)
    place = model.parents[1] if at_mark else model.parent
    if not (at_mark or model.name == "model") or not (place / "manifest.json").is_file():
        return {}
    try:
        run = read_run(place)
    except RequestError:
        return {}
    tokens = {line.step: line.tokens for line in run.log if line.dev is not None and line.step}
    best = run.metrics.best.step if run.manifest.asked.training.keep == "best" else None
    step = float(model.name) if at_mark else best or max(tokens, default=None)
    if step is None:
        return {}
    seen = tokens.get(step)
    return {"step": int(step), **({} if seen is None else {"tokens": int(seen)})}


def run_files(directory: Path) -> dict[str, int]:
    """What a finished run has left beside its metrics, and how many bytes of each: its manifest says so."""
    paths = [p for folder in ("predictions", "values") for p in sorted((directory / folder).glob("*.tsv"))]
    paths += sorted((directory / "model").rglob("*"))
    return {path.relative_to(directory).as_posix(): path.stat().st_size for path in paths if path.is_file()}


def _is_whole(run: Run) -> bool:
    """Whether the model can be read, and every file that the run says it has left is there at its length. An older run
    says nothing of its files."""
    try:
        sizes = {name: (run.directory / name).stat().st_size for name in run.manifest.files}
    except OSError:
        return False
    return sizes == run.manifest.files and has_weights(run.directory / "model")


def has_weights(model: Path) -> bool:
    """Whether a model directory has its config.json and weights, each file as long as its header says. Cheap: no weight
    is read."""
    try:
        read_object(model / "config.json")
        weights = {path.name: _is_whole_file(path) for path in model.glob("*.safetensors")}
    except (OSError, RequestError):
        return False
    return "model.safetensors" in weights and all(weights.values())


def _is_whole_file(path: Path) -> bool:
    """A safetensors file: the length of its header in eight bytes, the header as JSON, the tensors that it names."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        size = path.stat().st_size
        if length > size - 8:
            return False
        try:
            header = json.loads(file.read(length))
            ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            return False
    return size == 8 + length + max(ends, default=0)


def read_study(directory: Path) -> Study:
    path = directory / "study.json"
    facts = read_object(path)
    _check_format(facts, path)
    record = StudyRecord.model_validate(facts)
    runs: list[tuple[RunEntry, Run | None]] = []
    for entry in record.runs:
        name = entry.name
        if Path(name).name != name or name in ("", ".", ".."):
            raise RequestError(f"{path} names the run {name!r}, which cannot be a folder in runs/; correct the name.")
        folder = directory / "runs" / name
        runs.append((entry, read_run(folder) if (folder / "manifest.json").exists() else None))
    path = directory / "statistics.json"
    return Study(directory, record, runs, Statistics.model_validate(read_object(path) if path.exists() else {}))


def begun(study: Study) -> list[tuple[RunEntry, Run]]:
    """The runs that have files: those that study.json names, then those that it does not: under way, or of another
    request in the same place."""
    runs = [(entry, run) for entry, run in study.runs if run is not None]
    known = {entry.name for entry, _ in study.runs}
    for path in sorted((study.directory / "runs").glob("*/manifest.json")):
        name = path.parent.name
        if name not in known:
            run = read_run(path.parent)
            state = "done" if run.done else "running"
            runs.append((RunEntry(name=name, setting=name.rpartition("-seed")[0], state=state), run))
    return runs


def _check_format(facts: dict[str, Any], path: Path) -> None:
    version = facts.get("format", FORMAT)
    if version != FORMAT:
        remedy = (
            "update heedful" if isinstance(version, int) and version > FORMAT else "run it again with another --out"
        )
        raise RequestError(f"{path} has format {version!r}, this heedful reads format {FORMAT}; {remedy}.")
