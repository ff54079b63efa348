"""What every model that `heedful.load` returns has in common: it says what it can do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from heedful.errors import RequestError
from heedful.models.transformer import Transformer
from heedful.text.tokenizer import Tokenizer

Verb = Literal["predict", "encode", "generate", "translate"]
VERBS: Mapping[str, str] = {
    "predict": "give texts labels",
    "encode": "give features of texts",
    "generate": "continue texts",
    "translate": "translate",
    "load_adapter": "carry adapters",
}
"""What the methods are that some models have, in words."""


@dataclass(frozen=True)
class Task:
    """Something that a model can do: the method `verb`, and what it takes and answers."""

    verb: Verb
    takes: Literal["texts", "pairs", "texts or pairs", "prompts", "sources"]
    head: str | None = None
    """Which of the model's heads answers, where heads do."""
    labels: tuple[str, ...] = ()
    """The names of the classes that `predict` gives; ("score",) for a score."""


class Predictor(Protocol):
    """A loaded model."""

    source: str
    """What the user calls it."""
    kind: str
    """What it is, in words: "a translation model"."""

    @property
    def tasks(self) -> tuple[Task, ...]: ...
    @property
    def max_length(self) -> int | None: ...
    def save(self, directory: str | Path) -> None: ...


class TransformerModel(Protocol):
    """A loaded model that is a body with heads."""

    @property
    def source(self) -> str: ...
    @property
    def transformer(self) -> Transformer: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def max_length(self) -> int: ...
    def generation_setting(self, key: str) -> tuple[str, Any]: ...


class MissingTaskError(RequestError, AttributeError):
    """The model has no such method. It is an AttributeError, so that `hasattr` says so."""


class Named:
    """A model whose missing methods are refused in one sentence, with what it can do instead."""

    source: str
    kind: str

    @property
    def tasks(self) -> tuple[Task, ...]:
        raise NotImplementedError

    if not TYPE_CHECKING:  # a type checker should see which methods there are

        def __getattr__(self, name: str) -> Any:
            if name in VERBS:
                raise MissingTaskError(why_not(self, name))
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def answer(model: Predictor, task: Task, inputs: Sequence[Any], **options: Any) -> Any:
    """Return what a model answers to inputs of one of its tasks, in their order."""
    if task.head is not None and task.verb == "predict":
        options.setdefault("head", task.head)
    return getattr(model, task.verb)(inputs, **options)


def can(model: Predictor, verb: str) -> bool:
    """Return whether a model has this task."""
    return any(task.verb == verb for task in model.tasks)


def why_not(model: Predictor, verb: str) -> str:
    """Return the sentence that says why a model cannot do something, and what it can do."""
    able = list(dict.fromkeys(task.verb for task in model.tasks))
    return f"{model.source}: is {model.kind}, which cannot {VERBS[verb]}. Use it with {' or '.join(able)}."
