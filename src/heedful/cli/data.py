"""`heedful data`: list the named data sets, and look at one of them or at a file."""

import textwrap
from typing import Annotated, Any

import typer

from heedful.cli.data_shard import shard
from heedful.cli.show import Header, print_json

app = typer.Typer(
    help="List the named data sets, look at one or at a file, or tokenise text for pretraining.",
    short_help="Look at data sets and files",
    invoke_without_command=True,
)

app.command("shard")(shard)

_WIDTH = 80
_MOST_LABELS = 20
_USES = {"text": "running text, for data.corpus", "questions": 'questions, for objective.kind = "answer"'}


@app.callback()
def data(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Output JSON.")] = False,
) -> None:
    """List the named data sets: contents, source, and whether they are on this machine."""
    if context.invoked_subcommand is not None:
        return
    from heedful.data.catalog import PAIRS, QUESTIONS
    from heedful.data.corpus.finding import CORPORA
    from heedful.data.named import NAMED, data_folder, first_file, where_from

    folder = data_folder()

    entries = []
    for entry in [*NAMED.values(), *PAIRS.values()]:
        place, present = where_from(entry)
        translations = entry.kind == "translations"
        entries.append(
            {
                "name": entry.name,
                "what": f"{entry.what} (translations)" if translations else entry.what,
                "kind": entry.kind,
                **({"languages": list(entry.languages)} if translations else {"labels": list(entry.labels)}),
                "sizes": dict(entry.sizes),
                "from": place,
                "present": present,
                "licence": entry.licence,
                "contamination": entry.contamination,
            }
        )
    from_folder = [(one.name, one.what, "text", one.file, one.licence) for one in CORPORA.values()]
    from_folder += [(one.name, one.what, "questions", first_file(one), one.licence) for one in QUESTIONS.values()]
    texts = [
        {
            "name": name,
            "what": what,
            "kind": kind,
            "from": str(folder) if folder is not None else "HEEDFUL_DATA",
            "present": folder is not None and (folder / file).is_file(),
            "file": file,
            "licence": licence,
        }
        for name, what, kind, file, licence in from_folder
    ]
    if as_json:
        print_json([*entries, *texts])
        return
    for facts in entries:
        _print_wrapped(f"{facts['name']}: {facts['what']}", "", "    ")
        state = "available" if facts["present"] else "not downloaded"
        _print_wrapped(f"{state} ({facts['from']}); licence: {facts['licence'] or 'not stated'}", "    ", "    ")
        _print_wrapped(f"contamination: {facts['contamination']}", "    ", "    ")
    for facts in texts:
        _print_wrapped(f"{facts['name']}: {facts['what']} ({_USES[str(facts['kind'])]})", "", "    ")
        where = facts["from"] if facts["present"] else f"set HEEDFUL_DATA to a folder with {facts['file']}"
        state = "available" if facts["present"] else "not downloaded"
        _print_wrapped(f"{state} ({where}); licence: {facts['licence'] or 'not stated'}", "    ", "    ")
    print("To look at one: heedful data show NAME or FILE.")


@app.command("show")
def show(
    source: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE",
            help="A named data set, or a CSV, TSV, JSONL or Parquet file. For translations also the common part of the "
            "names of two aligned files.",
        ),
    ],
    text: Annotated[str | None, typer.Option(help="Column with the text.", metavar="COL")] = None,
    label: Annotated[str | None, typer.Option(help="Column with the label or score.", metavar="COL")] = None,
    pair: Annotated[str | None, typer.Option(help="Column with the second text of a pair.", metavar="COL")] = None,
    from_: Annotated[
        str | None, typer.Option("--source", help="For translations: the source column or file ending.", metavar="SIDE")
    ] = None,
    into: Annotated[
        str | None, typer.Option("--target", help="For translations: the target column or file ending.", metavar="SIDE")
    ] = None,
    header: Header = None,
    as_json: Annotated[bool, typer.Option("--json", help="Output JSON.")] = False,
) -> None:
    """Show sizes, label balance, lengths, three examples, and possible problems of a data set.

    Without --text, --label and so on, columns are detected if only one choice fits.
    """
    from heedful.data.look import look_at

    facts = look_at(source, text, pair, label, header, (from_, into))
    if as_json:
        print_json(facts)
        return
    _print_wrapped(f"{facts['name']}: {facts['what']}" if facts["what"] else facts["name"], "", "    ")
    if facts["what"]:
        print(f"from           {facts['from']}")
        print(f"licence        {facts['licence'] or 'not stated'}")
        _print_wrapped(f"contamination  {facts['contamination']}", "", " " * 15)
    used = [f"{role} {name!r}" for role, name in facts["columns"].items() if role != "all" and name is not None]
    if used:
        _print_wrapped(f"columns        {', '.join(used)}", "", " " * 15)
    _print_sizes(facts)
    if facts["kind"] == "classes":
        _print_balance(facts)
    _print_examples(facts)
    print()
    for note in facts["notes"]:
        _print_wrapped(note, "- ", "  ")
    warned = [check for check in facts["checks"] if check["state"] == "warn"]
    for check in warned:
        _print_wrapped(check["sentence"], "! ", "  ")
    passed = len(facts["checks"]) - len(warned)
    print(f"{passed} of {passed + len({check['name'] for check in warned})} checks passed.")


def _print_sizes(facts: dict[str, Any]) -> None:
    points: tuple[str, ...] = ("least", "25%", "median", "75%", "95%", "most", "mean")
    width = max(8, *(len(name) + 1 for name in facts["splits"]))
    print(f"\n{'words':<{width}}{'rows':>9}" + "".join(f"{point:>8}" for point in points))
    for name, split in facts["splits"].items():
        cells = "".join(f"{split['words'].get(point, 0):>8g}" for point in points)
        print(f"{'' if name == 'rows' else name:<{width}}{split['rows']:>9,}{cells}")
        if "target_words" in split:  # of translations; the line above is the source's
            cells = "".join(f"{split['target_words'].get(point, 0):>8g}" for point in points)
            print(f"{'  target':<{width + 9}}{cells}")
    if any(split["scores"] for split in facts["splits"].values()):
        points = tuple(point for point in points if point != "95%")
        print(f"\n{'scores':<17}" + "".join(f"{point:>8}" for point in points))
        for name, split in facts["splits"].items():
            if split["scores"]:
                cells = "".join(f"{split['scores'][point]:>8.4g}" for point in points)
                print(f"{'' if name == 'rows' else name:<17}{cells}")


def _print_balance(facts: dict[str, Any]) -> None:
    shown = {name: split["balance"] for name, split in facts["splits"].items() if split["balance"] is not None}
    print(f"\n{'label':<26}" + "".join(f"{name:>17}" for name in shown))
    for label in facts["labels"][:_MOST_LABELS]:
        cells = "".join(
            f"{balance[label]:>10,} {100 * balance[label] / max(1, sum(balance.values())):>5.0f}%"
            for balance in shown.values()
        )
        print(f"{_clip(label, 25):<26}{cells}")
    more = len(facts["labels"]) - _MOST_LABELS
    if more > 0:
        print(f"… and {more} more labels")


def _print_examples(facts: dict[str, Any]) -> None:
    print()
    for example in facts["examples"]:
        answer = "" if example["label"] is None else f" [{_clip(str(example['label']), 20)}]"
        head = f"row {example['row']}{answer}: "
        print(head + _clip(example["text"], _WIDTH - len(head)))
        if example["pair"] is not None:
            print("    / " + _clip(example["pair"], _WIDTH - 6))


def _clip(text: str, width: int) -> str:
    """Shorten to one line of this width; control characters, which would move the cursor, become dots."""
    flat = " ".join(text[: 4 * width + 100].split())
    flat = "".join(c if c.isprintable() else "·" for c in flat)
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def _print_wrapped(text: str, first: str, rest: str) -> None:
    print(
        textwrap.fill(
            text, _WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
        )
    )
