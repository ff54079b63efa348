"""Marian as Hugging Face writes it (`MarianMTModel`): the translators of the University of Helsinki, and ours where it
can say them.

One table serves both directions: which keys of config.json set which fields, and what each tensor is called. Encoder
and decoder have the same width, the same number of positions (sinusoidal, all sines before all cosines) and post-norm.
Where the token tables are one, `model.shared.weight` is it; older files have copies under further names.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import torch
from torch import Tensor

from heedful.checkpoints import config as configs
from heedful.checkpoints.dialect import COMMON_INERT, COMMON_ONLY, Entry, pair, tensor
from heedful.checkpoints.tensors import NoInit, Stored
from heedful.checkpoints.translators.checkpoint import SETTINGS, TranslatorCheckpoint
from heedful.checkpoints.translators.fields import check_start, read_value
from heedful.checkpoints.translators.hashes import tokenizer_hashes
from heedful.checkpoints.translators.own import Described
from heedful.errors import RequestError
from heedful.models.seq2seq.shape import Seq2SeqShape, contradiction
from heedful.models.seq2seq.transformer import Seq2SeqTransformer
from heedful.models.shape import Shape
from heedful.nn.blocks import Kernels
from heedful.nn.positions import sinusoidal
from heedful.text.pairs import PairTokenizer

BIAS, SHARED, OUTPUT = "final_logits_bias", "model.shared.weight", "lm_head.weight"
POSITIONS = r"model\.(encoder|decoder)\.embed_positions\.weight"
_SOURCE, _TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
_POSITION_ERROR = 1e-4  # what half precision does to a sine


class Key(NamedTuple):
    """A key of config.json and the fields that it sets; `default` is what Hugging Face takes when it is absent."""

    key: str
    default: Any
    fields: tuple[str, ...]
    sides: tuple[str, ...] = ("source", "target")


_KEYS = (
    Key("d_model", 1024, ("width",)),
    Key("max_position_embeddings", 1024, ("positions",)),
    Key("encoder_layers", 12, ("layers",), ("source",)),
    Key("decoder_layers", 12, ("layers",), ("target",)),
    Key("encoder_attention_heads", 16, ("heads",), ("source",)),
    Key("decoder_attention_heads", 16, ("heads",), ("target",)),
    Key("encoder_ffn_dim", 4096, ("inner",), ("source",)),
    Key("decoder_ffn_dim", 4096, ("inner",), ("target",)),
    Key("activation_function", "gelu", ("activation",)),
    Key("scale_embedding", False, ("embedding_scale",)),
    Key("dropout", 0.1, ("dropout", "embedding_dropout", "attention_output_dropout")),
    Key("attention_dropout", 0.0, ("attention_dropout",)),
    Key("init_std", 0.02, ("initializer_range",)),
    Key("vocab_size", 58101, ("vocabulary",), ("source",)),
    Key("decoder_vocab_size", None, ("vocabulary",), ("target",)),
    Key("pad_token_id", 58100, ("pad_id",)),
)
_TIES = {(True, True): "all", (False, True): "output", (False, False): "none"}
"""share_encoder_decoder_embeddings and tie_word_embeddings → `Seq2SeqShape.shared`."""
_ONLY: Mapping[str, Any] = {
    **{key: value for key, value in COMMON_ONLY.items() if key != "tie_word_embeddings"},
    "is_encoder_decoder": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
    "activation_dropout": 0.0,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
}
"""Keys that would change what it computes; some are read by the converter that wrote the file alone, and say how the
weights are to be understood."""
_INERT = (
    COMMON_INERT
    | SETTINGS
    | {
        "add_bias_logits",
        "classif_dropout",
        "classifier_dropout",
        "extra_pos_embeddings",
        "num_hidden_layers",
        "mirror",
    }
)
_NOT_KEPT = {"model_type", "architectures", "heedful", "dtype", "torch_dtype", "num_hidden_layers"}
_TYPES = get_type_hints(Shape)
_WIRING: Mapping[str, Any] = {
    "segments": 0,
    "norm": "post",
    "embedding_norm": False,
    "position_kind": "sinusoidal-halves",
    "positions_from": "zero",
    "attention": "dot-product",
    "norm_eps": 1e-5,
    "head_dropout": None,
    "narrow_residuals": False,
    "pooler": False,
}


@dataclass(frozen=True)
class RowEntry(Entry):
    """A vector of ours that is the only row of a matrix of theirs."""

    def views(self, ours: Tensor) -> dict[str, Tensor]:
        return {self.theirs[0]: ours[None]}

    def their_shape(self, ours: torch.Size) -> tuple[int, ...]:
        return (1, *ours)


def entries(shape: Seq2SeqShape, tables: Mapping[str, str]) -> list[Entry]:
    """`tables`: what each table of tokens is called in the file, by our name."""
    made = [entry for ours, theirs in tables.items() for entry in tensor(ours, theirs)]
    if shape.output_bias:
        made.append(RowEntry("output.bias", (BIAS,)))
    for side, body in (("encoder", shape.source), ("decoder", shape.target)):
        for i in range(body.layers):
            made += _block(f"{side}.blocks.{i}", f"model.{side}.layers.{i}", memory=side == "decoder")
    return made


def _block(ours: str, theirs: str, memory: bool) -> list[Entry]:
    q, k, v, out = (f"{{}}.{name}_proj" for name in ("q", "k", "v", "out"))
    own, other = f"{theirs}.self_attn", f"{theirs}.encoder_attn"
    made = [
        *pair(f"{ours}.attention.qkv", *(name.format(own) for name in (q, k, v))),
        *pair(f"{ours}.attention.output", out.format(own)),
        *pair(f"{ours}.around_attention.norm", f"{theirs}.self_attn_layer_norm"),
        *pair(f"{ours}.feed_forward.up", f"{theirs}.fc1"),
        *pair(f"{ours}.feed_forward.down", f"{theirs}.fc2"),
        *pair(f"{ours}.around_feed_forward.norm", f"{theirs}.final_layer_norm"),
    ]
    if memory:
        made += [
            *pair(f"{ours}.memory_attention.query", q.format(other)),
            *pair(f"{ours}.memory_attention.keys_values", k.format(other), v.format(other)),
            *pair(f"{ours}.memory_attention.output", out.format(other)),
            *pair(f"{ours}.around_memory_attention.norm", f"{theirs}.encoder_attn_layer_norm"),
        ]
    return made


_TABLES: Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "all": (("encoder.embeddings.token.weight", (SHARED, _SOURCE, _TARGET, OUTPUT)),),
    "output": (
        ("encoder.embeddings.token.weight", (_SOURCE,)),
        ("decoder.embeddings.token.weight", (_TARGET, OUTPUT)),
    ),
    "none": (
        ("encoder.embeddings.token.weight", (_SOURCE,)),
        ("decoder.embeddings.token.weight", (_TARGET,)),
        ("output.weight", (OUTPUT,)),
    ),
}
"""By `Seq2SeqShape.shared`: our tables, and the names that each has there; the first is the one that we write."""


def describe(directory: Path, config: Mapping[str, Any], tensors: Mapping[str, Stored], kernels: Kernels) -> Described:
    path = directory / "config.json"
    shape = read_shape(path, config, output_bias=BIAS in tensors)
    tables: dict[str, str] = {}
    copies: dict[str, str] = {}
    for ours, names in _TABLES[shape.shared]:
        stored = [name for name in names if name in tensors] or [names[0]]
        tables[ours] = stored[0]
        copies |= dict.fromkeys(stored[1:], stored[0])
    _check_positions(directory, shape, tensors)
    extra = {key: value for key, value in config.items() if key in _INERT and key not in _NOT_KEPT}
    start = extra.setdefault("decoder_start_token_id", shape.target.pad_id)
    check_start(path, start, shape.target.vocabulary)
    with torch.device("meta"), NoInit():
        model = Seq2SeqTransformer(shape, kernels)
    return Described(model, entries(shape, tables), extra, derived=POSITIONS, copies=copies)


def read_shape(path: Path, config: Mapping[str, Any], output_bias: bool) -> Seq2SeqShape:
    ties = ("share_encoder_decoder_embeddings", "tie_word_embeddings")
    unknown = sorted(set(config) - {key.key for key in _KEYS} - set(_ONLY) - _INERT - set(ties))
    if unknown:
        raise RequestError(f"{path}: {configs.not_supported(unknown, 'marian')}")
    for name, supported in _ONLY.items():
        value = config.get(name, supported)
        if value != supported and not (name == "pruned_heads" and value is None):
            raise RequestError(f"{path}: {name} = {configs.shown(value)} is not supported; only {supported!r} is.")
    shared = _TIES.get(tuple(read_value(path, config.get(tie, True), bool, tie, tie) for tie in ties))
    if shared is None:
        raise RequestError(
            f"{path}: share_encoder_decoder_embeddings = true with tie_word_embeddings = false is not supported; "
            "releases of transformers do not agree what it means."
        )
    sides: dict[str, dict[str, Any]] = {"source": dict(_WIRING), "target": dict(_WIRING)}
    for key in _KEYS:
        value = config.get(key.key, key.default)
        if key.key == "decoder_vocab_size" and (value is None or shared == "all"):
            value = sides["source"]["vocabulary"]
        for side in key.sides:
            sides[side] |= {f: read_value(path, value, _TYPES[f], f, key.key) for f in key.fields}
    source = Shape(**sides["source"])
    target = Shape(**sides["target"], causal=True, memory_width=source.width)
    shape = Seq2SeqShape(source, target, shared, output_bias, initial="normal")  # type: ignore[arg-type]
    names = {f"{side}.{field}": key.key for key in _KEYS for side in key.sides for field in key.fields}
    if wrong := contradiction(shape, lambda field: names.get(field, field)):
        raise RequestError(f"{path}: {wrong}.")
    return shape


def _check_positions(directory: Path, shape: Seq2SeqShape, tensors: Mapping[str, Stored]) -> None:
    """Positions are computed here; a table of them must hold the same."""
    for name, stored in tensors.items():
        if not re.fullmatch(POSITIONS, name):
            continue
        d = shape.source.width
        made = sinusoidal(torch.arange(shape.source.positions), d, halves=True)
        if stored.shape != tuple(made.shape) or (stored.read() - made).abs().max() > _POSITION_ERROR:
            raise RequestError(f"{directory}: {name} holds other positions than Marian's sines; it is not supported.")


def cannot_say(shape: Seq2SeqShape) -> list[str]:
    """The fields of a shape that would be read back with another value; but for how weights were drawn, of which
    nothing is left to say when they are there."""
    try:
        again = read_shape(Path("config.json"), write_keys(shape), shape.output_bias)
    except RequestError as error:
        return [str(error).removeprefix("config.json: ").rstrip(".")]
    if shape.shared == "all":  # one vocabulary, so that there is one key for both
        again = replace(again, target=replace(again.target, vocabulary=again.source.vocabulary))
    ours, theirs = dict(_flat(replace(shape, initial=again.initial))), dict(_flat(again))
    return [f"{name} = {value}" for name, value in ours.items() if theirs[name] != value]


def _flat(shape: Seq2SeqShape) -> Iterator[tuple[str, Any]]:
    for name, value in asdict(shape).items():
        if isinstance(value, dict):
            yield from ((f"{name}.{field}", inner) for field, inner in value.items())
        else:
            yield name, value


def write_keys(shape: Seq2SeqShape) -> dict[str, Any]:
    content = {key.key: getattr(getattr(shape, key.sides[0]), key.fields[0]) for key in _KEYS}
    share, tie = next(ties for ties, shared in _TIES.items() if shared == shape.shared)
    return {**content, "share_encoder_decoder_embeddings": share, "tie_word_embeddings": tie}


def why_not(checkpoint: TranslatorCheckpoint) -> str:
    """What Marian's layout has no words for; "" if it can say everything."""
    model, tokenizers = checkpoint.model, checkpoint.tokenizers
    if not isinstance(model, Seq2SeqTransformer):
        return "it knows transformers with encoder and decoder alone"
    if wrong := cannot_say(model.shape):
        return f"it cannot say {', '.join(wrong[:6])}"
    if not _has_pieces(tokenizers):
        return "its tokenizers are SentencePiece models, source.spm and target.spm, and these have another form"
    if model.shape.shared == "all" and not tokenizers.shared:
        return "the tables of both sides are one, and their vocabularies are not"
    return ""


def _has_pieces(tokenizers: PairTokenizer) -> bool:
    source, target = tokenizers.source, tokenizers.target
    return {"source.spm", "target.spm", "vocab.json"} <= set(source.own_files) and source.own_files == target.own_files


def write_config(checkpoint: TranslatorCheckpoint) -> dict[str, Any]:
    model = checkpoint.model
    assert isinstance(model, Seq2SeqTransformer)
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        **{k: v for k, v in checkpoint.extra.items() if k in _INERT and k not in _NOT_KEPT},
        **write_keys(model.shape),
        "is_encoder_decoder": True,
        "decoder_start_token_id": checkpoint.begin_id,
        "eos_token_id": checkpoint.end_id,
        "num_hidden_layers": model.shape.source.layers,
        "dtype": "float32",
        "heedful": tokenizer_hashes(checkpoint),
    }


def stored_tensors(model: Seq2SeqTransformer, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under our names (weights, or their gradients) under Marian's. A name that belongs nowhere is an error."""
    tables = {ours: names[0] for ours, names in _TABLES[model.shape.shared]}
    table = {entry.ours: entry for entry in entries(model.shape, tables)}
    return {name: part.contiguous() for ours, t in tensors.items() for name, part in table[ours].views(t).items()}


def why_not_ctranslate2(checkpoint: TranslatorCheckpoint) -> str:
    """Why CTranslate2's converter would not make the same model of the directory that this one was read from; "" if it
    does.

    The converter drops the last row of the vocabulary, which it takes for padding, and its decoder starts from a row of
    zeros, whatever the start token is. It has one vocabulary for both sides, and one number of heads.
    """
    if reason := why_not(checkpoint):
        return f"it reads Marian's layout, and {reason}"
    if checkpoint.family != "marian":
        return "it reads Marian's layout, and this model is in heedful's own; save it with layout=\"marian\""
    model, tokenizers = checkpoint.model, checkpoint.tokenizers
    assert isinstance(model, Seq2SeqTransformer)
    last = model.shape.target.vocabulary - 1
    if not tokenizers.shared:
        return "it has one vocabulary for both sides, and this model has two"
    if tokenizers.target.pad_id != last or tokenizers.target.token(last) != "<pad>":
        return f"it drops the last token, taking it for <pad>, and that is {tokenizers.target.token(last)!r}"
    if model.decoder.embeddings.token.weight[checkpoint.begin_id].any():
        return "it starts from a row of zeros, and the embedding of this model's start token is none"
    if model.shape.source.heads != model.shape.target.heads:
        return "it has one number of heads for both sides, and this model has two"
    if model.shape.target.activation not in ("gelu", "gelu_new", "relu", "silu", "swish"):
        return f"it does not know the activation {model.shape.target.activation}"
    return ""
