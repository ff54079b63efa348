"""What may be wrong is found, counted and said in a sentence with its rows."""

from pathlib import Path

import pytest

from heedful.data.checks import CHECKS, check_splits, label_balance, score_range, word_lengths
from heedful.data.examples import load_dataset
from heedful.data.records import Examples
from heedful.errors import RequestError


def make(*rows: tuple[str, str]) -> Examples:
    return Examples([t for t, _ in rows], None, [a for _, a in rows], None, list(range(1, len(rows) + 1)))


def test_nothing_to_find() -> None:
    assert check_splits({"train": make(("a", "x"), ("b", "y")), "test": make(("c", "x"), ("d", "y"))}) == []


def test_each_finding() -> None:
    train = make(("a", "x"), ("b", "y"), ("a", "x"), ("b", "x"), (" ", "z"))
    test = make(("a", "x"), ("c", "y"), ("c", "y"))
    found = {(f.check, f.split): (f.count, f.rows, f.sentence) for f in check_splits({"train": train, "test": test})}
    assert found == {
        ("empty texts", "train"): (1, [5], "train: 1 text is empty (row 5)."),
        ("duplicates", "train"): (2, [3, 4], "train: 2 rows repeat an earlier text (rows 3, 4)."),
        ("contradictions", "train"): (1, [2, 4], "train: 1 text has different labels in different rows (rows 2, 4)."),
        ("duplicates", "test"): (1, [3], "test: 1 row repeats an earlier text (row 3)."),
        ("leakage", "test"): (1, [1], "test: 1 text of 3 also appears in train (row 1)."),
        ("labels in one set", "train"): (1, [], "The label 'z' occurs only in train (1 row)."),
    }


def test_pairs_are_the_same_only_if_both_sides_are() -> None:
    train = Examples(["a", "a"], ["b", "c"], ["x", "y"], None, [1, 2])
    test = Examples(["a", "b"], ["c", "a"], ["x", "y"], None, [1, 2])
    assert [(f.check, f.rows) for f in check_splits({"train": train, "test": test})] == [("leakage", [1])]


def test_balance_lengths_and_scores() -> None:
    lopsided = make(*[(f"t{i}", "x") for i in range(19)], ("u v w", "y"))
    (finding,) = check_splits({"train": lopsided})
    assert finding.sentence == "train: 95.0% of the labels are 'x', so accuracy says little."
    assert label_balance(lopsided, ("y", "x", "z")) == {"y": 1, "x": 19, "z": 0}
    assert word_lengths(lopsided)["most"] == 3
    assert word_lengths(lopsided)["median"] == 1
    assert word_lengths(lopsided.take([])) == {}
    assert score_range(Examples(["a", "b"], None, None, [1.0, 3.0], [1, 2]))["mean"] == 2


def csv(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    return path


TRAIN = [(f"t{i}", "yes" if i % 2 else "no") for i in range(100)]


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        (["-1"] * 5, "its labels are all '-1', which no row of train has"),
        (["unknown"] * 5, "its labels are all 'unknown', which no row of train has"),
        ([""] * 5, "it has no labels"),
        (["no"] * 400, ""),  # one class of train's: real labels, however unlikely
        (["no", "yes"], ""),
    ],
)
def test_hidden_labels_of_a_test_file(tmp_path: Path, labels: list[str], reason: str) -> None:
    train = csv(tmp_path / "train.csv", TRAIN)
    test = csv(tmp_path / "test.csv", [(f"u{i}", label) for i, label in enumerate(labels)])
    dataset = load_dataset(train=train, test=test, text="text", label="label")
    assert dataset.test is not None
    assert len(dataset.test) == len(labels)
    assert dataset.hidden == (("test",) if reason else ())
    assert (dataset.test.labels is None) == bool(reason)
    assert dataset.labels == ("no", "yes")
    (check,) = [check for check in dataset.checks if check["name"] == "hidden labels"]
    assert check["state"] == ("warn" if reason else "pass")
    assert not reason or check["sentence"].startswith(f"test: {reason}, so its labels count as hidden")


def test_scores_that_are_all_alike_are_hidden(tmp_path: Path) -> None:
    train = csv(tmp_path / "train.csv", [(f"t{i}", str(i % 6 / 2)) for i in range(60)])
    test = csv(tmp_path / "test.csv", [(f"u{i}", "0.0") for i in range(12)])
    assert load_dataset(train=train, test=test, text="text", label="label").hidden == ("test",)


def test_a_test_file_without_the_column_is_hidden_and_a_dev_file_may_not_be(tmp_path: Path) -> None:
    train = csv(tmp_path / "train.csv", TRAIN)
    bare = tmp_path / "bare.csv"
    bare.write_text("text,id\na,1\nb,2\n")
    assert load_dataset(train=train, test=bare, text="text", label="label").hidden == ("test",)
    remedy = r"if it is a row, say --no-header, or header = false in \[data\]"
    with pytest.raises(RequestError, match=rf"bare\.csv has no column 'label'; .*{remedy}"):
        load_dataset(train=train, dev=bare, text="text", label="label")
    blank = csv(tmp_path / "blank.csv", [("a", ""), ("b", "")])
    with pytest.raises(RequestError, match="it cannot be used for choosing, since it has no labels; remove it"):
        load_dataset(train=train, dev=blank, text="text", label="label")


def test_minus_one_is_a_class_where_train_has_it(tmp_path: Path) -> None:
    train = csv(tmp_path / "train.csv", [(f"t{i}", str(i % 3 - 1)) for i in range(60)])
    test = csv(tmp_path / "test.csv", [("u", "-1")])
    dataset = load_dataset(train=train, test=test, text="text", label="label")
    assert dataset.hidden == ()
    assert dataset.labels == ("-1", "0", "1")


def test_two_spellings_across_files_are_refused(tmp_path: Path) -> None:
    train = csv(tmp_path / "train.csv", [(f"t{i}", str(i % 2)) for i in range(60)])
    test = csv(tmp_path / "test.csv", [("u", "1.0"), ("v", "0.0")])
    with pytest.raises(
        RequestError, match=r"test\.csv, line 2: the label '1\.0' is the same number as '1' \(.*train\.csv, line 3\)"
    ):
        load_dataset(train=train, test=test, text="text", label="label")


def test_leakage_is_among_the_checks(tmp_path: Path) -> None:
    train = csv(tmp_path / "train.csv", TRAIN)
    test = csv(tmp_path / "test.csv", [("t4", "no"), ("t5", "yes"), ("new", "no")])
    checks = load_dataset(train=train, test=test, text="text", label="label", dev_share=0).checks
    found = [check for check in checks if check["state"] == "warn"]
    sentence = "test: 2 texts of 3 also appear in train (rows 1, 2)."
    assert found == [{"name": "leakage", "state": "warn", "sentence": sentence, "count": 2, "rows": [1, 2]}]
    passed = {check["name"]: check["sentence"] for check in checks if check["state"] == "pass"}
    assert set(passed) == set(CHECKS) - {"leakage"}
    assert passed["duplicates"] == "No text occurs twice in a set."
