"""`heedful translate`: a translation for each line, in their order."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from heedful.cli.given import only_given, refuse_idle
from heedful.cli.outputs import open_result, refuse_input
from heedful.cli.show import without_controls
from heedful.decoding.settings import Stopping
from heedful.errors import RequestError
from heedful.storage.lines import STANDARD_INPUT, Lines, windows_of_file, windows_of_pipe

if TYPE_CHECKING:
    from heedful.inference.translation.engine import Translation
    from heedful.inference.translation.line_translator import LineTranslator

_WINDOW = 1024
"""Lines that are translated together, so that memory does not grow with the file."""


def translate(
    model: Annotated[str, typer.Argument(help="A translator: a model directory, or a hub id.")],
    file: Annotated[
        Path | None,
        typer.Argument(help="Texts, one a line; may be gzipped. Default, or -: the standard input."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write to this file, which appears when it is whole.")] = None,
    beam: Annotated[
        int | None, typer.Option(help="Follow so many translations at a time; 1 is greedy; default: the model's, or 5.")
    ] = None,
    n_best: Annotated[int | None, typer.Option(help="So many translations of each line, best first.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="Above 0 favours long ones, below 0 short ones.")] = None,
    coverage: Annotated[float | None, typer.Option(help="Penalty for source words that were not looked at.")] = None,
    stopping: Annotated[
        Stopping | None,
        typer.Option(help="When a search is over: exact misses no better translation; default: the model's, or exact."),
    ] = None,
    max_length: Annotated[int | None, typer.Option(help="The most tokens of a translation, its end included.")] = None,
    min_length: Annotated[int | None, typer.Option(help="The fewest: before them none ends.")] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Draw tokens instead; below 1 more of the likely, 0 the likeliest.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw from the so many likeliest tokens alone.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw from the fewest tokens that have this probability together.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed draws the same translations; default: 0.")] = None,
    repetition_penalty: Annotated[
        float | None,
        typer.Option(help="Above 1, tokens of the translation become less likely; default: the model's, or 1."),
    ] = None,
    no_repeat_ngram_size: Annotated[
        int | None,
        typer.Option(help="Never repeat a sequence of N tokens; default: the model's, or 0 (may repeat).", metavar="N"),
    ] = None,
    prefix: Annotated[str | None, typer.Option(help="How every translation begins.")] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="Columns with score, log-probability, tokens and why it ended.")
    ] = False,
    batch_size: Annotated[int, typer.Option(help="The most lines that are translated at a time.")] = 32,
    batch_tokens: Annotated[int, typer.Option(help="The most tokens that are read at a time.")] = 4096,
) -> None:
    """Translate lines, streaming: memory does not grow with them, and what is there is written.

    Empty lines stay empty. A line that cannot be translated leaves a line that says why; they are counted at the end.
    """
    for name, value in (("--batch-size", batch_size), ("--batch-tokens", batch_tokens)):
        if value < 1:
            raise RequestError(f"{name} {value}: give 1 or more.")
    drawn = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    searched: dict[str, Any] = {"beam": beam, "n_best": n_best, "length_penalty": length_penalty}
    searched |= {"coverage": coverage, "stopping": stopping}
    _check_method(drawn, searched, seed)
    file = None if file == Path("-") else file
    _check_files(file, out)

    from heedful.inference.loading import load
    from heedful.inference.predictor import why_not
    from heedful.inference.translation.line_translator import LineTranslator
    from heedful.inference.translation.settings import Wanted
    from heedful.inference.translation.translator import Translator

    loaded = load(model)
    if not isinstance(loaded, Translator):
        raise RequestError(why_not(loaded, "translate"))
    lengths = {"max_length": max_length, "min_length": min_length}
    repetition = {"repetition_penalty": repetition_penalty, "no_repeat_ngram_size": no_repeat_ngram_size}
    wanted = Wanted(**only_given({**drawn, **searched, **lengths, **repetition, "seed": seed}))
    translator = LineTranslator(loaded, wanted, prefix, batch_size, batch_tokens)
    table = _Table(wanted.n_best > 1, scores)
    if file is None and sys.stdin.isatty() and out is None:
        _converse(translator, table, max_length is not None)
        return
    windows = windows_of_pipe(sys.stdin.buffer, _WINDOW) if file is None else windows_of_file(file, _WINDOW)
    if out is None:
        table.write(sys.stdout, translator, windows)
    else:
        with open_result(out) as written:
            table.write(written, translator, windows)
        print(f"{translator.count:,} {'line' if translator.count == 1 else 'lines'} in {out}", file=sys.stderr)
    if not translator.count:
        print(f"{STANDARD_INPUT if file is None else file} is empty: nothing was translated", file=sys.stderr)
    _say_what_is_amiss(translator, max_length is not None)


def _say_what_is_amiss(translator: "LineTranslator", asked: bool) -> None:
    """`asked`: the user has said where translations are cut, and need not hear that they are."""
    of = f"of {translator.count:,} {'line' if translator.count == 1 else 'lines'}"
    if n := translator.refused:
        were, each = ("was", "it") if n == 1 else ("were", "each")
        print(f"{n:,} {of} {were} not translated; {each} says why in its place", file=sys.stderr)
    if n := translator.unknown:
        print(f"{n:,} {of} {'has' if n == 1 else 'have'} characters that the model does not know", file=sys.stderr)
    if (n := translator.cut) and not asked:
        what, were = ("translation", "was") if n == 1 else ("translations", "were")
        print(
            f"the {what} of {n:,} {of} {were} cut after {translator.most:,} tokens; give shorter sentences, or a "
            "higher --max-length",
            file=sys.stderr,
        )


class _Table:
    """What is written of a translation: its text alone, or columns with a header."""

    def __init__(self, ranked: bool, scored: bool) -> None:
        self._ranked, self._scored = ranked, scored
        self.columns = ["line", "rank"] * ranked + ["score", "log_p", "tokens", "reason"] * scored + ["text"]

    def write(self, file: TextIO, translator: "LineTranslator", windows: Iterable[Lines]) -> None:
        file.writelines(line + "\n" for line in self.header())
        for window in windows:
            first = translator.count + 1
            for number, found in enumerate(translator.translate(window), first):
                file.writelines(line + "\n" for line in self.lines(number, found))
            file.flush()

    def header(self) -> Iterator[str]:
        """No line where there is one column."""
        if len(self.columns) > 1:
            yield "\t".join(self.columns)

    def lines(self, number: int, found: "Sequence[Translation] | str") -> Iterator[str]:
        """`found`: the translations, or why there is none."""
        if isinstance(found, str):
            cells: list[Any] = [number, 1] * self._ranked + ["", "", "", "refused"] * self._scored
            yield "\t".join(map(str, [*cells, f"[not translated: {found}]"]))
            return
        for rank, one in enumerate(found, 1):
            cells = [number, rank] * self._ranked
            if self._scored:
                cells += [f"{one.score:.4f}", f"{one.log_probabilities.sum():.4f}", len(one.tokens), one.reason]
            yield "\t".join(map(str, [*cells, " ".join(one.text.split())]))


def _check_files(file: Path | None, out: Path | None) -> None:
    if file is not None:
        if not file.is_file():
            raise RequestError(f"{file}: is not a file; name one with a text in each line, or none for standard input.")
        try:
            file.open("rb").close()
        except OSError as error:
            raise RequestError(f"{file}: cannot be read ({error.strerror}); check its rights.") from None
    if out is not None:
        if out.is_dir() or not out.parent.is_dir():
            raise RequestError(f"{out}: name a file in a folder that exists.")
        refuse_input(out, file)


def _check_method(drawn: Mapping[str, Any], searched: Mapping[str, Any], seed: int | None) -> None:
    """Options of drawing and of beam search, which exclude each other."""
    if given := only_given(drawn):
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        refuse_idle(searched, f"with {names}: it is about beam search, and tokens are drawn; leave one out")
    else:
        refuse_idle({"seed": seed}, "with beam search, which draws nothing; leave it out")
    if drawn["temperature"] == 0:
        refuse_idle({"seed": seed}, "with --temperature 0, which draws nothing; leave one out")


def _converse(translator: "LineTranslator", table: _Table, asked: bool) -> None:
    """Line by line with somebody at a terminal, until the end of input or an interrupt. `asked`: as in
    `_say_what_is_amiss`."""
    print("One text a line; Ctrl-D ends.", file=sys.stderr)
    for line in table.header():
        print(line, flush=True)
    try:
        while True:
            print("> ", end="", file=sys.stderr, flush=True)
            typed = sys.stdin.buffer.readline()
            if not typed:
                break
            unknown, cut = translator.unknown, translator.cut
            (found,) = translator.translate([typed])
            for line in table.lines(translator.count, found):
                print(without_controls(line), flush=True)
            if translator.unknown > unknown:
                print("(the text has characters that the model does not know)", file=sys.stderr)
            if translator.cut > cut and not asked:
                print(f"(cut after {translator.most:,} tokens; --max-length allows for more)", file=sys.stderr)
    except KeyboardInterrupt:
        pass
    print(file=sys.stderr)
