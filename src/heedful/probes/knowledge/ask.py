"""Models are asked questions: what each says, greedily, and how likely it finds the whole of its answer."""

from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from heedful.errors import RequestError
from heedful.inference.generation import language_model_head
from heedful.inference.predictor import TransformerModel
from heedful.inference.questions import question_form, said_text, say_answers
from heedful.models.transformer import Transformer, evaluating
from heedful.probes.knowledge.material import Material
from heedful.probes.knowledge.spelling import Spelling, spelling_of
from heedful.probes.models import Subject

Floats = npt.NDArray[np.float64]
_SHOWN = 60  # characters of a question


@dataclass(frozen=True)
class Said:
    """What a subject answers: s seeds, e questions."""

    subject: str
    random: bool
    seeds: tuple[str, ...]
    material: Material
    texts: tuple[tuple[str, ...], ...]
    """(s, e)."""
    confidence_se: Floats
    """The probability of the whole answer, its end included."""
    spellings: tuple[Spelling, ...]
    """(s): what the texts of each are compared with."""


def ask(subject: Subject, material: Material) -> Said:
    texts, confidence = [], []
    spellings: dict[str, Spelling] = {}
    order = []
    for _, load in subject.runs:
        model = cast(TransformerModel, load())
        said, probability_e = answer(model, material, subject.name)
        texts.append(tuple(said))
        confidence.append(probability_e)
        order.append(tokenizer := model.tokenizer.fingerprint)
        if tokenizer not in spellings:
            spellings[tokenizer] = spelling_of(model.tokenizer, material)
    return Said(
        subject.name,
        subject.random,
        tuple(seed for seed, _ in subject.runs),
        material,
        tuple(texts),
        np.stack(confidence),
        tuple(spellings[tokenizer] for tokenizer in order),
    )


def answer(model: TransformerModel, material: Material, name: str) -> tuple[list[str], Floats]:
    """What one model says to each question, as its tokenizer spells it, and the probability of that."""
    transformer, head = _language_model(model, name)
    tokenizer, questions = model.tokenizer, material.questions
    form = question_form(tokenizer)
    if form is None:
        raise RequestError(
            f"{name}: its tokenizer has neither a mask token nor one that ends a text, so that no question can be put."
        )
    prompts = [form.prompt(ids) for ids in tokenizer.plain(questions.questions)]
    for prompt, text, row in zip(prompts, questions.questions, questions.rows, strict=True):
        if len(prompt) >= transformer.shape.longest:
            raise RequestError(
                f"{material.name}, row {row} ({text[:_SHOWN]}): has {len(prompt)} tokens, and {name} reads at most "
                f"{transformer.shape.longest}, the answer included; shorten it."
            )
    device = transformer.body.embeddings.token.weight.device
    with evaluating(transformer):
        said = say_answers(transformer, head, prompts, form.marker, material.answer_tokens, device)
    texts = [said_text(tokenizer, one, form.marker) for one in said]
    return texts, np.exp([sum(one.answer.log_probabilities) for one in said])


def _language_model(model: TransformerModel, name: str) -> tuple[Transformer, str]:
    transformer: Transformer | None = getattr(model, "transformer", None)
    head = None if transformer is None else language_model_head(transformer)
    if transformer is None or head is None or not transformer.shape.causal:
        raise RequestError(
            f"{name}: has no language-model head, so it cannot answer questions; name a model that was trained with "
            'objective.kind = "answer".'
        )
    return transformer, head
