"""The command `heedful`: its subcommands, exit codes and error messages."""

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
    epilog="Run `heedful COMMAND --help` for the options of a command.",
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("quickstart", short_help="Try heedful on built-in data")(run.quickstart)
app.command("compare", short_help="Find the best model for your data")(run.compare)
app.command("run", short_help="Train from a recipe")(run.run)
app.command("predict", short_help="Predict labels or scores for texts")(predict.predict)
app.command("generate", short_help="Continue prompts with a language model")(generate.generate)
app.command("translate", short_help="Translate texts line by line")(translate.translate)
app.add_typer(probe.app, name="probe")
app.command("inspect", short_help="Show the parts of a model")(inspect.inspect)
app.command("report", short_help="Regenerate the report of a run or study")(report.report)
app.command("recipes", short_help="List, print and explain recipes")(recipes.recipes)
app.add_typer(data.app, name="data")
app.add_typer(models.app, name="models")
app.command("theory", short_help="Run demonstrations of theory")(theory.theory)
app.command("doctor", short_help="Check the installation")(doctor.doctor)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"heedful {__version__}")
        raise typer.Exit


@app.callback()
def heedful(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Take the options of `heedful` itself."""


def main() -> None:
    """Run the command. Exit codes: 0 success, 1 failure, 2 wrong request, 130 interrupted, 143 terminated."""
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
        _exit_with_message(f"stopped. {_what_is_left()}", 130)
    except TerminatedError:
        _exit_with_message(f"terminated. {_what_is_left()}", 143)
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
        _exit_with_message(f"{message}. Run `heedful --help` for all commands.", 2)
    else:
        sys.exit(code if isinstance(code, int) else 0)


def _what_is_left() -> str:
    if sys.argv[1:2] and sys.argv[1] in ("run", "compare", "quickstart"):
        return "Progress is saved; run the same command to resume."
    return "No incomplete file is left."


def _exit_quietly() -> None:
    """End without a message: the reader of our output is gone, and another flush would fail again."""
    os._exit(0)


def _exit_with_message(sentence: str, code: int) -> None:
    print(f"heedful: {' '.join(sentence.split())}", file=sys.stderr)
    sys.exit(code)
