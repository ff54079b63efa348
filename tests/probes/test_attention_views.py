"""Attention views: weights and gradients equal the peer's, measures and rollout what a hand computes, and whatever
cannot be shown is said."""

import io
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import heedful
from heedful.checkpoints.families import FAMILIES
from heedful.models.batch import Batch
from heedful.models.body import Memory
from heedful.models.kinds import ATTENTION_KINDS, AttentionKind
from heedful.models.shape import Shape
from heedful.models.stack import Stack
from heedful.nn.attention import MultiHeadAttention, dot_product
from heedful.nn.blocks import FUSED, Kernels
from heedful.probes.attention.look import look, readable
from heedful.probes.attention.measures import entropy, relevance, rollout, shares, summarise
from heedful.probes.attention.views import Score, Token, view_states, view_weights
from heedful.text.training import train_bpe, train_wordpiece
from tests.support import peers
from tests.support.attention_samples import TEXTS, make_small

PAIR = ("a gem of a film", "the plot")


@pytest.mark.parametrize(
    ("family", "head", "sizes"),
    [
        ("bert", "ForSequenceClassification", {"max_position_embeddings": 64}),
        ("roberta", "ForSequenceClassification", {"max_position_embeddings": 64, "pad_token_id": 1}),
        ("distilbert", "ForMaskedLM", {"max_position_embeddings": 64}),
        ("roformer", "ForSequenceClassification", {"max_position_embeddings": 64}),
        ("gpt2", "LMHeadModel", {"n_positions": 64}),
    ],
)
def test_weights_and_gradients_equal_the_peers(family: str, head: str, sizes: dict[str, int], tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(TEXTS * 3) + "\n")
    train = train_bpe if family in ("roberta", "gpt2") else train_wordpiece
    tokenizer = train([corpus], 330, family=FAMILIES[family].tokens)
    peer = peers.make_peer(peers.Case(family, family, head, {**sizes, "vocab_size": tokenizer.size}))
    peer.save_pretrained(tmp_path / "model")
    tokenizer.save(tmp_path / "model")
    model = heedful.load(tmp_path / "model")

    attention = look(model, PAIR)
    (view,) = attention.views
    (tokens,) = model.tokenizer.encode([PAIR], offsets=True)
    inputs = {"input_ids": torch.tensor([tokens.ids])}
    if family in ("bert", "roformer"):
        inputs["token_type_ids"] = torch.tensor([tokens.segments])
    out = peer(**inputs, output_attentions=True)
    expected = torch.cat(out.attentions)
    assert view.weights.dtype == np.float32
    assert np.abs(view.weights - expected.detach().numpy()).max() <= 1e-5
    assert np.abs(view.weights.sum(-1, dtype=np.float64) - 1).max() < 1e-6

    score = attention.score
    assert score is not None
    scores = out.logits[0] if score.position is None else out.logits[0, score.position]
    assert score.value == pytest.approx(scores.max().item(), abs=1e-5)
    slopes = torch.autograd.grad(scores.max(), out.attentions)
    products = (torch.cat(slopes) * expected).detach().numpy()
    assert np.abs(view.gradient - products).max() <= 1e-5 * max(1.0, np.abs(products).max())
    assert np.abs(view.gradient).max() > 1e-3
    words = "".join(token.text for token in view.rows if token.part is not None)
    assert words == "agemofafilmtheplot"
    assert [token.part for token in view.rows if token.text in ("gem", "plot")] in ([0, 1], [0], [1], [])
    if attention.causal:
        assert np.triu(view.rollout, 1).max() == 0


def test_the_gradient_is_what_finite_differences_say(tmp_path: Path) -> None:
    """An attention whose weights can be pushed by a little, in any layer and head."""
    push: dict[int, Tensor] = {}
    calls = [0]

    def pushed(q, k, v, mask, places, dropout, want_weights):
        layer = calls[0] % 3
        calls[0] += 1
        _, weights = dot_product(q, k, v, mask, places, dropout, True)
        moved = weights + push[layer] if layer in push else weights
        return moved @ v, weights if want_weights else None

    model = make_small(tmp_path, kernels=Kernels(pushed, FUSED.normalise))
    attention = look(model, TEXTS[0], label="good")
    (view,), step = attention.views, 1e-5
    batch = Batch(torch.tensor([model.tokenizer.encode([TEXTS[0]])[0].ids]))
    for layer, head, t, s in ((0, 0, 1, 2), (0, 2, 0, 3), (1, 1, 4, 0), (2, 2, 0, 4), (2, 0, 3, 1)):
        scores = []
        for sign in (1, -1):
            push.clear()
            push[layer] = torch.zeros(1, *view.weights.shape[1:], dtype=torch.float64)
            push[layer][0, head, t, s] = sign * step
            with torch.no_grad():
                scores.append(model.transformer.heads["classify"](
                    model.transformer.pick(model.transformer.body(batch), "pooled", batch))[0, 2])  # fmt: skip
        slope = float(scores[0] - scores[1]) / (2 * step)
        expected = slope * view.weights[layer, head, t, s]
        assert view.gradient[layer, head, t, s] == pytest.approx(expected, rel=1e-4, abs=1e-9)
    # The last layer is read at the first token alone: what others look at there changes nothing.
    assert np.abs(view.gradient[2, :, 1:]).max() == 0
    assert np.abs(view.gradient[2, :, 0]).max() > 0


def test_entropies_of_known_rows() -> None:
    uniform, one = np.full((4, 8), 1 / 8), np.eye(8)
    assert entropy(uniform) == pytest.approx(math.log(8))
    assert entropy(one).max() == 0
    assert entropy([0.5, 0.5, 0, 0]) == pytest.approx(math.log(2))
    assert entropy([2.0, 2.0]) == pytest.approx(math.log(2))  # divided by its sum
    assert entropy([0.0, 0.0]) == 0


def test_measures_of_known_heads() -> None:
    t = 5
    previous = np.eye(t, k=-1)
    previous[0, 0] = 1
    nxt = np.eye(t, k=1)
    nxt[-1, -1] = 1
    last = np.zeros((t, t))
    last[:, -1] = 1
    heads = np.stack([np.eye(t), previous, nxt, last, np.full((t, t), 1 / t)])[None]
    found = {name: values[0] for name, values in summarise(heads, [t - 1], own=True).items()}
    assert found["itself"] == pytest.approx([1, 1 / 5, 1 / 5, 1 / 5, 1 / 5])
    assert found["previous"] == pytest.approx([0, 1, 0, 0, 1 / 5])
    assert found["next"] == pytest.approx([0, 0, 1, 1 / 4, 1 / 5])
    assert found["first"] == pytest.approx([1 / 5, 2 / 5, 0, 0, 1 / 5])
    assert found["separators"] == pytest.approx([1 / 5, 0, 2 / 5, 1, 1 / 5])
    assert found["distance"] == pytest.approx([0, 4 / 5, 4 / 5, 2, 8 / 5])
    assert found["entropy"] == pytest.approx([0, 0, 0, 0, math.log(5)], abs=1e-12)
    other = summarise(heads[..., :3], [], own=False)
    assert all(np.isnan(other[name]).all() for name in ("distance", "itself", "previous", "next", "separators"))
    assert not np.isnan(other["first"]).any()
    assert np.isnan(summarise(np.ones((1, 1, 1, 1)), [], own=True)["next"]).all()


def test_rollout_by_hand() -> None:
    a1, a2 = np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([[0.2, 0.8], [0.6, 0.4]])
    found, none = rollout(np.stack([a1, a2])[:, None])
    assert none is None
    assert found[0] == pytest.approx(np.array([[0.75, 0.25], [0, 1]]))
    # (½·a2 + ½I) = [[.6, .4], [.3, .7]], times the above.
    assert found[1] == pytest.approx(np.array([[0.45, 0.55], [0.225, 0.775]]))
    # Heads are averaged first: [[.35, .65], [.3, .7]].
    heads, _ = rollout(np.stack([a1, a2])[None])
    assert heads[0] == pytest.approx(np.array([[0.675, 0.325], [0.15, 0.85]]))


def test_rollout_beside_a_memory_by_hand() -> None:
    own, crossed = np.array([[[[1.0]]], [[[1.0]]]]), np.array([[[[0.25, 0.75]]], [[[1.0, 0.0]]]])
    r, m = rollout(own, crossed)
    assert r[:, 0, 0] == pytest.approx([0.5, 0.25])
    assert m[:, 0] == pytest.approx(np.array([[0.125, 0.375], [0.5625, 0.1875]]))
    assert (r.sum(-1) + m.sum(-1)).ravel() == pytest.approx([1, 1])


def test_relevance_and_shares_by_hand() -> None:
    g = np.array([[[[0.0, 2.0], [-1.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]], [[[0.0, 0.0], [0.0, -3.0]], np.zeros((2, 2))]])
    # The mean over heads of what is positive: Ā₁ = [[0, 1], [.5, 0]], Ā₂ = 0. Averaged before, −1 and 1 would cancel.
    assert relevance(g) == pytest.approx(np.array([[0, 1], [0.5, 0]]))
    assert relevance(np.concatenate([g[:1], g[:1]])) == pytest.approx(np.array([[0.5, 2], [1, 0.5]]))
    assert shares(g) == pytest.approx(np.array([[2 / 3, 1 / 3], [0, 0]]))
    assert shares(-np.abs(g)).max() == 0


def test_a_memory_is_looked_at_through_a_rectangle() -> None:
    shape = Shape(vocabulary=20, width=12, layers=2, heads=2, inner=16, positions=16, causal=True, memory_width=6,
                  initializer_range=0.3)  # fmt: skip
    body = Stack(shape).double().eval()
    for _, draw in body.parts():
        draw(torch.Generator().manual_seed(1))
    memory = Memory(torch.randn(1, 7, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2)))
    states = body(Batch(torch.tensor([[3, 4, 5, 6]])), everything=True, memory=memory)
    rows, columns = ([Token(name, name, 0) for name in names] for names in ("abcd", "pqrstuv"))
    (own, crossed), notes = view_states(states, rows, columns, score=states.last[0, -1, 0] ** 2)
    assert notes == []
    assert (own.kind, own.weights.shape, own.rollout.shape) == ("self", (2, 2, 4, 4), (2, 4, 4))
    assert (crossed.kind, crossed.weights.shape, crossed.rollout.shape) == ("memory", (2, 2, 4, 7), (2, 4, 7))
    expected = torch.cat(states.memory_weights).detach().numpy()
    assert np.abs(crossed.weights - expected).max() < 1e-6
    assert np.abs(own.rollout.sum(-1) + crossed.rollout.sum(-1) - 1).max() < 1e-6
    assert np.abs(crossed.gradient).max() > 0
    assert (own.relevance, crossed.relevance) == (None, None)
    assert "".join(token.text for token in crossed.columns) == "pqrstuv"


def test_tokens_may_look_at_anything_that_has_a_name() -> None:
    weights = torch.softmax(torch.arange(12.0).reshape(1, 2, 3, 2), dim=-1).requires_grad_()
    rows, adapters = [Token(c, c, 0) for c in "abc"], [Token(name, name) for name in ("sst2", "rte")]
    (view,), notes = view_weights([weights, None], rows, adapters, ("fusion", "Adapters"), score=weights[..., 1].sum())
    assert (view.name, view.kind, view.layers, view.weights.shape) == ("fusion", "memory", (0,), (1, 2, 3, 2))
    assert view.gradient[0, :, :, 0].max() == 0
    assert np.array_equal(view.gradient[0, :, :, 1], view.weights[0, :, :, 1])
    assert notes == ["Layer 2 is not shown: its kind of attention has no weights."]
    assert view_weights([None], rows, adapters, ("fusion", "Adapters")) == ([], [])
    with pytest.raises(ValueError, match="3 tokens that look at 1"):
        view_weights([weights], rows, adapters[:1], ("fusion", "Adapters"))


class _Silent(MultiHeadAttention):
    """Attention that gives no weights."""

    def forward(self, *given, **named):
        return super().forward(*given, **named)._replace(weights_bhts=None)


def test_layers_without_weights_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def some(shape, layer, kernels):
        return (_Silent if layer == 1 else MultiHeadAttention)(shape.width, shape.heads, 0.0, kernels.attend)

    monkeypatch.setitem(ATTENTION_KINDS, "some", AttentionKind(some))
    attention = look(make_small(tmp_path, attention="some"), TEXTS[0])
    (view,) = attention.views
    assert view.layers == (0, 2)
    assert view.weights.shape[0] == 2
    assert (view.rollout, view.relevance) == (None, None)
    assert view.gradient is not None
    assert attention.notes == (
        "Rollout needs weights of every layer that sum to 1, so it is omitted.",
        "Layer 2 is not shown: its kind of attention has no weights.",
    )
    silent = AttentionKind(lambda shape, layer, kernels: _Silent(shape.width, shape.heads))
    monkeypatch.setitem(ATTENTION_KINDS, "none", silent)
    with pytest.raises(heedful.RequestError, match="no weights to show"):
        look(make_small(tmp_path, attention="none"), TEXTS[0])


def test_rows_that_do_not_sum_to_one_and_rows_that_are_not_numbers() -> None:
    class States:
        weights = (torch.full((1, 1, 2, 2), 0.25),)
        memory_weights = None

    tokens = [Token("a", "a", 0), Token("b", "b", 0)]
    (view,), notes = view_states(States, tokens)
    assert view.rollout is None
    assert any("between 0.5 and 0.5" in note for note in notes)
    States.weights = (torch.full((1, 1, 2, 2), 0.5), torch.full((1, 1, 2, 2), math.nan))
    with pytest.raises(heedful.RequestError, match="layer 2 is not finite"):
        view_states(States, tokens)


def test_pairs_are_read_as_the_head_reads_them(tmp_path: Path) -> None:
    model = make_small(tmp_path, ("classify", "apart", "mask"))
    joint = look(model, PAIR)
    assert [view.name for view in joint.views] == ["self"]
    assert joint.score.head == "classify"
    apart = look(model, PAIR, head="apart", label="same")
    assert [view.name for view in apart.views] == ["first", "second"]
    first, second = apart.views
    assert [token.text for token in second.rows] == ["[CLS]", "the", "plot", "[SEP]"]
    assert [token.separator for token in second.rows] == [False, False, False, True]
    assert np.abs(second.gradient).max() > 0
    alone = look(model, PAIR[0])
    assert np.abs(alone.views[0].weights - first.weights).max() < 1e-6
    cut = look(replace(model, max_length=5), TEXTS[1])
    assert cut.views[0].weights.shape[-2:] == (5, 5)
    assert "The text was cut to 5 tokens, which is what the model reads at once." in cut.notes


def test_a_head_for_words_is_asked_at_the_mask_or_where_one_says(tmp_path: Path) -> None:
    model = make_small(tmp_path, ("mask",))
    masked = look(model, "a [MASK] of a film")
    assert (masked.score.head, masked.score.position) == ("mask", 2)
    assert 0 < masked.score.probability < 1
    named = look(model, "a [MASK] of a film", label="gem", position=4)
    assert (named.score.label, named.score.position) == ("gem", 4)
    assert look(model, "a gem of a film").score.position == 5
    for wrong, words in (({"position": 50}, "no token 51"), ({"label": "zebra"}, "is not one token")):
        with pytest.raises(heedful.RequestError, match=words):
            look(model, "a film", **wrong)


def test_a_score_that_rounds_to_zero_has_no_sign() -> None:
    shown = [Score("mood", "good", value, 0.5, None, "first").words for value in (-0.0004, 0.0004, -0.0006)]
    assert [words.split("(")[1] for words in shown] == [
        f"{v}, probability 0.500)" for v in ("0.000", "0.000", "-0.001")
    ]


def test_tokens_are_what_people_read(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(TEXTS * 3) + "\n")
    for tokenizer, text, expected in (
        (train_bpe([corpus], 300), "a gem\n 😀", ["<s>", "a", "gem", "⏎", "␣", "😀₁", "😀₂", "😀₃", "😀₄", "</s>"]),
        (train_wordpiece([corpus], 120), "The Films, zebra", ["[CLS]", "The", "Film", "s", ",", "zebra", "[SEP]"]),
    ):
        (tokens,) = tokenizer.encode([text], offsets=True)
        found = readable(tokens, (text,), tokenizer)
        assert [token.text for token in found] == expected
    assert [token.joined for token in found] == [False, False, False, True, True, False, False]
    assert [token.piece for token in found][3:6] == ["##s", "[UNK]", "[UNK]"]
    assert [text[token.start : token.end] for token in found] == ["", "The", "Film", "s", ",", "zebra", ""]


def test_the_model_is_left_as_it_was(tmp_path: Path) -> None:
    model = make_small(tmp_path)
    expected = look(model, TEXTS[0])
    model.transformer.requires_grad_(False).train()
    with torch.inference_mode():
        frozen = look(model, TEXTS[0])
    assert np.array_equal(frozen.views[0].gradient, expected.views[0].gradient)
    assert model.transformer.training
    assert not any(p.requires_grad or p.grad is not None for p in model.transformer.parameters())


def test_arrays_come_back_without_pickle(tmp_path: Path) -> None:
    attention = look(make_small(tmp_path), ("it’s 😀", "<b>"))
    (view,) = attention.views
    read = np.load(io.BytesIO(attention.packed()), allow_pickle=False)
    for name in ("weights", "rollout", "gradient", "relevance"):
        assert np.array_equal(read[f"self.{name}"], getattr(view, name))
    assert read["self.summary.entropy"].shape == (3, 3)
    assert np.array_equal(read["self.gradient_by_layer"], view.by_layer)
    assert list(read["self.rows.tokens"]) == [token.text for token in view.rows]
    assert "😀" in read["self.rows.tokens"]
    assert tuple(read["self.rows.offsets"][0]) == (-1, -1)
    about = json.loads(str(read["about"]))
    assert about["texts"] == ["it’s 😀", "<b>"]
    assert about["score"]["label"] == attention.score.label


def test_what_cannot_be_looked_at_is_refused_in_a_sentence(tmp_path: Path) -> None:
    model = make_small(tmp_path, ("classify", "apart"))
    bare = make_small(tmp_path, ())
    crossed = make_small(tmp_path, (), memory_width=8)

    class Words:
        source = "words"

    for asked, text, more, words in (
        (model, "a film", {"head": "x"}, "small: has no head 'x'; it has classify, apart."),
        (model, "a film", {"label": "x"}, "small: the head 'classify' has no label 'x'; it has bad, fair, good."),
        (model, "a film", {"head": "apart"}, "small: the head 'apart' was trained on pairs of texts. Pass two texts."),
        (model, "a film", {"position": 1}, "small: the head 'classify' reads the whole text. Remove the position."),
        (bare, "a film", {"label": "x"}, "small: has no head that could score a label. Remove label and position."),
        (crossed, "a film", {}, "small: also reads the states of another text, so it cannot be used with one text."),
        (Words(), "a film", {}, "words: is a TF-IDF model, which has no attention. Name a transformer."),
    ):
        with pytest.raises(heedful.RequestError) as caught:
            look(asked, text, **more)
        assert str(caught.value) == words
    assert look(bare, "a film").notes == ("The model has no task head, so gradient × attention is omitted.",)
    assert look(bare, "a film").views[0].gradient is None
    only_apart = make_small(tmp_path, ("apart",))
    assert look(only_apart, "a film").notes == (
        "The head 'apart' needs a pair of texts, so gradient × attention is omitted.",
    )
