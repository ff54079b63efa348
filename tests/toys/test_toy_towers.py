"""Two towers over arrays, by an objective, data and a kind of model of another package: negatives are those of all
parts and processes, and caching gradients changes nothing."""

import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import heedful
from heedful.errors import RequestError
from heedful.objectives.protocol import Partial, StepContext
from heedful.recipes.reading import all_keys, explain_key, make_recipe
from heedful.recipes.schema import Recipe
from heedful.report.study import write_reports
from heedful.storage.shared import SharedStore
from heedful.streams import Parts, in_parts, seed_generators
from heedful.studies.plan import plan_recipe
from heedful.studies.study import run_study
from heedful.training.assembly import Assembly, assemble, read_source
from heedful.training.run import execute
from tests.support.groups import Group, gradients_in_child, run_and_note
from tests.support.toy_world import TOYS, finish, install_toys, kill
from tests.support.training_samples import assert_same_run, read_log, read_tsv
from tests.toys.toy_towers import embedded, found, read_towers

STEPS = 4


def write_views(folder: Path) -> Path:
    """Two noisy views, through different maps, of the same hidden numbers."""
    draw, path = np.random.default_rng(3), folder / "views.npz"
    maps, arrays = [draw.normal(size=(4, 6)) for _ in range(2)], {}
    for name, n in (("train", 60), ("dev", 20), ("test", 25)):
        hidden = draw.normal(size=(n, 4))
        for tower, by in zip(("first", "second"), maps, strict=True):
            view = hidden @ by + 0.05 * draw.normal(size=(n, 6))
            arrays[f"{tower}_{name}"] = view.astype(np.float32)
    folder.mkdir(exist_ok=True)
    np.savez(path, **arrays)
    return path


def views_recipe(folder: Path, **tables: Any) -> dict[str, Any]:
    training = {
        "batch_size": 14, "steps": STEPS, "mark_steps": 1, "lr": 1e-2, "threads": 1, "device": "cpu",
        "checkpoint_seconds": 0,
    }  # fmt: skip
    content = {"model": {}, "data": {"train": str(write_views(folder))}, "objective": {"kind": "towers"}}
    content["training"] = {**training, **tables.pop("training", {})}
    return {**content, **tables}


def parts_of(content: dict[str, Any], folder: Path) -> Assembly:
    store = SharedStore(folder / "store")
    parts = assemble(read_source(make_recipe(content), 7, store), store)
    parts.checkpoint.module.double()
    parts.tuning.train(True)
    return parts


@pytest.mark.parametrize("count", [1, 4])
def test_cached_gradients_are_those_of_the_whole_loss(count: int, offered: None, tmp_path: Path) -> None:
    """With dropout, which is the same whenever a part is embedded."""
    parts = parts_of(views_recipe(tmp_path, model={"dropout": 0.3}), tmp_path)
    objective, reader, step = parts.objective, parts.tuning.reader, parts.sampler.step(0, 0.0)
    module, cut = reader.module, Parts(count)

    def reseed(part: int) -> None:
        seed_generators("cpu", 7, 0, part)

    loss = 0.0
    for partial in objective.losses(reader, step, objective.counts(step), StepContext(cut, reseed, lambda rows: rows)):
        loss += float(partial.terms["contrast"])
        partial.loss.backward()
    cached = {n: p.grad.clone() for n, p in module.named_parameters()}
    module.zero_grad()
    each = []
    for part, places in in_parts(range(len(step.rows)), cut):
        reseed(part)
        each.append(embedded(reader, tuple(view[list(places)] for view in step.views)))
    u_nd, v_nd = torch.cat(each).unbind(1)
    similar_nn, right_n = u_nd @ v_nd.T / 0.1, torch.arange(len(u_nd))
    whole = (F.cross_entropy(similar_nn, right_n) + F.cross_entropy(similar_nn.T, right_n)) / 2
    whole.backward()
    assert loss == pytest.approx(whole.item(), abs=1e-12)
    assert max(float((cached[n] - p.grad).abs().max()) for n, p in module.named_parameters()) < 1e-12
    assert max(float(g.abs().max()) for g in cached.values()) > 1e-2


def gradients_of(count: int, content: dict[str, Any], folder: Path, name: str) -> dict[str, torch.Tensor]:
    toys = [str(folder / "site"), str(TOYS)]
    Group(count, gradients_in_child, content, toys, str(folder / name)).finish()
    found = [load_file(folder / f"{name}-{rank}.safetensors") for rank in range(count)]
    assert all(torch.equal(one[n], found[0][n]) for one in found for n in found[0])
    assert len({name.split(".")[0] for name in found[0]}) == STEPS
    return found[0]


def apart(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[n] - other[n]).abs().max()) for n in one)


@pytest.mark.parametrize("case", ["one process or two", "few rows"])
def test_parts_and_processes_have_the_gradients_of_one(case: str, tmp_path: Path) -> None:
    install_toys(tmp_path)

    def gradients(count: int, accumulate: int, dropout: float) -> dict[str, torch.Tensor]:
        training = {"accumulate": accumulate, "batch_size": 14 if case == "one process or two" else 2}
        content = views_recipe(tmp_path, model={"dropout": dropout}, training=training)
        return gradients_of(count, content, tmp_path, f"{count}-{accumulate}-{dropout}")

    if case == "few rows":  # the second process has nothing of its own to embed
        assert apart(gradients(1, 3, 0.0), gradients(2, 3, 0.0)) < 1e-10
        return
    one = gradients(1, 1, 0.0)
    assert max(float(g.abs().max()) for g in one.values()) > 1e-2
    assert apart(one, gradients(1, 4, 0.0)) < 1e-10
    assert apart(one, gradients(2, 1, 0.0)) < 1e-10
    assert apart(gradients(1, 3, 0.3), gradients(2, 3, 0.3)) < 1e-10
    logs = [read_log(tmp_path / name) for name in ("1-1-0.0", "1-4-0.0", "2-1-0.0")]
    for lines in zip(*logs, strict=True):
        assert lines[0]["loss"] == pytest.approx(lines[1]["loss"], abs=1e-10)
        assert lines[0]["loss"] == pytest.approx(lines[2]["loss"], abs=1e-10)


def uneven_in_child(content: dict[str, Any], toys: list[str], directory: str) -> None:
    """Before what is gathered, the second process has a loss of its own that is not finite."""
    sys.path[:0] = toys
    from heedful import plugins

    contrast, rank = plugins.find("objective", "towers"), int(os.environ["RANK"])
    inner = contrast.losses

    def losses(self: Any, reader: Any, step: Any, counts: Any, context: Any) -> Iterator[Partial]:
        own = sum(p.sum() for p in reader.module.parameters()) * (math.nan if rank else 0.0)
        yield Partial(own, {"contrast": own.detach()})
        yield from inner(self, reader, step, counts, context)

    contrast.losses = losses
    run_and_note(content, directory)


def test_a_loss_that_is_not_finite_leaves_nobody_waiting(tmp_path: Path) -> None:
    install_toys(tmp_path)
    toys = [str(tmp_path / "site"), str(TOYS)]
    group = Group(2, uneven_in_child, views_recipe(tmp_path), toys, str(tmp_path / "run"))
    codes = group.codes(60)
    group.kill()
    assert codes == [0, 0]
    first, second = ((tmp_path / f"ended-{rank}").read_text() for rank in (0, 1))
    assert first == second
    assert first.startswith("StepError: step 1: the loss is not finite, so the step was not made (examples ")


def test_a_run_learns_to_retrieve(offered: None, tmp_path: Path) -> None:
    content = views_recipe(tmp_path, training={"steps": 80, "mark_steps": 20, "accumulate": 2})
    manifest = execute(make_recipe(content), 3, tmp_path / "run", quiet=True)
    assert manifest["model"]["source"] == "towers of width 8"
    assert manifest["cost"]["tokens"] == 0
    assert manifest["cost"]["flops"] == 3 * 2 * manifest["model"]["parameters"]["total"] * sum(
        min(14, 60 - 14 * (step % 5)) for step in range(80)
    )
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    scores, beside = metrics["splits"]["test"], metrics["baselines"]["cosine of the views"]["test"]
    assert scores["retrieval"] > 0.6 > beside["retrieval"]
    assert scores["mrr"] >= scores["retrieval"]
    model, views = read_towers(tmp_path / "run/model").eval(), np.load(tmp_path / "views.npz", allow_pickle=False)
    with torch.inference_mode():
        both = [model(tower, torch.from_numpy(views[f"{tower}_test"])).numpy() for tower in ("first", "second")]
    assert found(*both)["found"].mean() == scores["retrieval"]
    _, rows = read_tsv(tmp_path / "run/predictions/test.tsv")
    assert sum(row == nearest for row, nearest in rows) / len(rows) == scores["retrieval"]
    on = {**content, "model": {"name": str(tmp_path / "run/model")}}
    execute(make_recipe(on), 3, tmp_path / "on", quiet=True)
    log = [line for line in read_log(tmp_path / "on") if "loss" in line]
    assert log[0]["loss"] < math.log(14) / 3


def recipe_of(folder: Path, **tables: Any) -> Recipe:
    return make_recipe(views_recipe(folder, **tables))


def test_what_means_nothing_is_refused(offered: None, tmp_path: Path) -> None:
    for tables, words in (
        ({"model": {"widht": 3}}, r"there is no key model\.widht; did you mean model\.width\?"),
        ({"model": {"shape": "bert-tiny"}}, r'model\.shape means nothing with objective\.kind = "towers"'),
        ({"data": {}}, r"data\.train is missing: name a \.npz file"),
        ({"data": {"train": "x", "text": "t"}}, r'data\.text means nothing with objective\.kind = "towers"'),
        (
            {"tuning": {"method": "frozen"}},
            r'tuning\.method = "frozen" is not possible with objective\.kind = "towers"',
        ),
        ({"evaluation": {"metric": "mr"}}, r"did you mean 'mrr'\?"),
    ):
        with pytest.raises(RequestError, match=words):
            recipe_of(tmp_path, **tables)
    (tmp_path / "views.txt").write_text("no arrays")
    with pytest.raises(RequestError, match=r"views\.txt: is no \.npz file of two views"):
        execute(recipe_of(tmp_path, data={"train": str(tmp_path / "views.txt")}), 0, tmp_path / "run", quiet=True)
    assert "model.width" in all_keys()
    assert "Width of the embeddings." in explain_key("model.width")


def test_a_study_from_runs_to_results(offered: None, tmp_path: Path) -> None:
    content = views_recipe(tmp_path, training={"steps": 40, "mark_steps": 20})
    content["study"] = {"model": {"width": [2, 8]}, "final_seeds": 2}
    out = tmp_path / "study"
    study = run_study(plan_recipe(make_recipe(content), "views"), out, command="x", quiet=True, threads=1)
    write_reports(out)
    report = (out / "report.md").read_text()
    assert "retrieval accuracy" in report
    results = heedful.results(out)
    assert results.chosen["setting"] == "views-2-final"
    rows = {row["setting"]: row for row in results.table}
    assert rows["views-2-final"]["n"] == 2
    assert rows["views-2"]["dev_mean"] > rows["views-1"]["dev_mean"]
    assert (out / "best/towers.json").exists()
    assert len(results.runs[-1].predictions("test")) == 25
    with pytest.raises(RequestError, match="toy-towers"):
        _ = results.best  # texts cannot be given to it
    assert run_study(plan_recipe(make_recipe(content), "views"), out, command="x", quiet=True, threads=1) == study


TOML = """
seeds = 2
[model]
width = 8
dropout = 0.2
[data]
train = "views.npz"
[objective]
kind = "towers"
temperature = 0.2
[training]
steps = 60
mark_steps = 10
batch_size = 14
accumulate = 3
lr = 1e-2
threads = 1
device = "cpu"
checkpoint_seconds = 0
"""


@pytest.mark.full
@pytest.mark.parametrize("kills", [1, 3])
def test_run_kill_and_resume(kills: int, world: Path, heedful_command: Any) -> None:
    write_views(world)
    (world / "views.toml").write_text(TOML)
    finish(heedful_command("run", "views.toml", "--out", "whole-views", "--workers", "1"))
    assert kill(kills, world, heedful_command, "views") == kills
    finish(heedful_command("run", "views.toml", "--out", "killed-views", "--workers", "1"))
    for seed in (0, 1):
        runs = [world / f"{name}-views/runs/views-seed{seed}" for name in ("whole", "killed")]
        assert_same_run(*runs, but_for=("command",))
    study = heedful.results(world / "whole-views")
    assert study.table[0]["metric"] == "retrieval"
    assert study.table[0]["n"] == 2
    assert study.statistics == heedful.results(world / "killed-views").statistics
    assert "cosine of the views" in (world / "whole-views/report.md").read_text()


@pytest.mark.full
def test_compare_statistics_report_results(world: Path, heedful_command: Any) -> None:
    """What two runs have left goes on, and each is compared with the other and with the baseline."""
    write_views(world)
    for width in (2, 8):
        out, size = f"towers-{width}", f"model.width={width}"
        (world / "begun.toml").write_text(TOML)
        finish(heedful_command("run", "begun.toml", "--out", out, "--workers", "1", "--set", "seeds=1", "--set", size))
    settings = ["objective.kind=towers", "training.steps=20", "training.batch_size=14", "training.threads=1"]
    models = ",".join(f"towers-{width}/best" for width in (2, 8))
    said = finish(
        heedful_command(
            "compare", "views.npz", "--models", models, "--methods", "full", "--seeds", "2", "--workers", "2",
            "--out", "towers", *(part for s in settings for part in ("--set", s)),
        )
    )  # fmt: skip
    assert "retrieval accuracy" in said
    study = heedful.results(world / "towers")
    rows = {row["setting"]: row for row in study.table}
    assert rows.keys() == {"towers-2-full", "towers-8-full"}
    assert all(row["metric"] == "retrieval" and row["n"] == 2 for row in rows.values())
    statistics = json.loads((world / "towers/statistics.json").read_text())
    comparisons = {(c["a"], c["b"]): c["difference"] for c in statistics["comparisons"]}
    difference = rows["towers-8-full"]["test_mean"] - rows["towers-2-full"]["test_mean"]
    assert comparisons["towers-8-full", "towers-2-full"] == pytest.approx(difference, abs=1e-9)
    assert ("towers-8-full", "cosine of the views") in comparisons
    assert "towers-8-full" in study.verdict
    assert "cosine of the views" in (world / "towers/report.md").read_text()
