"""The files of a run are parsed once in a process, however many tables, statistics and reports are made of them."""

import os
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.report.glance import closing_lines
from heedful.report.study import write_reports
from heedful.storage import runs
from heedful.storage.runs import read_run
from heedful.storage.whole import write_json
from heedful.studies.plan import plan_comparison
from heedful.studies.study import run_study
from tests.support.training_samples import write_data, write_tiny


def test_a_comparison_parses_each_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: Counter[Path] = Counter()

    def counted(read: Any, path: Path, *remedy: str) -> Any:
        parsed[path] += path.exists()
        return read(path, *remedy)

    for name in ("read_object", "read_lines"):
        monkeypatch.setattr(runs, name, partial(counted, getattr(runs, name)))
    files, model = write_data(tmp_path / "data"), str(write_tiny(tmp_path))
    plan = plan_comparison(files, [model], ["full", "frozen"], (0, 1), {"training": {"epochs": 1, "max_length": 16}})
    for _ in range(2):  # the second sitting finds all runs done
        run_study(plan, tmp_path / "study", quiet=True)
        closing_lines(write_reports(tmp_path / "study"))
    assert heedful.results(tmp_path / "study").table
    of_runs = {path: n for path, n in parsed.items() if path.parent.parent.name == "runs"}
    assert (
        len([path for path in of_runs if path.name == "metrics.json"]) == 3
    )  # the seed of a frozen body does not matter
    assert {path.name for path in of_runs} == {"manifest.json", "metrics.json", "log.jsonl"}
    assert set(of_runs.values()) == {1}


def test_a_run_that_has_changed_is_parsed_again(tmp_path: Path) -> None:
    write_json(tmp_path / "manifest.json", {"seed": 1})
    assert read_run(tmp_path) is read_run(tmp_path)
    before = (tmp_path / "manifest.json").stat()
    write_json(tmp_path / "manifest.json", {"seed": 2})
    os.utime(tmp_path / "manifest.json", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert read_run(tmp_path).manifest.seed == 2
    (tmp_path / "log.jsonl").write_text('{"step": 1}\n')
    assert len(read_run(tmp_path).log) == 1
