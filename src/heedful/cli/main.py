"""The command `heedful`: its verbs, and how it says no."""

import sys
from typing import Annotated

import typer

from heedful import __version__
from heedful.cli import doctor, inspect, models
from heedful.errors import RequestError, WorkError

app = typer.Typer(
    help="Small transformers, taken seriously: load, inspect and compare them from one readable core.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("inspect")(inspect.inspect)
app.add_typer(models.app, name="models")
app.command("doctor")(doctor.doctor)


def _version(asked: bool) -> None:
    if asked:
        print(f"heedful {__version__}")
        raise typer.Exit


@app.callback()
def heedful(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Verbs below; `heedful VERB --help` explains one."""


def main() -> None:
    """Exit codes: 0 done, 1 the work failed, 2 the request was wrong, 130 interrupted."""
    try:
        app()
    except RequestError as error:
        _stop(str(error), 2)
    except WorkError as error:
        _stop(str(error), 1)
    except KeyboardInterrupt:
        _stop("interrupted; nothing was left half-written.", 130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone, which is its right
        sys.exit(0)


def _stop(sentence: str, code: int) -> None:
    print(f"heedful: {' '.join(sentence.split())}", file=sys.stderr)
    sys.exit(code)
