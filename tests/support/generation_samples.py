"""Tiny language models: bodies of several wirings in double precision, a chain without a body, and directories."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers.pre_tokenizers import ByteLevel
from torch import Tensor

from heedful.models.shape import Head, Shape
from heedful.models.transformer import Transformer
from tests.support import peers

_DECODER = {
    "vocabulary": 23, "width": 16, "layers": 2, "heads": 2, "inner": 24, "positions": 24, "causal": True, "norm": "pre",
    "embedding_norm": False, "norm_eps": 1e-5, "pad_id": None,
}  # fmt: skip
WIRINGS: dict[str, Shape] = {
    "gpt2": Shape(**_DECODER),
    "post-norm, sinusoidal": Shape(**{**_DECODER, "norm": "post", "position_kind": "sinusoidal"}),
    "rotary": Shape(**{**_DECODER, "position_kind": "none", "attention": "rotary"}),
    "counted from padding": Shape(**{**_DECODER, "positions_from": "pad", "pad_id": 1}),
}
PROMPTS = [[5, 9, 2], [7], [3, 3, 8, 1, 20, 11, 4], [5, 9, 2, 6], [22, 0]]


def make_model(wiring: str = "gpt2", seed: int = 0) -> Transformer:
    """Weights wide enough that scores hang on every token and position; in double precision."""
    model = Transformer(WIRINGS[wiring], {"causal": Head("language-model", "every")}).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator, dtype=torch.float64) * 0.4 + (p.ndim == 1) * 0.5)
    return model.eval()


@dataclass(frozen=True)
class Last:
    """The past of a chain: which texts there are, by the tokens that they have so far."""

    read: tuple[tuple[int, ...], ...]

    def reorder(self, index_b: Tensor) -> "Last":
        return Last(tuple(self.read[i] for i in index_b.tolist()))


@dataclass
class Chain:
    """A model whose next token hangs on the last alone: row i of the table are the scores after token i."""

    table_vv: Tensor
    batches: list[int]
    """How many texts were in the batch, call by call."""

    def __call__(self, ids_bn: Tensor, real_bn: Tensor | None, past: Last | None) -> tuple[Tensor, Last]:
        self.batches.append(len(ids_bn))
        new = [
            [i for i, real in zip(row, places, strict=True) if real]
            for row, places in zip(
                ids_bn.tolist(), (torch.ones_like(ids_bn) if real_bn is None else real_bn).tolist(), strict=True
            )
        ]
        before: Sequence[tuple[int, ...]] = [()] * len(ids_bn) if past is None else past.read
        return self.table_vv[ids_bn[:, -1]], Last(tuple((*a, *b) for a, b in zip(before, new, strict=True)))


def byte_vocabulary(beginning: bool = True) -> dict[str, str]:
    """Every byte is a token, so that a random model writes parts of characters; and a few words."""
    merges = ["h e", "Ġ he", "Ġ t", "Ġt he", "m a", "ma n"]
    special = ["<|endoftext|>"] if beginning else []
    tokens = dict.fromkeys([*special, *sorted(ByteLevel.alphabet()), *(m.replace(" ", "") for m in merges)])
    return {
        "vocab.json": json.dumps({t: i for i, t in enumerate(tokens)}, ensure_ascii=False),
        "merges.txt": "#version: 0.2\n" + "".join(f"{m}\n" for m in merges),
    }


def write_language_model(
    directory: Path, seed: int = 0, positions: int = 64, beginning: bool = True, head: str = "LMHeadModel"
) -> Any:
    """A GPT-2 of random weights as `transformers` writes it, and the model itself."""
    directory.mkdir(parents=True, exist_ok=True)
    files = byte_vocabulary(beginning)
    for name, content in files.items():
        (directory / name).write_text(content, encoding="utf-8")
    config = {"vocab_size": len(json.loads(files["vocab.json"])), "n_positions": positions}
    model = peers.make_peer(peers.Case("", "gpt2", head, config), seed)
    model.save_pretrained(directory)
    return model


def peer_tokenizer(directory: Path) -> Any:
    return transformers.GPT2Tokenizer.from_pretrained(directory)
