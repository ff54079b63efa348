"""The families that can be read and written, by `model_type`: one module of this package each, which ends with
`FAMILY = Family(...)`. A new family is a new file here."""

import importlib
import pkgutil

from heedful.checkpoints.dialect import Family
from heedful.models.shape import Shape


def _collect() -> dict[str, Family]:
    modules = [importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)]
    families: list[Family] = [module.FAMILY for module in modules]
    return {family.name: family for family in sorted(families, key=lambda family: (family.own, family.name))}


FAMILIES: dict[str, Family] = _collect()


def family_of(shape: Shape) -> Family:
    """The family in whose dialect a body of this shape is written: one of Hugging Face's if there is one, else our own,
    which can say every shape."""
    return next(family for family in FAMILIES.values() if not family.cannot_say(shape))
