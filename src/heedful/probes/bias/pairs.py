"""Counterfactual pairs: two texts (or two pairs of texts) that differ in the group they speak of alone."""

from collections.abc import Mapping
from dataclasses import dataclass

from heedful.text.tokenizer import Text


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The same text about either group. What a probe measures is the answer to `b` minus the answer to `a`."""

    a: Text
    b: Text
    levels: Mapping[str, str]
    """What it was made of, by the names in `PairSet.factors` and `PairSet.parts`: its template, profession, …"""


@dataclass(frozen=True)
class PairSet:
    name: str
    what: str
    """A phrase that a report can print after the name."""
    groups: tuple[str, str]
    """Of whom `a` and `b` speak: ("men", "women")."""
    rows: tuple[Counterfactual, ...]
    factors: tuple[str, ...]
    """What the pairs are a sample of, so that others could have been drawn: ("template", "profession", "term"). Rows
    that share a level of a factor are not independent. A set of single pairs has the one factor "pair"."""
    parts: tuple[str, ...] = ()
    """By what else results are broken down: kinds that nobody drew, such as "kind" (names, pronouns, kinship)."""
    licence: str = ""
    controls: tuple[Counterfactual, ...] = ()
    """Pairs of one group each, which the rows are to be held against: the same text with another name of that group.
    Their levels are those of the rows, and "group"."""
    notes: tuple[str, ...] = ()
    """What was left out or counted on the way, a sentence each."""

    @property
    def of_pairs(self) -> bool:
        """Whether each text is a pair of texts (premise and hypothesis, say)."""
        return not isinstance(self.rows[0].a, str)
