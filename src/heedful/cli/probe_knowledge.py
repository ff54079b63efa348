"""`heedful probe knowledge`: what a language model knows, and when it should abstain."""

import shutil
import sys
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from heedful.cli.show import without_controls
from heedful.probes.knowledge import PRECISION


def knowledge(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL…", help="Language models (directory, name or hub id), runs, or studies."),
    ],
    questions: Annotated[
        str | None,
        typer.Option(metavar="FILE|NAME", help="Questions and answers in two columns; default: those of the recipe."),
    ] = None,
    train: Annotated[
        str | None,
        typer.Option(metavar="FILE|NAME", help="Training questions; default: those of the recipe."),
    ] = None,
    text: Annotated[
        str, typer.Option(metavar="FILE,…", help="Pretraining text with a line per name; default: that of the recipe.")
    ] = "",
    precision: Annotated[
        float, typer.Option(help="Wanted share of correct answers, for the abstention threshold.")
    ] = PRECISION,
    out: Annotated[
        Path | None, typer.Option(help="Where to write results; default: runs/knowledge-NAME, NAME-2, …")
    ] = None,
) -> None:
    """Measure which answers are correct, hallucinated or confused, and when the model should abstain."""
    from heedful.probes.knowledge.run import free_place, probe_knowledge

    texts = [name.strip() for name in text.split(",") if name.strip()]
    place = out or free_place(models, questions, train, texts, precision)
    facts = probe_knowledge(
        models,
        questions,
        train=train,
        text=texts,
        precision=precision,
        out=place,
        say=lambda line: print(line, file=sys.stderr),
    )
    _print(facts)
    print(f"\n{place / 'report.html'}")


def _print(facts: dict[str, Any]) -> None:
    """Print the verdict on each model and the comparisons."""
    from heedful.probes.wording import models

    width = min(max(shutil.get_terminal_size().columns, 40), 120)
    for name, found in facts["subjects"].items():
        answered = models(found)
        print(f"\n{name} on {facts['questions']['name']}{f' ({answered})' if answered else ''}")
        for what, sentence in found["verdict"]:
            line = without_controls(f"{what}: {sentence}")
            print(textwrap.fill(line, width, initial_indent="  ", subsequent_indent="    "))
    if facts["comparisons"]:
        print()
    for row in facts["comparisons"]:
        print(textwrap.fill(row["sentence"], width, initial_indent="  ", subsequent_indent="    "))
