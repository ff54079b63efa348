"""The mirror in MLflow, read back by its client: params, tags, and the numbers of the log, each once."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from heedful.errors import RequestError
from heedful.mirrors.mlflow import to_mlflow
from tests.support.mirror_samples import go_on, series, write_study
from tests.support.report_samples import make_run, make_study, write_json

for package in ("mlflow", "sqlalchemy", "alembic"):
    pytest.importorskip(package)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study, mirrored twice; the database takes some seconds to make, so that one serves all tests."""
    folder = tmp_path_factory.mktemp("mlflow")
    study = write_study(folder)
    running = make_run(study / "runs" / "new-seed5", ["no", "yes"], seed=5, state="running")
    (running / "metrics.json").unlink()
    (study / "runs" / "setting0-seed1" / "report.html").write_text("a report")
    address, problem = to_mlflow(study, str(folder / "store"))
    assert address == f"sqlite:///{folder / 'store' / 'mlflow.db'}"
    assert not problem
    go_on(running, 500)
    to_mlflow(study, str(folder / "store"))
    return folder


@pytest.fixture
def client(place: Path) -> Any:
    from mlflow.tracking import MlflowClient

    return MlflowClient(f"sqlite:///{place / 'store' / 'mlflow.db'}")


def in_a_process_of_its_own(place: Path, **more: str) -> list[str]:
    """Mirrors a run that is in the store, where nobody can be reached; returns whom it tried to reach.

    MLflow keeps quiet of itself when it sees that it is being tested, so that it must not see that.
    """
    program = (
        "import atexit, socket, sys\nfrom pathlib import Path\ntried = []\n"
        "def refuse(who, *_, **__):\n    tried.append(str(who))\n    raise OSError('no network')\n"
        "socket.getaddrinfo = refuse\nsocket.socket.connect = lambda self, address: refuse(address)\n"
        "run, store, found = sys.argv[1:]\n"
        "atexit.register(lambda: Path(found).write_text('\\n'.join(tried)))\n"
        "from heedful.mirrors.mlflow import to_mlflow\nto_mlflow(Path(run), store)\n"
    )
    run, found = place / "reviews" / "runs" / "setting1-seed1", place / "tried.txt"
    hidden = {"CI", "PYTEST_CURRENT_TEST", "GITHUB_ACTIONS", "GITLAB_CI", "JENKINS_URL", "BUILDKITE", "TF_BUILD"}
    environment = {key: value for key, value in os.environ.items() if key not in hidden} | more
    command = [sys.executable, "-c", program, str(run), str(place / "store"), str(found)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return found.read_text().splitlines()


def held(client: Any) -> dict[str, Any]:
    experiment = client.get_experiment_by_name("reviews")
    found = client.search_runs([experiment.experiment_id])
    assert len({run.info.run_name for run in found}) == len(found)
    return {run.info.run_name: run for run in found}


def test_holds_every_run_once(place: Path, client: Any) -> None:
    found = held(client)
    assert sorted(found) == sorted(p.name for p in (place / "reviews" / "runs").iterdir())
    assert {name: run.info.status for name, run in found.items() if run.info.status != "FINISHED"} == {
        "new-seed5": "RUNNING"
    }
    tags = found["setting0-seed2"].data.tags
    assert tags["heedful.setting"] == "minilm · full"
    assert tags["heedful.seed"] == "2"
    assert tags["heedful.data.train"] == "sha256:5c2f9e…"
    assert tags["heedful.versions.torch"] == "2.13.0"
    params = found["setting0-seed2"].data.params
    assert params["training.lr"] == "5e-05"
    assert params["model.name"] == "minilm"
    note = client.get_experiment_by_name("reviews").tags["mlflow.note.content"]
    assert note.startswith("Use minilm · full (the best on dev). Expect an accuracy of 0.")


def test_holds_the_numbers_of_the_log(place: Path, client: Any) -> None:
    for name, run in held(client).items():
        for key, expected in series(place / "reviews" / "runs" / name).items():
            seen = sorted((m.step, m.value) for m in client.get_metric_history(run.info.run_id, key))
            assert seen == sorted(expected), (name, key)
    metrics = json.loads((place / "reviews" / "runs" / "setting0-seed1" / "metrics.json").read_text())
    ours = held(client)["setting0-seed1"]
    assert ours.data.metrics["final/test/accuracy"] == metrics["splits"]["test"]["accuracy"]
    assert ours.info.end_time - ours.info.start_time == pytest.approx(1000 * 61 * 1.05 * 1.2, abs=2)


def test_holds_the_report(client: Any, tmp_path: Path) -> None:
    run = held(client)["setting0-seed1"]
    path = client.download_artifacts(run.info.run_id, "report.html", str(tmp_path))
    assert Path(path).read_text() == "a report"


def test_long_and_strange_values_fit(place: Path, client: Any, tmp_path: Path) -> None:
    run = make_run(tmp_path / "strange", ["no", "yes"])
    manifest = json.loads((run / "manifest.json").read_text())
    options = {f"a:b{i}": i for i in range(120)} | {"x" * 300: "y" * 9000, "none": None, "empty": "", "list": [1]}
    manifest["recipe"]["data"]["options"] = options
    write_json(run / "manifest.json", manifest)
    to_mlflow(run, f"sqlite:///{place / 'store' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("strange")
    assert experiment.artifact_location == (place / "store" / "artifacts").as_uri()
    (found,) = client.search_runs([experiment.experiment_id])
    params = found.data.params
    assert params["data.options.a_b119"] == "119"
    assert params["data.options.list"] == "[1]"
    assert not {"data.options.none", "data.options.empty"} & set(params)
    (long,) = [value for key, value in params.items() if key.endswith("xxx")]
    assert long == "y" * 6000


def test_a_study_of_the_same_name_is_not_mixed_in(place: Path, client: Any, tmp_path: Path) -> None:
    before = held(client)["setting0-seed1"]
    settings = {"bert-mini · full": (1.0, 1.0)}
    other = make_study(tmp_path / "reviews", ["no", "yes"], n=20, seeds=(1,), settings=settings)
    to_mlflow(other, str(place / "store"))
    experiment = client.get_experiment_by_name("reviews").experiment_id
    found = [r for r in client.search_runs([experiment]) if r.info.run_name == "setting0-seed1"]
    assert {r.data.params["model.name"] for r in found} == {"minilm", "bert-mini"}
    (same,) = [r for r in found if r.info.run_id == before.info.run_id]
    assert same.data.metrics == before.data.metrics
    (new,) = [r for r in found if r is not same]
    client.delete_run(new.info.run_id)


def test_says_nothing_and_asks_nobody(place: Path) -> None:
    assert in_a_process_of_its_own(place) == []


@pytest.mark.full
def test_would_notice_a_call_home(place: Path) -> None:
    """The control of the test above: MLflow as it comes does ask somebody."""
    assert in_a_process_of_its_own(place, MLFLOW_DISABLE_TELEMETRY="false")


def test_an_experiment_in_the_bin_is_not_touched(place: Path, client: Any, tmp_path: Path) -> None:
    run = make_run(tmp_path / "binned", ["no", "yes"])
    client.delete_experiment(client.create_experiment("binned"))
    with pytest.raises(RequestError, match="'binned' has been deleted in MLflow; restore it"):
        to_mlflow(run, str(place / "store"))


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("nothing://there", "cannot be used .*unsupported URI"),
        ("file:///tmp/x", "cannot be used .*maintenance mode"),
        ("100%", "has . or % in it"),
    ],
)
def test_an_address_that_is_none(address: str, why: str, place: Path) -> None:
    with pytest.raises(RequestError, match=why) as caught:
        to_mlflow(place / "reviews", address)
    assert "\n" not in str(caught.value)
