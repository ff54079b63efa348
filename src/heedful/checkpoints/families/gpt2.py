"""GPT-2 in Hugging Face's words: its matrices are stored transposed, W_Q, W_K and W_V as one."""

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
    entries = [*tensor("embeddings.token.weight", "wte.weight"), *tensor("embeddings.position.weight", "wpe.weight")]
    for i in range(shape.layers):
        ours, theirs = f"blocks.{i}", f"h.{i}"
        entries += [
            *pair(f"{ours}.around_attention.norm", f"{theirs}.ln_1"),
            *pair(f"{ours}.attention.qkv", f"{theirs}.attn.c_attn", transposed=True),
            *pair(f"{ours}.attention.output", f"{theirs}.attn.c_proj", transposed=True),
            *pair(f"{ours}.around_feed_forward.norm", f"{theirs}.ln_2"),
            *pair(f"{ours}.feed_forward.up", f"{theirs}.mlp.c_fc", transposed=True),
            *pair(f"{ours}.feed_forward.down", f"{theirs}.mlp.c_proj", transposed=True),
        ]
    return [*entries, *pair("norm", "ln_f")]


FAMILY = Family(
    name="gpt2",
    prefix="transformer.",
    mark=r"(transformer\.)?h\.\d",
    keys=(
        Key("vocab_size", "vocabulary", 50257),
        Key("n_embd", "width", 768),
        Key("n_layer", "layers", 12),
        Key("n_head", "heads", 12),
        Key("n_inner", "inner", None, optional=True),
        Key("n_positions", "positions", 1024),
        Key("activation_function", "activation", "gelu_new"),
        Key("layer_norm_epsilon", "norm_eps", 1e-5),
        Key("resid_pdrop", "dropout", 0.1, also=("attention_output_dropout",)),
        Key("embd_pdrop", "embedding_dropout", 0.1),
        Key("attn_pdrop", "attention_dropout", 0.1),
        Key("initializer_range", "initializer_range", 0.02),
        Key("pad_token_id", "pad_id", None, optional=True, least=0),
    ),
    only={
        **COMMON_ONLY,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "reorder_and_upcast_attn": False,
    },
    inert=COMMON_INERT
    | {"n_ctx", "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels"}
    | {"summary_first_dropout"},
    body=body,
    adapter_places=("h.{i}.attention_adapters", "h.{i}.output_adapters"),
    heads={
        "linear": HeadDialect(tensor("output.weight", "score.weight"), "last", bias=False),
        "language-model": HeadDialect([], "every"),
    },
    architectures={
        "GPT2Model": (),
        "GPT2LMHeadModel": ("language-model",),
        "GPT2ForSequenceClassification": ("linear",),
    },
    fixed={
        **ENCODER,
        "causal": True,
        "norm": "pre",
        "embedding_norm": False,
        "narrow_residuals": True,
        "segments": 0,
        "head_dropout": 0.0,
    },
    derived=r"h\.\d+\.attn\.(bias|masked_bias)",
    copies={"lm_head.weight": "wte.weight"},
    config_defaults={"bos_token_id": None, "eos_token_id": None},
)
