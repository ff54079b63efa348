"""Which adapter a fusion uses: the mean of its weights over tokens, by layer and by label."""

from collections.abc import Sequence
from typing import Any

from heedful.inference.fusion_weights import text_weights
from heedful.inference.items import EncodedText
from heedful.inference.reader import TextReader
from heedful.inputs.protocol import Inputs
from heedful.models.composition import Fuse

_MOST = 2000  # texts that are looked at


def fusion_use(reader: TextReader, fuse: Fuse, inputs: Inputs[Any]) -> dict[str, Any]:
    """What metrics.json says under "fusion": of the texts of each evaluation set, the mean weight of each adapter by
    place and layer, and the same by label where the labels are known. A text counts as much as any other."""
    found: dict[str, Any] = {}
    for name in inputs.data.sets():
        texts, labels = inputs.labelled_texts(name)
        if texts:
            found[name] = _of_texts(reader, texts[:_MOST], labels[:_MOST], fuse)
    return {"fusion": {"adapters": list(fuse.names), "sets": found}} if found else {}


def _of_texts(
    reader: TextReader, texts: Sequence[EncodedText], labels: Sequence[str | None], fuse: Fuse
) -> dict[str, Any]:
    layers = []
    known = sorted({label for label in labels if label is not None})
    for (place, layer), weights_xn in text_weights(reader, texts, fuse).items():
        by_label = {
            label: weights_xn[[i for i, own in enumerate(labels) if own == label]].mean(0).tolist() for label in known
        }
        layers.append({"place": place, "layer": layer, "weights": weights_xn.mean(0).tolist(), "by_label": by_label})
    return {"texts": len(texts), "layers": layers}
