"""Promise 1: the same files give the same states, scores and gradients here and in the peer, to 1e-5 in fp32."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.checkpoints.directory import Checkpoint, read_model, stored_tensors, write_model
from heedful.models.batch import Batch
from heedful.nn.blocks import FUSED, REFERENCE, Kernels
from tests.support import peers

TOLERANCE = 1e-5
CASES = peers.cases()


def make_batch(inputs: dict[str, Tensor]) -> Batch:
    return Batch(inputs["input_ids"], inputs["attention_mask"].bool(), inputs.get("token_type_ids"))


def differences(model: Checkpoint, peer, case: peers.Case) -> dict[str, float]:
    """The largest error of everything that can be compared: states, weights, pooled, scores, loss, every gradient."""
    inputs = peers.make_inputs(case, peer.config)
    targets = peers.make_targets(case, peer.config, inputs)
    batch, real = make_batch(inputs), inputs["attention_mask"].bool()
    transformer = model.transformer
    transformer.zero_grad()
    peer.zero_grad()

    expected = peer(**inputs, **targets, output_hidden_states=True, output_attentions=True)
    states = transformer.body(batch, everything=True)
    errors = {}

    def compare(name: str, ours: Tensor, other: Tensor) -> None:
        assert ours.shape == other.shape, name
        assert torch.isfinite(ours).all(), name
        errors[name] = (ours - other).abs().max().item()

    for i, (ours, other) in enumerate(zip(states.layers, expected.hidden_states, strict=True)):
        compare(f"states {i}", ours[real], other[real])  # what stands on padding is nobody's
    for i, (ours, other) in enumerate(zip(states.weights, expected.attentions, strict=True)):
        rows = real[:, None, :, None].expand(-1, ours.shape[1], -1, ours.shape[3])
        compare(f"weights {i}", ours[rows], other[rows])
    if getattr(expected, "pooler_output", None) is not None:
        compare("pooled", transformer.pick(states, "pooled", batch), expected.pooler_output)

    if case.head:
        compare_scores(compare, transformer, expected, inputs, targets)
    else:
        loss = (states.last[real] ** 3).mean()
        (expected.last_hidden_state[real] ** 3).mean().backward()
        if states.last is not None and transformer.body.pooler is not None:
            pooled = transformer.pick(states, "pooled", batch)
            loss = loss + (pooled**3).mean()
            (peer(**inputs).pooler_output ** 3).mean().backward()
        loss.backward()
    gradients = {n: p.grad for n, p in transformer.named_parameters() if p.grad is not None}
    ours = stored_tensors(model, gradients)["model.safetensors"]
    other = {n: p.grad for n, p in peer.named_parameters() if p.grad is not None}
    assert set(ours) == set(other)
    for name in ours:
        compare(f"gradient of {name}", ours[name], other[name])
    return errors


def compare_scores(compare, transformer, expected, inputs, targets) -> None:
    """Each head through `Transformer.forward`, which computes only what the head reads."""
    batch, real = make_batch(inputs), inputs["attention_mask"].bool()
    total: Tensor = torch.zeros(())
    for head in transformer.heads:
        logits = transformer(head, batch)
        if head in ("mask", "causal"):
            other = getattr(expected, "prediction_logits", getattr(expected, "logits", None))
            compare(f"{head} scores", logits[real], other[real])
            words = targets["labels"]
            if head == "causal":
                logits, words = logits[:, :-1], words[:, 1:]
            total = total + F.cross_entropy(logits.flatten(0, 1), words.flatten())
        else:
            other = getattr(expected, "seq_relationship_logits", getattr(expected, "logits", None))
            compare(f"{head} scores", logits, other)
            total = total + F.cross_entropy(logits, targets.get("next_sentence_label", targets["labels"]))
    compare("loss", total, expected.loss)
    total.backward()
    expected.loss.backward()


def load_from_peer(peer, directory: Path, kernels: Kernels = FUSED) -> Checkpoint:
    peer.save_pretrained(directory)
    return read_model(directory, kernels=kernels)


@pytest.mark.parametrize("kernels", [REFERENCE, FUSED], ids=["reference", "fused"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_same_numbers_as_the_peer(case: peers.Case, kernels: Kernels, tmp_path: Path) -> None:
    peer = peers.make_peer(case)
    errors = differences(load_from_peer(peer, tmp_path, kernels), peer, case)
    worst = max(errors, key=errors.__getitem__)
    assert errors[worst] <= TOLERANCE, f"{worst}: {errors[worst]:.2e}"
    assert len(errors) > 20  # states, weights and the gradient of every parameter were compared


@pytest.mark.parametrize("case", [c for c in CASES if c.name.endswith("-odd-heads")], ids=lambda c: c.name)
def test_two_swapped_heads_are_noticed(case: peers.Case, tmp_path: Path) -> None:
    """The negative control: queries of heads 0 and 1 exchanged, everything else as it was."""
    peer = peers.make_peer(case)
    model = load_from_peer(peer, tmp_path)
    attention = model.transformer.body.blocks[0].attention
    k = attention.qkv.in_features // attention.heads
    with torch.no_grad():
        w = attention.qkv.weight
        w[: 2 * k] = torch.cat([w[k : 2 * k], w[:k]])
    errors = differences(model, peer, case)
    assert max(errors.values()) > 100 * TOLERANCE
    assert errors["states 0"] <= TOLERANCE  # the control breaks what it says and nothing before it


def test_turns_that_are_left_out_are_noticed(tmp_path: Path) -> None:
    """The same for RoFormer: queries and keys that are not turned by their positions in the last block."""
    case = next(c for c in CASES if c.name == "roformer-odd-heads")
    peer = peers.make_peer(case)
    model = load_from_peer(peer, tmp_path)
    attention = model.transformer.body.blocks[-1].attention
    attention.attend.forward = attention.attend.attend  # the product alone
    errors = differences(model, peer, case)
    assert errors["states 2"] > 100 * TOLERANCE
    assert errors["states 1"] <= TOLERANCE


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_peer_reads_what_we_write(case: peers.Case, tmp_path: Path) -> None:
    peer = peers.make_peer(case)
    model = load_from_peer(peer, tmp_path / "theirs")
    write_model(tmp_path / "ours", model)
    again, info = type(peer).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(info.values()), info
    for name, p in peer.state_dict().items():
        assert torch.equal(p, again.state_dict()[name]), name


@pytest.mark.parametrize("case", [c for c in CASES if c.name.endswith("-body")], ids=lambda c: c.name)
def test_auto_classes_know_what_we_write(case: peers.Case, tmp_path: Path) -> None:
    import transformers

    write_model(tmp_path / "ours", load_from_peer(peers.make_peer(case), tmp_path / "theirs"))
    model, info = transformers.AutoModel.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert type(model).__name__ == type(peers.make_peer(case)).__name__
    assert not any(info.values()), info


ONE_HEAD = [c for c in CASES if c.head != "ForPreTraining"]


@pytest.mark.parametrize("case", ONE_HEAD, ids=lambda c: c.name)
def test_dropout_falls_where_the_peers_falls(case: peers.Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In training mode from one seed, the written-out path draws the same masks in the same places as the peer's."""
    monkeypatch.setattr("heedful.nn.dropout._SMALL", 10**9)  # PyTorch's own masks, whatever the size
    peer = peers.make_peer(case)
    model = load_from_peer(peer, tmp_path, REFERENCE).transformer.train()
    peer.train()
    inputs = peers.make_inputs(case, peer.config)
    batch, real = make_batch(inputs), inputs["attention_mask"].bool()
    torch.manual_seed(5)
    expected = peer(**inputs)
    torch.manual_seed(5)
    if not case.head:
        ours = model.body(batch).last
        other = expected.last_hidden_state
    else:
        [head] = model.heads
        states = model.body(batch)  # all positions, so that as many masks are drawn
        x = model.pick(states, model.head_shapes[head].reads, batch)
        table = (model.body.embeddings.token.weight,) if head in ("mask", "causal") else ()
        ours, other = model.heads[head](x, *table), expected.logits
    kept = real if ours.ndim == 3 else slice(None)
    assert (ours[kept] - other[kept]).abs().max() <= TOLERANCE
