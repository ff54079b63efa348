"""An objective, a tuning and a fit of a few texts, without a run's directory around them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heedful import plugins
from heedful.checkpoints.directory import Checkpoint
from heedful.data.examples import Dataset, Examples
from heedful.data.labelled import LabelledData
from heedful.evaluators.labelled import LabelledEvaluator
from heedful.inference.items import EncodedText
from heedful.inference.reader import TextReader
from heedful.inputs.labelled import HEAD, LabelledInputs, LabelledSampler
from heedful.inputs.protocol import Setup
from heedful.models.transformer import Transformer
from heedful.objectives.classify import Classify
from heedful.recipes.schema import Recipe
from heedful.storage.shared import SharedStore
from heedful.text.tokenizer import Tokenizer
from heedful.training.loop import Fit
from heedful.training.state import Progress
from heedful.tuning.protocol import Tuning, TuningContext
from tests.support.training_samples import sentences, tiny_recipe

CPU = torch.device("cpu")
CLASSES = 3
SEED = 5


def texts(count: int = 30) -> tuple[list[str], list[int]]:
    """The targets are far from balanced."""
    return [text for text, _ in sentences(count)], [0 if i % 5 < 3 else 1 if i % 5 == 3 else 2 for i in range(count)]


def dataset(
    rows: Sequence[str], targets: Sequence[float], dev: int = 0, kind: str = "classes", number: int = CLASSES
) -> Dataset:
    """Whole numbers as classes "0", "1", "2", or a score; the first `dev` rows are dev too."""
    classes = kind == "classes"
    examples = Examples(
        list(rows),
        None,
        [str(int(t)) for t in targets] if classes else None,
        None if classes else [float(t) for t in targets],
        list(range(1, len(rows) + 1)),
    )
    labels = tuple(map(str, range(number))) if classes else ()
    return Dataset("small", kind, labels, examples, examples.take(range(dev)) if dev else None, None)  # type: ignore[arg-type]


def recipe_of(how: str = "full", **tables: Any) -> Recipe:
    training = {**({} if how == "solved" else {"checkpoint_seconds": 1e6}), **tables.pop("training", {})}
    return tiny_recipe(Path("small"), {"name": "small"}, how, training=training, **tables)


@dataclass
class Small:
    objective: Classify
    inputs: LabelledInputs
    evaluator: LabelledEvaluator
    tuning: Tuning
    recipe: Recipe

    @property
    def items(self) -> list[EncodedText]:
        return self.inputs.items["train"]  # type: ignore[return-value]

    def scores(self, rows: Sequence[int]) -> Tensor:
        return self.tuning.reader.scores([self.items[r] for r in rows], HEAD)

    def fit(self, folder: Path, judge: Callable[[int], dict[str, Any]] | None = None, **more: Any) -> Fit:
        folder.mkdir(parents=True, exist_ok=True)
        return Fit(
            objective=self.objective,
            inputs=self.inputs,
            sampler=more.pop("sampler", None) or self.inputs.sampler(),
            evaluator=self.evaluator,
            tuning=self.tuning,
            training=self.recipe.training,
            seed=SEED,
            directory=folder,
            judge=judge,
            watch=lambda *_: None,
            should_stop=lambda: False,
            **more,
        )

    def train(self, folder: Path, judge: Callable[[int], dict[str, Any]] | None = None, **more: Any) -> Progress:
        """To the end, and put together as it would be saved."""
        progress = self.fit(folder, judge, **more).run()
        self.tuning.finish(progress.decay)
        return progress


def small(
    model: tuple[Transformer, Tokenizer],
    data: Dataset,
    recipe: Recipe,
    folder: Path,
    objective_class: type[Classify] = Classify,
    tuning_class: type[Tuning] | None = None,
) -> Small:
    transformer, tokenizer = model
    store = SharedStore(folder)
    objective = objective_class(recipe, LabelledData(data))
    inputs = objective.inputs(Checkpoint(transformer, "bert", tokenizer), Setup(recipe, SEED, store, {}))
    context = TuningContext(recipe, SEED, CPU, store, {}, "bert", frozenset(), {HEAD: True}, data.name)
    tuning_class = tuning_class or plugins.find("tuning", recipe.tuning.method)
    return Small(objective, inputs, objective.evaluator(), tuning_class(transformer, inputs, context), recipe)


def sampled_by(
    sampler_class: type[LabelledSampler], inputs_class: type[LabelledInputs] = LabelledInputs
) -> type[Classify]:
    """An objective whose steps come from another sampler."""

    class Inputs(LabelledInputs):
        def sampler(self) -> LabelledSampler:
            return sampler_class(self)

    class Sampled(Classify):
        INPUTS = Inputs

    return Sampled


def features_of(transformer: Transformer, items: Sequence[EncodedText]) -> Tensor:
    """What the classifier reads of these texts, (b, d)."""
    return TextReader(transformer, CPU).features(items, transformer.head_shapes[HEAD].reads)


def weights_of(module: torch.nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in module.named_parameters()}


def furthest(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    assert a.keys() == b.keys()
    return max(float((a[n] - b[n]).abs().max()) for n in a)
