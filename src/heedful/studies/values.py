"""What each example of a run contributes to its score, read from the run's values and matched by row."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from heedful.errors import RequestError
from heedful.evaluation.metrics import Columns, Metric, pseudo_values
from heedful.storage.examples import places_of, read_values
from heedful.storage.runs import Run

Floats = npt.NDArray[np.float64]


class NotComparableError(Exception):
    """A reason in words, without its subject."""


def values_of(run: Run, judged: str, metric: Metric) -> tuple[list[int], Floats]:
    path = run.directory / "values" / f"{judged}.tsv"
    if not path.exists():
        raise NotComparableError(f"has a run without values for each example (values/{judged}.tsv)")
    rows, columns = read_values(path)
    return rows, contributions(metric, columns, str(path))


def baselines_beside(run: Run, judged: str, metric: Metric) -> dict[str, dict[str, Columns]]:
    """The columns of each tested baseline that the run has judged beside its model, where only a run can: the names of
    such columns of its values begin with the baseline's and a slash."""
    path = run.directory / "values" / f"{judged}.tsv"
    tested = {name: b for name, b in run.metrics.baselines.items() if b.tested and path.exists()}
    known = [name for name, b in tested.items() if b.scores(judged).number(metric.name) is not None]
    rows, columns = read_values(path) if known else ([], {})
    found: dict[str, dict[str, Columns]] = {}
    for name in known:
        start = f"{name}/"
        own = {key.removeprefix(start): column for key, column in columns.items() if key.startswith(start)}
        if own:
            found[name] = {judged: {**own, "row": np.asarray(rows)}}
    return found


def contributions(metric: Metric, columns: Columns, where: str) -> Floats:
    """What each example contributes to the score, whose mean they have: the jackknife's bias is not taken off, so that
    differences are those of the scores in the table."""
    try:
        score, values_e = pseudo_values(metric, columns)
    except KeyError as error:
        raise RequestError(f"{where} has no column {error}, which {metric.title} is made of; run again.") from None
    if not np.isfinite(values_e).all() or not np.isfinite(score):
        raise NotComparableError(f"has a run whose {metric.title} is undefined without one of its examples")
    return np.asarray(values_e - values_e.mean() + score, dtype=np.float64)


def aligned(rows: Sequence[int], values_e: Floats, wanted: Sequence[int], judged: str, first: str) -> Floats:
    places = places_of(rows, wanted)
    if places is None:
        raise NotComparableError(f"was tested on other rows of {judged} than {first}")
    return values_e[places]
