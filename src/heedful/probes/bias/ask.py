"""Models are asked: every text of a set of pairs once, and what changes between the two texts of each pair."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from heedful.errors import RequestError, WorkError
from heedful.inference.predictions import Predictions
from heedful.inference.predictor import TransformerModel
from heedful.probes.bias.likelihood import preferences, score_pairs
from heedful.probes.bias.pairs import Counterfactual, PairSet
from heedful.probes.bias.stereoset import StereoSet, StereoSetRow, score_stereoset, stereoset_table
from heedful.probes.models import Subject
from heedful.text.tokenizer import Text

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Unit = Literal["probability", "score", "preference"]
SCORE: Unit = "score"
PREFERENCE: Unit = "preference"
_PREFERRED = ("positive", "entailment", "yes", "true", "1")


@dataclass(frozen=True)
class Changes:
    """What a subject answers to `b` minus what it answers to `a`: s seeds, n pairs."""

    subject: str
    random: bool
    seeds: tuple[str, ...]
    unit: Unit
    by_outcome: Mapping[str, Floats]
    """(s, n): the change in the probability of each class that is looked at; of the score alone for a regression. Of a
    model that is asked which text is the likelier, ½ where it is `b`, −½ where it is `a`, 0 for a tie."""
    flipped: Bools | None = None
    """(s, n): whether the likeliest class is another one; None where there are no classes."""
    controls: Mapping[str, Floats] = field(default_factory=dict)
    """(s, m): the same changes of the set's controls."""
    likelier: Floats | None = None
    """(s, n): by how much `b` is the likelier text, in log-likelihood, where that was asked."""
    tables: tuple[StereoSetRow, ...] = ()
    """Scores of StereoSet, of a single model."""
    truncated: int = 0
    """Texts that were longer than the models read, and were cut."""


def ask(subject: Subject, pairs: PairSet, label: str | None = None) -> Changes:
    """What it answers. Of two classes one is looked at, since the other changes by as much; of more, each, unless
    `label` picks one."""
    rows: tuple[Counterfactual, ...] = (*pairs.rows, *pairs.controls)
    texts, number = _once(rows)
    a, b = (np.array([number[text] for text in column]) for column in ([r.a for r in rows], [r.b for r in rows]))
    changes: dict[str, list[Floats]] = {}
    flips: list[Bools] = []
    names: tuple[str, ...] | None = None
    truncated = 0
    for seed, load in subject.runs:
        answers = load().predict(texts)
        truncated = max(truncated, answers.truncated)
        if names is not None and answers.names != names:
            raise RequestError(
                f"{subject.name}: the model of seed {seed} has the classes {', '.join(answers.names)}, the others "
                f"{', '.join(names)}; probe them apart."
            )
        names = answers.names
        for outcome, values in _looked_at(subject.name, answers, label):
            if not np.isfinite(values).all():
                raise WorkError(
                    f"{subject.name} answers with numbers that are not finite; nothing can be said of them."
                )
            changes.setdefault(outcome, []).append(values[b] - values[a])
        if answers.scores is None:
            best = answers.probabilities.argmax(axis=1)
            flips.append(best[b] != best[a])
    n = len(pairs.rows)
    stacked = {outcome: np.stack(each) for outcome, each in changes.items()}
    return Changes(
        subject.name,
        subject.random,
        tuple(seed for seed, _ in subject.runs),
        "probability" if flips else SCORE,
        {outcome: values[:, :n] for outcome, values in stacked.items()},
        np.stack(flips)[:, :n] if flips else None,
        {outcome: values[:, n:] for outcome, values in stacked.items()} if pairs.controls else {},
        truncated=truncated,
    )


def ask_likelier(subject: Subject, pairs: PairSet) -> Changes:
    """Which text of each pair it finds the likelier."""
    preferred, likelier = [], []
    tables: tuple[StereoSetRow, ...] = ()
    truncated = 0
    for _, load in subject.runs:
        model = cast(TransformerModel, load())
        if isinstance(pairs, StereoSet):
            scores = score_stereoset(model, pairs.items)
            preferred.append(scores.stereotype - 0.5)
            tables = stereoset_table(scores)
        else:
            scored = score_pairs(model, pairs.rows)
            preferred.append(preferences(scored.changes) - 0.5)
            likelier.append(scored.changes)
            truncated = max(truncated, scored.truncated)
    return Changes(
        subject.name,
        subject.random,
        tuple(seed for seed, _ in subject.runs),
        PREFERENCE,
        {PREFERENCE: np.stack(preferred)},
        likelier=np.stack(likelier) if likelier else None,
        tables=tables if len(subject.runs) == 1 else (),
        truncated=truncated,
    )


def _once(rows: Sequence[Counterfactual]) -> tuple[list[Text], dict[Any, int]]:
    """Every text once, and where each is."""
    texts = list(dict.fromkeys(text for row in rows for text in (row.a, row.b)))
    return texts, {text: i for i, text in enumerate(texts)}


def _looked_at(name: str, answers: Predictions, label: str | None) -> Iterator[tuple[str, Floats]]:
    if answers.scores is not None:
        if label is not None:
            raise RequestError(f"{name} predicts scores and has no classes. Remove --label.")
        yield SCORE, answers.scores
        return
    if label is not None and label not in answers.names:
        raise RequestError(f"{name} has no class {label!r}; it has {', '.join(answers.names)}.")
    chosen = [label] if label is not None else list(answers.names)
    if label is None and len(answers.names) == 2:
        chosen = [next((n for n in answers.names if n.lower() in _PREFERRED), answers.names[-1])]
    for outcome in chosen:
        yield outcome, answers.probabilities[:, answers.names.index(outcome)]
