"""Small Marian directories as the peer writes them, with SentencePiece models of letters."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers

from tests.support.spm_samples import marian_directory, written

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SOURCES = ["the cat sat", "a dog", "on the mat sat a cat and a dog", "dog dog", "zebra"]
TARGETS = ["kat zat", "een hond", "op de mat zat een kat", "hond", "z"]
PIECES = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), ("▁", -2.0, 1)] + [
    (letter, -3.0 - i / 10, 1) for i, letter in enumerate(LETTERS)
]
MORE = [*PIECES, ("▁the", -4.0, 1), ("at", -4.5, 1)]
"""Of the source: it cuts texts otherwise than the target's."""
JOINT = ["</s>", "<unk>", "▁", *LETTERS, "▁the", "at", "<pad>"]
TARGET_ONLY = ["</s>", "<unk>", "▁", *LETTERS[::-1], "<pad>"]

CASES: dict[str, dict[str, Any]] = {
    "joint": {},
    "relu": {"activation_function": "relu", "encoder_layers": 1, "decoder_layers": 3, "tie_word_embeddings": True},
    "unscaled": {"scale_embedding": False, "activation_function": "gelu", "decoder_ffn_dim": 40},
    "apart": {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": len(TARGET_ONLY),
              "decoder_attention_heads": 2, "decoder_ffn_dim": 40},
    "untied": {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
}  # fmt: skip


def make_peer(seed: int = 3, zero_start: bool = False, end: float = 2.5, **changes: Any) -> Any:
    """`zero_start`: the row of padding, with which targets start, is zeros, as in published models. `end`: the bias of
    the end token; the higher, the more texts end before they must."""
    pad = len(JOINT) - 1
    if changes.get("decoder_vocab_size"):
        pad = len(TARGET_ONLY) - 1
    settings = {
        "vocab_size": len(JOINT), "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 40,
        "scale_embedding": True, "activation_function": "swish", "pad_token_id": pad, "eos_token_id": 0,
        "decoder_start_token_id": pad, "forced_eos_token_id": 0, "attn_implementation": "eager", **changes,
    }  # fmt: skip
    torch.manual_seed(seed)
    peer = transformers.MarianMTModel(transformers.MarianConfig(**settings)).eval()
    with torch.no_grad():  # as trained weights are: nothing is zero or one
        for name, p in peer.named_parameters():
            if "embed_positions" not in name:
                p.copy_(torch.randn_like(p) * 0.15 + (1.0 if "norm.weight" in name else 0.0))
        peer.final_logits_bias.normal_(0, 0.5)
        peer.final_logits_bias[0, 0] = end
        if zero_start:
            peer.model.shared.weight[pad] = 0
    return peer


def save_peer(peer: Any, directory: Path) -> Path:
    """With tokenizers, and settings of generation as published models have them."""
    peer.save_pretrained(directory)
    config, separate = peer.config, peer.config.decoder_vocab_size != peer.config.vocab_size
    vocabulary = {token: i for i, token in enumerate(JOINT)}
    if separate:  # padding has one id on both sides
        vocabulary = {
            token: i
            for i, token in enumerate([*JOINT[: config.pad_token_id], "<pad>", *JOINT[config.pad_token_id : -1]])
        }
        (directory / "target_vocab.json").write_text(json.dumps({t: i for i, t in enumerate(TARGET_ONLY)}))
    options = {"separate_vocabs": True} if separate else {}
    marian_directory(directory, written(MORE), written(PIECES), vocabulary, **options)
    settings = {
        "bad_words_ids": [[config.pad_token_id]], "decoder_start_token_id": config.pad_token_id, "eos_token_id": 0,
        "forced_eos_token_id": 0, "max_length": 24, "num_beams": 4, "pad_token_id": config.pad_token_id,
        "renormalize_logits": True,
    }  # fmt: skip
    (directory / "generation_config.json").write_text(json.dumps(settings))
    return directory
