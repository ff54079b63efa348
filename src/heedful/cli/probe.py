"""`heedful probe`: tests of a trained model."""

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
    help="Test a trained model for bias, factual knowledge, and attention patterns.",
    short_help="Test for bias, knowledge and attention",
    rich_markup_mode=None,
)


app.command("attention")(probe_attention.attention)
app.command("knowledge")(probe_knowledge.knowledge)


@app.command()
def bias(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL…", help="Models (directory, name or hub id), runs, or studies."),
    ] = None,
    pairs: Annotated[
        str, typer.Option(metavar="NAME|FILE,…", help="Sets of pairs from --list, or your own files.")
    ] = "generated",
    label: Annotated[
        str | None,
        typer.Option(help="Class whose probability is compared. Default: one of two classes, or every class."),
    ] = None,
    columns: Annotated[
        str, typer.Option(metavar="A,B", help="For a file of pairs: its two text columns. [default: a,b]")
    ] = "",
    factors: Annotated[
        str,
        typer.Option(
            metavar="COL,…",
            help="For a file of pairs: columns whose equal values belong together (template, …), for the intervals.",
        ),
    ] = "",
    by: Annotated[
        str, typer.Option(metavar="COL,…", help="For a file of pairs: columns to break results down by.")
    ] = "",
    groups: Annotated[
        str, typer.Option(metavar="A,B", help="For a file of pairs: names of the two groups, for example men,women.")
    ] = "",
    swap: Annotated[
        bool, typer.Option("--swap", help="The file holds single texts: swap their words for men and women.")
    ] = False,
    text: Annotated[str | None, typer.Option(help="With --swap: column with the text.")] = None,
    pair: Annotated[str | None, typer.Option(help="With --swap: column with the second text of a pair.")] = None,
    header: Header = None,
    of: Annotated[
        Literal["texts", "pairs"] | None,
        typer.Option(help="Single texts or pairs; only for a model that does not record it."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write results; default: runs/bias-NAME, NAME-2, …")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the sets of pairs and exit.")] = False,
) -> None:
    """Measure how predictions change when a text mentions a different group (for example, men → women)."""
    if listed:
        _list()
        return
    if not models:
        raise RequestError("name a model, a run or a study to probe. See `heedful probe bias --help`.")
    from heedful.probes.bias.finding import Reading
    from heedful.probes.bias.run import free_place, probe_bias

    reading = Reading(_names(columns), _names(factors), _names(by), _names(groups), swap, text, pair, header)
    if not _names(pairs):
        raise RequestError("--pairs is empty. Run `heedful probe bias --list` for the available sets.")
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
    print("\nAll but the first two are read from the folder HEEDFUL_DATA.")
    print("Or your own files: pairs, or texts with --swap (CSV, TSV, JSONL, Parquet);")
    print("templates (.toml); items in StereoSet's format (.json).")


def _print(facts: dict[str, Any]) -> None:
    """Print the verdict of each model on each set, and the significant comparisons."""
    from heedful.probes.wording import models, shown

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
