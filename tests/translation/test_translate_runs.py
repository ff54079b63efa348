"""Whole runs of translation: what they leave, that they learn, and that a kill changes nothing."""

import json
import random
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

import heedful
from heedful.checkpoints.finding import fingerprint
from heedful.checkpoints.translators import read_translator
from heedful.data.pig_latin import translate_word
from heedful.errors import RequestError
from heedful.evaluation.metrics import scored
from heedful.evaluation.translations import TRANSLATION_METRICS
from heedful.inputs.pair_rows import Batcher
from heedful.report.run import write_run_report
from heedful.storage.examples import read_predictions, read_values
from heedful.studies.plan import plan_recipe
from heedful.studies.study import run_study
from heedful.training.progress import Narrator
from heedful.training.run import execute
from tests.support.killing import survive
from tests.support.marian_samples import make_peer, save_peer
from tests.support.training_samples import read_log, write_csv, write_tiny
from tests.support.translation_samples import KINDS, assembled, translation, words, write_words


@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=pytest.mark.full)])
@pytest.mark.parametrize("kind", KINDS)
def test_killed_and_resumed_to_the_bit(kind: str, kills: int, tmp_path: Path) -> None:
    recipe = translation(kind, tmp_path, model={"body_dropout": 0.2}, training={"patience": 2})
    execute(recipe, 7, tmp_path / "whole/run", command="test", quiet=True)
    survive(kills, recipe, tmp_path / "lives", tmp_path / "whole/run", random.Random(5))


LEARNED: dict[str, dict[str, Any]] = {
    "encoder-decoder": {"model": {"width": 32, "layers": 1}, "training": {"lr": 5e-3}},
    "recurrent": {"model": {"width": 32}, "training": {"lr": 1e-2}},
    "decoder-only": {"model": {"width": 32, "layers": 2}, "training": {"lr": 5e-3}},
    "bert-fused": {"model": {"width": 32, "layers": 1, "drop_net": 0.0}, "training": {"lr": 5e-3}},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_learns_words(kind: str, tmp_path: Path) -> None:
    """Judged on the words that it was trained on: what is asked here is whether steps lead anywhere."""
    path = write_csv(tmp_path / "few.csv", ("plain", "pig"), [(w, translate_word(w)) for w in words(40)])
    recipe = translation(
        kind,
        tmp_path,
        model={**LEARNED[kind]["model"], "body_dropout": 0.0},
        data={"train": str(path), "dev": str(path), "test": str(path)},
        objective={"smoothing": 0.0, "final_beam": 2, "beam": 0},
        training={**LEARNED[kind]["training"], "epochs": 45, "patience": None, "checkpoint_seconds": 60.0},
        evaluation={"metric": "loss"},
    )
    execute(recipe, 0, tmp_path / "run", quiet=True)
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["splits"]["test"]["exact_match"] > 0.9
    assert metrics["splits"]["test"]["recurring"] == metrics["splits"]["test"]["n"] == 40
    assert metrics["baselines"]["copy"]["test"]["exact_match"] < 0.1
    losses = [line["dev"]["loss"] for line in read_log(tmp_path / "run") if "dev" in line]
    assert losses[-1] < 0.1 * losses[0]
    assert "bleu" not in read_log(tmp_path / "run")[-1]["dev"]  # objective.beam = 0


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    recipe = translation("encoder-decoder", folder, training={"max_length": 8}, objective={"final_beam": 3})
    execute(recipe, 3, folder / "run", quiet=True)
    return folder / "run"


def test_what_a_run_leaves(finished: Path) -> None:
    metrics = json.loads((finished / "metrics.json").read_text())["splits"]["test"]
    manifest = json.loads((finished / "manifest.json").read_text())
    rows, lines = read_predictions(finished / "predictions/test.tsv")
    assert list(lines) == ["source", "reference", "translation", "score"]
    assert lines["reference"] == [translate_word(word) for word in lines["source"]]
    same_rows, columns = read_values(finished / "values/test.tsv")
    assert same_rows == rows
    for metric in TRANSLATION_METRICS:
        assert scored(metric, columns) == pytest.approx(metrics[metric.name], abs=1e-12), metric.name
    references = [lines["reference"]]
    assert metrics["bleu"] == pytest.approx(sacrebleu.corpus_bleu(lines["translation"], references).score, abs=1e-9)
    assert metrics["chrf"] == pytest.approx(sacrebleu.corpus_chrf(lines["translation"], references).score, abs=1e-9)
    stated = {one["name"]: one for one in manifest["metrics"]}
    assert next(iter(stated)) == "bleu"
    assert stated["bleu"]["signature"] == metrics["signatures"]["bleu"]
    assert "tok:13a" in stated["bleu"]["signature"]
    assert sum(part["n"] for part in metrics["parts"]) == metrics["n"] == 8
    assert metrics["parts"][0]["part"] == "sources of 1-5 tokens"
    assert "recurring" not in metrics
    write_run_report(finished)
    report = (finished / "report.html").read_text(encoding="utf-8")
    for signature in metrics["signatures"].values():
        assert signature in report
    assert "test, part by part" in (finished / "report.md").read_text()
    assert "test by the chrF of each sentence: worst first" in (finished / "report.md").read_text()
    assert manifest["cost"]["flops"] > 0
    assert manifest["cost"]["prediction_seconds"] > 0


DETAILS = ("signatures", "parts")


def test_exact_match_does_not_need_sacrebleu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_words(tmp_path / "words")
    files = "".join(f'data.{key} = "{value}"\n' for key, value in data.items())
    recipe = f"""
model = {{kind = "recurrent", width = 8}}
tokenizer.kind = "characters"
{files}
objective = {{kind = "translate", final_beam = 2}}
training = {{epochs = 2, lr = 5e-3, max_length = 16, threads = 1, device = "cpu"}}
evaluation = {{metric = "exact_match"}}
seeds = [0, 1]
"""
    (tmp_path / "words.toml").write_text(recipe)
    heedful.run(tmp_path / "words.toml", out=tmp_path / "with", workers=1)
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    capsys.readouterr()
    study = heedful.run(tmp_path / "words.toml", out=tmp_path / "without", workers=1)
    assert "BLEU and chrF are omitted" in capsys.readouterr().err
    whole, part = (
        json.loads(next((tmp_path / folder / "runs").glob("*seed0/metrics.json")).read_text())
        for folder in ("with", "without")
    )
    for before, now in ((whole["splits"], part["splits"]), (whole["baselines"]["copy"], part["baselines"]["copy"])):
        for name in ("dev", "test"):
            same = {key: value for key, value in before[name].items() if key not in ("bleu", "chrf", *DETAILS)}
            assert {key: value for key, value in now[name].items() if key not in DETAILS} == same
    assert part["primary"] == "exact_match"
    statistics = json.loads((tmp_path / "without/statistics.json").read_text())
    assert statistics["metric"] == "exact_match"
    assert set(statistics["settings"]) == {study.table[0]["setting"], "copy"}
    for page in ("report.html", "report.md"):
        text = (tmp_path / "without" / page).read_text(encoding="utf-8")
        assert text.count("BLEU and chrF are omitted, as sacreBLEU is not installed.") == 1
    run = next((tmp_path / "without/runs").glob("*seed0"))
    write_run_report(run)
    assert "BLEU and chrF are omitted" in (run / "report.md").read_text()


def test_what_is_too_long_is_said(finished: Path) -> None:
    data = json.loads((finished / "manifest.json").read_text())["data"]
    long = [word for word in words(30) if len(translate_word(word)) + 1 > 8]
    assert long
    assert data["sizes"]["train"] == 30 - len(long)
    said = f"train: {len(long)} pairs are left out because a side has more than 8 tokens, training.max_length"
    assert any(note.startswith(said) for note in data["notes"]), data["notes"]
    assert any("more than 8 tokens and" in note and note.startswith("test:") for note in data["notes"])
    metrics = json.loads((finished / "metrics.json").read_text())["splits"]
    assert all(sentence in data["notes"] for sentence in metrics["dev"]["cut"])


@pytest.mark.parametrize("longest", [40, 8, 5])
def test_a_warning_where_much_of_train_is_left_out(longest: int, tmp_path: Path) -> None:
    """Before the first step, and on the report; not where hardly anything is."""
    heard: list[str] = []
    recipe = translation("encoder-decoder", tmp_path, training={"max_length": longest, "epochs": 1})
    narrator = Narrator("run", lambda _, news: heard.append(news.get("line", "step")))
    execute(recipe, 3, tmp_path / "run", narrator=narrator)
    long = sum(len(translate_word(word)) + 1 > longest for word in words(30))
    if longest == 40:
        assert not long
        assert not any("left out" in line for line in heard)
        return
    assert long > 3
    said = f"{long} of 30 training pairs ({long / 30:.0%}) are left out, as a side has more than {longest} tokens"
    assert heard[0].startswith(said)
    assert "raise training.max_length" in heard[0]
    write_run_report(tmp_path / "run")
    opening = (tmp_path / "run/report.md").read_text().split("\n## ")[0]
    assert said in opening


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_translates_as_it_was_judged(kind: str, tmp_path: Path) -> None:
    """Without a word on beams or lengths: generation_config.json says them."""
    recipe = translation(
        kind, tmp_path, training={"max_length": 12, "epochs": 2}, objective={"final_beam": 3, "length_penalty": 0.4}
    )
    execute(recipe, 0, tmp_path / "run", quiet=True)
    _, lines = read_predictions(tmp_path / "run/predictions/test.tsv")
    model = heedful.load(tmp_path / "run/model")
    said = model.translate([source for source in lines["source"] if len(source) < 12])
    judged = [pair for pair in zip(*lines.values(), strict=True) if len(pair[0]) < 12]
    assert said.texts == [translation for _, _, translation, _ in judged]
    assert said.scores == pytest.approx([float(score) for *_, score in judged], abs=1e-5)
    again = model.translate([source for source, *_ in judged], beam=1, max_length=5, length_penalty=1.0)
    assert again.texts != said.texts  # it would be noticed


def test_what_is_too_long_for_the_other_body_is_said(tmp_path: Path) -> None:
    """The BERT here reads fewer tokens than training.max_length allows."""
    rows = [(word, translate_word(word)) for word in words(20)]
    long = [("x " * 60, "c"), ("y " * 70, "d")]
    data = {
        "train": str(write_csv(tmp_path / "train.csv", ("plain", "pig"), [*rows, *long])),
        "dev": str(write_csv(tmp_path / "dev.csv", ("plain", "pig"), [*rows[:4], long[0]])),
        "test": str(write_csv(tmp_path / "test.csv", ("plain", "pig"), rows[:4])),
    }
    parts = assembled(translation("bert-fused", tmp_path, data=data, training={"max_length": 200}), tmp_path / "store")
    described, most = parts.inputs.describe(), parts.checkpoint.module.shape.bert.longest  # type: ignore[union-attr]
    assert described["sizes"]["train"] == 20
    because = f"because the source has more than the {most} tokens that model.bert reads (rows 21, 22)."
    assert f"train: 2 pairs are left out {because}" in described["notes"]
    assert f"dev: 1 source is cut for model.bert, which reads {most} tokens (row 5)." in described["notes"]


def test_it_can_be_read_and_gone_on_from(finished: Path, tmp_path: Path) -> None:
    """With the same ids and the same answers, and the same losses at first; by a name with the seed in it, too."""
    saved = read_translator(finished / "model")
    shutil.copytree(finished / "model", tmp_path / "seed0")
    recipe = translation(
        "encoder-decoder",
        tmp_path,
        model={"kind": None, "layers": None, "width": None, "heads": None, "name": str(finished / "model")},
        tokenizer=None,
        training={"max_length": 8, "epochs": 1},
        objective={"final_beam": 3},
    )
    again = assembled(recipe, tmp_path / "store")
    assert again.checkpoint.tokenizer_fingerprint == saved.tokenizer_fingerprint
    again.tuning.train(False)
    judged = again.evaluator.evaluate_all(again.tuning.reader, again.inputs, ["test"])["test"]
    _, lines = read_predictions(finished / "predictions/test.tsv")
    assert [list(line) for line in judged.predictions()] == [list(line) for line in zip(*lines.values(), strict=True)]
    seeded = recipe.model.model_copy(update={"name": str(tmp_path / "seed{seed}")})
    execute(recipe.model_copy(update={"model": seeded}), 0, tmp_path / "run", quiet=True)
    model = json.loads((tmp_path / "run/manifest.json").read_text())["model"]
    assert (model["source"], model["fingerprint"]) == (str(tmp_path / "seed0"), fingerprint(finished / "model"))


def test_a_recipe_with_marians_wiring_and_tokenizer_leaves_marians_layout(tmp_path: Path) -> None:
    tokenizers = save_peer(make_peer(), tmp_path / "marian")
    for positions, family in (("sinusoidal-halves", "marian"), ("sinusoidal", "heedful")):
        recipe = translation(
            "encoder-decoder",
            tmp_path,
            model={"norm": "post", "position_kind": positions},
            tokenizer={"kind": None, "name": str(tokenizers)},
            training={"epochs": 1},
        )
        execute(recipe, 7, tmp_path / positions, command="test", quiet=True)
        assert read_translator(tmp_path / positions / "model").family == family


def test_settings_of_the_model_that_a_run_goes_on_from_are_not_left(finished: Path, tmp_path: Path) -> None:
    """Judged without them, it translates without them; and one that cannot be honoured does not make it useless."""
    shutil.copytree(finished / "model", tmp_path / "first")
    path = tmp_path / "first/generation_config.json"
    others = {"no_repeat_ngram_size": 2, "max_new_tokens": 2, "min_new_tokens": 1}
    path.write_text(json.dumps({**json.loads(path.read_text()), **others}))
    recipe = translation(
        "encoder-decoder",
        tmp_path,
        model={"kind": None, "layers": None, "width": None, "heads": None, "name": str(tmp_path / "first")},
        tokenizer=None,
        training={"max_length": 8, "epochs": 1},
    )
    execute(recipe, 0, tmp_path / "run", quiet=True)
    _, lines = read_predictions(tmp_path / "run/predictions/test.tsv")
    judged = [pair for pair in zip(*lines.values(), strict=True) if len(pair[0]) < 8]
    said = heedful.load(tmp_path / "run/model").translate([source for source, *_ in judged])
    assert said.texts == [translation for _, _, translation, _ in judged]
    assert max(map(len, said.tokens)) > 2


def test_a_study_with_a_named_body_beside_goes_on(tmp_path: Path) -> None:
    """It is asked for as a model, not as an adapter, which the hub would be asked for."""
    recipe = translation("bert-fused", tmp_path, model={"bert": "heedful-tiny-en"}, training={"epochs": 1})
    for seeds in ((0,), (0, 1)):
        study = run_study(plan_recipe(recipe, "r", seeds), tmp_path / "study", command="x", quiet=True)
        assert [run["state"] for run in study["runs"]] == ["done"] * len(seeds)


def test_runs_with_another_body_of_the_same_name_are_not_joined(tmp_path: Path) -> None:
    recipe = translation("bert-fused", tmp_path, training={"epochs": 1})
    run_study(plan_recipe(recipe, "r", (0,)), tmp_path / "study", command="x", quiet=True)
    write_tiny(tmp_path / "bert", inner=32)
    for seeds in ((0,), (0, 1)):
        with pytest.raises(RequestError, match=r"tiny has changed since r-seed0 was made"):
            run_study(plan_recipe(recipe, "r", seeds), tmp_path / "study", command="x", quiet=True)
    shutil.rmtree(tmp_path / "bert")  # one that is gone has not changed, but is missed
    run_study(plan_recipe(recipe, "r", (0,)), tmp_path / "study", command="x", quiet=True)
    with pytest.raises(RequestError, match=r"bert/tiny"):
        run_study(plan_recipe(recipe, "r", (0, 1)), tmp_path / "study", command="x", quiet=True)


def test_another_body_beside_a_translator_that_was_trained_alone(finished: Path, tmp_path: Path) -> None:
    sizes = {"layers": None, "width": None, "heads": None}
    recipe = translation(
        "bert-fused",
        tmp_path,
        model={**sizes, "name": str(finished / "model"), "drop_net": 0.3},
        tokenizer=None,
        training={"max_length": 8, "epochs": 1},
    )
    execute(recipe, 0, tmp_path / "run", quiet=True)
    ours, plain = (read_translator(folder / "model") for folder in (tmp_path / "run", finished))
    assert ours.model.shape.translator == plain.model.shape
    assert (ours.begin_id, ours.generation["num_beams"]) == (plain.begin_id, 5)
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    assert list(manifest["model"]["made_from"]) == [recipe.model.bert]
    shutil.rmtree(tmp_path / "bert")  # what was made needs it no more


def test_rows_that_recur_are_told_apart(tmp_path: Path) -> None:
    known = words(20)
    rows = [(word, translate_word(word)) for word in known]
    new = [(word, translate_word(word)) for word in words(12, seed=8) if word not in known][:6]
    data = {
        "train": str(write_csv(tmp_path / "train.csv", ("plain", "pig"), rows)),
        "dev": str(write_csv(tmp_path / "dev.csv", ("plain", "pig"), new)),
        "test": str(write_csv(tmp_path / "test.csv", ("plain", "pig"), [*rows[:5], *new])),
    }
    recipe = translation("recurrent", tmp_path, data=data, training={"keep_marks": True, "keep": "last"})
    execute(recipe, 0, tmp_path / "run", quiet=True)
    marks = sorted((tmp_path / "run/marks").iterdir())
    weights = [dict(read_translator(mark).model.named_parameters()) for mark in [*marks, tmp_path / "run/model"]]
    assert len(weights) == 4
    same = [all(p.equal(weights[-1][n]) for n, p in one.items()) for one in weights]
    assert same == [False, False, True, True]  # each mark as it was then
    test = json.loads((tmp_path / "run/metrics.json").read_text())["splits"]["test"]
    new = test["parts"][0]
    assert new["part"] == "sources that are not in train"
    assert (test["n"], test["recurring"], new["n"]) == (11, 5, 6)
    _, lines = read_predictions(tmp_path / "run/predictions/test.tsv")
    expected = sacrebleu.corpus_chrf(lines["translation"][5:], [lines["reference"][5:]]).score
    assert new["chrf"] == pytest.approx(expected, abs=1e-9)


def test_a_study_compares_by_bleu(tmp_path: Path) -> None:
    """Sentences × seeds, from the values of the runs; the source as it is stands beside them."""
    data = write_words(tmp_path / "words")
    files = "".join(f'{key} = "{value}"\n' for key, value in data.items())
    (tmp_path / "words.toml").write_text(
        f"""
[model]
kind = "encoder-decoder"
layers = 1
heads = 2
[tokenizer]
kind = "characters"
[data]
{files}
[objective]
kind = "translate"
[training]
epochs = 2
lr = 5e-3
max_length = 16
threads = 1
device = "cpu"
[evaluation]
metric = "chrf"
[study]
model.width = [8, 16]
test = "all"
"""
    )
    study = heedful.run(tmp_path / "words.toml", seeds=2, out=tmp_path / "study", workers=1)
    statistics = json.loads((tmp_path / "study/statistics.json").read_text())
    assert statistics["metric"] == "chrf"
    assert not statistics["not_compared"]
    settings = {row["setting"]: row for row in study.table}
    assert set(statistics["settings"]) == {*settings, "copy"}
    for name, row in settings.items():
        expected = statistics["settings"][name]["expected"]
        assert expected["mean"] == pytest.approx(row["test_mean"])
        assert expected["low"] < expected["mean"] < expected["high"]
    assert len(statistics["comparisons"]) == 3
    assert (tmp_path / "study/best/config.json").exists()
    signatures = json.loads(next((tmp_path / "study/runs").glob("*/metrics.json")).read_text())["splits"]["test"]
    page = (tmp_path / "study/report.html").read_text(encoding="utf-8")
    assert all(page.count(signature) == 1 for signature in signatures["signatures"].values())


def test_a_bert_that_does_not_move_is_kept_once_for_a_study(tmp_path: Path) -> None:
    """Its weights are one file, its states are computed by the first run, and each model still stands alone."""
    recipe = translation("bert-fused", tmp_path, training={"epochs": 2, "keep_marks": True})
    run_study(plan_recipe(recipe, "fused", (0, 1)), tmp_path / "study", quiet=True)
    study = tmp_path / "study"
    models = [*study.glob("runs/*/model"), *study.glob("runs/*/marks/*"), study / "best"]
    assert len(models) == 7
    assert len({(model / "bert/model.safetensors").stat().st_ino for model in models}) == 1
    assert len({(model / "model.safetensors").stat().st_ino for model in models[:2]}) == 2
    states = list(study.rglob("features.npy"))
    assert len(states) <= 3  # of train, dev and test
    costs = [json.loads(path.read_text())["cost"] for path in sorted(study.glob("runs/*/manifest.json"))]
    assert costs[0]["flops"] == costs[1]["flops"]
    moved = shutil.copytree(models[0], tmp_path / "moved")
    said = heedful.load(models[0]).translate(["bad", "dots"])
    shutil.rmtree(study)
    alone = heedful.load(moved).translate(["bad", "dots"])
    assert (alone.texts, list(alone.scores)) == (said.texts, list(said.scores))


def test_a_bert_that_moves_is_each_runs_own(tmp_path: Path) -> None:
    recipe = translation("bert-fused", tmp_path, model={"bert_tuned": True}, training={"epochs": 1})
    run_study(plan_recipe(recipe, "fused", (0, 1)), tmp_path / "study", quiet=True)
    weights = [path.read_bytes() for path in (tmp_path / "study").glob("runs/*/model/bert/model.safetensors")]
    assert len(set(weights)) == 2


def test_a_run_that_goes_on_pays_for_the_states_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not in the time of the steps, in which they would count again when they are found on disk."""
    write = Batcher._write

    def slow(self: Batcher, *rest: Any) -> None:
        write(self, *rest)
        time.sleep(1)

    monkeypatch.setattr(Batcher, "_write", slow)
    manifest = execute(translation("bert-fused", tmp_path, training={"epochs": 1}), 0, tmp_path / "run", quiet=True)
    assert manifest["cost"]["training_seconds"] < 2 < manifest["cost"]["total_seconds"]
