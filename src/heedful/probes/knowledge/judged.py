"""Each answer beside what is known: whether it is right, or made up; what was read of the name that is asked about, and
which known name is the nearest."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heedful.objectives.asking import stands_in
from heedful.probes.knowledge.ask import Said
from heedful.probes.knowledge.names import Nearest

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
READ = ("the answer stands in the line", "the line lacks the answer", "no line begins with the name")
"""What the text says of the name that is asked about."""
TRAINED = ("an answer of training questions", "an answer of none")
"""Whether any training question has the true answer."""


@dataclass(frozen=True)
class Judged:
    """s seeds, e questions. None where the text or the training questions that it takes are not known."""

    said: Said
    right_se: Bools
    made_up_se: Bools | None
    """Neither a training answer nor words of the text."""
    read_e: tuple[str, ...] | None
    """One of `READ`."""
    trained_e: tuple[str, ...] | None
    """One of `TRAINED`."""
    unseen_e: Bools | None
    """Whether neither the text nor a training question has the name."""
    nearest_e: tuple[Nearest, ...] | None
    """The training question about the name that is most like the one asked about, but another."""
    as_nearest_se: Bools | None
    """Whether the nearest name's answer is said."""
    chance_se: Floats | None
    """How often a random other name's answer would be what is said."""

    @property
    def confidence_se(self) -> Floats:
        return self.said.confidence_se


def judge(said: Said) -> Judged:
    material = said.material
    questions, text, train, names = material.questions, material.text, material.train, material.names
    right_se = np.array([[a == b for a, b in zip(texts, questions.answers, strict=True)] for texts in said.texts])
    known = set() if train is None else set(train.answers)
    made_up_se = read_e = unseen_e = trained_e = nearest_e = as_nearest_se = chance_se = None
    if text is not None or train is not None:
        made_up_se = np.array(
            [[not (one in known or (text is not None and text.holds(one))) for one in texts] for texts in said.texts]
        )
    lines = None if text is None else [text.lines_of(question) for question in questions.questions]
    if lines is not None:
        read_e = tuple(
            READ[2] if not own else READ[0] if stands_in(answer, own) else READ[1]
            for own, answer in zip(lines, questions.answers, strict=True)
        )
    if train is not None and names is not None:
        trained_e = tuple(TRAINED[0] if answer in known else TRAINED[1] for answer in questions.answers)
        unseen_e = np.array([not names.knows(question) for question in questions.questions])
        if lines is not None:
            unseen_e &= np.array([not own for own in lines])
        found = [names.nearest(question) for question in questions.questions]
        if None not in found:
            nearest_e = tuple(one for one in found if one is not None)
            as_nearest_se = np.array(
                [[a == b.answer for a, b in zip(texts, nearest_e, strict=True)] for texts in said.texts]
            )
            chance_se = np.array(
                [[names.chance(q, a) for q, a in zip(questions.questions, texts, strict=True)] for texts in said.texts]
            )
    return Judged(said, right_se, made_up_se, read_e, trained_e, unseen_e, nearest_e, as_nearest_se, chance_se)
