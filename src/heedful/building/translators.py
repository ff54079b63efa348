"""The model of a translation: what [model] and [tokenizer] say, with random weights; or one that is on disk."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from heedful.building.protocol import BuiltModel, ModelKind, Request
from heedful.checkpoints.directory import read_model
from heedful.checkpoints.finding import find, fingerprint
from heedful.checkpoints.translators import TranslationModel, TranslatorCheckpoint, is_translator, read_translator
from heedful.checkpoints.translators.own import BERT_FOLDER
from heedful.data.parallel import ParallelData
from heedful.data.records import Aligned
from heedful.errors import RequestError
from heedful.models.kinds import ATTENTION_KINDS
from heedful.models.seq2seq.bert_fused import BertFusedSeq2Seq
from heedful.models.seq2seq.decoder_only import DecoderOnly
from heedful.models.seq2seq.recurrent import RecurrentSeq2Seq
from heedful.models.seq2seq.shape import BertFusedShape, RecurrentShape, Seq2SeqShape, contradiction, transformer_shape
from heedful.models.seq2seq.transformer import Seq2SeqTransformer
from heedful.models.shape import Head, Shape
from heedful.models.shape import contradiction as body_contradiction
from heedful.models.transformer import Transformer
from heedful.recipes.schema import ModelTable, Recipe
from heedful.storage.directories import replace_directory
from heedful.storage.shared import SharedStore
from heedful.text.pairs import PairTokenizer, read_pair_tokenizer, train_pair_tokenizer
from heedful.text.tokenizer import Tokenizer

FAMILY = "heedful"
HEAD = "causal"
LAYERS, WIDTH, HEADS, POSITIONS, DROPOUT = 2, 64, 4, 512, 0.1
"""What a model has unless [model] says otherwise: enough for words that are spelled in another way."""
_SIZES = ("layers", "width", "body_dropout")
_OF_BLOCKS = (*_SIZES, "heads", "inner", "positions", "attention", "position_kind", "norm")
_OF_BERT = ("bert", "bert_tuned", "drop_net")
KINDS: Mapping[str, tuple[str, ...]] = {
    "encoder-decoder": (*_OF_BLOCKS, "tied"),
    "recurrent": (*_SIZES, "embedding", "cell", "two_ways", "decoder", "score", "tied"),
    "decoder-only": _OF_BLOCKS,
    "bert-fused": (*_OF_BLOCKS, "tied", *_OF_BERT),
}
"""The keys of [model] that mean something with each."""


class Translators(ModelKind):
    KINDS = KINDS
    TUNINGS = ("full",)

    @staticmethod
    def check(recipe: Recipe) -> None:
        table, tokenizer = recipe.model, recipe.tokenizer
        if table.name is not None and table.kind is not None:
            if table.kind != "bert-fused":
                raise RequestError(
                    f'model.name and model.kind = "{table.kind}" both say what the model is; keep one of them (with '
                    '"bert-fused", name is the translator to begin from).'
                )
            for key in KINDS["bert-fused"]:
                if key not in _OF_BERT and getattr(table, key) is not None:
                    raise RequestError(f"model.{key} goes with random weights; {table.name} has its own sizes.")
        if table.kind == "bert-fused" and table.bert is None:
            raise RequestError('model.kind = "bert-fused" needs model.bert, the model whose states it looks at.')
        if tokenizer is not None and not tokenizer.joint:
            if table.kind == "decoder-only":
                raise RequestError(
                    'model.kind = "decoder-only" reads source and target as one text; leave tokenizer.joint = false '
                    "out."
                )
            if table.tied == "all":
                raise RequestError(
                    'model.tied = "all" needs one vocabulary, and tokenizer.joint = false makes two; change one of '
                    "them."
                )

    @staticmethod
    def build(request: Request) -> BuiltModel:
        recipe, seed = request.recipe, request.seed
        table = recipe.model.model_copy(update={"name": recipe.model.name_for(seed)})
        if table.kind is None:
            return _from_directory(table)
        if table.name is not None:
            return _fused_with_a_translator(table, seed)
        return _new_translator(request, table)


def _from_directory(table: ModelTable) -> BuiltModel:
    assert table.name is not None  # the recipe was refused otherwise
    directory = _directory_of(table.name, table.revision)
    origin = fingerprint(directory)
    beside = directory / BERT_FOLDER  # one for all seeds, though each may begin from another translator
    cache_key = {"bert": fingerprint(beside) if beside.is_dir() else origin}
    return BuiltModel(read_translator(directory), table.name, origin, cache_key)


def _new_translator(request: Request, table: ModelTable) -> BuiltModel:
    recipe, seed, data = request.recipe, request.seed, request.data
    assert isinstance(data, ParallelData)
    assert table.kind is not None
    tokenizers = pair_tokenizer_for(recipe, data.aligned, FAMILY, request.store, request.special_tokens)
    longest = recipe.training.max_length
    model: TranslationModel
    bert_tokenizer: Tokenizer | None = None
    made_from: dict[str, str] = {}
    if table.kind == "recurrent":
        model = RecurrentSeq2Seq(_checked(_recurrent_shape(table, tokenizers)))
    elif table.kind == "decoder-only":
        shape = _decoder_shape(table, tokenizers, longest)
        model = DecoderOnly(Transformer(shape, {HEAD: Head("language-model", "every")}), HEAD)
    elif table.kind == "encoder-decoder":
        model = Seq2SeqTransformer(_checked(_transformer_shape(table, tokenizers, longest)))
    else:
        model, bert_tokenizer, made_from = _fuse(table, _transformer_shape(table, tokenizers, longest))
    model.initialise(torch.Generator().manual_seed(seed))
    sources = dict.fromkeys((name for name, _ in model.named_parameters()), "new")
    checkpoint = TranslatorCheckpoint(model, tokenizers, bert_tokenizer, FAMILY, sources)
    written = {key: value for key in KINDS[table.kind] if (value := getattr(table, key)) is not None}
    sizes = ", ".join(f"{key} {value}" for key, value in written.items())
    title = f"{table.kind} ({sizes})" if sizes else table.kind
    return BuiltModel(checkpoint, title, "", {"bert": made_from}, made_from)


def _directory_of(name: str, revision: str | None) -> Path:
    directory = find(name, revision)
    if not is_translator(directory):
        raise RequestError(f"model.name = {name!r} is no translator; name one, or give model.kind for a new model.")
    return directory


def _fused_with_a_translator(table: ModelTable, seed: int) -> BuiltModel:
    """Begin as the paper does: with a translator that was trained alone, and fresh weights for what is beside it."""
    assert table.name is not None
    directory = _directory_of(table.name, table.revision)
    plain, origin = read_translator(directory), fingerprint(directory)
    if not isinstance(plain.model, Seq2SeqTransformer):
        raise RequestError(
            f'model.name = {table.name!r} is no encoder-decoder, which model.kind = "bert-fused" begins from; name one.'
        )
    model, bert_tokenizer, made_from = _fuse(table, plain.model.shape)
    model.initialise(torch.Generator().manual_seed(seed))
    model.take_over(plain.model)
    sources = {n: "new" if ".beside." in n else table.name for n, _ in model.named_parameters()}
    checkpoint = replace(plain, model=model, bert_tokenizer=bert_tokenizer, family=FAMILY, sources=sources)
    return BuiltModel(checkpoint, f"{table.name} with {table.bert}", origin, {"bert": made_from}, made_from)


def _fuse(table: ModelTable, translator: Seq2SeqShape) -> tuple[BertFusedSeq2Seq, Tokenizer, dict[str, str]]:
    """Return the model with the other body in it, that body's tokenizer, and its fingerprint."""
    assert table.bert is not None  # the recipe was refused otherwise
    directory = find(table.bert)
    if is_translator(directory):
        raise RequestError(f"model.bert = {table.bert!r} is a translator; name an encoder, whose states are looked at.")
    other = read_model(directory, body_only=True)
    if other.tokenizer is None:
        raise RequestError(f"model.bert = {table.bert!r}: has no tokenizer; put that of the model beside its weights.")
    drop_net = 1.0 if table.drop_net is None else table.drop_net
    shape = BertFusedShape(translator, other.transformer.shape, drop_net, frozen=not table.bert_tuned)
    model = BertFusedSeq2Seq(_checked(shape), other.transformer.body)
    if table.bert_tuned and model.bert.pooler is not None:
        model.bert.pooler.requires_grad_(False)  # nobody reads it
    return model, other.tokenizer, {table.bert: fingerprint(directory)}


def _checked(shape: Any) -> Any:
    """Return the shape; refuse what contradicts itself in it in the words of the recipe."""
    wrong = (body_contradiction if isinstance(shape, Shape) else contradiction)(
        shape, lambda field: f"model.{field.rpartition('.')[2]}"
    )
    if wrong:
        raise RequestError(f"{wrong}; change one of them.")
    return shape


def _transformer_shape(table: ModelTable, tokenizers: PairTokenizer, longest: int) -> Seq2SeqShape:
    width = table.width or WIDTH
    shape = transformer_shape(
        tokenizers.source.size,
        tokenizers.target.size,
        layers=table.layers or LAYERS,
        width=width,
        heads=table.heads or HEADS,
        inner=table.inner or 4 * width,
        positions=table.positions or max(POSITIONS, longest),
        dropout=DROPOUT if table.body_dropout is None else table.body_dropout,
        shared=table.tied or ("all" if tokenizers.shared else "output"),
        norm=table.norm or "pre",
    )
    return replace(
        shape,
        source=_wired(replace(shape.source, pad_id=tokenizers.source.pad_id), table),
        target=_wired(replace(shape.target, pad_id=tokenizers.target.pad_id), table),
    )


def _wired(body: Shape, table: ModelTable) -> Shape:
    attention = table.attention or body.attention
    kind = "none" if ATTENTION_KINDS[attention].replaces_positions else body.position_kind
    return replace(body, attention=attention, position_kind=table.position_kind or kind)


def _decoder_shape(table: ModelTable, tokenizers: PairTokenizer, longest: int) -> Shape:
    """Return the decoder of the transformer without anything to look at."""
    if not tokenizers.shared:
        raise RequestError(
            'model.kind = "decoder-only" reads source and target as one text, and this tokenizer has a vocabulary for '
            "each; use another [tokenizer]."
        )
    shape = _transformer_shape(table, tokenizers, longest).target
    positions = table.positions or max(POSITIONS, 2 * longest)
    return _checked(replace(shape, memory_width=None, positions=positions))  # type: ignore[no-any-return]


def _recurrent_shape(table: ModelTable, tokenizers: PairTokenizer) -> RecurrentShape:
    width = table.width or WIDTH
    return RecurrentShape(
        tokenizers.source.size,
        tokenizers.target.size,
        embedding=table.embedding or width,
        width=width,
        layers=table.layers or 1,
        cell=table.cell or "gru",
        two_ways=True if table.two_ways is None else table.two_ways,
        decoder=table.decoder or "bahdanau",
        score=table.score or "additive",
        shared=table.tied or ("all" if tokenizers.shared else "output"),
        dropout=DROPOUT if table.body_dropout is None else table.body_dropout,
        source_pad_id=tokenizers.source.pad_id,
        target_pad_id=tokenizers.target.pad_id,
    )


def longest_text(model: TranslationModel) -> int | None:
    """Return the most tokens on a side that a model reads; None: any number. A text of source and target is shared
    fairly."""
    shape: Any = model.shape
    if isinstance(model, RecurrentSeq2Seq):
        return None
    if isinstance(model, DecoderOnly):
        return int(shape.longest) // 2
    if isinstance(model, BertFusedSeq2Seq):
        shape = shape.translator
    return int(min(shape.source.longest, shape.target.longest))


def pair_tokenizer_for(
    recipe: Recipe, data: Aligned, family: str, store: SharedStore, special: Sequence[str] = ()
) -> PairTokenizer:
    """Return what [tokenizer] says, taken or trained once for all runs: one vocabulary or two, as tokenizer.joint says.
    `special`: tokens that stand for no text, besides those of the family."""
    table = recipe.tokenizer
    assert table is not None  # the recipe was refused otherwise
    if table.name is not None:
        tokenizers = read_pair_tokenizer(find(table.name), family)
        if tokenizers is None:
            raise RequestError(f"tokenizer.name = {table.name!r}: there is no tokenizer in it.")
        return tokenizers
    train = data.splits["train"]
    facts = {"tokenizer": [table.model_dump(mode="json"), family, list(special)], "data": train.fingerprint}
    with store.place(facts) as folder:
        place = folder / "tokenizer"
        if not place.is_dir():

            def write(into: Path) -> None:
                assert table.kind is not None
                options = {"joint": table.joint, "prefix_space": table.prefix_space}
                train_pair_tokenizer(
                    train.sources, train.targets, table.kind, table.size, family, special=special, **options
                ).save(into)

            replace_directory(place, write, frozenset())
        trained = read_pair_tokenizer(place, family)
        assert trained is not None
        return trained
