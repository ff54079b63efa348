"""A model of a named shape, or one with other sizes, with random weights."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from heedful.checkpoints.directory import Checkpoint
from heedful.checkpoints.families import family_of
from heedful.checkpoints.heads import NewHead, make_head, with_pooler_for
from heedful.errors import RequestError
from heedful.models.kinds import ATTENTION_KINDS
from heedful.models.shape import NAMED_SHAPES, Shape, contradiction
from heedful.models.transformer import Transformer
from heedful.text.tokenizer import Tokenizer

_DROPOUTS = ("dropout", "embedding_dropout", "attention_dropout", "attention_output_dropout")


def shape_from(name: str, sizes: Mapping[str, Any]) -> Shape:
    """A named shape with what a recipe says otherwise, by its keys in [model] (`ModelTable.sizes`)."""
    if name not in NAMED_SHAPES:
        raise RequestError(f"model.shape = {name!r} is unknown; choose {', '.join(NAMED_SHAPES)}.")
    shape, changes = NAMED_SHAPES[name], dict(sizes)
    if "width" in changes:
        changes.setdefault("inner", 4 * changes["width"])
    if "attention" in changes and ATTENTION_KINDS[changes["attention"]].replaces_positions:
        changes.setdefault("position_kind", "none")
    if "body_dropout" in changes:
        dropout = changes.pop("body_dropout")
        changes |= {field: dropout for field in _DROPOUTS if getattr(shape, field)}  # DistilBERT lacks one
    shape = replace(shape, **changes)
    if wrong := contradiction(shape, lambda field: f"model.{field}"):
        raise RequestError(f"{wrong}; change one of them.")
    return shape


def fresh_model(
    shape: Shape, new_heads: Mapping[str, NewHead], tokenizer_for: Callable[[str], Tokenizer], seed: int
) -> Checkpoint:
    """`tokenizer_for` gives the tokenizer with the special tokens of a family; its vocabulary is the model's."""
    family = family_of(shape)
    for new in new_heads.values():
        if new.kind not in family.heads:
            remedy = new.remedy or "choose another model.shape"
            raise RequestError(f"a {new.kind} head is not possible on {family.name}; {remedy}.")
    tokenizer = tokenizer_for(family.tokens)
    shape = replace(shape, vocabulary=tokenizer.size, pad_id=tokenizer.pad_id)
    if wrong := contradiction(shape):
        raise RequestError(f"this tokenizer does not go with this shape: {wrong}; choose another [tokenizer].")
    heads = {head: make_head(family, shape, new) for head, new in new_heads.items()}
    for head in heads.values():
        shape = with_pooler_for(shape, family, head)
    transformer = Transformer(shape, heads)
    transformer.initialise(torch.Generator().manual_seed(seed))
    sources = dict.fromkeys((n for n, _ in transformer.named_parameters()), "new")
    return Checkpoint(transformer, family.name, tokenizer, sources)
