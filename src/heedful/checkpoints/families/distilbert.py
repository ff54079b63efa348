"""DistilBERT in Hugging Face's words: no segments, no pooler, relu in the classification head."""

from heedful.checkpoints.dialect import (
    COMMON_INERT,
    COMMON_ONLY,
    ENCODER,
    Entry,
    Family,
    HeadDialect,
    Key,
    pair,
    tensor,
)
from heedful.models.shape import Shape


def body(shape: Shape) -> list[Entry]:
    entries = [
        *tensor("embeddings.token.weight", "embeddings.word_embeddings.weight"),
        *tensor("embeddings.position.weight", "embeddings.position_embeddings.weight"),
        *pair("embeddings.norm", "embeddings.LayerNorm"),
    ]
    for i in range(shape.layers):
        ours, theirs = f"blocks.{i}", f"transformer.layer.{i}"
        entries += [
            *pair(f"{ours}.attention.qkv", *(f"{theirs}.attention.{p}_lin" for p in "qkv")),
            *pair(f"{ours}.attention.output", f"{theirs}.attention.out_lin"),
            *pair(f"{ours}.around_attention.norm", f"{theirs}.sa_layer_norm"),
            *pair(f"{ours}.feed_forward.up", f"{theirs}.ffn.lin1"),
            *pair(f"{ours}.feed_forward.down", f"{theirs}.ffn.lin2"),
            *pair(f"{ours}.around_feed_forward.norm", f"{theirs}.output_layer_norm"),
        ]
    return entries


FAMILY = Family(
    name="distilbert",
    prefix="distilbert.",
    mark=r"(distilbert\.)?transformer\.layer\.",
    keys=(
        Key("vocab_size", "vocabulary", 30522),
        Key("dim", "width", 768),
        Key("n_layers", "layers", 6),
        Key("n_heads", "heads", 12),
        Key("hidden_dim", "inner", 3072),
        Key("max_position_embeddings", "positions", 512),
        Key("activation", "activation", "gelu"),
        Key("dropout", "dropout", 0.1, also=("embedding_dropout",)),
        Key("attention_dropout", "attention_dropout", 0.1),
        Key("seq_classif_dropout", "head_dropout", 0.2),
        Key("initializer_range", "initializer_range", 0.02),
        Key("pad_token_id", "pad_id", 0, optional=True, least=0),
    ),
    only=COMMON_ONLY,
    # Sinusoidal positions are stored as a table like any other, so that the switch only matters to a new model.
    inert=COMMON_INERT | {"qa_dropout", "sinusoidal_pos_embds", "tie_weights_"},
    body=body,
    adapter_places=("transformer.layer.{i}.attention_adapters", "transformer.layer.{i}.output_adapters"),
    heads={
        "linear": HeadDialect(pair("output", "classifier"), "first"),
        "two-layer": HeadDialect(
            [*pair("dense", "pre_classifier"), *pair("output", "classifier")],
            "first",
            activation=lambda shape: "relu",
            input_dropout=False,
        ),
        "masked-word": HeadDialect(
            [
                *pair("dense", "vocab_transform"),
                *pair("norm", "vocab_layer_norm"),
                *tensor("bias", "vocab_projector.bias"),
            ],
            "every",
            activation=lambda shape: shape.activation,
        ),
    },
    architectures={
        "DistilBertModel": (),
        "DistilBertForSequenceClassification": ("two-layer",),
        "DistilBertForMaskedLM": ("masked-word",),
    },
    fixed={**ENCODER, "norm_eps": 1e-12, "segments": 0, "attention_output_dropout": 0.0},
    copies={"vocab_projector.weight": "embeddings.word_embeddings.weight"},
)
