"""RoFormer in Hugging Face's words: BERT whose queries and keys are turned by their positions. It has no pooler and no
next-sentence head there. Ours keeps the pooler in the same file, where Hugging Face reports it as unexpected, and the
next-sentence head with the other heads that it does not have."""

import torch
from torch import Tensor

from heedful.checkpoints.dialect import COMMON_INERT, COMMON_ONLY, ENCODER, Entry, Family, HeadDialect, Key, Table
from heedful.checkpoints.families.bert import BERT_KEYS, MASKED_WORD, MASKED_WORD_COPIES, TWO_LAYER, bert_body
from heedful.models.shape import Shape
from heedful.nn.heads import Reads
from heedful.nn.positions import sinusoidal


def body(shape: Shape) -> list[Entry]:
    return [entry for entry in bert_body(shape) if entry.ours != "embeddings.position.weight"]


def _sines(shape: Shape) -> Tensor:
    return sinusoidal(torch.arange(shape.positions), shape.width // shape.heads, halves=True).float()


SINES = Table("encoder.embed_positions.weight", lambda shape: (shape.positions, shape.width // shape.heads), _sines)
"""The sines and cosines of the angles by which queries and keys are turned. Without it Hugging Face makes it anew, with
the same values, but reports it as missing."""


def _state(shape: Shape) -> Reads:
    """What a linear head reads, for which Hugging Face has no place."""
    return "pooled" if shape.pooler else "first"


DEFAULTS = {"vocab_size": 50000, "max_position_embeddings": 1536}

FAMILY = Family(
    name="roformer",
    prefix="roformer.",
    mark=r"roformer\.|encoder\.embed_positions\.",
    keys=(
        *(Key(k.key, k.field, DEFAULTS.get(k.key, k.default), k.also) for k in BERT_KEYS if k.field != "head_dropout"),
        Key("pad_token_id", "pad_id", 0, optional=True, least=0),
    ),
    only={**COMMON_ONLY, "rotary_value": False},
    inert=COMMON_INERT,
    same={"embedding_size": "hidden_size"},
    body=body,
    tables=(SINES,),
    # AdapterHub does not know this family: these are the places of BERT, which it resembles.
    adapter_places=("encoder.layer.{i}.attention.output", "encoder.layer.{i}.output"),
    pooler="pooler.dense",
    heads={
        "linear": HeadDialect([], _state),
        "two-layer": HeadDialect(TWO_LAYER, "first", activation=lambda shape: shape.activation),
        "masked-word": HeadDialect(MASKED_WORD, "every", activation=lambda shape: shape.activation),
        "next-sentence": HeadDialect([], "pooled"),
    },
    architectures={
        "RoFormerModel": (),
        "RoFormerForSequenceClassification": ("two-layer",),
        "RoFormerForMaskedLM": ("masked-word",),
    },
    fixed={**ENCODER, "position_kind": "none", "attention": "rotary", "head_dropout": None},
    # Hugging Face's own tokenizer for it segments Chinese; what is trained here may be of any kind.
    tokens_of="heedful",
    copies=MASKED_WORD_COPIES,
)
