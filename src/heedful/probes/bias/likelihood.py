"""How likely a model finds a text, and which of two texts it finds the likelier.

A masked-word model has no probability of a text. What stands in for it is the pseudo-log-likelihood (Salazar et al.,
"Masked Language Model Scoring", 2020): Σ log p(token | all others), each token masked in turn. A causal model has a
probability, and its log-likelihood Σ log p(token | those before) is taken.

Letters: n texts; b rows of a batch, each of t tokens; k answers asked for in a batch; d the width, v the vocabulary.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from heedful.checkpoints.dialect import SLOTS
from heedful.errors import RequestError
from heedful.inference.batching import batches, rule_for
from heedful.inference.predictor import TransformerModel
from heedful.models.batch import pad
from heedful.models.shape import HeadKind
from heedful.models.transformer import Transformer, evaluating
from heedful.probes.bias.pairs import Counterfactual
from heedful.text.rows import list_texts
from heedful.text.tokenizer import Text, Tokens

Floats = npt.NDArray[np.float64]
Masked = Literal["token", "word"]
"""What is masked to ask for a token: it alone, or with it the rest of its word, so that the end of a rare word does not
give its beginning away ("PLL-word-l2r", Kauf and Ivanova, "A Better Way to Do Masked Language Model Scoring", 2023)."""
Scored = Literal["shared", "all"]
"""Which tokens of a pair count: those that both texts have (the group's own words have frequencies of their own), or
all."""

_ANSWERS = 256
"""Rows of scores over the vocabulary that are in memory at a time."""
_TEXTS = 1024
"""Texts whose rows are made at a time."""


@dataclass(frozen=True)
class Likelihoods:
    tokens: tuple[Floats, ...]
    """Of each text, log p of each token that was scored."""
    truncated: int
    """Texts that were longer than the model reads, and were cut."""

    @property
    def sums(self) -> Floats:
        return np.array([values.sum() for values in self.tokens])

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        return np.array([len(values) for values in self.tokens], dtype=np.int64)


@dataclass(frozen=True)
class PairLikelihoods:
    a: Likelihoods
    b: Likelihoods

    @property
    def changes(self) -> Floats:
        """Of each pair, the log-likelihood of `b` minus that of `a`."""
        return self.b.sums - self.a.sums

    @property
    def truncated(self) -> int:
        return self.a.truncated + self.b.truncated


def pseudo_log_likelihood(model: TransformerModel, texts: Iterable[str], masked: Masked = "token") -> Likelihoods:
    """Of each text, log p of every token but the special ones around it. How they are put in batches does not change
    the answer."""
    scorer = Scorer(model, masked)
    tokens = scorer.encode(texts)
    return scorer.score(tokens, [scorer.own_places(t) for t in tokens])


def likelihood_changes(
    model: TransformerModel, pairs: Sequence[Counterfactual], scored: Scored = "shared", masked: Masked = "token"
) -> Floats:
    """Of each pair, by how much `b` is the likelier text: the difference of their log-likelihoods."""
    return score_pairs(model, pairs, scored, masked).changes


def score_pairs(
    model: TransformerModel, pairs: Sequence[Counterfactual], scored: Scored = "shared", masked: Masked = "token"
) -> PairLikelihoods:
    """Both texts of every pair; `scored` "shared" with `masked` "token" is the metric of CrowS-Pairs (Nangia et al.,
    2020)."""
    scorer = Scorer(model, masked)
    a, b = (scorer.encode([_one_text(text) for text in side]) for side in ([p.a for p in pairs], [p.b for p in pairs]))
    places = [(scorer.own_places(one), scorer.own_places(other)) for one, other in zip(a, b, strict=True)]
    if scored == "shared":
        for i, (one, other) in enumerate(zip(a, b, strict=True)):
            own_a, own_b = map(set, places[i])
            # b first, as published: which blocks are found may hang on the order
            kept = [(p, q) for q, p in shared_places(other.ids, one.ids) if p in own_a and q in own_b]
            places[i] = [p for p, _ in kept], [q for _, q in kept]
    return PairLikelihoods(scorer.score(a, [p for p, _ in places]), scorer.score(b, [q for _, q in places]))


def _one_text(text: Text) -> str:
    if not isinstance(text, str):
        raise ValueError("the likelihood of a pair of texts is not defined here")
    return text


def shared_places(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """Where the tokens stand that both have, in a and in b: the blocks that `SequenceMatcher` finds, longest first, as
    in the published metric. That is not always the longest common subsequence."""
    blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    return [(block.a + i, block.b + i) for block in blocks for i in range(block.size)]


def preferences(changes: npt.ArrayLike) -> Floats:
    """1 where the first of two is the likelier, 0 where the second is, ½ where neither is: their mean is the share that
    is 50 % for a model without a preference. (The published counts take a tie for a 0.)"""
    return (np.sign(np.asarray(changes, dtype=np.float64)) + 1) / 2


@dataclass(frozen=True, slots=True)
class Question:
    """Tokens as the model is given them, and what is asked of the states at some places."""

    ids: Sequence[int]
    masked: tuple[int, ...]
    """The places at which the model is given the mask instead."""
    places: tuple[int, ...]
    answers: tuple[int, ...]
    """The token of which log p is asked at each place."""


class Scorer:
    """The probabilities that a model's masked-word head, or else its language-model head, gives to tokens."""

    def __init__(self, model: TransformerModel, masked: Masked = "token") -> None:
        transformer: Transformer | None = getattr(model, "transformer", None)
        name = None
        if transformer is not None:
            name = _head(transformer, "masked-word") or _head(transformer, "language-model")
        if transformer is None or name is None:
            raise RequestError(
                f"{model.source}: has neither a masked-word nor a language-model head, and so no probabilities of "
                "words; name a model that has one, such as a directory that BertForMaskedLM, BertForPreTraining, "
                "RobertaForMaskedLM, DistilBertForMaskedLM, RoFormerForMaskedLM or GPT2LMHeadModel wrote."
            )
        self.transformer, self.tokenizer, self.max_length = transformer, model.tokenizer, model.max_length
        self.source, self.head = model.source, name
        self.causal = transformer.head_shapes[name].kind == "language-model"
        self.by_word = masked == "word"
        self.mask_id = self.tokenizer.mask_id
        if self.causal and self.by_word:
            raise RequestError(f"{model.source}: reads from left to right and has no masks. Remove masked.")
        if not self.causal and self.mask_id is None:
            raise RequestError(
                f"{model.source}: has a masked-word head, but its tokenizer has no mask token; add mask_token to its "
                "tokenizer_config.json."
            )
        # A causal model can say what a text begins with only after a token that stands before every text.
        self.before = [] if self.tokenizer.bos_id is None or not self.causal else [self.tokenizer.bos_id]

    def encode(self, texts: Iterable[str]) -> list[Tokens]:
        rows = list_texts(texts, "score", pairs=False)
        return self.tokenizer.encode(rows, self.max_length - len(self.before), offsets=True)

    def own_places(self, tokens: Tokens) -> list[int]:
        """Where the tokens of the text itself stand, special ones left out."""
        assert tokens.words is not None
        return [i for i, word in enumerate(tokens.words) if word is not None]

    def score(self, texts: Sequence[Tokens], places: Sequence[Sequence[int]]) -> Likelihoods:
        """log p of the tokens at these places of each text."""
        result: list[Floats] = []
        for at in range(0, len(texts), _TEXTS):
            window = list(zip(texts[at : at + _TEXTS], places[at : at + _TEXTS], strict=True))
            questions = [self._questions(tokens, chosen) for tokens, chosen in window]
            log_p = self.ask([question for of_text in questions for question in of_text])
            ends = np.cumsum([sum(len(q.answers) for q in of_text) for of_text in questions])
            result += np.split(log_p, ends[:-1])
        return Likelihoods(tuple(result), sum(tokens.truncated for tokens in texts))

    def _questions(self, tokens: Tokens, places: Sequence[int]) -> list[Question]:
        ids = tokens.ids
        if not self.causal:
            return [Question(ids, self._covered(tokens, p), (p,), (ids[p],)) for p in places]
        # The state before a token foretells it; what nothing stands before cannot be foretold.
        before = [] if ids[:1] == self.before else self.before
        kept = [p for p in places if p + len(before) > 0]
        if not kept:
            return []
        shift = len(before) - 1
        return [Question([*before, *ids], (), tuple(p + shift for p in kept), tuple(ids[p] for p in kept))]

    def _covered(self, tokens: Tokens, place: int) -> tuple[int, ...]:
        words = tokens.words
        if not self.by_word or words is None:
            return (place,)
        end = place + 1
        while end < len(words) and words[end] == words[place]:
            end += 1
        return tuple(range(place, end))

    def ask(self, questions: Sequence[Question]) -> Floats:
        """log p of every answer, in their order."""
        starts = np.cumsum([0, *(len(q.answers) for q in questions)])
        result = np.empty(starts[-1])
        lengths = [len(q.ids) for q in questions]
        with torch.inference_mode(), evaluating(self.transformer):
            for rows in batches(lengths, rule_for(self.transformer.body.embeddings.token.weight.device)):
                where = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in rows])
                result[where] = self._log_probabilities([questions[i] for i in rows])
        if not np.isfinite(result).all():
            raise RequestError(f"{self.source}: gives words no finite probabilities; its weights are damaged.")
        return result

    def _log_probabilities(self, questions: Sequence[Question]) -> Floats:
        """Only the states that are asked go through the vocabulary, and where each text is asked for one, it alone is
        computed in the last block: exactly what the whole would give."""
        body, table_vd = self.transformer.body, self.transformer.body.embeddings.token.weight
        batch = pad([self._given(q) for q in questions], None, self.transformer.shape.pad_id, table_vd.device)
        places_k = torch.tensor([p for q in questions for p in q.places], device=table_vd.device)
        answers_k = torch.tensor([a for q in questions for a in q.answers], device=table_vd.device)
        through = self.transformer.through(self.head)
        if all(len(q.places) == 1 for q in questions):
            x_kd: Tensor = body(batch, places_k, adapters=through).last[:, 0]
        else:
            rows_k = torch.tensor([i for i, q in enumerate(questions) for _ in q.places], device=table_vd.device)
            x_kd = body(batch, adapters=through).last[rows_k, places_k]
        head = self.transformer.heads[self.head]
        log_p = [
            -cross_entropy(head(x_kd[at : at + _ANSWERS], table_vd), answers_k[at : at + _ANSWERS], reduction="none")
            for at in range(0, len(x_kd), _ANSWERS)
        ]
        return torch.cat(log_p).double().cpu().numpy()

    def _given(self, question: Question) -> list[int]:
        ids = list(question.ids)
        for place in question.masked:
            assert self.mask_id is not None
            ids[place] = self.mask_id
        return ids


def _head(transformer: Transformer, kind: HeadKind) -> str | None:
    """The head of that kind: that with its usual name, where there are several."""
    names = [name for name, head in transformer.head_shapes.items() if head.kind == kind]
    return SLOTS[kind] if SLOTS[kind] in names else names[0] if names else None
