"""`heedful theory`: list and run the demonstrations."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heedful.errors import RequestError

if TYPE_CHECKING:
    from heedful.theory.demonstration import Check, Demonstration, Shown

WIDTH = 80


def theory(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Demonstrations or chapters to run. Without a name, list them.", metavar="[NAME]..."),
    ] = None,
    draws: Annotated[
        int | None, typer.Option(help="Number of random draws for each check, 1,000 to 20,000.", metavar="N")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Random seed.")] = 0,
    html: Annotated[
        Path | None,
        typer.Option(help="Write the named ones, or all, to one illustrated page.", metavar="FILE"),
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Write all as Markdown: an index, a page per chapter, pictures.", metavar="DIR")
    ] = None,
) -> None:
    """List or run demonstrations of theory: each states a claim, checks it, and shows its limits."""
    from heedful.theory.catalog import demonstrations, find, run
    from heedful.theory.demonstration import DRAWS
    from heedful.theory.pages import check_places, write_markdown, write_page

    if names and markdown is not None:
        raise RequestError("--markdown writes all demonstrations. Remove the names.")
    chosen = find(names) if names else demonstrations()
    check_places(html, markdown)
    asked_to_run = bool(names) or html is not None or markdown is not None
    if not asked_to_run:
        if draws is not None:
            raise RequestError("--draws needs the NAME of a demonstration, --html or --markdown.")
        _print_list(chosen)
        return
    shown = run(chosen, DRAWS if draws is None else draws, seed)
    for demonstration, result in shown if names else ():
        _print_demonstration(demonstration, result)
    wrong = [d.name for d, result in shown if not result.passed]
    if html is not None:
        write_page(shown, html)
        print(html)
    for path in write_markdown(shown, markdown) if markdown is not None else ():
        print(path)
    if wrong:
        print(f"Failed: {', '.join(wrong)}.")
        raise typer.Exit(1)


def _print_list(chosen: "tuple[Demonstration, ...]") -> None:
    from heedful.theory.catalog import chapters

    widest = max(len(d.name) for d in chosen)
    for chapter, members in chapters(chosen).items():
        print(chapter)
        for d in members:
            _print_wrapped(d.title, " " * (widest + 4), f"  {d.name:<{widest}}  ")
    print("Run one: heedful theory NAME. Write all: heedful theory --html FILE.")


def _print_demonstration(d: "Demonstration", result: "Shown") -> None:
    print(f"{d.name}: {d.title}")
    _print_wrapped(d.claim, "  ")
    for check in result.checks:
        _print_check(check)
    print("  Limits")
    for paragraph in d.ends:
        _print_wrapped(paragraph, "  ")
    for check in result.limits:
        _print_check(check)
    if d.published:
        print("  In the literature")
        _print_wrapped(d.published, "  ")
    print()


def _print_check(check: "Check") -> None:
    from heedful.theory.demonstration import measured, outcome

    mark = "ok" if check.passed else "!!"
    _print_wrapped(f"{check.statement} {outcome(check)}: {measured(check, exactly=True)}.", "     ", f"  {mark:<3}")


def _print_wrapped(text: str, indent: str, first: str | None = None) -> None:
    lines = textwrap.wrap(" ".join(text.split()), WIDTH - len(indent), break_long_words=False) or [""]
    for i, line in enumerate(lines):
        print(f"{first if first is not None and i == 0 else indent}{line}")
