"""A translator's directory, whole: read with every tensor accounted for, or written."""

import json
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from heedful.checkpoints import config as configs
from heedful.checkpoints.directory import MODEL_FILES, link_tensors, save_tensors
from heedful.checkpoints.named_tensors import Names, load_named
from heedful.checkpoints.tensors import SAFETENSORS, existing, open_tensors
from heedful.checkpoints.translators import marian, own
from heedful.checkpoints.translators.checkpoint import SETTINGS_FILE, TranslationModel, TranslatorCheckpoint
from heedful.checkpoints.translators.fields import check_start
from heedful.checkpoints.translators.hashes import check_tokenizers
from heedful.errors import RequestError
from heedful.models.seq2seq.bert_fused import BertFusedSeq2Seq
from heedful.models.seq2seq.transformer import Seq2SeqTransformer
from heedful.nn.blocks import FUSED, Kernels
from heedful.storage.directories import replace_directory
from heedful.storage.shared import SharedStore
from heedful.text.pairs import PairTokenizer, read_pair_tokenizer

Layout = Literal["marian", "heedful"]
FILES = MODEL_FILES | {"source.spm", "target.spm", "target_vocab.json", SETTINGS_FILE}
FOLDERS = frozenset(["target", own.BERT_FOLDER])


def is_translator(directory: Path) -> bool:
    """Whether a model directory holds a translator; what is wrong with it is not looked at."""
    path = existing(Path(directory), "config.json")
    return path is not None and configs.is_translator(configs.read_json(path))


def read_translator(directory: Path, kernels: Kernels = FUSED) -> TranslatorCheckpoint:
    directory = Path(directory)
    path = existing(directory, "config.json")
    if path is None:
        raise RequestError(f"{directory}: has no config.json, so it is not a model directory.")
    config = configs.read_json(path)
    if not configs.is_translator(config):
        raise RequestError(f"{directory}: is no translator, but a {configs.shown(config.get('model_type'))} model.")
    tensors = open_tensors(directory)
    family = "marian" if config.get("model_type") == "marian" else "heedful"
    if family == "marian":
        described = marian.describe(directory, config, tensors, kernels)
    else:
        described = own.describe(directory, config, kernels)
    model = described.model
    read, _ = load_named(
        directory,
        model,
        Names(described.entries, described.copies, derived=described.derived),
        tensors,
        "the translator that config.json describes",
        "fetch or save it again",
        part=model.translator if isinstance(model, BertFusedSeq2Seq) else model,
    )
    sources = {**described.bert_sources, **read}
    assert set(sources) == {name for name, _ in model.named_parameters()}, "a parameter was not read"
    model.eval()
    tokenizers = _tokenizers(directory, model)
    settings = _read_settings(directory, model)
    checkpoint = TranslatorCheckpoint(
        model,
        tokenizers,
        described.bert_tokenizer,
        family,
        sources,
        described.extra,
        settings,
        str(directory),
    )
    check_tokenizers(directory, config, checkpoint)
    return checkpoint


def _read_settings(directory: Path, model: TranslationModel) -> dict[str, Any]:
    """How the model is meant to be decoded; the token that a target starts with is checked at once, the rest where it
    is used."""
    path = existing(directory, SETTINGS_FILE)
    settings = {} if path is None else configs.read_json(path)
    if path is not None and (start := settings.get("decoder_start_token_id")) is not None:
        check_start(path, start, own.vocabularies(model)[1])
    return settings


def _tokenizers(directory: Path, model: TranslationModel) -> PairTokenizer:
    for name in FILES:
        existing(directory, name)  # refuses links that lead out before anything is read through them
    tokenizers = read_pair_tokenizer(directory, "heedful")
    if tokenizers is None:
        raise RequestError(
            f"{directory}: has no tokenizer; put tokenizer.json, or source.spm, target.spm and vocab.json, beside its "
            "weights."
        )
    for side, size, tokenizer in zip(
        ("source", "target"), own.vocabularies(model), (tokenizers.source, tokenizers.target), strict=True
    ):
        if tokenizer.size != size:
            raise RequestError(
                f"{directory}: the tokenizer of the {side} has {tokenizer.size} entries but the embedding has {size}; "
                "they do not belong together."
            )
    return tokenizers


def write_translator(
    directory: Path,
    checkpoint: TranslatorCheckpoint,
    shared: SharedStore | None = None,
    layout: Layout | None = None,
    moved: bool = False,
) -> None:
    """Into a directory that appears, or takes the place of an older model there, in one step. With a store to share,
    another body that does not move is one file with that of every other translator that was written with it; so is the
    translator itself, unless it has `moved`.

    `layout`: default is Marian's, which others read, where it can say the model and its tokenizers, else our own.
    """
    why_not = marian.why_not(checkpoint)
    if layout == "marian" and why_not:
        raise RequestError(f"{directory}: cannot be written in Marian's layout: {why_not}; save it in heedful's own.")
    own.refuse(directory, checkpoint)
    tensors = own_tensors(checkpoint.model)
    if (layout or ("heedful" if why_not else "marian")) == "marian":
        assert isinstance(checkpoint.model, Seq2SeqTransformer)
        content, tensors = marian.write_config(checkpoint), marian.stored_tensors(checkpoint.model, tensors)
    else:
        content = own.write_config(checkpoint)

    def write(into: Path) -> None:
        _write_json(into / "config.json", content)
        if checkpoint.generation:
            _write_json(into / SETTINGS_FILE, checkpoint.generation)
        if shared is None or moved:
            save_tensors(tensors, into / SAFETENSORS)
        else:
            link_tensors(tensors, into / SAFETENSORS, shared)
        checkpoint.tokenizers.save(into)
        frozen = isinstance(checkpoint.model, BertFusedSeq2Seq) and checkpoint.model.shape.frozen
        own.write_bert(into, checkpoint, shared if frozen or not moved else None)

    replace_directory(Path(directory), write, FILES, FOLDERS)


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def own_tensors(model: TranslationModel) -> dict[str, Tensor]:
    """By their names in our layout: a table that is shared stands there once, another body is elsewhere."""
    other = {id(p) for p in model.bert.parameters()} if isinstance(model, BertFusedSeq2Seq) else set()
    return {n: p.detach().cpu().contiguous() for n, p in model.named_parameters() if id(p) not in other}
