"""Files as they come: each with what must be read from it, or what must be said about it."""

import gzip
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow
import pyarrow.parquet


@dataclass
class Case:
    name: str
    file: str
    content: bytes
    labels: list[str] | None = None
    """Expected, when it loads."""
    texts: list[str] | None = None
    scores: list[float] | None = None
    note: str = ""
    """A pattern that one note must match."""
    error: str = ""
    """A pattern that the one sentence must match."""
    ask: dict[str, Any] = field(default_factory=lambda: {"text": "text", "label": "label"})


def parquet(columns: dict[str, Any]) -> bytes:
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), sink)
    return sink.getvalue()


def jsonl(*rows: Any) -> bytes:
    return "".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows).encode()


def nan_rows(form: Callable[[str], str]) -> bytes:
    return ("text,label\n" + "".join(f"t{i},{form(str(i))}\n" for i in range(30))).encode()


GOOD = "text,label\ngood,pos\nbad,neg\n"
TWO: dict[str, Any] = {"labels": ["pos", "neg"], "texts": ["good", "bad"]}
PARQUET = parquet({"text": ["good", "bad"], "label": ["pos", "neg"]})
TWELVE = [{"text": f"t{i}", "label": i % 2} for i in range(12)]
ONES_AND_ZEROS = {"labels": [str(i % 2) for i in range(12)], "texts": [f"t{i}" for i in range(12)]}

ENCODINGS = [
    Case("plain", "a.csv", GOOD.encode(), **TWO),
    Case("utf-8 with a mark", "a.csv", b"\xef\xbb\xbf" + GOOD.encode(), **TWO),
    Case("crlf", "a.csv", GOOD.replace("\n", "\r\n").encode(), **TWO),
    Case("cr alone", "a.csv", GOOD.replace("\n", "\r").encode(), **TWO),
    Case("no last line end", "a.csv", GOOD.encode().rstrip(), **TWO),
    Case("blank lines", "a.csv", GOOD.replace("\n", "\n\n").encode(), **TWO),
    Case("utf-16 with its mark", "a.csv", GOOD.encode("utf-16"), note="UTF-16", **TWO),
    Case("utf-16 big endian", "a.tsv", b"\xfe\xff" + GOOD.replace(",", "\t").encode("utf-16-be"), note="UTF-16", **TWO),
    Case(
        "utf-16 without its mark", "a.csv", GOOD.encode("utf-16-le"), error="line 1, has a NUL byte.*save it as UTF-8"
    ),
    Case("utf-16 cut", "a.csv", GOOD.encode("utf-16")[:-1], error="about line .* UTF-16 .* save it as UTF-8"),
    Case("utf-32", "a.csv", GOOD.encode("utf-32"), error="is UTF-32; save it as UTF-8"),
    Case(
        "latin-1",
        "a.csv",
        "text,label\ngood,pos\ncafé,neg\n".encode("latin-1"),
        error=r"line 3, is not UTF-8 \(byte 0xE9, which Windows-1252 reads as 'é'\); .*"
        r"iconv -f WINDOWS-1252 -t UTF-8 /.*/a\.csv",
    ),
    Case("a byte of no encoding", "a.csv", b"text,label\ngood\x81,pos\n", error="line 2, is not UTF-8 .*save the file"),
    Case("nul", "a.csv", b"text,label\ngood,pos\nb\0d,neg\n", error="line 3, has a NUL byte"),
    Case("binary", "a.csv", bytes(range(256)) * 40, error=r"line \d+, (is not UTF-8|has a NUL)"),
    Case("gzip", "a.csv.gz", gzip.compress(GOOD.encode()), **TWO),
    Case("gzip cut", "a.csv.gz", gzip.compress(GOOD.encode() * 99)[:-20], error="not whole gzip data.*again"),
    Case("gzip by name alone", "a.csv.gz", GOOD.encode(), error="not whole gzip data"),
    Case("csv by name, gzip in truth", "a.csv", gzip.compress(GOOD.encode()), **TWO),
    Case("empty", "a.csv", b"", error="is empty; it needs rows"),
    Case("gzipped nothing", "a.csv.gz", gzip.compress(b""), error="no column names"),
    Case("only a mark", "a.csv", b"\xef\xbb\xbf", error="no column names"),
    Case("only blanks", "a.csv", b" \n\n  \n", error="no column names"),
    Case("header alone", "a.csv", b"text,label\n", error="column names but no rows"),
    Case(
        "rare letters",
        "a.csv",
        "text,label\n\u2028 a\x85,p\n🙂,n\n".encode(),
        labels=["p", "n"],
        texts=["\u2028 a\x85", "🙂"],
    ),
]

SHAPES = [
    Case(
        "excel's first line",
        "a.csv",
        b"sep=;\ntext;label\na;pos\n",
        error="line 1, is Excel's 'sep=', .*remove the line",
    ),
    Case("semicolons", "a.csv", b"text;label\na, b;pos\nc;neg\n", labels=["pos", "neg"], texts=["a, b", "c"]),
    Case("tabs in a csv", "a.csv", GOOD.replace(",", "\t").encode(), **TWO),
    Case("a tab in a cell", "a.csv", b"text,label\na\tb,pos\nc,neg\n", labels=["pos", "neg"], texts=["a\tb", "c"]),
    Case(
        "quotes, commas and lines in cells",
        "a.csv",
        b'text,label\n"a, ""b""\r\nc",pos\nd,neg\n',
        labels=["pos", "neg"],
        texts=['a, "b"\r\nc', "d"],
    ),
    Case(
        "a lone carriage return", "a.csv", b"text,label\na\rb,pos\nc,neg\n", error="line 2: a carriage return .*quote"
    ),
    Case("the same in a tsv", "a.tsv", b"text\tlabel\na\rb\tp\nc\tn\n", labels=["p", "n"], texts=["a\rb", "c"]),
    Case("inches", "a.csv", b'text,label\n5" screen,pos\nd,neg\n', labels=["pos", "neg"], texts=['5" screen', "d"]),
    Case(
        "quote never closed",
        "a.csv",
        b'text,label\na,pos\n"b,neg\nc,pos\n',
        error="line 3: a quote opens .* never closed",
    ),
    Case(
        "quote closed by another's opening",
        "a.csv",
        b'text,label\n"b,neg\nc,pos\n"d, e",neg\n',
        error='line 4: text follows a closing quote.*"".*opens in line 2',
    ),
    Case("text after a quote", "a.csv", b'text,label\n"a" b,pos\n', error="line 2: text follows a closing quote"),
    Case(
        "too many cells",
        "a.csv",
        b"text,label\na,pos\nb,c,neg\n",
        error="line 3, has 3 cells where the header has 2; quote",
    ),
    Case("too few cells", "a.csv", b"text,label\na\nb,neg\n", error="line 2, has 1 cell where the header has 2; add"),
    Case("ragged after a long record", "a.csv", b'text,label\n"a\nb\nc",pos\nd\n', error="line 5, has 1 cell"),
    Case("ragged tsv", "a.tsv", b"text\tlabel\na\tpos\nb\n", error="line 3, has 1 cell where the header has 2"),
    Case(
        "two columns of a name",
        "a.csv",
        b"text,label,text\na,pos,b\n",
        error="line 1, names two columns 'text'; rename",
    ),
    Case("nameless columns", "a.csv", b",text,label,\n0,good,pos,\n1,bad,neg,\n", **TWO),
    Case("blanks around names", "a.csv", b" text , label\ngood,pos\nbad,neg\n", **TWO),
    Case(
        "a cell of 2 MB",
        "a.csv",
        b"text,label\n" + b"x" * 2**21 + b",pos\nb,neg\n",
        labels=["pos", "neg"],
        texts=["x" * 2**21, "b"],
    ),
    Case("a line of 65 MB", "a.jsonl", b" " * (65 * 2**20), error="line 1, is longer than 64 MB"),
    Case(
        "quotation marks in a tsv",
        "a.tsv",
        b'text\tlabel\n"He" said\tpos\nan "odd\tneg\n',
        labels=["pos", "neg"],
        texts=['"He" said', 'an "odd'],
    ),
    Case(
        "a quotation in a tsv",
        "a.tsv",
        b'text\tlabel\n"Yes."\tpos\nNo.\tneg\n',
        labels=["pos", "neg"],
        texts=['"Yes."', "No."],
    ),
    Case(
        "real quoting in a tsv",
        "a.tsv",
        b'text\tlabel\n"a\t""b"""\tpos\nc\tneg\n',
        labels=["pos", "neg"],
        texts=['a\t"b"', "c"],
    ),
    Case(
        "a quoted column in a tsv",
        "a.tsv",
        b'"text"\t"label"\n"a"\t"pos"\n"c"\t"neg"\n',
        labels=["pos", "neg"],
        texts=["a", "c"],
    ),
    Case("unknown name", "a.data", GOOD.encode(), error="does not say its format; .*\\.csv"),
    Case("no suffix", "reviews", GOOD.encode(), error="does not say its format"),
    Case("spreadsheet", "a.xlsx", b"PK\3\4", error="is a spreadsheet; save it as CSV"),
    Case("plain text", "a.txt", b"It is good.\nIt is bad.\n", error="is plain text .*column names"),
    Case("txt with tabs", "a.txt", GOOD.replace(",", "\t").encode(), **TWO),
]

COLUMNS = [
    Case(
        "column misspelt",
        "a.csv",
        GOOD.encode(),
        error="no column 'Txt'; did you mean 'text'",
        ask={"text": "Txt", "label": "label"},
    ),
    Case(
        "label misspelt",
        "a.csv",
        GOOD.encode(),
        error="no column 'lable'; did you mean 'label'",
        ask={"text": "text", "label": "lable"},
    ),
    Case(
        "pair not there",
        "a.csv",
        GOOD.encode(),
        error="no column 'other'; it has 'text', 'label'",
        ask={"text": "text", "pair": "other", "label": "label"},
    ),
    Case(
        "no header",
        "a.csv",
        b"good,pos\nbad,neg\n",
        error="no column 'text'; it has 'good', 'pos' .the first line must name",
    ),
    Case(
        "columns guessed",
        "a.csv",
        b"id,review,stars\n7,good,pos\n8,bad,neg\n",
        note="text 'review', label 'stars'",
        ask={},
        **TWO,
    ),
    Case("columns in doubt", "a.csv", b"review,comment,label\na,b,pos\n", error="which column holds the text", ask={}),
    Case("label in doubt", "a.csv", b"text,x,y\na,b,pos\n", error="which column holds the labels", ask={}),
    Case("texts all empty", "a.csv", b"text,label\n,pos\n ,neg\n", error="every 'text' is empty"),
    Case(
        "some texts empty",
        "a.csv",
        b"text,label\n,pos\nb,neg\n",
        labels=["pos", "neg"],
        texts=["", "b"],
        note="1 text is empty .row 1",
    ),
]

LABELS = [
    Case("blanks around labels", "a.csv", b"text,label\ngood, pos \nbad,neg\n", **TWO),
    Case(
        "one class", "a.csv", b"text,label\na,pos\nb,pos\n", error="every label is 'pos', so there is nothing to learn"
    ),
    Case("no labels", "a.csv", b"text,label\na,\nb, \n", error="no row has a label"),
    Case(
        "some labels missing",
        "a.csv",
        b"text,label\ngood,pos\nx,\nbad,neg\n",
        note="1 row has no label and is left out .row 2",
        **TWO,
    ),
    Case(
        "1 beside 1.0",
        "a.csv",
        b"text,label\na,1\nb,0\nc,1.0\n",
        error=r"line 4: the label '1.0' is the same number as '1' \(.*line 2\)",
    ),
    Case("01 beside 1", "a.csv", b"text,label\na,1\nb,0\nc,01\n", error="'01' is the same number as '1'"),
    Case("all with a point", "a.csv", b"text,label\na,1.0\nb,0.0\n", labels=["1", "0"], note="read without it"),
    Case(
        "whole numbers",
        "a.csv",
        b"text,label\na,1\nb,-1\n",
        labels=["1", "-1"],
        note="2 different whole numbers: taken as classes",
    ),
    Case(
        "many whole numbers",
        "a.csv",
        nan_rows(str),
        scores=[float(i) for i in range(30)],
        note="30 different whole numbers: taken as scores",
    ),
    Case("fractions", "a.csv", b"text,label\na,1\nb,2.5\n", scores=[1.0, 2.5], note="fractions: taken as scores"),
    Case("nan among scores", "a.csv", b"text,label\na,1.5\nb,nan\n", error="line 3: the score is nan.*finite"),
    Case("inf among scores", "a.csv", b"text,label\na,-inf\nb,1.5\n", error="line 2: the score is -inf"),
    Case("nan among classes", "a.csv", b"text,label\na,1\nb,0\nc,nan\n", error="line 4: the label is nan"),
    Case("a word among scores", "a.csv", b"text,label\na,1.5\nb,2.5\nc,many\n", error="line 4: 'many' is not a number"),
    Case(
        "decimal commas",
        "a.csv",
        b"text;label\na;1,5\nb;2,0\n",
        error="line 2: the label '1,5' has a decimal comma; .*point",
    ),
    Case(
        "several in one cell",
        "a.csv",
        b"text,label\na,x|y\nb,x\nc,y\n",
        error="line 2: the label 'x.y' looks like several labels",
    ),
    Case("a bar in a name", "a.csv", b"text,label\na,either|or\nb,x\nc,x\n", labels=["either|or", "x", "x"]),
    Case(
        "free text as label",
        "a.csv",
        nan_rows(lambda i: f"word {i}"),
        error="30 different values in 30 rows.*another column",
    ),
    Case("case differs", "a.csv", b"text,label\na,Pos\nb,pos\n", labels=["Pos", "pos"], note="differ only in case"),
    Case(
        "missing by name",
        "a.csv",
        b"text,label\na,NaN\nb,pos\n",
        labels=["NaN", "pos"],
        note="'NaN' .1 row. looks like a missing value",
    ),
    Case(
        "a kind unheard of",
        "a.csv",
        GOOD.encode(),
        error="kind = 'words' is not known",
        ask={"text": "text", "label": "label", "kind": "words"},
    ),
    Case(
        "words as scores",
        "a.csv",
        GOOD.encode(),
        error="line 2: 'pos' is not a number",
        ask={"text": "text", "label": "label", "kind": "score"},
    ),
    Case("one score", "a.csv", b"text,label\na,2.5\nb,2.5\n", error="every score is 2.5"),
]

TYPED = [
    Case("jsonl", "a.jsonl", jsonl(*TWELVE), note="2 different whole numbers", **ONES_AND_ZEROS),
    Case("jsonl gzipped", "a.jsonl.gz", gzip.compress(jsonl(*TWELVE)), **ONES_AND_ZEROS),
    Case(
        "jsonl with a broken line",
        "a.jsonl",
        jsonl(*TWELVE, '{"text": "x", \n'),
        note="1 row cannot be read and is left out .line 13; .*is not JSON",
        **ONES_AND_ZEROS,
    ),
    Case(
        "jsonl with a list for a row",
        "a.jsonl",
        jsonl(*TWELVE, "[1, 2]\n"),
        note="line 13; .*holds a JSON list",
        **ONES_AND_ZEROS,
    ),
    Case(
        "jsonl with a key missing",
        "a.jsonl",
        jsonl(*TWELVE, {"label": 1}),
        note="line 13; .*has no 'text'",
        **ONES_AND_ZEROS,
    ),
    Case(
        "jsonl with an object as text",
        "a.jsonl",
        jsonl(*TWELVE, {"text": {"en": "x"}, "label": 1}),
        note="line 13; .*has a dict as 'text'",
        **ONES_AND_ZEROS,
    ),
    Case(
        "jsonl too broken",
        "a.jsonl",
        jsonl(*TWELVE, "{\n", "nonsense\n"),
        error="2 of 14 rows cannot be read .the first: line 13",
    ),
    Case("jsonl without objects", "a.jsonl", b"1\n2\n", error="line 1, holds a JSON int, not an object"),
    Case("jsonl all broken", "a.jsonl", b"{\n{\n", error="line 1, is not JSON"),
    Case("json list", "a.json", b'[{"text": "a", "label": 1}]', error="one JSON list.*jq"),
    Case(
        "jsonl without the key",
        "a.jsonl",
        jsonl({"txt": "a", "label": 1}),
        error="no column 'text'; did you mean 'txt'",
    ),
    Case(
        "jsonl, several labels",
        "a.jsonl",
        jsonl(*TWELVE, {"text": "x", "label": ["a", "b"]}),
        error="line 13: 'label' is a list; several labels",
    ),
    Case(
        "jsonl, an object as label",
        "a.jsonl",
        jsonl(*TWELVE, {"text": "x", "label": {}}),
        note="line 13; .*has a dict as 'label'",
        **ONES_AND_ZEROS,
    ),
    Case(
        "jsonl, true and false",
        "a.jsonl",
        jsonl({"text": "a", "label": True}, {"text": "b", "label": False}),
        labels=["true", "false"],
    ),
    Case(
        "jsonl, 1 and 1.0",
        "a.jsonl",
        jsonl({"text": "a", "label": 1}, {"text": "b", "label": 0}, {"text": "c", "label": 1.0}),
        error="'1.0' is the same number as '1'",
    ),
    Case(
        "jsonl, NaN",
        "a.jsonl",
        jsonl({"text": "a", "label": 1.5}, {"text": "b", "label": float("nan")}),
        error="line 2: the score is nan",
    ),
    Case(
        "jsonl nested beyond reason",
        "a.jsonl",
        jsonl(*TWELVE, "[" * 100_000 + "\n"),
        note="line 13; the first is (JSON that is nested too deeply|not JSON)",
        **ONES_AND_ZEROS,
    ),
    Case(
        "jsonl, a surrogate alone",
        "a.jsonl",
        b'{"text": "a\\ud800", "label": "p"}\n{"text": "b", "label": "n"}\n',
        labels=["p", "n"],
    ),
    Case("parquet", "a.parquet", PARQUET, **TWO),
    Case("parquet cut", "a.parquet", PARQUET[:-30], error="cannot be read as Parquet .*again"),
    Case("parquet by name alone", "a.parquet", GOOD.encode(), error="cannot be read as Parquet"),
    Case("parquet gzipped", "a.parquet.gz", gzip.compress(PARQUET), error="Parquet compresses itself"),
    Case(
        "parquet with a hole", "a.parquet", PARQUET[:4] + b"\xff" * 40 + PARQUET[44:], error="cannot be read as Parquet"
    ),
    Case(
        "parquet, floats for classes",
        "a.parquet",
        parquet({"text": ["a", "b"], "label": [1.0, 0.0]}),
        labels=["1", "0"],
    ),
    Case(
        "parquet, lists", "a.parquet", parquet({"text": ["a"], "label": [["x", "y"]]}), error="row 1: 'label' is a list"
    ),
    Case(
        "parquet, text missing",
        "a.parquet",
        parquet({"text": [*"abcdefghijk", None], "label": [i % 2 for i in range(12)]}),
        note="row 12; .*has no 'text'",
    ),
]

CASES = [*ENCODINGS, *SHAPES, *COLUMNS, *LABELS, *TYPED]
