"""`heedful probe`: questions asked of a trained model."""

import shutil
import sys
import textwrap
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from heedful.cli import probe_attention, probe_knowledge
from heedful.cli.show import Header
from heedful.errors import RequestError

app = typer.Typer(
    help="Ask a trained model: what changes when a text is about others, what it knows, and what it attends to.",
    rich_markup_mode=None,
)


app.command("attention")(probe_attention.attention)
app.command("knowledge")(probe_knowledge.knowledge)


@app.command()
def bias(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL…", help="Models (directory, name or hub id), runs, or studies with all their settings."
        ),
    ] = None,
    pairs: Annotated[
        str, typer.Option(metavar="NAME|FILE,…", help="Sets of pairs that --list names, or files of yours.")
    ] = "generated",
    label: Annotated[
        str | None, typer.Option(help="The class to look at; default: of two, one; of more, each.")
    ] = None,
    columns: Annotated[
        str, typer.Option(metavar="A,B", help="Of a file of pairs: its columns of texts. [default: a,b]")
    ] = "",
    factors: Annotated[
        str, typer.Option(metavar="COL,…", help="Of a file of pairs: what they are a sample of (template, …).")
    ] = "",
    by: Annotated[str, typer.Option(metavar="COL,…", help="Of a file of pairs: break results down by these.")] = "",
    groups: Annotated[str, typer.Option(metavar="A,B", help="Of a file of pairs: of whom a and b speak.")] = "",
    swap: Annotated[
        bool, typer.Option("--swap", help="The file holds texts: swap their words for men and women.")
    ] = False,
    text: Annotated[str | None, typer.Option(help="With --swap: the column with the text.")] = None,
    pair: Annotated[str | None, typer.Option(help="With --swap: the column with the second text.")] = None,
    header: Header = None,
    of: Annotated[
        Literal["texts", "pairs"] | None, typer.Option(help="What the model reads, if it does not say so itself.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Directory of the results; default: runs/bias-NAME, NAME-2, …")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the sets of pairs and stop.")] = False,
) -> None:
    """What changes when a text speaks of another group: flips and mean changes with intervals, and a verdict that says
    no more than these do."""
    if listed:
        _list()
        return
    if not models:
        raise RequestError("name a model, a run or a study to probe; `heedful probe bias --help` says how.")
    from heedful.probes.bias.finding import Reading
    from heedful.probing.bias import free_place, probe_bias

    reading = Reading(_names(columns), _names(factors), _names(by), _names(groups), swap, text, pair, header)
    if not _names(pairs):
        raise RequestError("--pairs names no set; `heedful probe bias --list` lists them.")
    names, of_pairs = _names(pairs), None if of is None else of == "pairs"
    place = out or free_place(models, names, label, of_pairs, reading)
    facts = probe_bias(
        models,
        names,
        label=label,
        of_pairs=of_pairs,
        reading=reading,
        out=place,
        say=lambda line: print(line, file=sys.stderr),
    )
    _print(facts)
    print(f"\n{place / 'report.html'}")


def _names(commas: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in commas.split(",") if name.strip())


def _list() -> None:
    from heedful.probes.bias.public import SETS

    for name, entry in SETS.items():
        print(f"{name}: {entry.what}")
    print("\nAll but the first two are looked for in the folder HEEDFUL_DATA.")
    print("Or files of yours: pairs, or texts with --swap (CSV, TSV, JSONL, Parquet);")
    print("templates (.toml); items in the form of StereoSet (.json).")


def _print(facts: dict[str, Any]) -> None:
    """The verdict of each model on each set; of several, the comparisons that are shown as well."""
    from heedful.probes.bias.wording import models, shown

    width = min(max(shutil.get_terminal_size().columns, 40), 120)
    for one in facts["sets"]:
        for name, found in one["subjects"].items():
            answered = models(found)
            print(f"\n{name} on {one['name']}{f' ({answered})' if answered else ''}")
            for what, sentence in found["verdict"]:
                print(textwrap.fill(f"{what}: {sentence}", width, initial_indent="  ", subsequent_indent="    "))
        differ = [row["sentence"] for row in one["comparisons"] if shown(row)]
        print(f"\n{one['name']}")
        for sentence in [one["reach"], *differ]:
            print(textwrap.fill(sentence, width, initial_indent="  ", subsequent_indent="    "))
