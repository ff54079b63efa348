"""The model of a translation: what [model] and [tokenizer] say, with random weights; or one that is on disk."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field

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
from heedful.recipes.schema import Attention, ModelTable, Recipe, TokenizerTable
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


Kind = Literal["encoder-decoder", "recurrent", "decoder-only", "bert-fused"]


class TranslatorTable(ModelTable):
    kind: Kind | None = None
    """A model with random weights (by the run's seed); needs [tokenizer]. "encoder-decoder": the
    transformer of "Attention Is All You Need"; "recurrent": recurrent networks with attention to the source;
    "decoder-only": a language model that reads source and target as one text; "bert-fused": an encoder-decoder
    whose layers also attend to the states of another model, `bert`. `layers`, `width`, `heads`, `inner`,
    `positions`, `attention`, `position_kind` and `body_dropout` set its sizes and wiring."""
    layers: int | None = Field(None, ge=1, le=1000)
    """Number of layers. Default: 2, or 1 if it is recurrent."""
    width: int | None = Field(None, ge=1, le=100_000)
    """Width of the states, which the attention heads divide among them. Default: 64."""
    heads: int | None = Field(None, ge=1, le=4096)
    """Number of attention heads per layer. Default: 4."""
    inner: int | None = Field(None, ge=1, le=1_000_000)
    """Width inside the feed-forward networks. Default: 4 × `width`."""
    positions: int | None = Field(None, ge=2, le=1_000_000)
    """Maximum number of tokens in a text, which is the number of learned positions. Default:
    512, or what training.max_length needs."""
    attention: Attention | None = None
    """Kind of self-attention. "dot-product"; "rotary": queries and keys are rotated by their positions; "relative":
    a learned bias for each head and distance is added to the scores; "synthesizer-dense": each token computes its
    weights for all positions from its own state; "synthesizer-random": a learned table of scores for each pair of
    positions. Default: "dot-product"."""
    position_kind: Literal["learned", "sinusoidal", "sinusoidal-halves", "none"] | None = None
    """What is added to the token embeddings: a learned vector for each position; sines and cosines, alternating
    ("sinusoidal") or all sines before all cosines ("sinusoidal-halves", as in Marian); or nothing. Default: "none"
    with attention = "rotary" or "relative", otherwise "sinusoidal"."""
    body_dropout: float | None = Field(None, ge=0, lt=1)
    """Dropout everywhere in the body . Default: 0.1."""
    norm: Literal["post", "pre"] | None = None
    """Normalise the sum after each sublayer ("post", as in the paper) or the sublayer's input
    ("pre", which trains without warm-up). Default: "pre"."""
    tied: Literal["none", "output", "all"] | None = None
    """Which token tables are shared: none; the target's embeddings with the output ("output"); or
    also the source's ("all", which needs one vocabulary). Default: "all" with one vocabulary, otherwise "output"."""
    embedding: int | None = Field(None, ge=1, le=100_000)
    """For model.kind = "recurrent": width of the token embeddings. Default: `width`."""
    cell: Literal["gru", "lstm"] | None = None
    """For model.kind = "recurrent": type of cell. Default: "gru"."""
    two_ways: bool | None = None
    """For model.kind = "recurrent": whether the encoder reads the source in both directions. Default: true."""
    decoder: Literal["bahdanau", "luong"] | None = None
    """For model.kind = "recurrent": whether the decoder attends to the source before each step ("bahdanau"), or
    after it and receives the result at the next step ("luong"). Default: "bahdanau"."""
    score: Literal["additive", "dot", "scaled-dot"] | None = None
    """For model.kind = "recurrent": how a decoder state is compared with source states. Default: "additive"."""
    bert: str | None = None
    """For model.kind = "bert-fused": the other model: directory, hub id, or name from `heedful models`. With
    model.name, training starts from the translator of that name, as in the paper."""
    bert_tuned: bool = False
    """For model.kind = "bert-fused": whether the other model is trained too. If not, its states are computed once."""
    drop_net: float | None = Field(None, ge=0, le=1)
    """For model.kind = "bert-fused": during training, each of the two attentions is dropped with half this
    probability. Default: 1, as in the paper."""

    @property
    def title(self) -> str:
        """The name or the kind, and the model that it is fused with, if any."""
        return str(self.name or self.kind) + (f" with {self.bert}" if self.bert else "")

    @property
    def drawn(self) -> bool:
        return False

    def other_models(self) -> tuple[str, ...]:
        return (self.bert,) if self.bert else ()


class Translators(ModelKind):
    Table = TranslatorTable
    TUNINGS = ("full",)

    @staticmethod
    def check(recipe: Recipe) -> None:
        table, tokenizer = translator_table(recipe), recipe.tokenizer
        _check_keys(table, tokenizer)
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
        table = translator_table(recipe)
        table = table.model_copy(update={"name": table.name_for(seed)})
        if table.kind is None:
            return _from_directory(table)
        if table.name is not None:
            return _fused_with_a_translator(table, seed)
        return _new_translator(request, table)


def translator_table(recipe: Recipe) -> TranslatorTable:
    """Return [model] of a recipe whose model is a translator."""
    assert isinstance(recipe.model, TranslatorTable)
    return recipe.model


def _check_keys(model: TranslatorTable, tokenizer: TokenizerTable | None) -> None:
    """Refuse keys that mean nothing with this kind, or contradict each other."""
    if model.kind is None and model.name is None:
        raise RequestError(f"[model] needs kind ({', '.join(map(repr, KINDS))}), or name, a model to go on from.")
    used = {"name", "revision", *(() if model.kind is None else ("kind", *KINDS[model.kind]))}
    for key, field in TranslatorTable.model_fields.items():
        if key not in used and getattr(model, key) != field.default:
            what = f"model.name = {model.name!r}" if model.kind is None else f'model.kind = "{model.kind}"'
            raise RequestError(f"model.{key} means nothing with {what}; leave it out.")
    if model.name is not None and tokenizer is not None:
        raise RequestError(f"[tokenizer] goes with random weights; {model.name} brings its own.")
    if model.name is None and (tokenizer is None or (tokenizer.name is None) == (tokenizer.kind is None)):
        raise RequestError(f'model.kind = "{model.kind}" needs [tokenizer] with either name or kind.')
    if model.name is None and model.revision is not None:
        raise RequestError("model.revision goes with model.name.")
    if tokenizer is not None and not tokenizer.joint and tokenizer.kind is None:
        raise RequestError("tokenizer.joint goes with tokenizer.kind; a tokenizer that has a name is what it is.")


def _from_directory(table: TranslatorTable) -> BuiltModel:
    assert table.name is not None  # the recipe was refused otherwise
    directory = _directory_of(table.name, table.revision)
    origin = fingerprint(directory)
    beside = directory / BERT_FOLDER  # one for all seeds, though each may begin from another translator
    cache_key = {"bert": fingerprint(beside) if beside.is_dir() else origin}
    return BuiltModel(read_translator(directory), table.name, origin, cache_key)


def _new_translator(request: Request, table: TranslatorTable) -> BuiltModel:
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


def _fused_with_a_translator(table: TranslatorTable, seed: int) -> BuiltModel:
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


def _fuse(table: TranslatorTable, translator: Seq2SeqShape) -> tuple[BertFusedSeq2Seq, Tokenizer, dict[str, str]]:
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


def _transformer_shape(table: TranslatorTable, tokenizers: PairTokenizer, longest: int) -> Seq2SeqShape:
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


def _wired(body: Shape, table: TranslatorTable) -> Shape:
    attention = table.attention or body.attention
    kind = "none" if ATTENTION_KINDS[attention].replaces_positions else body.position_kind
    return replace(body, attention=attention, position_kind=table.position_kind or kind)


def _decoder_shape(table: TranslatorTable, tokenizers: PairTokenizer, longest: int) -> Shape:
    """Return the decoder of the transformer without anything to look at."""
    if not tokenizers.shared:
        raise RequestError(
            'model.kind = "decoder-only" reads source and target as one text, and this tokenizer has a vocabulary for '
            "each; use another [tokenizer]."
        )
    shape = _transformer_shape(table, tokenizers, longest).target
    positions = table.positions or max(POSITIONS, 2 * longest)
    return _checked(replace(shape, memory_width=None, positions=positions))  # type: ignore[no-any-return]


def _recurrent_shape(table: TranslatorTable, tokenizers: PairTokenizer) -> RecurrentShape:
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
