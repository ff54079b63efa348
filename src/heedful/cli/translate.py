"""`heedful translate`: a translation for each line, in order."""

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
    model: Annotated[str, typer.Argument(help="Translation model: a directory or a hub id.")],
    file: Annotated[
        Path | None,
        typer.Argument(help="Texts, one per line; may be gzipped. Default, or -: standard input."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Output file, written atomically.")] = None,
    beam: Annotated[
        int | None, typer.Option(help="Number of beams; 1 is greedy. Default: the model's, or 5.", metavar="N")
    ] = None,
    n_best: Annotated[
        int | None, typer.Option(help="Return the N best translations of each line.", metavar="N")
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="Above 0 favours long translations, below 0 short ones.")
    ] = None,
    coverage: Annotated[
        float | None, typer.Option(help="Coverage penalty: discourages leaving source tokens unattended.")
    ] = None,
    stopping: Annotated[
        Stopping | None,
        typer.Option(help="When beam search stops. exact never misses a better one. Default: the model's, or exact."),
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(help="Maximum length of a translation, in tokens.", metavar="N")
    ] = None,
    min_length: Annotated[
        int | None, typer.Option(help="Minimum length of a translation, in tokens.", metavar="N")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Sample instead of beam search. Lower is less random; 0 is greedy.")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(help="When sampling: from the K most likely tokens.", metavar="K")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="When sampling: from the smallest set of tokens with total probability P.", metavar="P"),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed; default: 0.", metavar="N")] = None,
    repetition_penalty: Annotated[
        float | None,
        typer.Option(help="Above 1: make repeated tokens less likely; default: the model's, or 1."),
    ] = None,
    no_repeat_ngram_size: Annotated[
        int | None,
        typer.Option(help="Never repeat a sequence of N tokens; default: the model's, or 0 (may repeat).", metavar="N"),
    ] = None,
    prefix: Annotated[str | None, typer.Option(help="Text with which every translation begins.")] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="Add columns with score, log-probability, tokens and why it ended.")
    ] = False,
    batch_size: Annotated[int, typer.Option(help="Maximum number of lines per batch.")] = 32,
    batch_tokens: Annotated[int, typer.Option(help="Maximum number of source tokens per batch.")] = 4096,
) -> None:
    """Translate a file or standard input line by line, in constant memory.

    Empty lines stay empty. A line that cannot be translated is replaced by the reason; these are counted at the end.
    """
    for name, value in (("--batch-size", batch_size), ("--batch-tokens", batch_tokens)):
        if value < 1:
            raise RequestError(f"{name} {value}: must be 1 or more.")
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
    _warn(translator, max_length is not None)


def _warn(translator: "LineTranslator", asked: bool) -> None:
    """Print warnings. `asked`: the user set the maximum length, so truncation is expected."""
    of = f"of {translator.count:,} {'line' if translator.count == 1 else 'lines'}"
    if n := translator.refused:
        were, each = ("was", "it") if n == 1 else ("were", "each")
        print(f"{n:,} {of} {were} not translated; {each} is replaced by the reason", file=sys.stderr)
    if n := translator.unknown:
        print(f"{n:,} {of} {'has' if n == 1 else 'have'} characters that the model does not know", file=sys.stderr)
    if (n := translator.cut) and not asked:
        what, were = ("translation", "was") if n == 1 else ("translations", "were")
        print(
            f"the {what} of {n:,} {of} {were} truncated at {translator.most:,} tokens; use shorter sentences or a "
            "higher --max-length",
            file=sys.stderr,
        )


class _Table:
    """The output of a translation: only its text, or columns with a header."""

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
        """Yield the header line; none if there is one column."""
        if len(self.columns) > 1:
            yield "\t".join(self.columns)

    def lines(self, number: int, found: "Sequence[Translation] | str") -> Iterator[str]:
        """Yield the lines of one source; `found` is its translations, or the reason why there is none."""
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
            raise RequestError(f"{file}: not a file. Name a file with one text per line, or none for standard input.")
        try:
            file.open("rb").close()
        except OSError as error:
            raise RequestError(f"{file}: cannot be read ({error.strerror}). Check its permissions.") from None
    if out is not None:
        if out.is_dir() or not out.parent.is_dir():
            raise RequestError(f"{out}: the folder does not exist. Choose another file.")
        refuse_input(out, file)


def _check_method(drawn: Mapping[str, Any], searched: Mapping[str, Any], seed: int | None) -> None:
    """Refuse options of sampling together with options of beam search."""
    if given := only_given(drawn):
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        refuse_idle(searched, f"with {names}, which samples instead of beam search. Remove one of them")
    else:
        refuse_idle({"seed": seed}, "with beam search, which does not sample. Remove it")
    if drawn["temperature"] == 0:
        refuse_idle({"seed": seed}, "with --temperature 0, which does not sample. Remove one of them")


def _converse(translator: "LineTranslator", table: _Table, asked: bool) -> None:
    """Translate what a person types, until the end of input or an interrupt."""
    print("One text per line; Ctrl-D ends.", file=sys.stderr)
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
                print(f"(truncated at {translator.most:,} tokens; raise --max-length for more)", file=sys.stderr)
    except KeyboardInterrupt:
        pass
    print(file=sys.stderr)
