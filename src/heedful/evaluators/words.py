"""Words of held-out text: the loss and the accuracy for each, beside what their frequencies say.

Letters: n words that are asked for, v the vocabulary.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.data.running_text import RunningText
from heedful.evaluation.metrics import fill_in, scored
from heedful.evaluators.protocol import Evaluation, Evaluator
from heedful.inference.batching import BatchRule, batches, rule_for
from heedful.inference.reader import TextReader, at_least_float32
from heedful.inference.states import Row, gold_words, word_scores, words_of
from heedful.inputs.word_rows import Floats, WordInputs
from heedful.recipes.schema import Recipe

FREQUENCIES = "word-frequencies"
"""The baseline that gives each token the probability that it has in the training text, whatever stands around it."""
_SCORES = 2**25  # at a time


class WordEvaluator(Evaluator[RunningText]):
    def __init__(self, recipe: Recipe, data: RunningText) -> None:
        self.recipe, self.data = recipe, data

    def evaluate(self, reader: TextReader, inputs: WordInputs, name: str, final: bool = False) -> Evaluation:
        numbers = inputs.judged(name).tolist()
        rows = [inputs.judged_row(name, n) for n in numbers]
        columns = {key: np.zeros(len(rows)) for key in ("nll", "words", "right")}
        rule = rule_for(reader.device)
        most = max(1, min(rule.tokens or _SCORES, _SCORES // len(inputs.log_frequency_v)))
        with torch.inference_mode():
            for batch in batches([len(row.ids_t) for row in rows], BatchRule(rule.rows, most)):
                for key, values in self.evaluate_rows(reader, inputs, [rows[i] for i in batch]).items():
                    columns.setdefault(key, np.zeros(len(rows)))[batch] = values
        more, words_n = self.more_columns(inputs, name, numbers), words_of(rows)
        columns |= more
        metrics = fill_in({"n": len(rows)}, columns, self.metrics)
        right_n = (words_n == inputs.log_frequency_v.argmax()).astype(np.float64)
        baseline = self.by_row(-inputs.log_frequency_v[words_n], right_n, rows)
        metrics["unigram_loss"] = sum(baseline["nll"]) / max(1.0, sum(baseline["words"]))
        columns |= {f"{FREQUENCIES}/{key}": np.asarray(column) for key, column in {**baseline, **more}.items()}
        return Evaluation(metrics, [n + 1 for n in numbers], columns)

    def evaluate_rows(self, reader: TextReader, inputs: WordInputs, rows: Sequence[Row]) -> dict[str, Sequence[float]]:
        """Return, by column, a number for each row."""
        x_nd = inputs.layout.collate(rows, reader.device).states(reader.transformer, inputs.HEAD)
        return self.by_word(word_scores(reader, inputs.HEAD, x_nd), rows)

    def by_word(self, scores_nv: Tensor, rows: Sequence[Row]) -> dict[str, Sequence[float]]:
        words_n = gold_words(rows, scores_nv.device)
        losses_n = F.cross_entropy(at_least_float32(scores_nv), words_n, reduction="none")
        nll_n = losses_n.double().cpu().numpy()
        right_n = (scores_nv.argmax(1) == words_n).cpu().numpy().astype(np.float64)
        return self.by_row(nll_n, right_n, rows)

    def by_row(self, nll_n: Floats, right_n: Floats, rows: Sequence[Row]) -> dict[str, Sequence[float]]:
        """Return, by column, a number for each row, from what is known of each word."""
        counts = [len(row.words_n) for row in rows]
        owner_n = np.repeat(np.arange(len(rows)), counts)
        nll, right = (np.bincount(owner_n, weights=x_n, minlength=len(rows)) for x_n in (nll_n, right_n))
        return {"nll": nll.tolist(), "right": right.tolist(), "words": [float(count) for count in counts]}

    def more_columns(self, inputs: WordInputs, name: str, numbers: Sequence[int]) -> dict[str, Floats]:
        """Return what is known of the rows without the model."""
        return {}

    def conclude(
        self, evaluations: Mapping[str, Evaluation], stages: Sequence[Mapping[str, Any]] = ()
    ) -> dict[str, Any]:
        """Return the baseline, which only a run can evaluate: it needs a tokenizer. Its columns are named after its own
        name and a slash, so that a study can test the two on the same rows."""
        if not self.recipe.evaluation.baselines:
            return {}
        made: dict[str, Any] = {"seconds": 0.0, "tested": True}
        for name, evaluation in evaluations.items():
            start = f"{FREQUENCIES}/"
            own = {k.removeprefix(start): column for k, column in evaluation.columns.items() if k.startswith(start)}
            made[name] = {"n": len(evaluation.rows)}
            for metric in self.metrics:
                with suppress(KeyError):  # it says nothing of what it has no column of
                    made[name][metric.name] = scored(metric, own)
        return {"baselines": {FREQUENCIES: made}}
