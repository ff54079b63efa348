"""With which tokenizers a translator was saved, as hashes under config.json's key "heedful", in every layout: those of
another model are noticed, be they of the same size."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heedful.checkpoints.translators.checkpoint import TranslatorCheckpoint
from heedful.errors import RequestError
from heedful.storage.hashing import sha256_of
from heedful.text.tokenizer import Tokenizer

_VOCABULARIES, _PIECES = "vocabulary_hashes", "piece_hashes"
_OTHERWISE = {_VOCABULARIES: "the same id is another token", _PIECES: "it cuts texts into other pieces"}


def tokenizer_hashes(checkpoint: TranslatorCheckpoint) -> dict[str, dict[str, str]]:
    """By what is hashed, and by side: the tokens in the order of their ids; and the SentencePiece model, or what
    else cuts texts, where that is a file of its own."""
    sides = {"source": checkpoint.tokenizers.source, "target": checkpoint.tokenizers.target}
    if checkpoint.bert_tokenizer is not None:
        sides["BERT"] = checkpoint.bert_tokenizer
    pieces = {name: model for name, tokenizer in sides.items() if (model := _piece_model(tokenizer)) is not None}
    return {
        _VOCABULARIES: {name: tokenizer.vocabulary_hash for name, tokenizer in sides.items()},
        **({_PIECES: {name: sha256_of([model]) for name, model in pieces.items()}} if pieces else {}),
    }


def _piece_model(tokenizer: Tokenizer) -> bytes | None:
    """The content of the files that say how texts are cut; a side of Marian's has one of them."""
    files = tokenizer.own_files
    return (
        files.get(f"{tokenizer.side}.spm")
        if tokenizer.side
        else b"".join(files[name] for name in sorted(files)) or None
    )


def check_tokenizers(directory: Path, config: Mapping[str, Any], checkpoint: TranslatorCheckpoint) -> None:
    """Whether they are those with which it was saved. Directories that others wrote, and older ones, do not say."""
    path, note = directory / "config.json", config.get("heedful", {})
    if not isinstance(note, dict):
        raise RequestError(f"{path}: heedful is not an object; remove it.")
    for key, hashes in tokenizer_hashes(checkpoint).items():
        noted = note.get(key, {})
        if not isinstance(noted, dict):
            raise RequestError(f"{path}: heedful.{key} is not an object; remove it.")
        for side, found in hashes.items():
            if side in noted and noted[side] != found:
                raise RequestError(
                    f"{directory}: the tokenizer of the {side} is not the one with which this model was saved: "
                    f"{_OTHERWISE[key]}; put back the model's own (or, if you know better, remove heedful.{key} from "
                    "its config.json)."
                )
