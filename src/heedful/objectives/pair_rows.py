"""Sources and targets as token ids, and as what each kind of translator reads: one batch for each side.

Letters: b pairs, t target tokens, n target tokens of all pairs, v tokens in the target's vocabulary.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.checkpoints.translators import TranslatorCheckpoint
from heedful.data.check_results import count_of, listed
from heedful.data.records import Pairs
from heedful.inference.feature_files import write_features
from heedful.inference.items import EncodedText
from heedful.inference.reader import LowerStates, collate
from heedful.models.batch import Batch, pad
from heedful.models.body import Memory
from heedful.models.seq2seq.bert_fused import BertFusedSeq2Seq, BertFusedSource
from heedful.storage.shared import SharedStore
from heedful.text.tokenizer import Tokens

MOST_KEPT = 8 * 2**30
"""Bytes of another body's states that are kept in files; where there are more, they are computed in every step."""

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
    """What is longer on a side than so many tokens, the end token included, or than the other body of a BERT-fused
    model reads, is cut; or, of a `whole` set, left out."""
    encoded = checkpoint.tokenizers.encode(pairs.sources, pairs.targets, longest)
    other = _for_bert(checkpoint, pairs.sources)
    most = checkpoint.model.shape.bert.longest if isinstance(checkpoint.model, BertFusedSeq2Seq) else 0
    long = set(encoded.cut_sources) | set(encoded.cut_targets)
    of_bert = [i for i, one in enumerate(other) if one.truncated]
    if whole:
        of_bert = [i for i in of_bert if i not in long]
        reasons = {
            f"a side has more than {longest} tokens, training.max_length": sorted(long),
            f"the source has more than the {most} tokens that model.bert reads": of_bert,
        }
        said = [_left_out(name, why, [pairs.rows[i] for i in some]) for why, some in reasons.items() if some]
    else:
        said = encoded.said(name, pairs.rows, longest)
        if of_bert:
            many, rows = count_of(len(of_bert), "source is", "sources are"), [pairs.rows[i] for i in of_bert]
            said.append(f"{name}: {many} cut for model.bert, which reads {most} tokens ({_rows(rows)}).")
    gone = long | set(of_bert) if whole else set()
    kept = [i for i in range(len(pairs)) if i not in gone]
    return PairRows(
        [encoded.sources[i] for i in kept],
        [encoded.targets[i] for i in kept],
        [pairs.rows[i] for i in kept],
        [EncodedText([other[i].ids], None, other[i].truncated, (name, at)) for at, i in enumerate(kept)]
        if other
        else [],
        said,
        len(gone),
    )


def _for_bert(checkpoint: TranslatorCheckpoint, sources: Sequence[str]) -> list[Tokens]:
    """The sources as the other body of a BERT-fused model reads them; of other models nothing."""
    if checkpoint.bert_tokenizer is None:
        return []
    assert isinstance(checkpoint.model, BertFusedSeq2Seq)
    return checkpoint.bert_tokenizer.encode(sources, checkpoint.model.shape.bert.longest)


def _left_out(name: str, why: str, rows: Sequence[int]) -> str:
    return f"{name}: {count_of(len(rows), 'pair is', 'pairs are')} left out because {why} ({_rows(rows)})."


def _rows(rows: Sequence[int]) -> str:
    return f"{'row' if len(rows) == 1 else 'rows'} {listed(rows)}"


class Batcher:
    """Makes of some pairs of a set what the model is given."""

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
        """What the decoder reads, beginning with the start token; where its tokens are (b, t), and which follow (n)."""
        rows, begin = self.sets[name], self.checkpoint.begin_id
        targets = [rows.targets[i] for i in numbers]
        batch = pad([[begin, *ids[:-1]] for ids in targets], None, self.checkpoint.target_pad_id, device)
        real_bt = torch.ones_like(batch.ids_bt, dtype=torch.bool) if batch.real_bt is None else batch.real_bt
        return batch, real_bt, torch.tensor([i for ids in targets for i in ids], device=device)

    def scores(self, name: str, numbers: Sequence[int], device: torch.device) -> tuple[Tensor, Tensor]:
        """(n, v) of every target token of these pairs, the end token included, and which it is (n)."""
        model: Any = self.checkpoint.model
        batch, real_bt, gold_n = self.target(name, numbers, device)
        return model(self.source(name, numbers, device), batch)[real_bt], gold_n

    def keep_states(self, facts: Mapping[str, Any], store: SharedStore, device: torch.device) -> float:
        """Another body that does not move is computed once for every source; the seconds that it took, whoever did
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
            ids = hashlib.sha256(json.dumps([text.chunks for text in rows.bert]).encode()).hexdigest()
            key = {"states": [dict(facts), ids, str(device), torch.get_num_threads()]}
            with store.place(key) as folder:
                if not (folder / "features.npy").exists():
                    self._write(model, rows.bert, starts[name], folder, device)
                seconds += json.loads((folder / "seconds.json").read_text(encoding="utf-8"))
                arrays[name] = np.load(folder / "features.npy", mmap_mode="r", allow_pickle=False)
        self.states = LowerStates(arrays, starts, model.shape.bert.layers, device)
        return seconds

    def _write(
        self, model: BertFusedSeq2Seq, texts: Sequence[EncodedText], starts: Any, folder: Any, device: torch.device
    ) -> None:
        def fill(array: Any, numbers: list[int]) -> None:
            batch, _ = collate([texts[i] for i in numbers], model.shape.bert.pad_id, device)
            x_btd = model.bert_states(batch).states_bsm.float().cpu().numpy()
            for at, i in enumerate(numbers):
                array[int(starts[i]) : int(starts[i + 1])] = x_btd[at, : texts[i].tokens]

        model.bert.eval().to(device)
        write_features(folder, (int(starts[-1]), model.shape.bert.width), texts, fill)
