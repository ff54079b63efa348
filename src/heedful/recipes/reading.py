"""From TOML to a checked `Recipe`: every mistake is one sentence with the key and, if it is near, the right one."""

import difflib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from heedful.errors import RequestError
from heedful.recipes.schema import Range, Recipe, StudyTable


def builtin_names() -> list[str]:
    return sorted(p.name.removesuffix(".toml") for p in _folder().iterdir() if p.name.endswith(".toml"))


def read_recipe(source: str | Path, settings: Sequence[str] = ()) -> Recipe:
    """A file, or the name of a built-in recipe; `settings` are `key=value` in TOML, later ones win."""
    content, place = _content(source)
    for setting in settings:
        key, value = _setting(setting)
        _put(content, key, value)
    return make_recipe(content, place)


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """`key=value` settings as the tables that they make."""
    content: dict[str, Any] = {}
    for setting in settings:
        _put(content, *_setting(setting))
    return content


def sweep_settings(sweeps: Sequence[str], curve: str | None = None) -> list[str]:
    """`key=value,value` or `key=low..high`, and the `size,size` of a learning curve, as settings of [study]."""
    found = []
    if curve is not None:
        sizes = [_setting(f"x={size}")[1] for size in curve.split(",")]
        found.append(f"study.curve={json.dumps(sizes)}")
    for sweep in sweeps:
        key, equals, values = sweep.partition("=")
        if not equals or not key.strip() or not values.strip():
            raise RequestError(f"--sweep {sweep}: write key=value,value, such as training.lr=1e-4,3e-4.")
        ends = [_setting(f"x={end}")[1] for end in values.split("..")]
        if len(ends) == 2 and all(isinstance(end, int | float) for end in ends):
            log = "true" if ends[0] > 0 and ends[1] / ends[0] >= 10 else "false"
            found.append(f"study.{key.strip()}={{low = {ends[0]!r}, high = {ends[1]!r}, log = {log}}}")
            continue
        parsed = [_setting(f"x={value}")[1] for value in values.split(",")]
        found.append(f"study.{key.strip()}={json.dumps(parsed)}")  # a list in JSON is one in TOML
    return found


def make_recipe(content: Mapping[str, Any], place: str = "recipe") -> Recipe:
    try:
        recipe = Recipe.model_validate(content)
    except ValidationError as error:
        raise RequestError(f"{place}: {_sentence(error)}") from None
    _refuse_contradictions(recipe, place)
    return recipe


def _content(source: str | Path) -> tuple[dict[str, Any], str]:
    path = Path(source)
    if not path.is_file() and str(source) in builtin_names():
        return tomllib.loads((_folder() / f"{source}.toml").read_text(encoding="utf-8")), f"recipe {source}"
    if not path.is_file():
        near = difflib.get_close_matches(str(source), builtin_names(), 1)
        hint = f"did you mean {near[0]}?" if near else "`heedful recipes` lists those that come along."
        raise RequestError(f"{source}: no such file, and no recipe of that name; {hint}")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig")), str(path)  # some editors put a mark in front
    except tomllib.TOMLDecodeError as error:
        raise RequestError(f"{path}: not valid TOML: {error}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{path}: cannot be read ({error}).") from None


def _folder() -> Any:
    return resources.files("heedful.recipes") / "builtin"


def _setting(setting: str) -> tuple[list[str], Any]:
    key, equals, value = setting.partition("=")
    if not equals or not key.strip():
        raise RequestError(f"--set {setting}: write key=value, such as training.lr=1e-4.")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()  # a bare word is a string, as people type it
    return [k.strip() for k in key.split(".")], parsed


def _put(content: dict[str, Any], key: list[str], value: Any) -> None:
    for part in key[:-1]:
        content = content.setdefault(part, {})
        if not isinstance(content, dict):
            raise RequestError(f"--set {'.'.join(key)}: {part} is not a table.")
    content[key[-1]] = value


def _sentence(error: ValidationError) -> str:
    """The first mistake; there may be more, but one at a time can be mended."""
    mistakes = error.errors()
    ranges = [m for m in mistakes if "Range" in m["loc"] and (m["type"] == "extra_forbidden" or len(m["loc"]) > 4)]
    if ranges and not any(isinstance(m["input"], list) for m in mistakes):  # a table was meant to be a range
        mistakes = sorted(ranges, key=lambda m: m["type"] != "extra_forbidden")
    mistake = mistakes[0]
    passing = ("list[", "int", "function", "Range")
    key = ".".join(str(part) for part in mistake["loc"] if not str(part).startswith(passing))
    if mistake["type"] == "extra_forbidden":
        *table, name = [str(part) for part in mistake["loc"] if part != "Range"]
        allowed = list((Range if "Range" in mistake["loc"] else _table(table)).model_fields)
        near = difflib.get_close_matches(name, allowed, 1)
        hint = f"did you mean {'.'.join([*table, near[0]])}?" if near else f"allowed are {', '.join(allowed)}."
        return f"there is no key {key}; {hint}"
    if mistake["type"] == "missing":
        return f"the key {key} is missing."
    message = mistake["msg"][0].lower() + mistake["msg"][1:]
    return f"{key} = {mistake['input']!r} is not right: {message}."


def _table(path: Sequence[str]) -> type[BaseModel]:
    table: type[BaseModel] = Recipe
    for part in path:
        annotation = table.model_fields[part].annotation
        options = [annotation, *get_args(annotation)]
        table = next(o for o in options if isinstance(o, type) and issubclass(o, BaseModel))
    return table


def _refuse_contradictions(recipe: Recipe, place: str) -> None:
    model, data, tokenizer = recipe.model, recipe.data, recipe.tokenizer
    if (model.name is None) == (model.shape is None):
        raise RequestError(f"{place}: [model] needs either name or shape.")
    if model.shape is not None and (tokenizer is None or (tokenizer.name is None) == (tokenizer.kind is None)):
        raise RequestError(f"{place}: a model.shape needs [tokenizer] with either name or kind.")
    if model.name is not None and tokenizer is not None:
        raise RequestError(f"{place}: [tokenizer] goes with model.shape; {model.name} brings its own.")
    if model.shape is not None and recipe.tuning.method == "frozen":
        raise RequestError(f'{place}: tuning.method = "frozen" on random weights learns nothing; use "full".')
    if (data.name is None) == (data.train is None):
        raise RequestError(f"{place}: [data] needs either name or train.")
    if data.train is not None and (data.text is None or data.label is None):
        raise RequestError(f"{place}: data.train needs data.text and data.label, the names of its columns.")
    if recipe.training.long_texts == "chunk" and data.pair is not None:
        raise RequestError(f'{place}: training.long_texts = "chunk" is for single texts, not for pairs.')
    if recipe.tuning.method == "frozen" and (recipe.tuning.layer_decay != 1 or recipe.training.batch_tokens):
        raise RequestError(f"{place}: tuning.layer_decay and training.batch_tokens mean nothing for a frozen body.")
    if model.shape is not None and model.revision is not None:
        raise RequestError(f"{place}: model.revision goes with model.name.")
    if data.limit is not None and data.fraction is not None:
        raise RequestError(f"{place}: data.limit and data.fraction both say how many rows; keep one of the two.")
    study = recipe.study
    if study is not None:
        _check_study(study, place)
    seeds = [] if isinstance(recipe.seeds, int) and recipe.seeds > 10_000 else recipe.seed_list()
    if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0 or max(seeds) >= 2**32:
        raise RequestError(f"{place}: seeds = {recipe.seeds!r} is not a list of different whole numbers, nor how many.")


def _check_study(study: StudyTable, place: str) -> None:
    if study.search != "grid" and study.trials is None:
        raise RequestError(f'{place}: study.search = "{study.search}" needs study.trials, how many settings to try.')
    for table in ("model", "data", "objective", "tuning", "training"):
        for key, values in getattr(study, table).items():
            if isinstance(values, Range) and study.search == "grid":
                raise RequestError(
                    f'{place}: study.{table}.{key} is a range, so settings must be drawn: set study.search = "random" '
                    'or "tpe", and study.trials.'
                )
            if isinstance(values, Range) and (values.low >= values.high or (values.log and values.low <= 0)):
                raise RequestError(f"{place}: study.{table}.{key}: low must be below high, and above 0 with log.")


def explain_key(key: str) -> str:
    """The reference of one key or table: its docstring, type and default."""
    *path, name = key.split(".")
    try:
        table = _table(path)
        field = table.model_fields[name]
    except (KeyError, StopIteration):
        keys = list(all_keys())
        near = difflib.get_close_matches(key, keys, 1)
        hint = f"did you mean {near[0]}?" if near else "`heedful recipes --explain all` lists all keys."
        raise RequestError(f"there is no key {key}; {hint}") from None
    if name in {k.split(".")[0] for k in all_keys() if "." in k} and not path:
        return "\n\n".join(explain_key(k) for k in all_keys() if k.startswith(f"{name}."))
    default = "required" if field.is_required() else f"default {field.default!r}"
    kind = str(field.annotation).replace("typing.", "").removeprefix("<class '").removesuffix("'>")
    return f"{key}  ({kind}; {default})\n  {' '.join((field.description or '').split())}"


def all_keys(table: type[BaseModel] = Recipe, before: str = "") -> Iterator[str]:
    for name, field in table.model_fields.items():
        options = [field.annotation, *get_args(field.annotation)]
        inner = [o for o in options if isinstance(o, type) and issubclass(o, BaseModel)]
        if inner:
            yield from all_keys(inner[0], f"{before}{name}.")
        else:
            yield f"{before}{name}"
