"""A user in a process of their own: another hub, another cache, no proxy."""

import os
import subprocess
import sys
from pathlib import Path

FETCH = """
import sys
from heedful.checkpoints import hub
from heedful.errors import RequestError, WorkError
try:
    print(hub.fetch(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
except (RequestError, WorkError) as error:
    print(f"heedful: {error}", file=sys.stderr)
    sys.exit(2 if isinstance(error, RequestError) else 1)
"""
"""`hub.fetch` with the exit codes of the command line, without the seconds that torch takes."""


class Caller:
    """Runs commands as a user would whose hub is at `url` and whose cache is `home`."""

    def __init__(self, url: str, home: Path) -> None:
        own = ("HF_", "HUGGING", "HEEDFUL", "PIP_", "HTTP", "http", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy")
        kept = {k: v for k, v in os.environ.items() if not k.startswith((*own, "https", "PYTHONPATH"))}
        self.environment = {**kept, "HF_ENDPOINT": url, "HF_HOME": str(home), "HEEDFUL_CACHE": str(home / "heedful")}
        self.environment |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "127.0.0.1"}

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
            env=self.environment | environment,
        )

    def fetch(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run("-c", FETCH, *arguments, **environment)


def assert_refused(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert done.stderr.startswith("heedful: ")
    assert done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr
