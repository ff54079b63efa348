"""Every broken model directory is refused in one sentence; nothing in it is run, and nothing is written to it."""

import os
import random
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import heedful
from heedful.checkpoints.directory import read_model
from heedful.cli.main import main
from heedful.errors import RequestError
from tests.support import bad_directories, bad_weights
from tests.support.checkpoint_samples import (
    CONFIG,
    FAMILY_NAMES,
    HEADS_FILE,
    WEIGHTS,
    edit_config,
    fingerprint,
    make_good,
)

CASES = [*bad_weights.CASES, *bad_directories.CASES]
LONGEST = 1000
"""Characters of a message, without the path of the directory."""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("good")
    made = {family: make_good(family, root / family) for family in FAMILY_NAMES}
    made["two heads"] = make_good("bert", root / "two-heads")
    bad_directories.two_good_heads(made["two heads"])
    return made


def refusal(directory: Path) -> str:
    """The one error that loading gives, after the checks that hold for every one."""
    before = fingerprint(directory)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with pytest.raises(RequestError) as caught:
            heedful.load(directory)
    message = str(caught.value)
    assert type(caught.value) is RequestError
    assert [str(w.message) for w in said] == []
    assert message.isprintable(), ascii(message)  # one line, no escape codes
    assert message.endswith("."), message
    assert str(directory) in message, message
    assert len(message.replace(str(directory), "")) < LONGEST, len(message)
    assert fingerprint(directory) == before
    return message


@pytest.mark.filterwarnings("ignore::UserWarning:bad_weights", "ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_refused_in_one_sentence(case: bad_weights.Bad, good: dict[str, Path], tmp_path: Path) -> None:
    directory = tmp_path / "model"
    shutil.copytree(good[case.family], directory)
    case.damage(directory)
    assert case.says in refusal(directory).replace(str(tmp_path), "")
    assert not (tmp_path / bad_weights.MARKER).exists()


def test_the_cases_are_many_and_different() -> None:
    assert len(CASES) >= 300
    assert len({c.name for c in CASES}) == len(CASES)


@pytest.mark.parametrize("family", [*FAMILY_NAMES, "two heads"])
def test_the_directories_are_good_before(family: str, good: dict[str, Path]) -> None:
    """The negative control: what the cases break loads as it is."""
    before = fingerprint(good[family])
    model = heedful.load(good[family])
    assert model.checkpoint.unread == ()
    assert model.checkpoint.tokenizer is not None
    assert fingerprint(good[family]) == before


def test_the_traps_would_spring(good: dict[str, Path], tmp_path: Path) -> None:
    """The negative control for the marker: an unrestricted loader makes it appear."""
    import torch

    directory = tmp_path / "model"
    shutil.copytree(good["bert"], directory)
    case = next(c for c in CASES if c.name == "os.system in a zip .bin")
    case.damage(directory)
    torch.load(directory / bad_weights.OLD, weights_only=False)
    assert (tmp_path / bad_weights.MARKER).exists()


def test_a_file_is_not_a_directory(good: dict[str, Path]) -> None:
    for name in (CONFIG, WEIGHTS):
        with pytest.raises(RequestError, match="is a file"):
            heedful.load(good["bert"] / name)
    with pytest.raises(RequestError, match="no such directory"):
        heedful.load(good["bert"] / "nowhere")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
@pytest.mark.parametrize("name", [CONFIG, WEIGHTS, "tokenizer.json", "."])
def test_what_may_not_be_read(name: str, good: dict[str, Path], tmp_path: Path) -> None:
    directory = tmp_path / "model"
    shutil.copytree(good["bert"], directory)
    (directory / name).chmod(0)
    try:
        with pytest.raises(RequestError, match=r"(?i)permission"):
            heedful.load(directory)
    finally:
        (directory / name).chmod(0o700)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"new_head": "linear"}, "labels"),
        ({"new_head": "linear", "labels": ["a", "a"]}, "labels"),
        ({"new_head": "masked-word", "labels": ["a"]}, "labels"),
        ({"new_head": "language-model"}, "language-model"),
        ({"new_head": "magic", "labels": ["a"]}, "magic"),
        ({"family": "gpt2"}, "gpt2"),
        ({"family": "t5"}, "t5"),
        ({"revision": "main"}, "revision"),
    ],
    ids=str,
)
def test_wrong_wishes(options: dict, says: str, good: dict[str, Path]) -> None:
    with pytest.raises(RequestError) as caught:
        heedful.load(good["bert"], **options)
    assert says in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "name",
    ["cut in the data", "os.system in a legacy .bin", "config a list", "a name of two lines", "an empty directory"],
)
def test_the_command_says_it_on_one_line(
    name: str,
    good: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = next(c for c in CASES if c.name == name)
    directory = tmp_path / "model"
    shutil.copytree(good[case.family], directory)
    case.damage(directory)
    code, out, err = inspect(directory, capsys, monkeypatch)
    assert (code, out) == (2, "")
    assert err.startswith("heedful: ")
    assert err.endswith(".\n")
    assert err.count("\n") == 1
    assert not (tmp_path / bad_weights.MARKER).exists()


def inspect(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[object, str, str]:
    monkeypatch.setattr(sys, "argv", ["heedful", "inspect", str(directory)])
    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code, *capsys.readouterr()


def test_the_command_shows_a_good_one(
    good: dict[str, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = inspect(good["bert"], capsys, monkeypatch)
    assert (code or 0, err) == (0, "")
    assert "bert" in out


def test_the_command_in_a_process_of_its_own(good: dict[str, Path], tmp_path: Path) -> None:
    directory = tmp_path / "model"
    shutil.copytree(good["bert"], directory)
    next(c for c in CASES if c.name == "os.system in a zip .bin").damage(directory)
    command = [sys.executable, "-m", "heedful", "inspect", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("heedful: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / bad_weights.MARKER).exists()


TARGETS = (WEIGHTS, CONFIG, "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
seeds = st.tuples(st.sampled_from(FAMILY_NAMES), st.sampled_from(TARGETS), st.integers(0, 2**32))


def mutilate(content: bytes, chance: random.Random) -> bytes:
    """A few bytes flipped, swapped, inserted, removed or doubled, most of them near the start (headers live there)."""
    raw = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 5])):
        reach = chance.choice([16, 2500, len(raw)])
        at = chance.randrange(max(1, min(reach, len(raw))))
        how = chance.randrange(6)
        if how == 0 and raw:
            raw[at] ^= 1 << chance.randrange(8)
        elif how == 1 and raw:
            raw[at] = chance.choice(b'0123456789{}[]",:\\ -.eE\x00\xff\n')
        elif how == 2:
            del raw[at:]
        elif how == 3:
            del raw[at : at + chance.randrange(1, 20)]
        elif how == 4:
            raw[at:at] = raw[at : at + chance.randrange(1, 40)]
        else:
            raw[at:at] = chance.randbytes(chance.randrange(1, 8))
    return bytes(raw)


def loads_or_is_refused(good: dict[str, Path], scratch: Path, draw: tuple[str, str, int]) -> bool:
    family, name, seed = draw
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(good[family], scratch)
    path = scratch / name
    path.write_bytes(mutilate(path.read_bytes(), random.Random(seed)))
    try:
        read_model(scratch)
    except RequestError as error:
        message = str(error)
        assert message.isprintable(), ascii(message)
        assert str(scratch) in message, message
        return False
    return True


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(draw=seeds)
def test_random_damage(draw: tuple[str, str, int], good: dict[str, Path], tmp_path: Path) -> None:
    loads_or_is_refused(good, tmp_path / "fuzzed", draw)


@pytest.mark.full
@settings(max_examples=6000, suppress_health_check=list(HealthCheck))
@given(draw=seeds)
def test_much_random_damage(draw: tuple[str, str, int], good: dict[str, Path], tmp_path: Path) -> None:
    loads_or_is_refused(good, tmp_path / "fuzzed", draw)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(draw=st.tuples(st.just("two heads"), st.sampled_from([CONFIG, HEADS_FILE]), st.integers(0, 2**32)))
def test_random_damage_to_our_own_files(draw: tuple[str, str, int], good: dict[str, Path], tmp_path: Path) -> None:
    loads_or_is_refused(good, tmp_path / "fuzzed", draw)


def test_damage_is_mostly_damage(good: dict[str, Path], tmp_path: Path) -> None:
    """The negative control: the fuzzer breaks most of what it touches, and not all of it."""
    chance = random.Random(0)
    draws = [(chance.choice(FAMILY_NAMES), chance.choice(TARGETS), i) for i in range(60)]
    loaded = sum(loads_or_is_refused(good, tmp_path / "fuzzed", draw) for draw in draws)
    assert 0 < loaded < 45


def test_an_unknown_key_is_named_first(good: dict[str, Path], tmp_path: Path) -> None:
    directory = tmp_path / "model"
    shutil.copytree(good["bert"], directory)
    edit_config(directory, alpha=1, beta=2)
    assert "'alpha', 'beta'" in refusal(directory)
