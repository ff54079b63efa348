"""Named sets of translations: from a data folder, from a hub that is not there; what recipes may say of them."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from test_data_named import Hub, hub

from heedful.cli.data import show
from heedful.data.catalog import PAIRS
from heedful.data.examples import load_dataset
from heedful.data.loading import load_aligned
from heedful.data.look import look_at
from heedful.data.named import where_from
from heedful.data.parallel import ParallelTable
from heedful.data.translations import load_pairs
from heedful.errors import RequestError, WorkError
from heedful.recipes.reading import make_recipe
from heedful.storage.shared import SharedStore
from tests.support.pair_files import text_files

__all__ = ["hub"]


def fill(folder: Path, names: tuple[str, ...] = ("train", "val", "test_2016_flickr", "test_2018_flickr")) -> Path:
    (folder / "multi30k_en_de").mkdir(parents=True)
    for name in names:
        text_files(folder / "multi30k_en_de" / name, [(f"{name} cat {i}", f"{name} Katze {i}") for i in range(12)])
    (folder / "en_my").mkdir()
    for name in ("train", "dev", "test"):
        lines = [f"{'train' if i < 3 else name} line {i} " for i in range(10)]
        (folder / "en_my" / f"{name}.en").write_text("\n".join(lines))
        (folder / "en_my" / f"{name}.my").write_text("\n".join(f"ဒု တိ ယ {i}" for i in range(10)))
    (folder / "pig_latin").mkdir()
    pairs = "".join(f"w{'a' * i} {'a' * i}way\n" for i in range(1, 31))
    (folder / "pig_latin" / "pig_latin_data.txt").write_text(pairs)
    return folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEEDFUL_DATA", str(tmp_path / "data"))
    return fill(tmp_path / "data")


def test_further_test_sets(folder: Path) -> None:
    data = load_pairs(name="multi30k-en-de")
    assert list(data.splits) == ["train", "dev", "test", "test-2018"]
    assert data.splits["test-2018"].targets[1] == "test_2018_flickr Katze 1"
    assert "multi30k-en-de: this copy has no test-coco." in data.notes
    assert "train has 12 pairs, where 29,000 are published." in data.notes
    assert "Flickr30k" in data.contamination
    turned = load_pairs(name="multi30k-en-de", source="de", target="en")
    assert turned.languages == ("de", "en")
    assert turned.splits["test"] == data.splits["test"].turned()


def test_a_copy_that_lacks_a_side(folder: Path) -> None:
    (folder / "multi30k_en_de" / "test_2018_flickr.de").unlink()
    with pytest.raises(RequestError, match=r"test_2018_flickr\.de does not exist"):
        load_pairs(name="multi30k-en-de")
    (folder / "multi30k_en_de" / "val.en").unlink()
    with pytest.raises(RequestError, match=r"val\.en does not exist"):
        load_pairs(name="multi30k-en-de")


def test_lines_that_recur_are_marked(folder: Path) -> None:
    data = load_pairs(name="en-my")
    assert data.recurring == {"dev": [1, 2, 3], "test": [1, 2, 3]}
    assert len(data.without_recurring("test")) == 7
    assert data.licence == "GPL-3, non-commercial"


def test_words_are_split_by_themselves(folder: Path) -> None:
    data = load_pairs(name="pig-latin")
    assert {name: len(pairs) for name, pairs in data.splits.items()} == {"train": 24, "dev": 3, "test": 3}
    path = folder / "pig_latin" / "pig_latin_data.txt"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    again = load_pairs(name="pig-latin")
    assert set(again.splits["test"].sources) == set(data.splits["test"].sources)
    path.write_text("one onway\nlonely\n")
    with pytest.raises(RequestError, match=r"pig_latin_data\.txt, line 2, has 1 word, not a pair"):
        load_pairs(name="pig-latin")


def test_where_they_are(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert where_from(PAIRS["en-my"]) == (str(folder / "en_my"), True)
    assert where_from(PAIRS["pig-latin-small"]) == ("generated", True)
    monkeypatch.delenv("HEEDFUL_DATA")
    assert where_from(PAIRS["en-my"])[1] is False
    with pytest.raises(RequestError, match=r"en-my is not here \(HEEDFUL_DATA is not set\) and not on the hub; set"):
        load_pairs(name="en-my")


def test_from_the_hub(hub: Hub, tmp_path: Path) -> None:
    for name, count in (("train", 9), ("val", 4), ("test", 5)):
        table = {"en": [f"{name} cat {i}" for i in range(count)], "de": [f"{name} Katze {i}" for i in range(count)]}
        hub.put("bentrevett/multi30k", f"{name}.jsonl", table)
    data = load_pairs(name="multi30k-en-de")
    assert {name: len(pairs) for name, pairs in data.splits.items()} == {"train": 9, "dev": 4, "test": 5}
    assert "multi30k-en-de: from bentrevett/multi30k on the hub." in data.notes
    hub.put("someone/set", "data/t.parquet", {"en": [f"c {i}" for i in range(20)], "de": [f"k {i}" for i in range(20)]})
    own = load_pairs(train="hub:someone/set/data/t.parquet", source="en", target="de")
    assert sum(map(len, own.splits.values())) == 20
    with pytest.raises((RequestError, WorkError)):
        load_pairs(train="hub:someone/set/nothing.parquet", source="en", target="de")
    (tmp_path / "lines").mkdir()
    text_files(tmp_path / "lines" / "t", [(f"c {i}", f"k {i}") for i in range(20)])
    for side in ("en", "de"):
        hub.put("someone/set", f"t.{side}", {"text": ["x"]})
        (tmp_path / "lines" / f"t.{side}").rename(hub.path("someone/set", f"t.{side}"))
    assert load_pairs(train="hub:someone/set/t", source="en", target="de").fingerprints == own.fingerprints
    text_files(tmp_path / "lines" / "z", [(f"c {i}", f"k {i}") for i in range(20)])
    for side in ("en", "de"):
        hub.put("someone/set", f"z.{side}.gz", {"text": ["x"]})
        content = gzip.compress((tmp_path / "lines" / f"z.{side}").read_bytes())
        hub.path("someone/set", f"z.{side}.gz").write_bytes(content)
    assert load_pairs(train="hub:someone/set/z", source="en", target="de").fingerprints == own.fingerprints
    with pytest.raises(RequestError, match=r"the hub shows no file absent\.en in the data set someone/set"):
        load_pairs(train="hub:someone/set/absent", source="en", target="de")


def test_a_set_is_of_one_sort(folder: Path) -> None:
    with pytest.raises(RequestError, match="en-my is a set of translations, without labels"):
        load_dataset(name="en-my")


def test_a_look(folder: Path) -> None:
    facts = look_at("en-my")
    assert facts["kind"] == "translations"
    assert facts["splits"]["test"]["recurring"] == 3
    assert facts["splits"]["test"]["fingerprint"] == load_pairs(name="en-my").fingerprints["test"]
    assert facts["examples"][0]["pair"] == "ဒု တိ ယ 0"
    with pytest.raises(RequestError, match="remove the other columns"):
        look_at("en-my", text="en")
    with pytest.raises(RequestError, match="en-my is a named set with columns of its own; remove --header"):
        look_at("en-my", header=True)


def test_a_look_at_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text_files(tmp_path / "train", [(f"cat {i}", f"Katze {i}") for i in range(30)])
    show(str(tmp_path / "train"), from_="en", into="de")
    shown = capsys.readouterr().out
    assert "source 'en', target 'de'" in shown
    assert "row 1: cat 0\n    / Katze 0" in shown
    assert "6 of 6 checks passed." in shown
    facts = look_at(str(tmp_path / "train"), sides=("en", "de"))
    assert facts["splits"]["rows"]["rows"] == 30
    text_files(tmp_path / "train", [("a cat", "die Katze im Haus")] * 9)
    words = look_at(str(tmp_path / "train"), sides=("en", "de"))["splits"]["rows"]
    assert (words["words"]["most"], words["target_words"]["most"]) == (2, 4)


def test_names_that_are_too_long_for_a_file() -> None:
    for name, words in (("x" * 300 + ".csv", "cannot be read"), ("x" * 300, "named set")):
        with pytest.raises(RequestError, match=words):
            look_at(name)


# What a recipe says


def recipe(**changes: Any) -> None:
    content = {"model": {"shape": "bert-tiny"}, "tokenizer": {"kind": "bpe"}, "data": {}, **changes}
    make_recipe(content)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data": {"source": "en"}}, 'data.source means nothing with objective.kind = "classify"; leave it out'),
        ({"data": {"max_ratio": 2.0}}, "data.max_ratio means nothing"),
        ({"data": {"deduplicate": True}}, "data.deduplicate means nothing"),
        ({"data": {"sorce": "en"}}, "did you mean data.source?"),
        ({"tokenizer": {"kind": "bpe", "joint": False}}, "tokenizer.joint means nothing with objective.kind"),
    ],
)
def test_keys_that_others_have_no_use_for(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words.replace("?", r"\?")):
        recipe(**changes)


def test_keys_of_translations() -> None:
    def translation(**changes: Any) -> None:
        content = {"model": {"kind": "recurrent"}, "tokenizer": {"kind": "bpe"}, "objective": {"kind": "translate"}}
        make_recipe({**content, "evaluation": {"metric": "loss"}, **changes})

    keys = {"train": "a.tsv", "source": "en", "target": "de", "max_source": 40, "max_ratio": 3, "deduplicate": True}
    translation(data=keys, tokenizer={"kind": "bpe", "joint": False})
    with pytest.raises(RequestError, match=r"data\.text means nothing .*; name the two sides with data\.source"):
        translation(data={"text": "en"})
    with pytest.raises(RequestError, match=r"data\.label means nothing .*; leave it out"):
        translation(data={"label": "en"})
    with pytest.raises(RequestError, match=r"data\.max_source = 0 is not right: it must be at least 1"):
        translation(data={"max_source": 0})
    with pytest.raises(RequestError, match=r"tokenizer\.joint goes with tokenizer\.kind"):
        translation(tokenizer={"name": "minilm", "joint": False})


def test_read_once_and_in_part(tmp_path: Path) -> None:
    text_files(tmp_path / "train", [(f"cat {i}", f"Katze {i}") for i in range(100)])
    keys: dict[str, Any] = {"train": str(tmp_path / "train"), "source": "en", "target": "de"}
    store = SharedStore(tmp_path / "store")
    whole = load_aligned(ParallelTable(**keys), 0, store)
    assert whole == load_pairs(**keys)
    (tmp_path / "train.en").unlink()  # whoever comes later finds them in the store
    assert load_aligned(ParallelTable(**keys), 1, store) == whole
    few, more = (load_aligned(ParallelTable(**keys, limit=n), 0, store).splits["train"] for n in (10, 30))
    assert (len(few), len(more)) == (10, 30)
    assert set(few.rows) < set(more.rows)
    assert few == load_aligned(ParallelTable(**keys, limit=10), 1, store).splits["train"]
    drawn = [load_aligned(ParallelTable(**keys, limit=10, redraw=True), seed, store).splits["train"] for seed in (0, 1)]
    assert drawn[0] != drawn[1]
    half = load_aligned(ParallelTable(**keys, fraction=0.5), 0, store)
    assert len(half.splits["train"]) == 35
    assert half.splits["test"] == whole.splits["test"]
    assert half.notes[-1] == "trained on 35 of 70 pairs of the training set"
