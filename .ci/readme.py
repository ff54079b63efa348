"""Prints the README's commands, so that what runs them runs them as written: `readme.py use` or `readme.py test`."""

import re
import sys
from pathlib import Path

WHICH = {"use": "heedful quickstart", "test": "pytest"}

if __name__ == "__main__":
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"```sh\n(.*?)\n```", text, flags=re.S)
    found = [c for c in commands if WHICH[sys.argv[1]] in c]
    if len(commands) != 2 or len(found) != 1:
        sys.exit("README.md: expected two commands, one that uses heedful and one that runs the tests")
    print(found[0])
