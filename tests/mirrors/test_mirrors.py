"""What the mirrors are told of a run, what the command prints, and that nothing is imported unless it is asked for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import heedful.report.study  # noqa: F401 (before what it imports is replaced for a while)
from heedful.cli.report import report
from heedful.errors import RequestError
from heedful.mirrors.runs import mirrored
from heedful.report.facts.points import dotted, finals, points
from heedful.storage.runs import read_run
from tests.support.mirror_samples import write_study
from tests.support.report_samples import make_run, write_json


def test_points_leave_away_what_is_not_a_number(tmp_path: Path) -> None:
    write_json(tmp_path / "manifest.json", {"cost": {"flops": 2, "gpu_memory_bytes": None}})
    write_json(tmp_path / "metrics.json", {"splits": {"dev": {"n": 5, "f1": 0.5, "matthews": None, "bins": [1]}}})
    said = [{"step": 2, "loss": 1, "epoch": 1}, {"step": 2, "dev": {"f1": None, "ece": 0.5}}, {"loss": 3}]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(x) + "\n" for x in said))
    run = read_run(tmp_path)
    assert [(p.name, p.step, p.value, p.epoch) for p in points(run)] == [
        ("train/loss", 2, 1.0, 1.0),
        ("dev/ece", 2, 0.5, None),
    ]
    assert finals(run) == {"cost/flops": 2.0, "final/dev/f1": 0.5}
    assert dotted({"a": {"b": 1, "c": None}, "d": [1]}) == {"a.b": 1, "d": [1]}


def test_which_runs_are_mirrored_as_what(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    under_way = make_run(study / "runs" / "new-seed5", ["no", "yes"], seed=5, state="running")
    found = {m.name: m for m in mirrored(study)}
    assert [(m.study, m.setting, m.state) for m in found.values()] == [
        ("reviews", "minilm · full", "done"),
        ("reviews", "minilm · full", "done"),
        ("reviews", "it's", "done"),
        ("reviews", "new", "running"),
    ]
    (alone,) = mirrored(under_way)
    assert (alone.study, alone.name, alone.state) == ("reviews", "new-seed5", "running")
    assert alone.fingerprint == found["new-seed5"].fingerprint
    assert len({m.fingerprint for m in found.values()}) == 4
    write_json(tmp_path / "study.json", {"runs": []})
    with pytest.raises(RequestError, match=r"no run of this study has begun.*run it first\.$"):
        mirrored(tmp_path)


def test_the_command_says_how_to_look_at_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", ["no", "yes"])
    asked: list[object] = []
    monkeypatch.setattr("heedful.report.run.write_run_report", lambda directory: None)
    monkeypatch.setattr("heedful.mirrors.tensorboard.to_tensorboard", lambda *given: asked.append(given))
    monkeypatch.setattr("heedful.mirrors.mlflow.to_mlflow", lambda *given: (f"sqlite:///{given[1]}", "no room"))
    report(run, tensorboard=Path("a b"), mlflow="here")
    said = capsys.readouterr()
    assert said.out.splitlines()[2:] == ["tensorboard --logdir 'a b'", "mlflow ui --backend-store-uri sqlite:///here"]
    assert said.err == "heedful: MLflow could not store the reports (no room). The numbers are stored.\n"
    assert asked == [(run, Path("a b"))]


@pytest.mark.parametrize(("call", "package"), [("to_tensorboard", "tensorboard"), ("to_mlflow", "mlflow")])
def test_a_package_that_is_missing_is_named(call: str, package: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", ["no", "yes"])
    code = (
        f"import sys; sys.modules[{package!r}] = None\nfrom pathlib import Path\n"
        f"from heedful.errors import RequestError\nfrom heedful.mirrors.{package} import {call}\n"
        f"try:\n    {call}(Path({str(run)!r}), {'Path' if package == 'tensorboard' else 'str'}({str(tmp_path)!r}))\n"
        "except RequestError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.rstrip().endswith("install heedful[track]."), done.stderr
    assert done.stdout.count("\n") == 1


def test_nothing_is_imported_unless_asked_for() -> None:
    code = (
        "import sys, heedful.report.sections.of_study, heedful.report.page.write, heedful.mirrors.mlflow\n"
        "import heedful.mirrors.tensorboard, heedful.findings, heedful.cli.main\n"
        "sys.exit(', '.join({'mlflow', 'tensorboard', 'torch', 'sqlalchemy'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
