"""The public contract in Python: `heedful.load` and what it returns."""

import contextlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from heedful.checkpoints.adapter_directory import add_stored, stored_files
from heedful.checkpoints.adapters import ADAPTER_FILES
from heedful.checkpoints.dialect import SLOTS
from heedful.checkpoints.directory import Checkpoint, read_model, write_files, write_model
from heedful.checkpoints.finding import find
from heedful.checkpoints.heads import NewHead
from heedful.checkpoints.tfidf import is_tfidf, read_tfidf, write_tfidf
from heedful.checkpoints.translators import is_translator, read_translator
from heedful.decoding.settings import Beam, Limits, Sampling, choose_method
from heedful.errors import RequestError
from heedful.evaluation.calibration import apply as probabilities
from heedful.evaluation.tfidf import TfidfModel
from heedful.findings import Study
from heedful.generating import Generated, OnText, Writer
from heedful.models.adapters import Merged, activate, merge, unmerge
from heedful.models.batch import Batch, pad
from heedful.models.composition import Average, Composition, Fuse, Stack, parse_composition, parts_of
from heedful.models.shape import HeadKind, Shape, main_head
from heedful.models.transformer import Transformer, evaluating
from heedful.objectives.texts import Item, TextReader, make_pairs, make_texts
from heedful.storage.directories import replace_directory
from heedful.text.tokenizer import Text, Tokenizer, Tokens, why_no_texts
from heedful.training.device import pick_device
from heedful.translating.translator import Translator
from heedful.tuning.fusion_use import text_weights

Pooling = Literal["cls", "first", "mean", "max", "last"]
_WINDOW = 8192  # texts tokenised and sorted at a time, so that memory does not grow with the input


def run(
    recipe: str | Path,
    *,
    settings: Sequence[str] = (),
    seeds: int | Sequence[int] | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    on: str | None = None,
) -> Study:
    """Run a recipe (a file, or a built-in name) with its seeds, or go on where an earlier call was stopped.

    It is in `out`, or in runs/NAME, or where that holds another study in the next of runs/NAME-2, runs/NAME-3, …
    `workers` runs are made at a time, in processes: here one if it is not said, on a cluster as many as it has cores.
    `on` is "ray" or "ray://HOST:PORT" for a cluster. In a script that torchrun starts, all processes call it, and each
    run is made by all of them together.
    """
    from heedful.recipes.reading import read_recipe
    from heedful.report.study import write_reports
    from heedful.studies.executors import assist, dismiss, executor_for
    from heedful.studies.plan import plan_recipe
    from heedful.studies.study import free_place, raise_failures, run_study

    finished = assist()
    if finished is not None:
        return Study(Path(finished))
    name = Path(recipe).stem
    plan = plan_recipe(read_recipe(recipe, settings), name, range(seeds) if isinstance(seeds, int) else seeds)
    directory = Path(out) if out is not None else free_place(plan, Path("runs") / name)
    place = executor_for(on, workers if on is not None else workers or 1, len(plan.seeds) * len(plan.settings))
    study = run_study(plan, directory, **place._asdict())
    write_reports(directory)
    dismiss(directory)
    raise_failures(study)
    return Study(directory)


def load(
    source: str | Path,
    *,
    revision: str | None = None,
    new_head: HeadKind | None = None,
    labels: Sequence[str] = (),
    head: str | None = None,
    keep_heads: bool = False,
    body_only: bool = False,
    family: str | None = None,
    seed: int = 0,
    device: str | torch.device = "cpu",
) -> "Predictor":
    """A model from a directory, a name that `heedful models` lists, or a hub id (looked for in this order). The TF-IDF
    model of a study is a `WordModel`, which can predict and nothing else; a model that goes from a source to a target
    is a `Translator`; all others are a `Model`.

    Every stored tensor must have a home in the model and every part of the model a tensor. Two exceptions can be asked
    for: `new_head` (with `labels` for a classifier) puts a fresh head, drawn from `seed`, in the place of those stored,
    or with `keep_heads` beside them, under the name `head` (default: "classify" for a classifier); `body_only` leaves
    heads away. `family` helps an old directory whose config.json does not name its model_type.
    """
    place = pick_device(device, "device")
    if isinstance(labels, str) or not all(isinstance(name, str) for name in labels):
        raise RequestError("labels is not a list of names.")
    if new_head is None and (labels or head is not None):
        raise RequestError("labels and head belong to a new_head; leave them out, or say which new_head it is.")
    directory = find(source, revision)
    if is_translator(directory):
        if new_head is not None or keep_heads or body_only or family is not None:
            raise RequestError(f"{source}: is a translator, which has no heads; leave new_head and body_only out.")
        return _translator(directory, source, place)
    if is_tfidf(directory):
        if new_head is not None or keep_heads or body_only or family is not None:
            raise RequestError(f"{source}: is a TF-IDF model, which has no transformer; it can only predict.")
        return WordModel(read_tfidf(directory), str(source))
    new_heads = {}
    if new_head is not None:
        new_heads[head or SLOTS.get(new_head, "classify")] = NewHead(new_head, tuple(labels))
    checkpoint = read_model(directory, new_heads, keep_heads, body_only, family, seed)
    checkpoint.transformer.to(place)
    checkpoint.source = Path(source).name if Path(source).exists() else str(source)
    return Model(checkpoint, str(source))


def _translator(directory: Path, source: str | Path, place: torch.device) -> Translator:
    read = read_translator(directory)
    read.model.to(place)
    read.source = str(source)
    return Translator(read, str(source))


class Model:
    """A transformer with its heads, the names of their labels, and its tokenizer."""

    def __init__(self, checkpoint: Checkpoint, source: str) -> None:
        self.checkpoint = checkpoint
        self.source = source
        self._merged: Merged | None = None
        self._merged_sources: dict[str, str] = {}

    @property
    def transformer(self) -> Transformer:
        return self.checkpoint.transformer

    @property
    def shape(self) -> Shape:
        return self.checkpoint.transformer.shape

    @property
    def labels(self) -> tuple[str, ...]:
        """Of the head "classify", or of the only head with labels."""
        name = main_head(self.transformer.head_shapes)
        return () if name is None else self.transformer.head_shapes[name].labels

    @property
    def of_pairs(self) -> bool | None:
        """Whether the head that `predict` uses was trained on pairs of texts; None if the model does not say."""
        name = main_head(self.transformer.head_shapes)
        return None if name is None else self.transformer.head_shapes[name].of_pairs

    @property
    def tokenizer(self) -> Tokenizer:
        if self.checkpoint.tokenizer is None:
            raise RequestError(f"{self.source}: has no tokenizer; put tokenizer.json or vocab.txt beside its weights.")
        return self.checkpoint.tokenizer

    @property
    def max_length(self) -> int:
        """The most tokens that one text may have, special tokens included."""
        longest = self.shape.longest
        stated = self.checkpoint.tokenizer.max_length if self.checkpoint.tokenizer else None
        return min(longest, stated or longest)

    def save(self, directory: str | Path) -> None:
        """Write a model directory in one step: a crash leaves what was there before, or the whole new directory."""
        write_model(Path(directory).expanduser(), self.checkpoint)

    # Adapters

    @property
    def adapters(self) -> tuple[str, ...]:
        """The names of those that the model has."""
        return tuple(self.transformer.adapters)

    @property
    def active(self) -> Composition | None:
        """The adapters that `encode` and probes use: at first those of the main head. `predict` uses the head's own."""
        return self.transformer.active

    def activate(self, adapters: Composition | None) -> None:
        """Use these adapters from now on, and no others: a name, a composition or one that is written, such as
        "stack(a, fuse(b, c))"; None: none."""
        with self._naming_merged():
            activate(self.transformer, _composed(adapters))

    def load_adapter(
        self, source: str | Path, name: str | None = None, head: str | bool = True, revision: str | None = None
    ) -> str:
        """Add an adapter, or the fusion of adapters that are there: a directory as AdapterHub, PEFT or heedful writes
        it, that of a model with one adapter, or a hub id. Returns its name.

        Its head, if it has one, is added under the adapter's name, or under another (`head`); False leaves it away.
        """
        checkpoint = self.checkpoint
        with self._naming_merged():
            added, sources = add_stored(self.transformer, checkpoint.family, source, name, head, revision)
        checkpoint.sources |= sources
        return added

    def save_adapter(self, directory: str | Path, name: str, head: str | bool = True) -> None:
        """Write one adapter, or a fusion named as in "fuse(a, b)", as a small directory that AdapterHub or PEFT reads,
        with the head that reads through it (`head`: which, if there are several; False: none)."""
        target = Path(directory).expanduser()
        with self._naming_merged():
            files = stored_files(self.checkpoint, _composed(name), head)
        replace_directory(target, lambda into: write_files(files, into), ADAPTER_FILES)

    def merge(self) -> None:
        """Make the low-rank adapters in use a part of the weights; `unmerge` undoes it to the bit."""
        if self._merged is not None:
            raise RequestError(
                "adapters were merged already; undo that with unmerge() first, or save and load the model."
            )
        self._merged = merge(self.transformer)
        gone = tuple(f"adapters.{name}." for name in self._merged.adapters)
        sources = self.checkpoint.sources
        self._merged_sources = {name: sources.pop(name) for name in list(sources) if name.startswith(gone)}

    @contextlib.contextmanager
    def _naming_merged(self) -> Iterator[None]:
        """Adapters that were merged are no longer there, which is why others may be refused."""
        try:
            yield
        except RequestError as error:
            if self._merged is None:
                raise
            merged = ", ".join(self._merged.adapters)
            raise RequestError(f"{error} ({merged}: merged into the weights now; unmerge() undoes that.)") from None

    def unmerge(self) -> None:
        if self._merged is None:
            raise RequestError("nothing was merged, so there is nothing to undo.")
        unmerge(self.transformer, self._merged)
        self.checkpoint.sources |= self._merged_sources
        self._merged = None

    def fusion_weights(self, texts: Iterable[Text]) -> "FusionWeights":
        """Which adapter the fusion in use takes for each text, layer by layer."""
        rows = _checked(texts, self.source, pairs=None)
        fuses = [part for part in parts_of(self.active or "") if isinstance(part, Fuse)]
        if len(fuses) != 1:
            raise RequestError(f"{self.source}: no fusion is in use; activate one, such as fuse(a, b).")
        first, second = _columns(rows)
        if second and len(second) != len(first):
            raise RequestError("fusion_weights takes texts, or pairs of texts, not both.")
        segments = self.shape.segments > 1
        items = make_texts(self.tokenizer, first, second or None, self.max_length, segments=segments)
        with evaluating(self.transformer):
            assert self.active is not None
            found = text_weights(self._reader, items, self.active)
        none = np.empty((0, 0, len(fuses[0].names)), dtype=np.float32)
        weights = np.stack([w.numpy() for w in found.values()], axis=1) if found else none
        return FusionWeights(fuses[0].names, tuple(found), weights)

    def __repr__(self) -> str:
        s = self.shape
        return f"<heedful model {self.source}: {self.checkpoint.family}, {s.layers} layers of width {s.width}>"

    def encode(
        self,
        texts: Iterable[Text],
        pooling: Pooling = "mean",
        max_length: int | None = None,
        batch_size: int = 32,
    ) -> npt.NDArray[np.float32]:
        """Features (n, width), one row for each text or pair of texts, in their order.

        `pooling`: "cls" (the first state through the checkpoint's pooler, as Hugging Face does), "first", "mean", "max"
        or "last" state. How the texts are put in batches does not change the answer.
        """
        if isinstance(texts, str) or not isinstance(texts, Iterable):
            raise RequestError("encode takes a list of texts; put the one text in a list.")
        texts = list(texts)
        self._check_pooling(pooling)
        limit = self.max_length if max_length is None else max_length
        if not isinstance(limit, int) or not 1 <= limit <= self.max_length:
            raise RequestError(
                f"max_length={max_length} is not between 1 and the {self.max_length} that the model can read."
            )
        if not isinstance(batch_size, int) or batch_size < 1:
            raise RequestError(f"batch_size={batch_size!r} is not a whole number from 1.")
        features = np.empty((len(texts), self.shape.width), dtype=np.float32)
        cut = 0
        with torch.inference_mode(), evaluating(self.transformer):
            for start in range(0, len(texts), _WINDOW):
                window = self.tokenizer.encode(texts[start : start + _WINDOW], limit)
                for row, tokens in enumerate(window, start):
                    if not tokens.ids:
                        raise RequestError(
                            f"row {row} of the texts has no tokens, so it has no features; leave it out."
                        )
                    cut += tokens.truncated
                for rows, batch in self._batches(window, batch_size):
                    features[[start + r for r in rows]] = self._pooled(batch, pooling).float().cpu().numpy()
        if cut and max_length is None:
            warnings.warn(
                f"{cut} of {len(texts)} texts are longer than the {limit} tokens that the model can read and were cut; "
                "give max_length to say that this is meant.",
                stacklevel=2,
            )
        return features

    def predict(
        self,
        texts: Iterable[Text],
        batch_size: int = 32,
        head: str | None = None,
        raw: bool = False,
        adapters: Composition | None = None,
    ) -> "Predictions":
        """A label and the probability of every class for each text or pair, in their order; a score for a regression.

        Texts beyond the length that the model was trained with are cut or read in chunks, as they were in training.
        `head`: which classifier, where the model has several; default: "classify", or the only one. Probabilities are
        calibrated, as the head was after training; `raw` gives them as they were before that. `adapters`: others than
        those through which the head was trained to read.
        """
        name = self._classifier(head)
        shape = self.transformer.head_shapes[name]
        labels, towers = shape.labels, shape.pairs != "joint"
        texts = _checked(texts, self.source, pairs=towers if towers or shape.chunked else None)
        if not isinstance(batch_size, int) or batch_size < 1:
            raise RequestError(f"batch_size={batch_size!r} is not a whole number from 1.")
        tokenizer = self.tokenizer
        scores = np.empty((len(texts), len(labels)))
        cut = 0
        composed = _composed(adapters)
        self.transformer.through(name, composed)  # adapters through which it cannot read are refused first
        with torch.inference_mode(), evaluating(self.transformer):
            for start in range(0, len(texts), _WINDOW):
                if towers or shape.chunked:
                    items = self._items(towers, texts[start : start + _WINDOW])
                    scores[start : start + _WINDOW] = self._reader.all_scores(items, name, batch_size, composed).numpy()
                    cut += sum(item.truncated for item in items)
                    continue
                window = tokenizer.encode(texts[start : start + _WINDOW], self.max_length)
                for row, tokens in enumerate(window, start):
                    if not tokens.ids:
                        raise RequestError(f"row {row} of the texts has no tokens, so it has no answer; leave it out.")
                    cut += tokens.truncated
                for rows, batch in self._batches(window, batch_size):
                    scores[[start + r for r in rows]] = (
                        self.transformer(name, batch, adapters=composed).cpu().double().numpy()
                    )
        if raw:
            scores *= shape.temperature
        return Predictions.of_scores(labels, scores, cut)

    def generate(
        self,
        prompts: Iterable[str],
        max_new_tokens: int = Limits.max_new_tokens,
        temperature: float = Sampling.temperature,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = Sampling.seed,
        stop: Iterable[str | int] = (),
        min_new_tokens: int = Limits.min_new_tokens,
        batch_size: int = 16,
        adapters: Composition | None = None,
        on_text: OnText | None = None,
        beam: int | None = None,
        n_best: int = Beam.n_best,
        length_penalty: float = Beam.length_penalty,
    ) -> Generated:
        """Go on with each prompt, drawing from the next token's distribution: divided by `temperature`, of that the
        `top_k` likeliest tokens, of those the nucleus of probability `top_p`. `temperature` 0 takes the likeliest.

        Draws depend on (seed, row of the prompt, token number) alone, so batches do not change the texts. A text ends
        with the end-of-text token, with one of `stop` (ids, or texts that are one token), after `max_new_tokens`, or
        when it is as long as the model can read. The prompt "" is the beginning of a text, where the model has a token
        for it. `adapters`: others than those through which the head reads. `on_text` is called with a row and each
        piece of its text as soon as it is there.

        `beam` draws nothing: beam search follows so many texts of each prompt and takes that with the best score, the
        sum of log-probabilities divided by (number of tokens)^`length_penalty`; `n_best` asks for more than one, which
        come as `Generated.n_best`.
        """
        method = choose_method(Sampling(temperature, top_k, top_p, seed), beam, n_best, length_penalty)
        writer = Writer(self)
        limits = writer.limits(max_new_tokens, min_new_tokens, stop)
        return writer.write(writer.encode(prompts), method, limits, batch_size, _composed(adapters), on_text)

    def _classifier(self, head: str | None) -> str:
        shapes = self.transformer.head_shapes
        labelled = [name for name, shape in shapes.items() if shape.labels]
        name = main_head(shapes) if head is None else head
        if not labelled:
            raise RequestError(f"{self.source}: has no classification head; train one with `heedful run`.")
        if name is None:
            raise RequestError(
                f"{self.source}: has several heads; say which: {', '.join(labelled)} (head=… in Python, --head on the "
                "command line)."
            )
        if name not in labelled:
            raise RequestError(f"{self.source}: head={head!r} is not one of its classifiers, {', '.join(labelled)}.")
        return name

    def _items(self, towers: bool, texts: Sequence[Text]) -> Sequence[Item]:
        """Pairs for a head that reads each of the two alone, or texts for one that reads them in chunks."""
        first, second = _columns(texts)
        if towers:
            return make_pairs(self.tokenizer, first, second, self.max_length)
        return make_texts(self.tokenizer, first, None, self.max_length, chunked=True)

    @property
    def _reader(self) -> TextReader:
        return TextReader(self.transformer, self.transformer.body.embeddings.token.weight.device)

    def _check_pooling(self, pooling: str) -> None:
        if pooling not in get_args(Pooling):
            raise RequestError(f"pooling={pooling!r} is unknown; choose {', '.join(get_args(Pooling))}.")
        if pooling == "cls" and self.transformer.body.pooler is None:
            raise RequestError(
                f"{self.source}: has no pooler, so pooling='cls' is not possible; choose 'first' or 'mean'."
            )

    def _batches(self, window: list[Tokens], size: int) -> Iterator[tuple[list[int], Batch]]:
        """Batches of similar length, padded on the right; the longest first, so that their memory is reused."""
        order = sorted(range(len(window)), key=lambda r: -len(window[r].ids))
        for at in range(0, len(order), size):
            rows = order[at : at + size]
            yield rows, self._collate([window[r] for r in rows])

    def _collate(self, tokens: list[Tokens]) -> Batch:
        device = self.transformer.body.embeddings.token.weight.device
        segments = [t.segments for t in tokens] if self.shape.segments > 1 else None
        return pad([t.ids for t in tokens], segments, self.shape.pad_id, device)

    def _pooled(self, batch: Batch, pooling: Pooling) -> Tensor:
        reads = "pooled" if pooling == "cls" else pooling
        return self.transformer.features(reads, batch, adapters=self.transformer.through(None))


class WordModel:
    """A TF-IDF model. It predicts as a `Model` does; of what needs a transformer it has nothing."""

    max_length = None
    """It reads texts of any length."""

    def __init__(self, tfidf: TfidfModel, source: str) -> None:
        self.tfidf = tfidf
        self.source = source

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes; ("score",) for a regression."""
        return self.tfidf.labels or ("score",)

    @property
    def of_pairs(self) -> bool:
        """Whether it was trained on pairs of texts."""
        return self.tfidf.pairs

    def predict(
        self,
        texts: Iterable[Text],
        batch_size: int = 32,
        head: str | None = None,
        raw: bool = False,
        adapters: Composition | None = None,
    ) -> "Predictions":
        """A label and the probability of every class for each text or pair, in their order; a score for a regression.
        It has neither heads nor adapters to choose from, and is as it was fitted: `raw` or not."""
        for what, given in (("head", head), ("adapters", adapters)):
            if given is not None:
                raise RequestError(
                    f"{self.source}: is a TF-IDF model, which has no {what.rstrip('s')}s; leave {what} out."
                )
        first, second = _columns(_checked(texts, self.source, self.tfidf.pairs))
        return Predictions(self.labels, self.tfidf.predict(first, second if self.tfidf.pairs else None), 0)

    def save(self, directory: str | Path) -> None:
        """Write a model directory in one step: a crash leaves what was there before, or the whole new directory."""
        write_tfidf(Path(directory).expanduser(), self.tfidf)

    def __repr__(self) -> str:
        return f"<heedful model {self.source}: TF-IDF, {len(self.tfidf.features.idf):,} words and pairs of words>"


Predictor = Model | WordModel | Translator


@dataclass(frozen=True)
class FusionWeights:
    """How much each adapter of a fusion counts, as means over the tokens of each text."""

    adapters: tuple[str, ...]
    layers: tuple[tuple[str, int], ...]
    """The place ("attention" or "feed_forward") and number of each layer with a fusion, from the bottom up."""
    weights: npt.NDArray[np.float32]
    """(texts, layers, adapters); the last axis adds up to 1."""


class Predictions:
    """`labels` (n) and `probabilities` (n, classes) with the classes' `names`; `scores` (n) alone for a regression."""

    def __init__(self, names: tuple[str, ...], answers: npt.NDArray[np.float64], truncated: int) -> None:
        """`answers`: probabilities (n, classes), or scores (n)."""
        self.names, self.truncated = names, truncated
        self.scores = answers if answers.ndim == 1 else None
        self.probabilities = np.ones((len(answers), 1)) if answers.ndim == 1 else answers
        self.labels = [names[i] for i in self.probabilities.argmax(axis=1)] if len(answers) else []

    @classmethod
    def of_scores(cls, names: tuple[str, ...], raw_nk: npt.NDArray[np.float64], truncated: int) -> "Predictions":
        return cls(names, raw_nk[:, 0] if len(names) == 1 else probabilities(raw_nk), truncated)


def _composed(adapters: Composition | None) -> Composition | None:
    return adapters if adapters is None or isinstance(adapters, Stack | Fuse | Average) else parse_composition(adapters)


def _checked(texts: Iterable[Text], source: str, pairs: bool | None) -> list[Text]:
    """What `predict` was given, as a list of texts and pairs; all of them pairs, or none, if the model knows which."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise RequestError("predict takes a list of texts; put the one text in a list.")
    rows = list(texts)
    if reason := why_no_texts(rows):
        raise RequestError(reason)
    if pairs is not None and any(isinstance(row, str) == pairs for row in rows):
        one, other = ("pairs of texts", "pairs") if pairs else ("single texts", "no pairs")
        raise RequestError(f"{source}: was trained on {one}; give it {other}.")
    return rows


def _columns(rows: Sequence[Text]) -> tuple[list[str], list[str]]:
    """The texts, or the first of each pair; and the second of each pair."""
    first = [row if isinstance(row, str) else row[0] for row in rows]
    return first, [row[1] for row in rows if not isinstance(row, str)]
