"""Tiny language models that `transformers` wrote, tokenizers too, and likelihoods computed with them the slow way."""

import json
import string
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers.pre_tokenizers import ByteLevel

from tests.support import peers

WORDS = "the a he she man woman doctor nurse said is was late kind people who are old young fix ##ed ##ing car . ,"
SPECIAL = {
    "bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
    "roberta": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
}
SPECIAL["distilbert"] = SPECIAL["roformer"] = SPECIAL["bert"]
SPECIAL["gpt2"] = ["<|endoftext|>"]
PAIRS = [
    ("The man said the doctor was late.", "The woman said the doctor was late."),
    ("Old people are kind people", "Young, clever people who are old are kind"),
    ("he fixed the car the man said he fixed", "she fixed the car a nurse said she fixed"),
    ("doctor", "nurse"),
]


def vocabulary_files(family: str) -> dict[str, str]:
    if family in ("bert", "distilbert", "roformer"):
        letters = [*string.ascii_lowercase, *(f"##{c}" for c in string.ascii_lowercase)]
        tokens = dict.fromkeys([*SPECIAL[family], *WORDS.split(), *letters])
        return {"vocab.txt": "".join(f"{token}\n" for token in tokens)}
    merges = ["h e", "Ġ he", "Ġ s", "Ġs he", "Ġ t", "Ġt he", "m a", "ma n", "Ġ man", "d o"]
    tokens = dict.fromkeys([*SPECIAL[family], *sorted(ByteLevel.alphabet()), *(m.replace(" ", "") for m in merges)])
    return {
        "vocab.json": json.dumps({t: i for i, t in enumerate(tokens)}, ensure_ascii=False),
        "merges.txt": "#version: 0.2\n" + "".join(f"{m}\n" for m in merges),
    }


def write_peer(family: str, head: str, directory: Path, files: dict[str, str] | None = None) -> tuple[Any, Any]:
    """The model and the tokenizer (of these vocabulary files), both saved by `transformers` in the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in (files or vocabulary_files(family)).items():
        (directory / name).write_text(content, encoding="utf-8")
    # RoFormer's own tokenizer needs a further package; its character models have BERT's.
    name = {"roberta": "Roberta", "distilbert": "DistilBert", "gpt2": "GPT2"}.get(family, "Bert")
    tokenizer = getattr(transformers, f"{name}Tokenizer").from_pretrained(directory)
    length = "n_positions" if family == "gpt2" else "max_position_embeddings"
    model = peers.make_peer(peers.Case("", family, head, {"vocab_size": len(tokenizer), length: 80}))
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return model, tokenizer


@torch.no_grad()
def log_p(model: Any, ids: Sequence[int], masked: Sequence[int], mask_id: int, place: int, answer: int) -> float:
    """One text, one question at a time."""
    given = torch.tensor([ids])
    given[0, list(masked)] = mask_id
    out = model(input_ids=given)
    logits = out.prediction_logits if hasattr(out, "prediction_logits") else out.logits
    return logits[0, place].double().log_softmax(-1)[answer].item()


def slow_token_scores(model: Any, tokenizer: Any, text: str, places: Sequence[int] | None = None) -> list[float]:
    ids = tokenizer(text)["input_ids"]
    chosen = range(1, len(ids) - 1) if places is None else places
    return [log_p(model, ids, [p], tokenizer.mask_token_id, p, ids[p]) for p in chosen]


def slow_change(model: Any, tokenizer: Any, more: str, less: str) -> float:
    """The metric of CrowS-Pairs, from its description: tokens that both have, the first and last (special) left out."""
    a, b = tokenizer(more)["input_ids"], tokenizer(less)["input_ids"]
    shared = align(tuple(a), tuple(b))[1:-1]
    scores = [slow_token_scores(model, tokenizer, t, [s[i] for s in shared]) for i, t in enumerate((more, less))]
    return sum(scores[0]) - sum(scores[1])


def align(a: tuple[int, ...], b: tuple[int, ...]) -> list[tuple[int, int]]:
    """The longest block that both have (the first such in a, then in b), and the same to its left and to its right."""

    @cache
    def run(i: int, j: int) -> int:
        return 1 + run(i + 1, j + 1) if i < len(a) and j < len(b) and a[i] == b[j] else 0

    def inside(a0: int, a1: int, b0: int, b1: int) -> list[tuple[int, int]]:
        size, i, j = max(
            ((min(run(i, j), a1 - i, b1 - j), -i, -j) for i in range(a0, a1) for j in range(b0, b1)), default=(0, 0, 0)
        )
        if size == 0:
            return []
        block = [(-i + n, -j + n) for n in range(size)]
        return [*inside(a0, -i, b0, -j), *block, *inside(-i + size, a1, -j + size, b1)]

    return inside(0, len(a), 0, len(b))
