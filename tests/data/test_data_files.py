"""What others write, we read back to the letter; and reading needs neither torch nor pyarrow."""

import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from heedful.data.files import open_table, read_rows
from heedful.data.rules import separator_of

letters = st.text(st.sampled_from("ab \"',;\t|\n\réñ漢🙂\u2028\x85\ufeff"), max_size=12)
tables = st.lists(st.tuples(letters, letters, st.sampled_from(["x", "y "])), min_size=1, max_size=8)


def check(path: Path, rows: list[tuple[str, str, str]]) -> None:
    assert open_table(path).columns == ("first", "second", "kind")
    found = [(row.number, row.text, row.pair, row.label) for row in read_rows(path, "first", "second", "kind")]
    assert found == [(i, a, b, c.strip()) for i, (a, b, c) in enumerate(rows, 1)]


@settings(max_examples=150)
@given(
    tables,
    st.sampled_from(",;\t"),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_csv_as_a_writer_writes_it(rows: list[tuple[str, str, str]], separator: str, end: str, quoting: int) -> None:
    for cell in (cell for row in rows for cell in row):  # looks like rows that an open quote has swallowed
        assume(cell.count(separator) < 2 or "\n" not in cell)
    if end == "\n":  # then Python's writer leaves a lone carriage return unquoted, which its reader refuses
        rows = [(a.replace("\r", ""), b.replace("\r", ""), c) for a, b, c in rows]
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("csv", "tsv") if separator == "\t" else ("csv",):
            path = Path(folder) / f"a.{suffix}"
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, delimiter=separator, lineterminator=end, quoting=quoting)  # type: ignore[arg-type]
                writer.writerow(["first", "second", "kind"])
                writer.writerows(rows)
            check(path, rows)


@settings(max_examples=100)
@given(tables)
def test_tsv_without_quoting(rows: list[tuple[str, str, str]]) -> None:
    """One bare quotation mark in the file, and all are letters; this is how GLUE writes."""
    plain = [tuple(cell.translate({9: 32, 10: 32}) for cell in row) for row in rows]
    plain.append(('a "bare mark', '"Whole."', "x"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.tsv"
        lines = ["\t".join(row) for row in [("first", "second", "kind"), *plain]]
        path.write_bytes("".join(line + "\n" for line in lines).encode())
        assert not open_table(path).rule.quoted
        check(path, plain)  # type: ignore[arg-type]


@settings(max_examples=100)
@given(tables, st.booleans())
def test_json_lines(rows: list[tuple[str, str, str]], ascii_only: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        objects = [dict(zip(("first", "second", "kind"), row, strict=True)) for row in rows]
        path.write_text("".join(json.dumps(o, ensure_ascii=ascii_only) + "\n" for o in objects), encoding="utf-8")
        check(path, rows)


@pytest.mark.parametrize(
    ("header", "separator"),
    [
        ("a,b", ","),
        ("a;b", ";"),
        ("a\tb", "\t"),
        ("text", ","),
        ('"a, b";c', ";"),
        ("a,b;c,d", ","),
        ('"unclosed', ","),
    ],
)
def test_the_header_decides_the_separator(tmp_path: Path, header: str, separator: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(header + "\n1;2;3;4\n")
    assert separator_of(path) == separator


def test_the_room_is_light() -> None:
    heavy = "{'torch', 'pyarrow', 'huggingface_hub'}"
    code = f"import sys, heedful.data.examples, heedful.data.look; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
