"""Find and run demonstrations."""

import difflib
import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache

import torch

from heedful.errors import RequestError
from heedful.theory import demonstrations as folder
from heedful.theory.demonstration import DRAWS, Demonstration, Shown

CHAPTERS = {
    "LayerNorm": "How long a vector is after LayerNorm, and what its gain and bias do to that.",
    "Attention": "How attention copies, averages and looks up, and how large its scores must be for that.",
    "Relative attention": "What attention can compute from distances alone.",
    "Positions": "Why attention needs positions, and what sinusoids tell it.",
    "RNN gradients": "How gradients shrink and grow through time, and which paths keep them.",
    "Synthesizer": "What attention cannot do if its weights depend only on the token that looks.",
    "Masked-word loss": "What the loss of masked words adds up.",
}
"""Chapters in reading order, with their first sentences. Others come last."""

MOST_DRAWS = 20_000
"""With more, some demonstrations would need many gigabytes."""

Run = tuple[Demonstration, Shown]


@cache
def demonstrations() -> tuple[Demonstration, ...]:
    """Return all demonstrations, sorted by chapter."""
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
    """Group demonstrations by chapter, in order."""
    found: dict[str, list[Demonstration]] = {}
    for demonstration in chosen:
        found.setdefault(demonstration.chapter, []).append(demonstration)
    return found


def find(names: Sequence[str]) -> tuple[Demonstration, ...]:
    """Return the demonstrations with these names or in chapters with these names (rnn-gradients), each once.

    Raises RequestError for an unknown name, with the nearest known one.
    """
    known = {d.name: [d] for d in demonstrations()}
    known |= {chapter.lower().replace(" ", "-"): each for chapter, each in chapters(demonstrations()).items()}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"Did you mean {near[0]}?" if near else "Run `heedful theory` to list them."
            raise RequestError(f"no demonstration or chapter {name!r}. {hint}")
    return tuple(dict.fromkeys(d for name in names for d in known[name]))


def run(chosen: Sequence[Demonstration], draws: int = DRAWS, seed: int = 0) -> list[Run]:
    """Run each with its own generator, so that its figures do not depend on which others run."""
    if not DRAWS <= draws <= MOST_DRAWS:
        raise RequestError(f"--draws {draws}: give a number from {DRAWS:,} to {MOST_DRAWS:,}.")
    return [(d, d.show(draws, torch.Generator().manual_seed(seed))) for d in chosen]
