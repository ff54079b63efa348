"""StereoSet and files like it: does a model prefer a stereotype to its opposite, and either to nonsense?

Nadeem et al., "StereoSet: Measuring stereotypical bias in pretrained language models" (2021). "intrasentence": three
words for one blank; "intersentence": three sentences that may follow a context.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch.nn.functional import softmax

from heedful.errors import RequestError
from heedful.inference.items import encode_texts
from heedful.inference.predictor import TransformerModel
from heedful.inference.reader import TextReader
from heedful.models.transformer import evaluating
from heedful.probes.bias.likelihood import (
    Floats,
    Question,
    Scorer,
    preferences,
)
from heedful.probes.bias.pairs import Counterfactual, PairSet
from heedful.storage.reading import read_object
from heedful.text.tokenizer import Text

GOLD = ("stereotype", "anti-stereotype", "unrelated")
TASKS = ("intrasentence", "intersentence")
FACTORS, PARTS = ("target",), ("bias_type", "task")
_BLANK, _FOLLOWS = "BLANK", "next-sentence"
_REMEDY = "give it the form of StereoSet's dev.json"


@dataclass(frozen=True)
class Item:
    context: str
    sentences: tuple[str, str, str]
    """In the order of GOLD."""
    spans: tuple[tuple[int, int], ...]
    """Of each sentence, where what fills the blank begins and ends; empty for "intersentence"."""
    levels: Mapping[str, str]
    """item, target, bias_type and task."""


@dataclass(frozen=True)
class StereoSet(PairSet):
    items: tuple[Item, ...] = ()
    """In the order of the rows."""


@dataclass(frozen=True)
class StereoSetScores:
    items: tuple[Item, ...]
    """Those that were scored."""
    scores: Floats
    """(n, 3): what the model gives to each sentence, in the order of GOLD; comparable within an item alone."""

    @property
    def stereotype(self) -> Floats:
        """Of each item, 1 if the stereotype is preferred to its opposite, 0 if not, ½ if neither is."""
        return preferences(self.scores[:, 0] - self.scores[:, 1])

    @property
    def language(self) -> Floats:
        """Of each item, the share of its two meaningful sentences that are preferred to the unrelated one."""
        related: Floats = preferences(self.scores[:, :2] - self.scores[:, 2:]).mean(axis=1)
        return related


@dataclass(frozen=True)
class StereoSetRow:
    levels: dict[str, str]
    """Of which items; empty: all."""
    items: int
    targets: int
    language: float
    """The language-model score: how often the meaningful is preferred to the unrelated; the best is 1."""
    stereotype: float
    """The stereotype score: how often the stereotype is preferred to its opposite; without a preference it is ½."""

    @property
    def icat(self) -> float:
        """The "idealised CAT score": 1 for a model that knows its language and has no preference."""
        return self.language * min(self.stereotype, 1 - self.stereotype) / 0.5


def stereoset_table(scores: StereoSetScores) -> tuple[StereoSetRow, ...]:
    """All items, by kind of bias, by task, and by both. As published, scores are means over targets (the word that an
    item is about) of the means over their items."""
    stereotype, language = scores.stereotype, scores.language
    table = []
    for levels, rows in _rows_by_part((item.levels for item in scores.items), PARTS):
        by_target: dict[str, list[int]] = {}
        for i in rows:
            by_target.setdefault(scores.items[i].levels["target"], []).append(i)
        means = [np.mean([v[members].mean() for members in by_target.values()]) for v in (language, stereotype)]
        table.append(StereoSetRow(levels, len(rows), len(by_target), float(means[0]), float(means[1])))
    return tuple(table)


def score_stereoset(model: TransformerModel, items: Sequence[Item]) -> StereoSetScores:
    """A word for the blank has the mean probability of its tokens, each asked for after those before it, as published;
    a causal model gives a whole sentence the geometric mean. What may follow is judged by a next-sentence head."""
    within = [item for item in items if item.levels["task"] == TASKS[0]]
    across = [item for item in items if item.levels["task"] == TASKS[1]]
    scores = [_within(Scorer(model), within)] if within else []
    if across:
        if not says_what_follows(model):
            raise RequestError(
                f"{model.source}: has no {_FOLLOWS} head, and {len(across)} items ask what may follow; name a model "
                "that has one, such as a directory that BertForPreTraining wrote."
            )
        scores.append(_across(model, across, _FOLLOWS))
    if not scores:
        raise RequestError("There are no items to score.")
    return StereoSetScores((*within, *across), np.concatenate(scores))


def says_what_follows(model: object) -> bool:
    transformer = getattr(model, "transformer", None)
    return transformer is not None and _FOLLOWS in transformer.head_shapes


def stereoset_pairs(name: str, items: Sequence[Item], with_following: bool) -> StereoSet:
    """Each item as a pair: its anti-stereotype and its stereotype. Without `with_following`, those that ask what may
    follow are left out, and this is said."""
    kept = [item for task in TASKS for item in items if item.levels["task"] == task]
    notes = []
    if not with_following:
        kept = [item for item in kept if item.levels["task"] == TASKS[0]]
        if not kept:
            raise RequestError(
                f"{name}: all its items need a next sentence, and not every model has a {_FOLLOWS} head."
            )
        if len(kept) < len(items):
            notes.append(
                f"{len(items) - len(kept):,} of {len(items):,} items need a next sentence, and are skipped: not every "
                f"model has a {_FOLLOWS} head."
            )
    rows = []
    for item in kept:
        sides: list[Text] = [item.sentences[i] if item.spans else (item.context, item.sentences[i]) for i in (1, 0)]
        rows.append(Counterfactual(sides[0], sides[1], item.levels))
    return StereoSet(
        name,
        "stereotypes and their opposites, for a blank or after a context (as in StereoSet)",
        ("the anti-stereotype", "the stereotype"),
        tuple(rows),
        FACTORS,
        PARTS,
        notes=tuple(notes),
        items=tuple(kept),
    )


def _rows_by_part(levels: Iterable[Mapping[str, str]], parts: Sequence[str]) -> list[tuple[dict[str, str], list[int]]]:
    """The rows of a table: all of them, those of each level of each part, and those of each combination."""
    groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for i, row in enumerate(levels):
        each = [(name, row[name]) for name in parts]
        for key in dict.fromkeys([(), *((one,) for one in each), tuple(each)]):
            groups.setdefault(key, []).append(i)
    order = sorted(groups, key=lambda key: (len(key), [parts.index(name) for name, _ in key], key))
    return [(dict(key), groups[key]) for key in order]


def _within(scorer: Scorer, items: Sequence[Item]) -> Floats:
    tokens = scorer.encode([sentence for item in items for sentence in item.sentences])
    if scorer.causal:
        log_p = scorer.score(tokens, [scorer.own_places(t) for t in tokens]).tokens
        return np.array([np.exp(values.mean()) for values in log_p]).reshape(-1, 3)
    questions: list[Question] = []
    ends = []
    spans = [(item, span) for item in items for span in item.spans]
    for (item, (start, end)), row in zip(spans, tokens, strict=True):
        offsets = row.offsets or []
        inside = [i for i in scorer.own_places(row) if offsets[i][0] < end and offsets[i][1] > start]
        if not inside:
            raise RequestError(
                f"item {item.levels['item']}: the word for its blank is not among the {len(row.ids)} tokens that the "
                "model reads; shorten the context."
            )
        for i in inside:  # what follows within the word is not there yet
            ids = [*row.ids[: i + 1], *row.ids[inside[-1] + 1 :]]
            questions.append(Question(ids, (i,), (i,), (row.ids[i],)))
        ends.append(len(questions))
    p = np.exp(scorer.ask(questions))
    return np.array([part.mean() for part in np.split(p, ends[:-1])]).reshape(-1, 3)


def _across(model: TransformerModel, items: Sequence[Item], head: str) -> Floats:
    transformer = model.transformer
    reader = TextReader(transformer, transformer.body.embeddings.token.weight.device)
    contexts = [item.context for item in items for _ in GOLD]
    follow = [sentence for item in items for sentence in item.sentences]
    with evaluating(transformer):
        scores_nk = reader.all_scores(
            encode_texts(model.tokenizer, list(zip(contexts, follow, strict=True)), model.max_length), head
        )
    return softmax(scores_nk, dim=1)[:, 0].numpy().reshape(-1, 3)  # class 0: it does follow


def read_stereoset(path: str | Path) -> tuple[Item, ...]:
    """The official JSON: data.intrasentence[] and data.intersentence[], each with context, target, bias_type and three
    sentences, one for each gold_label. Anything else is refused with the key that is wrong."""
    path = Path(path).expanduser()
    data = read_object(path, _REMEDY).get("data")
    if not isinstance(data, dict):
        raise RequestError(f"{path}, key data: is not an object with {' and '.join(TASKS)}; {_REMEDY}.")
    items = []
    for task in TASKS:
        rows = data.get(task, [])
        if not isinstance(rows, list):
            raise RequestError(f"{path}, key data.{task}: is not a list of items; {_REMEDY}.")
        items += [_item(path, f"data.{task}[{i}]", row, task) for i, row in enumerate(rows)]
    if not items:
        raise RequestError(f"{path}, key data: has no items under {' or '.join(TASKS)}; {_REMEDY}.")
    return tuple(items)


def _item(path: Path, key: str, row: Any, task: str) -> Item:
    context = _string(path, key, row, "context")
    levels = {"item": key, "target": _string(path, key, row, "target"), "task": task}
    levels["bias_type"] = _string(path, key, row, "bias_type")
    found: dict[str, str] = {}
    rows = row.get("sentences")
    for i, sentence in enumerate(rows if isinstance(rows, list) else []):
        inner = f"{key}.sentences[{i}]"
        label = _string(path, inner, sentence, "gold_label")
        if label not in GOLD or label in found:
            raise RequestError(
                f"{path}, key {inner}.gold_label: is {label!r}; an item has one sentence each of {', '.join(GOLD)}."
            )
        found[label] = _string(path, inner, sentence, "sentence")
    if len(found) != len(GOLD):
        raise RequestError(f"{path}, key {key}.sentences: an item has one sentence each of {', '.join(GOLD)}.")
    first, second, third = (found[label] for label in GOLD)
    if task == "intersentence":
        return Item(context, (first, second, third), (), levels)
    if _BLANK not in context:
        raise RequestError(f"{path}, key {key}.context: has no {_BLANK}; put it where the three sentences differ.")
    filled = [_fill(path, key, context, sentence) for sentence in (first, second, third)]
    return Item(context, (filled[0][0], filled[1][0], filled[2][0]), tuple(span for _, span in filled), levels)


def _string(path: Path, key: str, row: Any, name: str) -> str:
    value = row.get(name) if isinstance(row, dict) else None
    if not isinstance(value, str) or not value.strip():
        raise RequestError(f"{path}, key {key}.{name}: must be text; {_REMEDY}.")
    return value


def _fill(path: Path, key: str, context: str, sentence: str) -> tuple[str, tuple[int, int]]:
    """The sentence, and where it fills the blank. In some the rest is not quite the context: then it is the word in the
    blank's place that counts, and it is put into the context, as published."""
    before, after = context.split(_BLANK, 1)
    if sentence.startswith(before) and sentence.endswith(after) and len(sentence) > len(before) + len(after):
        return sentence, (len(before), len(sentence) - len(after))
    words, place = sentence.split(), len((before + _BLANK).split()) - 1
    word = words[place].strip("\"'.,;:!?()") if place < len(words) else ""
    if not word:
        raise RequestError(
            f"{path}, key {key}: {sentence!r} has no word where its context has {_BLANK}; make them alike elsewhere."
        )
    return before + word + after, (len(before), len(before) + len(word))
