"""The encoder in the package: whole, small, really pretrained, and the same model in transformers."""

import random
import socket
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file

import heedful
from heedful.checkpoints import catalog, directory
from heedful.cli.main import main
from heedful.models.batch import Batch, pad
from heedful.report import study
from heedful.storage.runs import read_study
from heedful.studies import executors, plan
from heedful.studies.parts import StudyPlan
from heedful.studies.plan import plan_comparison

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

PASSAGES = (
    (
        "The old man took his hat and went out of the house. It was a cold night, and the snow lay deep upon the road.",
        "He walked slowly through the snow, leaning upon his stick, until he saw the light of the inn before him.",
    ),
    (
        "I saw this movie last night with my wife. The acting was good and the story kept us guessing until the end.",
        "The director has made better films than this one, but the cast is great and the ending is worth the wait.",
    ),
    (
        "The captain ordered his men to lower the boats. The ship had struck upon a rock, and the sea was on the deck.",
        "The men rowed for their lives, and when they looked back the ship had gone down beneath the waves.",
    ),
    (
        "This film is a complete waste of time. The plot makes no sense, and the characters are flat and dull.",
        "Do not rent it, not even for the special effects, which are the worst that I have ever seen in a movie.",
    ),
    (
        "Mrs. Gray had been ill for many weeks, and the doctor came every day. Her daughter never left her side.",
        "The doctor shook his head, and told the girl that her mother would not live until the morning.",
    ),
    (
        "I watched this show every week when I was a kid. Each episode was funny, and the actors had a great time.",
        "Now that the series is out on DVD I can watch every season again, and it is still as funny as it was.",
    ),
    (
        "The king sat upon his throne, and the lords stood around him. A messenger had come, and all were silent.",
        "The messenger knelt before the king and told him that the battle was lost and that his son was slain.",
    ),
    (
        "It is a low budget horror flick about zombies in a small town. The gore is fake and nobody in it can act.",
        "Fans of the genre may like the scenes with the zombies, but everyone else should skip this flick.",
    ),
)
"""Texts and how they go on: novels and reviews in turn."""


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


def follows_scores(model: heedful.Model) -> torch.Tensor:
    """(n, n): of every first text and every second one, the log-odds that the second follows."""
    tokenizer, transformer = model.checkpoint.tokenizer, model.checkpoint.transformer
    assert tokenizer is not None
    assert transformer.body.pooler is not None
    rows = tokenizer.encode([(first, second) for first, _ in PASSAGES for _, second in PASSAGES])
    batch = pad([row.ids for row in rows], [row.segments for row in rows], tokenizer.pad_id, torch.device("cpu"))
    with torch.inference_mode():
        pooled = transformer.body.pooler(transformer.body(batch).last[:, 0])
        scores = transformer.heads["next-sentence"](pooled)
    return (scores[:, 0] - scores[:, 1]).reshape(len(PASSAGES), len(PASSAGES))


def test_it_knows_what_may_follow():
    """The true continuation is likelier than another passage's, most of all than one of another kind of text; random
    weights cannot tell."""
    model = heedful.load(NAME)
    n = len(PASSAGES)
    other_nn = ~torch.eye(n, dtype=torch.bool)
    kind_n = torch.arange(n) % 2
    another_kind_nn = kind_n[:, None] != kind_n
    found_nn = follows_scores(model)
    wins_nn = (found_nn.diagonal()[:, None] > found_nn).float()
    assert wins_nn[other_nn].mean() > 0.7
    assert wins_nn[another_kind_nn].mean() > 0.9
    model.checkpoint.transformer.initialise(torch.Generator().manual_seed(0))
    drawn_nn = follows_scores(model)
    assert (drawn_nn.diagonal()[:, None] > drawn_nn).float()[other_nn].mean() < 0.7


def test_quickstart_needs_no_network(tmp_path, monkeypatch, capsys):
    """The command with this model, with less to do and no pages: nothing is fetched."""

    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("the network was asked for")

    def small(source: dict[str, Any], models: list[str], methods: list[str], seeds: range) -> StudyPlan:
        training = {"epochs": 1, "max_length": 16, "threads": 1}
        return plan_comparison(source, models, methods, seeds[:1], {"data": {"limit": 40}, "training": training})

    for place in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, place, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(plan, "plan_comparison", small)
    one_after_another = executors.executor_for(None, 1, 2)  # in this process, where the network is refused
    monkeypatch.setattr(executors, "executor_for", lambda *_: one_after_another)
    monkeypatch.setattr(study, "write_reports", read_study)
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.argv", ["heedful", "quickstart", "--model", NAME, "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    assert not (tmp_path / "cache").exists()
    table = heedful.results(tmp_path / "out").table
    assert {row["setting"] for row in table} >= {f"{NAME}-frozen", f"{NAME}-full"}
    assert "heedful compare YOUR.csv" in capsys.readouterr().out


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
