"""Row by row against a Hugging Face tokenizer."""

from collections.abc import Sequence
from typing import Any

from heedful.text import Tokenizer


def differences(
    ours: Tokenizer, peer: Any, rows: Sequence[str | tuple[str, str]], max_length: int | None, offsets: bool = True
) -> list[int]:
    """The indices of the rows whose ids or offsets are not the peer's; with and without offsets asked for."""
    columns = [list(rows)] if isinstance(rows[0], str) else [[a for a, _ in rows], [b for _, b in rows]]
    options: dict[str, Any] = {"truncation": False}
    if max_length is not None:
        options = {"truncation": "longest_first", "max_length": max_length}
    theirs = peer(*columns, return_offsets_mapping=offsets, **options)
    assert len(theirs["input_ids"]) == len(rows)
    fast, slow = ours.encode(rows, max_length), ours.encode(rows, max_length, offsets=True)
    wrong = []
    for i, (a, b) in enumerate(zip(fast, slow, strict=True)):
        same = a.ids == b.ids == theirs["input_ids"][i] and a.segments == b.segments and a.offsets is None
        if offsets:
            same = same and b.offsets == theirs["offset_mapping"][i]
        if "token_type_ids" in theirs:
            same = same and a.segments == theirs["token_type_ids"][i]
        if not same:
            wrong.append(i)
    return wrong
