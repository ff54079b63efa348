"""Files that a command writes with `--out`: never over its input, and written atomically."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from heedful.errors import RequestError
from heedful.storage.whole import open_output


class TerminatedError(BaseException):
    """The system asked us to end. Only `main` catches it, as with an interrupt."""


def refuse_input(out: Path, file: Path | None) -> None:
    """Refuse an output that is the input file, by whatever name; None is standard input."""
    with contextlib.suppress(OSError, ValueError):  # an absent file is a different one; no standard input
        given = os.fstat(sys.stdin.fileno()) if file is None else file.stat()
        if os.path.samestat(given, out.stat()):
            what = "standard input" if file is None else str(file)
            raise RequestError(f"--out {out}: is the input file ({what}). Choose another file.")


@contextlib.contextmanager
def open_result(out: Path) -> Iterator[TextIO]:
    """Open a file that appears when it is complete; nothing is left if we are terminated before."""
    with _ending_in_order(), open_output(out) as file:
        yield file


@contextlib.contextmanager
def _ending_in_order() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only the main thread may handle signals
        yield
        return

    def end(*_: object) -> None:
        raise TerminatedError

    # Signals that are ignored (nohup) stay ignored.
    wanted = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is not signal.SIG_IGN]
    before = {one: signal.signal(one, end) for one in wanted}
    try:
        yield
    finally:
        for one, usual in before.items():
            signal.signal(one, usual)
