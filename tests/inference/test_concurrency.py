"""Several threads ask one model at the same time, each through adapters of its own."""

import random
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.inference.translation.translator import Translator
from heedful.models.adapters import BottleneckShape, LowRankShape, add_adapter
from heedful.models.transformer import evaluating
from tests.support import translator_samples
from tests.support.adapter_samples import formula
from tests.support.training_samples import write_tiny

TEXTS = ["a lovely film", "the plot is thin", "dull", "a warm gem of a long film", "not this again"]
SOURCES = ["the cat sat on the mat", "a dog", "the dog sat on a cat", "mat"]
THREADS, REQUESTS = 8, 2000


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A small GPT with a classifier and two adapters, each of which changes every answer."""
    folder = write_tiny(tmp_path_factory.mktemp("gpt2"), "gpt2")
    model = heedful.load(folder, new_head="linear", labels=["bad", "good"], keep_heads=True)
    for name, shape in {"a": BottleneckShape(reduction=4), "b": LowRankShape(("qkv", "up"), 4)}.items():
        module = add_adapter(model.transformer, name, shape)
        with torch.no_grad():
            for part, p in module.named_parameters():
                p.copy_(3 * formula(f"{name} {part}", tuple(p.shape)))
    return model


@pytest.fixture(autouse=True)
def eager_switches() -> Iterator[None]:
    """Threads take turns as often as Python lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def requests(model: Any, translator: Translator) -> dict[str, Callable[[], Any]]:
    def generated(adapters: str | None, seed: int) -> Any:
        said = model.generate(TEXTS[:2], 6, seed=seed, adapters=adapters)
        return said.tokens, [p.tolist() for p in said.log_probabilities]

    made: dict[str, Callable[[], Any]] = {"encode": lambda: model.encode(TEXTS).tolist()}
    for adapters in (None, "a", "b", "stack(a, b)"):
        made[f"predict through {adapters}"] = partial(
            lambda adapters: model.predict(TEXTS, adapters=adapters).probabilities.tolist(), adapters
        )
        made[f"generate through {adapters}"] = partial(generated, adapters, 3)
    for beam in (1, 3):
        made[f"translate {beam}"] = partial(
            lambda beam: translator.translate(SOURCES, beam=beam, max_length=8).scores.tolist(), beam
        )
    return made


def test_every_answer_is_the_one_given_alone(model: Any) -> None:
    asked = requests(model, Translator(translator_samples.make("post", 0), "post"))
    alone = {name: ask() for name, ask in asked.items()}
    assert len({str(np.round(answer, 6)) for name, answer in alone.items() if name.startswith("predict")}) == 4
    order = random.Random(0).choices(list(asked), k=REQUESTS)
    with ThreadPoolExecutor(THREADS) as pool:
        answers = list(pool.map(lambda name: asked[name](), order))
    wrong = [name for name, answer in zip(order, answers, strict=True) if answer != alone[name]]
    assert wrong == []


def test_a_model_in_training_mode_keeps_dropout_off_until_the_last_has_left() -> None:
    module = torch.nn.Dropout(0.5)
    first, second = evaluating(module), evaluating(module)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not module.training
    second.__exit__(None, None, None)
    assert module.training


def test_answering_changes_nothing(model: Any) -> None:
    def state() -> tuple[Any, ...]:
        t = model.transformer
        buffers = {name: (p._version, p.data_ptr()) for name, p in t.named_parameters()}
        attributes = [{k: v for k, v in vars(m).items() if not k.startswith("_")} for m in t.modules()]
        return buffers, str(attributes), t.active, dict(t.head_shapes)

    before = state()
    for ask in requests(model, Translator(translator_samples.make("post", 0), "post")).values():
        ask()
    assert state() == before


@pytest.fixture(scope="module")
def translated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("translator")
    Translator(translator_samples.make("post", 0), "post").save(folder)
    return folder


def test_a_model_says_what_it_can_do(model: Any, translated: Path) -> None:
    translator = heedful.load(translated)
    assert [task.verb for task in model.tasks] == ["predict", "encode", "generate"]
    assert [task.verb for task in translator.tasks] == ["translate"]
    assert hasattr(model, "generate")
    assert not hasattr(translator, "predict")
    with pytest.raises(heedful.RequestError, match=r"is a translation model, which cannot give texts labels\. Use it"):
        translator.predict(["a"])
