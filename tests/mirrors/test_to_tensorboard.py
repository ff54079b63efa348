"""The mirror in TensorBoard, read back by TensorBoard: the numbers of the log, each once."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heedful.errors import RequestError
from heedful.mirrors.tensorboard import to_tensorboard
from tests.support.mirror_samples import go_on, series, write_study
from tests.support.report_samples import make_run

pytest.importorskip("tensorboard")


def read(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    return found


def assert_the_same(folder: Path, run: Path) -> None:
    found = read(folder)
    for name, expected in series(run).items():
        seen = [(e.step, e.value) for e in found.Scalars(name)]
        assert seen == [(step, float(np.float32(value))) for step, value in expected], name


def test_holds_the_numbers_of_the_log(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    folders = to_tensorboard(study, tmp_path / "logs")
    names = ["setting0-seed1", "setting0-seed2", "setting1-seed1"]
    assert folders == [tmp_path / "logs" / "reviews" / name for name in names]
    for folder in folders:
        assert_the_same(folder, study / "runs" / folder.name)
    final = read(folders[0]).Scalars("final/test/accuracy")
    metrics = json.loads((study / "runs" / names[0] / "metrics.json").read_text())
    accuracy = float(np.float32(metrics["splits"]["test"]["accuracy"]))
    assert [(e.step, e.value) for e in final] == [(120, accuracy)]


def test_holds_the_recipe(tmp_path: Path) -> None:
    from tensorboard.plugins.hparams import metadata

    run = make_run(tmp_path / "run", ["no", "yes"], seed=7)
    (folder,) = to_tensorboard(run, tmp_path / "logs")
    assert folder == tmp_path / "logs" / "run"
    found = read(folder)
    held = found.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
    told = metadata.parse_session_start_info_plugin_data(held).hparams
    assert told["seed"].number_value == 7
    assert told["training.lr"].number_value == 5e-5
    assert told["model.name"].string_value == "minilm"
    held = found.SummaryMetadata(metadata.SESSION_END_INFO_TAG).plugin_data.content
    assert metadata.parse_session_end_info_plugin_data(held).status == 1  # success


def test_mirrored_again_no_point_is_there_twice(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", ["no", "yes"], state="running")
    (folder,) = to_tensorboard(run, tmp_path / "logs")
    before = next(folder.iterdir())
    first = before.read_bytes()
    watching = read(folder)
    for step in (500, 600, 700):
        go_on(run, step)
        to_tensorboard(run, tmp_path / "logs")
        assert_the_same(folder, run)
        assert [path.stat().st_size > 0 for path in sorted(folder.iterdir())] == [False, True]
        watching.Reload()  # one that looks on meanwhile
        steps = [at for at, _ in series(run)["train/loss"]]
        assert [e.step for e in watching.Scalars("train/loss")] == steps
    before.write_bytes(first)  # as after a kill between the new file and the emptying of the old one
    assert_the_same(folder, run)


def test_the_mirror_of_another_run_is_left_alone(tmp_path: Path) -> None:
    first = make_run(tmp_path / "a" / "run", ["no", "yes"], seed=1)
    other = make_run(tmp_path / "b" / "run", ["no", "yes"], seed=2)
    (folder,) = to_tensorboard(first, tmp_path / "logs")
    with pytest.raises(RequestError, match="mirrors another run of this name"):
        to_tensorboard(other, tmp_path / "logs")
    assert_the_same(folder, first)


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", ["no", "yes"])
    (tmp_path / "logs").write_text("")
    with pytest.raises(RequestError, match="choose another directory"):
        to_tensorboard(run, tmp_path / "logs")
