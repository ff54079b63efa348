"""Three small tasks of different kinds: texts with classes, texts with scores, pairs with classes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heedful.recipes.schema import Recipe
from tests.support.training_samples import sentences, tiny_recipe, write_csv, write_data

FILM, SCORES, TWINS = "film", "scores", "twins"


def write_tasks(folder: Path, film: int = 40) -> list[dict[str, Any]]:
    """Tables of [[data.tasks]]; the second is called after its file."""
    rows = [(text, f"{sum(map(ord, text)) % 50 / 10}") for text, _ in sentences(60, seed=4)]
    paired = [(a, b, "same" if x == y else "other") for (a, x), (b, y) in zip(*[iter(sentences(96, seed=5))] * 2)]  # noqa: B905
    data = write_data(folder / "film", film)
    scores = write_csv(folder / "scores.csv", ("text", "label"), rows)
    twins = write_csv(folder / "pairs.csv", ("a", "b", "label"), paired)
    return [
        {"task": FILM, **data},
        {"train": str(scores), "text": "text", "label": "label", "kind": "score"},
        {"task": TWINS, "train": str(twins), "text": "a", "pair": "b", "label": "label"},
    ]


def tasks_recipe(
    model: Path,
    tasks: Sequence[dict[str, Any]],
    how: str = "full",
    /,
    objective: dict[str, Any] | None = None,
    **tables: Any,
) -> Recipe:
    kind = {"kind": "multi-task", **(objective or {})}
    return tiny_recipe(model, {"tasks": list(tasks)}, how, objective=kind, **tables)
