"""From what the user calls a set of pairs to the set: a name, or a file of templates, of pairs or of texts to swap."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from heedful.data.files import FORMATS
from heedful.errors import RequestError
from heedful.probes.bias.files import read_pairs, swap_texts
from heedful.probes.bias.pairs import PairSet
from heedful.probes.bias.public import SETS, find_set
from heedful.probes.bias.stereoset import read_stereoset, stereoset_pairs


@dataclass(frozen=True)
class Reading:
    """How the user's own files are read."""

    columns: tuple[str, ...] = ()
    """Of a file of pairs: the columns with the texts, unless they are called a and b (a, a_pair, b, b_pair)."""
    factors: tuple[str, ...] = ()
    """Of a file of pairs: the columns that say what the pairs are a sample of."""
    parts: tuple[str, ...] = ()
    """Of a file of pairs: further columns by which results are broken down."""
    groups: tuple[str, ...] = ()
    """Of a file of pairs: of whom a and b speak."""
    swap: bool = False
    """The file holds texts, whose counterfactuals the swap rules make."""
    text: str | None = None
    pair: str | None = None
    """Of a file of texts: its columns."""
    header: bool | None = None

    def said(self) -> dict[str, Any]:
        """What differs from the defaults."""
        return {key: value for key, value in asdict(self).items() if value not in ((), None, False)}


def find_pairs(name: str, of_pairs: bool, reading: Reading, with_following: bool = False) -> PairSet:
    """`with_following`: whether the models can say what may follow a text, which some items of StereoSet ask."""
    if Path(name).suffix.lower() == ".json":
        _refuse(reading, tuple(reading.said()), name)
        if of_pairs:
            raise RequestError(f"{name} has single texts, and the model reads pairs of texts; choose another set.")
        return stereoset_pairs(Path(name).name, read_stereoset(name), with_following)
    if not _is_file(name):
        _refuse(reading, tuple(reading.said()), name)
        return find_set(name, of_pairs)
    if reading.swap:
        _refuse(reading, ("columns", "factors", "parts", "groups"), f"{name}, whose texts are swapped")
        return swap_texts(name, of_pairs, text=reading.text, pair=reading.pair, header=reading.header)
    _refuse(reading, ("text", "pair"), f"{name}, which holds pairs, unless --swap is given")
    if len(reading.groups) not in (0, 2):
        raise RequestError(f"--groups names {len(reading.groups)} groups; name two, as in --groups men,women.")
    groups = (reading.groups[0], reading.groups[1]) if reading.groups else None
    return read_pairs(
        name,
        of_pairs,
        columns=reading.columns or None,
        factors=reading.factors,
        parts=reading.parts,
        groups=groups,
        header=reading.header,
    )


def _is_file(name: str) -> bool:
    path = Path(name)
    if name in SETS or path.suffix.lower() == ".toml":
        return False
    return path.is_file() or any(suffix.lower() in FORMATS for suffix in path.suffixes)


def _refuse(reading: Reading, options: Sequence[str], place: str) -> None:
    for option in options:
        if option in reading.said():
            raise RequestError(f"--{option.replace('parts', 'by')} is not for {place}; leave it out.")
