"""What a run or a study found, as Python objects: read from its directory, shown in a terminal or a notebook."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heedful.errors import RequestError
from heedful.report.facts.points import points
from heedful.storage import runs as files
from heedful.storage.examples import read_examples, read_predictions

if TYPE_CHECKING:
    from heedful.inference.loading import Loaded
    from heedful.report.facts.comparison import Comparison
    from heedful.report.glance import Glance

Rows = list[dict[str, Any]]
_TEXTS = frozenset(["label", "answer", "recalled", "source", "reference", "translation"])
"""Columns of predictions that are texts, even where all of them are written with digits."""


def results(directory: str | Path) -> "Run | Study":
    """The run or the study in a directory, finished or not, as it is now; open it again to see what came since."""
    place = Path(directory).expanduser()
    return Study(place) if files.kind_of(place) == "study" else Run(place)


class Run:
    """One recipe with one seed, as its files were when it was opened."""

    def __init__(self, directory: str | Path, read: files.Run | None = None) -> None:
        self.directory = Path(directory)
        self._files = read or files.read_run(self.directory)

    @property
    def manifest(self) -> dict[str, Any]:
        """manifest.json: recipe, seed, versions, data fingerprints, cost."""
        return self._files.manifest.written

    @property
    def metrics(self) -> dict[str, Any]:
        """metrics.json; empty until the run is done."""
        return self._files.metrics.written

    @property
    def recipe(self) -> dict[str, Any]:
        return self._files.manifest.recipe

    @property
    def seed(self) -> int | None:
        return self._files.manifest.seed

    @property
    def done(self) -> bool:
        return self._files.done

    @property
    def table(self) -> Rows:
        """A row for each evaluation set that has scores, with those that are one number."""
        sets = self._files.metrics.splits.items()
        return _with_every_column([{"split": name} | _numbers(scores.extra) for name, scores in sets])

    @property
    def log(self) -> Rows:
        """What was logged while it trained: losses, learning rates, scores on dev."""
        return [line.written for line in self._files.log]

    def curve(self, name: str) -> Rows:
        """Step, epoch (None where training has none) and value of "train/loss", "train/lr" or a score on dev
        ("dev/accuracy") while it trained."""
        logged = points(self._files)
        known = list(dict.fromkeys(p.name for p in logged))
        if name not in known:
            raise RequestError(f"{self.directory} has no curve {name!r}; it has {', '.join(known) or 'none yet'}.")
        return [{"step": p.step, "epoch": p.epoch, "value": p.value} for p in logged if p.name == name]

    def predictions(self, split: str = "test") -> Rows:
        """A row for each example: `row`, `label`, a `p:<class>` for each class and, where it is known, `gold`.

        Where numbers are predicted, a row holds `row`, `score` and `gold`; otherwise `row`, `gold` and the columns of
        predictions/<set>.tsv, as numbers where all of them are.
        """
        known = sorted(path.stem for path in (self.directory / "predictions").glob("*.tsv"))
        if split not in known:
            raise RequestError(
                f"{self.directory} has no predictions of {split!r}; it has {', '.join(known) or 'none'}."
            )
        rows = _read_predictions(self.directory / "predictions" / f"{split}.tsv")
        gold = self._gold(split)
        return [{**row, "gold": gold.get(row["row"])} for row in rows] if gold else rows

    @property
    def report(self) -> Path:
        return self.directory / "report.html"

    @property
    def model(self) -> "Loaded":
        """The model that it left, loaded."""
        return _load(self.directory / "model", "this run has not finished, so it has left no model; run it to its end.")

    @property
    def verdict(self) -> str:
        """What this run shows, and what one seed cannot: the first lines of its report."""
        return self._glance().verdict

    def __repr__(self) -> str:
        return self._glance().text()

    def _repr_html_(self) -> str:
        return self._glance().html()

    def _glance(self) -> "Glance":
        from heedful.report.glance import glance_at_run

        return glance_at_run(self._files)

    def _gold(self, split: str) -> dict[int, Any]:
        """By row; the study that a run belongs to keeps them. Empty where the labels are hidden."""
        study = files.study_of(self.directory)
        fingerprint = self._files.fingerprint(split)
        lines = read_examples(study / "examples", split, fingerprint) if study is not None else []
        return {line["row"]: line.get("gold") for line in lines if line.get("gold") is not None}


class Study:
    """Many runs (seeds, methods, hyperparameters), as their files were when it was opened."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self._files = files.read_study(self.directory)

    @property
    def table(self) -> Rows:
        """A row for each setting: what was varied, the metric's mean, deviation and interval on each set, the cost.

        Every row has every column, None where there is nothing.
        """
        stored = self._files.record.table
        done = [run for _, run in self._files.runs if run is not None and run.done]
        begun = {entry.setting for entry, _ in self._files.runs}
        with_runs = [row for row in stored if not row.baseline or row.setting in begun]
        complete = bool(stored) and sum(row.n or 0 for row in with_runs) == len(done)
        return _with_every_column([row.written for row in stored] if complete else self._table_so_far())

    @property
    def chosen(self) -> dict[str, Any]:
        """The setting that is best on dev, and the seed of its model in best/ (None of a baseline that has no
        runs): `{"setting": …, "seed": …}`. Empty until the study has ended."""
        return self._files.record.chosen.written

    @property
    def statistics(self) -> dict[str, Any]:
        """statistics.json: which settings win, what depends on the seed, which labels look wrong (may be empty)."""
        return self._files.statistics.written

    @cached_property
    def runs(self) -> list[Run]:
        """Those that have been begun, those under way last."""
        return [Run(run.directory, run) for _, run in files.begun(self._files)]

    @property
    def baselines(self) -> dict[str, Any]:
        """The scores of each baseline by evaluation set: `study.baselines["tfidf"]["test"]["accuracy"]`."""
        stored = {name: one.written for name, one in self._files.record.baselines.items()}
        return stored or next((known for run in self.runs if (known := run.metrics.get("baselines"))), {})

    @property
    def report(self) -> Path:
        return self.directory / "report.html"

    @property
    def best(self) -> "Loaded":
        """The model of the setting that is best on dev, and of its seeds the best on dev, loaded."""
        from heedful.studies.kinds.protocol import kind_of_study

        kind = kind_of_study(self._files)
        why_not = "this study has not finished, so none is the best; run it to its end."
        if kind is not None and not kind.chooses:
            why_not = "this study does not choose a setting; load the model of one of its runs (.runs[0].model)."
        return _load(self.directory / "best", why_not)

    @property
    def verdict(self) -> str:
        """What to use, what to expect of it and what these runs cannot show: the card of the report, in a paragraph."""
        return self._glance().verdict

    def __repr__(self) -> str:
        return self._glance().text()

    def _repr_html_(self) -> str:
        return self._glance().html()

    def _glance(self) -> "Glance":
        from heedful.report.glance import glance_at_study

        return glance_at_study(self._comparison)

    @cached_property
    def _comparison(self) -> "Comparison":
        from heedful.report.facts.comparison import compare

        return compare(self._files)

    def _table_so_far(self) -> Rows:
        """The table of a study that is under way: study.json gets its own, with intervals and the baselines that are
        models, when all runs have ended."""
        from heedful.studies.table import columns_of_runs

        order = {s.name: i for i, s in enumerate(self._files.record.settings)}
        rows = []
        with_runs = [s for s in self._comparison.settings if not s.borrowed]
        for s in sorted(with_runs, key=lambda s: order.get(s.name, len(order))):
            row: dict[str, Any] = {"setting": s.name, "model": s.record.model, "method": s.record.method}
            row |= {**s.record.values, "baseline": s.record.baseline, "random": s.record.random}
            rows.append(row | columns_of_runs(s.runs))
        return rows


def _load(directory: Path, why_not: str) -> "Loaded":
    from heedful.inference.loading import load

    if not directory.is_dir():
        raise RequestError(f"{directory.parent}: {why_not}")
    return load(directory)


def _with_every_column(rows: Sequence[Mapping[str, Any]]) -> Rows:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return [{key: row.get(key) for key in columns} for row in rows]


def _numbers(scores: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in scores.items() if value is None or isinstance(value, int | float)}


def _read_predictions(path: Path) -> Rows:
    rows, columns = read_predictions(path)
    try:
        values = {name: _numbers_or_texts(name, cells) for name, cells in columns.items()}
    except ValueError as error:
        raise RequestError(f"{path} cannot be read ({error}); make it anew with the run.") from None
    return [{"row": row, **{name: cells[i] for name, cells in values.items()}} for i, row in enumerate(rows)]


def _numbers_or_texts(name: str, cells: Sequence[str]) -> Sequence[float | str]:
    """Return the cells of a column of predictions as numbers, unless they are texts, which may look like numbers."""
    if name in _TEXTS:
        return cells
    try:
        return list(map(float, cells))
    except ValueError:
        if name == "score" or name.startswith("p:"):
            raise
        return cells
