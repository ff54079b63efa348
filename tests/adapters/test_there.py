"""What we write, the `adapters` library reads: every case of the goldens, read and written here and asked there. It
needs a Python with that library (see make_goldens.py), which HEEDFUL_ADAPTERS_PYTHON names."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_adapterhub import CASES, GOLDENS, REFUSED

import heedful
from heedful.models.adapters import LowRankShape

PYTHON = os.environ.get("HEEDFUL_ADAPTERS_PYTHON")
HERE = Path(__file__).parent


def written_here(case: dict[str, Any], folder: Path) -> dict[str, Any] | None:
    """The case with directories of ours; None where we have no such directory to write."""
    model = heedful.load(GOLDENS / case["base"], body_only=True)
    place = f"{case['family']}-{case['name']}"
    adapters = {}
    for name, source in case["adapters"].items():
        model.load_adapter(GOLDENS / source, name=name, head=False)
        if isinstance(model.transformer.adapter_shapes[name], LowRankShape):
            return None  # written in PEFT's form
        if case["head"] == source:
            beside = heedful.load(GOLDENS / case["base"], body_only=True)
            beside.load_adapter(GOLDENS / source, name=name)
            beside.save_adapter(folder / place / name, name)
        else:
            model.save_adapter(folder / place / name, name, head=False)
        adapters[name] = f"{place}/{name}"
    changed = {**case, "adapters": adapters}
    if case["head"] in case["adapters"].values():
        changed["head"] = adapters[next(n for n, source in case["adapters"].items() if source == case["head"])]
    if case["fusion"]:
        model.load_adapter(GOLDENS / case["fusion"], head=False)
        fuse = next(iter(model.transformer.fusions)).split(",")
        model.save_adapter(folder / place / "fusion", str(heedful.Fuse(*fuse)), head=False)
        changed["fusion"] = f"{place}/fusion"
    return changed


@pytest.mark.full
@pytest.mark.skipif(not PYTHON, reason="HEEDFUL_ADAPTERS_PYTHON names no Python with the adapters library")
def test_every_case_is_the_same_there(tmp_path: Path) -> None:
    unread = {"fusion-temperature", *REFUSED}
    cases = []
    for case in CASES["cases"]:
        if case["name"] not in unread and (changed := written_here(case, tmp_path)) is not None:
            cases.append(changed)
    assert len(cases) > 60
    for family in ("bert", "roberta", "distilbert", "gpt2"):  # bodies, answers, and heads that stand elsewhere
        shutil.copytree(GOLDENS / family, tmp_path / family)
    (tmp_path / "cases.json").write_text(json.dumps({**CASES, "cases": cases, "refused": {}}))
    assert PYTHON is not None
    command = [PYTHON, str(HERE / "check_in_adapters.py"), "--goldens", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
