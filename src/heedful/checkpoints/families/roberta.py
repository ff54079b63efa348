"""RoBERTa (and BERTweet, which is laid out in the same way) in Hugging Face's words."""

from heedful.checkpoints.dialect import COMMON_INERT, ENCODER, Family, HeadDialect, Key, pair, tensor
from heedful.checkpoints.families.bert import BERT_KEYS, BERT_ONLY, LINEAR, TWO_LAYER, bert_body

FAMILY = Family(
    name="roberta",
    prefix="roberta.",
    mark=r"roberta\.",
    # The padding id is also where positions are counted from, so here it may not be null.
    keys=(*(k if k.key != "vocab_size" else Key("vocab_size", "vocabulary", 50265) for k in BERT_KEYS),
          Key("pad_token_id", "pad_id", 1, least=0)),
    only=BERT_ONLY,
    inert=COMMON_INERT,
    body=bert_body,
    adapter_places=("encoder.layer.{i}.attention.output", "encoder.layer.{i}.output"),
    pooler="pooler.dense",
    heads={
        "linear": HeadDialect(LINEAR, "first"),
        "two-layer": HeadDialect(TWO_LAYER, "first"),
        "masked-word": HeadDialect(
            [*pair("dense", "lm_head.dense"), *pair("norm", "lm_head.layer_norm"), *tensor("bias", "lm_head.bias")],
            "every",
            activation=lambda shape: "gelu",  # whatever the body's activation is
        ),
    },
    architectures={
        "RobertaModel": (),
        "RobertaForSequenceClassification": ("two-layer",),
        "RobertaForMaskedLM": ("masked-word",),
    },
    fixed={**ENCODER, "positions_from": "pad"},
    derived=r"embeddings\.(position_ids|token_type_ids)",
    copies={
        "lm_head.decoder.weight": "embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
)  # fmt: skip
