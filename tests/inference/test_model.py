"""`heedful.load` and `Model.encode`: features equal to the peer's, whatever the batches, and clear refusals."""

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import heedful
from heedful.text.training import train_bpe, train_wordpiece

TEXTS = [
    "a gem of a film",
    "bad",
    "the plot is thin but the actors save it, and the music is worth the ticket alone",
    "I would not see it again.",
    "Great!",
    "",
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with a tokenizer, as the peer saves it."""
    folder = tmp_path_factory.mktemp("tiny")
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join(TEXTS * 3) + "\n")
    tokenizer = train_wordpiece([corpus], 120)
    config = transformers.BertConfig(
        vocab_size=tokenizer.size, hidden_size=24, num_hidden_layers=3, num_attention_heads=3, intermediate_size=40,
        max_position_embeddings=32, initializer_range=0.3,
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.BertModel(config).save_pretrained(folder / "model")
    tokenizer.save(folder / "model")
    return folder / "model"


def by_the_peer(directory: Path, texts: list, pooling: str) -> np.ndarray:
    """One text at a time, so that nothing here can share a mistake in batching."""
    model = transformers.AutoModel.from_pretrained(directory).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    rows = []
    for text in texts:
        pair = text if isinstance(text, tuple) else (text,)
        with torch.no_grad():
            out = model(**tokenizer(*pair, return_tensors="pt", truncation=True, max_length=32))
        x = out.last_hidden_state[0]
        rows.append(
            {"cls": out.pooler_output[0], "first": x[0], "mean": x.mean(0), "max": x.amax(0), "last": x[-1]}[pooling]
        )
    return torch.stack(rows).numpy()


@pytest.mark.parametrize("pooling", ["cls", "first", "mean", "max", "last"])
def test_features_equal_the_peers(directory: Path, pooling: str) -> None:
    pairs = [*TEXTS, ("Great!", "bad"), ("a gem of a film", "the plot is thin")]
    features = heedful.load(directory).encode(pairs, pooling=pooling)
    assert features.shape == (8, 24)
    assert features.dtype == np.float32
    assert np.abs(features - by_the_peer(directory, pairs, pooling)).max() <= 1e-5


@pytest.mark.parametrize("batch_size", [1, 2, 5, 100])
def test_batches_do_not_change_the_answer(directory: Path, batch_size: int) -> None:
    model = heedful.load(directory)
    expected = model.encode(TEXTS)
    assert np.abs(model.encode(TEXTS, batch_size=batch_size) - expected).max() <= 1e-5
    assert np.abs(model.encode(TEXTS[::-1], batch_size=batch_size)[::-1] - expected).max() <= 1e-5


def test_training_mode_is_left_as_it_was_and_does_not_leak(directory: Path) -> None:
    model = heedful.load(directory)
    expected = model.encode(TEXTS)
    model.transformer.train()
    assert np.array_equal(model.encode(TEXTS), expected)
    assert model.transformer.training


def test_long_texts_are_cut_with_a_word_about_it(directory: Path) -> None:
    model = heedful.load(directory)
    long = [" ".join(TEXTS) * 5, "bad"]
    with pytest.warns(UserWarning, match="1 of 2 texts are longer than the 32 tokens"):
        features = model.encode(long)
    assert np.abs(features - by_the_peer(directory, long, "mean")).max() <= 1e-5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.encode(long, max_length=32)


def test_save_and_load_again_is_equal_to_the_bit(directory: Path, tmp_path: Path) -> None:
    model = heedful.load(directory)
    model.save(tmp_path / "again")
    again = heedful.load(tmp_path / "again")
    assert np.array_equal(again.encode(TEXTS, "cls"), model.encode(TEXTS, "cls"))


def refusal(call) -> str:
    with pytest.raises(heedful.RequestError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_refusals_are_one_sentence(directory: Path, tmp_path: Path) -> None:
    model = heedful.load(directory)
    assert "put the one text in a list" in refusal(lambda: model.encode("a film"))
    assert "choose cls, first, mean" in refusal(lambda: model.encode(TEXTS, pooling="average"))
    assert "between 1 and the 32" in refusal(lambda: model.encode(TEXTS, max_length=64))
    assert "batch_size" in refusal(lambda: model.encode(TEXTS, batch_size=0))
    assert "Row 1" in refusal(lambda: model.encode(["a", 3.5]))
    assert "no such directory" in refusal(lambda: heedful.load("./not/there"))
    assert "no such directory" in refusal(lambda: heedful.load(tmp_path / "nothing"))
    assert "is a file" in refusal(lambda: heedful.load(directory / "config.json"))
    assert "no revisions" in refusal(lambda: heedful.load(directory, revision="main"))
    assert "needs labels" in refusal(lambda: heedful.load(directory, new_head="linear"))
    assert "not possible on bert" in refusal(lambda: heedful.load(directory, new_head="language-model"))
    assert "device" in refusal(lambda: heedful.load(directory, device="abacus"))


def test_no_texts_no_rows(directory: Path) -> None:
    assert heedful.load(directory).encode([]).shape == (0, 24)


def test_import_is_light() -> None:
    """`import heedful` and the command's help need neither torch nor numpy."""
    code = (
        "import sys, heedful, heedful.cli.main; "
        "heavy = {'torch', 'numpy', 'tokenizers', 'transformers', 'huggingface_hub'} & set(sys.modules); "
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_text_without_tokens_is_refused_in_any_batch(tmp_path: Path) -> None:
    """GPT-2 puts no special tokens around a text, so an empty one has nothing to read."""
    (tmp_path / "corpus.txt").write_text("\n".join(TEXTS * 3))
    tokenizer = train_bpe([tmp_path / "corpus.txt"], 300, family="gpt2")
    config = transformers.GPT2Config(
        vocab_size=tokenizer.size, n_embd=12, n_layer=1, n_head=2, n_positions=32, bos_token_id=0, eos_token_id=0
    )
    transformers.GPT2Model(config).save_pretrained(tmp_path / "model")
    tokenizer.save(tmp_path / "model")
    model = heedful.load(tmp_path / "model")
    for size in (1, 32):
        assert "row 1 of the texts has no tokens" in refusal(lambda n=size: model.encode(["hello", ""], batch_size=n))
    assert np.isfinite(model.encode(["hello", "a gem"], pooling="last")).all()


@pytest.mark.parametrize(("file", "folder"), [("study.json", "best"), ("manifest.json", "model")])
def test_a_study_or_a_run_in_place_of_its_model(file: str, folder: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text("{}")
    with pytest.raises(heedful.RequestError, match=f"whose model is in {tmp_path / folder} when it is done; name that"):
        heedful.load(str(tmp_path))
