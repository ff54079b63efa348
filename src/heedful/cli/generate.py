"""`heedful generate`: continue prompts with a language model."""

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

_WINDOW = 64  # number of prompts after which results are printed


def generate(
    model: Annotated[str, typer.Argument(help="Model directory with a language-model head, or a hub id.")],
    prompts: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROMPT", help="Texts to continue; default: start from nothing."),
    ] = None,
    file: Annotated[
        str | None, typer.Option(help="Read prompts from this file, one per line; - for standard input.")
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(help="Write at most N tokens.", metavar="N")] = Limits.max_new_tokens,
    min_new_tokens: Annotated[
        int, typer.Option(help="Do not stop before N tokens.", metavar="N")
    ] = Limits.min_new_tokens,
    temperature: Annotated[
        float | None,
        typer.Option(
            help=f"Sampling temperature: lower is less random, 0 is greedy; default: {Sampling.temperature:g}."
        ),
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Sample from the K most likely tokens.", metavar="K")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Sample from the smallest set of tokens with total probability P.", metavar="P")
    ] = None,
    seed: Annotated[int | None, typer.Option(help=f"Random seed; default: {Sampling.seed}.", metavar="N")] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Write N texts per prompt, with seeds --seed, --seed + 1, …", metavar="N")
    ] = None,
    beam: Annotated[
        int | None, typer.Option(help="Use beam search with N beams instead of sampling.", metavar="N")
    ] = None,
    n_best: Annotated[
        int | None, typer.Option(help="With --beam: return the N best texts per prompt.", metavar="N")
    ] = None,
    length_penalty: Annotated[
        float | None,
        typer.Option(
            help=f"With --beam: above 0 favours long texts, below 0 short ones; default: {Beam.length_penalty:g}."
        ),
    ] = None,
    stop: Annotated[
        list[str] | None,
        typer.Option(help="Token that ends a text, in addition to end-of-text. May be repeated."),
    ] = None,
    repetition_penalty: Annotated[
        float | None,
        typer.Option(help="Above 1: make tokens of prompt and text less likely; default: the model's, or 1."),
    ] = None,
    no_repeat_ngram_size: Annotated[
        int | None,
        typer.Option(help="Never repeat a sequence of N tokens; default: the model's, or 0 (may repeat).", metavar="N"),
    ] = None,
    adapters: Annotated[
        str | None,
        typer.Option(help="Use these adapters instead of the head's own: a name, 'fuse(a, b)' or 'stack(a, b)'."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Output JSON with tokens, log-probabilities and reasons.")
    ] = False,
) -> None:
    """Continue prompts with a language model, by sampling or beam search."""
    drawn = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    methods = _methods(beam, drawn, {"n_best": n_best, "length_penalty": length_penalty}, seeds)
    Limits(max_new_tokens, min_new_tokens)  # refused before the model is loaded
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
    """How messages name each text."""


def _methods(
    beam: int | None, drawn: Mapping[str, Any], searched: Mapping[str, Any], seeds: int | None
) -> list[Sampling] | list[Beam]:
    """Return one method for each text of a prompt. Options that the user left out are None."""
    if seeds is not None and seeds < 1:
        raise RequestError(f"--seeds {seeds}: must be 1 or more.")
    if beam is not None:
        refuse_idle(drawn, f"with --beam {beam}, which does not sample. Remove one of them")
        refuse_idle({"seeds": seeds}, f"with --beam {beam}, which does not sample. Use --n-best instead")
        return [Beam(beam, **only_given(searched))]
    refuse_idle(searched, "without beam search. Add --beam")
    first = Sampling(**only_given(drawn))
    if first.greedy:
        idle = {"seed": drawn["seed"], "seeds": seeds}
        refuse_idle(idle, "with --temperature 0, which does not sample. Remove one of them")
    return [replace(first, seed=first.seed + i) for i in range(seeds or 1)]


def _given(prompts: list[str], file: str | None) -> _Given:
    if file is None:
        texts = prompts or [""]
        return _Given(texts, [f"prompt {i}" if len(texts) > 1 else "the prompt" for i in range(1, len(texts) + 1)])
    if prompts:
        raise RequestError("prompts come either from the command line or from --file. Remove one of them.")
    called = STANDARD_INPUT if file == "-" else file
    lines = _lines(file)
    if not lines:
        raise RequestError(f"{called} has no prompts. Write one per line.")
    return _Given([text for _, text in lines], [f"line {number} of {called}" for number, _ in lines])


def _lines(file: str) -> list[tuple[int, str]]:
    if file != "-":
        return [(number, line.rstrip("\r\n")) for number, line in read_lines(Path(file))]
    lines = chain.from_iterable(windows_of_pipe(sys.stdin.buffer, _WINDOW))
    return [(number, decoded(line, STANDARD_INPUT, number).rstrip("\r\n")) for number, line in enumerate(lines, 1)]


class _Asked:
    """Prompts for a model, and the ways to print its texts."""

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
        """Print one text while it is written. An interrupt keeps what has been printed."""

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
            print(f"the text ended at the model's limit of {self._limits.max_length} tokens", file=sys.stderr)

    def print_all(self, methods: Sequence[Sampling | Beam]) -> None:
        for number, text in self._results(methods):
            several = len(methods) > 1 or "rank" in text
            of_several = [f"{name} {text[name]}" for name in ("seed", "rank", "score") if several and name in text]
            print(f"[{', '.join([str(number), *of_several])}] ended: {text['reason']}")
            self._show(f"{text['prompt']}{text['text']}\n\n")

    def facts(self, methods: Sequence[Sampling | Beam]) -> dict[str, Any]:
        return {"model": self._writer.source, "texts": [text for _, text in self._results(methods)]}

    def _results(self, methods: Sequence[Sampling | Beam]) -> "Iterator[tuple[int, dict[str, Any]]]":
        """Yield each prompt's number with the facts of each of its texts, a window of prompts at a time, so that
        finished texts are printed early."""
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
    """Yield the texts of one prompt: the sampled one, or all that beam search returned."""
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
