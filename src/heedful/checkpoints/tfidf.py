"""A TF-IDF model as a model directory: config.json, vocabulary.json, model.safetensors. Hugging Face refuses it by its
model_type; nothing in it is pickled, and nothing is believed unread."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from heedful.checkpoints.config import read_json, shown
from heedful.checkpoints.directory import MODEL_FILES, MODEL_FOLDERS
from heedful.checkpoints.named_tensors import Shapes, account_for, require_finite
from heedful.checkpoints.tensors import SAFETENSORS, existing, open_file
from heedful.errors import RequestError
from heedful.evaluation.features import LARGEST_VOCABULARY, TextFeatures
from heedful.evaluation.tfidf import Linear, TfidfModel
from heedful.storage.directories import replace_directory

MODEL_TYPE = "heedful-tfidf"
VOCABULARY = "vocabulary.json"
FORMAT = 1


def is_tfidf(directory: Path) -> bool:
    path = existing(directory, "config.json")
    return path is not None and read_json(path).get("model_type") == MODEL_TYPE


def tfidf_files(model: TfidfModel) -> dict[str, bytes]:
    """The files of the directory by their names."""
    linear = model.linear
    config = {
        "model_type": MODEL_TYPE,
        "heedful": {
            "format": FORMAT,
            "labels": list(model.labels),
            "seen": list(linear.seen),
            "pairs": model.pairs,
            "strength": model.strength,
        },
    }
    tensors = {"bias": linear.bias_k, "idf": model.features.idf, "shares": linear.shares_c, "weight": linear.weight_kf}
    return {
        "config.json": f"{json.dumps(config, indent=2, ensure_ascii=False)}\n".encode(),
        VOCABULARY: json.dumps(model.features.vocabulary).encode(),
        SAFETENSORS: save({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}),
    }


def write_tfidf(directory: Path, model: TfidfModel) -> None:
    """Into a directory that appears, or takes the place of an older model there, in one step."""

    def write(into: Path) -> None:
        for name, content in tfidf_files(model).items():
            (into / name).write_bytes(content)

    replace_directory(directory, write, MODEL_FILES, MODEL_FOLDERS)


def read_tfidf(directory: Path) -> TfidfModel:
    path = existing(directory, "config.json")
    if path is None:
        raise RequestError(f"{directory}: has no config.json, so it is not a model directory.")
    labels, seen, pairs, strength = _read_notes(path)
    vocabulary = _read_vocabulary(directory)
    rows = 1 if not labels else {1: 0, 2: 1}.get(len(seen), len(seen))
    expected = {
        "bias": (rows,),
        "idf": (len(vocabulary),),
        "shares": (len(labels),),
        "weight": (rows, TextFeatures.width(len(vocabulary), pairs)),
    }
    tensors = _read_tensors(directory, expected)
    linear = Linear(tensors["weight"].astype(np.float32), tensors["bias"], seen, tensors["shares"])
    return TfidfModel(labels, pairs, TextFeatures(vocabulary, tensors["idf"]), linear, strength)


def _read_notes(path: Path) -> tuple[tuple[str, ...], tuple[int, ...], bool, float]:
    notes = read_json(path).get("heedful")
    version = notes.get("format") if isinstance(notes, dict) else None
    if not isinstance(notes, dict) or type(version) is not int or version != FORMAT:
        raise RequestError(f"{path}: heedful.format is {shown(version)}, and this version reads {FORMAT}.")
    labels, seen, pairs, strength = (notes.get(key) for key in ("labels", "seen", "pairs", "strength"))
    if not isinstance(labels, list) or not all(isinstance(n, str) for n in labels) or len(set(labels)) != len(labels):
        raise RequestError(f"{path}: heedful.labels is not a list of different names.")
    numbers = set(range(len(labels)))
    if (
        not isinstance(seen, list)
        or not all(type(i) is int and i in numbers for i in seen)
        or sorted(set(seen)) != seen
        or bool(seen) != bool(labels)
    ):
        raise RequestError(f"{path}: heedful.seen is not a rising list of the numbers of some of its labels.")
    if not isinstance(pairs, bool):
        raise RequestError(f"{path}: heedful.pairs = {shown(pairs)} is neither true nor false.")
    if isinstance(strength, bool) or not isinstance(strength, int | float) or not 0 < strength <= sys.float_info.max:
        raise RequestError(f"{path}: heedful.strength = {shown(strength)} is not a positive floating-point number.")
    return tuple(labels), tuple(seen), pairs, float(strength)


def _read_vocabulary(directory: Path) -> list[str]:
    path = existing(directory, VOCABULARY)
    if path is None:
        raise RequestError(f"{directory}: has no {VOCABULARY}; restore it from its source.")
    try:
        words: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RequestError(f"{path}: cannot be read ({str(error).splitlines()[0]}); restore it.") from None
    fits = isinstance(words, list) and 0 < len(words) <= LARGEST_VOCABULARY and all(isinstance(w, str) for w in words)
    if not fits or len(set(words)) != len(words):
        raise RequestError(f"{path}: is not a list of 1 to {LARGEST_VOCABULARY} different words; restore it.")
    return list(words)


def _read_tensors(directory: Path, shapes: Shapes) -> dict[str, Any]:
    if existing(directory, SAFETENSORS) is None:
        raise RequestError(f"{directory}: has no weights; expected {SAFETENSORS}.")
    stored = open_file(directory, SAFETENSORS)
    fit = f"the TF-IDF model that config.json and {VOCABULARY} describe"
    account_for(directory, shapes, stored, fit, "restore the directory from its source")
    tensors = {name: tensor.read() for name, tensor in stored.items()}
    for name, values in tensors.items():
        require_finite(directory, stored[name], values.float())
    return {name: values.double().numpy() for name, values in tensors.items()}
