"""Heads with a recurrent network: every way to ask them agrees, they come back to the bit, and they see the order of
words; what they do not go with is refused."""

import json
import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

import heedful
from heedful.checkpoints.directory import read_model
from heedful.checkpoints.heads import NewHead
from heedful.errors import RequestError
from heedful.inference.items import encode_pairs, encode_texts
from heedful.inference.model import Model
from heedful.inference.reader import TextReader, collate
from heedful.models.batch import Batch, pack
from heedful.models.flops import forward_flops
from heedful.models.shape import Head
from heedful.models.transformer import Transformer
from heedful.nn.heads import combine
from heedful.nn.recurrent import RecurrentHead, RecurrentKind
from heedful.probes.attention.look import look
from heedful.recipes.reading import explain_key, make_recipe
from heedful.storage.shared import SharedStore
from heedful.studies.baselines import data_key
from heedful.studies.plan import plan_recipe, with_baselines
from heedful.training.assembly import assemble, read_source
from heedful.training.run import execute
from tests.support.small_fits import CLASSES, CPU, dataset, furthest, recipe_of, small, texts, weights_of
from tests.support.training_samples import (
    FAMILY_CHANGES,
    read_log,
    read_tsv,
    sentences,
    tiny_recipe,
    tiny_shape,
    tokenizer_in,
    write_csv,
    write_data,
    write_family,
    write_tiny,
)

KINDS = get_args(RecurrentKind)
NO_DROPOUT = {f"{where}dropout": 0.0 for where in ("", "embedding_", "attention_", "attention_output_", "head_")}
LONG = "a long middle part that goes on and on and on until the ending of the opening scene is dull 7 8 9"
Maker = Callable[..., tuple[Transformer, Any]]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """A tiny model without dropout, in double precision; `changes` are of its body."""
    folder = tmp_path_factory.mktemp("model")

    def made(head: Head, **changes: Any) -> tuple[Transformer, Any]:
        tokenizer = tokenizer_in(folder)
        transformer = Transformer(tiny_shape(tokenizer.size, **{**NO_DROPOUT, **changes}), {"classify": head})
        transformer.initialise(torch.Generator().manual_seed(3))
        return transformer.double().eval(), tokenizer

    return made


def recurrent(network: str, **more: Any) -> Head:
    return replace(Head("linear", "every", CLASSES), recurrent=network, **more)  # type: ignore[arg-type]


# Ways to compute one thing


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_company_does_not_change_a_score(kind: str, chunked: bool, make: Maker, tmp_path: Path) -> None:
    rows = [*texts(12)[0], LONG, "warm"]
    model = make(recurrent(kind))
    recipe = recipe_of(training={"max_length": 10, "long_texts": "chunk" if chunked else "cut"})
    one = small(model, dataset(rows, [i % 3 for i in range(len(rows))]), recipe, tmp_path)
    assert any(len(item.chunks) > 1 for item in one.items) == chunked
    with torch.no_grad():
        together = one.scores(range(len(rows)))
        alone = torch.cat([one.scores([r]) for r in range(len(rows))])
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(1)).tolist()
        shuffled = torch.cat([one.scores(order[at : at + 5]) for at in range(0, len(order), 5)])
        every = one.tuning.reader.all_scores(one.items, "classify")
    assert together.shape == (len(rows), CLASSES)
    for other in (alone, every):
        assert float((together - other).abs().max()) < 1e-10
    assert float((together[order] - shuffled).abs().max()) < 1e-10
    if not chunked:
        with torch.no_grad():
            whole = model[0]("classify", collate(one.items, 0, CPU)[0])
        assert float((together - whole).abs().max()) < 1e-10


@pytest.mark.parametrize("kind", ["bilstm", "gru"])
def test_the_features_of_chunks_are_averaged(kind: str, make: Maker) -> None:
    transformer, tokenizer = make(recurrent(kind))
    items = encode_texts(tokenizer, ["film warm", LONG, f"{LONG} {LONG}"], 12, chunked=True)
    assert max(len(item.chunks) for item in items) > 2
    network = transformer.heads["classify"].extractor
    with torch.no_grad():
        found = TextReader(transformer, CPU).inputs(items, "classify")
        for item, x_f in zip(items, found, strict=True):
            each = [network(transformer.body(Batch(torch.tensor([chunk]))).last)[0] for chunk in item.chunks]
            assert float((x_f - torch.stack(each).mean(0)).abs().max()) < 1e-10


@pytest.mark.parametrize("kind", ["lstm", "bigru"])
def test_towers_combine_the_features_of_each_text_alone(kind: str, make: Maker) -> None:
    transformer, tokenizer = make(recurrent(kind, pairs="towers", recurrent_width=5))
    rows = texts(9)[0]
    items = encode_pairs(tokenizer, list(zip(rows, rows[::-1], strict=True)), 20)
    network, reader = transformer.heads["classify"].extractor, TextReader(transformer, CPU)
    assert transformer.heads["classify"].output.in_features == 4 * network.width + 1
    with torch.no_grad():
        u, v = (
            torch.cat([network(transformer.body(Batch(torch.tensor(text.chunks))).last) for text in side])
            for side in ([i.first for i in items], [i.second for i in items])
        )
        assert float((reader.inputs(items, "classify") - combine(u, v, "towers")).abs().max()) < 1e-10
        batches = [collate([getattr(item, side) for item in items], 0, CPU)[0] for side in ("first", "second")]
        scores = reader.scores(items, "classify")
        assert float((transformer("classify", *batches) - scores).abs().max()) < 1e-10
        alone = torch.cat([reader.scores([item], "classify") for item in items])
    assert float((alone - scores).abs().max()) < 1e-10


@pytest.mark.parametrize("parts", [3, 50])
def test_accumulation_is_the_full_batch(parts: int, make: Maker, tmp_path: Path) -> None:
    found, start = [], weights_of(make(recurrent("bilstm"))[0])
    for accumulate in (1, parts):
        model = make(recurrent("bilstm"))
        recipe = recipe_of(training={"accumulate": accumulate, "epochs": 2})
        small(model, dataset(*texts()), recipe, tmp_path / "store").train(tmp_path / str(accumulate))
        found.append((weights_of(model[0]), [line["loss"] for line in read_log(tmp_path / str(accumulate))]))
    moved = {name: float((w - start[name]).abs().max()) for name, w in found[0][0].items() if "extractor" in name}
    assert len(moved) == 8
    assert min(moved.values()) > 1e-4  # every part of the network learns
    assert furthest(found[0][0], found[1][0]) < 1e-10
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-10)


def test_packed_texts_are_split_first(make: Maker) -> None:
    transformer, tokenizer = make(recurrent("lstm"))
    packed = pack([t.ids for t in tokenizer.encode(texts(4)[0])], None, 0, CPU, room=40)
    with pytest.raises(ValueError, match="split them first"):
        transformer("classify", packed.batch)
    with pytest.raises(ValueError, match="reads every state, not 'mean'"):
        make(recurrent("lstm", reads="mean"))


def test_calibrating_divides_the_scores(make: Maker) -> None:
    transformer, tokenizer = make(recurrent("gru", kind="two-layer"))
    batch = collate(encode_texts(tokenizer, texts(5)[0], 20), 0, CPU)[0]
    with torch.no_grad():
        before, features = transformer("classify", batch), transformer.inputs("classify", batch)
        transformer.calibrate("classify", 2.5)
        assert float((transformer("classify", batch) * 2.5 - before).abs().max()) < 1e-12
        assert torch.equal(transformer.inputs("classify", batch), features)
    assert transformer.head_shapes["classify"].temperature == 2.5


# Recipes


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("world")
    some = sentences(60, seed=4)
    scores = [(a, f"{len(a) / 10}") for a, _ in some]
    pairs = [(a, b, x) for (a, x), (b, _) in zip(some, some[1:] + some[:1], strict=True)]
    columns = {"text": "text", "label": "label"}
    return {
        "model": write_tiny(folder / "model"),
        "classes": write_data(folder / "data"),
        "score": {"train": str(write_csv(folder / "s.csv", ("text", "label"), scores)), **columns, "kind": "score"},
        "pairs": {"train": str(write_csv(folder / "p.csv", ("text", "b", "label"), pairs)), **columns, "pair": "b"},
    }


RUNS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("classes", {"pooling": "lstm"}, {}),
    ("classes", {"pooling": "bilstm", "head": "two-layer"}, {}),
    ("score", {"pooling": "gru", "rnn_width": 3}, {}),
    ("pairs", {"pooling": "bigru", "pairs": "joint"}, {}),
    ("pairs", {"pooling": "bilstm", "pairs": "towers"}, {}),
    ("classes", {"pooling": "bigru", "rnn_width": 5}, {"max_length": 10, "long_texts": "chunk"}),
]


@pytest.mark.parametrize(("data", "model", "training"), RUNS, ids=[f"{d}-{m['pooling']}" for d, m, _ in RUNS])
def test_a_saved_model_answers_as_it_was_judged(
    data: str, model: dict[str, Any], training: dict[str, Any], world: dict[str, Any], tmp_path: Path
) -> None:
    recipe = tiny_recipe(world["model"], world[data], "full", model=model, training={**training, "epochs": 1})
    execute(recipe, 3, tmp_path / "run", quiet=True)
    note = json.loads((tmp_path / "run/model/config.json").read_text())["heedful"]["heads"]["classify"]
    each_way = model.get("rnn_width") or (8 if model["pooling"].startswith("bi") else 16)
    assert [note[key] for key in ("recurrent", "recurrent_width", "reads")] == [model["pooling"], each_way, "every"]
    assert note["file"] == "heads.safetensors"
    assert (note["temperature"] == 1.0) == (data == "score")
    _, rows = read_tsv(tmp_path / "run/predictions/test.tsv")
    data_read = read_source(recipe, 3, SharedStore(tmp_path / "store")).data
    examples = {e["row"]: (e["text"], e["pair"]) for e in data_read.examples("test")}
    asked = [examples[int(row[0])] if data == "pairs" else examples[int(row[0])][0] for row in rows]
    loaded = heedful.load(tmp_path / "run/model")
    assert isinstance(loaded.transformer.heads["classify"], RecurrentHead)
    found = loaded.predict(asked)
    judged = np.array([[float(p) for p in row[1 if data == "score" else 2 :]] for row in rows])
    np.testing.assert_allclose(answers(found), judged, rtol=1e-5, atol=2e-6)
    np.testing.assert_allclose(answers(loaded.predict(asked, batch_size=1)), answers(found), atol=1e-5)
    loaded.save(tmp_path / "again")
    again = heedful.load(tmp_path / "again")
    assert np.array_equal(answers(again.predict(asked)), answers(found))  # to the bit
    assert np.array_equal(answers(again.predict(asked, raw=True)), answers(loaded.predict(asked, raw=True)))


def answers(found: Any) -> np.ndarray:
    return found.probabilities if found.scores is None else found.scores[:, None]  # type: ignore[no-any-return]


def test_the_seed_draws_the_network(world: dict[str, Any], tmp_path: Path) -> None:
    recipe, drawn = tiny_recipe(world["model"], world["classes"], "full", model={"pooling": "bigru"}), []
    for seed in (0, 0, 1):
        store = SharedStore(tmp_path)
        parts = assemble(read_source(recipe, seed, store), store)
        drawn.append(weights_of(parts.tuning.transformer.heads["classify"]))
        assert {name for name, place in parts.checkpoint.sources.items() if place == "new"} == {
            f"heads.classify.{name}" for name in drawn[-1]
        }
        assert {f"heads.classify.{name}" for name in drawn[-1]} <= set(parts.tuning.trainable())
    assert furthest(drawn[0], drawn[1]) == 0
    assert all(float((drawn[0][name] - drawn[2][name]).abs().max()) > 0 for name in drawn[0] if "output" not in name)
    step, shape = parts.sampler.step(0, 0.0), parts.tuning.transformer.shape
    assert step.forward_flops(shape) == forward_flops(shape, step.lengths)  # the whole last block


FROZEN = {"method": "frozen"}


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"model": {"rnn_width": 8}}, 'model.rnn_width goes with model.pooling = "lstm", "bilstm", "gru" or "bigru".'),
        ({"model": {"rnn_width": 8, "pooling": "mean"}}, "model.rnn_width goes with model.pooling"),
        ({"model": {"rnn_width": 0, "pooling": "lstm"}}, "model.rnn_width = 0 is not right: it must be at least 1."),
        ({"model": {"rnn_width": 1.5, "pooling": "lstm"}}, "it must be a whole number"),
        ({"model": {"pooling": "rnn"}}, "'last', 'lstm', 'bilstm', 'gru' or 'bigru'."),
        (
            {"model": {"pooling": "gru"}, "tuning": {**FROZEN, "solve": True}},
            'tuning.solve needs model.head = "linear" and no recurrent network',
        ),
        ({"model": {"pooling": "bilstm"}, "tuning": {"method": "cosine"}}, "and a recurrent model.pooling."),
    ],
)
def test_what_is_refused_before_anything_is_read(tables: dict[str, dict[str, Any]], said: str) -> None:
    content = {"data": {"train": "nowhere.csv", "text": "text", "label": "label"}, **tables}
    content["model"] = {"name": "nowhere", **tables["model"]}
    with pytest.raises(RequestError) as caught:
        make_recipe(content, "recipe")
    assert said in str(caught.value)
    assert str(caught.value).count(". ") == 0
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("kind", ["lstm", "bigru"])
def test_a_frozen_body_keeps_every_state(kind: str, make: Maker, tmp_path: Path) -> None:
    """What the network reads from the cache is what it would read of the body, for texts of any length."""
    parts = small(make(recurrent(kind)), dataset(*texts(9)), recipe_of("frozen"), tmp_path)
    assert parts.tuning.solve is None
    reader, items = parts.tuning.reader, parts.inputs.items["train"]
    assert reader.lower is not None
    assert reader.lower.blocks == parts.tuning.transformer.shape.layers
    plain = TextReader(parts.tuning.transformer, reader.device)
    parts.tuning.train(False)
    with torch.no_grad():
        assert (reader.scores(items, "classify") - plain.scores(items, "classify")).abs().max() < 1e-5
    assert all(name.startswith("heads.") for name in parts.tuning.trainable())


def test_encoding_has_no_network(world: dict[str, Any]) -> None:
    for kind in KINDS:
        with pytest.raises(RequestError, match=rf"pooling='{kind}' is unknown; choose cls, first, mean, max, last\."):
            heedful.load(world["model"]).encode(["film"], pooling=kind)


def test_the_keys_are_explained() -> None:
    assert "the output at the last token" in explain_key("model.pooling")
    assert "half of it (rounded up)" in explain_key("model.rnn_width")


def test_the_cosine_still_stands_beside(world: dict[str, Any]) -> None:
    """As a baseline it reads the mean, since the network is no part of the untrained body."""
    model, evaluation = {"pooling": "bilstm", "rnn_width": 4}, {"baselines": True}
    plan = plan_recipe(tiny_recipe(world["model"], world["pairs"], "full", model=model, evaluation=evaluation), "r")
    added = with_baselines(plan, {data_key(plan.settings[0].recipe)}).settings[-1]
    assert (added.method, added.recipe.model.pooling, added.recipe.model.rnn_width) == ("cosine", None, None)


def test_a_text_without_tokens_is_refused(tmp_path: Path) -> None:
    """GPT-2's tokenizer adds none; there would be nothing to read."""
    found = write_family(tmp_path, "gpt2")
    for network in ("bilstm", None):
        new = {"classify": NewHead("linear", ("a", "b"), recurrent=network)}  # type: ignore[arg-type]
        model = Model(read_model(found, new), "gpt2")
        assert len(model.predict(["film", "a warm story"]).labels) == 2
        with pytest.raises(RequestError, match="row 1 of the texts has no tokens"):
            model.predict(["film", ""])


@pytest.mark.parametrize("family", FAMILY_CHANGES)
def test_attention_is_looked_at_for_its_score(family: str, tmp_path: Path) -> None:
    new = {"classify": NewHead("linear", ("a", "b"), recurrent="bigru")}
    model = Model(read_model(write_family(tmp_path, family), new), family)
    seen = look(model, "film warm story", label="b")
    with torch.no_grad():
        (tokens,) = model.tokenizer.encode(["film warm story"])
        expected = model.transformer("classify", Batch(torch.tensor([tokens.ids])))[0, 1]
    assert seen.score is not None
    assert seen.score.value == pytest.approx(float(expected), abs=1e-6)
    assert seen.views[0].relevance is not None
    assert float(np.abs(seen.views[0].relevance).max()) > 0


# What it is for


def orders(count: int) -> tuple[list[str], list[int]]:
    """Texts in twos with the same words, of which one has "warm" before "cold": class 1, and the other class 0."""
    draw, made = random.Random(2), list[str]()
    for _ in range(count):
        between = [draw.choices(("film", "story", "cast", "score"), k=draw.randint(0, 2)) for _ in range(3)]
        for one, other in (("cold", "warm"), ("warm", "cold")):
            made.append(" ".join([*between[0], one, *between[1], other, *between[2]]))
    return made, [0, 1] * count


@pytest.mark.parametrize("kind", ["lstm", "bigru"])
def test_it_learns_an_order_to_which_a_mean_is_blind(kind: str, make: Maker, tmp_path: Path) -> None:
    """On a body that does not know positions, so that all order is what the network sees of it."""
    rows, targets = orders(130)
    recipe = recipe_of(training={"lr": 1e-2, "epochs": 8, "batch_size": 16})
    right = {}
    for name, head in (("mean", Head("linear", "mean", 2)), ("network", recurrent(kind, classes=2))):
        transformer, tokenizer = make(head, position_kind="none")
        one = small((deepcopy(transformer), tokenizer), dataset(rows[:200], targets[:200], number=2), recipe, tmp_path)
        one.train(tmp_path / name)
        tested = encode_texts(tokenizer, rows[200:], 32)
        scores = TextReader(one.tuning.transformer.eval(), CPU).all_scores(tested, "classify")
        right[name] = float((scores.argmax(1) == torch.tensor(targets[200:])).double().mean())
        if name == "mean":
            assert float((scores[::2] - scores[1::2]).abs().max()) < 1e-9  # two orders of the same words
    assert right["mean"] == 0.5
    assert right["network"] > 0.95
