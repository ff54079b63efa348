"""Classify (or score) a text or a pair: cross-entropy over classes, or a score's squared error.

Letters: b texts, k classes, n examples of a set.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from heedful.checkpoints.directory import Checkpoint
from heedful.checkpoints.heads import NewHead
from heedful.checkpoints.tfidf import tfidf_files, write_tfidf
from heedful.data.examples import Dataset, Examples
from heedful.errors import RequestError
from heedful.evaluation.baselines import baselines
from heedful.evaluation.calibration import apply as probabilities
from heedful.evaluation.calibration import before_and_after, fit_temperature
from heedful.evaluation.metrics import (
    CLASS_METRICS,
    NUMBER_METRICS,
    Floats,
    Metric,
    class_columns,
    fill_in,
    number_columns,
)
from heedful.evaluation.scores import score_classes, score_numbers
from heedful.evaluation.statistics.classes import Predictions, statistics_of_predictions
from heedful.evaluation.tfidf import TfidfModel
from heedful.inference.items import (
    EncodedText,
    Item,
    encode_pairs,
    encode_texts,
    pack_pairs,
    pack_texts,
    texts_of,
    unpack_pairs,
    unpack_texts,
)
from heedful.inference.reader import TextReader, at_least_float32
from heedful.models.flops import forward_flops
from heedful.models.shape import Shape
from heedful.nn.heads import ONE_STATE, Reading, Reads
from heedful.objectives.loading import load_data
from heedful.objectives.protocol import Judgement, Objective, Partial, Reseed, Step
from heedful.objectives.rows import EpochRows, padding_share
from heedful.recipes.schema import ObjectiveTable, Recipe
from heedful.storage.shared import SharedStore
from heedful.streams import Parts, in_parts

HEAD = "classify"
"""What its head is called where it is the only task."""
TERM = "loss"
_ERRORS = 20
_TIMED = 128  # texts whose prediction is timed


class ClassifyTable(ObjectiveTable):
    kind: Literal["classify"] = "classify"
    """Give a text, or a pair of texts, one of several classes, or a score."""
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    """Share of the target that is spread over all classes."""
    class_weights: Literal["none", "balanced"] = "none"
    """"balanced" weighs each class by the inverse of its frequency in train."""


class Classify(Objective):
    Table = ClassifyTable
    METRICS = (*CLASS_METRICS.values(), *NUMBER_METRICS.values())
    CONVEX = True
    COLUMNS = True

    def __init__(self, recipe: Recipe, seed: int, data: Dataset, task: str = HEAD) -> None:
        """`task` is the name of its head, and tells its sets apart in a cache if it is one of several."""
        self.recipe, self.seed, self.data, self.task = recipe, seed, data, task
        splits = {"train": data.train, "dev": data.dev, "test": data.test if recipe.evaluation.test else None}
        self.splits: dict[str, Examples] = {name: e for name, e in splits.items() if e is not None and len(e)}
        self.targets = {name: t for name, e in self.splits.items() if (t := _targets(data, e)) is not None}
        self.class_weights: Tensor | None = None
        if self._table.class_weights == "balanced" and data.kind == "classes":
            self.class_weights = balanced_weights(self.targets["train"].tolist(), len(data.labels))
        self.items: dict[str, Sequence[Item]] = {}
        self.temperature: float | None = None
        self.tfidf: TfidfModel | None = None

    @property
    def _table(self) -> ClassifyTable:
        assert isinstance(self.recipe.objective, ClassifyTable)
        return self.recipe.objective

    # The data

    @staticmethod
    def check(recipe: Recipe) -> None:
        data = recipe.data
        if data.name is None and data.train is None:
            raise RequestError("[data] needs either name or train.")
        if data.train is not None and (data.text is None or data.label is None):
            raise RequestError("data.train needs data.text and data.label, the names of its columns.")
        if recipe.training.long_texts == "chunk" and data.pair is not None:
            raise RequestError('training.long_texts = "chunk" is for single texts, not for pairs.')

    @classmethod
    def read(cls, recipe: Recipe, seed: int, store: SharedStore, task: str = HEAD) -> "Classify":
        data = load_data(recipe.data, seed, store)
        if len(data.train) == 0:
            raise RequestError(f"{data.name}: there are no rows to train on.")
        if recipe.training.long_texts == "chunk" and data.train.pairs is not None:
            raise RequestError('training.long_texts = "chunk" is for single texts, not for pairs.')
        if recipe.model.pairs is not None and data.train.pairs is None:
            raise RequestError(
                "model.pairs says how pairs of texts are read, and these are single texts; leave it out."
            )
        _check_metric(recipe, data)
        table = recipe.objective
        assert isinstance(table, ClassifyTable)
        if data.kind == "score" and (table.label_smoothing or table.class_weights != "none"):
            raise RequestError("objective.label_smoothing and objective.class_weights are for classes, not for scores.")
        return cls(recipe, seed, data, task)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        if self.data.kind == "score":
            return tuple(NUMBER_METRICS.values())
        return tuple(m for m in CLASS_METRICS.values() if m.name != "f1" or len(self.data.labels) == 2)

    def description(self) -> dict[str, Any]:
        data = self.data
        return {
            "name": data.name,
            "kind": data.kind,
            "labels": list(data.labels),
            "pairs": self.has_pairs(),
            "sizes": {name: len(examples) for name, examples in self.splits.items()},
            "fingerprints": data.fingerprints,
            "hidden": list(data.hidden),
            "licence": data.licence,
            "contamination": data.contamination,
            "notes": data.notes,
            "checks": data.checks,
        }

    def examples(self, name: str) -> list[dict[str, Any]]:
        e = self.splits[name]
        gold: Sequence[Any] = e.labels or e.scores or [None] * len(e)
        pairs: Sequence[Any] = e.pairs or [None] * len(e)
        columns = zip(e.rows, gold, e.texts, pairs, strict=True)
        return [{"row": row, "gold": g, "text": text, "pair": pair} for row, g, text, pair in columns]

    def texts(self) -> Iterable[str]:
        return [*self.data.train.texts, *(self.data.train.pairs or [])]

    def has_pairs(self) -> bool:
        return self.data.train.pairs is not None

    # The model

    def heads(self, reading: Reading) -> Mapping[str, NewHead]:
        table, training = self.recipe.model, self.recipe.training
        labels = self.data.labels if self.data.kind == "classes" else ("score",)
        reads = reading.reads
        if table.recurrent is not None:
            reads = "every"
        elif table.pooling is not None:
            reads = "pooled" if table.pooling == "cls" else cast("Reads", table.pooling)
        pairs = table.pairs or reading.pairs if self.data.train.pairs is not None else "joint"
        chunked, network = training.long_texts == "chunk", (table.recurrent, table.rnn_width)
        return {self.task: NewHead(table.head, labels, reads, table.dropout, chunked, pairs, *network)}

    def prepare(self, checkpoint: Checkpoint, facts: Mapping[str, Any], store: SharedStore) -> None:
        table, tokenizer, shape = self.recipe.training, checkpoint.tokenizer, checkpoint.transformer.shape
        assert tokenizer is not None
        if table.max_length > shape.longest:
            raise RequestError(f"training.max_length = {table.max_length}, but the model reads {shape.longest} tokens.")
        chunked, segments = table.long_texts == "chunk", shape.segments > 1
        data, head = self.recipe.data, checkpoint.transformer.head_shapes[self.task]
        rows = [data.limit, data.fraction, self.seed if data.redraw else None]
        for name, e in self.splits.items():
            key = {**self._facts(facts), "rows": rows if name == "train" else None}
            if head.pairs == "joint":
                made = partial(encode_texts, tokenizer, e.inputs, table.max_length, chunked, segments)
                self.items[name] = unpack_texts(store.tensors(key, name, lambda made=made: pack_texts(made())))  # type: ignore[misc]
            else:
                apart = partial(encode_pairs, tokenizer, cast(Any, e.inputs), table.max_length)
                kept = store.tensors(key, f"{name}-apart", lambda apart=apart: pack_pairs(apart()))  # type: ignore[misc]
                self.items[name] = unpack_pairs(kept)
            for some in (texts_of(self.items[name]), self.items[name]):
                for i, item in enumerate(some):
                    item.cache_key = (self._place(name), i)
        self.one_read = head.reads in ONE_STATE
        self._order_rows([item.tokens for item in self.items["train"]])

    def _order_rows(self, lengths: Sequence[int]) -> None:
        table = self.recipe.training
        self.rows = EpochRows(lengths, self.seed, table.batch_size, table.batch_tokens)

    def _facts(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """What token ids depend on, but for the rows that are trained on."""
        table, data = self.recipe.training, self.recipe.data
        keys = data.model_dump(mode="json", exclude={"limit", "fraction", "redraw"})
        length = [table.max_length, table.long_texts]
        return {"model": dict(facts), "data": [self.data.fingerprints, keys], "length": length}

    def token_ids(self) -> Iterable[int]:
        return (i for text in self._texts() for chunk in text.chunks for i in chunk)

    def renumber(self, new_id: Sequence[int]) -> None:
        for text in self._texts():
            text.chunks = [[new_id[i] for i in chunk] for chunk in text.chunks]

    def _texts(self) -> list[EncodedText]:
        return texts_of(chain.from_iterable(self.items.values()))

    def cached_texts(self) -> Mapping[str, Sequence[EncodedText]]:
        return {self._place(name): texts_of(items) for name, items in self.items.items()}

    def _place(self, name: str) -> str:
        """What a cache calls the set: those of several tasks must not meet."""
        return name if self.task == HEAD else f"{name}-{self.task}"

    def labelled_texts(self, name: str) -> tuple[Sequence[EncodedText], Sequence[str | None]]:
        gold: Sequence[str | None] = self.splits[name].labels or [None] * len(self.items[name])
        texts = [(text, label) for item, label in zip(self.items[name], gold, strict=True) for text in texts_of([item])]
        return [text for text, _ in texts], [label for _, label in texts]

    def texts_are_cached(self) -> None:
        self._order_rows([1] * len(self.items["train"]))

    # A step

    def epoch_steps(self, epoch: int) -> int:
        return self.rows.steps(epoch)

    def step_rows(self) -> float | None:
        return self.rows.mean_rows

    def step(self, number: int) -> Step:
        return self._step(self.rows.of_step(number))

    def everything(self) -> Step:
        return self._step(range(len(self.items["train"])))

    def _step(self, rows: Sequence[int]) -> Step:
        return Step(rows, [len(chunk) for r in rows for chunk in self.items["train"][r].chunks])

    def counts(self, step: Step) -> dict[str, float]:
        return {TERM: float(self._weights(self.targets["train"][list(step.rows)]).sum())}

    def losses(
        self, reader: TextReader, step: Step, counts: Mapping[str, float], parts: Parts, reseed: Reseed
    ) -> Iterator[Partial]:
        for part, rows in in_parts(step.rows, parts):
            reseed(part)
            scores_bk = reader.scores([self.items["train"][r] for r in rows], self.task)
            loss = self.loss_sum(scores_bk, self.targets["train"][list(rows)].to(reader.device)) / counts[TERM]
            yield Partial(loss, {TERM: loss.detach()})

    def loss_sum(self, scores_bk: Tensor, targets_b: Tensor) -> Tensor:
        """Cross-entropy over classes, or a score's squared error, summed over the texts by their classes' weights."""
        scores_bk = at_least_float32(scores_bk)
        if self.data.kind == "score":
            return ((scores_bk[:, 0] - targets_b) ** 2).sum()
        smoothing = self._table.label_smoothing
        losses_b = F.cross_entropy(scores_bk, targets_b, reduction="none", label_smoothing=smoothing)
        return (losses_b * self._weights(targets_b)).sum()

    def _weights(self, targets_b: Tensor) -> Tensor:
        if self.class_weights is None:
            return torch.ones(len(targets_b), device=targets_b.device)
        return self.class_weights.to(targets_b.device)[targets_b]

    def forward_flops(self, step: Step, shape: Shape) -> int:
        return forward_flops(shape, step.lengths, [1] * len(step.lengths) if self.one_read else None)

    def where(self, step: Step) -> str:
        numbers = [self.data.train.rows[r] for r in step.rows]
        return f"rows {', '.join(map(str, numbers[:8]))}{' …' if len(numbers) > 8 else ''}"

    # How well it went

    def sets(self) -> dict[str, bool]:
        return {name: name in self.targets for name in self.splits if name != "train"}

    def judge(self, reader: TextReader, name: str) -> Judgement:
        scores_nk = reader.all_scores(self.items[name], self.task).numpy()
        answers = scores_nk[:, 0] if self.data.kind == "score" else probabilities(scores_nk)
        return self._judgement(name, answers, scores_nk)

    def _judgement(self, name: str, answers: Floats, scores_nk: Floats | None = None) -> Judgement:
        """Of probabilities (n, k), or of numbers (n)."""
        rows, labels = self.splits[name].rows, self.data.labels
        gold = self.targets[name].numpy() if name in self.targets else None
        if self.data.kind == "score":
            predicted_n = answers
            columns = {} if gold is None else number_columns(gold, predicted_n)
            metrics = {} if gold is None else fill_in(score_numbers(gold, predicted_n), columns, self.metrics)
            lines = [(f"{x:.6g}",) for x in predicted_n]
            return Judgement(metrics, rows, columns, ("score",), lambda: lines, scores_nk)
        p_nk = answers
        columns = {} if gold is None else class_columns(gold, p_nk)
        metrics = {} if gold is None else fill_in(score_classes(gold, p_nk, labels), columns, self.metrics)
        header = ("label", *(f"p:{label}" for label in labels))

        def predictions() -> Iterator[Sequence[str]]:
            return ((labels[int(p_k.argmax())], *(f"{p:.6f}" for p in p_k)) for p_k in p_nk)

        return Judgement(metrics, rows, columns, header, predictions, scores_nk)

    def judged_loss(self, judgement: Judgement, name: str) -> float | None:
        if judgement.raw is None or name not in self.targets:
            return None
        targets = self.targets[name]
        scores_nk = torch.from_numpy(judgement.raw).double()
        return float(self.loss_sum(scores_nk, targets) / self._weights(targets).sum())

    def calibrate(self, reader: TextReader) -> None:
        """The scores are divided by the temperature that dev asks for. Scores of a regression have none."""
        if self.data.kind == "classes" and "dev" in self.targets:
            scores_nk = reader.all_scores(self.items["dev"], self.task).numpy()
            self.temperature = fit_temperature(scores_nk, self.targets["dev"].tolist())
            reader.transformer.calibrate(self.task, self.temperature)

    def conclude(self, judgements: Mapping[str, Judgement]) -> dict[str, Any]:
        """The temperature, what it has changed, and the most confident errors."""
        if self.data.kind == "score":
            return {}
        raw = {name: j.raw for name, j in judgements.items() if name in self.targets and j.raw is not None}
        more: dict[str, Any] = {}
        if self.temperature is not None:
            more["temperature"] = self.temperature
            more["calibration"] = {
                name: before_and_after(scores_nk, self.targets[name].tolist(), self.temperature)
                for name, scores_nk in raw.items()
            }
        more["errors"] = [e for name, scores_nk in raw.items() for e in self._errors(name, probabilities(scores_nk))]
        return more

    def _errors(self, name: str, p_nk: Floats) -> list[dict[str, Any]]:
        """The most confident mistakes, worst first."""
        gold, labels, examples = self.targets[name].numpy(), self.data.labels, self.examples(name)
        wrong = np.flatnonzero(p_nk.argmax(axis=1) != gold)
        worst = wrong[np.argsort(-p_nk[wrong].max(axis=1), kind="stable")][:_ERRORS]
        return [
            {
                "split": name,
                **examples[i],
                "predicted": labels[int(p_nk[i].argmax())],
                "probability": float(p_nk[i].max()),
            }
            for i in map(int, worst)
        ]

    def baselines(self) -> dict[str, dict[str, Any]]:
        """They depend on the data alone: one seed serves every run. They look at the test set whether or not a run may,
        since they are made once for all; a run that may not is told nothing of it."""
        data = self.data
        sets = {name: e for name, e in (("dev", data.dev), ("test", data.test)) if e is not None and len(e)}
        gold = {name: None if (t := _targets(data, e)) is None else t.tolist() for name, e in sets.items()}
        classes = len(data.labels) if data.kind == "classes" else None
        wanted = self.recipe.evaluation.metric
        made, self.tfidf = baselines(
            data.train.texts,
            data.train.pairs,
            self.targets["train"].tolist(),
            {name: (e.texts, e.pairs, gold[name]) for name, e in sets.items()},
            classes,
            0,
            data.labels if classes else None,
            next((m for m in self.metrics if m.name == wanted), None),
        )
        for baseline in made.values():
            for name, columns in baseline["values"].items():
                fill_in(baseline[name], {key: np.asarray(column) for key, column in columns.items()}, self.metrics)
                columns["row"] = sets[name].rows
        primary = wanted if wanted != "auto" else self.metrics[0].name
        for baseline in (made[name] for name in made if name != "tfidf"):
            baseline["floor"] = all(baseline[name].get(primary) is not None for name in baseline["values"])
        size = sum(map(len, tfidf_files(self.tfidf).values()))
        made["tfidf"] |= {"tested": True, "model_bytes": size}
        return made

    def save_baseline(self, name: str, directory: Path) -> bool:
        if name != "tfidf":
            return False
        write_tfidf(directory, self._fitted_tfidf())
        return True

    def judge_baseline(self, name: str, of: str) -> Judgement | None:
        e = self.splits[of]
        return self._judgement(of, self._fitted_tfidf().predict(e.texts, e.pairs)) if name == "tfidf" else None

    def _fitted_tfidf(self) -> TfidfModel:
        if self.tfidf is None:
            self.baselines()
        assert self.tfidf is not None
        return self.tfidf

    def study_statistics(
        self,
        chosen: str,
        predictions: Mapping[str, Predictions],
        examples: Mapping[str, Sequence[Mapping[str, Any]]],
        judged: str,
        metric: Metric,
        random: bool,
    ) -> dict[str, Any]:
        if self.data.kind == "score":
            return {}
        return statistics_of_predictions(chosen, predictions, examples, judged, metric, random, self.data.labels)

    def finish(self, checkpoint: Checkpoint) -> None:
        if checkpoint.tokenizer is not None:  # what is beyond it was cut in training, and will be
            checkpoint.tokenizer.max_length = self.recipe.training.max_length
        heads = checkpoint.transformer.head_shapes
        heads[self.task] = replace(heads[self.task], of_pairs=self.data.train.pairs is not None)

    def prediction_seconds(self, checkpoint: Checkpoint, device: torch.device) -> float | None:
        e = self.data.dev if self.data.dev is not None and len(self.data.dev) else self.data.train
        some = e.take(list(range(0, len(e), -(-len(e) // _TIMED))))
        table, tokenizer, transformer = self.recipe.training, checkpoint.tokenizer, checkpoint.transformer
        assert tokenizer is not None
        chunked, segments = table.long_texts == "chunk", transformer.shape.segments > 1
        started = time.perf_counter()
        items: Sequence[Item]
        if transformer.head_shapes[self.task].pairs == "joint":
            items = encode_texts(tokenizer, some.inputs, table.max_length, chunked, segments)
        else:
            items = encode_pairs(tokenizer, cast(Any, some.inputs), table.max_length)
        reading = time.perf_counter() - started
        return (reading + TextReader(transformer, device).seconds(items, self.task)) * 1000 / len(items)

    def reading(self) -> dict[str, float]:
        chunk_lengths = [[len(chunk) for chunk in text.chunks] for text in self.items["train"]]
        return {
            "padding_share": padding_share(self.rows.batches(0), chunk_lengths),
            "truncated_share": sum(text.truncated for text in self.items["train"]) / len(self.items["train"]),
        }

    def sample(self, rows: int) -> "Classify":
        """So many rows of about the mean length: batches are made of rows of similar length."""
        train = self.data.train
        lengths = [len(text) + len(pair) for text, pair in train.identities()]
        mean = sum(lengths) / max(1, len(lengths))
        typical = sorted(sorted(range(len(lengths)), key=lambda i: abs(lengths[i] - mean))[:rows])
        few = replace(self.data, train=train.take(typical), dev=None, test=None)
        return Classify(self.recipe, self.seed, few, self.task)


OBJECTIVE = Classify


def balanced_weights(targets: Sequence[int], classes: int) -> Tensor:
    """n / (k · n_class): a class's weight is the inverse of its frequency, 1 on average over the rows."""
    counts = torch.bincount(torch.tensor(targets), minlength=classes).clamp(min=1)
    return len(targets) / (classes * counts.float())


def _targets(data: Dataset, examples: Examples) -> Tensor | None:
    """Class numbers, or scores; None where they are hidden."""
    if data.kind == "score":
        return None if examples.scores is None else torch.tensor(examples.scores, dtype=torch.float32)
    if examples.labels is None:
        return None
    number = {name: i for i, name in enumerate(data.labels)}
    return torch.tensor([number[label] for label in examples.labels])


def _check_metric(recipe: Recipe, data: Dataset) -> None:
    wanted = recipe.evaluation.metric
    fitting = NUMBER_METRICS if data.kind == "score" else CLASS_METRICS
    if wanted not in ("auto", *fitting):
        raise RequestError(
            f'evaluation.metric = "{wanted}" does not go with {data.kind}; choose {", ".join(fitting)}, or "auto".'
        )
    if wanted == "f1" and len(data.labels) != 2:
        raise RequestError('evaluation.metric = "f1" is for two classes; use "macro_f1".')
