"""A model whose head reads the mean opens in sentence-transformers, with the same vectors; others do not pretend."""

import json
from pathlib import Path

import numpy as np
import pytest

import heedful
from heedful.checkpoints.directory import read_model, write_model
from heedful.checkpoints.heads import NewHead
from tests.support.checkpoint_samples import FAMILY_NAMES, make_good

TEXTS = ["ab cd", "h", "abcdefgh hgfedcba cdcd abab ef gh fe", "Aé ab"]


def write(family: str, folder: Path, reads: str) -> Path:
    if not (folder / "found").exists():
        make_good(family, folder / "found")
    checkpoint = read_model(folder / "found", {"classify": NewHead("linear", ("no", "yes"), reads)})  # type: ignore[arg-type]
    assert checkpoint.tokenizer is not None
    checkpoint.tokenizer.max_length = 10
    write_model(folder / "model", checkpoint)
    return folder / "model"


def test_the_files_say_what_the_head_reads(tmp_path: Path) -> None:
    model = write("bert", tmp_path, "mean")
    modules = json.loads((model / "modules.json").read_text())
    assert [m["type"].rpartition(".")[2] for m in modules] == ["Transformer", "Pooling"]
    assert modules[0]["path"] == ""
    pooling = json.loads((model / modules[1]["path"] / "config.json").read_text())
    assert pooling.pop("word_embedding_dimension") == 8
    assert [mode for mode, on in pooling.items() if on] == ["pooling_mode_mean_tokens"]
    assert json.loads((model / "sentence_bert_config.json").read_text()) == {
        "max_seq_length": 10,
        "do_lower_case": False,
    }
    write("bert", tmp_path, "first")  # in its place, and nothing of the old one is left
    assert not (model / "modules.json").exists()
    assert not (model / "sentence_bert_config.json").exists()
    assert not [p.name for p in model.iterdir() if p.is_dir()]


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_the_same_vectors_in_sentence_transformers(family: str, tmp_path: Path) -> None:
    peer = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    model = write(family, tmp_path, "mean")
    ours = heedful.load(model).encode(TEXTS, "mean", max_length=10)
    theirs = peer.SentenceTransformer(str(model), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert np.abs(ours[0] - ours[1]).max() > 1e-3
