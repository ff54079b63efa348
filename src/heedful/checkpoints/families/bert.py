"""BERT in Hugging Face's words, and what RoBERTa and RoFormer share with it."""

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


def bert_body(shape: Shape) -> list[Entry]:
    entries = [
        *tensor("embeddings.token.weight", "embeddings.word_embeddings.weight"),
        *tensor("embeddings.position.weight", "embeddings.position_embeddings.weight"),
        *tensor("embeddings.segment.weight", "embeddings.token_type_embeddings.weight"),
        *pair("embeddings.norm", "embeddings.LayerNorm"),
    ]
    for i in range(shape.layers):
        ours, theirs = f"blocks.{i}", f"encoder.layer.{i}"
        projections = [f"{theirs}.attention.self.{p}" for p in ("query", "key", "value")]
        entries += [
            *pair(f"{ours}.attention.qkv", *projections),
            *pair(f"{ours}.attention.output", f"{theirs}.attention.output.dense"),
            *pair(f"{ours}.around_attention.norm", f"{theirs}.attention.output.LayerNorm"),
            *pair(f"{ours}.feed_forward.up", f"{theirs}.intermediate.dense"),
            *pair(f"{ours}.feed_forward.down", f"{theirs}.output.dense"),
            *pair(f"{ours}.around_feed_forward.norm", f"{theirs}.output.LayerNorm"),
        ]
    return entries


BERT_KEYS = (
    Key("vocab_size", "vocabulary", 30522),
    Key("hidden_size", "width", 768),
    Key("num_hidden_layers", "layers", 12),
    Key("num_attention_heads", "heads", 12),
    Key("intermediate_size", "inner", 3072),
    Key("max_position_embeddings", "positions", 512),
    Key("type_vocab_size", "segments", 2),
    Key("hidden_act", "activation", "gelu"),
    Key("layer_norm_eps", "norm_eps", 1e-12),
    Key("hidden_dropout_prob", "dropout", 0.1, also=("embedding_dropout", "attention_output_dropout")),
    Key("attention_probs_dropout_prob", "attention_dropout", 0.1),
    Key("classifier_dropout", "head_dropout", None, optional=True),
    Key("initializer_range", "initializer_range", 0.02),
)
BERT_ONLY = {**COMMON_ONLY, "position_embedding_type": "absolute"}
LINEAR = pair("output", "classifier")
TWO_LAYER = [*pair("dense", "classifier.dense"), *pair("output", "classifier.out_proj")]
MASKED_WORD = [
    *pair("dense", "cls.predictions.transform.dense"),
    *pair("norm", "cls.predictions.transform.LayerNorm"),
    *tensor("bias", "cls.predictions.bias"),
]
MASKED_WORD_COPIES = {
    "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}

FAMILY = Family(
    name="bert",
    prefix="bert.",
    mark=r"bert\.",
    keys=(*BERT_KEYS, Key("pad_token_id", "pad_id", 0, optional=True, least=0)),
    only=BERT_ONLY,
    inert=COMMON_INERT
    | {"directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head"}
    | {"pooler_type"},
    body=bert_body,
    adapter_places=("encoder.layer.{i}.attention.output", "encoder.layer.{i}.output"),
    pooler="pooler.dense",
    heads={
        "linear": HeadDialect(LINEAR, "pooled"),
        "two-layer": HeadDialect(TWO_LAYER, "pooled"),
        "masked-word": HeadDialect(MASKED_WORD, "every", activation=lambda shape: shape.activation),
        "next-sentence": HeadDialect(pair("output", "cls.seq_relationship"), "pooled"),
    },
    architectures={
        "BertModel": (),
        "BertForSequenceClassification": ("linear",),
        "BertForMaskedLM": ("masked-word",),
        "BertForPreTraining": ("masked-word", "next-sentence"),
        "BertForNextSentencePrediction": ("next-sentence",),
    },
    fixed=ENCODER,
    derived=r"embeddings\.position_ids",
    copies=MASKED_WORD_COPIES,
)
