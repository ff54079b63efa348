"""The objective "span": what is taken out can be put back, in every style, with every tokenizer; and its runs."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heedful.errors import RequestError
from heedful.objectives.span import SpanInputs
from heedful.storage.shared import SharedStore
from heedful.training.assembly import Assembly, assemble, read_source
from heedful.training.run import execute
from tests.support.corpus_samples import assert_packed_is_unpacked, corpus_recipe, row_of, write_text
from tests.support.killing import survive

SEED = 7
SHAPE = {"shape": "gpt-mini", "layers": 2, "width": 32, "heads": 2, "positions": 256, "attention": "rotary"}
KINDS = {"characters": {"kind": "characters", "size": None}, "bpe": {"kind": "bpe", "size": 300}}


def recipe_in(folder: Path, objective: dict[str, Any], kind: str = "characters", **training: Any):
    corpus = folder / "corpus.txt"
    if not corpus.exists():
        write_text(corpus)
    return corpus_recipe(corpus, {"kind": "span", **objective}, model=SHAPE, tokenizer=KINDS[kind], **training)


def span_of(parts: Assembly) -> SpanInputs:
    assert isinstance(parts.inputs, SpanInputs)
    return parts.inputs


def assembled(folder: Path, objective: dict[str, Any], kind: str = "characters", **training: Any) -> Assembly:
    recipe, store = recipe_in(folder, objective, kind, **training), SharedStore(folder / "shared")
    parts = assemble(read_source(recipe, SEED, store), store)
    parts.tuning.train(False)
    return parts


def put_back(ids: list[int], inputs: SpanInputs) -> list[int]:
    """The text that a sequence was made of."""
    mask, sentinels = inputs.mask_id, set(inputs.sentinels)
    ids = ids[1:] if inputs.begin is not None else ids
    assert ids[-1] == mask
    if inputs.table.style == "one":
        first, second, last = (i for i, token in enumerate(ids) if token == mask)
        return ids[:first] + ids[second + 1 : last] + ids[first + 1 : second]
    middle = ids.index(mask)
    spans: dict[int, list[int]] = {}
    for token in ids[middle + 1 : -1]:
        if token in sentinels:
            current = spans[token] = []
        else:
            current.append(token)
    return [t for token in ids[:middle] for t in (spans.pop(token) if token in sentinels else [token])]


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("style", ["one", "sentinels"])
@pytest.mark.parametrize("cut", [True, False])
def test_what_is_taken_out_can_be_put_back(tmp_path, kind, style, cut):
    inputs = span_of(assembled(tmp_path, {"style": style, "cut": cut}, kind, max_length=96))
    shares, lengths = [], set()
    for name, rows in inputs.rows.items():
        for number in range(len(rows)):
            for epoch in range(5):
                row, text = row_of(inputs, name, number, epoch), inputs.text_of(rows, number).tolist()
                assert len(row.ids_t) <= 96
                whole = put_back(row.ids_t.tolist(), inputs)
                assert whole == (text[: len(whole)] if cut else text)
                assert np.array_equal(row.words_n, row.ids_t[row.places_n + 1])
                markers = {inputs.mask_id, *inputs.sentinels}
                asked = [t for t in row.words_n.tolist() if t not in markers]
                assert row.words_n[-1] == inputs.mask_id
                assert asked
                if len(whole) > 12:
                    shares.append(len(asked) / len(whole))
                lengths.add(len(whole))
    assert np.mean(shares) == pytest.approx(inputs.share, abs=0.03)
    assert (len(lengths) > 30) or not cut or kind == "bpe"


@pytest.mark.parametrize("objective", [{}, {"style": "sentinels"}, {"asked": "everything"}])
def test_packed_is_unpacked(tmp_path, objective):
    """The loss and every gradient, though short rows share one of the batch, and in parts."""
    options = {"max_length": 120, "batch_tokens": 600}
    with_padding = assembled(tmp_path, objective, **options)
    assert_packed_is_unpacked(with_padding, assembled(tmp_path, {**objective, "pack": True}, **options))


def test_everything_can_be_asked_for(tmp_path):
    parts = assembled(tmp_path, {"asked": "everything"}, max_length=96)
    row = row_of(span_of(parts), "train", 3, 0)
    assert np.array_equal(row.places_n, np.arange(len(row.ids_t) - 1))
    assert np.array_equal(row.words_n, row.ids_t[1:])


@pytest.mark.parametrize("objective", [{}, {"style": "sentinels", "pack": True}])
def test_killed_and_resumed_to_the_bit(tmp_path, objective):
    recipe = recipe_in(tmp_path, objective, max_length=96)
    execute(recipe, SEED, tmp_path / "whole", command="test", quiet=True)
    survive(2, recipe, tmp_path / "killed", tmp_path / "whole", random.Random(1))


def test_a_model_without_mask_token_is_refused(tmp_path):
    corpus = write_text(tmp_path / "corpus.txt")
    shape = {"shape": "gpt-mini", "layers": 1, "width": 16, "heads": 2}
    recipe = corpus_recipe(corpus, {"kind": "span"}, model=shape, tokenizer={"kind": "bpe", "size": 300})
    store = SharedStore(tmp_path / "shared")
    with pytest.raises(RequestError, match="needs a tokenizer with a mask token"):
        assemble(read_source(recipe, SEED, store), store)


@pytest.mark.parametrize("style", ["one", "sentinels"])
def test_word_frequencies_know_the_markers_and_are_the_same_for_all_seeds(tmp_path, style):
    """A marker is asked for as often as rows have one, which the text alone does not say."""
    kind = "characters" if style == "one" else "bpe"
    recipe, store = recipe_in(tmp_path, {"style": style}, kind, max_length=96), SharedStore(tmp_path / "shared")
    one, other = (span_of(assemble(read_source(recipe, seed, store), store)) for seed in (0, 1))
    assert np.array_equal(one.log_frequency_v, other.log_frequency_v)
    words = np.concatenate(
        [row_of(one, "train", n, epoch).words_n for n in range(len(one.rows["train"])) for epoch in (0, 1)]
    )
    for marker in (one.mask_id, *one.sentinels[: style == "sentinels"]):
        assert np.exp(one.log_frequency_v[marker]) == pytest.approx((words == marker).mean(), rel=0.3)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.8])
def test_one_span_is_the_share_that_was_asked_for_on_average(tmp_path, share):
    inputs = span_of(assembled(tmp_path, {"share": share}))
    text, draws = np.arange(100), np.linspace(0, 1, 500, endpoint=False)
    taken = [len(inputs._one(text, length, place)[1]) - 1 for length, place in zip(draws, draws[::-1], strict=True)]
    assert np.mean(taken) == pytest.approx(100 * share, abs=0.6)
    assert min(taken) >= 1
    assert max(taken) <= 100
