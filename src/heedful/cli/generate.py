"""`heedful generate`: a language model goes on with texts."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from heedful.cli.given import only_given, refuse_idle
from heedful.cli.show import print_json, without_controls
from heedful.decoding.settings import Beam, Limits, Repetition, Sampling
from heedful.errors import RequestError
from heedful.storage.lines import STANDARD_INPUT, decoded, read_lines, windows_of_pipe

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from heedful.inference.generation import Generated, Prompt, TextGenerator
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
        float | None,
        typer.Option(
            help=f"Below 1: more of the likely; 0: always the likeliest token; default: {Sampling.temperature:g}."
        ),
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw from the so many likeliest tokens alone.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw from the fewest tokens that have this probability together.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help=f"The same seed draws the same texts; default: {Sampling.seed}.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="So many texts for each prompt, with seeds from --seed on.")] = None,
    beam: Annotated[
        int | None, typer.Option(help="Beam search through so many texts at a time, instead of drawing tokens.")
    ] = None,
    n_best: Annotated[int | None, typer.Option(help="So many texts for each prompt, the best of the beam.")] = None,
    length_penalty: Annotated[
        float | None,
        typer.Option(
            help=f"Of the beam: above 0 favours long texts, below 0 short ones; default: {Beam.length_penalty:g}."
        ),
    ] = None,
    stop: Annotated[
        list[str] | None,
        typer.Option(help="A token that ends a text, beside end-of-text; may be given several times."),
    ] = None,
    repetition_penalty: Annotated[
        float | None,
        typer.Option(help="Above 1, tokens of prompt and text become less likely; default: the model's, or 1."),
    ] = None,
    no_repeat_ngram_size: Annotated[
        int | None,
        typer.Option(help="Never repeat a sequence of N tokens; default: the model's, or 0 (may repeat).", metavar="N"),
    ] = None,
    adapters: Annotated[
        str | None,
        typer.Option(help="Adapters other than the head's own: a name, or such as 'fuse(a, b)', 'stack(a, b)'."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Tokens, log-probabilities and reasons too, for programs.")
    ] = False,
) -> None:
    """Go on with texts, drawing token after token or by beam search, and print each with its prompt."""
    drawn = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    methods = _methods(beam, drawn, {"n_best": n_best, "length_penalty": length_penalty}, seeds)
    Limits(max_new_tokens, min_new_tokens)  # refused before a model is waited for
    Repetition(**only_given({"penalty": repetition_penalty, "ngram_size": no_repeat_ngram_size}))
    given = _given(prompts or [], file)

    from heedful.inference.generation import TextGenerator
    from heedful.inference.loading import load
    from heedful.inference.model import Model
    from heedful.inference.predictor import why_not
    from heedful.models.composition import parse_composition

    loaded = load(model)
    if not isinstance(loaded, Model):
        raise RequestError(why_not(loaded, "generate"))
    writer = TextGenerator(loaded)
    limits = writer.limits(max_new_tokens, min_new_tokens, stop or ())
    encoded = writer.encode(given.texts, lambda row: given.names[row])
    composed = None if adapters is None else parse_composition(adapters)
    writer.check_adapters(composed)
    repetition = writer.repetition(repetition_penalty, no_repeat_ngram_size)
    asked = _Asked(writer, encoded, limits, repetition, composed)
    if as_json:
        print_json(asked.facts(methods))
    elif len(encoded) == len(methods) == 1 and n_best in (None, 1):
        asked.stream(methods[0])
    else:
        asked.print_all(methods)


class _Given(NamedTuple):
    texts: list[str]
    names: list[str]
    """What each is called in a message."""


def _methods(
    beam: int | None, drawn: Mapping[str, Any], searched: Mapping[str, Any], seeds: int | None
) -> list[Sampling] | list[Beam]:
    """One for each text of a prompt that is written on its own. Of `Sampling` and of `Beam` what was given, else
    None."""
    if seeds is not None and seeds < 1:
        raise RequestError(f"--seeds {seeds}: at least one text is drawn for each prompt; give 1 or more.")
    if beam is not None:
        refuse_idle(drawn, f"with --beam {beam}, which draws nothing; leave one out")
        refuse_idle({"seeds": seeds}, f"with --beam {beam}, which draws nothing; ask for several with --n-best")
        return [Beam(beam, **only_given(searched))]
    refuse_idle(searched, "without beam search; give a --beam, too")
    first = Sampling(**only_given(drawn))
    if first.greedy:
        idle = {"seed": drawn["seed"], "seeds": seeds}
        refuse_idle(idle, "with --temperature 0, which draws nothing; leave one out")
    return [replace(first, seed=first.seed + i) for i in range(seeds or 1)]


def _given(prompts: list[str], file: str | None) -> _Given:
    if file is None:
        texts = prompts or [""]
        return _Given(texts, [f"prompt {i}" if len(texts) > 1 else "the prompt" for i in range(1, len(texts) + 1)])
    if prompts:
        raise RequestError("prompts come from the command line or from --file, not from both; leave one out.")
    called = STANDARD_INPUT if file == "-" else file
    lines = _lines(file)
    if not lines:
        raise RequestError(f"{called} has no lines, and so no prompts; write one a line.")
    return _Given([text for _, text in lines], [f"line {number} of {called}" for number, _ in lines])


def _lines(file: str) -> list[tuple[int, str]]:
    if file != "-":
        return [(number, line.rstrip("\r\n")) for number, line in read_lines(Path(file))]
    lines = chain.from_iterable(windows_of_pipe(sys.stdin.buffer, _WINDOW))
    return [(number, decoded(line, STANDARD_INPUT, number).rstrip("\r\n")) for number, line in enumerate(lines, 1)]


class _Asked:
    """Prompts for a model, and the ways in which its texts are shown."""

    def __init__(
        self,
        writer: "TextGenerator",
        prompts: "list[Prompt]",
        limits: Limits,
        repetition: Repetition,
        adapters: "Composition | None",
    ) -> None:
        self._writer, self._prompts, self._limits = writer, prompts, limits
        self._options: dict[str, Any] = {"adapters": adapters, "repetition": repetition}
        self._terminal = sys.stdout.isatty()

    def stream(self, method: Sampling | Beam) -> None:
        """One text, while it is written. What is there when a person interrupts it stays."""

        def show(row: int, piece: str) -> None:
            self._show(piece)
            if self._terminal:
                sys.stdout.flush()

        show(0, self._prompts[0].text)
        try:
            written = self._writer.write(self._prompts, method, self._limits, on_text=show, **self._options)
        finally:
            print(flush=True)
        if written.reasons == ["max_length"]:
            print(f"the text ended at the {self._limits.max_length} tokens that the model can read", file=sys.stderr)

    def print_all(self, methods: Sequence[Sampling | Beam]) -> None:
        for number, text in self._results(methods):
            several = len(methods) > 1 or "rank" in text
            of_several = [f"{name} {text[name]}" for name in ("seed", "rank", "score") if several and name in text]
            print(f"[{', '.join([str(number), *of_several])}] ended: {text['reason']}")
            self._show(f"{text['prompt']}{text['text']}\n\n")

    def facts(self, methods: Sequence[Sampling | Beam]) -> dict[str, Any]:
        return {"model": self._writer.source, "texts": [text for _, text in self._results(methods)]}

    def _results(self, methods: Sequence[Sampling | Beam]) -> "Iterator[tuple[int, dict[str, Any]]]":
        """The number of each prompt, and what there is to say of each of its texts: a window of prompts at a time, so
        that what is done can be seen."""
        for first in range(0, len(self._prompts), _WINDOW):
            window = self._prompts[first : first + _WINDOW]
            by_method = [
                self._writer.write(window, method, self._limits, first_row=first, **self._options) for method in methods
            ]
            for at in range(len(window)):
                for method, written in zip(methods, by_method, strict=True):
                    for text in _texts(method, written, at):
                        yield first + at + 1, text
            sys.stdout.flush()

    def _show(self, text: str) -> None:
        sys.stdout.write(without_controls(text) if self._terminal else text)


def _texts(method: Sampling | Beam, written: "Generated", at: int) -> Iterator[dict[str, Any]]:
    """Of one prompt: what was drawn, or all that beam search found."""
    if isinstance(method, Beam):
        for rank, best in enumerate(written.n_best[at], 1):
            named = {"prompt": written.prompts[at], "rank": rank, "score": round(best.score, 6)}
            yield named | _facts(best.text, best.reason, best.tokens, best.log_probabilities)
    else:
        drawn = {"prompt": written.prompts[at], "seed": method.seed}
        yield drawn | _facts(written.texts[at], written.reasons[at], written.tokens[at], written.log_probabilities[at])


def _facts(text: str, reason: str, tokens: list[int], log_probabilities: "npt.NDArray[np.float64]") -> dict[str, Any]:
    return {
        "text": text,
        "reason": reason,
        "tokens": tokens,
        "log_probabilities": [round(float(p), 6) for p in log_probabilities],
    }
