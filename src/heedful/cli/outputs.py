"""Files that a verb writes with `--out`: never over what it reads, and whole or not at all."""

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
    """The system asked us to end. Like an interrupt, nobody catches it but `main`."""


def refuse_input(out: Path, file: Path | None) -> None:
    """`out` may not be what is read, by whatever name; None: the standard input."""
    with contextlib.suppress(OSError, ValueError):  # what is not there is not the same; no standard input
        given = os.fstat(sys.stdin.fileno()) if file is None else file.stat()
        if os.path.samestat(given, out.stat()):
            what = "the standard input" if file is None else str(file)
            raise RequestError(f"--out {out}: is the file that is read ({what}); name another.")


@contextlib.contextmanager
def open_result(out: Path) -> Iterator[TextIO]:
    """The file appears when it is complete; if we are told to end before, nothing is left of it."""
    with _ending_in_order(), open_output(out) as file:
        yield file


@contextlib.contextmanager
def _ending_in_order() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # which alone may say what a signal does
        yield
        return

    def end(*_: object) -> None:
        raise TerminatedError

    # What somebody chose to ignore (nohup) stays ignored.
    wanted = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is not signal.SIG_IGN]
    before = {one: signal.signal(one, end) for one in wanted}
    try:
        yield
    finally:
        for one, usual in before.items():
            signal.signal(one, usual)
