"""The encoder in the package: whole, small, really pretrained, and the same model in transformers."""

import random

import numpy as np
import torch
import transformers
from safetensors.torch import load_file

import heedful
from heedful.checkpoints import catalog, directory
from heedful.models.batch import Batch

NAME = "heedful-tiny-en"
SENTENCES = (
    "The old man went out of the house and closed the door behind him.",
    "I thought the acting in this movie was really good.",
    "She looked at him for a long time without saying a word.",
    "The story is boring and the characters are not interesting at all.",
    "He put his hand on her shoulder and asked her to sit down.",
    "This is one of the best films that I have ever seen.",
    "They walked along the road until they came to a small village.",
    "The special effects are bad, but the music is nice.",
    "It was late in the evening when the letter was brought to her room.",
    "You will not be able to take your eyes off the screen.",
    "My father had been a poor man all his life.",
    "If you have nothing better to do, watch it on a rainy day.",
)


def hidden_word_scores(model: heedful.Model, text: str) -> list[float]:
    """The log-probability of every token of a text, each hidden in turn."""
    tokenizer, transformer = model.checkpoint.tokenizer, model.checkpoint.transformer
    assert tokenizer is not None
    assert tokenizer.mask_id is not None
    (row,) = tokenizer.encode([text])
    ids_t = torch.tensor(row.ids)
    inner = torch.arange(1, len(ids_t) - 1)
    ids_nt = ids_t.repeat(len(inner), 1)
    ids_nt[torch.arange(len(inner)), inner] = tokenizer.mask_id
    with torch.inference_mode():
        x_ntd = transformer.body(Batch(ids_nt)).last
        x_nd = x_ntd[torch.arange(len(inner)), inner]
        scores_nv = transformer.heads["mask"](x_nd, transformer.body.embeddings.token.weight)
        return scores_nv.log_softmax(1)[torch.arange(len(inner)), ids_t[inner]].tolist()


def test_it_is_whole_and_small():
    folder = catalog.get(NAME, check=True)
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 8_000_000
    assert {path.name for path in folder.iterdir()} == {*catalog.CATALOG[NAME].sha256, "README.md"}
    catalog.verify(catalog.CATALOG[NAME], folder)
    assert set(heedful.load(NAME).checkpoint.transformer.heads) == {"mask", "next-sentence"}


def test_it_knows_words_from_their_company():
    """Hidden words are likelier where they stand than in the same words shuffled, and far likelier than by guessing."""
    model, draw = heedful.load(NAME), random.Random(0)
    whole, shuffled = [], []
    for text in SENTENCES:
        words = text.rstrip(".").split()
        draw.shuffle(words)
        whole.append(np.mean(hidden_word_scores(model, text)))
        shuffled.append(np.mean(hidden_word_scores(model, " ".join(words) + ".")))
    assert sum(a > b for a, b in zip(whole, shuffled, strict=True)) >= 11
    assert np.mean(whole) > -4.5  # guessing among 8,000: -9.0; by frequency: about -6.7


def test_transformers_gives_the_same_scores():
    folder = catalog.get(NAME)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    peer = transformers.AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()
    assert type(peer).__name__ == "RoFormerForMaskedLM"
    transformer = heedful.load(NAME).checkpoint.transformer
    batch = tokenizer(list(SENTENCES), padding=True, return_tensors="pt")
    seen_bt = batch["attention_mask"].bool()
    with torch.inference_mode():
        expected = peer(**batch).logits[seen_bt]
        x_btd = transformer.body(Batch(batch["input_ids"], seen_bt)).last
        found = transformer.heads["mask"](x_btd[seen_bt], transformer.body.embeddings.token.weight)
    assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()
    assert expected.std() > 1


def test_its_features_are_worth_more_than_random_ones(tmp_path):
    """On the messages in the package, with a head alone: the same body from random weights is behind."""
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f'''
        model = {{ name = "{NAME}" }}
        data = {{ name = "tickets" }}
        tuning = {{ method = "frozen" }}
        training = {{ threads = 1 }}
        study = {{ test = "all", model.scratch = [false, true] }}
        ''',
        encoding="utf-8",
    )
    table = heedful.run(recipe, out=tmp_path / "study").table
    scores = {row["setting"]: row["test_mean"] for row in table}
    assert scores["recipe-1"] > scores["recipe-2"] + 0.05


def test_a_table_too_large_to_be_written_is_made_by_the_peer(tmp_path, monkeypatch):
    """Without the table of sines in the file, transformers computes the same states."""
    model = heedful.load(NAME)
    model.save(tmp_path / "with")
    monkeypatch.setattr(directory, "_LARGEST_TABLE", 0)
    model.save(tmp_path / "without")
    stored = {name: set(load_file(tmp_path / name / "model.safetensors")) for name in ("with", "without")}
    assert stored["with"] - stored["without"] == {"roformer.encoder.embed_positions.weight"}
    ids_bt = torch.arange(10, 60).reshape(2, 25)
    peers = [transformers.AutoModel.from_pretrained(tmp_path / name).eval() for name in ("with", "without")]
    with torch.inference_mode():
        first, second = (peer(ids_bt).last_hidden_state for peer in peers)
    assert torch.equal(first, second)
