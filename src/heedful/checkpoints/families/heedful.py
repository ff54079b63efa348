"""Our own words: every shape can be said, with any kind of attention, and only heedful reads it.

A tensor is called as the parameter is, so that a further kind of attention needs nothing here; the names of parameters
are therefore a file format. Heads are all in the file of heads.
"""

import dataclasses
import functools
import typing

import torch

from heedful.checkpoints.dialect import COMMON_INERT, REQUIRED, Entry, Family, HeadDialect, Key
from heedful.models.shape import Shape
from heedful.models.stack import Stack
from heedful.nn.heads import Reads

_POOLER = "pooler.dense"


def _keys() -> tuple[Key, ...]:
    """A key for each field of `Shape` but the pooler, which is there if its tensors are."""
    types, keys = typing.get_type_hints(Shape), []
    for field in dataclasses.fields(Shape):
        default = REQUIRED if field.default is dataclasses.MISSING else field.default
        optional = type(None) in typing.get_args(types[field.name])
        least = 0 if field.name in ("segments", "pad_id") else 1
        keys.append(Key(field.name, field.name, default, optional=optional, least=least))
    return tuple(key for key in keys if key.field != "pooler")


@functools.lru_cache(maxsize=16)
def body(shape: Shape) -> list[Entry]:
    with torch.device("meta"):
        names = [name for name, _ in Stack(shape).named_parameters()]
    return [Entry(name, (name,)) for name in names if not name.startswith(f"{_POOLER}.")]


def _state(shape: Shape) -> Reads:
    """Which state knows the whole text best: in a causal body the last, else the one that the pooler was made for."""
    return "last" if shape.causal else "pooled" if shape.pooler else "mean"


FAMILY = Family(
    name="heedful",
    prefix="body.",
    mark=r"(body\.)?blocks\.\d",
    keys=_keys(),
    only={},
    inert=COMMON_INERT,
    body=body,
    adapter_places=("blocks.{i}.attention", "blocks.{i}.feed_forward"),
    pooler=_POOLER,
    heads={
        "linear": HeadDialect([], _state),
        "two-layer": HeadDialect([], _state),
        "masked-word": HeadDialect([], "every", activation=lambda shape: shape.activation),
        "next-sentence": HeadDialect([], _state),
        "language-model": HeadDialect([], "every"),
    },
    architectures={"HeedfulModel": ()},
    fixed={},
    own=True,
)
