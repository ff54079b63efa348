"""What `heedful inspect` prints about a translator."""

import dataclasses
import textwrap
from typing import TYPE_CHECKING, Any

from heedful.cli.show import size

if TYPE_CHECKING:
    from heedful.checkpoints.translators import TranslatorCheckpoint
    from heedful.text.tokenizer import Tokenizer


def describe_translator(checkpoint: "TranslatorCheckpoint", source: str) -> dict[str, Any]:
    """Return everything that is known, as plain data."""
    from heedful.checkpoints.translators.marian import why_not, why_not_ctranslate2
    from heedful.checkpoints.translators.own import KINDS
    from heedful.inference.translation.settings import longest_sides
    from heedful.models.inventory import take_inventory

    inventory, tokenizers = take_inventory(checkpoint.model), checkpoint.tokenizers
    longest = longest_sides(checkpoint)
    return {
        "source": source,
        "family": checkpoint.family,
        "kind": KINDS[type(checkpoint.model)],
        "shape": dataclasses.asdict(checkpoint.model.shape),
        "max_length": {"source": longest[0], "target": longest[1]},
        "tokenizers": {
            "source": _tokenizer(tokenizers.source),
            "target": _tokenizer(tokenizers.target),
            "bert": checkpoint.bert_tokenizer and _tokenizer(checkpoint.bert_tokenizer),
            "shared": tokenizers.shared,
        },
        "settings": checkpoint.generation,
        "marian": {"why_not": why_not(checkpoint)},
        "ctranslate2": {"why_not": why_not_ctranslate2(checkpoint)},
        "parameters": {"total": inventory.total, "trainable": inventory.trainable, "parts": inventory.by_part},
        "memory": {"weight_bytes": inventory.weight_bytes, "training_bytes": inventory.training_bytes},
        "tensors": [
            {**dataclasses.asdict(part), "shape": list(part.shape), "source": checkpoint.sources[part.name]}
            for part in inventory.parts
        ],
    }


def _tokenizer(tokenizer: "Tokenizer") -> dict[str, Any]:
    return {"kind": tokenizer.kind, "size": tokenizer.size, "max_length": tokenizer.max_length}


def title(facts: dict[str, Any]) -> str:
    words = {"transformer": "encoder and decoder", "recurrent": "recurrent networks with attention",
             "bert-fused": "encoder and decoder fused with a BERT", "decoder-only": "decoder only"}  # fmt: skip
    return f"{facts['source']}: translator ({facts['family']}), {words[facts['kind']]}"


def lines_below(facts: dict[str, Any]) -> list[str]:
    """Return the lines below the table of parts, at most 80 characters long."""
    count, memory, tokenizers = facts["parameters"], facts["memory"], facts["tokenizers"]
    made = [f"parameters  {count['total']:,} in total, {count['trainable']:,} trainable"]
    parts = ", ".join(f"{name} {number:,}" for name, number in count["parts"].items())
    made += _wrapped("", parts)
    made.append(
        f"memory      {size(memory['weight_bytes'])} of weights; {size(memory['training_bytes'])} to train with AdamW"
    )
    sides = [("both sides", "source")] if tokenizers["shared"] else [("source", "source"), ("target", "target")]
    sides += [("BERT", "bert")] if tokenizers["bert"] else []
    said = "; ".join(f"{name}: {tokenizers[key]['kind']}, {tokenizers[key]['size']:,} entries" for name, key in sides)
    made += _wrapped("tokenizers", said)
    made += _wrapped("reads", f"at most {facts['max_length']['source']:,} source tokens")
    reason = facts["ctranslate2"]["why_not"]
    made += _wrapped("CTranslate2", f"no: {reason}" if reason else "can convert it")
    return made


def _wrapped(name: str, text: str) -> list[str]:
    return textwrap.wrap(text, 80, initial_indent=f"{name:<12}", subsequent_indent=" " * 12)
