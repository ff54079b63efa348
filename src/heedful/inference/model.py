"""`Model`: what `heedful.load` returns for a transformer."""

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt
import torch

from heedful.checkpoints.adapter_directory import add_stored, stored_files
from heedful.checkpoints.adapters import ADAPTER_FILES
from heedful.checkpoints.directory import Checkpoint, write_files, write_model
from heedful.decoding.settings import Beam, Limits, Sampling, choose_method
from heedful.errors import RequestError
from heedful.inference.batching import rule_for
from heedful.inference.fusion_weights import text_weights
from heedful.inference.generation import Generated, OnText, TextGenerator, language_model_head
from heedful.inference.given_texts import check_batch_size, check_texts, columns_of
from heedful.inference.items import EncodedText, Item, encode_pairs, encode_texts
from heedful.inference.predictions import Predictions, TextFusionWeights
from heedful.inference.predictor import Named, Task
from heedful.inference.reader import TextReader
from heedful.models.adapters import activate
from heedful.models.composition import Average, Composition, Fuse, Stack, parse_composition, parts_of
from heedful.models.merging import Merged, merge, unmerge
from heedful.models.shape import Head, Shape, main_head
from heedful.models.transformer import Transformer, evaluating
from heedful.nn.heads import Reads
from heedful.storage.directories import replace_directory
from heedful.text.rows import list_texts
from heedful.text.tokenizer import Text, Tokenizer

Pooling = Literal["cls", "first", "mean", "max", "last"]
_WINDOW = 8192  # texts tokenised and sorted at a time, so that memory does not grow with the input


class Model(Named):
    """A transformer with its heads, the names of their labels, and its tokenizer."""

    kind = "a transformer"

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
    def tasks(self) -> tuple[Task, ...]:
        """`predict` for each head with labels, `encode`, and `generate` if there is a language-model head."""
        tasks = []
        for name, shape in self.transformer.head_shapes.items():
            if shape.labels:
                pairs = {None: "texts or pairs", True: "pairs", False: "texts"}[shape.of_pairs]
                tasks.append(Task("predict", cast(Any, pairs), name, shape.labels))
        tasks.append(Task("encode", "texts or pairs"))
        head = language_model_head(self.transformer)
        return (*tasks, *([] if head is None else [Task("generate", "prompts", head)]))

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
            raise RequestError(f"{self.source}: has no tokenizer. Put tokenizer.json or vocab.txt into its directory.")
        return self.checkpoint.tokenizer

    @property
    def max_length(self) -> int:
        """The most tokens that one text may have, special tokens included."""
        longest = self.shape.longest
        stated = self.checkpoint.tokenizer.max_length if self.checkpoint.tokenizer else None
        return min(longest, stated or longest)

    def generation_setting(self, key: str) -> tuple[str, Any]:
        """Return the file that may say how the model is meant to continue texts, and what it says of this key."""
        return self.checkpoint.generation_setting(key)

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
            activate(self.transformer, composition_of(adapters))

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
            files = stored_files(self.checkpoint, composition_of(name), head)
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

    def fusion_weights(self, texts: Iterable[Text]) -> TextFusionWeights:
        """Which adapter the fusion in use takes for each text, layer by layer."""
        rows = check_texts(texts, self.source, pairs=None, verb="fusion_weights")
        fuses = [part for part in parts_of(self.active or "") if isinstance(part, Fuse)]
        if self.active is None or len(fuses) != 1:
            raise RequestError(f"{self.source}: no fusion is in use; activate one, such as fuse(a, b).")
        second = columns_of(rows)[1]
        if second and len(second) != len(rows):
            raise RequestError("fusion_weights takes texts, or pairs of texts, not both.")
        items = encode_texts(self.tokenizer, rows, self.max_length, segments=self.shape.segments > 1)
        with evaluating(self.transformer):
            found = text_weights(self._reader, items, self.active)
        none = np.empty((0, 0, len(fuses[0].names)), dtype=np.float32)
        weights = np.stack([w.numpy() for w in found.values()], axis=1) if found else none
        return TextFusionWeights(fuses[0].names, tuple(found), weights)

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
        rows: list[Text] = list_texts(texts, "encode")
        self._check_pooling(pooling)
        limit = self.max_length if max_length is None else max_length
        if not isinstance(limit, int) or not 1 <= limit <= self.max_length:
            raise RequestError(
                f"max_length={max_length} is not between 1 and the {self.max_length} that the model can read."
            )
        reads: Reads = "pooled" if pooling == "cls" else pooling
        rule = rule_for(self._device, check_batch_size(batch_size))
        features = np.empty((len(rows), self.shape.width), dtype=np.float32)
        cut = 0
        with evaluating(self.transformer):
            for start in range(0, len(rows), _WINDOW):
                items = self._encoded(rows[start : start + _WINDOW], start, limit)
                self._reader.all_features(items, reads, features[start : start + _WINDOW], rule)
                cut += sum(item.truncated for item in items)
        if cut and max_length is None:
            warnings.warn(
                f"{cut} of {len(rows)} texts are longer than the {limit} tokens that the model can read and were cut; "
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
    ) -> Predictions:
        """A label and the probability of every class for each text or pair, in their order; a score for a regression.

        Texts beyond the length that the model was trained with are cut or read in chunks, as they were in training.
        `head`: which classifier, where the model has several; default: "classify", or the only one. Probabilities are
        calibrated, as the head was after training; `raw` gives them as they were before that. `adapters`: others than
        those through which the head was trained to read.
        """
        name = self._classifier(head)
        shape, composed = self.transformer.head_shapes[name], composition_of(adapters)
        towers = shape.pairs != "joint"
        rows = check_texts(texts, self.source, pairs=towers if towers or shape.chunked else None)
        rule = rule_for(self._device, check_batch_size(batch_size))
        self.transformer.through(name, composed)  # adapters through which it cannot read are refused first
        scores, cut = np.empty((len(rows), len(shape.labels))), 0
        with evaluating(self.transformer):
            for start in range(0, len(rows), _WINDOW):
                items = self._items(shape, rows[start : start + _WINDOW], start)
                scores[start : start + _WINDOW] = self._reader.all_scores(items, name, rule, composed).numpy()
                cut += sum(item.truncated for item in items)
        if raw:
            scores *= shape.temperature
        return Predictions.of_scores(shape.labels, scores, cut)

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
        repetition_penalty: float | None = None,
        no_repeat_ngram_size: int | None = None,
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

        `repetition_penalty` above 1 makes tokens of the prompt and the text less likely, and no sequence of
        `no_repeat_ngram_size` tokens occurs twice in them, both as in Hugging Face's `generate`. By default the model's
        generation_config.json decides.
        """
        method = choose_method(Sampling(temperature, top_k, top_p, seed), beam, n_best, length_penalty)
        writer = TextGenerator(self)
        limits = writer.limits(max_new_tokens, min_new_tokens, stop)
        repetition = writer.repetition(repetition_penalty, no_repeat_ngram_size)
        composed, texts = composition_of(adapters), writer.encode(prompts)
        return writer.write(texts, method, limits, batch_size, composed, on_text, repetition=repetition)

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

    def _items(self, head: Head, texts: Sequence[Text], first_row: int) -> Sequence[Item]:
        """Encode texts as a head reads them: each of a pair by itself, in chunks, or cut."""
        if head.pairs == "joint":
            return self._encoded(texts, first_row, self.max_length, head.chunked)
        pairs = cast("Sequence[tuple[str, str]]", texts)
        return encode_pairs(self.tokenizer, pairs, self.max_length, _row_from(first_row))

    def _encoded(
        self, texts: Sequence[Text], first_row: int, limit: int, chunked: bool = False
    ) -> Sequence[EncodedText]:
        segments = self.shape.segments > 1
        return encode_texts(self.tokenizer, texts, limit, chunked, segments, _row_from(first_row))

    @property
    def _device(self) -> torch.device:
        return self.transformer.body.embeddings.token.weight.device

    @property
    def _reader(self) -> TextReader:
        return TextReader(self.transformer, self._device)

    def _check_pooling(self, pooling: str) -> None:
        if pooling not in get_args(Pooling):
            raise RequestError(f"pooling={pooling!r} is unknown; choose {', '.join(get_args(Pooling))}.")
        if pooling == "cls" and self.transformer.body.pooler is None:
            raise RequestError(
                f"{self.source}: has no pooler, so pooling='cls' is not possible; choose 'first' or 'mean'."
            )


def _row_from(first: int) -> Callable[[int], str]:
    return lambda row: f"row {first + row} of the texts"


def composition_of(adapters: Composition | None) -> Composition | None:
    """Return adapters as a composition: a name, or one that is written such as "stack(a, b)"."""
    return adapters if adapters is None or isinstance(adapters, Stack | Fuse | Average) else parse_composition(adapters)
