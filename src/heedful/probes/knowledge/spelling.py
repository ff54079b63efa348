"""What answers are compared with, as a model's tokenizer spells it: one that folds case says "rome" and means Rome."""

from collections.abc import Callable
from dataclasses import dataclass

from heedful.inference.questions import spelled, spelled_answers
from heedful.probes.knowledge.material import Material
from heedful.probes.knowledge.names import KnownNames
from heedful.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Spelling:
    golds_e: tuple[str | None, ...]
    """The true answers; None for one that cannot be spelled, and so cannot be said."""
    known: frozenset[str]
    """The answers of the training questions."""
    names: KnownNames | None
    """Those of the training questions, with their answers."""
    in_text: Callable[[str], bool] | None
    """Whether the text has these words anywhere."""


def spelling_of(tokenizer: Tokenizer, material: Material) -> Spelling:
    train, names, text = material.train, material.names, material.text
    return Spelling(
        tuple(spelled_answers(tokenizer, material.questions.answers)),
        frozenset() if train is None else frozenset(spelled(tokenizer, sorted(set(train.answers)))),
        None if train is None or names is None else names.with_answers(spelled_answers(tokenizer, train.answers)),
        None if text is None else text.holds_in(tokenizer),
    )
