"""From TOML to a checked `Recipe`: every mistake is one sentence with the key and, if one is similar, the right key."""

import difflib
import functools
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError, create_model

from heedful import plugins
from heedful.errors import RequestError
from heedful.recipes.schema import (
    Range,
    Recipe,
    StudyTable,
    TokenizerTable,
)

_LENGTHS = ("tokens", "steps", "epochs")
"""The keys of [training] that say how long to train."""


def builtin_names() -> list[str]:
    return sorted(p.name.removesuffix(".toml") for p in _builtin_folder().iterdir() if p.name.endswith(".toml"))


def read_recipe(source: str | Path, settings: Sequence[str] = ()) -> Recipe:
    """A file, or the name of a built-in recipe; `settings` are `key=value` in TOML, later ones win."""
    content, place = read_toml(source)
    written = content.get("training")
    length = [key for key in _LENGTHS if key in written] if isinstance(written, dict) else []
    if len(length) > 1:
        raise RequestError(
            f"{place}: training.{length[0]} and training.{length[1]} both say how long to train; keep one of them."
        )
    parsed = [_parse_setting(setting) for setting in settings]
    said_now = [key for key in _LENGTHS if ["training", key] in [name for name, _ in parsed]]
    if said_now and length and length[0] not in said_now:  # it takes the other's place
        del content["training"][length[0]]
    for name, value in parsed:
        _set_key(content, name, value)
    recipe = make_recipe(content, place)
    _refuse_unused(recipe, content, place)
    return recipe


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """`key=value` settings as the tables that they make."""
    content: dict[str, Any] = {}
    for setting in settings:
        _set_key(content, *_parse_setting(setting))
    return content


def settings_by_method(settings: Sequence[str], methods: Sequence[str]) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Those for all methods, and by method the tables that `method:key=value` makes."""
    for_all: list[str] = []
    by_method: dict[str, list[str]] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        method, colon, rest = key.partition(":")
        if not colon:
            for_all.append(setting)
            continue
        if method.strip() not in methods:
            raise RequestError(
                f"--set {setting}: {method.strip()!r} is not one of the methods compared, {', '.join(methods)}."
            )
        if rest.strip().startswith(("study.", "data.")):
            raise RequestError(f"--set {setting}: [data] and [study] are the same for all methods; leave out {method}:")
        by_method.setdefault(method.strip(), []).append(f"{rest}{equals}{value}")
    return for_all, {method: parse_settings(own) for method, own in by_method.items()}


def sweep_settings(sweeps: Sequence[str], curve: str | None = None) -> list[str]:
    """`key=value,value` or `key=low..high`, and the `size,size` of a learning curve, as settings of [study]."""
    settings = []
    if curve is not None:
        sizes = [_parse_setting(f"x={size}")[1] for size in curve.split(",")]
        settings.append(f"study.curve={json.dumps(sizes)}")
    for sweep in sweeps:
        key, equals, values = sweep.partition("=")
        if not equals or not key.strip() or not values.strip():
            raise RequestError(f"--sweep {sweep}: write key=value,value, such as training.lr=1e-4,3e-4.")
        ends = [_parse_setting(f"x={end}")[1] for end in values.split("..")]
        if len(ends) == 2 and all(isinstance(end, int | float) for end in ends):
            log = "true" if ends[0] > 0 and ends[1] / ends[0] >= 10 else "false"
            settings.append(f"study.{key.strip()}={{low = {ends[0]!r}, high = {ends[1]!r}, log = {log}}}")
            continue
        parsed = [_parse_setting(f"x={value}")[1] for value in values.split(",")]
        settings.append(f"study.{key.strip()}={json.dumps(parsed)}")  # a list in JSON is one in TOML
    return settings


def make_recipe(content: Mapping[str, Any], place: str = "recipe") -> Recipe:
    recipe = draft_recipe(content, place)
    try:
        _refuse_contradictions(recipe)
        plugins.find("objective", recipe.objective.kind).check(recipe)
        plugins.find("tuning", recipe.tuning.method).check(recipe)
    except RequestError as error:
        raise RequestError(f"{place}: {error}") from None
    _refuse_unused(recipe, recipe.identity(), place)  # what was written down may name every key, at its default
    return recipe


def draft_recipe(content: Mapping[str, Any], place: str = "recipe") -> Recipe:
    """Every key is known and has a value of its kind; what they say together is not checked."""
    try:
        kind, method = _plugin_name(content, "objective", "kind"), _plugin_name(content, "tuning", "method")
        schema = recipe_type(kind, method, _study_kind(content))
        try:
            return schema.model_validate(_without_foreign_defaults(content, schema))
        except ValidationError as error:
            raise RequestError(explain_mistake(error, schema)) from None
    except RequestError as error:
        raise RequestError(f"{place}: {error}") from None


def _without_foreign_defaults(content: Mapping[str, Any], schema: type[Recipe]) -> dict[str, Any]:
    """Return a recipe without keys of other kinds of data and models at their defaults: earlier versions wrote them
    down."""
    cleaned = dict(content)
    for table in _OWNED:
        keys, own = content.get(table), _schema_at([table], schema).model_fields
        if isinstance(keys, Mapping):
            foreign = {key: default for key, default in _defaults(table) if key not in own}
            cleaned[table] = {k: v for k, v in keys.items() if k not in foreign or v != foreign[k]}
    return cleaned


@functools.cache
def _defaults(table: str) -> tuple[tuple[str, Any], ...]:
    """Return every key of a table, of whatever objective, and its default."""
    members = (schema for schema, _ in _schemas_at([table]))
    return tuple((key, field.default) for schema in members for key, field in schema.model_fields.items())


def unused_keys(recipe: Recipe) -> dict[str, str]:
    """Keys that mean nothing with this recipe's tuning, and why."""
    return dict(plugins.find("tuning", recipe.tuning.method).unused(recipe))


def _refuse_unused(recipe: Recipe, content: Mapping[str, Any], place: str) -> None:
    """A key that would have no effect is a mistake."""
    for key, why in unused_keys(recipe).items():
        table, _, name = key.partition(".")
        if name in (content.get(table) or {}):
            raise RequestError(f"{place}: {key} means nothing {why}; leave it out.")


def same_recipe(stored: Mapping[str, Any], recipe: Recipe) -> bool:
    """Whether a recipe that was written down, perhaps by an earlier version with fewer keys, is this one."""
    try:
        return make_recipe(stored).identity() == recipe.identity()
    except RequestError:
        return False


@functools.cache
def recipe_type(kind: str, method: str, study: str | None = None) -> type[Recipe]:
    """Return the schema with the tables of this objective, its data and model, this tuning and this kind of study."""
    learned, moved = plugins.find("objective", kind), plugins.find("tuning", method)
    if learned.MODEL.TUNINGS and method not in learned.MODEL.TUNINGS:
        raise RequestError(
            f'tuning.method = "{method}" is not possible with objective.kind = "{kind}" yet; use '
            f"{' or '.join(map(repr, learned.MODEL.TUNINGS))}."
        )
    objective, tuning = learned.Table, moved.Table
    tables: dict[str, Any] = {"objective": (objective, objective()), "tuning": (tuning, tuning())}
    tables |= {"model": (learned.MODEL.Table, ...), "data": (learned.DATA.Table, learned.DATA.Table())}
    if study is not None:
        asked = plugins.find("study", study).Table
        if asked is None:
            raise RequestError(f'study.kind = "{study}" is what a study without [study] is; leave [study] out.')
        tables["study"] = (asked | None, None)
    return create_model("Recipe", __base__=Recipe, **tables)


def _plugin_name(content: Mapping[str, Any], table: str, key: str) -> str:
    """Which objective or tuning is meant; what is no name at all is left for the schema to refuse."""
    default = str(getattr(Recipe.model_fields[table].default, key))
    keys = content.get(table) if isinstance(content, Mapping) else None
    name = keys.get(key, default) if isinstance(keys, Mapping) else default
    return name if isinstance(name, str) else default


def _study_kind(content: Mapping[str, Any]) -> str | None:
    """Which kind of study is meant; None without [study]."""
    table = content.get("study") if isinstance(content, Mapping) else None
    if not isinstance(table, Mapping):
        return None
    kind = table.get("kind", "curve" if "curve" in table else StudyTable.model_fields["kind"].default)
    return kind if isinstance(kind, str) else str(StudyTable.model_fields["kind"].default)


def read_toml(source: str | Path) -> tuple[dict[str, Any], str]:
    """The content of a recipe, not checked yet, and what to call it in messages."""
    text, place = recipe_text(source)
    try:
        return tomllib.loads(text), place
    except tomllib.TOMLDecodeError as error:
        raise RequestError(f"{place}: not valid TOML: {error}.") from None


def recipe_text(source: str | Path) -> tuple[str, str]:
    """A recipe as it is written, and what to call it in messages."""
    path = Path(source)
    if not path.is_file() and str(source) in builtin_names():
        return (_builtin_folder() / f"{source}.toml").read_text(encoding="utf-8"), f"recipe {source}"
    if not path.is_file():
        near = difflib.get_close_matches(str(source), builtin_names(), 1)
        hint = f"did you mean {near[0]}?" if near else "`heedful recipes` lists those that come along."
        raise RequestError(f"{source}: no such file, and no recipe of that name; {hint}")
    try:
        return path.read_text(encoding="utf-8-sig"), str(path)  # some editors put a mark in front
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{path}: cannot be read ({error}).") from None


def _builtin_folder() -> Any:
    return resources.files("heedful.recipes") / "builtin"


def _parse_setting(setting: str) -> tuple[list[str], Any]:
    key, equals, value = setting.partition("=")
    if not equals or not key.strip():
        raise RequestError(f"--set {setting}: write key=value, such as training.lr=1e-4.")
    if ":" in key:
        raise RequestError(f"--set {setting}: a method before a colon is for `heedful compare --set` alone.")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()  # a bare word is a string, as people type it
    return [k.strip() for k in key.split(".")], parsed


def _set_key(content: dict[str, Any], key: list[str], value: Any) -> None:
    for part in key[:-1]:
        content = content.setdefault(part, {})
        if not isinstance(content, dict):
            raise RequestError(f"--set {'.'.join(key)}: {part} is not a table.")
    content[key[-1]] = value


def explain_mistake(error: ValidationError, schema: type[BaseModel]) -> str:
    """The first mistake; there may be more, but they are corrected one at a time."""
    # A misspelt key explains a missing one, and one that belongs to another objective.
    mistakes = sorted(error.errors(), key=lambda m: (m["type"] == "missing", _is_foreign(m)))
    ranges = [m for m in mistakes if "Range" in m["loc"][1:] and (m["type"] == "extra_forbidden" or len(m["loc"]) > 4)]
    if ranges and not any(isinstance(m["input"], list) for m in mistakes):  # a table was meant to be a range
        mistakes = sorted(ranges, key=lambda m: m["type"] != "extra_forbidden")
    mistake = mistakes[0]
    key = _key_of(mistake["loc"])
    if _is_foreign(mistake):
        kind = schema.model_fields["objective"].default.kind
        table, name = map(str, mistake["loc"])
        hint = plugins.find("objective", kind).DATA.instead(name) if table == "data" else "leave it out"
        return f'{key} means nothing with objective.kind = "{kind}"; {hint}.'
    if mistake["type"] == "extra_forbidden":
        *parents, name = [str(part) for i, part in enumerate(mistake["loc"]) if not i or part != "Range"]
        allowed = list((Range if "Range" in mistake["loc"][1:] else _schema_at(parents, schema)).model_fields)
        of_kinds = len(parents) == 1 and parents[0] in ("study", *_OWNED)
        others = [k for table, _ in _schemas_at(parents) for k in table.model_fields] if of_kinds else []
        if name in others:
            kind = _schema_at(parents, schema).model_fields["kind"].default
            return f'{key} means nothing with study.kind = "{kind}"; leave it out.'
        near = difflib.get_close_matches(name, [*allowed, *others], 1)  # the kind of study may follow from its keys
        hint = f"did you mean {'.'.join([*parents, near[0]])}?" if near else f"allowed are {', '.join(allowed)}."
        return f"there is no key {key}; {hint}"
    if mistake["type"] == "missing":
        return f"the key {key} is missing."
    same = [m for m in mistakes if _key_of(m["loc"]) == key]  # of a union, what each of its types says
    words = " or ".join(dict.fromkeys(_in_our_words(m["type"], m.get("ctx", {}), m["msg"]) for m in same))
    if key in _PLUGIN_KEYS:
        group = cast("plugins.Group", key.partition(".")[0])
        words = f"name one of {', '.join(plugins.names(group))}"
        if group == "tuning" and isinstance(mistake["input"], list):
            words += " (several are compared by `heedful compare --methods`)"
    return f"{key} = {mistake['input']!r} is not right: {words}."


def _is_foreign(mistake: Mapping[str, Any]) -> bool:
    """Return whether a key is one of another kind of data or model."""
    table, *path = map(str, mistake["loc"])
    if mistake["type"] != "extra_forbidden" or table not in _OWNED or len(path) != 1:
        return False
    return path[0] in {key for key, _ in _defaults(table)}


_SIZE = TokenizerTable.model_fields["size"].default
_OWNED = {"data": "DATA", "model": "MODEL"}
"""The tables that belong to the objective's kind of data, and of model."""
_PLUGIN_KEYS = ("objective.kind", "tuning.method", "study.kind")
_TYPES = {
    "int_type": "it must be a whole number",
    "int_from_float": "it must be a whole number",
    "float_type": "it must be a number",
    "finite_number": "it must be a finite number",
    "string_type": "it must be a text within quotes",
    "bool_type": "it must be true or false",
    "list_type": "it must be a list, such as [1, 2]",
    "dict_type": "it must be a table of keys",
    "model_type": "it must be a table of keys",
    "too_short": "the list must not be empty",
    "literal_error": "choose {expected}",
    "greater_than": "it must be above {gt}",
    "greater_than_equal": "it must be at least {ge}",
    "less_than": "it must be below {lt}",
    "less_than_equal": "it must be at most {le}",
}


def _in_our_words(kind: str, facts: Mapping[str, Any], theirs: str) -> str:
    return _TYPES[kind].format(**facts) if kind in _TYPES else theirs[0].lower() + theirs[1:]


def _key_of(place: Sequence[int | str]) -> str:
    """As it stands in a recipe, without the types that were tried on it."""
    tried = ("int", "float", "str", "bool", "Range")
    return ".".join(str(p) for p in place if p not in tried and not str(p).startswith(("list[", "function")))


def _schema_at(path: Sequence[str], schema: type[BaseModel] = Recipe) -> type[BaseModel]:
    for part in path:
        if part.isdigit():  # the place in a list of tables
            continue
        annotation = schema.model_fields[part].annotation
        options = [annotation, *get_args(annotation)]
        schema = next(o for o in options if isinstance(o, type) and issubclass(o, BaseModel))
    return schema


def _refuse_contradictions(recipe: Recipe) -> None:
    tokenizer, training = recipe.tokenizer, recipe.training
    objective = plugins.find("objective", recipe.objective.kind)
    objective.MODEL.check(recipe)
    if tokenizer is not None and tokenizer.kind in (None, "characters") and tokenizer.size != _SIZE:
        raise RequestError('tokenizer.size goes with tokenizer.kind = "wordpiece" or "bpe".')
    if tokenizer is not None and tokenizer.prefix_space and tokenizer.kind != "bpe":
        raise RequestError('tokenizer.prefix_space goes with tokenizer.kind = "bpe".')
    objective.DATA.check(recipe)
    length = [key for key in _LENGTHS if getattr(training, key) != type(training).model_fields[key].default]
    if len(length) > 1:
        raise RequestError(
            f"training.{length[0]} and training.{length[1]} both say how long to train; keep one of the two."
        )
    if training.mark_steps is not None and training.mark_tokens is not None:
        raise RequestError("training.mark_steps and training.mark_tokens both say when to judge; keep one of the two.")
    _check_optimiser(recipe)
    _check_schedule(recipe)
    metrics = [m.name for m in objective.EVALUATOR.METRICS]
    if recipe.evaluation.metric not in ("auto", *metrics):
        near = difflib.get_close_matches(recipe.evaluation.metric, metrics, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(metrics)}."
        raise RequestError(f"evaluation.metric = {recipe.evaluation.metric!r} is not right: {hint}")
    if recipe.study is not None:
        recipe.study.check()
    seeds = [] if isinstance(recipe.seeds, int) and recipe.seeds > 10_000 else recipe.seed_list()
    if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0 or max(seeds) >= 2**32:
        raise RequestError(f"seeds = {recipe.seeds!r} is not a list of different whole numbers, nor how many.")


def _check_optimiser(recipe: Recipe) -> None:
    training = recipe.training
    if len(training.betas) != 2:
        raise RequestError(f"training.betas = {training.betas} is not right: give two numbers, such as [0.9, 0.95].")
    if training.optimiser != "muon":
        if training.muon_lr != type(training).model_fields["muon_lr"].default:
            raise RequestError(
                f'training.muon_lr goes with training.optimiser = "muon", not "{training.optimiser}"; leave it out.'
            )
    elif not plugins.find("tuning", recipe.tuning.method).MOVES_BODY:
        raise RequestError(
            'training.optimiser = "muon" is for the matrices of the blocks, which tuning.method = '
            f'"{recipe.tuning.method}" leaves as they are; use "adamw".'
        )


def _check_schedule(recipe: Recipe) -> None:
    training = recipe.training
    if training.warmup_steps is not None:
        if training.warmup != type(training).model_fields["warmup"].default:
            raise RequestError(
                "training.warmup and training.warmup_steps both say how long the learning rate rises; keep one of them."
            )
        if training.tokens is not None:
            raise RequestError("training.warmup_steps counts steps, and training.tokens tokens; use training.warmup.")
    if training.schedule == "inverse-sqrt" and training.warmup_steps is None and training.warmup == 0:
        raise RequestError(
            'training.schedule = "inverse-sqrt" falls from where the warm-up ends; raise training.warmup, or set '
            "training.warmup_steps."
        )
    if training.schedule != "trapezoid":
        if training.cooldown != type(training).model_fields["cooldown"].default:
            raise RequestError(
                f'training.cooldown goes with training.schedule = "trapezoid", not "{training.schedule}"; leave it out.'
            )
    elif training.warmup_steps is None and training.warmup + training.cooldown > 1:
        raise RequestError(
            f"training.warmup = {training.warmup:g} and training.cooldown = {training.cooldown:g} are more than the "
            "whole of training together; make one of them smaller."
        )
    if not recipe.objective.GROWS:
        for key in ("batch_warmup", "length_warmup"):
            if getattr(training, key):
                raise RequestError(
                    f"training.{key} is for an objective that reads a stream, which objective.kind = "
                    f'"{recipe.objective.kind}" does not; leave it out.'
                )


def explain_key(key: str) -> str:
    """The reference of one key or table: its docstring, type and default, in every table that has it."""
    *path, name = key.split(".")
    if not path and any(k.startswith(f"{key}.") for k in all_keys()):
        return "\n\n".join(explain_key(k) for k in all_keys() if k.startswith(f"{key}."))
    if key in _PLUGIN_KEYS:
        default = getattr(Recipe.model_fields[path[0]].default or StudyTable(), name)
        members = [(owner, schema.model_fields[name]) for schema, owner in _schemas_at(path)]
        kinds = ", ".join(owner.removeprefix("of ").removesuffix("; ") for owner, _ in members)
        lines = [f"  {owner[3:-2]}: {' '.join((field.description or '').split())}" for owner, field in members]
        return "\n".join([f"{key}  (one of {kinds}; default {default!r})", *lines])
    explained = [_explanation(key, schema, owner) for schema, owner in _schemas_at(path) if name in schema.model_fields]
    if explained:
        return "\n\n".join(dict.fromkeys(explained))
    near = difflib.get_close_matches(key, list(all_keys()), 1)
    hint = f"did you mean {near[0]}?" if near else "`heedful recipes --explain all` lists all keys."
    raise RequestError(f"there is no key {key}; {hint}")


def _explanation(key: str, schema: type[BaseModel], owner: str) -> str:
    field = schema.model_fields[key.rpartition(".")[2]]
    default = "required" if field.is_required() else f"default {field.default!r}"
    kind = str(field.annotation).replace("typing.", "").removeprefix("<class '").removesuffix("'>")
    kind = re.sub(r"Annotated\[(\w+), FieldInfo\(.*?\)\]\)\]", r"\1", kind)  # what pydantic keeps of an item's bounds
    return f"{key}  ({owner}{kind}; {default})\n  {' '.join((field.description or '').split())}"


def _schemas_at(path: Sequence[str]) -> list[tuple[type[BaseModel], str]]:
    """The schema of the table at this path: one, or that of each objective, tuning or kind of study, with its name."""
    if list(path) in (["objective"], ["tuning"], ["study"]):
        group = cast("plugins.Group", path[0])
        members = [(plugins.find(group, name).Table, f'of "{name}"; ') for name in plugins.names(group)]
        return [(table, owner) for table, owner in members if table is not None]
    if path and path[0] in _OWNED:
        return _owned_schemas(path)
    try:
        return [(_schema_at(path), "")]
    except (KeyError, StopIteration):
        return []


def _owned_schemas(path: Sequence[str]) -> list[tuple[type[BaseModel], str]]:
    """Return the schemas of [data] or [model], or of a table in it, each once, with the objectives that it is for."""
    owners: dict[type[BaseModel], list[str]] = {}
    for name in plugins.names("objective"):
        table = getattr(plugins.find("objective", name), _OWNED[path[0]]).Table
        try:
            owners.setdefault(_schema_at(path[1:], table), []).append(f'"{name}"')
        except (KeyError, StopIteration):
            continue
    return [(schema, f"of {', '.join(names)}; ") for schema, names in owners.items()]


def all_keys(schema: type[BaseModel] = Recipe, before: str = "") -> Iterator[str]:
    for name, field in schema.model_fields.items():
        options = [field.annotation, *get_args(field.annotation)]
        inner = [o for o in options if isinstance(o, type) and issubclass(o, BaseModel)]
        if schema is Recipe and name in ("objective", "tuning", "study", *_OWNED):
            yield from dict.fromkeys(key for member, _ in _schemas_at([name]) for key in all_keys(member, f"{name}."))
        elif inner:
            if get_origin(field.annotation) is list:
                yield f"{before}{name}"
            yield from all_keys(inner[0], f"{before}{name}.")
        else:
            yield f"{before}{name}"
