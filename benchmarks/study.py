"""Six SST-2 runs as one study: as many processes as cores, against the same runs one after another with all threads.

    HEEDFUL_DATA=… python benchmarks/study.py [--model minilm] [--rows 1024] [--rounds 3]

Whole commands are timed, imports and reports included, in turns; the medians and their ratio are printed.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def seconds(model: str, rows: int, extra: list[str]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        line = ["compare", "sst2", "--models", model, "--methods", "full", "--seeds", "6", "--out", f"{folder}/study"]
        line += ["--set", f"data.limit={rows}", "--set", "training.epochs=1", *extra]
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "heedful", *line], check=True, capture_output=True, cwd=Path(folder))
        return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    kinds: dict[str, list[str]] = {"one after another": ["--workers", "1"], "in processes": []}
    found: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(options.rounds):
        for name, extra in kinds.items():
            found[name].append(seconds(options.model, options.rows, extra))
            print(f"{name:<18} {found[name][-1]:7.1f} s", flush=True)
    medians = {name: statistics.median(values) for name, values in found.items()}
    print(f"ratio of the medians {medians['one after another'] / medians['in processes']:.2f}")


if __name__ == "__main__":
    main()
