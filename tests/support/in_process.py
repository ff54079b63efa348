"""The command in this process: for requests that end before anything is started, a second sooner than in its own."""

import sys
from pathlib import Path

import pytest

from heedful.cli.main import main


def answer(
    arguments: list[str], cwd: Path, patch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    """The exit code, what was printed, and what was said of it."""
    with patch.context() as inside:
        inside.chdir(cwd)
        inside.setenv("COLUMNS", "80")
        inside.setattr(sys, "argv", ["heedful", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
    said = capfd.readouterr()
    code = ended.value.code
    return code if isinstance(code, int) else 0, said.out, said.err
