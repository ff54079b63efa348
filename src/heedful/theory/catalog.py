"""The demonstrations that there are, in the order of their chapters."""

import difflib
import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache

from heedful.errors import RequestError
from heedful.theory import demonstrations as folder
from heedful.theory.demonstration import Demonstration

CHAPTERS = {
    "LayerNorm": "How long a vector is after LayerNorm, and what its gain and bias do to that.",
    "Attention": "How attention copies, averages and looks up, and how large its scores must be for that.",
    "Relative attention": "What attention can compute from distances alone.",
    "Positions": "Why attention has to be told where a token stands, and what sinusoids tell it.",
    "RNN gradients": "How gradients shrink and grow through time, and which paths keep them.",
    "Synthesizer": "What is out of reach for attention whose weights come from each position alone.",
    "Masked-word loss": "What the loss of masked words adds up.",
}
"""Each with its first sentence, in the order in which they are read. A chapter that is not here comes last."""


@cache
def demonstrations() -> tuple[Demonstration, ...]:
    """All of them, by chapter."""
    names = [info.name for info in pkgutil.iter_modules(folder.__path__)]
    modules = [importlib.import_module(f"{folder.__name__}.{name}") for name in names]
    found = [module.PAGE.demonstration(module.show) for module in modules]
    order = list(CHAPTERS)
    return tuple(
        sorted(
            found,
            key=lambda d: (order.index(d.chapter) if d.chapter in order else len(order), d.chapter, d.order, d.name),
        )
    )


def chapters(chosen: Sequence[Demonstration]) -> dict[str, list[Demonstration]]:
    """What each chapter has of those, in order."""
    found: dict[str, list[Demonstration]] = {}
    for demonstration in chosen:
        found.setdefault(demonstration.chapter, []).append(demonstration)
    return found


def find(names: Sequence[str]) -> tuple[Demonstration, ...]:
    """Those of these names, or of the chapters of these names (rnn-gradients), as they were asked for and each once; a
    name that none has is refused with the nearest."""
    known = {d.name: [d] for d in demonstrations()}
    known |= {chapter.lower().replace(" ", "-"): each for chapter, each in chapters(demonstrations()).items()}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else "`heedful theory` lists them."
            raise RequestError(f"there is no demonstration {name!r}; {hint}")
    return tuple(dict.fromkeys(d for name in names for d in known[name]))
