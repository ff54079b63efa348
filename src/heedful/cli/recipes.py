"""`heedful recipes`: the built-in recipes and the reference of every key."""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from heedful.cli.show import print_json


def recipes(
    show: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Print this built-in recipe (TOML for `heedful run`).")
    ] = None,
    explain: Annotated[
        str | None, typer.Option(help="Explain a key such as training.lr, a table, or all keys (all).", metavar="KEY")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Output JSON.")] = False,
) -> None:
    """List the built-in recipes, print one, or explain a key."""
    from heedful.recipes.reading import all_keys, builtin_names, explain_key, read_recipe, read_toml, recipe_text

    if explain is not None:
        print("\n\n".join(explain_key(k) for k in all_keys()) if explain == "all" else explain_key(explain))
    elif show is not None and as_json:
        print_json(read_recipe(show).model_dump(mode="json", exclude_defaults=True))
    elif show is not None:
        print(recipe_text(show)[0].removesuffix("\n"))
    elif as_json:
        print_json({name: read_recipe(name).model_dump(mode="json", exclude_defaults=True) for name in builtin_names()})
    else:
        for name in builtin_names():
            content, _ = read_toml(name)  # unchecked, since checking would import torch
            model, method = content["model"], content.get("tuning", {}).get("method", "full")
            tasks = content["data"].get("tasks", [content["data"]])
            data = " + ".join(_called(task) for task in tasks)
            runs = _runs(content)
            many = f" ({runs} runs)" if runs > 1 else ""
            print(f"{name:<28} {model.get('name') or model.get('shape') or model.get('kind')}, {method}, {data}{many}")
        print("\nRun one: heedful run NAME. Print one, to save and change it: heedful recipes NAME.")
        print("Explain a key: heedful recipes --explain KEY (or all).")


def _runs(content: Mapping[str, Any]) -> int:
    """Return seeds × settings of a recipe that lists the values of its axes."""
    seeds, study = content.get("seeds", 1), content.get("study", {})
    settings = study.get("trials") or math.prod(_axes(study))
    return settings * (seeds if isinstance(seeds, int) else len(seeds))


def _axes(table: Mapping[str, Any]) -> Iterator[int]:
    for value in table.values():
        if isinstance(value, Mapping):
            yield from _axes(value)
        elif isinstance(value, list):
            yield len(value)


def _called(data: Mapping[str, Any]) -> str:
    """Name a recipe's data in a word or two."""
    corpus = data.get("corpus", ())
    return str(data.get("task") or data.get("name") or " + ".join([corpus] if isinstance(corpus, str) else corpus))
