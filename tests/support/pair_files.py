"""Files of translations, in every form in which they come."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow
import pyarrow.parquet

PAIRS = [(f"the {n} cats\u2028 sleep", f"die {n} Katzen\x85 schlafen\x1d alle") for n in range(40)]
"""With characters that Python's own `splitlines` takes for the end of a line."""


def text_files(stem: Path, pairs: Sequence[tuple[str, str]], end: str = "\n", mark: bytes = b"") -> None:
    for side, ending in enumerate(("en", "de")):
        content = mark + "".join(pair[side] + end for pair in pairs).encode()
        stem.with_name(f"{stem.name}.{ending}").write_bytes(content)


def zipped_files(stem: Path, pairs: Sequence[tuple[str, str]]) -> None:
    text_files(stem, pairs)
    for ending in ("en", "de"):
        path = stem.with_name(f"{stem.name}.{ending}")
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()


def tsv(path: Path, pairs: Sequence[tuple[str, str]]) -> None:
    rows = "".join(f"{a}\t{i}\t{b}\n" for i, (a, b) in enumerate(pairs))
    path.write_text(f"en\tnumber\tde\n{rows}", newline="")


def jsonl(path: Path, pairs: Sequence[tuple[str, str]]) -> None:
    path.write_text("".join(json.dumps({"translation": {"en": a, "de": b}}) + "\n" for a, b in pairs))


def parquet(path: Path, pairs: Sequence[tuple[str, str]]) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"translation": [{"en": a, "de": b} for a, b in pairs]}), path)
