"""`heedful generate`: a language model goes on with texts."""

import codecs
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from heedful.cli.show import print_json, without_controls
from heedful.decoding.settings import Limits, Sampling
from heedful.errors import RequestError

if TYPE_CHECKING:
    from heedful.generating import Generated, Prompt, Writer
    from heedful.models.composition import Composition

_WINDOW = 64  # prompts after which what there is is printed


def generate(
    model: Annotated[str, typer.Argument(help="A model directory with a language-model head, or a hub id.")],
    prompts: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROMPT", help="Texts to go on with; default: the beginning of a text."),
    ] = None,
    file: Annotated[
        str | None, typer.Option(help="Take the prompts from this file, one a line; - for the standard input.")
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(help="The most tokens that follow a prompt.")] = Limits.max_new_tokens,
    min_new_tokens: Annotated[int, typer.Option(help="The fewest: before them no text ends.")] = Limits.min_new_tokens,
    temperature: Annotated[
        float, typer.Option(help="Below 1: more of the likely. 0: always the likeliest token.")
    ] = Sampling.temperature,
    top_k: Annotated[int | None, typer.Option(help="Draw from the so many likeliest tokens alone.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw from the fewest tokens that have this probability together.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed draws the same texts.")] = Sampling.seed,
    seeds: Annotated[int, typer.Option(help="So many texts for each prompt, with seeds from --seed on.")] = 1,
    stop: Annotated[
        list[str] | None,
        typer.Option(help="A token that ends a text, beside end-of-text; may be given several times."),
    ] = None,
    adapters: Annotated[
        str | None,
        typer.Option(help="Adapters other than the head's own: a name, or such as 'fuse(a, b)', 'stack(a, b)'."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Tokens, log-probabilities and reasons too, for programs.")
    ] = False,
) -> None:
    """Go on with texts, drawing token after token, and print each with its prompt."""
    samplings = _samplings(temperature, top_k, top_p, seed, seeds)
    Limits(max_new_tokens, min_new_tokens)  # refused before a model is waited for
    given = _given(prompts or [], file)

    from heedful.api import Model, load
    from heedful.generating import Writer
    from heedful.models.composition import parse_composition

    loaded = load(model)
    if not isinstance(loaded, Model):
        raise RequestError(f"{model}: is a TF-IDF model, which cannot go on with a text; name a language model.")
    writer = Writer(loaded)
    limits = writer.limits(max_new_tokens, min_new_tokens, stop or ())
    encoded = writer.encode(given.texts, lambda row: given.names[row])
    composed = None if adapters is None else parse_composition(adapters)
    asked = _Asked(writer, encoded, limits, composed)
    if as_json:
        print_json(asked.facts(samplings))
    elif len(encoded) == 1 and seeds == 1:
        asked.stream(samplings[0])
    else:
        asked.print_all(samplings)


class _Given(NamedTuple):
    texts: list[str]
    names: list[str]
    """What each is called in a message."""


def _samplings(temperature: float, top_k: int | None, top_p: float | None, seed: int, seeds: int) -> list[Sampling]:
    if seeds < 1:
        raise RequestError(f"--seeds {seeds}: at least one text is drawn for each prompt; give 1 or more.")
    samplings = [Sampling(temperature, top_k, top_p, seed + i) for i in range(seeds)]
    if seeds > 1 and samplings[0].greedy:
        raise RequestError(
            "--seeds: with --temperature 0 nothing is drawn, so all texts would be equal; leave one out."
        )
    return samplings


def _given(prompts: list[str], file: str | None) -> _Given:
    if file is None:
        texts = prompts or [""]
        return _Given(texts, [f"prompt {i}" if len(texts) > 1 else "the prompt" for i in range(1, len(texts) + 1)])
    if prompts:
        raise RequestError("prompts come from the command line or from --file, not from both; leave one out.")
    called = "the standard input" if file == "-" else file
    lines = list(_stdin_lines() if file == "-" else _file_lines(Path(file)))
    if not lines:
        raise RequestError(f"{called} has no lines, and so no prompts; write one a line.")
    return _Given([text for _, text in lines], [f"line {number} of {called}" for number, _ in lines])


def _file_lines(path: Path) -> Iterator[tuple[int, str]]:
    from heedful.data.disk import read_lines

    if path.is_file() and path.stat().st_size == 0:
        return
    for number, line in read_lines(path):
        yield number, line.rstrip("\r\n")


def _stdin_lines() -> Iterator[tuple[int, str]]:
    content = sys.stdin.buffer.read().removeprefix(codecs.BOM_UTF8)
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    for number, line in enumerate(lines, 1):
        try:
            yield number, line.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError:
            raise RequestError(f"line {number} of the standard input is not UTF-8; convert it.") from None


class _Asked:
    """Prompts for a model, and the ways in which its texts are shown."""

    def __init__(
        self, writer: "Writer", prompts: "list[Prompt]", limits: Limits, adapters: "Composition | None"
    ) -> None:
        self._writer, self._prompts, self._limits, self._adapters = writer, prompts, limits, adapters
        self._terminal = sys.stdout.isatty()

    def stream(self, sampling: Sampling) -> None:
        """One text, while it is written. What is there when a person interrupts it stays."""

        def show(row: int, piece: str) -> None:
            self._show(piece)
            if self._terminal:
                sys.stdout.flush()

        show(0, self._prompts[0].text)
        try:
            written = self._writer.write(self._prompts, sampling, self._limits, adapters=self._adapters, on_text=show)
        finally:
            print(flush=True)
        if written.reasons == ["max_length"]:
            print(f"the text ended at the {self._limits.max_length} tokens that the model can read", file=sys.stderr)

    def print_all(self, samplings: list[Sampling]) -> None:
        for number, seed, written, at in self._results(samplings):
            title = f"{number}, seed {seed}" if len(samplings) > 1 else f"{number}"
            print(f"[{title}] ended: {written.reasons[at]}")
            self._show(f"{written.prompts[at]}{written.texts[at]}\n\n")

    def facts(self, samplings: list[Sampling]) -> dict[str, Any]:
        texts = [
            {
                "prompt": written.prompts[at],
                "seed": seed,
                "text": written.texts[at],
                "reason": written.reasons[at],
                "tokens": written.tokens[at],
                "log_probabilities": [round(float(p), 6) for p in written.log_probabilities[at]],
            }
            for _, seed, written, at in self._results(samplings)
        ]
        return {"model": self._writer.source, "texts": texts}

    def _results(self, samplings: list[Sampling]) -> "Iterator[tuple[int, int, Generated, int]]":
        """The number of each prompt with each seed, and its place in what was written: a window of prompts at a time,
        so that what is done can be seen."""
        for first in range(0, len(self._prompts), _WINDOW):
            window = self._prompts[first : first + _WINDOW]
            by_seed = [
                self._writer.write(window, sampling, self._limits, adapters=self._adapters, first_row=first)
                for sampling in samplings
            ]
            for at in range(len(window)):
                for sampling, written in zip(samplings, by_seed, strict=True):
                    yield first + at + 1, sampling.seed, written, at
            sys.stdout.flush()

    def _show(self, text: str) -> None:
        sys.stdout.write(without_controls(text) if self._terminal else text)
