"""A translator as it stands in a directory: the model, and the tokenizers of both sides."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import nn

from heedful.models.seq2seq.bert_fused import BertFusedSeq2Seq
from heedful.models.seq2seq.decoder_only import DecoderOnly
from heedful.models.seq2seq.recurrent import RecurrentSeq2Seq
from heedful.models.seq2seq.transformer import Seq2SeqTransformer
from heedful.storage.shared import SharedStore
from heedful.text.pairs import PairTokenizer
from heedful.text.tokenizer import Tokenizer

TranslationModel = Seq2SeqTransformer | RecurrentSeq2Seq | BertFusedSeq2Seq | DecoderOnly
SETTINGS_FILE = "generation_config.json"
SETTINGS = frozenset(
    [
        "num_beams",
        "length_penalty",
        "early_stopping",
        "max_length",
        "max_new_tokens",
        "min_length",
        "min_new_tokens",
        "bad_words_ids",
        "renormalize_logits",
        "forced_eos_token_id",
        "eos_token_id",
    ]
)
"""How a translator is meant to be decoded, where decoding asks: every layout keeps them, wherever they stood."""
REPETITION = frozenset(["repetition_penalty", "no_repeat_ngram_size"])
"""The same of how repetition is discouraged; config.json counts only where there is no generation_config.json."""
NEUTRAL: Mapping[str, Any] = {
    "do_sample": False,
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "penalty_alpha": 0.0,
    "guidance_scale": 1.0,
    "encoder_repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0,
    "token_healing": False,
    "forced_bos_token_id": None,
    "force_words_ids": None,
    "constraints": None,
    "sequence_bias": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "exponential_decay_length_penalty": None,
    "watermarking_config": None,
    "dola_layers": None,
    "stop_strings": None,
    "max_time": None,
}
"""Settings that would change what Hugging Face's `generate` finds and that decoding here does not know, each with the
value that leaves it out."""


@dataclass
class TranslatorCheckpoint:
    model: TranslationModel
    tokenizers: PairTokenizer
    bert_tokenizer: Tokenizer | None = None
    """Of the other body of a BERT-fused model."""
    family: str = "heedful"
    """In whose layout it is written: "marian", or "heedful", our own."""
    sources: dict[str, str] = field(default_factory=dict)
    """Where each tensor came from: file and name there, or "new"."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Keys of config.json that do not concern the computation, kept for saving."""
    generation: dict[str, Any] = field(default_factory=dict)
    """How it is meant to be decoded, as generation_config.json says: `num_beams`, `max_length`, …"""
    source: str = ""
    """What the user called the model."""

    @property
    def module(self) -> nn.Module:
        return self.model

    @property
    def tokenizer_fingerprint(self) -> str:
        """Equal where every text has the same ids on each side."""
        sides = [self.tokenizers.source, self.tokenizers.target]
        sides += [self.bert_tokenizer] if self.bert_tokenizer is not None else []
        return " ".join(tokenizer.fingerprint for tokenizer in sides)

    def copied(self) -> "TranslatorCheckpoint":
        """With weights of its own, so that training can go on with these; tokenizers are the same objects."""
        return replace(
            self,
            model=copy.deepcopy(self.model),
            sources=dict(self.sources),
            extra=copy.deepcopy(self.extra),
            generation=copy.deepcopy(self.generation),
        )

    def setting(self, key: str) -> Any:
        """One of `SETTINGS`, `REPETITION` or `NEUTRAL`: what generation_config.json says, else config.json, where it
        was once; None if neither does."""
        assert key in SETTINGS | REPETITION or key in NEUTRAL, "a setting that layouts do not keep"
        return self.generation.get(key, self.extra.get(key))

    def place_of_setting(self, key: str) -> str:
        """The file that says it."""
        return str(Path(self.source) / (SETTINGS_FILE if key in self.generation else "config.json"))

    def write(self, directory: Path, shared: SharedStore | None = None, moved: bool = False) -> None:
        from heedful.checkpoints.translators.directory import write_translator

        write_translator(directory, self, shared, moved=moved)

    @property
    def begin_id(self) -> int:
        """What the decoder reads before a target's first token: as generation_config.json says, else config.json."""
        said = self.generation.get("decoder_start_token_id")
        said = self.extra.get("decoder_start_token_id") if said is None else said
        return self.tokenizers.begin_id if said is None else int(said)

    @property
    def end_id(self) -> int:
        return self.tokenizers.end_id

    @property
    def source_pad_id(self) -> int:
        """What fills a batch of sources; any token would do, as nobody looks at it."""
        return self.tokenizers.source.pad_id or 0

    @property
    def target_pad_id(self) -> int:
        return self.tokenizers.target.pad_id or 0
