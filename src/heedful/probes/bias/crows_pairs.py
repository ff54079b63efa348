"""CrowS-Pairs: pairs of sentences, one more stereotyping than the other, written by a crowd (Nangia et al., 2020)."""

from pathlib import Path

from heedful.data.files import Row, open_table
from heedful.errors import RequestError
from heedful.probes.bias.pairs import Counterfactual, PairSet

_MORE, _LESS, _DIRECTION, _KIND, _WRITER = "sent_more", "sent_less", "stereo_antistereo", "bias_type", "anon_writer"
_DIRECTIONS = ("stereo", "antistereo")


def read_crows_pairs(path: str | Path) -> PairSet:
    """A file of the columns sent_more, sent_less, stereo_antistereo and bias_type; anything else is refused with its
    line. Where it names the writers (anon_writer), the pairs are a sample of theirs: some wrote a hundred."""
    path = Path(path).expanduser()
    table = open_table(path, named=(_MORE, _LESS, _DIRECTION, _KIND))
    for name in (_MORE, _LESS, _DIRECTION, _KIND):
        if name not in table.columns:
            raise table.missing_column(name)
    factor = "writer" if _WRITER in table.columns else "pair"
    pairs = tuple(_pair(path, row) for row in table.rows(_MORE, _LESS, _KIND))
    if not pairs:
        raise RequestError(f"{path} has no pairs under its column names; give it some.")
    return PairSet(
        "crows-pairs",
        "sentences about groups, written to be less and more stereotyping (CrowS-Pairs)",
        ("the less stereotyping", "the more stereotyping"),
        pairs,
        (factor,),
        ("bias_type", "direction"),
        "CC BY-SA 4.0",
    )


def _pair(path: Path, row: Row) -> Counterfactual:
    place = f"{path}, line {row.line}," if row.line is not None else f"{path}, row {row.number},"
    more, less, direction = row.text, row.pair or "", str(row.raw.get(_DIRECTION, "")).strip()
    for name, text in ((_MORE, more), (_LESS, less), (_KIND, row.label or "")):
        if not text.strip():
            raise RequestError(f"{place} has an empty {name!r}; fill it in, or remove the row.")
    if direction not in _DIRECTIONS:
        raise RequestError(f"{place} has {direction!r} as {_DIRECTION!r}; it is one of {', '.join(_DIRECTIONS)}.")
    levels = {"pair": str(row.number), "bias_type": row.label or "", "direction": direction}
    if _WRITER in row.raw:
        levels["writer"] = str(row.raw[_WRITER]).strip() or f"of pair {row.number}"
    return Counterfactual(less, more, levels)
