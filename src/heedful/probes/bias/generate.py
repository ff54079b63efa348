"""Pairs from a TOML file: templates × professions × the terms of two groups, every one with every other."""

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import product
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, Field, ValidationError

from heedful.errors import RequestError
from heedful.probes.bias.pairs import Counterfactual, PairSet
from heedful.recipes.reading import explain_mistake
from heedful.recipes.schema import Table
from heedful.text.tokenizer import Text

_SLOT = re.compile(r"\{([^{}]*)\}")
T = TypeVar("T", bound=BaseModel)


class _Single(Table):
    id: str = Field(min_length=1)
    context: str | None = None
    kinds: list[str] | None = None
    pair: str | None = None
    text: str
    forms: dict[str, str] = Field(default_factory=dict)


class _Form(Table):
    premise: str
    hypothesis: str


class _Pair(Table):
    id: str = Field(min_length=1)
    context: str | None = None
    kinds: list[str] | None = None
    pair: str | None = None
    premise: str
    hypothesis: str
    forms: dict[str, dict[str, str]] = Field(default_factory=dict)


class _Set(Table):
    name: str = Field(min_length=1)
    what: str
    groups: list[str]
    licence: str = ""
    terms: dict[str, list[list[str]]]
    words: dict[str, list[str]] = Field(default_factory=dict)
    professions: dict[str, list[str]] = Field(default_factory=dict)
    controls: list[str] = Field(default_factory=list)
    ranks: dict[str, int] = Field(default_factory=dict)
    single: list[dict[str, object]] = Field(default_factory=list)
    pairs: list[dict[str, object]] = Field(default_factory=list)


@dataclass(frozen=True)
class _Template:
    id: str
    context: str | None
    kinds: Sequence[str] | None
    """Of the terms that it takes; None: all."""
    texts: tuple[str, ...]
    """One text, or premise and hypothesis."""
    forms: Mapping[str, tuple[str, ...]]
    """In their place for a kind of term."""
    pair: str | None = None
    """Where nothing is crossed with anything: of which pair it is another spelling."""


@dataclass(frozen=True)
class _Term:
    kind: str
    words: tuple[str, str]


def builtin_set(name: str) -> dict[str, PairSet]:
    """A set of the package: "single" and "pairs", as far as it has them."""
    text = (resources.files("heedful.probes.bias") / "sets" / f"{name}.toml").read_text(encoding="utf-8")
    return _make_sets(text, f"set {name}")


def read_set(path: str | Path) -> dict[str, PairSet]:
    """A file in the form of the package's gender.toml: "single" and "pairs", as far as it has templates of these."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors put a mark in front
    except FileNotFoundError:
        raise RequestError(f"{path}: no such file; name a TOML file of templates and terms.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{path}: cannot be read ({error}).") from None
    return _make_sets(text, str(path))


def _make_sets(text: str, place: str) -> dict[str, PairSet]:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RequestError(f"{place}: not valid TOML: {error}.") from None
    try:
        written = _checked(_Set, content)
        _check(written)
        singles = [_single(raw, f"[[single]] {i}") for i, raw in enumerate(written.single, 1)]
        pairs = [_pair(raw, f"[[pairs]] {i}") for i, raw in enumerate(written.pairs, 1)]
        if not singles and not pairs:
            raise RequestError("there is no template. Add [[single]] with a text, or [[pairs]].")
        for table, templates in (("single", singles), ("pairs", pairs)):
            _check_templates(table, templates, written)
    except RequestError as error:
        raise RequestError(f"{place}: {error}") from None
    made = {"single": singles, "pairs": pairs}
    return {form: _cross(written, templates) for form, templates in made.items() if templates}


def _checked(schema: type[T], content: Mapping[str, object]) -> T:
    try:
        return schema.model_validate(content)
    except ValidationError as error:
        raise RequestError(explain_mistake(error, schema)) from None


def _single(raw: Mapping[str, object], place: str) -> _Template:
    try:
        table = _checked(_Single, raw)
    except RequestError as error:
        raise RequestError(f"{place}: {error}") from None
    return _Template(
        table.id,
        table.context,
        table.kinds,
        (table.text,),
        {kind: (text,) for kind, text in table.forms.items()},
        table.pair,
    )


def _pair(raw: Mapping[str, object], place: str) -> _Template:
    key = ""
    try:
        table = _checked(_Pair, raw)
        forms = {}
        for kind, texts in table.forms.items():
            key = f"forms.{kind}: "
            form = _checked(_Form, texts)
            forms[kind] = (form.premise, form.hypothesis)
    except RequestError as error:
        raise RequestError(f"{place}: {key}{error}") from None
    return _Template(table.id, table.context, table.kinds, (table.premise, table.hypothesis), forms, table.pair)


def _check(written: _Set) -> None:
    """What the tables say of terms and professions, each key by itself."""
    _check_two("groups", written.groups)
    if not any(written.terms.values()):
        raise RequestError('terms is empty; add a kind with its terms, such as pronouns = [["he", "she"]].')
    for kind, terms in written.terms.items():
        for i, two in enumerate(terms, 1):
            _check_two(f"terms.{kind}, entry {i},", two)
    for name, two in written.words.items():
        _check_two(f"words.{name}", two)
        if name != name.lower() or name in ("term", "profession", "a profession"):
            raise RequestError(f"words.{name} cannot be a word; give it another name, in small letters.")
    _refuse_twice("terms", [two for terms in written.terms.values() for two in map(tuple, terms)])
    _refuse_twice("professions", [name for names in written.professions.values() for name in names])
    for group, names in written.professions.items():
        for name in names:
            article, _, rest = name.partition(" ")
            if article not in ("a", "an") or not rest.strip():
                raise RequestError(f"professions.{group}: {name!r} has no article; write 'a {name}' or 'an {name}'.")
    for kind in written.controls:
        _check_name("controls", kind, list(written.terms))
        if len(written.terms[kind]) < 2:
            raise RequestError(f"controls: a control needs two terms of a kind; add one to terms.{kind}.")
    known = [word for terms in written.terms.values() for two in terms for word in two]
    for word in written.ranks:
        _check_name("ranks", word, known)


def _check_two(key: str, two: Sequence[str]) -> None:
    if len(two) != 2 or not all(word.strip() for word in two) or two[0] == two[1]:
        raise RequestError(f"{key} must be two different texts, one for each group, not {two!r}.")


def _check_name(key: str, name: str, known: list[str]) -> None:
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        raise RequestError(
            f"{key}: there is no {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"name {', '.join(known)}.")
        )


def _refuse_twice(key: str, entries: Sequence[object]) -> None:
    for i, entry in enumerate(entries):
        if entry in entries[:i]:
            shown = "/".join(entry) if isinstance(entry, tuple) else entry
            raise RequestError(f"{key} has {shown!r} twice; remove one of them.")


def _check_templates(table: str, templates: Sequence[_Template], written: _Set) -> None:
    _refuse_twice(f"the ids of [[{table}]]", [template.id for template in templates])
    with_context = [template for template in templates if template.context is not None]
    for template in templates:
        place = f"[[{table}]] {template.id!r}"
        if with_context and template.context is None:
            raise RequestError(f"{place} has no context, but others have one. Add it, or remove it everywhere.")
        for kind in template.kinds or ():
            _check_name(f"{place}, kinds", kind, list(written.terms))
        taken = list(written.terms) if template.kinds is None else template.kinds
        if not any(written.terms[kind] for kind in taken):
            raise RequestError(f"{place}: kinds is empty. Name some kinds, or remove it.")
        for kind in template.forms:
            _check_name(f"{place}, forms", kind, list(taken))
        for kind in taken:
            _check_texts(place, template.forms.get(kind, template.texts), len(written.terms[kind]) == 1, written)


def _check_texts(place: str, texts: Sequence[str], one_term: bool, written: _Set) -> None:
    known = ["term", *(("profession", "a profession") if written.professions else ()), *written.words]
    slots = []
    for text in texts:
        if not text.strip():
            raise RequestError(f"{place}: a text is empty; write it, or remove the template.")
        if set(_SLOT.sub("", text)) & set("{}"):
            raise RequestError(f"{place}: a brace in {text!r} is not closed or not opened; write {{term}}.")
        for slot in _SLOT.findall(text):
            if slot.lower() not in known:
                near = difflib.get_close_matches(slot.lower(), known, 1)
                hint = f"did you mean {{{near[0]}}}?" if near else f"there are {', '.join(f'{{{k}}}' for k in known)}."
                raise RequestError(f"{place}: there is no {{{slot}}}; {hint}")
            slots.append(slot.lower())
    if not {"term", *(written.words if one_term else ())}.intersection(slots):
        raise RequestError(f"{place}: {texts[-1]!r} is the same for every term; use {{term}} in it.")
    if written.professions and not {"profession", "a profession"}.intersection(slots):
        raise RequestError(
            f"{place}: {texts[-1]!r} is the same for every profession; use {{profession}} or {{a profession}} in it."
        )


def _cross(written: _Set, templates: Sequence[_Template]) -> PairSet:
    terms = [_Term(kind, (two[0], two[1])) for kind, pairs in written.terms.items() for two in pairs]
    professions = [(group, name) for group, names in written.professions.items() for name in names]
    rows = tuple(
        Counterfactual(
            _fill(template, term, 0, profession, written), _fill(template, term, 1, profession, written), levels
        )
        for template, profession, term, levels in _combinations(templates, professions, terms)
    )
    factors: tuple[str, ...] = ("template", *(["profession"] if professions else []), "term")
    if len(rows) == len(templates):  # nothing is crossed with anything
        factors = ("pair",)
        named = {template.id: template.pair or template.id for template in templates}
        rows = tuple(
            Counterfactual(row.a, row.b, {**row.levels, "pair": named[row.levels["template"]]}) for row in rows
        )
    return PairSet(
        written.name,
        written.what,
        (written.groups[0], written.groups[1]),
        rows,
        factors,
        ("kind", *(["stereotype"] if professions else []), *(["context"] if templates[0].context else [])),
        written.licence,
        tuple(_controls(written, templates, professions)),
    )


def _controls(
    written: _Set, templates: Sequence[_Template], professions: Sequence[tuple[str, str]]
) -> Iterator[Counterfactual]:
    """Neighbours two by two, so that no name is in two pairs: around a circle the changes would add up to nothing."""
    for (side, group), kind in product(enumerate(written.groups), written.controls):
        own = [two[side] for two in written.terms[kind]]
        neighbours = [_Term(kind, (x, y)) for x, y in zip(own[::2], own[1::2], strict=False)]
        for template, profession, term, levels in _combinations(templates, professions, neighbours):
            a, b = (_fill(template, _Term(kind, (word, word)), side, profession, written) for word in term.words)
            yield Counterfactual(a, b, {**levels, "group": group})


def _combinations(
    templates: Sequence[_Template], professions: Sequence[tuple[str, str]], terms: Sequence[_Term]
) -> Iterator[tuple[_Template, str, _Term, dict[str, str]]]:
    for template, (stereotype, profession), term in product(templates, professions or [("", "")], terms):
        if template.kinds is not None and term.kind not in template.kinds:
            continue
        levels = {"template": template.id, "term": "/".join(term.words), "kind": term.kind}
        if profession:
            levels |= {"profession": profession.partition(" ")[2], "stereotype": stereotype}
        if template.context:
            levels["context"] = template.context
        yield template, profession, term, levels


def _fill(template: _Template, term: _Term, side: int, profession: str, written: _Set) -> Text:
    values = {name: two[side] for name, two in written.words.items()}
    values |= {"term": term.words[side], "a profession": profession, "profession": profession.partition(" ")[2]}

    def value(slot: re.Match[str]) -> str:
        word = values[slot[1].lower()]
        return word[0].upper() + word[1:] if slot[1][0].isupper() else word

    texts = [_SLOT.sub(value, text) for text in template.forms.get(term.kind, template.texts)]
    return texts[0] if len(texts) == 1 else (texts[0], texts[1])
