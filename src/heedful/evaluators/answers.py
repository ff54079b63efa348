"""Answers in words: whether they are right, how likely the true ones are, and which ones no training text holds.

Letters: n words that are asked for, v the vocabulary.
"""

import time
from collections import Counter
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from heedful.data.question_sets import QuestionData
from heedful.evaluation.metrics import fill_in, mean_of, ratio_of
from heedful.evaluators.protocol import BaselineSet, Evaluation, Evaluator
from heedful.inference.questions import Answered, said_text, say_answers, stands_in
from heedful.inference.reader import TextReader
from heedful.inference.states import gold_words
from heedful.inputs.question_rows import HEAD, QuestionInputs, asked_row, row_scores

_ROWS = 64  # questions at a time


class AnswerEvaluator(Evaluator[QuestionData]):
    METRICS = (
        mean_of("exact_match", "exact match", True, "right", (0.0, 1.0)),
        ratio_of("answer_loss", "loss for each token of the answer", False, "nll", "words"),
        mean_of("made_up", "share of answers that no training text holds", False, "made_up", (0.0, 1.0)),
    )

    def __init__(self, data: QuestionData, answer_tokens: int, recall: bool) -> None:
        """`answer_tokens`: the longest answer that is waited for; `recall`: whether text is recalled before it."""
        self.data, self.answer_tokens, self.recall = data, answer_tokens, recall

    def evaluate(self, reader: TextReader, inputs: QuestionInputs, name: str, final: bool = False) -> Evaluation:
        questions, tokenizer = self.data.splits[name], inputs.tokenizer
        answered = self.answers(reader, inputs, name)
        columns = {key: np.zeros(len(questions)) for key in ("nll", "words", "right", "made_up", "confidence")}
        answers = [after for _, after in inputs.asked[name]]
        rows = [asked_row(np.asarray(a.before), after) for a, after in zip(answered, answers, strict=True)]
        with torch.inference_mode():
            for at in range(0, len(rows), _ROWS):
                batch = rows[at : at + _ROWS]
                scores_nv, words_n = row_scores(reader, inputs.layout, batch), gold_words(batch, reader.device)
                nll_n = F.cross_entropy(scores_nv.double(), words_n, reduction="none").cpu().numpy()
                owner_n = np.repeat(np.arange(len(batch)), [len(row.words_n) for row in batch])
                columns["nll"][at : at + _ROWS] = np.bincount(owner_n, weights=nll_n)
                columns["words"][at : at + _ROWS] = np.bincount(owner_n)
        texts = [said_text(tokenizer, answer, inputs.marker) for answer in answered]
        columns["right"] = np.asarray([float(a == b) for a, b in zip(texts, inputs.golds[name], strict=True)])
        columns["made_up"] = np.asarray([float(is_made_up(inputs, text)) for text in texts])
        columns["confidence"] = np.exp([sum(answer.answer.log_probabilities) for answer in answered])
        metrics = fill_in({"n": len(questions)}, columns, self.metrics)
        lines = [(text, f"{p:.6f}") for text, p in zip(texts, columns["confidence"], strict=True)]
        if not self.recall:
            return Evaluation(metrics, questions.rows, columns, ("answer", "confidence"), lambda: lines)
        recalled = [tokenizer.decode(answer.recalled).strip() for answer in answered]
        with_text = [(*line, text) for line, text in zip(lines, recalled, strict=True)]
        header = ("answer", "confidence", "recalled")
        return Evaluation(metrics, questions.rows, columns, header, lambda: with_text)

    def answers(self, reader: TextReader, inputs: QuestionInputs, name: str) -> list[Answered]:
        """Return what the model says, greedily, to each question of a set."""
        asked = inputs.asked[name]
        prompts, room = [before.tolist() for before, _ in asked], max(len(after) for _, after in asked)
        return say_answers(reader.transformer, HEAD, prompts, inputs.marker, self.answer_tokens, reader.device, room)

    def baselines(self) -> "MostCommonAnswer":
        return MostCommonAnswer(self.data)

    def seconds_per_example(self, reader: TextReader, inputs: QuestionInputs) -> tuple[float, float]:
        name = next(iter(self.data.sets()), "train")
        started = time.perf_counter()
        self.evaluate(reader, inputs, name)
        seconds = (time.perf_counter() - started) / len(self.data.splits[name])
        return seconds, seconds


def is_made_up(inputs: QuestionInputs, answer: str) -> bool:
    """Return whether something is said that is no training answer, and that the text which was read does not hold."""
    return bool(answer) and answer not in inputs.spelled and not stands_in(answer, [inputs.known_text])


class MostCommonAnswer(BaselineSet):
    """Answer everything with the most common answer of the training questions."""

    def __init__(self, data: QuestionData) -> None:
        self.data = data

    def scores(self) -> dict[str, dict[str, Any]]:
        counts = Counter(self.data.splits["train"].answers)
        most_common = max(sorted(counts), key=counts.__getitem__)
        baseline: dict[str, Any] = {"seconds": 0.0, "answer": most_common, "tested": True, "values": {}}
        for name in self.data.sets():
            right = [float(answer == most_common) for answer in self.data.splits[name].answers]
            baseline[name] = {"n": len(right), "exact_match": float(np.mean(right))}
            baseline["values"][name] = {"right": right, "row": self.data.splits[name].rows}
        return {"commonest": baseline}
