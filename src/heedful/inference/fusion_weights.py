"""Which adapter a fusion takes for each text."""

from collections.abc import Sequence

import torch
from torch import Tensor

from heedful.inference.batching import batches, rule_for
from heedful.inference.items import EncodedText
from heedful.inference.reader import TextReader, collate
from heedful.models.adapters import FusionWeights, Place, in_use
from heedful.models.composition import Composition


def text_weights(
    reader: TextReader, texts: Sequence[EncodedText], fuse: Composition
) -> dict[tuple[Place, int], Tensor]:
    """Return the mean over the tokens of each text of the weight of each fused adapter, by place and layer from the
    bottom up. Only the first chunk of a long text is read."""
    means: dict[tuple[Place, int], Tensor] = {}
    seen: FusionWeights = {}
    through = in_use(reader.transformer, fuse, watch=seen)
    with torch.inference_mode():
        for rows in batches([len(text.chunks[0]) for text in texts], rule_for(reader.device)):
            some = [EncodedText(texts[i].chunks[:1], texts[i].segments, texts[i].truncated) for i in rows]
            batch, _ = collate(some, reader.transformer.shape.pad_id, reader.device)
            reader.transformer.body(batch, adapters=through)
            real_bt1 = (torch.ones_like(batch.ids_bt) if batch.real_bt is None else batch.real_bt)[:, :, None].float()
            for key, weights_btn in seen.items():
                mean_bn = ((weights_btn * real_bt1).sum(1) / real_bt1.sum(1)).float().cpu()
                means.setdefault(key, torch.empty(len(texts), mean_bn.shape[1]))[rows] = mean_bn
    return dict(sorted(means.items(), key=lambda item: (item[0][1], item[0][0])))
