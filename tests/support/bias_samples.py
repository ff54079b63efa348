"""A set of pairs, and models whose bias is known because it was put there."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from heedful.inference.predictions import Predictions
from heedful.probes.bias.pairs import Counterfactual, PairSet
from heedful.probes.models import Subject


def crossed(templates: int = 8, professions: int = 10, terms: int = 4, controls: bool = True) -> PairSet:
    """Texts such as "t3 p1 m2" and "t3 p1 f2"; the last half of the terms are names."""
    rows, within = [], []
    for t in range(templates):
        for p in range(professions):
            for g in range(terms):
                kind = "names" if g >= terms // 2 else "kinship"
                levels = {"template": f"template {t}", "profession": f"worker {p}", "term": f"m{g}/f{g}", "kind": kind}
                rows.append(Counterfactual(f"t{t} p{p} m{g}", f"t{t} p{p} f{g}", levels))
                if controls and kind == "names" and g % 2 == 0:
                    within += [
                        Counterfactual(f"t{t} p{p} {w}{g}", f"t{t} p{p} {w}{g + 1}", {**levels, "group": group})
                        for w, group in (("m", "men"), ("f", "women"))
                    ]
    return PairSet(
        "generated",
        "templates × professions × terms",
        ("men", "women"),
        tuple(rows),
        ("template", "profession", "term"),
        ("kind",),
        controls=tuple(within),
    )


class Planted:
    """p(good) is 0.5 + what the text's parts add + `bias` if it speaks of women, and noise that hangs on the text and
    the seed alone; other classes share the rest."""

    of_pairs: bool | None = False

    def __init__(self, bias: float, seed: int = 0, classes: int = 2, spread: float = 0.01) -> None:
        self.bias, self.seed, self.classes, self.spread = bias, seed, classes, spread

    def predict(self, texts: Sequence[Any]) -> Predictions:
        p = np.array([0.5 + self._noise(text) + (self.bias if " f" in text else 0.0) for text in texts])
        rest = (1 - p)[:, None] * np.full(self.classes - 1, 1 / (self.classes - 1))
        names = tuple(f"class {i}" for i in range(self.classes - 1))
        return Predictions((*names, "good"), np.concatenate([rest, p[:, None]], axis=1), 0)

    def _noise(self, text: str) -> float:
        draw = np.random.default_rng([self.seed, *text.encode()])
        return float(self.spread * draw.standard_normal())


class Scored(Planted):
    def predict(self, texts: Sequence[Any]) -> Predictions:
        return Predictions(("score",), 5 * super().predict(texts).probabilities[:, -1], 0)


def subject(name: str, *models: Any, random: bool = False) -> Subject:
    def loader(model: Any) -> Callable[[], Any]:
        return lambda: model

    return Subject(name, tuple((str(i), loader(model)) for i, model in enumerate(models)), random)
