"""How Hugging Face says what we say: the words in which a family's dialect (`bert.py`, `gpt2.py`, …) is written. One
dialect, `heedful.py`, is our own.

One table serves both directions, so that what can be read can be written, and a tensor that belongs nowhere is noticed.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from heedful.models.shape import HeadKind, Shape
from heedful.nn.heads import Reads

SLOTS: dict[HeadKind, str] = {
    "linear": "classify",
    "two-layer": "classify",
    "masked-word": "mask",
    "next-sentence": "next-sentence",
    "language-model": "causal",
}
"""Under which name each kind of head stands on a model where none is given: that of the objective that trains it."""


@dataclass(frozen=True)
class Entry:
    """One tensor of ours, and the tensors of theirs that make it: stacked along the outputs, transposed if they are."""

    ours: str
    theirs: tuple[str, ...]
    transposed: bool = False

    def views(self, ours: Tensor) -> dict[str, Tensor]:
        """Our tensor seen as theirs, by their names: writing to a view writes to ours."""
        whole = ours.T if self.transposed else ours
        return dict(zip(self.theirs, whole.chunk(len(self.theirs)), strict=True))

    def their_shape(self, ours: torch.Size) -> tuple[int, ...]:
        shape = tuple(reversed(ours)) if self.transposed else tuple(ours)
        return (shape[0] // len(self.theirs), *shape[1:])


def tensor(ours: str, *theirs: str, transposed: bool = False) -> list[Entry]:
    return [Entry(ours, theirs, transposed)]


def pair(ours: str, *theirs: str, transposed: bool = False) -> list[Entry]:
    """A module's weight and its bias; only the weight can be transposed."""
    return [
        Entry(f"{ours}.weight", tuple(f"{name}.weight" for name in theirs), transposed),
        Entry(f"{ours}.bias", tuple(f"{name}.bias" for name in theirs)),
    ]


REQUIRED: Any = ...


@dataclass(frozen=True)
class Key:
    """A key of config.json that sets a field of `Shape`; `default` is what Hugging Face takes when it is absent. A key
    that is REQUIRED may not be."""

    key: str
    field: str
    default: Any
    also: tuple[str, ...] = ()
    """Other fields that take the same value."""
    optional: bool = False
    """null is allowed."""
    least: int = 1
    """Of a whole number."""


@dataclass(frozen=True)
class Table:
    """A tensor of the body that Hugging Face reads and that we compute: written for it, and where it is stored it must
    have these values."""

    name: str
    size: Callable[[Shape], tuple[int, ...]]
    values: Callable[[Shape], Tensor]


@dataclass(frozen=True)
class HeadDialect:
    entries: list[Entry]
    """`ours` is relative to the head."""
    reads: Reads | Callable[[Shape], Reads]
    activation: Callable[[Shape], str] = lambda shape: "tanh"
    bias: bool = True
    input_dropout: bool = True


@dataclass(frozen=True)
class Family:
    name: str
    """`model_type` in config.json."""
    prefix: str
    """Prefix of the names of the body's tensors in a model with a head."""
    mark: str
    """A pattern for names that only this family's files have."""
    keys: tuple[Key, ...]
    only: Mapping[str, Any]
    """Keys that change the computation and that we support at one value."""
    inert: frozenset[str]
    """Keys that do not change the computation; kept, and written back."""
    body: Callable[[Shape], list[Entry]]
    heads: Mapping[HeadKind, HeadDialect]
    architectures: Mapping[str, tuple[HeadKind, ...]]
    """Hugging Face's classes, and the heads that each must have. The first is the body alone."""
    adapter_places: tuple[str, str]
    """What AdapterHub calls the place of the adapters after attention and after the feed-forward network of layer
    {i}."""
    fixed: Mapping[str, Any]
    """Fields of `Shape` that config.json cannot change: the wiring, first of all."""
    same: Mapping[str, str] = field(default_factory=dict)
    """Keys that may be absent or null, or say what another key says."""
    own: bool = False
    """Whether it is heedful's alone: for the shapes that no family of Hugging Face's can say, and unknown there."""
    tokens_of: str = ""
    """The family whose special tokens its texts have, if not its own: one that `text/` knows."""
    pooler: str = ""
    """Name of the pooler's dense layer, if the family has one."""
    derived: str = r"(?!)"
    """A pattern for stored buffers that are computed from the config and are not read."""
    tables: tuple[Table, ...] = ()
    copies: Mapping[str, str] = field(default_factory=dict)
    """Stored copies of tied tensors, and what each must equal."""
    config_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Inert keys to write when nothing else is known, where Hugging Face's own default would mislead."""

    @property
    def tokens(self) -> str:
        return self.tokens_of or self.name

    def plain(self, name: str) -> str:
        """A stored name without prefix and in today's spelling."""
        name = name.removeprefix(self.prefix)
        return re.sub(r"(LayerNorm|layer_norm)\.(gamma|beta)$", _modern, name)

    def cannot_say(self, shape: Shape) -> list[str]:
        """The fields of a shape that this dialect cannot express: they would be read back with another value."""
        wrong = [name for name, value in self.fixed.items() if getattr(shape, name) != value]
        for key in self.keys:
            value = getattr(shape, key.field)
            wrong += [name for name in key.also if getattr(shape, name) != value]
            if (value is None and not key.optional) or (key.field == "segments" and value < key.least):
                wrong.append(key.field)
        return wrong

    def entries(self, shape: Shape, kinds: Mapping[str, HeadKind]) -> list[Entry]:
        """Every tensor of a model: its body's, then those of its heads (`kinds`: name of the head → its kind)."""
        entries = [Entry(f"body.{e.ours}", e.theirs, e.transposed) for e in self.body(shape)]
        if shape.pooler:
            entries += pair("body.pooler.dense", self.pooler)
        for name, kind in kinds.items():
            entries += [Entry(f"heads.{name}.{e.ours}", e.theirs, e.transposed) for e in self.heads[kind].entries]
        return entries


def _modern(match: re.Match[str]) -> str:
    return f"{match[1]}.{'weight' if match[2] == 'gamma' else 'bias'}"


ENCODER: Mapping[str, Any] = {
    "causal": False,
    "norm": "post",
    "embedding_norm": True,
    "embedding_scale": False,
    "position_kind": "learned",
    "positions_from": "zero",
    "attention": "dot-product",
    "memory_width": None,
    "narrow_residuals": False,
}
"""How the encoders of Hugging Face's that we know are wired."""

COMMON_INERT = frozenset(
    [
        "_name_or_path",
        "architectures",
        "transformers_version",
        "torch_dtype",
        "dtype",
        "use_cache",
        "output_hidden_states",
        "output_attentions",
        "return_dict",
        "torchscript",
        "use_bfloat16",
        "chunk_size_feed_forward",
        "id2label",
        "label2id",
        "num_labels",
        "problem_type",
        "finetuning_task",
        "task_specific_params",
        "tokenizer_class",
        "prefix",
        "bos_token_id",
        "eos_token_id",
        "sep_token_id",
        "decoder_start_token_id",
        "max_length",
        "min_length",
        "do_sample",
        "early_stopping",
        "num_beams",
        "num_beam_groups",
        "diversity_penalty",
        "temperature",
        "top_k",
        "top_p",
        "typical_p",
        "repetition_penalty",
        "length_penalty",
        "no_repeat_ngram_size",
        "encoder_no_repeat_ngram_size",
        "bad_words_ids",
        "num_return_sequences",
        "output_scores",
        "return_dict_in_generate",
        "forced_bos_token_id",
        "forced_eos_token_id",
        "remove_invalid_values",
        "exponential_decay_length_penalty",
        "suppress_tokens",
        "begin_suppress_tokens",
        "tf_legacy_loss",
        "gradient_checkpointing",
        "output_past",
        "language",
        "_commit_hash",
        "initializer_factor",
        "cross_attention_hidden_size",
        "_attn_implementation",
        "attn_implementation",
        "model_type",
        "xla_device",
        "_num_labels",
        "heedful",
    ]
)
"""Keys that every configuration of theirs may carry and that do not change what the model computes."""

COMMON_ONLY: Mapping[str, Any] = {
    "is_decoder": False,
    "is_encoder_decoder": False,
    "add_cross_attention": False,
    "pruned_heads": {},
    "tie_word_embeddings": True,
    "tie_encoder_decoder": False,
    "quantization_config": None,
}
"""Keys that would change what the model computes, each with the one value that we support."""
