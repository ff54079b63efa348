"""`heedful report`: which directories it takes, and how it refuses the others."""

from pathlib import Path

import pytest

from heedful.cli.report import report
from heedful.errors import RequestError
from heedful.storage.runs import kind_of, read_run, read_study
from tests.support.report_samples import make_run, make_study, write_json


def test_prints_where_the_reports_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", ["a", "b"])
    study = make_study(tmp_path / "study", ["a", "b"], seeds=(1,), settings={"x": (2.0, 5.0)})
    report(run)
    report(study)
    printed = capsys.readouterr().out.splitlines()
    assert printed == [str(folder / name) for folder in (run, study) for name in ("report.html", "report.md")]
    assert all(Path(line).is_file() for line in printed)


def test_refuses_what_is_neither(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"neither a run nor a study: it has no manifest.json and no study.json\.$"):
        kind_of(tmp_path)
    with pytest.raises(RequestError, match="is not a directory"):
        kind_of(tmp_path / "absent")


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("manifest.json", '{"format": 2,', r"manifest\.json is damaged \(.*line 1, column"),
        ("metrics.json", "[1]", r"metrics\.json must hold a JSON object, not list"),
        ("metrics.json", '{"temperature": NaN}', r"metrics\.json is damaged \(NaN is not JSON\)"),
        ("log.jsonl", '{"step": 1}\n{"st\n{"step": 2}\n', r"log\.jsonl, line 2 is damaged"),
        ("manifest.json", '{"format": 9}', r"has format 9, this heedful reads format 2; update heedful"),
        ("metrics.json", b"\xff\xfe{}", r"metrics\.json is damaged \(not UTF-8 text\)"),
    ],
)
def test_names_the_damaged_file(name: str, content: str | bytes, why: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", ["a", "b"], n=20)
    (run / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(RequestError, match=why):
        read_run(run)


def test_names_the_damaged_run_of_a_study(tmp_path: Path) -> None:
    study = make_study(tmp_path, ["a", "b"], seeds=(1,), settings={"x": (2.0, 5.0)})
    (study / "runs" / "setting0-seed1" / "metrics.json").write_text("{")
    with pytest.raises(
        RequestError, match=r"metrics\.json is damaged .*; restore it, or delete .*setting0-seed1 and run again\.$"
    ):
        read_study(study)


@pytest.mark.parametrize("name", ["../elsewhere", "", "..", "a/b"])
def test_a_run_outside_of_the_study_is_refused(name: str, tmp_path: Path) -> None:
    write_json(tmp_path / "study.json", {"runs": [{"name": name}]})
    with pytest.raises(RequestError, match="cannot be a folder in runs/"):
        read_study(tmp_path)


def test_the_last_line_of_a_log_may_be_torn(tmp_path: Path) -> None:
    write_json(tmp_path / "manifest.json", {})
    (tmp_path / "log.jsonl").write_text('{"step": 1}\n\n{"step": 2}\n{"st')
    assert [line.step for line in read_run(tmp_path).log] == [1, 2]
