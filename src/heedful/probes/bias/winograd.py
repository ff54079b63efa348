"""WinoBias and Winogender: sentences with two people and a pronoun, of which the same is there for either gender.

As single sentences, and as pairs for entailment: the hypothesis is the sentence, or its last clause where that stands
by itself, with a person in place of the pronoun.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from heedful.data.disk import read_lines
from heedful.errors import RequestError
from heedful.probes.bias.pairs import Counterfactual, PairSet
from heedful.probes.bias.places import cell, public_files, public_rows

_OF_MEN = {"he": "she", "him": "her", "his": "her", "himself": "herself"}
_OF_WOMEN = {("she", "he"): "he", ("her", "him"): "him", ("her", "his"): "his", ("herself", "himself"): "himself"}
_BRACKETS = re.compile(r"\[([^\]]*)\]")
_NUMBER = re.compile(r"(\d+)\s+")
_CLAUSE = re.compile(r"\b(?:because|since|as|after|but|although)\s+$")
_PARTS = [(kind, split) for kind in ("type1", "type2") for split in ("dev", "test")]
_WINOBIAS = [f"{side}_stereotyped_{kind}.txt.{split}" for kind, split in _PARTS for side in ("anti", "pro")]


@dataclass(frozen=True)
class Schema:
    """One sentence in two versions that differ in pronouns alone."""

    texts: tuple[str, str]
    pronouns: tuple[str, str]
    """The first that differs, in either version, in small letters."""
    case: str
    """Which it is among those of men, which have more forms: "he", "him", "his" or "himself"."""
    start: int
    """Where it stands: at the same place in both."""


@dataclass(frozen=True)
class WinoBiasLine:
    """A line of either file, as it is but for its number, brackets and the blank before 's."""

    id: str
    anti: str
    pro: str
    marked: tuple[tuple[str, ...], tuple[str, ...]]
    """What stands in brackets in either."""

    @property
    def occupation(self) -> str:
        person = next(words for words in self.marked[0] if words.lower() not in (*_OF_MEN, *_OF_MEN.values()))
        return re.sub(r"^(?:the|an?)\s+", "", person.strip(), flags=re.IGNORECASE)

    @property
    def pronouns(self) -> tuple[str, str]:
        """The first that is marked, in either."""
        a, b = (next(w.lower() for w in words if w.lower() in (*_OF_MEN, *_OF_MEN.values())) for words in self.marked)
        return a, b


def winobias_lines() -> list[WinoBiasLine]:
    paths = public_files("winobias", _WINOBIAS)
    lines = []
    for part, anti, pro in zip(_PARTS, paths[::2], paths[1::2], strict=True):
        sides = [[(n, line) for n, line in read_lines(path) if line.strip()] for path in (anti, pro)]
        if len(sides[0]) != len(sides[1]) or not sides[0]:
            raise RequestError(f"{anti} and {pro} have {len(sides[0])} and {len(sides[1])} lines; fetch them again.")
        for (number, one), (_, other) in zip(*sides, strict=True):
            marked = tuple(_BRACKETS.findall(one)), tuple(_BRACKETS.findall(other))
            line = WinoBiasLine(f"{' '.join(part)} {number}", _plain(one), _plain(other), marked)
            try:
                _ = (line.occupation, line.pronouns)
            except StopIteration:
                raise RequestError(
                    f"{anti} or {pro}, line {number}: no person and pronoun in brackets; fetch it again."
                ) from None
            lines.append(line)
    return lines


def _plain(line: str) -> str:
    text = _BRACKETS.sub(r"\1", _NUMBER.sub("", line.strip(), count=1))
    text = re.sub(r"\s+", " ", text).replace(" 's ", "'s ")
    return re.sub(r"\bthe the\b", "the", text, flags=re.IGNORECASE)


def winobias(of_pairs: bool) -> PairSet:
    """a = the anti-stereotyped sentence, b = the pro-stereotyped one."""
    lines = winobias_lines()
    known = sorted({line.occupation.lower() for line in lines})
    rows, dropped = [], []
    for line in lines:
        people = tuple(name for name in known if re.search(rf"\b{re.escape(name)}\b", line.anti, re.IGNORECASE))
        schema = compare((line.anti, line.pro))
        if schema is None:
            dropped.append(line.id)
            continue
        levels = {
            "scene": " and ".join(people),
            "occupation": line.occupation.lower(),
            "type": line.id.partition(" ")[0],
            "pronoun": schema.case,
            "stereotype": "male" if schema.pronouns[1] in _OF_MEN else "female",
        }
        if of_pairs:
            rows.append(_entailment(schema, line.occupation, levels))
        else:
            rows.append(Counterfactual(*schema.texts, levels))
    return PairSet(
        "winobias",
        "sentences with two occupations, whose pronoun goes against or with the stereotype",
        ("anti-stereotyped", "pro-stereotyped"),
        tuple(rows),
        ("scene", "occupation"),
        ("type", "pronoun", "stereotype", *(["hypothesis"] if of_pairs else [])),
        "MIT",
        notes=_left_out(dropped, len(lines)),
    )


def _left_out(dropped: Sequence[str], total: int) -> tuple[str, ...]:
    if not dropped:
        return ()
    return (f"{len(dropped)} of {total} pairs differ in more than pronouns and are skipped: {', '.join(dropped)}.",)


@dataclass(frozen=True)
class WinogenderRow:
    occupation: str
    participant: str
    answer: str
    """Of whom the pronoun speaks: "occupation" or "participant"."""
    male: str
    female: str
    neutral: str

    @property
    def pronouns(self) -> tuple[str, str]:
        schema = compare((self.male, self.female))
        return ("", "") if schema is None else schema.pronouns


def winogender_rows() -> list[WinogenderRow]:
    path, found = public_rows("winogender", "all_sentences.tsv", "sentence")
    versions: dict[tuple[str, ...], dict[str, str]] = {}
    for row in found:
        parts = cell(path, row, "sentid").split(".")
        if len(parts) != 5 or parts[2] not in ("0", "1") or parts[3] not in ("male", "female", "neutral"):
            raise RequestError(
                f"{path}, line {row.line}: sentid is not like nurse.patient.0.male.txt; fetch the file again."
            )
        versions.setdefault(tuple(parts[:3]), {})[parts[3]] = row.text
    rows = []
    for (occupation, participant, answer), texts in versions.items():
        if len(texts) != 3:
            raise RequestError(f"{path}: {occupation}.{participant}.{answer} lacks a version; fetch the file again.")
        rows.append(WinogenderRow(occupation, participant, ("occupation", "participant")[int(answer)], **texts))
    return rows


def winogender(of_pairs: bool) -> PairSet:
    """a = he, b = she. As pairs, each sentence with either person in place of the pronoun: the right and the wrong."""
    return _winogender(of_pairs, "winogender", "sentences with an occupation and another person", ("men", "women"))


def winogender_neutral(of_pairs: bool) -> PairSet:
    """a = they, b = he and, in another row, she."""
    return _winogender(of_pairs, "winogender-neutral", "the sentences of Winogender, from they", ("they", "he or she"))


def _winogender(of_pairs: bool, name: str, what: str, groups: tuple[str, str]) -> PairSet:
    rows: list[Counterfactual] = []
    dropped = []
    sentences = winogender_rows()
    neutral = groups[0] == "they"
    for row in sentences:
        schema = compare((row.male, row.female))
        if schema is None:
            dropped.append(f"{row.occupation}.{row.participant}.{row.answer}")
            continue
        levels = {
            "occupation": row.occupation,
            "speaks of": row.answer,
            "participant": "someone" if row.participant == "someone" else "named",
            "pronoun": schema.case,
        }
        made = [Counterfactual(*schema.texts, levels)]
        if of_pairs:
            made = list(_both_candidates(schema, row, levels))
        for pair in made:
            rows += _from_neutral(pair, row) if neutral else [pair]
    parts = ("speaks of", *(["right", "hypothesis"] if of_pairs else ["participant"]), "pronoun")
    parts += ("to",) if neutral else ()
    return PairSet(
        name, what, groups, tuple(rows), ("occupation",), parts, "MIT", notes=_left_out(dropped, len(sentences))
    )


def _both_candidates(schema: Schema, row: WinogenderRow, levels: dict[str, str]) -> Iterator[Counterfactual]:
    """`someone` has no name to put in the place of the pronoun, and so is passed over."""
    if row.participant == "someone":
        return
    for role, person in (("occupation", row.occupation), ("participant", row.participant)):
        yield _entailment(schema, person, {**levels, "right": "right" if role == row.answer else "wrong"})


def _from_neutral(pair: Counterfactual, row: WinogenderRow) -> list[Counterfactual]:
    made = []
    for to, text in (("he", pair.a), ("she", pair.b)):
        they = row.neutral if isinstance(text, str) else (row.neutral, text[1])
        made.append(Counterfactual(they, text, {**pair.levels, "to": to}))
    return made


def compare(texts: tuple[str, str]) -> Schema | None:
    """None if the two differ in anything but pronouns, or in nothing."""
    words = [list(re.finditer(r"\w+|[^\w\s]", text)) for text in texts]
    if len(words[0]) != len(words[1]):
        return None
    first: tuple[int, tuple[str, str], str] | None = None
    direction = None
    for one, other in zip(*words, strict=True):
        if one[0] == other[0]:
            continue
        pair = one[0].lower(), other[0].lower()
        to_women = _OF_MEN.get(pair[0]) == pair[1]
        if (not to_women and pair not in _OF_WOMEN) or direction not in (None, to_women):
            return None
        direction = to_women
        if first is None:
            first = one.start(), pair, pair[0] if to_women else pair[1]
    return None if first is None else Schema(texts, first[1], first[2], first[0])


def _entailment(schema: Schema, person: str, levels: dict[str, str]) -> Counterfactual:
    """The sentence, and what follows from it if the pronoun speaks of this person."""
    named = f"the {person}" + ("'s" if schema.case == "his" else "")
    made = []
    form = "sentence"
    for text, pronoun in zip(schema.texts, schema.pronouns, strict=True):
        before, after = text[: schema.start], text[schema.start + len(pronoun) :]
        if schema.case in ("he", "his") and _CLAUSE.search(before):
            before, form = "", "clause"
        hypothesis = before + named + after
        made.append((text, hypothesis[0].upper() + hypothesis[1:]))
    return Counterfactual(made[0], made[1], {**levels, "hypothesis": form})
