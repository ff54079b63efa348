"""Adapters, low-rank changes, biases and fusions as tunings: what moves, what does not, what is kept and saved."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import heedful
from heedful.checkpoints.directory import read_model
from heedful.errors import RequestError
from heedful.inference.reader import TextReader
from heedful.recipes.reading import make_recipe
from heedful.storage.shared import SharedStore
from heedful.studies.plan import plan_comparison
from heedful.studies.study import run_study
from heedful.training.assembly import assemble, read_source
from heedful.training.run import execute
from tests.support.training_samples import read_log, sentences, tiny_recipe, write_data, write_family

TEXTS = [text for text, _ in sentences(9, seed=3)]
TUNINGS: dict[str, dict[str, Any]] = {
    "pfeiffer": {"method": "adapter", "reduction": 4},
    "houlsby": {"method": "adapter", "placement": "houlsby", "reduction": 4, "initial": "truncated"},
    "parallel": {"method": "adapter", "placement": "parallel", "dropout": 0.1},
    "options": {
        "method": "adapter", "reduction": 2, "norm_before": True, "norm_after": True, "residual": "input",
        "scaling": "learned", "activation": "leaky_relu", "initial": "normal",
    },
    "upper": {"method": "adapter", "reduction": 4, "layers": [-1]},
    "lora": {"method": "lora", "rank": 2},
    "lora-everywhere": {
        "method": "lora", "rank": 2, "maps": ["key", "attention-output", "up", "down"], "stabilised": True,
        "dropout": 0.1,
    },
    "lora-upper": {"method": "lora", "rank": 2, "layers": [1]},
}  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("world")
    return {
        "model": write_family(folder / "bert", "bert"),
        "data": write_data(folder / "data"),
        "runs": folder / "runs",
    }


def train(world: dict[str, Any], name: str, **tables: Any) -> Path:
    """The directory of a finished run, made once."""
    directory: Path = world["runs"] / name
    if not directory.exists():
        tuning = tables.pop("tuning", TUNINGS.get(name))
        recipe = tiny_recipe(world["model"], world["data"], "full", **tables)
        content = {**recipe.identity(), "tuning": tuning}
        execute(make_recipe(content), 7, directory, command="test", quiet=True)
    return directory


def manifest(run: Path) -> dict[str, Any]:
    return json.loads((run / "manifest.json").read_text())  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", TUNINGS)
def test_the_body_stays_as_it_is_to_the_bit(name: str, world: dict[str, Any]) -> None:
    run = train(world, name)
    before = {n: t for n, t in load_file(world["model"] / "model.safetensors").items() if not n.startswith("cls.")}
    after = load_file(run / "model/model.safetensors")
    assert {n.removeprefix("bert.") for n in before} == set(after)
    assert all(torch.equal(t, after[n.removeprefix("bert.")]) for n, t in before.items())
    (folder,) = (run / "model/adapters").iterdir()
    moved = load_file(next(folder.glob("*.safetensors")))
    assert all(t.abs().max() > 0 for n, t in moved.items() if "adapter_up" in n or "lora_B" in n)  # at first, zero


def expected_parameters(name: str, d: int = 16, f: int = 24) -> int:
    """Of the adapters in two layers and of the head, by formula."""

    def bottleneck(inner: int) -> int:
        return d * inner + inner + inner * d + d

    return (
        d * 2
        + 2
        + {
            "pfeiffer": 2 * bottleneck(4),
            "houlsby": 4 * bottleneck(4),
            "parallel": 2 * bottleneck(8),
            "options": 2 * (bottleneck(8) + 4 * d + 1),
            "upper": bottleneck(4),
            "lora": 2 * 2 * 2 * (d + d),
            "lora-everywhere": 2 * 2 * ((d + d) + (d + d) + (d + f) + (f + d)),
            "lora-upper": 2 * 2 * (d + d),
        }[name]
    )


@pytest.mark.parametrize("name", TUNINGS)
def test_parameters_trained(name: str, world: dict[str, Any]) -> None:
    counts = manifest(train(world, name))["model"]["parameters"]
    assert counts["trainable"] == expected_parameters(name)
    inside = heedful.load(train(world, name) / "model").transformer
    assert counts["total"] == sum(p.numel() for p in inside.parameters())


@pytest.mark.parametrize("name", [n for n in TUNINGS if TUNINGS[n].get("initial", "zero") == "zero"])
def test_at_first_they_change_nothing(name: str, world: dict[str, Any], tmp_path: Path) -> None:
    parts = assembled(world, TUNINGS[name], tmp_path)
    body = read_model(world["model"], body_only=True).transformer
    reader, items = parts.tuning.reader, parts.inputs.items["dev"]
    parts.tuning.train(False)
    with torch.no_grad():
        through = parts.tuning.transformer.through("classify")
        assert through is not None
        plain = TextReader(body, reader.device).features(items, "mean")
        assert torch.equal(reader.features(items, "mean", through), plain)


def assembled(world: dict[str, Any], tuning: dict[str, Any], folder: Path, **tables: Any) -> Any:
    recipe = tiny_recipe(world["model"], world["data"], "full", **tables)
    recipe = make_recipe({**recipe.identity(), "tuning": tuning})
    store = SharedStore(folder / ".shared")
    return assemble(read_source(recipe, 7, store), store)


@pytest.mark.parametrize("name", TUNINGS)
def test_saved_loaded_and_asked_it_says_what_the_run_said(name: str, world: dict[str, Any], tmp_path: Path) -> None:
    run = train(world, name)
    model = heedful.load(run / "model")
    said = model.predict([e["text"] for e in examples(world, "test")])
    lines = [line.split("\t") for line in (run / "predictions/test.tsv").read_text().splitlines()[1:]]
    assert said.labels == [line[1] for line in lines]
    model.save(tmp_path / "again")
    again = heedful.load(tmp_path / "again")
    assert again.adapters == model.adapters == ("train-adapter",)
    assert np.array_equal(again.predict(TEXTS).probabilities, model.predict(TEXTS).probabilities)
    assert np.array_equal(again.encode(TEXTS), model.encode(TEXTS))
    before = model.encode(TEXTS)
    model.activate(None)
    assert not np.array_equal(model.encode(TEXTS), before)
    assert np.array_equal(model.encode(TEXTS), heedful.load(world["model"], body_only=True).encode(TEXTS))
    assert np.array_equal(model.predict(TEXTS).probabilities, again.predict(TEXTS).probabilities)  # the head's own


def examples(world: dict[str, Any], split: str) -> list[dict[str, str]]:
    import csv

    with Path(world["data"][split]).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", ["upper", "lora-upper"])
def test_what_lies_below_is_computed_once(name: str, world: dict[str, Any], tmp_path: Path) -> None:
    """What is read of the lower layer's states is what the whole body gives, gradients included."""
    parts = assembled(world, TUNINGS[name], tmp_path)
    reader, items = parts.tuning.reader, parts.inputs.items["train"]
    assert reader.lower is not None
    assert reader.lower.blocks == 1
    for p in parts.tuning.trainable().values():  # so that there is something to see
        p.data = p.data + 0.1 * torch.sin(torch.arange(p.numel(), dtype=torch.float32)).reshape(p.shape)
    plain = TextReader(parts.tuning.transformer, reader.device)
    parts.tuning.train(False)
    gradients = []
    for one in (reader, plain):
        parts.tuning.transformer.zero_grad()
        scores = one.scores(items, "classify")
        scores.sin().sum().backward()
        gradients.append({n: p.grad.clone() for n, p in parts.tuning.trainable().items()})
    assert (reader.scores(items, "classify") - plain.scores(items, "classify")).abs().max() < 1e-6
    for n, grad in gradients[0].items():
        assert torch.allclose(grad, gradients[1][n], atol=1e-5), n
    cost = manifest(train(world, name))["cost"]
    assert cost["flops"] < manifest(train(world, "pfeiffer"))["cost"]["flops"]


@pytest.mark.parametrize("pooling", ["cls", "first", "last", "max", "bilstm"])
def test_every_pooling_from_the_lower_states(pooling: str, world: dict[str, Any], tmp_path: Path) -> None:
    parts = assembled(world, TUNINGS["upper"], tmp_path, model={"pooling": pooling})
    reader, items = parts.tuning.reader, parts.inputs.items["train"][:7]
    parts.tuning.train(False)
    with torch.no_grad():
        ours = reader.scores(items, "classify")
        assert (ours - TextReader(reader.transformer, reader.device).scores(items, "classify")).abs().max() < 1e-6


def test_merged_it_opens_whole_in_hugging_face(world: dict[str, Any]) -> None:
    from transformers import AutoModelForSequenceClassification

    run = train(world, "merged", tuning={"method": "lora", "rank": 2, "merge": True}, model={"pooling": "cls"})
    model = heedful.load(run / "model")
    assert model.adapters == ()
    assert not (run / "model/adapters").exists()
    opened, notes = AutoModelForSequenceClassification.from_pretrained(run / "model", output_loading_info=True)
    assert not notes["missing_keys"]
    tokens = model.tokenizer.encode(TEXTS, 32)
    with torch.no_grad():
        for text, one in zip(TEXTS, tokens, strict=True):
            theirs = torch.softmax(opened.eval()(torch.tensor([one.ids])).logits, -1)[0].numpy()
            assert np.abs(theirs - model.predict([text]).probabilities[0]).max() < 1e-5
    lines = [line.split("\t") for line in (run / "predictions/test.tsv").read_text().splitlines()[1:]]
    said = model.predict([e["text"] for e in examples(world, "test")])
    assert np.abs(said.probabilities - np.array([[float(x) for x in line[2:]] for line in lines])).max() < 1e-5


def test_what_is_merged_is_named_where_it_is_missed(world: dict[str, Any], tmp_path: Path) -> None:
    model = heedful.load(train(world, "lora") / "model")
    (name,) = model.adapters
    model.save_adapter(tmp_path / "saved", name)
    model.merge()
    for attempt in (
        lambda: model.activate(name),
        lambda: model.save_adapter(tmp_path / "again", name),
        lambda: model.load_adapter(tmp_path / "saved", name="other"),
    ):
        with pytest.raises(RequestError, match=rf"\({name}: merged into the weights now; unmerge\(\) undoes that"):
            attempt()
    model.unmerge()
    model.activate(name)


def test_with_an_adapter_hugging_face_is_told_that_the_head_is_missing(world: dict[str, Any]) -> None:
    from transformers import AutoModelForSequenceClassification

    run = train(world, "pooled-adapter", tuning=TUNINGS["pfeiffer"], model={"pooling": "cls"})
    _, notes = AutoModelForSequenceClassification.from_pretrained(run / "model", output_loading_info=True)
    assert "classifier.weight" in notes["missing_keys"]
    # Nor does sentence-transformers take it for a body without adapters.
    assert not (train(world, "pfeiffer") / "model/modules.json").exists()


def test_biases_alone(world: dict[str, Any]) -> None:
    run = train(world, "bias", tuning={"method": "bias"})
    before = {n.removeprefix("bert."): t for n, t in load_file(world["model"] / "model.safetensors").items()}
    after = {n.removeprefix("bert."): t for n, t in load_file(run / "model/model.safetensors").items()}
    moved = {n for n, t in after.items() if n in before and not torch.equal(t, before[n])}
    assert moved
    assert all(n.endswith(".bias") for n in moved)
    still = {n for n in after if n.endswith(".bias") and n not in moved}
    assert still <= {n for n in after if n.startswith("pooler") or n.endswith("key.bias")}  # no gradient reaches these
    trained = manifest(run)["model"]["parameters"]["trainable"]
    biases = sum(t.numel() for n, t in before.items() if n.endswith(".bias") and not n.startswith(("cls.", "pooler.")))
    assert trained == biases + 16 * 2 + 2


def test_a_study_of_adapters_stores_one_body(world: dict[str, Any], tmp_path: Path) -> None:
    changes = {"training": {"epochs": 1, "threads": 1, "max_length": 32}, "evaluation": {"baselines": False}}
    plan = plan_comparison(world["data"], [str(world["model"])], ["adapter", "lora"], range(2), changes)
    run_study(plan, tmp_path / "study", quiet=True)
    bodies = list((tmp_path / "study").glob("**/model.safetensors"))
    assert len(bodies) == 5  # four runs, and best/
    assert len({path.stat().st_ino for path in bodies}) == 1
    assert heedful.load(tmp_path / "study/best").predict(TEXTS).labels


def test_two_trained_apart_are_together_what_each_was_alone(world: dict[str, Any], tmp_path: Path) -> None:
    model = heedful.load(world["model"], body_only=True)
    alone = {}
    for name, kind in (("one", "pfeiffer"), ("two", "houlsby"), ("three", "lora")):
        run = train(world, kind)
        heedful.load(run / "model").save_adapter(tmp_path / name, "train-adapter")
        assert model.load_adapter(tmp_path / name, name=name) == name
        alone[name] = heedful.load(run / "model").predict(TEXTS).probabilities
    for one in (model, _saved_and_loaded(model, tmp_path / "together")):
        assert set(one.adapters) == {"one", "two", "three"}
        for name, expected in alone.items():
            assert np.array_equal(one.predict(TEXTS, head=name).probabilities, expected), name


@pytest.mark.parametrize("place", ["model", "model/adapters/train-adapter"])
def test_an_adapter_of_a_model_brings_the_head_that_reads_through_it(place: str, world: dict[str, Any]) -> None:
    run = train(world, "pfeiffer")
    model = heedful.load(world["model"], body_only=True)
    name = model.load_adapter(run / place)
    assert name == "train-adapter"
    expected = heedful.load(run / "model").predict(TEXTS)
    said = model.predict(TEXTS, head=name)
    assert said.names == expected.names
    assert np.array_equal(said.probabilities, expected.probabilities)


def _saved_and_loaded(model: heedful.Model, folder: Path) -> heedful.Model:
    model.save(folder)
    loaded = heedful.load(folder)
    assert isinstance(loaded, heedful.Model)
    return loaded


def fused(world: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """A fusion of two adapters that were trained apart."""
    for name in ("a", "b"):
        train(world, name, tuning={**TUNINGS["pfeiffer"], "name": name}, training={"epochs": 1 + (name == "b")})
    return {"method": "fusion", "adapters": [str(world["runs"] / n / "model") for n in ("a", "b")], **keys}


@pytest.mark.parametrize(
    "keys", [{}, {"query": "before", "dropout": 0.2}, {"value": False}], ids=["paper", "before", "static"]
)
def test_fusion(keys: dict[str, Any], world: dict[str, Any], tmp_path: Path) -> None:
    run = train(world, f"fusion-{'-'.join(keys)}", tuning=fused(world, **keys))
    model = heedful.load(run / "model")
    assert model.active == heedful.Fuse("a", "b")
    for name in ("a", "b"):  # the adapters are those that were fused, to the bit
        theirs = load_file(world["runs"] / f"{name}/model/adapters/{name}/adapter.safetensors")
        ours = load_file(run / f"model/adapters/{name}/adapter.safetensors")
        assert all(torch.equal(t, ours[n]) for n, t in theirs.items())
    d = 16
    per_layer = 2 * (d * d + d) + (0 if keys.get("value") is False else d * d)
    assert manifest(run)["model"]["parameters"]["trainable"] == 2 * per_layer + 2 * d + 2
    terms = [line.get("terms", {}) for line in read_log(run) if "loss" in line]
    assert all(("penalty" in t) == (keys.get("value") is not False) for t in terms)
    use = json.loads((run / "metrics.json").read_text())["fusion"]
    assert use["adapters"] == ["a", "b"]
    layers = use["sets"]["test"]["layers"]
    assert [layer["layer"] for layer in layers] == [0, 1]
    weights = model.fusion_weights([e["text"] for e in examples(world, "test")])
    assert weights.weights.shape == (12, 2, 2)
    assert np.allclose(weights.weights.sum(-1), 1, atol=1e-5)
    assert np.allclose(weights.weights.mean(0), [layer["weights"] for layer in layers], atol=1e-5)
    again = _saved_and_loaded(model, tmp_path / "again")
    assert np.array_equal(again.predict(TEXTS).probabilities, model.predict(TEXTS).probabilities)


def test_what_does_not_move_has_no_gradient(world: dict[str, Any], tmp_path: Path) -> None:
    for tuning in (fused(world), TUNINGS["pfeiffer"], TUNINGS["lora"], {"method": "bias"}):
        parts = assembled(world, tuning, tmp_path)
        parts.tuning.train(True)
        parts.tuning.reader.scores(parts.inputs.items["train"][:4], "classify").sum().backward()
        moved = {n for n, p in parts.tuning.transformer.named_parameters() if p.grad is not None}
        assert moved <= set(parts.tuning.trainable())
        assert any(not n.startswith("heads.") for n in moved)


def test_the_penalty_pulls_the_value_matrix_back(world: dict[str, Any]) -> None:
    far = []
    for weight in (0.0, 10.0):
        run = train(world, f"pulled-{weight:g}", tuning=fused(world, regularise=weight), training={"lr": 1e-2})
        modules = heedful.load(run / "model").transformer.fusions["a,b"]
        values = [p for n, p in modules.named_parameters() if n.endswith("value.weight")]
        far.append(sum(float(((p - torch.eye(16)) ** 2).sum().detach()) for p in values))
    assert far[1] < far[0] / 2


@pytest.mark.parametrize("written", ["a", "stack(a, b)", "average(a, b)", "average(a*0.25, b*0.75)", "fuse(a, b)",
                                     "stack(c, fuse(a, b))", "stack(c, average(a, b))", "stack(low, c)"])  # fmt: skip
def test_every_composition_survives_being_saved(written: str, world: dict[str, Any], tmp_path: Path) -> None:
    model = heedful.load(train(world, "fusion-", tuning=fused(world)) / "model")
    train(world, "c", tuning={**TUNINGS["houlsby"], "name": "c"})
    train(world, "lora")
    model.load_adapter(world["runs"] / "c/model", head=False)
    model.load_adapter(world["runs"] / "lora/model", name="low", head=False)
    other = _saved_and_loaded(model, tmp_path / "saved")
    plain = model.predict(TEXTS).probabilities
    expected = model.predict(TEXTS, adapters=written).probabilities
    assert np.array_equal(other.predict(TEXTS, adapters=written).probabilities, expected)
    assert np.array_equal(expected, plain) == (written == "fuse(a, b)")
    assert np.array_equal(model.predict(TEXTS).probabilities, plain)  # and all is as it was
    other.activate(written)
    model.activate(written)
    assert np.array_equal(other.encode(TEXTS), model.encode(TEXTS))
    assert np.allclose(model.encode(TEXTS[:1]), model.encode(TEXTS)[:1], atol=1e-5)  # alone as in company


def test_going_on_from_an_adapter(world: dict[str, Any], tmp_path: Path) -> None:
    train(world, "pfeiffer")
    start = {"method": "adapter", "start": str(world["runs"] / "pfeiffer/model"), "name": "further"}
    parts = assembled(world, start, tmp_path)
    stored = heedful.load(world["runs"] / "pfeiffer/model").transformer.adapters["train-adapter"]
    ours = parts.tuning.transformer.adapters["further"]
    assert all(torch.equal(p, dict(ours.named_parameters())[n]) for n, p in stored.named_parameters())
    assert {n.split(".")[1] for n in parts.tuning.trainable() if n.startswith("adapters.")} == {"further"}
    made = parts.tuning.made_from()
    assert list(made) == [start["start"]]


def test_an_adapter_that_has_changed_ends_a_run_that_had_begun(world: dict[str, Any], tmp_path: Path) -> None:
    import shutil

    tuning = fused(world)
    for name in ("a", "b"):
        shutil.copytree(world["runs"] / name / "model", tmp_path / name)
    tuning["adapters"] = [str(tmp_path / name) for name in ("a", "b")]
    content = {**tiny_recipe(world["model"], world["data"], "full").identity(), "tuning": tuning}
    recipe = make_recipe(content)
    with pytest.raises(KeyboardInterrupt):
        execute(recipe, 7, tmp_path / "run", command="test", quiet=True, narrator=_Impatient())
    path = tmp_path / "a/adapters/a/adapter.safetensors"
    save_file({n: t + 0.01 for n, t in load_file(path).items()}, path)
    with pytest.raises(RequestError, match="has changed since this run began"):
        execute(recipe, 7, tmp_path / "run", command="test", quiet=True)


class _Impatient:
    """Stops a run after its first step, as Ctrl-C does."""

    def say(self, text: str) -> None:
        pass

    def watch(self, progress: Any, steps: int, news: dict[str, Any]) -> None:
        import os
        import signal

        os.kill(os.getpid(), signal.SIGINT)


def test_the_maps_of_each_family(world: dict[str, Any], tmp_path: Path) -> None:
    gpt2 = {**world, "model": write_family(tmp_path / "gpt2", "gpt2")}
    parts = assembled(gpt2, {"method": "lora", "rank": 2}, tmp_path)
    names = {n.split(".")[-2] for n in parts.tuning.trainable() if n.startswith("adapters.")}
    assert names == {"qkv"}
    with pytest.raises(RequestError, match="a gpt2 has no map 'query'; it has qkv, attention-output, up, down"):
        assembled(gpt2, {"method": "lora", "maps": ["query"]}, tmp_path)
    with pytest.raises(RequestError, match="a bert has no map 'qkv'"):
        assembled(world, {"method": "lora", "maps": ["qkv"]}, tmp_path)


@pytest.mark.parametrize(
    ("tuning", "says"),
    [
        ({"method": "adapter", "layers": [2]}, r"tuning.layers = \[2\]: name some of the model's layers 0 … 1"),
        ({"method": "adapter", "layers": [1, -1]}, "each once"),
        ({"method": "adapter", "activation": "maxout"}, "tuning.activation = 'maxout': choose gelu"),
        ({"method": "adapter", "placement": "houlsby", "residual": "sum"}, "goes with placement \"pfeiffer\""),
        ({"method": "adapter", "placement": "parallel", "residual": "input"}, "means nothing with placement"),
        ({"method": "adapter", "start": "x", "reduction": 4.0}, "tuning.start brings its own reduction"),
        ({"method": "adapter", "start": "nowhere/at/all"}, "there is no such directory of an adapter"),
        ({"method": "adapter", "per_task": True, "name": "x"}, "are called after their tasks"),
        ({"method": "adapter", "name": "a.b"}, "'a.b' is not a valid name for an adapter"),
        ({"method": "lora", "maps": ["up", "up"]}, "name each once"),
        ({"method": "lora", "rank": 0}, "tuning.rank"),
        ({"method": "fusion"}, "name at least two adapters to fuse"),
        ({"method": "fusion", "adapters": ["nowhere", "either"]}, "there is no such directory|hub"),
        ({"method": "adapter", "reducton": 4}, "did you mean tuning.reduction"),
    ],
)  # fmt: skip
def test_refused_recipes(tuning: dict[str, Any], says: str, world: dict[str, Any], tmp_path: Path) -> None:
    from heedful.errors import WorkError

    with pytest.raises((RequestError, WorkError), match=says):
        assembled(world, tuning, tmp_path)


def test_adapters_are_not_left_behind_by_other_tunings(world: dict[str, Any], tmp_path: Path) -> None:
    carrying = {**world, "model": train(world, "pfeiffer") / "model"}
    for tuning in ({"method": "full"}, {"method": "frozen", "solve": False}, {"method": "bias"}):
        with pytest.raises(RequestError, match=r"carries adapters .train-adapter., which tuning.method"):
            assembled(carrying, tuning, tmp_path)
    parts = assembled(carrying, {**TUNINGS["pfeiffer"], "name": "second"}, tmp_path)
    assert set(parts.tuning.transformer.adapters) == {"train-adapter", "second"}
    assert all("train-adapter" not in n for n in parts.tuning.trainable())
    with pytest.raises(RequestError, match="already has an adapter 'train-adapter'"):
        assembled(carrying, TUNINGS["pfeiffer"], tmp_path)
    random_weights = {"model": {"shape": "bert-tiny"}, "tokenizer": {"kind": "wordpiece", "size": 200}}
    content = {**tiny_recipe(world["model"], world["data"], "full").identity(), **random_weights}
    for method in ("adapter", "lora", "bias"):
        with pytest.raises(RequestError, match=r"leaves random (weights|matrices) as they are"):
            make_recipe({**content, "tuning": {"method": method}})
