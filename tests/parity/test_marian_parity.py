"""Encoder and decoder against the peer's MarianMTModel, weights copied by hand: states, scores, gradients to 1e-5."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from heedful.models.batch import Batch
from heedful.models.inventory import take_inventory
from heedful.models.seq2seq.protocol import NextTarget, alignment
from heedful.models.seq2seq.shape import Seq2SeqShape
from heedful.models.seq2seq.transformer import Seq2SeqTransformer
from heedful.models.shape import Shape

TOLERANCE = 1e-5
CASES: dict[str, dict[str, Any]] = {
    "joint": {},
    "relu": {"activation_function": "relu", "encoder_layers": 1, "decoder_layers": 3},
    "unscaled": {"scale_embedding": False, "activation_function": "gelu"},
    "apart": {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 47, "decoder_attention_heads": 2,
              "decoder_ffn_dim": 40},
}  # fmt: skip


def make_peer(changes: dict[str, Any]) -> Any:
    config = transformers.MarianConfig(
        **{
            "vocab_size": 61, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
            "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 24,
            "scale_embedding": True, "activation_function": "swish", "pad_token_id": 60, "eos_token_id": 0,
            "decoder_start_token_id": 46, "attn_implementation": "eager",
            **changes,
        }
    )  # fmt: skip
    if not config.share_encoder_decoder_embeddings:
        config.pad_token_id = 46
    torch.manual_seed(3)
    peer = transformers.MarianMTModel(config).eval()
    with torch.no_grad():  # as trained weights are: nothing is zero or one
        for name, p in peer.named_parameters():
            if "embed_positions" not in name:
                p.copy_(torch.randn_like(p) * 0.1 + (1.0 if "norm.weight" in name else 0.0))
        peer.final_logits_bias.normal_(0, 0.5)
    return peer


def shape_of(config: Any) -> Seq2SeqShape:
    common = {
        "width": config.d_model, "positions": config.max_position_embeddings, "embedding_norm": False,
        "embedding_scale": config.scale_embedding, "position_kind": "sinusoidal-halves",
        "activation": config.activation_function, "norm_eps": 1e-5, "pad_id": config.pad_token_id,
    }  # fmt: skip
    joint = config.share_encoder_decoder_embeddings
    source = Shape(
        vocabulary=config.vocab_size, layers=config.encoder_layers, heads=config.encoder_attention_heads,
        inner=config.encoder_ffn_dim, **common,
    )  # fmt: skip
    target = Shape(
        vocabulary=config.decoder_vocab_size, layers=config.decoder_layers, heads=config.decoder_attention_heads,
        inner=config.decoder_ffn_dim, causal=True, memory_width=config.d_model, **common,
    )  # fmt: skip
    return Seq2SeqShape(source, target, shared="all" if joint else "output", output_bias=True)


def theirs(ours: str) -> list[str]:
    """The names of the tensors on top of each other in one of ours."""
    side, name = ours.split(".", 1)
    start = f"model.{side}"
    if name == "embeddings.token.weight":
        return [f"{start}.embed_tokens.weight"]
    _, layer, part = name.split(".", 2)
    part, kind = part.rsplit(".", 1)
    parts = {
        "attention.qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
        "attention.output": ["self_attn.out_proj"],
        "memory_attention.query": ["encoder_attn.q_proj"],
        "memory_attention.keys_values": ["encoder_attn.k_proj", "encoder_attn.v_proj"],
        "memory_attention.output": ["encoder_attn.out_proj"],
        "feed_forward.up": ["fc1"],
        "feed_forward.down": ["fc2"],
        "around_attention.norm": ["self_attn_layer_norm"],
        "around_memory_attention.norm": ["encoder_attn_layer_norm"],
        "around_feed_forward.norm": ["final_layer_norm"],
    }[part]
    return [f"{start}.layers.{layer}.{p}.{kind}" for p in parts]


def copied(peer: nn.Module, shape: Seq2SeqShape) -> Seq2SeqTransformer:
    model, tensors = Seq2SeqTransformer(shape).eval(), peer.state_dict()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name == "output.bias":
                p.copy_(tensors["final_logits_bias"][0])
            else:
                p.copy_(torch.cat([tensors[n] for n in theirs(name)]))
    return model


def inputs(config: Any) -> tuple[Batch, Batch]:
    generator = torch.Generator().manual_seed(5)
    source = torch.randint(1, 40, (3, 9), generator=generator)
    target = torch.randint(1, 40, (3, 7), generator=generator)
    real_source = torch.arange(9) < torch.tensor([9, 4, 6])[:, None]
    real_target = torch.arange(7) < torch.tensor([5, 7, 2])[:, None]
    pad = config.pad_token_id
    return Batch(source.masked_fill(~real_source, pad), real_source), Batch(
        target.masked_fill(~real_target, pad), real_target
    )


def answer(peer: Any, source: Batch, target: Batch) -> Any:
    return peer(
        input_ids=source.ids_bt, attention_mask=source.real_bt.long(), decoder_input_ids=target.ids_bt,
        decoder_attention_mask=target.real_bt.long(), output_attentions=True,
    )  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_scores_and_gradients(case: str) -> None:
    peer = make_peer(CASES[case])
    model, (source, target) = copied(peer, shape_of(peer.config)), inputs(peer.config)
    real = target.real_bt
    expected, found = answer(peer, source, target), model(source, target)
    assert (found[real] - expected.logits[real]).abs().max() <= TOLERANCE
    encoded = model.encode(source).states_bsm[source.real_bt]
    assert (encoded - expected.encoder_last_hidden_state[source.real_bt]).abs().max() <= TOLERANCE
    weights = alignment(model, source, target)
    assert (weights[real] - expected.cross_attentions[-1].mean(1)[real]).abs().max() <= TOLERANCE
    generator = torch.Generator().manual_seed(8)
    labels = torch.randint(0, 40, real.shape, generator=generator)
    for scores in (found, expected.logits):
        nn.functional.cross_entropy(scores[real], labels[real]).backward()
    tensors = dict(peer.named_parameters(remove_duplicate=False))
    compared = set()
    for name, p in model.named_parameters():
        if name == "output.bias":
            continue  # a buffer there
        gradient = torch.cat([tensors[n].grad for n in theirs(name)])
        assert (p.grad - gradient).abs().max() <= TOLERANCE, name
        assert gradient.abs().max() > 1e-5 or "qkv.bias" in name or "keys_values.bias" in name, name
        compared |= {id(tensors[n]) for n in theirs(name)}
    assert compared == {id(p) for n, p in tensors.items() if p.requires_grad}  # nothing is left over


@pytest.mark.parametrize("wrong", ["position_kind", "embedding_scale", "activation", "output bias"])
def test_another_wiring_would_be_noticed(wrong: str) -> None:
    peer = make_peer({})
    shape, (source, target) = shape_of(peer.config), inputs(peer.config)
    other = {"position_kind": "sinusoidal", "embedding_scale": False, "activation": "gelu"}.get(wrong)
    if other is not None:
        shape = replace(shape, source=replace(shape.source, **{wrong: other}))
    model = copied(peer, shape)
    if other is None:
        model.output.bias.data.zero_()
    difference = model(source, target) - answer(peer, source, target).logits
    assert difference[target.real_bt].abs().max() > 1e-3


def test_greedy_is_the_peers() -> None:
    peer = make_peer({})
    model, (source, _) = copied(peer, shape_of(peer.config)), inputs(peer.config)
    with torch.no_grad():
        expected = peer.generate(
            input_ids=source.ids_bt, attention_mask=source.real_bt.long(), num_beams=1, do_sample=False,
            max_new_tokens=8, min_new_tokens=8, bad_words_ids=[[60]], eos_token_id=None, forced_eos_token_id=None,
        )  # fmt: skip
        read, past = NextTarget(model, model.encode(source)), None
        ids = torch.full((3, 1), 46)
        for _ in range(8):
            scores, past = read(ids[:, -1:], None, past)
            ids = torch.cat([ids, scores.index_fill(1, torch.tensor([60]), -torch.inf).argmax(-1, keepdim=True)], dim=1)
    assert torch.equal(ids, expected)


def test_the_count_of_parameters_is_the_peers() -> None:
    """At the size of a published model."""
    config = transformers.MarianConfig(
        vocab_size=58101, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, max_position_embeddings=512,
        scale_embedding=True, activation_function="swish", pad_token_id=58100, decoder_start_token_id=58100,
    )  # fmt: skip
    with torch.device("meta"):
        model, peer = Seq2SeqTransformer(shape_of(config)), transformers.MarianMTModel(config)
    count = sum(p.numel() for n, p in peer.named_parameters() if "embed_positions" not in n)
    inventory = take_inventory(model)
    assert inventory.total == count + 58101  # their bias is a buffer
    d, f = 512, 2048
    attention, rest = 4 * (d * d + d) + 2 * d, 2 * d * f + f + d + 2 * d  # each with its norm
    encoder, decoder = 58101 * d + 6 * (attention + rest), 6 * (2 * attention + rest)
    assert inventory.by_part == {"encoder": encoder, "decoder": decoder, "output": 58101}
