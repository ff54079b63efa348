"""A recipe as TOML, for what reads files."""

import json
from pathlib import Path

from heedful.recipes.schema import Recipe


def write_recipe(path: Path, recipe: Recipe) -> Path:
    content = recipe.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    lines = [f"{key} = {json.dumps(value)}" for key, value in content.items() if not isinstance(value, dict)]
    for table, keys in content.items():
        if isinstance(keys, dict):
            lines += [f"[{table}]", *(f"{k} = {json.dumps(v, ensure_ascii=False)}" for k, v in keys.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
