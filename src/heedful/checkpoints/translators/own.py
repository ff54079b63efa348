"""Our own layout: every kind of translator, every shape.

Every field of its shape is a key of config.json's `shape`, and a tensor is called as the parameter is; the names of
parameters are therefore a file format. The other body of a BERT-fused model is a model directory of its own within it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from heedful.checkpoints import config as configs
from heedful.checkpoints.dialect import COMMON_INERT, Entry
from heedful.checkpoints.directory import Checkpoint, read_model, write_model
from heedful.checkpoints.families import family_of
from heedful.checkpoints.heads import check_name
from heedful.checkpoints.tensors import NoInit
from heedful.checkpoints.translators.checkpoint import SETTINGS, TranslationModel, TranslatorCheckpoint
from heedful.checkpoints.translators.fields import check_start, read_fields, write_fields
from heedful.checkpoints.translators.hashes import tokenizer_hashes
from heedful.errors import RequestError
from heedful.models.seq2seq.bert_fused import BertFusedSeq2Seq
from heedful.models.seq2seq.decoder_only import DecoderOnly
from heedful.models.seq2seq.recurrent import RecurrentSeq2Seq
from heedful.models.seq2seq.shape import BertFusedShape, RecurrentShape, Seq2SeqShape, contradiction
from heedful.models.seq2seq.transformer import Seq2SeqTransformer
from heedful.models.shape import Head, Shape
from heedful.models.shape import contradiction as body_contradiction
from heedful.models.transformer import Transformer
from heedful.nn.blocks import Kernels
from heedful.storage.shared import SharedStore
from heedful.text.tokenizer import Tokenizer

FORMAT = 1
BERT_FOLDER = "bert"
_INERT = COMMON_INERT | SETTINGS
_KEYS = _INERT | {"kind", "shape", "head"}
_NOT_KEPT = {"model_type", "architectures", "heedful", "dtype", "torch_dtype"}
KINDS: Mapping[type[torch.nn.Module], str] = {
    Seq2SeqTransformer: "transformer",
    RecurrentSeq2Seq: "recurrent",
    BertFusedSeq2Seq: "bert-fused",
    DecoderOnly: "decoder-only",
}


class Described(NamedTuple):
    """What a directory describes, before any tensor of it is read."""

    model: TranslationModel
    """Without memory, but for another body, which is read."""
    entries: list[Entry]
    extra: dict[str, Any]
    bert_tokenizer: Tokenizer | None = None
    bert_sources: Mapping[str, str] = {}
    """Where the tensors of another body are from, which it has already."""
    derived: str = r"(?!)"
    copies: Mapping[str, str] = {}


def describe(directory: Path, config: Mapping[str, Any], kernels: Kernels) -> Described:
    path = directory / "config.json"
    _check_format(path, config)
    if unknown := sorted(set(config) - _KEYS):
        raise RequestError(f"{path}: {configs.unknown_keys(unknown, 'of a translator')}, or use a newer heedful.")
    kind, content = config.get("kind"), config.get("shape")
    if not isinstance(kind, str) or kind not in KINDS.values():
        raise RequestError(f"{path}: kind = {configs.shown(kind)} is not one of {', '.join(KINDS.values())}.")
    if "head" in config and kind != "decoder-only":
        raise RequestError(f'{path}: head is known where kind = "decoder-only" alone; remove it.')
    bert = read_model(directory / BERT_FOLDER, body_only=True, kernels=kernels) if kind == "bert-fused" else None
    model = _build(path, config, kind, content, kernels, bert)
    read = {id(p) for p in bert.transformer.parameters()} if bert is not None else set()
    entries = [Entry(name, (name,)) for name, p in model.named_parameters() if id(p) not in read]
    extra = {key: value for key, value in config.items() if key in _INERT and key not in _NOT_KEPT}
    if (start := extra.get("decoder_start_token_id")) is not None:
        check_start(path, start, vocabularies(model)[1])
    if bert is None:
        return Described(model, entries, extra)
    if bert.tokenizer is None:
        raise RequestError(f"{directory / BERT_FOLDER}: has no tokenizer; put that of its model there.")
    sources = {
        f"bert.{name.removeprefix('body.')}": f"{BERT_FOLDER}/{place}"
        for name, place in bert.sources.items()
        if name.startswith("body.")
    }
    return Described(model, entries, extra, bert.tokenizer, sources)


def _build(
    path: Path, config: Mapping[str, Any], kind: str, content: Any, kernels: Kernels, bert: Checkpoint | None
) -> TranslationModel:
    shape: Seq2SeqShape | RecurrentShape | BertFusedShape | Shape
    if kind == "decoder-only":
        shape, head = read_fields(path, content, Shape, "shape"), config.get("head", "causal")
        if not isinstance(head, str):
            raise RequestError(f"{path}: head = {configs.shown(head)} is not the name of a head.")
        check_name(f"{path}: head", head)
        wrong = body_contradiction(shape, lambda field: f"shape.{field}")
        if not wrong and not shape.causal:
            wrong = "shape.causal = false: a model that writes a target after its source must be causal"
    elif kind == "recurrent":
        shape = read_fields(path, content, RecurrentShape, "shape")
        wrong = contradiction(shape, lambda field: f"shape.{field}")
    elif bert is not None:
        given = {"bert": bert.transformer.shape}
        shape = read_fields(path, content, BertFusedShape, "shape", given)
        wrong = contradiction(shape, lambda field: f"shape.{field}")
    else:
        shape = read_fields(path, content, Seq2SeqShape, "shape")
        wrong = contradiction(shape, lambda field: f"shape.{field}")
    if wrong:
        raise RequestError(f"{path}: {wrong}.")
    with torch.device("meta"), NoInit():
        if isinstance(shape, Shape):
            return DecoderOnly(Transformer(shape, {head: Head("language-model", "every")}, kernels), head)
        if isinstance(shape, RecurrentShape):
            return RecurrentSeq2Seq(shape)
        if isinstance(shape, BertFusedShape):
            assert bert is not None
            return BertFusedSeq2Seq(shape, bert.transformer.body, kernels)
        return Seq2SeqTransformer(shape, kernels)


def _check_format(path: Path, config: Mapping[str, Any]) -> None:
    note = config.get("heedful")
    number = note.get("format") if isinstance(note, dict) else None
    if number != FORMAT:
        raise RequestError(
            f"{path}: heedful.format = {configs.shown(number)} is not {FORMAT}, the format that this heedful reads; "
            "use the heedful that wrote it, or a newer one."
        )


def vocabularies(model: TranslationModel) -> tuple[int, int]:
    """How many tokens the model knows of source and target."""
    if isinstance(model, DecoderOnly):
        return model.shape.vocabulary, model.shape.vocabulary
    if isinstance(model, RecurrentSeq2Seq):
        return model.shape.source_vocabulary, model.shape.target_vocabulary
    shape = model.shape.translator if isinstance(model, BertFusedSeq2Seq) else model.shape
    return shape.source.vocabulary, shape.target.vocabulary


def write_config(checkpoint: TranslatorCheckpoint) -> dict[str, Any]:
    model = checkpoint.model
    content: dict[str, Any] = {
        "model_type": "heedful",
        "architectures": ["HeedfulTranslator"],
        **{k: v for k, v in checkpoint.extra.items() if k in _INERT and k not in _NOT_KEPT},
        "kind": KINDS[type(model)],
        "shape": write_fields(model.shape, ("bert",) if isinstance(model, BertFusedSeq2Seq) else ()),
    }
    if isinstance(model, DecoderOnly):
        content["head"] = model.head
    return {**content, "dtype": "float32", "heedful": {"format": FORMAT, **tokenizer_hashes(checkpoint)}}


def refuse(directory: Path, checkpoint: TranslatorCheckpoint) -> None:
    """What has no place in our layout."""
    model = checkpoint.model
    if isinstance(model, BertFusedSeq2Seq) and checkpoint.bert_tokenizer is None:
        raise RequestError(f"{directory}: a BERT-fused translator cannot be saved without the tokenizer of its BERT.")
    if isinstance(model, DecoderOnly):
        transformer = model.transformer
        if transformer.adapters or list(transformer.head_shapes) != [model.head]:
            raise RequestError(
                f"{directory}: a translator is saved with its language-model head alone; merge the adapters and leave "
                "other heads away, or save it as a model."
            )


def write_bert(into: Path, checkpoint: TranslatorCheckpoint, shared: SharedStore | None) -> None:
    """The other body as a model directory, in its own family's words where there is one."""
    model = checkpoint.model
    if not isinstance(model, BertFusedSeq2Seq):
        return
    with torch.device("meta"), NoInit():
        transformer = Transformer(model.bert.shape)
    transformer.body = model.bert
    family = family_of(model.bert.shape).name
    write_model(into / BERT_FOLDER, Checkpoint(transformer, family, checkpoint.bert_tokenizer), shared)
