"""Which adapter a fusion uses: the mean of its weights over tokens, by layer and by label."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from heedful.models.adapters import FusionWeights, Place, in_use
from heedful.models.composition import Composition, Fuse
from heedful.objectives.protocol import Objective
from heedful.objectives.texts import Text, TextReader, collate

_ROWS = 64
_MOST = 2000  # texts that are looked at


def fusion_use(reader: TextReader, fuse: Fuse, objective: Objective) -> dict[str, Any]:
    """What metrics.json says under "fusion": of the texts of each evaluation set, the mean weight of each adapter by
    place and layer, and the same by label where the labels are known. A text counts as much as any other."""
    found: dict[str, Any] = {}
    for name in objective.sets():
        texts, labels = objective.labelled_texts(name)
        if texts:
            found[name] = _of_texts(reader, texts[:_MOST], labels[:_MOST], fuse)
    return {"fusion": {"adapters": list(fuse.names), "sets": found}} if found else {}


def _of_texts(reader: TextReader, texts: Sequence[Text], labels: Sequence[str | None], fuse: Fuse) -> dict[str, Any]:
    layers = []
    known = sorted({label for label in labels if label is not None})
    for (place, layer), weights_xn in text_weights(reader, texts, fuse).items():
        by_label = {
            label: weights_xn[[i for i, own in enumerate(labels) if own == label]].mean(0).tolist() for label in known
        }
        layers.append({"place": place, "layer": layer, "weights": weights_xn.mean(0).tolist(), "by_label": by_label})
    return {"texts": len(texts), "layers": layers}


def text_weights(reader: TextReader, texts: Sequence[Text], fuse: Composition) -> dict[tuple[Place, int], Tensor]:
    """Return the mean over the tokens of each text of the weight of each fused adapter, by place and layer from the
    bottom up. Only the first chunk of a long text is read."""
    order = sorted(range(len(texts)), key=lambda i: -len(texts[i].chunks[0]))
    means: dict[tuple[Place, int], Tensor] = {}
    seen: FusionWeights = {}
    through = in_use(reader.transformer, fuse, watch=seen)
    with torch.inference_mode():
        for at in range(0, len(order), _ROWS):
            rows = order[at : at + _ROWS]
            some = [Text(texts[i].chunks[:1], texts[i].segments, texts[i].truncated) for i in rows]
            batch, _ = collate(some, reader.transformer.shape.pad_id, reader.device)
            reader.transformer.body(batch, adapters=through)
            real_bt1 = (torch.ones_like(batch.ids_bt) if batch.real_bt is None else batch.real_bt)[:, :, None].float()
            for key, weights_btn in seen.items():
                mean_bn = ((weights_btn * real_bt1).sum(1) / real_bt1.sum(1)).float().cpu()
                means.setdefault(key, torch.empty(len(texts), mean_bn.shape[1]))[rows] = mean_bn
    return dict(sorted(means.items(), key=lambda item: (item[0][1], item[0][0])))
