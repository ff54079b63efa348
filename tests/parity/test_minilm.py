"""The one real pretrained encoder, on real sentences, against the peer on the same files."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import heedful
from heedful.checkpoints import catalog

pytestmark = pytest.mark.full


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_minilm_features_equal_the_peers(pooling: str) -> None:
    data = os.environ.get("HEEDFUL_DATA")
    if not data:
        pytest.skip("HEEDFUL_DATA is not set")
    if not catalog.is_present("minilm"):
        pytest.skip("minilm is not here: heedful models get minilm")
    lines = (Path(data) / "sst2" / "stsa.binary.test").read_text(encoding="utf-8").splitlines()
    texts = [line[2:] for line in lines[:200]]
    assert len(texts) == 200
    directory = catalog.location("minilm")
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.AutoModel.from_pretrained(directory).eval()
    rows = []
    for text in texts:
        with torch.no_grad():
            out = model(**tokenizer(text, return_tensors="pt"))
        rows.append(out.pooler_output[0] if pooling == "cls" else out.last_hidden_state[0].mean(0))
    expected = torch.stack(rows).numpy()
    error = np.abs(heedful.load("minilm").encode(texts, pooling=pooling) - expected).max()
    print(f"largest error over {expected.size} features, {pooling}: {error:.1e}")
    assert error <= 1e-5
    assert np.abs(expected).mean() > 0.01
