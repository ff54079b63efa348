"""A mirror in TensorBoard: one folder of events for each run, written anew and whole each time."""

import io
import re
from pathlib import Path
from typing import Any

from heedful.errors import RequestError, WorkError
from heedful.mirrors.runs import EXTRA, Mirrored, mirrored
from heedful.report.facts.points import finals, points
from heedful.storage.directories import make_directory
from heedful.storage.whole import write_bytes

_OURS = re.compile(r"events\.out\.tfevents\.(\d{10})\.([0-9a-f]{16})\.heedful")


def to_tensorboard(directory: Path, logs: Path) -> list[Path]:
    """Losses, learning rates, scores and hyperparameters of each run, in logs/<study>/<run>; returns these folders."""
    try:
        import tensorboard.summary.writer.record_writer  # noqa: F401 (is it there?)
    except ImportError:
        raise RequestError(f"TensorBoard is not here; {EXTRA}.") from None
    folders = []
    for one in mirrored(directory):
        folder = logs / one.study / one.name if one.study else logs / one.name
        make_directory(folder)
        try:
            _replace(folder, one)
        except OSError as error:
            raise WorkError(f"{folder}: could not be written ({error.strerror or error}).") from None
        folders.append(folder)
    return folders


def _replace(folder: Path, one: Mirrored) -> None:
    """A new file with a higher number in the place of the older one.

    A TensorBoard that is looking on goes over to the file that comes next by name. Its first event says that whatever
    came before counts no more, so that no point is shown twice. The file before it is emptied and not yet removed:
    one of TensorBoard's two readers would wait for it.
    """
    older = {path: m for path in sorted(folder.iterdir()) if (m := _OURS.fullmatch(path.name))}
    if any(m[2] != one.fingerprint for m in older.values()):
        raise RequestError(f"{folder}: mirrors another run of this name; choose another directory for the logs.")
    number = max((int(m[1]) for m in older.values()), default=0) + 1
    events = io.BytesIO()
    _write(events, one)
    write_bytes(folder / f"events.out.tfevents.{number:010}.{one.fingerprint}.heedful", events.getvalue())
    for path in list(older)[:-1]:
        path.unlink(missing_ok=True)
    for path in list(older)[-1:]:
        path.write_bytes(b"")


def _write(file: Any, one: Mirrored) -> None:
    from tensorboard.compat.proto.event_pb2 import Event, SessionLog
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    run, writer = one.run, RecordWriter(file)
    # The log holds no times: all its events get the time at which the run last wrote something.
    files = [run.directory / name for name in ("log.jsonl", "manifest.json")]
    time = max(path.stat().st_mtime for path in files if path.exists())

    def tell(step: int = 0, **what: Any) -> None:
        writer.write(Event(wall_time=time, step=step, **what).SerializeToString())

    def scalar(name: str, step: int, value: float) -> None:
        tell(step, summary=Summary(value=[Summary.Value(tag=name, simple_value=value)]))

    tell(file_version="brain.Event:2")
    tell(session_log=SessionLog(status=SessionLog.START))
    start, end = _hyperparameters(one, time)
    tell(summary=start)
    logged = points(run)
    for p in logged:
        scalar(p.name, p.step, p.value)
    last = max((p.step for p in logged), default=0)
    for name, value in finals(run).items():
        scalar(name, last, value)
    if one.state != "running":
        tell(summary=end)
    writer.flush()


def _hyperparameters(one: Mirrored, time: float) -> tuple[Any, Any]:
    """What the tab HPARAMS reads at the beginning and at the end of a run."""
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import metadata
    from tensorboard.plugins.hparams.api_pb2 import Status
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo

    start = SessionStartInfo(start_time_secs=time)
    for key, value in one.settings.items():
        if isinstance(value, bool):
            start.hparams[key].bool_value = value
        elif isinstance(value, int | float):
            start.hparams[key].number_value = value
        else:
            start.hparams[key].string_value = str(value)
    status = Status.Value("STATUS_SUCCESS" if one.state == "done" else "STATUS_FAILURE")
    end = SessionEndInfo(status=status, end_time_secs=time)

    def summary(tag: str, data: Any) -> Any:
        about = metadata.create_summary_metadata(data)
        return Summary(value=[Summary.Value(tag=tag, metadata=about, tensor=metadata.NULL_TENSOR)])

    return (
        summary(metadata.SESSION_START_INFO_TAG, HParamsPluginData(session_start_info=start)),
        summary(metadata.SESSION_END_INFO_TAG, HParamsPluginData(session_end_info=end)),
    )
