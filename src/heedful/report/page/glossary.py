"""The words of the trade that a report uses, in a sentence each: shown where a heading uses one, listed at the end."""

import re
from collections.abc import Iterable
from dataclasses import replace

from heedful.report.page.pieces import Block, Cards, Choice, Facts, Fold, Report, Section, Table

WORDS = {
    "95 % interval": "A range made so that in 95 of 100 studies like this one it holds the true value.",
    "accuracy": "The share of the examples whose class is predicted rightly.",
    "adapters alone": "What of the model on disk is not the body or the head: what another set of adapters would add.",
    "arithmetic": "FLOP: how many additions and multiplications of numbers the training took.",
    "baseline": "A simple model that any other has to beat to be worth its cost.",
    "calibration error": "How far, on average, the stated confidence is from the share that is right; 0 is best.",
    "could be shown": "The smallest true difference that a study of this size would show in 80 % of cases.",
    "dev": "Examples kept out of training, on which settings and checkpoints are chosen.",
    "F1": "The harmonic mean of precision and recall: high only if both are.",
    "log-loss": "The mean of −log of the probability given to the right class: wrong and sure costs most; 0 is best.",
    "macro F1": "F1 of each class, averaged so that rare classes count as much as common ones.",
    "Matthews correlation": "A correlation of predicted and true classes: 1 is perfect, 0 no better than guessing.",
    "mean weight": "How much of an adapter's output a fusion takes, over the tokens of each text; all together make 1.",
    "mean absolute error": "How far predictions are from the true numbers, on average.",
    "mean squared error": "The mean of the squared distances of predictions from the true numbers.",
    "n": "How many runs, each with a seed of its own, a line is the mean of.",
    "p": "How often chance alone would give a difference at least this large if there were none; corrected: for having "
    "compared several pairs.",
    "parameters trained": "How many of the model's numbers training may change.",
    "peak memory": "The most main memory that a run held at one time.",
    "Pearson correlation": "How well a straight line turns predictions into the true numbers: 1 is perfect, 0 nothing.",
    "precision": "Of the examples given this class, the share that have it.",
    "recall": "Of the examples that have this class, the share that are given it.",
    "seed": "The number from which all chance in a run follows: first weights, order of the examples, dropout.",
    "Spearman correlation": "How well predictions put the examples in their true order: 1 is perfect, 0 nothing.",
    "temperature": "What logits are divided by so that confidence means what it says; above 1 the model was too sure.",
    "TF-IDF": "A model that counts words, weighs rare ones up and draws a linear border: quick, and hard to beat.",
}
_STARTS = sorted(((word.lower(), word) for word in WORDS), key=lambda pair: -len(pair[0]))


def word_of(title: str) -> str | None:
    """The word that a heading is, or begins with."""
    text = title.replace("\N{NO-BREAK SPACE}", " ").lower()
    return next((word for start, word in _STARTS if re.match(rf"{re.escape(start)}(?![\w-])", text)), None)


def anchor(word: str) -> str:
    return "word-" + re.sub(r"\W+", "-", word.lower())


def with_words(report: Report) -> Report:
    """The report with a last section for the words that its headings use."""
    blocks = [*report.opening, *(block for section in report.sections for block in section.blocks)]
    used = {word for title in _headings(blocks) if (word := word_of(title)) is not None}
    said = repr(report).lower()
    further = ("seed", "dev", "TF-IDF", "baseline")
    used |= {word for word in further if used and re.search(rf"(?<!\w){word.lower()}s?(?!\w)", said)}
    pairs = tuple((word, WORDS[word]) for word in sorted(used, key=str.lower))
    return replace(report, sections=(*report.sections, Section("words", "Words", (Facts(pairs),)))) if pairs else report


def _headings(blocks: Iterable[Block]) -> Iterable[str]:
    for block in blocks:
        match block:
            case Table():
                yield from (column.title for column in block.columns)
            case Cards(items):
                yield from (what for what, _, _ in items)
            case Fold(_, inner):
                yield from _headings(inner)
            case Choice(_, figures):
                yield from _headings(figure for _, figure in figures)
            case _:
                pass
