"""Texts and their translations from files: the same pairs whatever the form, and nothing lost without a word."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.data.disk import read_lines
from heedful.data.files import read_rows
from heedful.data.filters import LONGEST, Filters, count_words, filter_pairs
from heedful.data.pig_latin import translate as pig_latin_of
from heedful.data.pig_latin import words
from heedful.data.records import Aligned, Pairs
from heedful.data.shifts import find_loss, find_shift
from heedful.data.translation_files import read_text_files
from heedful.data.translations import load_pairs
from heedful.errors import RequestError
from tests.support.pair_files import PAIRS, jsonl, parquet, text_files, tsv, zipped_files

SIDES = {"source": "en", "target": "de"}
INSIDE = {"source": "translation.en", "target": "translation.de"}


def all_rows(data: Aligned) -> list[tuple[int, str, str]]:
    return sorted(row for p in data.splits.values() for row in zip(p.rows, p.sources, p.targets, strict=True))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Aligned:
    stem = tmp_path_factory.mktemp("plain") / "train"
    text_files(stem, PAIRS)
    return load_pairs(train=str(stem), **SIDES)


def test_two_files_line_by_line(plain: Aligned) -> None:
    assert all_rows(plain) == [(i, a, b) for i, (a, b) in enumerate(PAIRS, 1)]
    assert plain.languages == ("en", "de")
    assert {name: len(pairs) for name, pairs in plain.splits.items()} == {"train": 28, "dev": 4, "test": 8}


@pytest.mark.parametrize("form", ["crlf", "mark", "gz", "pattern", "tsv", "jsonl", "parquet", "no last end"])
def test_every_form_gives_the_same_pairs(form: str, plain: Aligned, tmp_path: Path) -> None:
    stem, keys = tmp_path / "train", dict(SIDES)
    file = str(stem)
    if form == "crlf":
        text_files(stem, PAIRS, "\r\n")
    elif form == "mark":
        text_files(stem, PAIRS, mark=b"\xef\xbb\xbf")
    elif form == "no last end":
        text_files(stem, PAIRS)
        for path in tmp_path.iterdir():
            path.write_bytes(path.read_bytes().rstrip(b"\n"))
    elif form == "gz":
        zipped_files(stem, PAIRS)
    elif form == "pattern":
        text_files(stem, PAIRS)
        for ending in ("en", "de"):
            (tmp_path / ending).mkdir()
            (tmp_path / f"train.{ending}").rename(tmp_path / ending / "train.txt")
        file = str(tmp_path / "{}" / "train.txt")
    elif form == "tsv":
        tsv(tmp_path / "train.tsv", PAIRS)
        file = str(tmp_path / "train.tsv")
    else:
        {"jsonl": jsonl, "parquet": parquet}[form](tmp_path / f"train.{form}", PAIRS)
        file, keys = str(tmp_path / f"train.{form}"), INSIDE
    data = load_pairs(train=file, **keys)
    assert data.fingerprints == plain.fingerprints
    assert all_rows(data) == all_rows(plain)


def test_two_columns_need_no_names(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("English,German\n" + "".join(f"cat {i},Katze {i}\n" for i in range(20)))
    data = load_pairs(train=str(tmp_path / "a.csv"))
    assert data.languages == ("English", "German")
    assert any("source 'English' and target 'German'" in note for note in data.notes)
    turned = load_pairs(train=str(tmp_path / "a.csv"), source="German")
    assert turned.languages == ("German", "English")
    assert {(b, a) for _, a, b in all_rows(turned)} == {(a, b) for _, a, b in all_rows(data)}


def test_a_stem_may_end_like_a_table(plain: Aligned, tmp_path: Path) -> None:
    text_files(tmp_path / "train.txt", PAIRS)
    assert load_pairs(train=str(tmp_path / "train.txt"), **SIDES).fingerprints == plain.fingerprints


def test_files_for_every_split(tmp_path: Path) -> None:
    for name, at in (("train", 0), ("val", 20), ("test", 30)):
        text_files(tmp_path / name, PAIRS[at : at + 10])
    data = load_pairs(train=str(tmp_path / "train"), dev=str(tmp_path / "val"), test=str(tmp_path / "test"), **SIDES)
    assert data.splits["dev"].sources == [a for a, _ in PAIRS[20:30]]
    assert data.splits["test"].rows == list(range(1, 11))
    assert not data.recurring
    assert all(check["state"] == "pass" for check in data.checks)


@pytest.mark.parametrize(
    ("en", "de", "words"),
    [
        (
            "a\nb\nc\n",
            "x\ny\n",
            r"train\.en has 3 lines and .*train\.de 2.*line 3 of train\.en \('c'\) has no counterpart",
        ),
        (
            "a\nb\n",
            "x\n\ny\n",
            r"train\.de has 3 lines and .*train\.en 2.*line 2 of train\.de is empty, where train\.en",
        ),
        ("", "x\n", r"train\.en is empty; it needs a text on each line"),
        ("\n\n", "x\ny\n", r"train\.en has no text"),
        ("a\n\n\nb\n", "x\ny\nz\n\n", r"3 of 4 pairs cannot be used \(the first: line 2, has an empty source\)"),
        (b"a\nb\xff\n", "x\ny\n", r"train\.en, line 2, is not UTF-8 \(byte 0xFF"),
        ("a\nb\0\n", "x\ny\n", r"train\.en, line 2, has a NUL byte"),
    ],
)
def test_files_that_are_refused(en: str | bytes, de: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "train.en").write_bytes(en if isinstance(en, bytes) else en.encode())
    (tmp_path / "train.de").write_text(de)
    with pytest.raises(RequestError, match=words):
        load_pairs(train=str(tmp_path / "train"), **SIDES)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("lost", [1, 2, 30, 150])
def test_where_files_come_apart_is_found_by_length(lost: int, seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    lengths = [draw.randint(3, 80) for _ in range(400)]
    at = draw.randint(50, 350 - lost)
    pairs = [("e" * n, "d" * max(1, round(1.2 * n * draw.uniform(0.8, 1.25)))) for n in lengths]
    text_files(tmp_path / "train", pairs)
    kept = [b for _, b in pairs[:at] + pairs[at + lost :]]
    (tmp_path / "train.de").write_text("".join(line + "\n" for line in kept))
    with pytest.raises(RequestError, match=r"they come apart at about line (\d+)") as caught:
        load_pairs(train=str(tmp_path / "train"), **SIDES)
    assert abs(int(str(caught.value).split("about line ")[1].split(";")[0]) - (at + 1)) <= 6


@pytest.mark.parametrize("lost", [1, 10, 30, 200])
@pytest.mark.parametrize("order", ["unrelated", "shuffled", "drifting", "lost at the end", "lost in two places"])
def test_no_place_is_named_where_none_is_sure(order: str, lost: int) -> None:
    draw = random.Random(lost)
    assert find_loss(["e"] * lost, []) is None
    for count in (12, 30, 100, 400, 1500) * 4:
        lengths = [draw.randint(3, 80) for _ in range(count + lost)]
        others = [draw.randint(3, 80) for _ in range(count)]
        if order == "shuffled":
            others = draw.sample(lengths, count)
        elif order == "drifting":
            lengths, others = ([n + i // 10 for i, n in enumerate(side)] for side in (lengths, others))
        elif order == "lost at the end":
            others = lengths[:count]
        elif order == "lost in two places":
            if count < 400 or lost < 30:  # then they are one place
                continue
            first, second = count // 4, count // 4 + lost // 2
            others = lengths[:first] + lengths[second : second + count // 2]
            others += lengths[lost + len(others) :]
        assert find_loss(["e" * n for n in lengths], ["d" * n for n in others]) is None


def test_pairs_without_a_side_are_counted_and_named(tmp_path: Path) -> None:
    pairs = [("" if i == 7 else f"cat {i}", "  " if i == 9 else f"Katze {i}") for i in range(60)]
    text_files(tmp_path / "train", pairs)
    data = load_pairs(train=str(tmp_path / "train"), **SIDES)
    assert {row for row, _, _ in all_rows(data)} == set(range(1, 61)) - {8, 10}
    (check,) = (check for check in data.checks if check["name"] == "rows")
    assert (check["state"], check["count"], check["rows"]) == ("warn", 2, [8, 10])
    assert "lines 8, 10; the first has an empty source" in check["sentence"]


def test_an_empty_end_of_both_files_is_no_pair(tmp_path: Path) -> None:
    text_files(tmp_path / "train", [*PAIRS[:5], ("", ""), ("", " ")])
    data = load_pairs(train=str(tmp_path / "train"), dev_share=0, test_share=0, **SIDES)
    assert data.splits["train"].rows == [1, 2, 3, 4, 5]
    assert all(check["state"] == "pass" for check in data.checks)


def test_rows_of_json_that_are_no_text(tmp_path: Path) -> None:
    rows: list[Any] = [{"en": f"cat {i}", "de": f"Katze {i}"} for i in range(80)]
    rows[3], rows[5], rows[9], rows[11] = {"en": "a\0", "de": "b"}, {"en": "\ud800", "de": "b"}, {"en": 1}, [1]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = load_pairs(train=str(tmp_path / "a.jsonl"), **SIDES)
    (check,) = (check for check in data.checks if check["name"] == "rows")
    assert (check["count"], check["rows"]) == (4, [4, 6, 10, 12])
    assert len(all_rows(data)) == 76


def test_a_name_as_long_as_can_be(tmp_path: Path) -> None:
    """With .gz it would be too long; there is the file without."""
    stem = tmp_path / ("x" * 252)
    text_files(stem, PAIRS)
    assert len(all_rows(load_pairs(train=str(stem), **SIDES))) == len(PAIRS)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_lines_end_alike_in_every_encoding(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "t.en").write_bytes("a\rb\nc\u2028d\r\n\re\x85".encode(encoding))
    (tmp_path / "t.de").write_bytes("A\nB\x1d\nC".encode(encoding))
    assert [line for _, line in read_lines(tmp_path / "t.en")] == ["a\rb\n", "c\u2028d\r\n", "\re\x85"]
    assert read_text_files(tmp_path / "t.en", tmp_path / "t.de").rows == [1, 2, 3]
    (tmp_path / "t.en").write_bytes("a\rb\u2028c\r\rd".encode(encoding))  # as old Macintoshes wrote
    assert list(read_lines(tmp_path / "t.en")) == [(1, "a\r"), (2, "b\u2028c\r"), (3, "\r"), (4, "d")]
    (tmp_path / "t.csv").write_bytes("x,y\na\rb,c\n".encode(encoding))
    with pytest.raises(RequestError, match="line 2: a carriage return is in a cell without quotes"):
        list(read_rows(tmp_path / "t.csv", "x"))


@given(st.text(alphabet="ab\r\n\u2028,", max_size=30))
def test_lines_of_any_text_do_not_depend_on_the_encoding(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path, found = tmp_path_factory.getbasetemp() / "any.txt", []
    for encoding in ("utf-8", "utf-16"):
        path.write_bytes(("x" + text).encode(encoding))
        found.append(list(read_lines(path)))
    assert found[0] == found[1]
    assert "".join(line for _, line in found[0]) == "x" + text


def test_a_line_beyond_a_sentence_leaves_train_alone(tmp_path: Path) -> None:
    long = "word " * 20_000
    text_files(tmp_path / "train", [*PAIRS, (long, "kurz")])
    text_files(tmp_path / "test", [(long, "kurz"), ("a", "b")])
    data = load_pairs(train=str(tmp_path / "train"), test=str(tmp_path / "test"), dev_share=0, **SIDES)
    assert len(data.splits["train"]) == len(PAIRS)
    assert data.filters == {"longest": {"limit": LONGEST, "dropped": 1}}
    found = [check["sentence"] for check in data.checks if check["state"] == "warn"]
    assert "train: 1 pair is skipped because a side has more than 20,000 characters (row 41)." in found
    assert len(data.splits["test"]) == 2
    assert any(c["name"] == "lengths" and c["state"] == "warn" and "test" in c["sentence"] for c in data.checks)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"train": "no"}, r"data\.train = '.*no' is not a table .*such as \"en\" and \"de\""),
        ({"train": "no", **SIDES}, r"there is neither .*no\.en nor no\.en\.gz; name a table"),
        ({"train": "t.en", **SIDES}, r"is not a table .* but one text; .* write data\.train = '.*t'"),
        (
            {"train": "three.tsv"},
            r"which columns are translated\? Set data\.source and data\.target; it has 'en', 'number', 'de'",
        ),
        ({"train": "three.tsv", "source": "em", "target": "de"}, r"has no column 'em'; it has 'en', 'number', 'de'"),
        ({"train": "three.tsv", "source": "en", "target": "en"}, r"data\.source and data\.target are both 'en'"),
        ({"train": "t", "header": True, **SIDES}, r"data\.header is for tables"),
        ({"train": "t", "name": "en-my"}, r"either name .* or train"),
        ({"train": "hub:someone/file.tsv", **SIDES}, r"data\.train = .*write hub:OWNER/REPOSITORY/FILE"),
        ({"name": "multi30k"}, r"did you mean 'multi30k-en-de'\?"),
        ({"name": "sst2"}, r"no set of translations has this name"),
        (
            {"name": "pig-latin-small", "source": "de", "target": "en"},
            r"has the languages 'english' and 'pig-latin', not data\.source = 'de' and data\.target = 'en'; name both",
        ),
        ({"name": "pig-latin-small", "source": "fr"}, r"'pig-latin', not data\.source = 'fr'; name both of them"),
        ({"name": "pig-latin-small", "target": "fr"}, r"'pig-latin', not data\.target = 'fr'; name both of them"),
        ({"name": "pig-latin-small", "dev": "a"}, r"remove data\.dev"),
        ({"name": "pig-latin-small", "dev_share": 0.3}, r"remove data\.dev_share"),
        ({"name": "pig-latin-small", "options": {"size": 3}}, r"has no option 'size'"),
        ({"name": "pig-latin-sentences", "options": {"size": 3}}, r"size = 3 must be from 20 to"),
        ({"name": "pig-latin-sentences", "options": {"seed": -1}}, r"seed = -1 must be at least 0"),
        ({"train": "t", "options": {"size": 3}, **SIDES}, r"data\.options\.size is for named sets"),
        ({"train": "~nosuchuser/x", **SIDES}, r"data\.train = '~nosuchuser/x\.en': this user has no home"),
        (
            {"train": "~nosuchuser/x.csv", **SIDES},
            r"data\.train = '~nosuchuser/x\.csv': this user has no home",
        ),
        ({"train": "x" * 300, **SIDES}, r"there is neither .*x\.en nor x+\.en\.gz"),
        ({"train": "x" * 300 + ".csv", **SIDES}, r"x\.csv cannot be read \(File name too long\); check the path"),
    ],
)
def test_requests_that_are_refused(keys: dict[str, Any], words: str, tmp_path: Path) -> None:
    text_files(tmp_path / "t", PAIRS)
    tsv(tmp_path / "three.tsv", PAIRS)
    if "train" in keys and not keys["train"].startswith(("hub:", "~")):
        keys = {**keys, "train": str(tmp_path / keys["train"])}
    with pytest.raises(RequestError, match=words):
        load_pairs(**keys)


# Filters


def test_words_are_counted_where_none_are_spaced() -> None:
    assert count_words("a b  c") == 3
    assert count_words("猫が eat 寝る") == 5
    assert count_words("ဒု တိ ယ") == 3
    assert count_words("  ") == 0


TEXTS = st.lists(st.sampled_from(["a", "B", "b", "cc", "d"]), min_size=1, max_size=8).map(" ".join)
LIMITS = st.none() | st.integers(1, 6)


@settings(max_examples=150)
@given(
    st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=30),
    LIMITS,
    LIMITS,
    st.sampled_from([None, 1.0, 1.5, 3.0]),
    st.booleans(),
)
def test_filters_by_brute_force(
    texts: list[tuple[str, str]], most_s: int | None, most_t: int | None, ratio: float | None, once: bool
) -> None:
    pairs = Pairs([s for s, _ in texts], [t for _, t in texts], list(range(10, 10 + len(texts))))
    kept, dropped, seen = [], dict.fromkeys(("max_source", "max_target", "max_ratio", "deduplicate"), 0), set()
    for row, (s, t) in enumerate(texts, 10):
        n, m = len(s.split()), len(t.split())
        if most_s is not None and n > most_s:
            dropped["max_source"] += 1
        elif most_t is not None and m > most_t:
            dropped["max_target"] += 1
        elif ratio is not None and (n > ratio * m or m > ratio * n):
            dropped["max_ratio"] += 1
        elif once and (s.lower(), t.lower()) in seen:
            dropped["deduplicate"] += 1
        else:
            kept.append(row)
            seen.add((s.lower(), t.lower()))
    filters = Filters(most_s, most_t, ratio, once)
    if not kept:
        with pytest.raises(RequestError, match=r"the filters leave no training pair \(data\."):
            filter_pairs(pairs, filters)
        return
    left, facts, notes = filter_pairs(pairs, filters)
    assert left.rows == kept
    asked = {"max_source": most_s, "max_target": most_t, "max_ratio": ratio, "deduplicate": True if once else None}
    assert facts == {
        name: {"limit": limit, "dropped": dropped[name]} for name, limit in asked.items() if limit is not None
    }
    assert len(notes) == sum(count > 0 for count in dropped.values())


def test_filters_are_for_train_alone(tmp_path: Path) -> None:
    pairs = [("word " * (i % 9) + str(i), "Wort " * (i % 9) + str(i)) for i in range(90)]
    text_files(tmp_path / "train", pairs)
    plain = load_pairs(train=str(tmp_path / "train"), **SIDES)
    data = load_pairs(train=str(tmp_path / "train"), max_source=4, **SIDES)
    assert {name: data.fingerprints[name] == plain.fingerprints[name] for name in data.splits} == {
        "train": False,
        "dev": True,
        "test": True,
    }
    assert max(map(count_words, data.splits["train"].sources)) == 4
    assert max(map(count_words, data.splits["test"].sources)) == 9
    dropped = len(plain.splits["train"]) - len(data.splits["train"])
    assert data.description()["filters"] == {"max_source": {"limit": 4, "dropped": dropped}}
    assert any(f"{dropped} pairs are skipped because the source has more than 4 words" in n for n in data.notes)


# Splits and checks


def test_equal_sources_are_on_one_side(tmp_path: Path) -> None:
    pairs = [(f"cat {i // 3}", f"Katze {i}") for i in range(150)]
    text_files(tmp_path / "train", pairs)
    data = load_pairs(train=str(tmp_path / "train"), **SIDES)
    sides = [set(pairs.sources) for pairs in data.splits.values()]
    assert not sides[0] & sides[1]
    assert not sides[0] & sides[2]
    assert not sides[1] & sides[2]
    again = load_pairs(train=str(tmp_path / "train"), **SIDES)
    assert again.fingerprints == data.fingerprints
    other = load_pairs(train=str(tmp_path / "train"), split_seed=1, **SIDES)
    assert other.fingerprints != data.fingerprints


def test_rows_that_recur_are_marked(tmp_path: Path) -> None:
    text_files(tmp_path / "train", PAIRS)
    text_files(tmp_path / "dev", [("new", "neu")])
    text_files(tmp_path / "test", [("new too", "auch neu"), (PAIRS[3][0], "anders"), PAIRS[5], ("last", "zuletzt")])
    files = {name: str(tmp_path / name) for name in ("train", "dev", "test")}
    data = load_pairs(**files, **SIDES)
    assert data.recurring == {"test": [2, 3]}
    assert data.without_recurring("test").sources == ["new too", "last"]
    assert data.without_recurring("dev").sources == ["new"]
    assert data.description()["recurring"] == {"test": 2}
    (leak,) = (check for check in data.checks if check["name"] == "leakage")
    assert leak["sentence"] == "test: 2 sources of 4 also appear in train (rows 2, 3)."


def test_sides_a_line_apart_are_noticed(tmp_path: Path) -> None:
    draw = random.Random(0)
    lengths = [draw.randint(2, 40) for _ in range(201)]
    sentences = [("e " * n, "d " * (n + draw.randint(0, 3))) for n in lengths]
    good = [(a + str(i), b + str(i)) for i, (a, b) in enumerate(sentences)]
    shifted = [(good[i][0], good[i + 1][1]) for i in range(200)]
    for name, pairs, state in (("good", good, "pass"), ("bad", shifted, "warn")):
        text_files(tmp_path / name, pairs)
        data = load_pairs(train=str(tmp_path / name), dev_share=0, test_share=0, **SIDES)
        (check,) = (check for check in data.checks if check["name"] == "alignment")
        assert check["state"] == state
    assert "of a source and of the previous target go together" in check["sentence"]


def pig_latin(count: int = 400) -> list[tuple[str, str]]:
    draw, known = random.Random(1), words()
    sentences = [" ".join(draw.choices(known, k=draw.randint(3, 14))) for _ in range(count)]
    return [(sentence, pig_latin_of(sentence)) for sentence in sentences]


@pytest.mark.parametrize(("lost", "other"), [(150, 399), (399, 150), (100, 300), (300, 100)])
def test_a_line_that_is_lost_in_the_middle_is_noticed(lost: int, other: int, tmp_path: Path) -> None:
    """Of the source this line, and of the target another, so that both files have the same number of lines."""
    pairs = pig_latin()
    sources, targets = (list(side) for side in zip(*pairs, strict=True))
    del sources[lost], targets[other]
    text_files(tmp_path / "bad", list(zip(sources, targets, strict=True)))
    data = load_pairs(train=str(tmp_path / "bad"), **SIDES)  # dev and test are carved: neighbours are torn apart there
    said = [check for check in data.checks if check["name"] == "alignment" and "bad.en" in check["sentence"]]
    (check,) = said
    assert check["state"] == "warn"
    (first,) = check["rows"]
    assert abs(first - (min(lost, other) + 1)) <= 5
    assert f"from about line {first:,} to line" in check["sentence"]
    assert f"the target a line {'below' if other > lost else 'above'} go together" in check["sentence"]


@pytest.mark.parametrize("order", ["drawn", "sorted", "blocks"])
def test_aligned_lines_in_any_order_are_not_suspected(order: str, tmp_path: Path) -> None:
    pairs = pig_latin(2000)
    if order == "sorted":
        pairs.sort(key=lambda pair: len(pair[0]))
    elif order == "blocks":  # of long and of short lines, by turns
        pairs.sort(key=lambda pair: len(pair[0]) > 50)
        pairs = [pair for i in range(0, 1000, 100) for pair in [*pairs[i : i + 100], *pairs[1000 + i : 1100 + i]]]
    text_files(tmp_path / "good", pairs)
    data = load_pairs(train=str(tmp_path / "good"), dev_share=0, test_share=0, **SIDES)
    assert [check["state"] for check in data.checks if check["name"] == "alignment"] == ["pass"]


def test_lengths_that_say_nothing_raise_no_suspicion() -> None:
    """Targets of any length, of one length, and lengths that drift: nothing that looks shifted is more than chance."""
    draw = random.Random(2)
    for trial in range(60):
        sources = ["s" * draw.randint(1, 80) for _ in range(draw.randint(100, 1500))]
        targets = ["t" * (7 if trial % 3 == 0 else draw.randint(1, 80)) for _ in sources]
        if trial % 3 == 1:
            sources = [f"{source}{'s' * (i // 10)}" for i, source in enumerate(sources)]
            targets = [f"{target}{'t' * (i // 10)}" for i, target in enumerate(targets)]
        assert find_shift(sources, targets) is None


def test_untranslated_and_repeated_pairs_are_noticed(tmp_path: Path) -> None:
    text_files(tmp_path / "train", [*PAIRS, ("Same", "same"), PAIRS[0]])
    data = load_pairs(train=str(tmp_path / "train"), dev_share=0, test_share=0, **SIDES)
    said = {check["name"]: check for check in data.checks if check["state"] == "warn"}
    assert said["copies"]["rows"] == [41]
    assert said["duplicates"]["rows"] == [42]
    once = load_pairs(train=str(tmp_path / "train"), dev_share=0, test_share=0, deduplicate=True, **SIDES)
    assert once.splits["train"].rows == list(range(1, 42))


def test_pairs_survive_the_disk(plain: Aligned) -> None:
    assert Aligned.unpacked(json.loads(json.dumps(plain.packed()))) == plain
