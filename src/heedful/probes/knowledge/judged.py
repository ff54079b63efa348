"""Each answer beside what is known: whether it is right, or made up; what was read of the name that is asked about, and
which known name is the nearest."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heedful.inference.questions import stands_in
from heedful.probes.knowledge.ask import Said
from heedful.probes.knowledge.names import KnownNames, Nearest
from heedful.probes.knowledge.spelling import Spelling

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
    """Neither a training answer nor words of the text; where nothing is said, nothing is made up."""
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
    def silent_se(self) -> Bools:
        """Whether nothing is said."""
        return np.array([[not text for text in texts] for texts in self.said.texts])

    @property
    def unspelled(self) -> int:
        """How many of the true answers some tokenizer of the subject cannot spell, and its model so never says."""
        each = zip(*(own.golds_e for own in self.said.spellings), strict=True)
        return sum(None in golds for golds in each)

    @property
    def confidence_se(self) -> Floats:
        return self.said.confidence_se


def judge(said: Said) -> Judged:
    """What is said is compared with everything in the spelling of the tokenizer that said it."""
    material = said.material
    questions, text, train, names = material.questions, material.text, material.train, material.names
    by_seed = list(zip(said.texts, said.spellings, strict=True))
    right_se = np.array([[a == b for a, b in zip(texts, own.golds_e, strict=True)] for texts, own in by_seed])
    made_up_se = read_e = unseen_e = trained_e = nearest_e = as_nearest_se = chance_se = None
    if text is not None or train is not None:
        made_up_se = np.array([[_is_made_up(one, own) for one in texts] for texts, own in by_seed])
    lines = None if text is None else [text.lines_of(question) for question in questions.questions]
    if lines is not None:
        read_e = tuple(
            READ[2] if not own else READ[0] if stands_in(answer, own) else READ[1]
            for own, answer in zip(lines, questions.answers, strict=True)
        )
    if train is not None and names is not None:
        known = set(train.answers)
        trained_e = tuple(TRAINED[0] if answer in known else TRAINED[1] for answer in questions.answers)
        unseen_e = np.array([not names.knows(question) for question in questions.questions])
        if lines is not None:
            unseen_e &= np.array([not own for own in lines])
        found = [names.nearest(question) for question in questions.questions]
        if None not in found:
            nearest_e = tuple(one for one in found if one is not None)
            compared = [_with_nearest(texts, own.names, questions.questions) for texts, own in by_seed]
            as_nearest_se = np.array([same_e for same_e, _ in compared])
            chance_se = np.array([chance_e for _, chance_e in compared])
    return Judged(said, right_se, made_up_se, read_e, trained_e, unseen_e, nearest_e, as_nearest_se, chance_se)


def _is_made_up(text: str, own: Spelling) -> bool:
    """Where nothing is said, nothing is made up."""
    return bool(text) and text not in own.known and not (own.in_text is not None and own.in_text(text))


def _with_nearest(
    texts: Sequence[str], names: KnownNames | None, questions: Sequence[str]
) -> tuple[list[bool], list[float]]:
    """Of each answer, whether it is that of the nearest name, and how often a random other name would have it."""
    assert names is not None
    near = [names.nearest(question) for question in questions]
    same_e = [one is not None and one.answer == text for one, text in zip(near, texts, strict=True)]
    return same_e, [names.chance(question, text) for question, text in zip(questions, texts, strict=True)]
