"""What the runs of a study share is made once, and makes no difference; nobody else works in a run's directory."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from heedful.data import loading
from heedful.data.examples import Dataset, load_dataset
from heedful.data.labelled import LabelledTable
from heedful.data.loading import load_data, whole_data
from heedful.errors import RequestError
from heedful.evaluators.labelled import LabelledEvaluator
from heedful.inference.items import EncodedText, encode_texts, pack_texts, unpack_texts
from heedful.inputs import labelled
from heedful.storage.locks import alone
from heedful.storage.shared import SharedStore
from heedful.training.run import execute
from heedful.tuning import features
from tests.support.training_samples import (
    assert_same_run,
    sentences,
    tiny_model,
    tiny_recipe,
    write_csv,
    write_data,
    write_tiny,
)


def test_texts_come_back_from_tensors(tmp_path: Path) -> None:
    _, tokenizer = tiny_model(tmp_path)
    long = "a lovely film with a long plot " * 6
    for texts, pairs, chunked in [(["a film", long], None, True), (["a film", long], ["the plot", ""], False)]:
        made = encode_texts(tokenizer, texts if pairs is None else list(zip(texts, pairs, strict=True)), 12, chunked)
        assert unpack_texts(pack_texts(made)) == made
        assert any(len(i.chunks) > 1 or i.truncated for i in made)
    assert unpack_texts(pack_texts([])) == []
    assert unpack_texts(pack_texts([EncodedText([[1, 2]], None, False)])) == [EncodedText([[1, 2]], None, False)]


class Counts:
    """How often what is shared is really made."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.reads = self.tokens = self.features = 0
        load, make, compute = loading.load_dataset, labelled.encode_texts, features._compute

        def counted_load(**keys: Any) -> Any:
            self.reads += 1
            return load(**keys)

        def counted_texts(*arguments: Any) -> Any:
            self.tokens += len(arguments[1])
            return make(*arguments)

        def counted_features(reader: Any, texts: Any, *rest: Any) -> None:
            self.features += len(texts)
            compute(reader, texts, *rest)

        patch.setattr(
            LabelledEvaluator, "prediction_seconds", lambda *_: None
        )  # it tokenises a few again, to time that
        patch.setattr(loading, "load_dataset", counted_load)
        patch.setattr(labelled, "encode_texts", counted_texts)
        patch.setattr(features, "_compute", counted_features)


@pytest.mark.parametrize("method", ["frozen", "full", "solved"])
def test_runs_with_a_store_read_tokenise_and_run_a_frozen_body_once(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_recipe(write_tiny(tmp_path / "model"), write_data(tmp_path / "data"), method)
    for seed in (0, 1, 2):
        execute(recipe, seed, tmp_path / f"alone/r-seed{seed}", quiet=True)
    counts, store = Counts(monkeypatch), SharedStore(tmp_path / "store")
    manifests = [execute(recipe, s, tmp_path / f"shared/r-seed{s}", quiet=True, store=store) for s in (0, 1, 2)]
    rows = sum(manifests[0]["data"]["sizes"].values())
    assert (counts.reads, counts.tokens, counts.features) == (1, rows, 0 if method == "full" else rows)
    assert all(manifest["cost"]["training_seconds"] > 0 for manifest in manifests)
    for seed in (0, 1, 2):
        assert_same_run(tmp_path / f"alone/r-seed{seed}", tmp_path / f"shared/r-seed{seed}")
        assert not (tmp_path / f"alone/r-seed{seed}/.shared").exists()


@pytest.mark.parametrize("method", ["frozen", "full"])
def test_a_study_tokenises_and_runs_a_frozen_body_once(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from heedful.studies.plan import plan_recipe
    from heedful.studies.study import run_study

    recipe = tiny_recipe(write_tiny(tmp_path / "model"), write_data(tmp_path / "data"), method)
    for seed in (0, 1, 2):
        execute(recipe, seed, tmp_path / f"alone/r-seed{seed}", quiet=True)
    counts = Counts(monkeypatch)
    study = run_study(plan_recipe(recipe, "r", (0, 1, 2)), tmp_path / "study", quiet=True)
    rows = sum(json.loads((tmp_path / "study/runs/r-seed0/manifest.json").read_text())["data"]["sizes"].values())
    assert counts.reads == 1
    assert counts.tokens == rows
    if method == "frozen":
        assert counts.features == rows
        costs = [json.loads((tmp_path / f"study/runs/r-seed{s}/manifest.json").read_text())["cost"] for s in (0, 1, 2)]
        assert all(cost["training_seconds"] > 0 for cost in costs)
    assert [run["state"] for run in study["runs"]] == ["done"] * 3
    for seed in (0, 1, 2):
        assert_same_run(tmp_path / f"alone/r-seed{seed}", tmp_path / f"study/runs/r-seed{seed}")
    assert not (tmp_path / "study/.shared").exists()


def test_what_differs_is_not_shared(tmp_path: Path) -> None:
    """Other seeds of fresh layers, other pooling, other lengths, other rows: each has a place of its own."""
    model, data = write_tiny(tmp_path / "model"), write_data(tmp_path / "data")
    recipes: list[tuple[str, dict[str, Any]]] = [
        ("frozen", {}),
        ("frozen", {"model": {"pooling": "max"}}),
        ("frozen", {"training": {"max_length": 8}}),
        ("frozen", {"data": {"limit": 10, "redraw": True}}),
        ("solved", {"data": {"limit": 12}}),
        ("full", {"tuning": {"reinit_layers": 1}}),
    ]
    store = SharedStore(tmp_path / "store")
    for i, (method, tables) in enumerate(recipes):
        recipe = tiny_recipe(model, data, method, **tables)
        for seed in (0, 1):
            execute(recipe, seed, tmp_path / f"shared/{i}-{seed}", quiet=True, store=store)
            execute(recipe, seed, tmp_path / f"alone/{i}-{seed}", quiet=True)
            assert_same_run(tmp_path / f"shared/{i}-{seed}", tmp_path / f"alone/{i}-{seed}")


def _tables(folder: Path) -> dict[str, LabelledTable]:
    """Classes, scores, pairs, hidden labels, doubtful rows: what a data set can hold."""
    every = sentences(60, seed=2)
    folder.mkdir()
    write_csv(folder / "scores.csv", ("text", "label"), [(t, len(t) / 7) for t, _ in every])
    write_csv(folder / "pairs.csv", ("a", "b", "label"), [(a, b, x) for (a, x), (b, _) in zip(every, every[::-1])])  # noqa: B905
    write_csv(folder / "hidden.csv", ("a", "b"), [(b, a) for (a, _), (b, _) in zip(every[:9], every[20:29])])  # noqa: B905
    strange = [*every[:40], *every[:3], ("é\u2028 “x”\u0301", "good"), ("", "bad"), ("a film", "")]
    write_csv(folder / "strange.csv", ("text", "label"), strange)
    files = {name: str(folder / f"{name}.csv") for name in ("scores", "pairs", "hidden", "strange")}
    return {
        "classes": LabelledTable(**write_data(folder / "plain")),
        "scores": LabelledTable(train=files["scores"], text="text", label="label", kind="score"),
        "pairs": LabelledTable(train=files["pairs"], test=files["hidden"], text="a", pair="b", label="label"),
        "strange": LabelledTable(train=files["strange"], text="text", label="label"),
        "named": LabelledTable(name="arithmetic", options={"size": 200, "seed": 1}),
    }


@pytest.mark.parametrize("kind", ["classes", "scores", "pairs", "strange", "named"])
def test_data_from_the_store_are_those_from_the_files(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _tables(tmp_path / "files")[kind]
    keys = table.model_dump(exclude={"limit", "fraction", "redraw"})
    expected, counts, store = load_dataset(**keys), Counts(monkeypatch), SharedStore(tmp_path / "store")
    for _ in range(3):
        found = whole_data(table, SharedStore(store.directory))
        assert isinstance(found, Dataset)
        assert found == expected  # labels, scores, pairs, hidden, notes, fingerprints, rows
        assert isinstance(found.labels, tuple)
        assert isinstance(found.hidden, tuple)
    assert counts.reads == 1
    assert {"scores": expected.train.scores, "pairs": expected.train.pairs}.get(kind, True)
    assert (expected.hidden == ("test",)) == (kind == "pairs")
    if kind == "strange":
        assert expected.notes


def test_fewer_rows_are_taken_from_what_was_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, store = LabelledTable(**write_data(tmp_path / "data")), SharedStore(tmp_path / "store")
    counts = Counts(monkeypatch)
    notes = load_data(table, 0, store).notes
    for seed in (0, 1):
        some = load_data(table.model_copy(update={"limit": 7, "redraw": True}), seed, store)
        assert (len(some.train), some.notes) == (7, [*notes, "trained on 7 of 40 rows of the training set"])
    assert load_data(table, 0, store).notes == notes  # nothing was added to what is shared
    assert counts.reads == 1


def test_a_file_that_changed_is_read_again_in_the_next_sitting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of one sitting see the same data, whatever happens to the file meanwhile; the next reads it anew."""
    table, store = LabelledTable(**write_data(tmp_path / "data")), SharedStore(tmp_path / "store")
    before = load_data(table, 0, store)
    counts = Counts(monkeypatch)
    write_csv(tmp_path / "data/dev.csv", ("text", "label"), [("other words", "good"), ("and more", "bad")])
    assert load_data(table, 0, store) == before
    assert counts.reads == 0
    store.forget("data")
    after = load_data(table, 0, store)
    assert counts.reads == 1
    assert after.dev is not None
    assert after.dev.texts == ["other words", "and more"]
    assert after.train == before.train
    (tmp_path / "data/dev.csv").unlink()
    store.forget("data")
    with pytest.raises(RequestError, match=r"dev\.csv"):
        load_data(table, 0, store)


def test_what_is_half_written_is_made_again(tmp_path: Path) -> None:
    store, facts = SharedStore(tmp_path), {"a": 1}
    with pytest.raises(ZeroDivisionError):
        store.json(facts, "x", lambda: 1 / 0)
    with store.place(facts) as folder:
        (folder / ".x.json").write_text('{"half')
        (folder / ".y.safetensors").write_bytes(b"half")
    assert store.json(facts, "x", lambda: {"whole": [1]}) == {"whole": [1]}
    assert store.json(facts, "x", lambda: pytest.fail("made twice")) == {"whole": [1]}
    for make in (lambda: {"t": torch.arange(3)}, lambda: pytest.fail("made twice")):
        assert store.tensors(facts, "y", make)["t"].tolist() == [0, 1, 2]  # type: ignore[arg-type]
    assert store.json({"a": 2}, "x", lambda: "another") == "another"


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    recipe = tiny_recipe(write_tiny(tmp_path / "model"), write_data(tmp_path / "data"))
    (tmp_path / "run").mkdir()
    waits = (
        "import sys, pathlib; from heedful.storage.locks import alone\n"
        "with alone(pathlib.Path(sys.argv[1])):\n    print('in', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", waits, str(tmp_path / "run")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "in\n"
    with pytest.raises(RequestError, match="another process is at work there"):
        execute(recipe, 7, tmp_path / "run", quiet=True)
    other.kill()
    other.wait()
    assert execute(recipe, 7, tmp_path / "run", quiet=True)["state"] == "done"


def test_the_lock_is_free_again(tmp_path: Path) -> None:
    for _ in range(2):
        with alone(tmp_path), pytest.raises(RequestError, match="another process"), alone(tmp_path):
            pass


@pytest.mark.parametrize("method", ["frozen", "solved"])
def test_frozen_bodies_and_token_budgets_do_not_go_together(method: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r'training\.batch_tokens means nothing with tuning\.method = "frozen"'):
        tiny_recipe(tmp_path, {"name": "tickets"}, method, training={"batch_tokens": 64})
