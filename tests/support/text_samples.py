"""Small vocabularies in every form, and texts to try them on, made here from nothing."""

import json
from collections.abc import Iterable
from pathlib import Path

from hypothesis import strategies as st
from tokenizers.pre_tokenizers import ByteLevel

WORDS = (
    "the a of gem film is not un ##able ##ing ##s play watch ##ed good bad don t hello world straße müde mude café "
    "Hello World CAFÉ The naïve 12 ##34 你 好 Ω σοφία ##ς שלום مرحبا လူ 🙂 ❤ ##️ é e ́"
)
FRAGMENTS = (
    "the gem of a film",
    " playing, unplayable!",
    "Hello World",
    "don't CAN'T I'LL we've",
    "café cafe\u0301 naïve ÅÄÖ å̧̊",
    "ﬁne ½ ſtraße İstanbul ǅ",
    "你好，世界 東京タワー 안녕",
    "שלום עולם مرحبا \u202eabc\u202c",
    "👩‍👩‍👧‍👦 🏳️‍🌈 ❤️ 👍🏽 🙂",
    "\u0000\u0001\u200b\u200d\ufeff\ufffd\u007f\u0085",
    "\t\n\r\n\x0b\x0c\x1c\x1f \u00a0\u2003\u2028\u3000",
    "[MASK] [SEP]x [CLS][PAD] [UNK]",
    "<mask> </s>x <s><pad> <unk> <|endoftext|>",
    "12 1234 3.14 1,000 ²",
    "@user #tag http://x.y/z?q=1&r=2 th@@ @@ a</w> @@@",
    "the\nfilm\n\nplays\n",
    "",
    " ",
    "a" * 150,
    "linguistically၏လူ",
)

_anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
_pieces = st.lists(st.one_of(st.sampled_from(FRAGMENTS), _anything), max_size=4)
texts = st.builds(lambda joint, parts: joint.join(parts), st.sampled_from(["", " ", "\n"]), _pieces)
pairs = st.tuples(texts, texts)
rows = st.one_of(st.lists(texts, min_size=1, max_size=6), st.lists(pairs, min_size=1, max_size=6))


def write(directory: Path, files: dict[str, str | bytes | dict | list]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if isinstance(content, bytes):
            (directory / name).write_bytes(content)
        else:
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
            (directory / name).write_bytes(text.encode("utf-8"))
    return directory


def wordpiece_vocabulary() -> list[str]:
    tokens = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split()]
    ascii_ = [chr(i) for i in range(33, 127)]
    letters = [c for c in ascii_ if c.isalnum()] + list("éüßåäöσωи")
    return list(dict.fromkeys([*tokens, *ascii_, *letters, *(f"##{c}" for c in letters)]))


def wordpiece_files(**config: object) -> dict[str, str | dict]:
    return {"vocab.txt": "\n".join(wordpiece_vocabulary()) + "\n", "tokenizer_config.json": config}


def chain(symbols: Iterable[list[str]]) -> list[tuple[str, str]]:
    """Merges that build each word from its symbols, from the left and from the right in turn, so that they compete."""
    merges: dict[tuple[str, str], None] = {}
    for i, word in enumerate(symbols):
        made = word[0] if i % 2 else word[-1]
        for symbol in word[1:] if i % 2 else word[-2::-1]:
            pair = (made, symbol) if i % 2 else (symbol, made)
            merges[pair] = None
            made = "".join(pair)
    return list(merges)


def byte_bpe_files(first: list[str], last: list[str], **config: object) -> dict[str, str | dict]:
    splitter = ByteLevel(add_prefix_space=False)
    words = [piece for text in FRAGMENTS[:9] for piece, _ in splitter.pre_tokenize_str(text)]
    merges = chain(list(word) for word in words)
    tokens = [*first, *sorted(ByteLevel.alphabet()), *(a + b for a, b in merges), *last]
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    lines = "".join(f"{a} {b}\n" for a, b in merges)
    return {"vocab.json": vocabulary, "merges.txt": "#version: 0.2\n" + lines, "tokenizer_config.json": config}


def roberta_files(**config: object) -> dict[str, str | dict]:
    mask = {"content": "<mask>", "lstrip": True, "rstrip": False, "single_word": False, "normalized": False}
    files = byte_bpe_files(["<s>", "<pad>", "</s>", "<unk>"], ["<mask>"], **config)
    return {**files, "special_tokens_map.json": {"mask_token": mask}}


def gpt2_files(**config: object) -> dict[str, str | dict]:
    return byte_bpe_files([], ["<|endoftext|>"], **config)


def bertweet_files(words: Iterable[str] | None = None, **config: object) -> dict[str, str | dict]:
    """Every third piece that a merge makes is left out of the vocabulary, so that some texts end in one."""
    if words is None:
        words = [*" ".join(FRAGMENTS[:9]).split(), "@@", "th@@", "@user"]
    merges = chain([*word[:-1], word[-1] + "</w>"] for word in words)
    made = [a + b for i, (a, b) in enumerate(merges) if i % 3]
    made += [c for word in words for c in [*word[:-1], word[-1] + "</w>"] if c != "ﬁ"]
    spelled = [piece.removesuffix("</w>") if piece.endswith("</w>") else piece + "@@" for piece in made]
    entries = [token for token in dict.fromkeys(spelled) if not any(c.isspace() for c in token)]
    return {
        "bpe.codes": "".join(f"{a} {b} {len(merges) - i}\n" for i, (a, b) in enumerate(merges)),
        "vocab.txt": "".join(f"{token} {len(entries) - i}\n" for i, token in enumerate(entries)),
        "tokenizer_config.json": {"tokenizer_class": "BertweetTokenizer", **config},
    }
