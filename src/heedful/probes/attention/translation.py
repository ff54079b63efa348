"""Where a translator looks in the source, as the views that `heedful probe attention` shows."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from heedful.errors import RequestError
from heedful.inference.translation.engine import collate
from heedful.inference.translation.translator import Translator
from heedful.models.batch import pad
from heedful.models.body import States
from heedful.models.seq2seq.bert_fused import BertFusedSeq2Seq
from heedful.models.seq2seq.decoder_only import DecoderOnly
from heedful.models.seq2seq.protocol import alignment
from heedful.models.seq2seq.transformer import Seq2SeqTransformer
from heedful.models.transformer import evaluating
from heedful.probes.attention.views import Attention, Token, view_weights
from heedful.text.tokenizer import Tokenizer

_NAME = ("memory", "The translation looking at the source")


def look(translator: Translator, source: str, target: str | None = None) -> Attention:
    """Every layer and head of a transformer; of recurrent networks, the weights that they have. Each token of the
    target stands at what was looked at while it was predicted. `target`: default is the model's own translation."""
    if not source.strip():
        raise RequestError("the source is empty. Pass a text with words.")
    notes = []
    given, ids = translator.encode_pair(source, target)
    if target is None:
        target = translator.tokenizers.decode(ids)
        notes.append("The translation is the model's own.")
    checkpoint = translator.checkpoint
    device = next(checkpoint.model.parameters()).device
    with torch.inference_mode(), evaluating(checkpoint.model):
        batch, _ = collate(checkpoint, [given])
        begun = pad([[checkpoint.begin_id, *ids[:-1]]], None, checkpoint.target_pad_id, device)
        layers = _layers(checkpoint.model, batch, begun)
    rows, columns = _tokens(translator.tokenizers.target, ids), _tokens(translator.tokenizers.source, given.ids)
    views, said = view_weights(layers, rows, columns, _NAME)
    if isinstance(checkpoint.model, DecoderOnly):
        said.append(
            "This model reads source and translation as one text: what is missing to 1 went to the translation."
        )
    return Attention(translator.source, (source, target), False, tuple(views), None, (*notes, *said))


def _layers(model: Any, source: Any, target: Any) -> Sequence[Tensor | None]:
    """(1, h, t, s) of each layer."""
    if isinstance(model, Seq2SeqTransformer | BertFusedSeq2Seq):
        inner = model.translator if isinstance(model, BertFusedSeq2Seq) else model
        encoded: Any = model.encode(source)
        states: States = inner.decoder(target, None, True, encoded)
        assert states.memory_weights is not None
        return states.memory_weights
    if isinstance(model, DecoderOnly):
        return model.source_weights(source, target)
    return [alignment(model, source, target)[:, None]]


def _tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[Token]:
    made = []
    for i in ids:
        piece, special = tokenizer.token(i), i in tokenizer.special_ids
        text = piece if special else tokenizer.decode([i]).strip() or "␣"
        made.append(Token(text, piece, None if special else 0, separator=special))
    return made
