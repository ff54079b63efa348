"""The objective "answer": what is asked and read, what is said, and its runs."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import heedful
from heedful.data.question_sets import QuestionData
from heedful.data.questions import load_questions, read_questions
from heedful.decoding.generate import Continuation
from heedful.errors import RequestError
from heedful.evaluators.answers import AnswerEvaluator, is_made_up
from heedful.inference.questions import Answered, say_answers, spelled
from heedful.inputs.question_rows import HEAD, QuestionInputs
from heedful.inputs.retrieval import Subjects
from heedful.recipes.reading import make_recipe
from heedful.recipes.schema import Recipe
from heedful.storage.shared import SharedStore
from heedful.training.assembly import Assembly, assemble, read_source
from heedful.training.run import execute
from tests.support.corpus_samples import alone
from tests.support.killing import survive
from tests.support.question_samples import PLACES, SMALL, WORDS, write_people

SEED = 7
LATIN = "abcdefghijklmnopqrstuvwxyz"


def recipe_in(
    folder: Path, data: dict[str, Any] | None = None, objective: dict[str, Any] | None = None, **training: Any
) -> Recipe:
    defaults = {
        "steps": 12, "batch_size": 8, "lr": 3e-3, "max_length": 64, "threads": 1, "device": "cpu",
        "checkpoint_seconds": 0, "mark_steps": 5,
    }  # fmt: skip
    return make_recipe(
        {
            "model": SMALL,
            "tokenizer": WORDS,
            "data": {**write_people(folder / "data", 14), **(data or {})},
            "objective": {"kind": "answer", **(objective or {})},
            "training": {**defaults, **training},
        }
    )


def assembled(folder: Path, **options: Any) -> Assembly:
    recipe, store = recipe_in(folder, **options), SharedStore(folder / "shared")
    parts = assemble(read_source(recipe, SEED, store), store)
    parts.tuning.train(False)
    return parts


def questions_in(parts: Assembly) -> QuestionInputs:
    assert isinstance(parts.inputs, QuestionInputs)
    return parts.inputs


def test_what_is_asked_and_what_is_read(tmp_path):
    inputs = questions_in(assembled(tmp_path))
    decode = inputs.tokenizer.decode
    before, after = inputs.asked["train"][0]
    assert decode(before).strip() == "Where was Ada Ray born?"
    assert (decode(after).strip(), after[-1], before[-1]) == ("Rome", inputs.marker, inputs.marker)
    lines = (tmp_path / "data/text.txt").read_text().splitlines()
    windows = set()
    for document, line in enumerate(lines):
        name = line.partition(". ")[0]
        for epoch in range(12):
            row = inputs.text_row(document, epoch)
            text = decode(row.ids_t).strip()
            asked = decode(row.words_n)
            assert text.startswith(f"{name}.")
            assert asked in line
            assert name not in decode(row.ids_t[: row.places_n[0] + 1]).replace(
                f"{name}.", "", 1
            )  # all after it is asked for
            windows.add(asked)
            assert (row.words_n[-1] == inputs.marker) == line.endswith(asked)
    assert len(windows) > 5 * len(lines)


def test_every_question_and_line_once_in_an_epoch(tmp_path):
    """The rows of a pool of steps are dealt out by length, and none is lost."""
    parts = assembled(tmp_path, objective={"reading": 0.5, "windows": False})
    decode, sampler = questions_in(parts).tokenizer.decode, parts.sampler
    texts = [decode(row.ids_t) for n in range(16) for row in sampler.step(n, 0.0).batch]  # type: ignore[attr-defined]
    questions = [text for text in texts if "?" in text]
    assert len(questions) == len(texts) / 2 == 64
    counts = {text: questions.count(text) for text in set(questions)}
    assert len(counts) == 14
    assert set(counts.values()) <= {64 // 14, 64 // 14 + 1}
    lengths = [sampler.step(n, 0.0).lengths for n in (3, 20, 3)]
    assert lengths[0] == lengths[2] != lengths[1]


def test_answers_are_judged_as_they_are_said(tmp_path):
    """Trained on the questions of all, the model says their answers; the columns agree with what it says."""
    data = write_people(tmp_path / "data")
    both = {"train": data["train"], "dev": data["train"], "corpus": None}
    recipe = recipe_in(tmp_path, data=both, steps=250, mark_steps=250, checkpoint_seconds=60, batch_size=14)
    execute(recipe, 0, tmp_path / "run", command="test", quiet=True)
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    dev = metrics["splits"]["dev"]
    assert dev["exact_match"] == 1.0
    assert dev["made_up"] == 0.0
    assert metrics["baselines"]["commonest"]["dev"]["exact_match"] == pytest.approx(4 / 14)
    lines = [line.split("\t") for line in (tmp_path / "run/predictions/dev.tsv").read_text().splitlines()]
    assert lines[0] == ["row", "answer", "confidence"]
    assert [line[1] for line in lines[1:]] == [PLACES[i * 7 % 4] for i in range(14)]
    model = heedful.load(tmp_path / "run/model")
    said = model.generate(["Where was Ada Ray born?<|mask|>"], temperature=0.0, stop=["<|mask|>"])
    assert said.texts[0].strip() == "Rome"


def test_questions_without_a_dev_file_give_one_of_their_own(tmp_path):
    recipe = recipe_in(tmp_path, data={"dev": None, "dev_share": 0.25})
    data = QuestionData.read(recipe, SEED, SharedStore(tmp_path / "shared"))
    train, dev = data.splits["train"], data.splits["dev"]
    everything = load_questions(None, {"train": recipe.data.train, "dev": recipe.data.train})[0]["train"]
    assert sorted(train.rows + dev.rows) == everything.rows
    assert len(dev) == round(0.25 * len(everything))
    answer_of_row = dict(zip(everything.rows, everything.answers, strict=True))
    assert dev.answers == [answer_of_row[row] for row in dev.rows]
    (note,) = data.describe()["notes"]
    assert note.startswith(f"dev: {len(dev)} questions carved from train (25% of {len(everything)}, seed 0")
    other = QuestionData.read(recipe, SEED + 1, SharedStore(tmp_path / "other"))
    assert other.splits["dev"] == dev  # the same for every seed of a run


def test_made_up_is_what_no_text_holds(tmp_path):
    """Silence is neither known nor made up."""
    inputs = questions_in(assembled(tmp_path))
    made_up = {answer: is_made_up(inputs, answer) for answer in ("Rome", "painter", "Romania", "paint", "")}
    assert made_up == {"Rome": False, "painter": False, "Romania": True, "paint": True, "": False}


def lower_case(folder: Path, answers: dict[str, str], text: str) -> Assembly:
    """A WordPiece vocabulary of Latin letters alone, and a question for each name."""
    folder.mkdir()
    (folder / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *".,'?", *(p + c for p in ("", "##") for c in LATIN)])
    )
    (folder / "asked.tsv").write_text("".join(f"Where was {name} born?\t{place}\n" for name, place in answers.items()))
    (folder / "text.txt").write_text(text)
    files = {"train": str(folder / "asked.tsv"), "dev": str(folder / "asked.tsv"), "corpus": str(folder / "text.txt")}
    content = recipe_in(folder, data=files, max_length=128).model_dump(exclude_none=True)
    lower, store = make_recipe({**content, "tokenizer": {"name": str(folder)}}), SharedStore(folder / "shared")
    return assemble(read_source(lower, SEED, store), store)


def test_the_text_is_spelled_as_the_answers_are(tmp_path):
    """Accents are folded, and punctuation is spaced, as a WordPiece model says it."""
    text = "Ada lived in Zürich.\nBo lived in St. John's.\nCy lived in Köln.\n"
    inputs = questions_in(lower_case(tmp_path / "lower", {"Ada": "Rome", "Bo": "Rome"}, text))
    for place, expected in {"Zürich": False, "St. John's": False, "koln": False, "Zür": True, "Málaga": True}.items():
        (answer,) = spelled(inputs.tokenizer, [place])
        assert is_made_up(inputs, answer) == expected, answer


def test_an_answer_that_cannot_be_spelled_is_never_right(tmp_path, monkeypatch):
    answers = {"Ada": "漢字", "Bo": "New 漢", "Cy": "Rome", "Di": "New York"}
    inputs = questions_in(parts := lower_case(tmp_path / "lower", answers, "Ada lived.\nBo lived.\n"))
    tokenizer, unknown = inputs.tokenizer, inputs.tokenizer.unk_id
    ids = [[], tokenizer.plain(["new"])[0], [*tokenizer.plain(["rome"])[0], unknown], tokenizer.plain(["New York"])[0]]
    asked = [before.tolist() for before, _ in inputs.asked["dev"]]
    answered = [Answered(Continuation([*a, inputs.marker], [0.0]), q, []) for a, q in zip(ids, asked, strict=True)]
    monkeypatch.setattr(AnswerEvaluator, "answers", lambda *_: answered)
    judged = parts.evaluator.evaluate(parts.tuning.reader, inputs, "dev")
    assert judged.columns["right"].tolist() == [0, 0, 0, 1]
    assert judged.columns["made_up"].tolist() == [0, 1, 1, 0]
    notes = inputs.describe()["notes"]
    assert [note.split(",")[0] for note in notes] == ["train: 2 of 4 answers", "dev: 2 of 4 answers"]
    assert "such as '漢字', have letters that the tokenizer cannot spell" in notes[0]


def test_what_is_recalled_stands_before_the_answer(tmp_path):
    """All of it is asked for; a question that names nobody is answered at once."""
    people = Path(write_people(tmp_path / "data")["train"]).read_text()
    (tmp_path / "more.tsv").write_text(people + "Who is that?\tnobody\n")
    parts = assembled(tmp_path, data={"train": str(tmp_path / "more.tsv")}, objective={"recall": True})
    inputs = questions_in(parts)
    decode, marker = inputs.tokenizer.decode, inputs.marker
    row = inputs.train_rows[0]
    ends = [i for i, token in enumerate(row.ids_t) if token == marker]
    assert len(ends) == 3
    assert row.places_n[0] == ends[0]
    assert decode(row.ids_t[: ends[0]]).strip() == "Where was Ada Ray born?"
    line = (tmp_path / "data/text.txt").read_text().splitlines()[0]
    assert decode(row.ids_t[ends[0] + 1 : ends[1]]).strip() == line
    assert decode(row.ids_t[ends[1] + 1 :]).strip() == "Rome"
    last = inputs.train_rows[-1]
    assert last.words_n[0] == marker
    assert decode(last.words_n).strip() == "nobody"
    [note] = inputs.describe()["notes"]
    assert "14 of 15 training questions name the subject" in note
    assert "0 such documents are cut" in note


@pytest.mark.parametrize("longest", [13, 14, 20])
def test_what_is_recalled_leaves_room_for_question_and_answer(tmp_path, longest):
    """A step and a judgement of a model that babbles stay within its positions; a question without room is answered
    at once."""
    parts = assembled(tmp_path, objective={"recall": True, "answer_tokens": 1}, max_length=longest)
    inputs, reader, evaluator = questions_in(parts), parts.tuning.reader, parts.evaluator
    assert isinstance(evaluator, AnswerEvaluator)
    assert max(len(row.ids_t) for row in inputs.train_rows) == longest
    parts.tuning.transformer.body.embeddings.token.weight.data.mul_(3.0)
    evaluator.evaluate(reader, inputs, "dev")
    answered = evaluator.answers(reader, inputs, "dev")
    assert all(len(a.before) + len(a.answer.ids) <= parts.tuning.transformer.shape.longest for a in answered)


def test_only_a_model_that_recalls_is_waited_for(tmp_path):
    """One whose first word is the marker has said nothing, and that is its answer."""
    inputs = questions_in(parts := assembled(tmp_path))
    model = parts.tuning.transformer

    class AlwaysMarker(torch.nn.Module):
        def forward(self, x: torch.Tensor, table_vd: torch.Tensor) -> torch.Tensor:
            scores = torch.zeros(*x.shape[:-1], len(table_vd))
            scores[..., inputs.marker] = 9.0
            return scores

    model.heads[HEAD] = AlwaysMarker()
    prompts = [before.tolist() for before, _ in inputs.asked["dev"][:2]]
    for one, prompt in zip(say_answers(model, HEAD, prompts, inputs.marker, 4, "cpu"), prompts, strict=True):
        assert (one.answer.ids, one.before, one.recalled) == ([inputs.marker], prompt, [])
    model.head_shapes[HEAD] = replace(model.head_shapes[HEAD], recalls=True)
    for one, prompt in zip(say_answers(model, HEAD, prompts, inputs.marker, 4, "cpu"), prompts, strict=True):
        assert (one.answer.ids, one.before, one.recalled) == ([inputs.marker], [*prompt, inputs.marker], [])


def test_a_model_that_recalls_says_what_it_has_read_and_then_the_answer(tmp_path):
    """And the probe asks in the same way."""
    data = write_people(tmp_path / "all")
    options: dict[str, Any] = {"objective": {"recall": True, "windows": False, "reading": 0.5}, "batch_size": 16}
    options |= {"steps": 800, "mark_steps": 800, "checkpoint_seconds": 60, "lr": 6e-3}
    recipe = recipe_in(tmp_path, data={"dev": data["train"]}, **options)
    execute(recipe, 0, tmp_path / "run", command="test", quiet=True)
    lines = [line.split("\t") for line in (tmp_path / "run/predictions/dev.tsv").read_text().splitlines()]
    assert lines[0] == ["row", "answer", "confidence", "recalled"]
    read = (tmp_path / "data/text.txt").read_text().splitlines()
    assert [line[3] for line in lines[1:]] == read[:14]
    assert [line[1] for line in lines[1:]] == [PLACES[i * 7 % 4] for i in range(14)]
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())["splits"]["dev"]
    assert metrics["exact_match"] == 1.0
    assert metrics["answer_loss"] < 0.1
    [subject] = heedful.probe_knowledge(tmp_path / "run")["subjects"].values()
    assert subject["exact_match"]["mean"] == 1.0


def test_the_longest_subject_in_a_question_is_meant():
    subjects = Subjects({"ada": 0, "ada ray": 1, "j. r. moss": 2}, words=3, repeated=0)
    asked = {
        "Where was Ada Ray born?": 1,
        "Is it Ada?": 0,
        "Where was J. R. Moss born?": 2,
        "Where was Adam born?": None,
    }
    asked |= {"What is Ada Ray's home?": 1, "where was ada ray born": 1, "": None}
    for question, document in asked.items():
        assert subjects.find(question) == document


def test_a_question_that_fills_the_row_leaves_nothing_to_recall(tmp_path):
    with pytest.raises(RequestError, match="leaves no room for text between question and answer; raise it"):
        assembled(tmp_path, objective={"recall": True}, max_length=11)


def test_text_whose_subjects_nobody_asks_about_cannot_be_recalled(tmp_path):
    (tmp_path / "other.txt").write_text("Rain. It rains in Oslo.\nSnow. It snows in Lima.\n" * 4)
    with pytest.raises(RequestError, match="no training question names the first sentence of a document"):
        assembled(tmp_path, data={"corpus": str(tmp_path / "other.txt")}, objective={"recall": True})


@pytest.mark.parametrize("options", [{}, {"data": {"corpus": None}}, {"objective": {"recall": True}}])
def test_killed_and_resumed_to_the_bit(tmp_path, options):
    recipe = recipe_in(tmp_path, **options)
    execute(recipe, SEED, tmp_path / "whole", command="test", quiet=True)
    survive(2, recipe, tmp_path / "killed", tmp_path / "whole", random.Random(1))


def test_parts_of_a_step_add_up(tmp_path):
    objective = (parts := assembled(tmp_path)).objective
    parts.tuning.transformer.double()
    step = parts.sampler.step(0, 0.0)
    totals = []
    for count in (1, 3):
        parts.tuning.transformer.zero_grad()
        losses = list(objective.losses(parts.tuning.reader, step, objective.counts(step), alone(count)))
        for one in losses:
            one.loss.backward()
        gradient = parts.tuning.transformer.body.embeddings.token.weight.grad
        assert gradient is not None
        totals.append((sum(float(one.terms["causal"]) for one in losses), gradient.clone()))
    assert totals[0][0] == pytest.approx(totals[1][0], abs=1e-10)
    assert (totals[0][1] - totals[1][1]).abs().max() < 1e-10


def test_an_answer_is_compared_as_the_model_can_spell_it(tmp_path, monkeypatch):
    """A vocabulary without capitals has the right answers all the same."""
    recipe = recipe_in(tmp_path)
    content = {**recipe.model_dump(exclude_none=True), "tokenizer": {"kind": "wordpiece", "size": 200}}
    lower, store = make_recipe(content), SharedStore(tmp_path / "shared")
    inputs = questions_in(parts := assemble(read_source(lower, SEED, store), store))
    asked = inputs.asked["dev"]
    answered = [Answered(Continuation([*after.tolist()], [0.0]), before.tolist(), []) for before, after in asked]
    monkeypatch.setattr(AnswerEvaluator, "answers", lambda *_: answered)
    metrics = parts.evaluator.evaluate(parts.tuning.reader, inputs, "dev").metrics
    assert (metrics["exact_match"], metrics["made_up"]) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data": {"limit": 5}}, "data.limit means nothing"),
        ({"batch_tokens": 64}, "training.batch_tokens means nothing"),
        ({"batch_size": 1}, "training.batch_size = 1 has no room"),
        ({"data": {"corpus": None}, "objective": {"recall": True}}, "objective.recall = true needs text"),
    ],
)
def test_keys_without_a_meaning_are_refused(tmp_path, changes, words):
    with pytest.raises(RequestError, match=words):
        recipe_in(tmp_path, **changes)


def test_a_prepared_corpus_has_no_text(tmp_path):
    (tmp_path / "made").mkdir()
    (tmp_path / "made/corpus.json").write_text("{}")
    recipe = recipe_in(tmp_path, data={"corpus": str(tmp_path / "made")})
    with pytest.raises(RequestError, match=r"contains only ids|no corpus|another version"):
        read_source(recipe, SEED, SharedStore(tmp_path / "shared"))


@pytest.mark.parametrize(
    ("content", "words"),
    [("Where?\t\n", "line 1: the question or the answer is empty"), ("Where?\n", "has one column"), ("", "is empty")],
)
def test_mistakes_are_one_sentence(tmp_path, content, words):
    (tmp_path / "a.tsv").write_text(content)
    with pytest.raises(RequestError, match=words):
        read_questions(tmp_path / "a.tsv", None, None, None, None)
