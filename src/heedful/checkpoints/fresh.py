"""A model of a named shape with random weights."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch

from heedful.checkpoints.directory import Checkpoint
from heedful.checkpoints.families import family_of
from heedful.checkpoints.heads import NewHead, make_head, with_pooler_for
from heedful.errors import RequestError
from heedful.models.shape import NAMED_SHAPES
from heedful.models.transformer import Transformer
from heedful.text.tokenizer import Tokenizer


def fresh_model(
    name: str, new_heads: Mapping[str, NewHead], tokenizer_for: Callable[[str], Tokenizer], seed: int
) -> Checkpoint:
    """`tokenizer_for` gives the tokenizer with the special tokens of a family; its vocabulary is the model's."""
    if name not in NAMED_SHAPES:
        raise RequestError(f"model.shape = {name!r} is unknown; choose {', '.join(NAMED_SHAPES)}.")
    shape = NAMED_SHAPES[name]
    family = family_of(shape)
    for new in new_heads.values():
        if new.kind not in family.heads:
            raise RequestError(f'model.head = "{new.kind}" is not possible on {family.name}; leave it out.')
    tokenizer = tokenizer_for(family.tokens)
    shape = replace(shape, vocabulary=tokenizer.size, pad_id=tokenizer.pad_id)
    heads = {head: make_head(family, shape, new) for head, new in new_heads.items()}
    for head in heads.values():
        shape = with_pooler_for(shape, family, head)
    transformer = Transformer(shape, heads)
    transformer.initialise(torch.Generator().manual_seed(seed))
    sources = dict.fromkeys((n for n, _ in transformer.named_parameters()), "new")
    return Checkpoint(transformer, family.name, tokenizer, sources)
