"""What translations are worth, by what each sentence adds to BLEU and chrF: sums from which sacreBLEU makes a score.

Both are functions of sums over sentences, so that a set, a set without one of its sentences, and any sample of it are
scored by one formula (`heedful.evaluation.metrics`).

Letters: k statistics of a sentence, n the order of n-grams.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.evaluation.metrics import Columns, Floats, Metric, mean_of, ratio_of

BLEU_ORDER, CHRF_ORDER, CHRF_BETA = 4, 6, 2
"""sacreBLEU's own: words up to four, characters up to six, recall twice as important as precision."""
_BLEU = (
    "length",
    "reference_length",
    *(f"match_{n}" for n in range(1, BLEU_ORDER + 1)),
    *(f"total_{n}" for n in range(1, BLEU_ORDER + 1)),
)
_CHRF = tuple(f"{what}_{n}" for n in range(1, CHRF_ORDER + 1) for what in ("chars", "reference_chars", "match_chars"))


def has_sacrebleu() -> bool:
    try:
        import sacrebleu  # noqa: F401
    except ImportError:
        return False
    return True


@cache
def _bleu(words: str) -> Any:
    from sacrebleu.metrics import BLEU

    return BLEU(tokenize=words, effective_order=True)  # the order matters to the score of a sentence alone, not to sums


def signatures(words: str) -> dict[str, str]:
    """What sacreBLEU calls the scores of a set, by metric: which words, which smoothing, which version."""
    from sacrebleu.metrics import BLEU, CHRF

    found = {}
    for name, metric in (("bleu", BLEU(tokenize=words)), ("chrf", CHRF())):
        metric.corpus_score(["a"], [["a"]])  # a signature says how many references there are, which it learns so
        found[name] = str(metric.get_signature())
    return found


def translation_columns(
    translations: Sequence[str], references: Sequence[str], words: str | None
) -> dict[str, npt.NDArray[np.float64]]:
    """Return by column what each sentence adds. `words`: how BLEU splits a text into words, a name of sacreBLEU's;
    None: neither BLEU nor chrF is wanted."""
    pairs = list(zip(translations, references, strict=True))
    right = {"right": np.array([float(_plain(a) == _plain(b)) for a, b in pairs], dtype=np.float64)}
    if words is None:
        return right
    bleu = np.array([_bleu_sums(*pair, words) for pair in pairs], dtype=np.float64).reshape(len(pairs), len(_BLEU))
    chrf = np.array([_chrf_sums(*pair) for pair in pairs], dtype=np.float64).reshape(len(pairs), len(_CHRF))
    columns = {name: bleu[:, k].copy() for k, name in enumerate(_BLEU)}
    return {**columns, **{name: chrf[:, k].copy() for k, name in enumerate(_CHRF)}, **right}


def _plain(text: str) -> str:
    return " ".join(text.split())


def _bleu_sums(translation: str, reference: str, words: str) -> list[int]:
    score = _bleu(words).sentence_score(translation, [reference])
    return [score.sys_len, score.ref_len, *score.counts, *score.totals]


def _chrf_sums(translation: str, reference: str) -> list[int]:
    """Of each order: how many n-grams of characters the two have, white space left out, and how many in common."""
    a, b = ("".join(text.split()) for text in (translation, reference))
    sums = []
    for n in range(1, CHRF_ORDER + 1):
        ours, other = (Counter(text[i : i + n] for i in range(len(text) - n + 1)) for text in (a, b))
        # As sacreBLEU has it: where the reference is too short for an order, ours do not count against us.
        sums += [ours.total() if other else 0, other.total(), (ours & other).total()]
    return sums


def _stacked(columns: Columns, names: Sequence[str]) -> Floats:
    return np.stack([np.asarray(columns[name], dtype=np.float64) for name in names], axis=1)


def _bleu_statistics(columns: Columns) -> Floats:
    """And how many sentences the set has: smoothing depends on sums, and not on their ratios alone."""
    sums_ek = _stacked(columns, _BLEU)
    return np.concatenate([sums_ek, np.full((len(sums_ek), 1), float(len(sums_ek)))], axis=1)


def _bleu_value(mean_k: Floats) -> Floats:
    """Papineni et al. (2002), "exp" smoothing: the k-th order without a match counts as if it had 1/2ᵏ of one."""
    sums = mean_k[..., :-1] * mean_k[..., -1:]
    ours, reference = sums[..., 0], sums[..., 1]
    match, total = np.split(sums[..., 2:], 2, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        halvings = np.cumsum(((match < 0.5) & (total >= 0.5)).astype(np.float64), axis=-1)
        smoothed = np.where(match < 0.5, 2.0**-halvings, match)
        precisions = np.where(total < 0.5, 0.0, smoothed / total)
        brevity = np.where(ours < reference, np.exp(1 - reference / ours), 1.0)
        score = 100 * brevity * np.exp(np.log(precisions).mean(axis=-1))
    return np.asarray(np.where((match < 0.5).all(axis=-1) | (ours < 0.5), 0.0, score))


def _chrf_value(mean_k: Floats) -> Floats:
    """Popović (2015): F of the precision and the recall that are means over the orders that occur on both sides."""
    ours, reference, match = (mean_k[..., at::3] for at in range(3))
    occurs = (ours > 0) & (reference > 0)
    orders = np.maximum(occurs.sum(axis=-1), 1)
    precision = np.where(occurs, match / np.where(occurs, ours, 1.0), 0.0).sum(axis=-1) / orders
    recall = np.where(occurs, match / np.where(occurs, reference, 1.0), 0.0).sum(axis=-1) / orders
    under = CHRF_BETA**2 * precision + recall
    return np.asarray(100 * (1 + CHRF_BETA**2) * precision * recall / np.where(under > 0, under, 1.0))


def _chrf_statistics(columns: Columns) -> Floats:
    return _stacked(columns, _CHRF)


def sentence_chrf(columns: Columns) -> Floats | None:
    """(e,): chrF of each sentence by itself; None where the columns are not those of translations."""
    return _chrf_value(_chrf_statistics(columns)) if all(name in columns for name in _CHRF) else None


_LOSS = ratio_of("loss", "loss for each target token", False, "nll", "tokens")


def _perplexity(mean_k: Floats) -> Floats:
    assert _LOSS.value is not None
    with np.errstate(over="ignore"):
        return np.exp(_LOSS.value(mean_k))


TRANSLATION_METRICS = (
    Metric("bleu", "BLEU", True, _bleu_statistics, _bleu_value, bounds=(0.0, 100.0)),
    Metric("chrf", "chrF", True, _chrf_statistics, _chrf_value, bounds=(0.0, 100.0)),
    mean_of("exact_match", "exact match", True, "right", (0.0, 1.0)),
    _LOSS,
    Metric("perplexity", "perplexity for each target token", False, _LOSS.statistics, _perplexity, bounds=(1.0, None)),
)
"""From the columns of `translation_columns`, and those of the loss: `nll`, the sum over a target's tokens, of which
there are `tokens`. The default first."""
OF_SACREBLEU = ("bleu", "chrf")
"""Those that need the package."""
OF_TEXTS = (*OF_SACREBLEU, "exact_match")
"""Those that need translations; the others need the loss alone."""


def by_length(
    columns: Mapping[str, npt.NDArray[np.float64]], lengths: Sequence[int], edges: Sequence[int]
) -> list[tuple[str, dict[str, npt.NDArray[np.float64]]]]:
    """The columns of the sentences of each range of lengths that has any, with what the range is called: "1-10", …"""
    length_e, found = np.asarray(lengths), []
    for low, high in zip((0, *edges), (*edges, None), strict=True):
        inside = (length_e > low) & (length_e <= (np.inf if high is None else high))
        if inside.any():
            name = f"{low + 1}-{high}" if high is not None else f"{low + 1} and more"
            found.append((name, {key: column[inside] for key, column in columns.items()}))
    return found
