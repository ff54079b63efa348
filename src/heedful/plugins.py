"""Objectives, tunings and kinds of studies by their names: one file each in `objectives/`, `tuning/` and
`studies/kinds/`, or an entry point of another package (groups `heedful.objectives`, `heedful.tunings` and
`heedful.studies`). A recipe never names a module."""

import difflib
import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Literal

from heedful.errors import RequestError

Group = Literal["objective", "tuning", "study"]
_PACKAGES = {"objective": "heedful.objectives", "tuning": "heedful.tuning", "study": "heedful.studies.kinds"}
_ENTRY_POINTS = {"objective": "heedful.objectives", "tuning": "heedful.tunings", "study": "heedful.studies"}
_CALLED = {"objective": "objective", "tuning": "tuning", "study": "kind of study"}
_KEYS = {"objective": "objective.kind", "tuning": "tuning.method", "study": "study.kind"}


def find(group: Group, name: str) -> Any:
    """The class of this name; a name that nobody has is refused with the nearest."""
    plugin = _built_in(group, name) or _outside(group, name)
    if plugin is not None:
        return plugin
    known = names(group)
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(known)}."
    raise RequestError(f"{_KEYS[group]} = {name!r} is not right: there is no {_CALLED[group]} of this name; {hint}")


def names(group: Group) -> list[str]:
    """Those that come along, then those of other packages."""
    modules = pkgutil.iter_modules(importlib.import_module(_PACKAGES[group]).__path__)
    ours = [m.name.replace("_", "-") for m in modules if _built_in(group, m.name.replace("_", "-")) is not None]
    theirs = [e.name for e in entry_points(group=_ENTRY_POINTS[group])]
    return [*ours, *(name for name in theirs if name not in ours)]


@cache
def _built_in(group: Group, name: str) -> Any:
    """The class that the module of this name calls OBJECTIVE, TUNING or STUDY; None if there is no such module."""
    package = importlib.import_module(_PACKAGES[group])
    if name.replace("-", "_") not in {m.name for m in pkgutil.iter_modules(package.__path__)}:
        return None
    return getattr(importlib.import_module(f"{_PACKAGES[group]}.{name.replace('-', '_')}"), group.upper(), None)


def _outside(group: Group, name: str) -> Any:
    for entry in entry_points(group=_ENTRY_POINTS[group], name=name):
        try:
            return entry.load()
        except Exception as error:
            raise RequestError(
                f"{_KEYS[group]} = {name!r}: the package that offers it cannot be loaded "
                f"({type(error).__name__}: {error}); repair or remove it."
            ) from None
    return None
