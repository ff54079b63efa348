"""What the answers amount to, as plain data: shares with their counts and 95 % intervals, for other such questions and,
where several were trained, other seeds. Tests that stand together are corrected together, by Holm."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.evaluation.metrics import mean_of
from heedful.evaluation.statistics.compare import compare_all
from heedful.evaluation.statistics.crossed import SeedsByExamples, Spread, pooled
from heedful.evaluation.statistics.size import correct_together
from heedful.probes.knowledge import wording
from heedful.probes.knowledge.judged import READ, TRAINED, Judged
from heedful.probes.knowledge.refusing import calibration, curve, rules
from heedful.probes.knowledge.shares import change, share

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Facts = dict[str, Any]
EXAMPLES = 8
"""Of each kind that are listed, the surest first."""
_EXACT_MATCH = mean_of("exact_match", "exact match", True, "right", (0.0, 1.0))
_COMPARED = ("a", "b", "difference", "low", "high", "p", "p_corrected", "sentence")


def findings(judged: Sequence[Judged], precision: float) -> Facts:
    """Of subjects that were asked the same questions."""
    values = {one.said.subject: SeedsByExamples(one.right_se.astype(np.float64), one.said.random) for one in judged}
    together = pooled(list(values.values()))
    subjects = {one.said.subject: _of_subject(one, precision, together) for one in judged}
    every = list(subjects.values())
    correct_together([found["baseline"] for found in every if found["baseline"] is not None])
    correct_together([row for found in every for row in found["nearest"]])
    for found in every:
        found["verdict"] = wording.verdict(found)
    compared = compare_all(values, _EXACT_MATCH, judged[0].said.subject) if len(values) > 1 else []
    material = judged[0].said.material
    return {
        "precision": precision,
        "questions": {"name": material.name, "n": len(material.questions)},
        "subjects": subjects,
        "comparisons": [{key: asdict(one)[key] for key in _COMPARED} for one in compared],
    }


def _of_subject(judged: Judged, precision: float, together: Spread | None) -> Facts:
    said, random = judged.said, judged.said.random
    material, right_se, confidence_se = said.material, judged.right_se, said.confidence_se
    train, text = material.train, material.text
    return {
        "seeds": list(said.seeds),
        "random": random,
        "about": wording.about(random, len(said.seeds)),
        "train": None if train is None else {"name": material.train_name, "n": len(train)},
        "text": None if text is None else {"name": text.name, "documents": len(text.documents)},
        "exact_match": share(right_se, random, together=together),
        "unspelled": judged.unspelled,
        "silent": share(judged.silent_se, random),
        "baseline": None if train is None else _baseline(judged, train.answers, together),
        "made_up": _made_up(judged),
        "groups": _groups(judged),
        "nearest": _nearest(judged),
        "calibration": calibration(right_se, confidence_se, random),
        "curve": curve(right_se, confidence_se, random),
        "rules": rules(right_se, confidence_se, random, precision),
    }


def _baseline(judged: Judged, answers: Sequence[str], together: Spread | None) -> Facts:
    """The commonest answer of the training questions, to everything, and what the subject is better by."""
    counts = Counter(answers)
    commonest = max(sorted(counts), key=counts.__getitem__)
    right_e = np.array([float(answer == commonest) for answer in judged.said.material.questions.answers])
    better = change(judged.right_se - right_e, judged.said.random, together=together)
    return {"answer": commonest, "share": share(right_e[None], False), **better}


def _made_up(judged: Judged) -> Facts | None:
    if judged.made_up_se is None:
        return None
    distinct = {
        text
        for texts, flags_e in zip(judged.said.texts, judged.made_up_se, strict=True)
        for text, made_up in zip(texts, flags_e, strict=True)
        if made_up
    }
    found = share(judged.made_up_se, judged.said.random)
    return {**found, "distinct": len(distinct), "examples": _examples(judged, judged.made_up_se)}


def _groups(judged: Judged) -> dict[str, list[Facts]]:
    """The share that is right by what the text and the training answers have; groups that are empty too."""
    made = {}
    for name, levels, of_e in (("read", READ, judged.read_e), ("trained", TRAINED, judged.trained_e)):
        if of_e is not None:
            made[name] = [_group(judged, level, np.array([one == level for one in of_e])) for level in levels]
    return made


def _group(judged: Judged, level: str, kept_e: Bools) -> Facts:
    kept_se = np.broadcast_to(kept_e, judged.right_se.shape)
    sure = float(judged.confidence_se[kept_se].mean()) if kept_e.any() else None
    return {"level": level, **share(judged.right_se, judged.said.random, kept_se), "confidence": sure}


def _nearest(judged: Judged) -> list[Facts]:
    """How often the answer of the nearest known name is said: about names that were never seen, and in the wrong
    answers about the others."""
    if judged.nearest_e is None or judged.unseen_e is None:
        return []
    unseen_se = np.broadcast_to(judged.unseen_e, judged.right_se.shape)
    groups = {"unseen": unseen_se, "seen, wrong": ~unseen_se & ~judged.right_se}
    return [_effect(judged, name, chosen_se) for name, chosen_se in groups.items()]


def _effect(judged: Judged, group: str, chosen_se: Bools) -> Facts:
    assert judged.as_nearest_se is not None
    assert judged.chance_se is not None
    assert judged.nearest_e is not None
    random, answers = judged.said.random, judged.said.material.questions.answers
    same_se, chance_se = judged.as_nearest_se, judged.chance_se
    true_e = np.array([near.answer == answer for near, answer in zip(judged.nearest_e, answers, strict=True)])
    least = _chance_variance(chance_se, chosen_se) if chosen_se.any() else 0.0
    return {
        "group": group,
        "share": share(same_se, random, chosen_se),
        "chance": float(chance_se[chosen_se].mean()) if chosen_se.any() else None,
        "true": share(np.broadcast_to(true_e, same_se.shape), random, chosen_se)["mean"],
        **change(same_se - chance_se, random, chosen_se, least_variance=least),
        "examples": _examples(judged, chosen_se & same_se),
    }


def _chance_variance(chance_se: Floats, chosen_se: Bools) -> float:
    """Of the mean over questions if each were answered by chance, and alike by every seed: where nobody says the
    nearest name's answer, the answers themselves vary too little."""
    w_e = chosen_se.mean(axis=0)
    chance_e = (chance_se * chosen_se).sum(axis=0) / np.maximum(chosen_se.sum(axis=0), 1)
    return float((w_e**2 * chance_e * (1 - chance_e)).sum() / w_e.sum() ** 2)


def _examples(judged: Judged, chosen_se: Bools) -> list[Facts]:
    """Each question once, by the surest such answer to it."""
    order = sorted(zip(*np.nonzero(chosen_se), strict=True), key=lambda place: -judged.confidence_se[place])
    questions = judged.said.material.questions
    surest: dict[int, int] = {}
    for s, e in order:
        surest.setdefault(int(e), int(s))
    return [
        {
            "question": questions.questions[e],
            "answer": questions.answers[e],
            "said": judged.said.texts[s][e],
            "confidence": float(judged.confidence_se[s, e]),
            "nearest": None if judged.nearest_e is None else judged.nearest_e[e].question,
        }
        for e, s in list(surest.items())[:EXAMPLES]
    ]
