"""Where sentences end, by rule. No character is lost: the pieces of a text, one after another, are the text."""

import re

_ABBREVIATIONS = (
    "mr mrs ms dr prof st sr jr rev gen col capt lieut lt sgt hon messrs mme mlle esq vs etc no vol fig ch pp cf viz "
    "i.e e.g a.m p.m jan feb mar apr jun jul aug sept sep oct nov dec"
)
_END = re.compile(
    r"""(?P<stop>[.!?…]+)["'”’»)\]]*(?=\s)   # a mark, perhaps closing quotes, then white space
    |[。！？]+["'”’」』）]*                    # these need no space after them
    |(?=\n)                                  # a line is never continued by the next
    """,
    re.VERBOSE,
)
_NEXT = re.compile(r"""\s+["'“‘«(\[—-]*(.)""", re.DOTALL)
_SHORT = frozenset(_ABBREVIATIONS.split(" "))
_LAST_WORD = re.compile(r"([^\W\d_](?:[\w.]*\w)?)$")


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences; the white space between two belongs to the second. Titles (Mr.), initials (J. R.)
    and a continuation in lower case do not end a sentence."""
    pieces, start = [], 0
    for match in _END.finditer(text):
        end = match.end()
        if end > start and text[start:end].strip() and (match["stop"] is None or _ends(text, match, end)):
            pieces.append(text[start:end])
            start = end
    if text[start:].strip() or not pieces:
        pieces.append(text[start:])
    else:
        pieces[-1] += text[start:]
    return [piece for piece in pieces if piece]


def _ends(text: str, match: re.Match[str], end: int) -> bool:
    following = _NEXT.match(text, end)
    if following is not None and following[1].islower():
        return False
    if match["stop"] != ".":
        return True
    word = _LAST_WORD.search(text, max(0, match.start() - 12), match.start())
    if word is None:
        return True
    initial = len(word[1]) == 1 and word[1].isupper() and word[1] != "I"
    return not initial and word[1].lower() not in _SHORT
