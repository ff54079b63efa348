"""Sources and targets as token ids, and as what each kind of translator reads: one batch for each side.

Letters: b pairs, t target tokens, n target tokens of all pairs, v tokens in the target's vocabulary.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.building.translators import longest_text
from heedful.checkpoints.translators import TranslatorCheckpoint
from heedful.data.check_results import count_of, listed
from heedful.data.parallel import ParallelData
from heedful.data.records import Pairs
from heedful.errors import RequestError
from heedful.evaluation.translations import has_sacrebleu
from heedful.inference.feature_files import write_features
from heedful.inference.items import EncodedText
from heedful.inference.reader import LowerStates, TextReader, collate
from heedful.inputs.protocol import Inputs, Sampler, Setup, Step
from heedful.inputs.step_rows import EpochRows, padding_share
from heedful.models.batch import Batch, pad
from heedful.models.body import Memory
from heedful.models.flops import forward_flops
from heedful.models.seq2seq.bert_fused import BertFusedSeq2Seq, BertFusedSource
from heedful.models.seq2seq.flops import bert_fused_flops, decoder_only_flops, recurrent_flops, transformer_flops
from heedful.models.seq2seq.shape import BertFusedShape, RecurrentShape, Seq2SeqShape
from heedful.models.shape import Shape
from heedful.storage.hashing import sha256_of_json
from heedful.storage.shared import SharedStore
from heedful.text.tokenizer import Tokens

INSTALL = "To install it: pip install 'heedful[translate]'"
MOST_KEPT = 8 * 2**30
"""Bytes of another body's states that are kept in files; where there are more, they are computed in every step."""
_MUCH = 0.1
"""The share of training pairs that may be left out without a warning."""

Source = Batch | BertFusedSource


@dataclass(frozen=True)
class PairRows:
    """One set of pairs as ids, both sides ended by their end token."""

    sources: list[list[int]]
    targets: list[list[int]]
    rows: list[int]
    """The number of each pair in its file."""
    bert: list[EncodedText] = field(default_factory=list)
    """The sources in the tokens of another body; none where there is no such body."""
    too_long: list[str] = field(default_factory=list)
    """Sentences on what was cut, or left out."""
    left_out: int = 0
    """How many pairs were."""

    def __len__(self) -> int:
        return len(self.sources)


def encode_set(
    name: str, pairs: Pairs, checkpoint: TranslatorCheckpoint, longest: int, whole: bool = False
) -> PairRows:
    """Return the pairs as ids. What is longer on a side than so many tokens, the end token included, or than the other
    body of a BERT-fused model reads, is cut; or, of a `whole` set, left out."""
    encoded = checkpoint.tokenizers.encode(pairs.sources, pairs.targets, longest)
    of_bert = _for_bert(checkpoint, pairs.sources)
    most = checkpoint.model.shape.bert.longest if isinstance(checkpoint.model, BertFusedSeq2Seq) else 0
    long = set(encoded.cut_sources) | set(encoded.cut_targets)
    long_for_bert = [i for i, text in enumerate(of_bert) if text.truncated]
    if whole:
        long_for_bert = [i for i in long_for_bert if i not in long]
        reasons = {
            f"a side has more than {longest} tokens, training.max_length": sorted(long),
            f"the source has more than the {most} tokens that model.bert reads": long_for_bert,
        }
        notes = [_left_out(name, why, [pairs.rows[i] for i in places]) for why, places in reasons.items() if places]
    else:
        notes = encoded.said(name, pairs.rows, longest)
        if long_for_bert:
            many = count_of(len(long_for_bert), "source is", "sources are")
            rows = _rows([pairs.rows[i] for i in long_for_bert])
            notes.append(f"{name}: {many} cut for model.bert, which reads {most} tokens ({rows}).")
    gone = long | set(long_for_bert) if whole else set()
    kept = [i for i in range(len(pairs)) if i not in gone]
    return PairRows(
        [encoded.sources[i] for i in kept],
        [encoded.targets[i] for i in kept],
        [pairs.rows[i] for i in kept],
        [EncodedText([of_bert[i].ids], None, of_bert[i].truncated, (name, at)) for at, i in enumerate(kept)]
        if of_bert
        else [],
        notes,
        len(gone),
    )


def _for_bert(checkpoint: TranslatorCheckpoint, sources: Sequence[str]) -> list[Tokens]:
    """Return the sources as the other body of a BERT-fused model reads them; of other models nothing."""
    if checkpoint.bert_tokenizer is None:
        return []
    assert isinstance(checkpoint.model, BertFusedSeq2Seq)
    return checkpoint.bert_tokenizer.encode(sources, checkpoint.model.shape.bert.longest)


def _left_out(name: str, why: str, rows: Sequence[int]) -> str:
    return f"{name}: {count_of(len(rows), 'pair is', 'pairs are')} left out because {why} ({_rows(rows)})."


def _rows(rows: Sequence[int]) -> str:
    return f"{'row' if len(rows) == 1 else 'rows'} {listed(rows)}"


class Batcher:
    """Makes of pairs of a set what the model is given."""

    def __init__(self, checkpoint: TranslatorCheckpoint, sets: Mapping[str, PairRows]) -> None:
        self.checkpoint, self.sets = checkpoint, sets
        self.states: LowerStates | None = None

    def source(self, name: str, numbers: Sequence[int], device: torch.device) -> Source:
        rows = self.sets[name]
        batch = pad([rows.sources[i] for i in numbers], None, self.checkpoint.source_pad_id, device)
        if not rows.bert:
            return batch
        model, texts = self.checkpoint.model, [rows.bert[i] for i in numbers]
        assert isinstance(model, BertFusedSeq2Seq)
        other, _ = collate(texts, model.shape.bert.pad_id, device)
        if self.states is None:
            return BertFusedSource(batch, other)
        x_btd = self.states.below(texts, other.ids_bt.shape[1]).x_btd
        return BertFusedSource(
            batch, Memory(x_btd.to(device, next(model.translator.parameters()).dtype), other.real_bt)
        )

    def target(self, name: str, numbers: Sequence[int], device: torch.device) -> tuple[Batch, Tensor, Tensor]:
        """Return what the decoder reads, beginning with the start token; where its tokens are (b, t), and which follow
        (n)."""
        rows, begin = self.sets[name], self.checkpoint.begin_id
        targets = [rows.targets[i] for i in numbers]
        batch = pad([[begin, *ids[:-1]] for ids in targets], None, self.checkpoint.target_pad_id, device)
        real_bt = torch.ones_like(batch.ids_bt, dtype=torch.bool) if batch.real_bt is None else batch.real_bt
        return batch, real_bt, torch.tensor([i for ids in targets for i in ids], device=device)

    def scores(self, name: str, numbers: Sequence[int], device: torch.device) -> tuple[Tensor, Tensor]:
        """Return the scores (n, v) of every target token of these pairs, the end token included, and which it is
        (n)."""
        model: Any = self.checkpoint.model
        batch, real_bt, gold_n = self.target(name, numbers, device)
        return model(self.source(name, numbers, device), batch)[real_bt], gold_n

    def keep_states(self, model_key: Mapping[str, Any], store: SharedStore, device: torch.device) -> float:
        """Compute another body that does not move once for every source; return the seconds that it took, whoever did
        it."""
        model = self.checkpoint.model
        if not isinstance(model, BertFusedSeq2Seq) or not model.shape.frozen:
            return 0.0
        width, seconds = model.shape.bert.width, 0.0
        starts = {name: np.cumsum([0, *(t.tokens for t in rows.bert)]) for name, rows in self.sets.items()}
        if 4 * width * sum(int(start[-1]) for start in starts.values()) > MOST_KEPT:
            return 0.0
        arrays = {}
        for name, rows in self.sets.items():
            ids = sha256_of_json([text.chunks for text in rows.bert])
            key = {"states": [dict(model_key), ids, str(device), torch.get_num_threads()]}
            with store.place(key) as folder:
                if not (folder / "features.npy").exists():
                    self._write(model, rows.bert, starts[name], folder, device)
                seconds += json.loads((folder / "seconds.json").read_text(encoding="utf-8"))
                arrays[name] = np.load(folder / "features.npy", mmap_mode="r", allow_pickle=False)
        self.states = LowerStates(arrays, starts, model.shape.bert.layers, device)
        return seconds

    def _write(
        self, model: BertFusedSeq2Seq, texts: Sequence[EncodedText], starts: Any, folder: Path, device: torch.device
    ) -> None:
        def fill(array: Any, numbers: list[int]) -> None:
            batch, _ = collate([texts[i] for i in numbers], model.shape.bert.pad_id, device)
            x_btd = model.bert_states(batch).states_bsm.float().cpu().numpy()
            for at, i in enumerate(numbers):
                array[int(starts[i]) : int(starts[i + 1])] = x_btd[at, : texts[i].tokens]

        model.bert.eval().to(device)
        write_features(folder, (int(starts[-1]), model.shape.bert.width), texts, fill)


@dataclass(frozen=True)
class PairStep(Step):
    """Training pairs, by their places among those that are not too long."""

    batcher: Batcher

    @property
    def train(self) -> PairRows:
        return self.batcher.sets["train"]

    @property
    def target_tokens(self) -> int:
        return sum(len(self.train.targets[n]) for n in self.rows)

    def forward_flops(self, shape: Seq2SeqShape | RecurrentShape | BertFusedShape | Shape) -> int:
        source, target = ([len(side[n]) for n in self.rows] for side in (self.train.sources, self.train.targets))
        if isinstance(shape, BertFusedShape):
            bert = [self.train.bert[n].tokens for n in self.rows]
            return bert_fused_flops(shape, source, target, bert, kept=self.batcher.states is not None)
        if isinstance(shape, RecurrentShape):
            return recurrent_flops(shape, source, target)
        return (decoder_only_flops if isinstance(shape, Shape) else transformer_flops)(shape, source, target)  # type: ignore[arg-type]

    def where(self) -> str:
        rows = ", ".join(str(self.train.rows[n]) for n in self.rows[:8])
        return f"rows {rows} of the training set{' and others' if len(self.rows) > 8 else ''}"


class PairInputs(Inputs[ParallelData]):
    def __init__(self, data: ParallelData, checkpoint: TranslatorCheckpoint, setup: Setup) -> None:
        self.data, self.checkpoint, self.setup, self.training = data, checkpoint, setup, setup.recipe.training
        longest, most = self.training.max_length, longest_text(checkpoint.model)
        if most is not None and longest > most:
            raise RequestError(f"training.max_length = {longest}, but the model reads at most {most} tokens on a side.")
        self.sets = {
            name: encode_set(name, pairs, checkpoint, longest, whole=name == "train")
            for name, pairs in data.splits.items()
        }
        train = self.sets["train"]
        if not len(train):
            notes = " ".join(train.too_long)
            raise RequestError(f"every training pair is too long. {notes} Raise training.max_length, or cut the texts.")
        self.batcher, self.kept_seconds = Batcher(checkpoint, self.sets), 0.0
        self.source_lengths, self.target_lengths = list(map(len, train.sources)), list(map(len, train.targets))

    def row_batches(self) -> EpochRows:
        table = self.training
        return EpochRows(
            self.target_lengths, self.setup.seed, table.batch_size, table.batch_tokens, beside=self.source_lengths
        )

    def sampler(self) -> "PairSampler":
        return PairSampler(self)

    def step_of(self, numbers: Sequence[int]) -> PairStep:
        lengths = [self.source_lengths[n] + self.target_lengths[n] for n in numbers]
        return PairStep(numbers, lengths, self.batcher)

    def describe(self) -> dict[str, Any]:
        described = self.data.describe()
        notes = [*described.get("notes", []), *(note for rows in self.sets.values() for note in rows.too_long)]
        omitted = "" if has_sacrebleu() else f"BLEU and chrF are omitted, as sacreBLEU is not installed. {INSTALL}."
        warnings = list(filter(None, [omitted, self._much_left_out()]))
        described["sizes"] = {**described["sizes"], "train": len(self.sets["train"])}
        if warnings:
            described["warnings"] = warnings
        return {**described, **({"notes": notes} if notes else {})}

    def _much_left_out(self) -> str:
        """Return, in words, where so many training pairs are too long that another task is learned than was meant."""
        train, longest = self.sets["train"], self.training.max_length
        total = train.left_out + len(train)
        if train.left_out <= _MUCH * total:
            return ""
        other = ", or a source more than model.bert reads" if train.bert else ""
        many = f"{train.left_out:,} of {total:,} training pairs ({train.left_out / total:.0%})"
        return (
            f"{many} are left out, as a side has more than {longest} tokens{other}: the model learns from short texts "
            "alone; raise training.max_length, or cut the texts into sentences."
        )

    def compute_once(self, reader: TextReader) -> None:
        """Compute the states of another body that does not move."""
        self.kept_seconds = self.batcher.keep_states(self.setup.model_key, self.setup.store, reader.device)

    def spent_once(self) -> tuple[int, float]:
        shape = self.checkpoint.model.shape
        if self.batcher.states is None or not isinstance(shape, BertFusedShape):
            return 0, 0.0
        return forward_flops(shape.bert, [text.tokens for text in self.sets["train"].bert]), self.kept_seconds

    def statistics(self) -> dict[str, float]:
        sides = ([[n] for n in lengths] for lengths in (self.source_lengths, self.target_lengths))
        return {"padding_share": padding_share(self.row_batches().batches(0), *sides)}


class PairSampler(Sampler):
    def __init__(self, inputs: PairInputs) -> None:
        self.inputs, self.rows = inputs, inputs.row_batches()

    def step(self, number: int, done: float) -> PairStep:
        return self.inputs.step_of(self.rows.of_step(number))

    def epoch_steps(self, epoch: int) -> int:
        return self.rows.steps(epoch)

    def step_rows(self) -> float | None:
        return self.rows.mean_rows
