"""Small shapes of each family, and models whose weights are computed from their indices."""

from dataclasses import replace
from pathlib import Path

import torch

from heedful.models.shape import Head, Shape
from heedful.models.transformer import Transformer

GOLDENS = Path(__file__).parents[1] / "models" / "goldens.json"
SMALL = Shape(50, 12, 3, 3, 20, 16, segments=2, pooler=True)
SHAPES = {
    "bert": SMALL,
    "roberta": replace(SMALL, positions_from="pad", segments=1, positions=18, pad_id=1, norm_eps=1e-5),
    "distilbert": replace(SMALL, segments=0, pooler=False),
    "gpt2": replace(
        SMALL,
        causal=True,
        norm="pre",
        embedding_norm=False,
        narrow_residuals=True,
        segments=0,
        pooler=False,
        pad_id=None,
        activation="gelu_new",
    ),
}


def formula_model(shape: Shape, heads: dict[str, Head] | None = None) -> Transformer:
    """Weights computed from their index, so that no random generator can change them."""
    model = Transformer(shape, heads).double().eval()
    with torch.no_grad():
        for n, (_, p) in enumerate(sorted(model.named_parameters())):
            i = torch.arange(p.numel(), dtype=torch.float64)
            p.copy_((torch.sin(i * 12.9898 + n) * 0.4).view_as(p))
    return model
