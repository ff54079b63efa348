"""Texts that a model goes on with: prompts as ids, and what follows them as text, piece by piece."""

from collections.abc import Sequence

from heedful.text.tokenizer import Tokenizer

_UNFINISHED = "\ufffd"
"""What the bytes of a character are shown as while some of them are missing."""


def encode_prompts(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Without the special tokens that close a text, as it goes on; those that open one stay. A text without any token
    is the token with which texts begin; if there is none, it has no ids."""
    (sample,) = tokenizer.encode(["a"], offsets=True)
    assert sample.parts is not None
    own = next((i for i, part in enumerate(sample.parts) if part is not None), 0)
    opening = sample.ids[:own]
    beginning = [] if tokenizer.bos_id is None else [tokenizer.bos_id]
    prompts = []
    for tokens in tokenizer.encode(texts, offsets=True):
        assert tokens.parts is not None
        ids = [i for i, part in zip(tokens.ids, tokens.parts, strict=True) if part is not None]
        prompts.append([*opening, *ids] or beginning)
    return prompts


def continuation(tokenizer: Tokenizer, prompt: Sequence[int], ids: Sequence[int]) -> str:
    """What stands after the text of the prompt: a space that belongs to the first token included."""
    before, whole = tokenizer.decode(prompt), tokenizer.decode([*prompt, *ids])
    return whole[len(before) :] if whole.startswith(before) else tokenizer.decode(ids)


class ContinuedText:
    """A continuation while its tokens come, in pieces that hold whole characters. All pieces with the `rest` are what
    `continuation` gives."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int]) -> None:
        self._tokenizer, self._prompt = tokenizer, list(prompt)
        self._ids: list[int] = []
        self._shown = ""

    def add(self, token: int) -> str:
        """The text that is certain now and was not before; often a whole word, sometimes nothing."""
        self._ids.append(token)
        text = continuation(self._tokenizer, self._prompt, self._ids)
        return "" if text.endswith(_UNFINISHED) else self._show(text)

    def rest(self) -> str:
        """When no more tokens come: what was held back."""
        return self._show(continuation(self._tokenizer, self._prompt, self._ids))

    def _show(self, text: str) -> str:
        if not text.startswith(self._shown):
            return ""
        piece = text[len(self._shown) :]
        self._shown = text
        return piece
