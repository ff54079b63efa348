"""`heedful.load`: from what the user calls a model to something that answers."""

from collections.abc import Sequence
from pathlib import Path

import torch

from heedful.checkpoints.dialect import SLOTS
from heedful.checkpoints.directory import read_model
from heedful.checkpoints.finding import find
from heedful.checkpoints.heads import NewHead
from heedful.checkpoints.tfidf import is_tfidf, read_tfidf
from heedful.checkpoints.translators import is_translator, read_translator
from heedful.errors import RequestError
from heedful.inference.device import pick_device
from heedful.inference.model import Model
from heedful.inference.predictor import why_not
from heedful.inference.translation.translator import Translator
from heedful.inference.word_model import WordModel
from heedful.models.shape import HeadKind

Classifier = Model | WordModel
Loaded = Classifier | Translator


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
) -> Loaded:
    """A model from a directory, a name that `heedful models` lists, or a hub id (looked for in this order). A
    study's TF-IDF baseline loads as a `WordModel`, a translation model as a `Translator`, all others as a `Model`; each
    says in `tasks` what it can do.

    Every stored tensor must have a home in the model and every part of the model a tensor. Two exceptions can be asked
    for: `new_head` (with `labels` for a classifier) puts a fresh head, drawn from `seed`, in the place of those stored,
    or with `keep_heads` beside them, under the name `head` (default: "classify" for a classifier); `body_only` leaves
    heads away. `family` helps an old directory whose config.json does not name its model_type.
    """
    device_of = pick_device(device, "device")
    if isinstance(labels, str) or not all(isinstance(name, str) for name in labels):
        raise RequestError("labels is not a list of names.")
    if new_head is None and (labels or head is not None):
        raise RequestError("labels and head need new_head. Remove them, or set new_head.")
    directory = find(source, revision)
    if is_translator(directory):
        if new_head is not None or keep_heads or body_only or family is not None:
            raise RequestError(f"{source}: is a translation model, which has no heads. Remove new_head and body_only.")
        translator = read_translator(directory)
        translator.model.eval().to(device_of)
        translator.source = str(source)
        return Translator(translator, str(source))
    if is_tfidf(directory):
        if new_head is not None or keep_heads or body_only or family is not None:
            raise RequestError(f"{source}: is a TF-IDF model, which has no transformer; it can only predict.")
        return WordModel(read_tfidf(directory), str(source))
    new_heads = {}
    if new_head is not None:
        new_heads[head or SLOTS.get(new_head, "classify")] = NewHead(new_head, tuple(labels))
    checkpoint = read_model(directory, new_heads, keep_heads, body_only, family, seed)
    checkpoint.transformer.eval().to(device_of)
    checkpoint.source = Path(source).name if Path(source).exists() else str(source)
    return Model(checkpoint, str(source))


def load_classifier(source: str | Path) -> Classifier:
    """Load a model that gives texts labels, or may at least be asked to; others are refused."""
    loaded = load(source)
    if isinstance(loaded, Translator):
        raise RequestError(why_not(loaded, "predict"))
    return loaded
