"""What `sentence-transformers` wants to find in a model directory to open it: the body, and the mean of its states."""

from typing import Any

from heedful.models.shape import main_head
from heedful.models.transformer import Transformer
from heedful.text.tokenizer import Tokenizer

POOLING_FOLDER = "1_Pooling"
SENTENCE_FILES = frozenset(["modules.json", "sentence_bert_config.json"])
_MODULES = "sentence_transformers.models"


def sentence_files(transformer: Transformer, tokenizer: Tokenizer | None) -> dict[str, Any]:
    """The content of each JSON file by its path; none for a model whose head does not read the mean, or reads it
    through adapters, of which that library knows nothing."""
    main = main_head(transformer.head_shapes)
    head = None if main is None else transformer.head_shapes[main]
    if head is None or head.reads != "mean" or head.adapters or tokenizer is None:
        return {}
    shape = transformer.shape
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    return {
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": f"{_MODULES}.Transformer"},
            {"idx": 1, "name": "1", "path": POOLING_FOLDER, "type": f"{_MODULES}.Pooling"},
        ],
        "sentence_bert_config.json": {
            "max_seq_length": min(shape.longest, tokenizer.max_length or shape.longest),
            "do_lower_case": False,
            **_padding(tokenizer),
        },
        f"{POOLING_FOLDER}/config.json": {
            "word_embedding_dimension": shape.width,
            **{f"pooling_mode_{mode}": mode == "mean_tokens" for mode in modes},
        },
    }


def _padding(tokenizer: Tokenizer) -> dict[str, Any]:
    """GPT-2 has no token for padding. Any will do where a mask says what it is, and without one nothing is batched."""
    if "pad" in tokenizer.special or "eos" not in tokenizer.special:
        return {}
    return {"tokenizer_args": {"pad_token": tokenizer.special["eos"]}}
