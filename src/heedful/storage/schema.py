"""The JSON schemas of the records on disk, and the page of the docs about them.

`python -m heedful.storage.schema` prints the page (docs/records.md), and with the name of a file the schema of that.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

from heedful.storage.record import Record
from heedful.storage.run_record import LogLine, Manifest, Metrics
from heedful.storage.statistics_record import Statistics
from heedful.storage.study_record import StudyRecord

FILES: dict[str, type[Record]] = {
    "manifest.json": Manifest,
    "metrics.json": Metrics,
    "log.jsonl": LogLine,
    "study.json": StudyRecord,
    "statistics.json": Statistics,
}
"""Each file of a run or a study, and the record that it holds; log.jsonl holds one in each line."""
_INTRODUCTION = """# What is on disk

<!-- Generated: python -m heedful.storage.schema > docs/records.md -->

A run is a directory with `manifest.json`, `metrics.json` and `log.jsonl`; a study has `study.json`, `statistics.json`
and its runs in `runs/`. These are their keys. `python -m heedful.storage.schema manifest.json` prints the JSON schema
of a file.

Any key can be missing: files of earlier versions have fewer. A missing key, or one whose value has a different type,
has its default. Keys that are not listed are kept: metrics, evaluation sets, and what objectives and evaluations add.
`format` is the version of a file; runs and studies with an unknown version are refused, such statistics are left out.

`predictions/SET.tsv` and `values/SET.tsv` are tables with tabs and a header. Their first column is `row`, the number of
the example in its file. Predictions of classes have `label` and a column `p:CLASS` for each class, predictions of
numbers have `score`. Values have a column for each quantity that the metrics are computed from.
"""


def page() -> str:
    """Return the page of the docs: a table of keys for each file, and for each record in it."""
    lines, seen = [_INTRODUCTION], set[str]()
    for name, record in FILES.items():
        schema = record.model_json_schema()
        lines += [f"## {name}", "", *_section(schema)]
        for title, part in schema.get("$defs", {}).items():
            if title not in seen:
                lines += [f"### {title}", "", *_section(part)]
                seen.add(title)
    return "\n".join(lines[:-1])


def _section(schema: Mapping[str, Any]) -> list[str]:
    rows = [
        f"| `{key}` | {_type(field)}{_default(field)} | {' '.join(field.get('description', '').split())} |"
        for key, field in schema.get("properties", {}).items()
    ]
    table = ["", "| key | type | |", "|---|---|---|", *rows] if rows else []
    return [" ".join(schema["description"].split()), *table, ""]


def _type(field: Mapping[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in field:
        kinds = [_type(kind) for kind in field["anyOf"] if kind.get("type") != "null"]
        return " or ".join(dict.fromkeys("number" if kind == "integer" and len(kinds) > 1 else kind for kind in kinds))
    if field.get("type") == "array":
        return f"list of {_type(field['items'])}"
    if field.get("type") == "object":
        inner = field.get("additionalProperties")
        return f"mapping to {_type(inner)}" if isinstance(inner, dict) else "mapping"
    return str(field.get("type", "anything"))


def _default(field: Mapping[str, Any]) -> str:
    default = field.get("default")
    return "" if isinstance(default, dict | list) or default in (None, "") else f", default `{json.dumps(default)}`"


if __name__ == "__main__":
    print(page() if len(sys.argv) < 2 else json.dumps(FILES[sys.argv[1]].model_json_schema(), indent=2))
