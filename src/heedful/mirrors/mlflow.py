"""A mirror in MLflow: an experiment for a study, an MLflow run for each run; mirrored again, nothing is there twice."""

import json
import logging
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from heedful.errors import RequestError, WorkError
from heedful.mirrors.runs import EXTRA, Mirrored, mirrored
from heedful.report.facts.comparison import compare
from heedful.report.facts.points import finals, points
from heedful.report.page.words import shortened
from heedful.report.sections.card import verdict
from heedful.storage.directories import make_directory
from heedful.storage.runs import kind_of, read_study

_CALM = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # its seven keep whoever mistyped an address waiting for minutes
}
_STATES = {"done": "FINISHED", "failed": "FAILED"}


def to_mlflow(directory: Path, place: str) -> tuple[str, str]:
    """Mirrors a run or a study; `place` is MLflow's address, or a directory for a database in a file.

    Returns the address, and why reports could not be kept there; "" if they were.
    """
    runs = mirrored(directory)
    address, artifacts = _address(place)
    with _quietly():
        client = _client(address)
        from mlflow.exceptions import MlflowException

        try:
            experiment = _experiment(client, runs[0].study or runs[0].name, artifacts)
            if kind_of(directory) == "study":
                client.set_experiment_tag(experiment, "mlflow.note.content", verdict(compare(read_study(directory))))
            problems = [_mirror(client, experiment, one) for one in runs]
        except (MlflowException, OSError) as error:
            raise WorkError(
                f"MLflow at {_public(address)} failed ({_reason(error)}); the same line tries again."
            ) from None
    return _public(address), next(filter(None, problems), "")


def _public(address: str) -> str:
    """Without a name and password that may be in it."""
    return re.sub(r"//[^/@]*@", "//", address)


def _address(place: str) -> tuple[str, str | None]:
    """With where artifacts go, if MLflow is not to decide that: for a database in a file, beside it."""
    if "://" not in place and place != "databricks":
        folder = Path(place).expanduser().absolute()
        if set("?%") & set(str(folder)):
            raise RequestError(f"{folder}: MLflow cannot open a database whose path has ? or % in it; choose another.")
        place = f"sqlite:///{folder / 'mlflow.db'}"
    if place.startswith("sqlite:///"):
        folder = Path(place.removeprefix("sqlite:///")).absolute().parent
        make_directory(folder)
        return place, (folder / "artifacts").as_uri()
    return place, None


@contextmanager
def _quietly() -> Iterator[None]:
    """No telemetry, no address on the screen, no news of the tables that it makes, no warnings of others' making."""
    added = {key: value for key, value in _CALM.items() if key not in os.environ}
    os.environ.update(added)
    before: dict[logging.Logger, int] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with _importing():
                import mlflow  # noqa: F401 (it sets up its loggers, which are then told to be quiet)
            for logger in map(logging.getLogger, ("mlflow", "alembic", "urllib3")):
                before[logger] = logger.level
                logger.setLevel(logging.ERROR)
            yield
    finally:
        for logger, level in before.items():
            logger.setLevel(level)
        for key in added:
            os.environ.pop(key, None)


@contextmanager
def _importing() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        missing = (error.name or "mlflow").partition(".")[0]
        remedy = EXTRA if missing in ("mlflow", "sqlalchemy", "alembic") else f"install {missing}"
        raise RequestError(f"MLflow cannot be reached without {missing}, which is not here; {remedy}.") from None


def _client(address: str) -> Any:
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    try:
        with _importing():  # a database needs more than a server does
            client = MlflowClient(tracking_uri=address, registry_uri=address)
            client.search_experiments(max_results=1)
    except (MlflowException, OSError, ValueError) as error:
        raise RequestError(
            f"MLflow at {_public(address)} cannot be used ({_reason(error)}); check the address."
        ) from None
    return client


def _experiment(client: Any, name: str, artifacts: str | None) -> str:
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        return str(client.create_experiment(name, artifact_location=artifacts))
    if experiment.lifecycle_stage != "active":
        raise RequestError(f"the experiment {name!r} has been deleted in MLflow; restore it there, or purge it.")
    return str(experiment.experiment_id)


def _mirror(client: Any, experiment: str, one: Mirrored) -> str:
    """Returns why the report could not be kept; "" if it was."""
    alike = client.search_runs([experiment], f"tags.`heedful.fingerprint` = '{one.fingerprint}'")
    mirror = next((run for run in alike if run.data.tags.get("heedful.run") == one.name), None)
    wrote, tags = _last_written(one), _tags(one)
    if mirror is None:  # with its tags at once, so that it is found again whatever happens next
        spent = one.run.manifest.cost.total_seconds or 0
        mirror = client.create_run(experiment, wrote - round(1000 * spent), tags, one.name)
    id_, start = mirror.info.run_id, mirror.info.start_time
    _log(client, id_, one, start)
    client.set_tag(id_, "heedful.state", one.state)
    if one.state == "running":
        client.update_run(id_, status="RUNNING")
    else:
        client.set_terminated(id_, _STATES[one.state], max(wrote, start))
    return _keep_report(client, id_, one.run.directory / "report.html")


def _keep_report(client: Any, id_: str, report: Path) -> str:
    try:
        if report.is_file():
            client.log_artifact(id_, str(report))
    except Exception as error:  # whatever the place for artifacts raises: the numbers are there without it
        return _reason(error)
    return ""


def _log(client: Any, id_: str, one: Mirrored, start: int) -> None:
    """What is not there yet. The log holds no times: each number gets the time at which the run began."""
    from mlflow.entities import Metric, Param
    from mlflow.utils.validation import MAX_ENTITY_KEY_LENGTH, MAX_PARAM_VAL_LENGTH

    params = [
        Param(_key(key)[:MAX_ENTITY_KEY_LENGTH], text[:MAX_PARAM_VAL_LENGTH])
        for key, value in one.settings.items()
        if (text := value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    ]
    for some in _batches(params, 100):
        client.log_batch(id_, params=some)
    numbers = [(p.name, p.step, p.value) for p in points(one.run)]
    last = max((step for _, step, _ in numbers), default=0)
    numbers += [(name, last, value) for name, value in finals(one.run).items()]
    known = {
        (name, m.step, m.value)
        for name in client.get_run(id_).data.metrics
        for m in client.get_metric_history(id_, name)
    }
    missing = [Metric(_key(n), value, start, step) for n, step, value in numbers if (_key(n), step, value) not in known]
    for some in _batches(missing, 1000):
        client.log_batch(id_, metrics=some)


def _tags(one: Mirrored) -> dict[str, str]:
    m = one.run.manifest
    facts = {"run": one.name, "fingerprint": one.fingerprint, "setting": one.setting, "seed": m.seed}
    facts |= {"study": one.study, "version": m.heedful, "state": one.state}
    facts |= {f"data.{split}": value for split, value in m.data.fingerprints.items()}
    facts |= {f"versions.{name}": value for name, value in m.versions.items()}
    return {f"heedful.{key}": str(value) for key, value in facts.items() if value not in (None, "")}


def _last_written(one: Mirrored) -> int:
    """When the run last wrote something, in milliseconds."""
    files = [one.run.directory / name for name in ("log.jsonl", "manifest.json")]
    return round(1000 * max(path.stat().st_mtime for path in files if path.exists()))


def _key(name: str) -> str:
    """In the characters that MLflow takes."""
    return re.sub(r"[^\w.\-/ ]", "_", name)


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[at : at + size] for at in range(0, len(items), size))


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return shortened(lines[0].rstrip("."), 160)
