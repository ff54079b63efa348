"""Training: the same files give the same vocabulary, in every process."""

import gzip
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from heedful.errors import RequestError
from heedful.text import Tokenizer, train_bpe, train_wordpiece
from tests.support.text_samples import FRAGMENTS

# Many pairs with equal counts: ties are where an order that changes from run to run would show.
LINES = [
    " ".join([text, *(a[i % 5 :] + b[: i % 7] for a in ("film", "world", "gem") for b in ("watching", "player"))])
    for i, text in enumerate(FRAGMENTS * 3)
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_bytes("\n".join(LINES).encode())
    return path


def digest(tokenizer: Tokenizer) -> str:
    return hashlib.sha256(tokenizer._core.to_str().encode()).hexdigest()


def test_same_files_same_vocabulary_in_another_process(corpus: Path) -> None:
    code = (
        "import sys, hashlib; from pathlib import Path; from heedful.text import train_bpe, train_wordpiece\n"
        "for t in (train_wordpiece([Path(sys.argv[1])], 600), train_bpe([Path(sys.argv[1])], 600)):\n"
        "    print(hashlib.sha256(t._core.to_str().encode()).hexdigest())"
    )
    here = [digest(train_wordpiece([corpus], 600)), digest(train_bpe([corpus], 600))]
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code, str(corpus)], capture_output=True, text=True, check=True)
        assert done.stdout.split() == here
        assert done.stderr == ""


def test_wordpiece(corpus: Path) -> None:
    tokenizer = train_wordpiece([corpus], 400, max_length=32)
    assert tokenizer.size == 400
    assert [tokenizer.token(i) for i in range(5)] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert sorted(tokenizer.id(tokenizer.token(i)) for i in range(400)) == list(range(400))
    (tokens,) = tokenizer.encode(["The FILM"])
    assert tokenizer.decode(tokens.ids) == "the film"
    assert tokenizer.unk_id not in tokens.ids
    assert (tokenizer.kind, tokenizer.lowercase, tokenizer.max_length) == ("WordPiece", True, 32)
    assert train_wordpiece([corpus], 500, lowercase=False).lowercase is False


def test_every_seen_character_has_an_id_and_rare_ones_can_be_left_out(corpus: Path) -> None:
    tokenizer = train_wordpiece([corpus], 600)
    ids = [i for tokens in tokenizer.encode(["film" + c for c in "abcdefgß12你"]) for i in tokens.ids]
    assert tokenizer.id("##b") is not None
    assert tokenizer.id("##,") is None  # punctuation stands alone
    assert ids.count(tokenizer.unk_id) == 0
    few = train_wordpiece([corpus], 200, alphabet=20)
    letters = [few.token(i) for i in range(5, few.size) if len(few.token(i)) == 1]
    assert len(letters) == 20
    assert few.encode(["东"])[0].ids[1] == few.unk_id


@pytest.mark.parametrize("family", ["roberta", "gpt2"])
def test_bytes(corpus: Path, family: str) -> None:
    tokenizer = train_bpe([corpus], 400, family=family)
    assert tokenizer.size == 400
    for text in FRAGMENTS:
        assert tokenizer.decode(tokenizer.encode([text])[0].ids, skip_special=False).replace("<s>", "").replace(
            "</s>", ""
        ) == text.replace("<s>", "").replace("</s>", "").replace(" <mask>", "<mask>")
    if family == "roberta":
        assert (tokenizer.cls_id, tokenizer.pad_id, tokenizer.sep_id) == (0, 1, 2)
        assert tokenizer.encode([""])[0].ids == [0, 2]
    else:
        assert tokenizer.encode([""])[0].ids == []
        assert tokenizer.eos_id == 0
    assert len(tokenizer.encode(["the film"])[0]) < 8


def test_compressed_and_several_files(corpus: Path, tmp_path: Path) -> None:
    half = len(LINES) // 2
    first, second = tmp_path / "a.txt", tmp_path / "b.txt.gz"
    first.write_text("\n".join(LINES[:half]) + "\n", encoding="utf-8", newline="")
    second.write_bytes(gzip.compress("\n".join(LINES[half:]).encode()))
    assert digest(train_wordpiece([first, second], 500)) == digest(train_wordpiece([corpus], 500))
    assert digest(train_bpe([first, second], 500)) == digest(train_bpe([corpus], 500))


@pytest.mark.parametrize("train", [train_wordpiece, train_bpe])
def test_bad_files_are_named(train: object, tmp_path: Path, corpus: Path) -> None:
    files = {
        "latin.txt": ("gut\nmüde\n".encode("latin-1"), "line 2, is not UTF-8"),
        "no.txt.gz": (b"plain text", "is not whole gzip data"),
        "cut.txt.gz": (gzip.compress(b"text " * 1000)[:-20], "is not whole gzip data"),
        "blank.txt": (b" \n\n", "no text to train"),
        "absent.txt": (None, "does not exist"),
    }
    for name, (content, words) in files.items():
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(RequestError, match=words) as caught:
            train([path], 1000)
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(RequestError, match="ask for more entries"):
        train([corpus], 50)
    with pytest.raises(RequestError, match="choose"):
        train([corpus], 1000, family="t5")
