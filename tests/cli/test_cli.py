"""The command as a user meets it: what it prints, in 80 columns, and how it says no."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from heedful.cli.inspect import wrap_dotted
from heedful.models.shape import NAMED_SHAPES
from tests.support import peers
from tests.support.in_process import answer


def heedful(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "COLUMNS": "80", "HF_HUB_OFFLINE": "1", **environment}
    return subprocess.run(
        [sys.executable, "-m", "heedful", *arguments], capture_output=True, text=True, check=False, env=env
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "classifier"
    case = peers.Case("bert", "bert", "ForSequenceClassification", {"id2label": {0: "no", 1: "maybe", 2: "yes"}})
    peers.make_peer(case).save_pretrained(folder)
    return folder


def test_help_names_every_verb() -> None:
    done = heedful("--help")
    assert done.returncode == 0
    for verb in ("inspect", "models", "doctor"):
        assert verb in done.stdout
    assert heedful("--version").stdout.startswith("heedful 0.")


def test_inspect_as_a_table(directory: Path) -> None:
    done = heedful("inspect", str(directory))
    assert done.returncode == 0
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert max(map(len, lines[1:])) <= 80  # the first names the directory, however long that is
    text = " ".join(done.stdout.split())
    assert "{i} = 0 … 1, each" in text
    assert "96×32 + 96" in text
    assert "labels no, maybe, yes" in text
    assert "encoder.layer.{i}." in text
    assert "tokenizer none" in text


def test_inspect_as_json(directory: Path) -> None:
    facts = json.loads(heedful("inspect", str(directory), "--json").stdout)
    counted = sum(p.numel() for p in torch.nn.ParameterList(_peer_parameters(directory)))
    assert facts["parameters"] == {"total": counted, "trainable": counted}
    assert sum(t["count"] for t in facts["tensors"]) == counted
    assert facts["labels"] == ["no", "maybe", "yes"]
    assert facts["shape"]["width"] == 32
    assert facts["heads"]["classify"]["kind"] == "linear"
    sources = {t["name"]: t["source"] for t in facts["tensors"]}
    assert sources["heads.classify.output.weight"] == "model.safetensors: classifier.weight"
    assert sources["body.blocks.1.attention.qkv.bias"] == "model.safetensors: " + " + ".join(
        f"bert.encoder.layer.1.attention.self.{p}.bias" for p in ("query", "key", "value")
    )


def _peer_parameters(directory: Path) -> list[torch.nn.Parameter]:
    import transformers

    return list(transformers.AutoModelForSequenceClassification.from_pretrained(directory).parameters())


def test_inspect_a_shape() -> None:
    facts = json.loads(heedful("inspect", "--shape", "bert-mini", "--json").stdout)
    assert facts["parameters"]["total"] == 11_170_560


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["inspect"], 2, "either a model or --shape"),
        (["inspect", "--shape", "bert-huge"], 2, "unknown shape 'bert-huge'"),
        (["inspect", "./nowhere"], 2, "no such directory"),
        (["inspect", "nobody/nothing"], 1, "not in the hub's cache"),
        (["models", "get", "maxilm"], 2, "lists minilm"),
        (["doctor", "--sanity", "x"], 2, "--sanity needs"),
    ],
)
def test_refusals_are_one_sentence(
    arguments: list[str],
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name, value in (("HF_HOME", str(tmp_path)), ("HEEDFUL_CACHE", str(tmp_path)), ("HEEDFUL_DATA", "")):
        monkeypatch.setenv(name, value)
    exit_code, printed, said = answer(arguments, tmp_path, monkeypatch, capfd)
    assert exit_code == code
    assert printed == ""
    assert said.startswith("heedful: ")
    assert words in said
    assert said.count("\n") == 1


def test_models_lists_names_and_how_to_get_them(tmp_path: Path) -> None:
    done = heedful("models", HF_HOME=str(tmp_path), HEEDFUL_CACHE=str(tmp_path))
    assert "heedful models get minilm" in done.stdout
    assert "RoFormer, GPT-2 or Marian" in done.stdout
    facts = json.loads(heedful("models", "--json", HF_HOME=str(tmp_path), HEEDFUL_CACHE=str(tmp_path)).stdout)
    assert facts["named"][0]["name"] == "minilm"
    assert not facts["named"][0]["present"]
    assert facts["hub_cache"] == []
    assert facts["shapes"] == list(NAMED_SHAPES)


def test_doctor_has_a_line_for_each_thing_and_a_remedy(tmp_path: Path) -> None:
    done = heedful("doctor", HEEDFUL_CACHE=str(tmp_path), HEEDFUL_DATA=str(tmp_path))
    assert done.returncode == 0, done.stdout
    for what in ("torch", "device", "threads", "extra test", "cache", "data", "hub", "model minilm"):
        assert any(line[3:].startswith(what) for line in done.stdout.splitlines()), what
    assert "; heedful models get minilm" in done.stdout
    done = heedful("doctor", "--json", HEEDFUL_CACHE=str(tmp_path), HEEDFUL_DATA=str(tmp_path / "nothing"))
    assert done.returncode == 1
    problems = [f for f in json.loads(done.stdout) if f["state"] == "problem"]
    assert [p["what"] for p in problems] == ["data"]
    assert problems[0]["remedy"]


def test_doctor_runs_stored_activations(tmp_path: Path) -> None:
    case = peers.Case("bert", "bert", "")
    peer = peers.make_peer(case)
    peer.save_pretrained(tmp_path / "tiny-bert")
    inputs = peers.make_inputs(case, peer.config)
    with torch.no_grad():
        out = peer(**inputs)
    stored = tmp_path / "sanity" / "sanity_check_tiny_bert.npz"
    stored.parent.mkdir()
    arrays = {"last_hidden_state": out.last_hidden_state.numpy(), "pooler_output": out.pooler_output.numpy()}
    np.savez(stored, **{k: v.numpy() for k, v in inputs.items()}, **arrays)
    done = heedful("doctor", "--sanity", str(tmp_path / "tiny-bert"), HEEDFUL_DATA=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "agrees with sanity_check_tiny_bert.npz" in done.stdout
    arrays["pooler_output"] = arrays["pooler_output"] + 0.01
    np.savez(stored, **{k: v.numpy() for k, v in inputs.items()}, **arrays)
    done = heedful("doctor", "--sanity", str(tmp_path / "tiny-bert"), HEEDFUL_DATA=str(tmp_path))
    assert done.returncode == 1
    assert "differs" in done.stdout
    done = heedful("doctor", "--sanity", str(tmp_path / "tiny-bert"), "--against", str(tmp_path / "no.npz"))
    assert done.returncode == 2


def test_dotted_names_break_after_dots() -> None:
    name = "encoder.layer.{i}.attention.self.{query,key,value}"
    lines = wrap_dotted(name, 20).split("\n")
    assert "".join(lines) == name
    assert max(map(len, lines)) <= 20
    assert all(line[-1] in ".," for line in lines[:-1])


@pytest.mark.parametrize("arguments", [["nonsense"], ["inspect", "a", "b"], ["models", "get"], ["doctor", "--loud"]])
def test_a_mistyped_command_is_one_sentence_too(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code, _, said = answer(arguments, tmp_path, monkeypatch, capfd)
    assert code == 2
    assert said.startswith("heedful: ")
    assert said.count("\n") == 1


def test_output_that_goes_nowhere(directory: Path) -> None:
    """A reader that has seen enough is no failure; a full disk is one."""
    command = f"set -o pipefail; {sys.executable} -m heedful inspect {directory} | head -1"
    assert subprocess.run(["bash", "-c", command], capture_output=True, check=False).returncode == 0
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "heedful", "inspect", str(directory)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("heedful: the output cannot be written")
