"""Classes and scores of texts: metrics, calibration, predictions, and the baselines of a text classifier.

Letters: k classes, n examples of a set.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from heedful.checkpoints.directory import Checkpoint
from heedful.checkpoints.tfidf import tfidf_files, write_tfidf
from heedful.data.labelled import LabelledData
from heedful.errors import RequestError
from heedful.evaluation.baselines import baselines
from heedful.evaluation.metrics import CLASS_METRICS, NUMBER_METRICS, Floats, Metric, fill_in
from heedful.evaluation.statistics.classes import Predictions, statistics_of_predictions
from heedful.evaluation.targets import Classes, Score, Target
from heedful.evaluation.tfidf import TfidfModel
from heedful.evaluators.protocol import BaselineSet, Evaluation, Evaluator, NoBaselines
from heedful.inference.items import Item, encode_pairs, encode_texts
from heedful.inference.reader import TextReader
from heedful.inputs.labelled import HEAD, LabelledInputs
from heedful.recipes.schema import Recipe

_ERRORS = 20
_TIMED = 128  # texts whose prediction is timed


class LabelledEvaluator(Evaluator[LabelledData]):
    METRICS = (*CLASS_METRICS.values(), *NUMBER_METRICS.values())

    def __init__(
        self,
        recipe: Recipe,
        data: LabelledData,
        target: Target,
        mean_loss: Callable[[Tensor, Tensor], Tensor],
        task: str = HEAD,
    ) -> None:
        """`mean_loss`: the objective's, of scores and targets."""
        self.recipe, self.data, self.target, self.mean_loss, self.task = recipe, data, target, mean_loss, task
        self.temperature: float | None = None
        parsed = {name: target.parse(e) for name, e in data.splits.items()}
        self.targets = {name: t for name, t in parsed.items() if t is not None}
        _check_metric(recipe, target, data.dataset.kind)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return self.target.metrics

    def evaluate(self, reader: TextReader, inputs: LabelledInputs, name: str, final: bool = False) -> Evaluation:
        scores_nk = reader.all_scores(inputs.items[name], self.task).numpy()
        return evaluation_of(self.data, self.target, name, self.target.decide(scores_nk), scores_nk)

    def loss(self, evaluation: Evaluation, name: str) -> float | None:
        if evaluation.raw is None or name not in self.targets:
            return None
        return float(self.mean_loss(torch.from_numpy(evaluation.raw).double(), self.targets[name]))

    def calibrate(self, reader: TextReader, inputs: LabelledInputs) -> None:
        """Divide the scores by the temperature that dev asks for, where they have one."""
        if "dev" in self.targets:
            scores_nk = reader.all_scores(inputs.items["dev"], self.task).numpy()
            self.temperature = self.target.temperature(scores_nk, self.targets["dev"].tolist())
        if self.temperature is not None:
            reader.transformer.calibrate(self.task, self.temperature)

    def conclude(
        self, evaluations: Mapping[str, Evaluation], stages: Sequence[Mapping[str, Any]] = ()
    ) -> dict[str, Any]:
        """Return the temperature, what it has changed, and the most confident errors."""
        if self.data.dataset.kind == "score":
            return {}
        raw = {name: e.raw for name, e in evaluations.items() if name in self.targets and e.raw is not None}
        more: dict[str, Any] = {}
        if self.temperature is not None:
            more["temperature"] = self.temperature
            more["calibration"] = {
                name: self.target.calibration(scores_nk, self.targets[name].tolist(), self.temperature)
                for name, scores_nk in raw.items()
            }
        more["errors"] = [error for name, scores_nk in raw.items() for error in self._errors(name, scores_nk)]
        return more

    def _errors(self, name: str, scores_nk: Floats) -> list[dict[str, Any]]:
        gold, examples = self.targets[name].numpy(), self.data.examples(name)
        worst = self.target.worst_errors(gold, self.target.decide(scores_nk), _ERRORS)
        return [{"split": name, **examples[i], **error} for i, error in worst]

    def baselines(self) -> BaselineSet:
        if not isinstance(self.target, Classes | Score):
            return NoBaselines()
        return LabelledBaselines(self.recipe, self.data, self.target)

    def study_statistics(
        self,
        chosen: str,
        predictions: Mapping[str, Predictions],
        examples: Mapping[str, Sequence[Mapping[str, Any]]],
        judged: str,
        metric: Metric,
        random: bool,
    ) -> dict[str, Any]:
        if not isinstance(self.target, Classes):
            return {}
        return statistics_of_predictions(chosen, predictions, examples, judged, metric, random, self.target.labels)

    def prediction_seconds(self, checkpoint: Checkpoint, inputs: LabelledInputs, device: torch.device) -> float | None:
        dataset = self.data.dataset
        e = dataset.dev if dataset.dev is not None and len(dataset.dev) else dataset.train
        few = e.take(list(range(0, len(e), -(-len(e) // _TIMED))))
        table, tokenizer, transformer = self.recipe.training, checkpoint.tokenizer, checkpoint.transformer
        assert tokenizer is not None
        chunked, segments = table.long_texts == "chunk", transformer.shape.segments > 1
        started = time.perf_counter()
        items: Sequence[Item]
        if transformer.head_shapes[self.task].pairs == "joint":
            items = encode_texts(tokenizer, few.inputs, table.max_length, chunked, segments)
        else:
            items = encode_pairs(tokenizer, cast(Any, few.inputs), table.max_length)
        encoding = time.perf_counter() - started
        return (encoding + TextReader(transformer, device).seconds(items, self.task)) * 1000 / len(items)


def evaluation_of(
    data: LabelledData, target: Target, name: str, answers: Floats, scores_nk: Floats | None = None
) -> Evaluation:
    """Evaluate probabilities (n, k), or numbers (n), on a set."""
    e = data.splits[name]
    parsed = target.parse(e)
    gold = None if parsed is None else parsed.numpy()
    columns = {} if gold is None else target.columns(gold, answers)
    metrics = {} if gold is None else target.score(gold, answers)
    return Evaluation(metrics, e.rows, columns, target.header, lambda: target.lines(answers), scores_nk)


class LabelledBaselines(BaselineSet):
    """Guesses, the most common class (or the mean), and TF-IDF with a linear model."""

    def __init__(self, recipe: Recipe, data: LabelledData, target: Classes | Score) -> None:
        self.recipe, self.data, self.target = recipe, data, target
        self._tfidf: TfidfModel | None = None

    def scores(self) -> dict[str, dict[str, Any]]:
        """Return the scores, which depend on the data alone: one seed serves every run. They look at the test set
        whether or not a run may, since they are made once for all; a run that may not receives nothing of it."""
        data, target = self.data.dataset, self.target
        sets = {name: e for name, e in (("dev", data.dev), ("test", data.test)) if e is not None and len(e)}
        gold = {name: None if (t := target.parse(e)) is None else t.tolist() for name, e in sets.items()}
        train = target.parse(data.train)
        assert train is not None
        labels = target.labels if isinstance(target, Classes) else None
        wanted = self.recipe.evaluation.metric
        made, self._tfidf = baselines(
            data.train.texts,
            data.train.pairs,
            train.tolist(),
            {name: (e.texts, e.pairs, gold[name]) for name, e in sets.items()},
            None if labels is None else len(labels),
            0,
            labels,
            next((m for m in target.metrics if m.name == wanted), None),
        )
        for baseline in made.values():
            for name, columns in baseline["values"].items():
                fill_in(baseline[name], {key: np.asarray(column) for key, column in columns.items()}, target.metrics)
                columns["row"] = sets[name].rows
        primary = wanted if wanted != "auto" else target.metrics[0].name
        for baseline in (made[name] for name in made if name != "tfidf"):
            baseline["floor"] = all(baseline[name].get(primary) is not None for name in baseline["values"])
        size = sum(map(len, tfidf_files(self._tfidf).values()))
        made["tfidf"] |= {"tested": True, "model_bytes": size}
        return made

    def save(self, name: str, directory: Path) -> bool:
        if name != "tfidf":
            return False
        write_tfidf(directory, self._fitted())
        return True

    def evaluate(self, name: str, of: str) -> Evaluation | None:
        if name != "tfidf":
            return None
        e = self.data.splits[of]
        return evaluation_of(self.data, self.target, of, self._fitted().predict(e.texts, e.pairs))

    def _fitted(self) -> TfidfModel:
        if self._tfidf is None:
            self.scores()
        assert self._tfidf is not None
        return self._tfidf


def _check_metric(recipe: Recipe, target: Target, kind: str) -> None:
    wanted, fitting = recipe.evaluation.metric, [metric.name for metric in target.METRICS]
    if wanted not in ("auto", *fitting):
        raise RequestError(
            f'evaluation.metric = "{wanted}" does not go with {kind}; choose {", ".join(fitting)}, or "auto".'
        )
    if wanted == "f1" and isinstance(target, Classes) and len(target.labels) != 2:
        raise RequestError('evaluation.metric = "f1" is for two classes; use "macro_f1".')
