"""The command `heedful`: its verbs, exit codes and error messages."""

import io
import os
import sys
from typing import Annotated

import typer

from heedful import __version__
from heedful.cli import data, doctor, generate, inspect, models, predict, probe, recipes, report, run, theory, translate
from heedful.cli.outputs import TerminatedError
from heedful.errors import RequestError, WorkError

app = typer.Typer(
    help="Small transformers, taken seriously: one readable core, exact Hugging Face interop.",
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("quickstart")(run.quickstart)
app.command("compare")(run.compare)
app.command("run")(run.run)
app.command("predict")(predict.predict)
app.command("generate")(generate.generate)
app.command("translate")(translate.translate)
app.add_typer(probe.app, name="probe")
app.command("inspect")(inspect.inspect)
app.command("report")(report.report)
app.command("recipes")(recipes.recipes)
app.add_typer(data.app, name="data")
app.add_typer(models.app, name="models")
app.command("theory")(theory.theory)
app.command("doctor")(doctor.doctor)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"heedful {__version__}")
        raise typer.Exit


@app.callback()
def heedful(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Verbs below; `heedful VERB --help` explains one."""


def main() -> None:
    """Exit codes: 0 done, 1 the work failed, 2 the request was wrong, 130 interrupted, 143 told to end."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character shows a question mark
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
        sys.stdout.flush()
        if code == 130:  # typer caught the interrupt first
            raise KeyboardInterrupt
    except RequestError as error:
        _exit_with_message(str(error), 2)
    except WorkError as error:
        _exit_with_message(str(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        _exit_with_message("interrupted; nothing was left half-written.", 130)
    except TerminatedError:
        _exit_with_message("told to end; nothing was left half-written.", 143)
    except BrokenPipeError:
        _exit_quietly()
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # typer caught it first
            _exit_quietly()
        raise
    except OSError as error:
        if error.filename is not None:
            raise
        os.write(2, f"heedful: the output cannot be written ({error.strerror}).\n".encode())
        os._exit(1)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        message = str(error.format_message()).rstrip(".")  # a mistake in the command line
        _exit_with_message(f"{message}; `heedful --help` says what there is.", 2)
    else:
        sys.exit(code if isinstance(code, int) else 0)


def _exit_quietly() -> None:
    """The reader of our output has gone, which is not an error; flushing again would only fail again."""
    os._exit(0)


def _exit_with_message(sentence: str, code: int) -> None:
    print(f"heedful: {' '.join(sentence.split())}", file=sys.stderr)
    sys.exit(code)
