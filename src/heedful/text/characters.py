"""One token for every character."""

from collections.abc import Iterable, Sequence

import tokenizers
from tokenizers import AddedToken, decoders, models, processors

from heedful.errors import RequestError
from heedful.text.tokenizer import Tokenizer

SPECIAL = ("[PAD]", "[UNK]", "[BOS]", "[EOS]", "[MASK]")
"""For a model of its own: padding, unknown characters, where a text begins and ends, what is hidden of it."""
_ROLE = {
    "[PAD]": ("pad",),
    "[UNK]": ("unk",),
    "[CLS]": ("cls",),
    "[SEP]": ("sep",),
    "[MASK]": ("mask",),
    "[BOS]": ("bos",),
    "[EOS]": ("eos",),
    "<pad>": ("pad",),
    "<unk>": ("unk",),
    "<s>": ("bos", "cls"),
    "</s>": ("eos", "sep"),
    "<mask>": ("mask",),
    "<|endoftext|>": ("bos", "eos"),
}


def character_tokenizer(
    text: str | Iterable[str], special: Sequence[str] = ("[PAD]", "[UNK]"), family: str | None = None
) -> Tokenizer:
    """A vocabulary of `special`, then the characters of `text` (white space and line ends too) by code point.

    Decoding is exact for these characters; others become the unknown token, which `special` must have. A special token
    spelled out in a text is its characters, and nothing is put around a text.
    """
    characters: set[str] = set()
    for part in [text] if isinstance(text, str) else text:
        characters.update(part)
    lone = next((c for c in sorted(characters) if "\ud800" <= c <= "\udfff"), None)
    if lone is not None:
        raise RequestError(
            f"The text for the characters has {lone!r}, half a surrogate pair; read the source with the right encoding."
        )
    roles = {role: token for token in special for role in _ROLE.get(token, ())}
    if "unk" not in roles:
        raise RequestError("The special tokens of a character tokenizer must include [UNK] or <unk>; add one of them.")
    tokens = [*special, *sorted(characters.difference(special))]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    if len(vocabulary) < len(tokens) or any(len(token) < 2 for token in special):
        raise RequestError("The special tokens of a character tokenizer must differ and be longer than one character.")
    # BPE that never merges: what the library has nearest to a model of characters.
    core = tokenizers.Tokenizer(models.BPE(vocabulary, [], unk_token=roles["unk"]))
    core.decoder = decoders.Fuse()
    core.post_processor = processors.TemplateProcessing(single=["$A:0"], pair=["$A:0", "$B:1"], special_tokens=[])
    core.add_special_tokens([AddedToken(token, special=True) for token in special])
    return Tokenizer(core, roles, family=family, split_special=True)
