"""What translations look like: some of the worst, of those in the middle and of the best of a run."""

import numpy as np

from heedful.evaluation.translations import sentence_chrf
from heedful.report.facts.run import judged_set
from heedful.report.page.pieces import Column, Row, Section, Table
from heedful.report.page.pieces import section as make_section
from heedful.report.page.words import NOTHING, figure, shortened
from heedful.storage.examples import places_of, read_predictions, read_values
from heedful.storage.runs import Run

_OF_EACH = 3
_COLUMNS = ("source", "reference", "translation")


def translations(run: Run) -> Section | None:
    """Of the set by which the run is judged, where its predictions are translations; ranked by what values/ says."""
    split = judged_set(run)
    if split is None or run.scores(split).number("chrf") is None:
        return None
    predicted, values = (run.directory / folder / f"{split}.tsv" for folder in ("predictions", "values"))
    if not predicted.exists() or not values.exists():
        return None
    rows, texts = read_predictions(predicted)
    known, columns = read_values(values)
    places, scores = places_of(known, rows), sentence_chrf(columns)
    if not places or scores is None or any(column not in texts for column in _COLUMNS):
        return None
    chrf_n = scores[places]
    order = np.argsort(chrf_n, kind="stable").tolist()
    shown, which = order, "worst first"
    if len(order) > 3 * _OF_EACH:
        middle = (len(order) - _OF_EACH) // 2
        shown = [*order[:_OF_EACH], *order[middle : middle + _OF_EACH], *order[-_OF_EACH:]]
        which = f"the {_OF_EACH} worst, {_OF_EACH} in the middle and the {_OF_EACH} best of {len(order):,}"
    lines = tuple(
        Row((str(rows[i]), figure(float(chrf_n[i]), 1), *(shortened(texts[c][i]) or NOTHING for c in _COLUMNS)))
        for i in shown
    )
    titles = (Column("row", numeric=True), Column("chrF", numeric=True), *(Column(c, long=True) for c in _COLUMNS))
    table = Table(f"{split} by the chrF of each sentence: {which}", titles, lines)
    return make_section("translations", "Translations", [table])
