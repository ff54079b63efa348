"""Tiny models of the peer (`transformers`) to be measured against: random weights, every family, odd sizes."""

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
import transformers


@dataclass(frozen=True)
class Case:
    name: str
    family: str
    head: str
    """"" for the body alone, else what follows the family in the peer's class name."""
    config: dict[str, Any] = field(default_factory=dict)
    padding: str = "right"
    length: int = 9
    segments: bool = False


_SIZES: dict[str, dict[str, Any]] = {
    "bert": {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 61,
        "max_position_embeddings": 16,
    },
    "distilbert": {
        "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "vocab_size": 61, "max_position_embeddings": 16,
    },
    "gpt2": {
        "n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 61, "n_positions": 16, "bos_token_id": 0,
        "eos_token_id": 0, "pad_token_id": 1,
    },
}  # fmt: skip
_SIZES["roberta"] = _SIZES["bert"] | {"max_position_embeddings": 18, "type_vocab_size": 1, "layer_norm_eps": 1e-5}

_SIZES["roformer"] = _SIZES["bert"]

_CLASS = {"bert": "Bert", "roberta": "Roberta", "distilbert": "DistilBert", "gpt2": "GPT2", "roformer": "RoFormer"}

_ODD_HEADS = {
    "bert": {"hidden_size": 35, "num_attention_heads": 5},
    "roberta": {"hidden_size": 21, "num_attention_heads": 3},
    "distilbert": {"dim": 21, "n_heads": 7},
    "gpt2": {"n_embd": 33, "n_head": 3, "n_inner": 50},
    "roformer": {"hidden_size": 30, "num_attention_heads": 5},
}
_ONE_LAYER = {
    "bert": {"num_hidden_layers": 1},
    "roberta": {"num_hidden_layers": 1},
    "distilbert": {"n_layers": 1},
    "gpt2": {"n_layer": 1},
    "roformer": {"num_hidden_layers": 1},
}
_ACTIVATION = {"bert": "hidden_act", "roberta": "hidden_act", "distilbert": "activation", "gpt2": "activation_function",
               "roformer": "hidden_act"}  # fmt: skip


def cases() -> list[Case]:
    made = []
    for family, activations, heads in (
        ("bert", ("relu", "gelu_new", "silu", "tanh"),
         ("", "ForSequenceClassification", "ForMaskedLM", "ForPreTraining", "ForNextSentencePrediction")),
        ("roberta", ("relu", "gelu_new"), ("", "ForSequenceClassification", "ForMaskedLM")),
        ("distilbert", ("relu", "gelu"), ("", "ForSequenceClassification", "ForMaskedLM")),
        ("gpt2", ("relu", "gelu"), ("", "LMHeadModel", "ForSequenceClassification")),
        ("roformer", ("relu", "gelu_new"), ("", "ForSequenceClassification", "ForMaskedLM")),
    ):  # fmt: skip
        segments = family in ("bert", "roformer")
        made += [Case(f"{family}-{head or 'body'}", family, head, segments=segments) for head in heads]
        made += [Case(f"{family}-odd-heads", family, heads[1], _ODD_HEADS[family], segments=segments)]
        made += [Case(f"{family}-one-layer", family, heads[1], _ONE_LAYER[family], padding="left")]
        made += [Case(f"{family}-{a}", family, heads[-1], {_ACTIVATION[family]: a}) for a in activations]
        made += [Case(f"{family}-longest", family, heads[1], length=16, padding="none")]
        made += [Case(f"{family}-left", family, heads[-1], padding="left", segments=segments)]
    # The classifier of RoFormer has the body's activation, and one that is not the default shows it.
    made += [Case("roformer-classify-relu", "roformer", "ForSequenceClassification", {"hidden_act": "relu"})]
    # BERTweet: its own number of positions (128 and the two that RoBERTa does not use), its vocabulary's last id.
    sizes = {"max_position_embeddings": 130, "vocab_size": 6401, "hidden_size": 24, "num_attention_heads": 3}
    return [*made, Case("bertweet", "roberta", "ForMaskedLM", sizes, length=128, padding="right")]


def make_peer(case: Case, seed: int = 0) -> Any:
    """Weights are drawn wide enough (σ = 0.2 here, 0.02 by habit) that attention is far from uniform."""
    config_class = getattr(transformers, f"{_CLASS[case.family]}Config")
    classes = {"num_labels": 3} if case.head == "ForSequenceClassification" else {}
    config = config_class(**{**_SIZES[case.family], "initializer_range": 0.2, **classes, **case.config})
    config._attn_implementation = "eager"
    torch.manual_seed(seed)
    model = getattr(transformers, f"{_CLASS[case.family]}{case.head or 'Model'}")(config)
    with torch.no_grad():  # biases and gains start at 0 and 1, where a mix-up would not show
        for p in model.parameters():
            if p.ndim == 1:
                p.add_(torch.randn_like(p) * 0.1)
    return model.eval()


def make_inputs(case: Case, config: Any, seed: int = 0) -> dict[str, torch.Tensor]:
    """Three texts of different lengths, padded to `case.length` on the side that the case names."""
    g = torch.Generator().manual_seed(seed)
    t = case.length
    lengths = [t, t, t] if case.padding == "none" else [t, t - 4, t - 6]
    ids = torch.randint(4, config.vocab_size, (3, t), generator=g)
    ids[:, t // 2] = config.vocab_size - 1
    mask = torch.zeros(3, t, dtype=torch.long)
    for row, n in enumerate(lengths):
        mask[row, t - n :] = 1
    if case.padding == "right":
        mask = mask.flip(1)
    pad = 0 if config.pad_token_id is None else config.pad_token_id
    inputs = {"input_ids": ids.masked_fill(mask == 0, pad), "attention_mask": mask}
    if case.segments:
        inputs["token_type_ids"] = (torch.arange(t) > t // 2).long().expand(3, t).contiguous()
    return inputs


def make_targets(case: Case, config: Any, inputs: dict[str, torch.Tensor], seed: int = 1) -> dict[str, torch.Tensor]:
    """Labels for each head of the case, by the peer's argument names; words are asked for only where they are real."""
    g = torch.Generator().manual_seed(seed)
    words = torch.randint(0, config.vocab_size, inputs["input_ids"].shape, generator=g)
    words = words.masked_fill(inputs["attention_mask"] == 0, -100)
    after_padding = F.pad(inputs["attention_mask"], (1, 0), value=1)[:, :-1] == 0
    following = words.masked_fill(after_padding, -100)  # nobody can say what a state on padding should predict
    classes = torch.randint(0, 2, (3,), generator=g)
    return {
        "": {},
        "ForSequenceClassification": {"labels": classes},
        "ForMaskedLM": {"labels": words},
        "LMHeadModel": {"labels": following},
        "ForPreTraining": {"labels": words, "next_sentence_label": classes},
        "ForNextSentencePrediction": {"labels": classes},
    }[case.head]
