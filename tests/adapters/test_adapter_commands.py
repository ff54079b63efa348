"""What the commands say of models with adapters, of adapters without a model, and what their runs say they cost."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.checkpoints.adapters import open_adapter, put_adapter
from heedful.checkpoints.directory import read_model
from heedful.cli.main import app
from heedful.errors import RequestError
from heedful.report.run import write_run_report
from heedful.report.study import write_study_report
from heedful.studies.parts import StudyPlan
from heedful.studies.plan import plan_recipe
from heedful.studies.study import run_study
from heedful.training.run import execute
from tests.support.adapter_samples import GOLDENS
from tests.support.training_samples import tiny_recipe, write_data, write_tiny

Ask = Callable[..., str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on a tiny body: two adapters, their fusion, low-rank changes, and one adapter in one layer alone."""
    folder = tmp_path_factory.mktemp("adapted")
    body, files = write_tiny(folder, layers=3), write_data(folder)

    def run(name: str, how: str, /, **tuning: Any) -> None:
        recipe = tiny_recipe(body, files, how, tuning=tuning, training={"epochs": 1, "lr": 0.02})
        execute(recipe, 3, folder / name, command="test", quiet=True)

    run("one", "adapter", name="one", reduction=4)
    run("two", "adapter", name="two", reduction=4, initial="normal")
    run("fused", "fusion", adapters=[str(folder / name / "model") for name in ("one", "two")])
    run("low", "lora", name="low", rank=2, maps=["query", "up"])
    run("high", "adapter", name="high", placement="houlsby", layers=[-1], scaling="learned")
    return folder


@pytest.fixture
def ask(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "80")

    def asked(*arguments: str) -> str:
        capsys.readouterr()
        app(list(arguments), standalone_mode=False)
        return capsys.readouterr().out

    return asked


def test_inspect_shows_equal_layers_and_adapters_once(ask: Ask) -> None:
    out = ask("inspect", "fused/model")
    lines = [line.rstrip() for line in out.splitlines()]
    assert max(map(len, lines)) <= 80
    at = lines.index("adapters")
    assert lines[at : at + 4] == ["adapters", " {name} = one, two, each", "  feed_forward", "   {i} = 0 … 2, each"]
    assert [line.split()[0] for line in lines[at + 4 :] if line.startswith("    ") and line[4] != " "] == [
        "down", "up", "query", "key", "value",
    ]  # fmt: skip
    text = " ".join(out.split())
    assert "bert.encoder.layer.{i}. output.adapters.{name}. adapter_down.0" in text
    assert "bert.encoder.layer.{i}. output.adapter_fusion_layer. one,two.query" in text
    assert (
        "adapter two: bottleneck after the feed-forward network (pfeiffer), 4 wide, reduction 4, relu; layers 0 … 2; "
        "444 parameters" in text
    )
    assert "fusion fuse(one, two): query, key, value; layers 0 … 2; 2,400 parameters" in text
    assert "head classify reads through fuse(one, two)" in text
    assert "3,288 of them in adapters and fusions" in text  # 2 × 444 + 2,400


def test_inspect_as_json(ask: Ask) -> None:
    facts = json.loads(ask("inspect", "fused/model", "--json"))
    assert list(facts["adapters"]) == ["one", "two"]
    one = facts["adapters"]["one"]
    assert (one["kind"], one["placement"], one["reduction"]) == ("bottleneck", "pfeiffer", 4)
    assert (one["layers"], one["parameters"]) == ([0, 1, 2], 444)
    (fusion,) = facts["fusions"].values()
    assert (fusion["adapters"], fusion["parameters"], fusion["value"]) == (["one", "two"], 2400, True)
    assert facts["heads"]["classify"]["adapters"] == "fuse(one, two)"
    counted = {
        kind: sum(t["count"] for t in facts["tensors"] if t["name"].startswith(kind))
        for kind in ("", "adapters.", "fusions.")
    }
    assert facts["parameters"]["total"] == counted[""]
    assert facts["parameters"]["adapters"] == counted["adapters."] + counted["fusions."] == 3288
    low = json.loads(ask("inspect", "low/model", "--json"))
    assert low["adapters"]["low"] | {"rank": 2, "maps": ["query", "up"], "kind": "low-rank"} == low["adapters"]["low"]
    plain = json.loads(ask("inspect", "tiny", "--json"))
    assert (plain["adapters"], plain["fusions"]) == ({}, {})
    assert "adapters" not in plain["parameters"]


def test_inspect_where_layers_differ(ask: Ask) -> None:
    out = ask("inspect", "high/model")
    lines = [line.rstrip() for line in out.splitlines()]
    at = lines.index("  attention", lines.index("adapters"))
    assert lines[at + 1].split()[:3] == ["2", "1", "1"]  # the learned scaling is the layer's own
    text = " ".join(out.split())
    assert "high: bottleneck after attention and the feed-forward network (houlsby), 1 wide" in text
    assert "silu; layer 2; 100 parameters" in text
    text = " ".join(ask("inspect", "low/model").split())
    assert "low: low-rank, rank 2, alpha 16, of query, up; layers 0 … 2;" in text
    assert "self.query.{lora_A,lora_B}. weight" in text


def test_inspect_an_adapter_without_its_model(place: Path, ask: Ask) -> None:
    said = {
        "one/model/adapters/one": "an adapter in AdapterHub's form, for a bert of width 16, without the model "
        "adapter one: bottleneck after the feed-forward network (pfeiffer), 4 wide, reduction 4, relu; layers 0 … 2; "
        "444 parameters made for tiny head none tensors 12, from adapter.safetensors;",
        "low/model/adapters/low": "an adapter in PEFT's form, for a bert of width 16, without the model adapter low: "
        "low-rank, rank 2, alpha 16, of query, up; layers 0 … 2;",
        "fused/model/adapters/one,two": "a fusion in AdapterHub's form, for a bert of width 16, without the model "
        "fusion fuse(one, two): query, key, value; layers 0 … 2; 2,400 parameters",
    }
    for directory, words in said.items():
        assert f"{directory}: {words}" in " ".join(ask("inspect", directory).split())
    heedful.load("fused/model").save_adapter("alone", "fuse(one, two)")
    facts = json.loads(ask("inspect", "alone", "--json"))
    assert facts["head"]["labels"] == ["bad", "good"]
    assert facts["parameters"]["total"] == 2400
    assert facts["bytes"] == sum(p.stat().st_size for p in (place / "alone").iterdir())
    shutil.rmtree("alone")


def _golden_adapters() -> list[str]:
    found = sorted(path.parent.relative_to(GOLDENS).as_posix() for path in GOLDENS.glob("*/*/adapter_config.json"))
    assert len(found) > 40
    return found


@pytest.mark.parametrize("folder", _golden_adapters())
def test_every_adapter_of_the_library_is_described_or_refused(folder: str, ask: Ask) -> None:
    facts = json.loads(ask("inspect", str(GOLDENS / folder), "--json"))
    checkpoint = read_model(GOLDENS / folder.split("/")[0] / "base", body_only=True)
    transformer = checkpoint.transformer
    assert (facts["family"], facts["width"]) == (checkpoint.family, transformer.shape.width)
    try:
        put_adapter(transformer, checkpoint.family, open_adapter(GOLDENS / folder), "x")
    except RequestError:
        assert facts["refused"]
        return
    assert facts["refused"] is None
    own = sum(p.numel() for p in transformer.adapters["x"].parameters())
    if folder.startswith("gpt2/lora"):  # of three maps in one, those that are not changed are not stored
        assert 0 < facts["parameters"]["total"] < own
    else:
        assert facts["parameters"]["total"] == own
    assert {name.split(".")[1 if facts["kind"] == "bottleneck" else 0] for name, _ in
            transformer.adapters["x"].named_parameters()} == set(map(str, facts["layers"]))  # fmt: skip


def test_an_adapter_for_another_family_is_described(tmp_path: Path, ask: Ask) -> None:
    shutil.copytree(GOLDENS / "bert" / "a", tmp_path / "a")
    config = json.loads((tmp_path / "a" / "adapter_config.json").read_text())
    (tmp_path / "a" / "adapter_config.json").write_text(json.dumps({**config, "model_type": "t5"}))
    text = " ".join(ask("inspect", str(tmp_path / "a")).split())
    assert "for a model of an unknown family of width 16" in text
    assert "it was made for a t5; heedful has bert, " in text


def test_predict_with_an_adapter_instead_of_a_model(place: Path, tmp_path: Path, ask: Ask) -> None:
    with pytest.raises(RequestError, match=r"^one/model/adapters/one: is an adapter without its model, which is in "
                                           r"one/model; name that\.$"):  # fmt: skip
        ask("predict", "one/model/adapters/one", "a gem")
    with pytest.raises(RequestError, match="is a fusion without its model, which is in fused/model"):
        heedful.load("fused/model/adapters/one,two")
    moved = tmp_path / "moved"
    shutil.copytree("one/model/adapters/one", moved)
    with pytest.raises(RequestError, match=r"is an adapter without a model; load the model .* add this with load_adap"):
        ask("predict", str(moved), "a gem")


def test_predict_through_other_adapters_and_with_another_head(place: Path, tmp_path: Path, ask: Ask) -> None:
    texts = ["a gem of a film", "a bore", "warm"]
    model = heedful.load("fused/model")
    through = {adapters: model.predict(texts, adapters=adapters).probabilities for adapters in ("one", "two")}
    through["own"] = model.predict(texts).probabilities
    for adapters in ("one", "two", "fuse(one, two)"):
        out = ask("predict", "fused/model", *texts, "--adapters", adapters)
        found = np.array([line.split("\t")[2:] for line in out.splitlines()[1:]], dtype=float)
        np.testing.assert_allclose(found, through.get(adapters, through["own"]), atol=1e-6)
    assert abs(through["one"] - through["two"]).max() > 1e-5
    with pytest.raises(RequestError, match="the model has no adapter 'three'; it has one, two"):
        ask("predict", "fused/model", *texts, "--adapters", "three")
    several = heedful.load("fused/model", new_head="linear", labels=["up", "down", "odd"], head="mood", keep_heads=True)
    several.save(tmp_path / "several")
    for text in texts:  # whether this head reads pairs, it does not say
        out = ask("predict", str(tmp_path / "several"), text, "--head", "mood")
        assert out.splitlines()[0].split("\t") == ["row", "label", "p:up", "p:down", "p:odd"]
        assert out.splitlines()[1].split("\t")[1] == several.predict([text], head="mood").labels[0]
    with pytest.raises(RequestError, match="is not one of its classifiers, classify, mood"):
        ask("predict", str(tmp_path / "several"), *texts, "--head", "topic")


def test_which_of_several_classifiers_must_be_said(place: Path) -> None:
    model = heedful.load(place / "tiny", new_head="linear", labels=["a", "b"], head="first", keep_heads=True)
    model.save(place / "first")
    both = heedful.load(place / "first", new_head="linear", labels=["c", "d"], head="second", keep_heads=True)
    with pytest.raises(RequestError, match="has several heads; say which: first, second"):
        both.predict(["a gem"])


def test_the_cost_of_adapters_alone(place: Path) -> None:
    for name, trained in (("one", 444 + 34), ("fused", 2400 + 34)):
        manifest = json.loads((place / name / "manifest.json").read_text())
        cost, model = manifest["cost"], place / name / "model"
        assert manifest["model"]["parameters"]["trainable"] == trained
        assert cost["model_bytes"] == sum(p.stat().st_size for p in model.rglob("*") if p.is_file())
        assert cost["adapter_bytes"] == sum(p.stat().st_size for p in (model / "adapters").rglob("*") if p.is_file())
        assert 0 < cost["adapter_bytes"] < cost["model_bytes"] / 2
    write_run_report(place / "fused", pictures=False)
    text = (place / "fused" / "report.md").read_text()
    assert "- adapters alone: " in text
    assert "## Which adapters are used" in text


def test_a_study_shows_what_adapters_cost(place: Path, tmp_path: Path) -> None:
    files = {key: str(place / f"{key}.csv") for key in ("train", "dev", "test")} | {"text": "text", "label": "label"}
    plans = [
        plan_recipe(tiny_recipe(place / "tiny", files, how, training={"epochs": 1}), how, [0])
        for how in ("adapter", "full")
    ]
    plan = StudyPlan(**{**vars(plans[0]), "settings": tuple(s for p in plans for s in p.settings)})
    run_study(plan, tmp_path / "study", quiet=True)
    assert heedful.load(tmp_path / "study" / "runs" / "adapter-seed0" / "model").adapters == ("train-adapter",)
    rows = {row["setting"]: row for row in json.loads((tmp_path / "study" / "study.json").read_text())["table"]}
    assert rows["adapter"]["trainable_parameters"] < rows["full"]["trainable_parameters"]
    assert 0 < rows["adapter"]["adapter_bytes"] < rows["adapter"]["model_bytes"]
    assert "adapter_bytes" not in rows["full"]
    write_study_report(tmp_path / "study")
    lines = (tmp_path / "study" / "report.md").read_text().splitlines()
    head = next(line for line in lines if "adapters alone" in line)
    titles = [cell.strip() for cell in head.split("|")]
    for setting in ("adapter", "full"):
        line = next(line for line in lines[lines.index(head) :] if line.strip("|* ").startswith(setting))
        cells = [cell.strip() for cell in line.split("|")]
        assert cells[titles.index("parameters trained")] == f"{rows[setting]['trainable_parameters']:,}"
        assert (cells[titles.index("adapters alone")] == "–") == (setting == "full")
