"""Is this version slower than an older one? Fine-tuning and encoding SST-2 in two checkouts of heedful that take turns.

    HEEDFUL_DATA=… python benchmarks/versions.py OLD_CHECKOUT [MODEL …] [--rows N] [--pairs N]

Each side is a process with the source of its checkout on the path, a new one every three pairs, which makes whole runs
(`execute`: data, model, one epoch of every weight, or ten epochs of a frozen body's head, judged on dev after each, the
model written). In each pair the two sides run one after the other, in turns one or the other first. "encode" is
`Model.encode` of the test sentences by a model that is loaded already. A ratio is old seconds over new: above 1, the
new one is faster. The interval is that of the median of the pairs' ratios, from the binomial distribution of its ranks.
Seconds of training are those of the steps only; memory is the peak of each side's process.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from encode import sentences

WORKER = """
import json, sys, tempfile, time
from pathlib import Path
from heedful.recipes.reading import make_recipe
from heedful.training.run import execute
from heedful.training.cost import peak_memory
import heedful
print(json.dumps({"file": heedful.__file__}), flush=True)
models = {}
for line in sys.stdin:
    request = json.loads(line)
    if "encode" in request:
        name = request["model"]
        models[name] = models.get(name) or heedful.load(name)
        started = time.perf_counter()
        models[name].encode(request["encode"], pooling="mean")
        seconds = time.perf_counter() - started
        print(json.dumps({"whole": seconds, "training": seconds, "peak": peak_memory()}), flush=True)
        continue
    with tempfile.TemporaryDirectory() as scratch:
        recipe = make_recipe(request)
        started = time.perf_counter()
        manifest = execute(recipe, 0, Path(scratch) / "run", quiet=True)
        whole = time.perf_counter() - started
    cost = manifest["cost"]
    print(json.dumps({"whole": whole, "training": cost["training_seconds"], "peak": peak_memory()}), flush=True)
"""


_PAIRS_OF_A_PROCESS = 3  # where a process happens to lie in memory makes some percent


class Side:
    def __init__(self, checkout: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(checkout.resolve() / "src")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        file = self.read()["file"]
        if not Path(file).is_relative_to(checkout.resolve()):
            sys.exit(f"{checkout}: its heedful was not taken, but {file}")

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit("a side has stopped; its error is above")
        return dict(json.loads(line))

    def train(self, recipe: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(recipe) + "\n")
        self.process.stdin.flush()
        return self.read()


def recipe_for(model: str, method: str, rows: int | None) -> dict[str, Any]:
    shape = model.startswith("bert-")
    training = {"epochs": 10 if method == "frozen" else 1, "lr": 1e-4, "checkpoint_seconds": 600.0, "device": "cpu"}
    head = {"head": "two-layer"} if method == "frozen" else {}  # which every version trains step by step
    return {
        "model": {"shape": model} if shape else {"name": model, **head},
        **({"tokenizer": {"kind": "wordpiece", "size": 8000}} if shape else {}),
        "data": {"name": "sst2", **({"limit": rows} if rows else {})},
        "tuning": {"method": method},
        "training": training,
        "evaluation": {"baselines": False, "test": False},
    }


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Low, median, high: the ranks between which the median lies with at least 95 %."""
    from scipy.stats import binom

    ordered, n = sorted(ratios), len(ratios)
    rank = max(0, int(binom.ppf(0.025, n, 0.5)) - 1)
    return ordered[rank], statistics.median(ordered), ordered[n - 1 - rank]


def measure(old: Path, new: Path, model: str, method: str, rows: int | None, pairs: int) -> dict[str, Any]:
    if method == "encode":
        recipe = {"model": model, "encode": sentences()[:rows]}
        first = {**recipe, "encode": recipe["encode"][:64]}
    else:
        recipe = recipe_for(model, method, rows)
        first = {**recipe, "data": {**recipe["data"], "limit": 64}}
    sides: dict[str, Side] = {}
    taken: dict[str, list[dict[str, Any]]] = {"old": [], "new": []}
    for pair in range(pairs):
        if pair % _PAIRS_OF_A_PROCESS == 0:
            for side in sides.values():
                side.process.kill()
            sides = {"old": Side(old), "new": Side(new)}
            for side in sides.values():  # the first run of a process is slower
                side.train(first)
        for name in ("old", "new") if pair % 2 else ("new", "old"):
            taken[name].append(sides[name].train(recipe))
    result: dict[str, Any] = {"pairs": pairs, "rows": rows}
    for what in ("whole",) if method == "encode" else ("training", "whole"):
        ratios = [a[what] / b[what] for a, b in zip(taken["old"], taken["new"], strict=True)]
        low, middle, high = interval(ratios)
        seconds = statistics.median(t[what] for t in taken["new"])
        around = [round(low, 3), round(high, 3)]
        result[what] = {"ratio": round(middle, 3), "95 %": around, "seconds": round(seconds, 2)}
    result["peak_mb"] = {name: round(max(t["peak"] for t in held) / 1e6) for name, held in taken.items()}
    for side in sides.values():
        side.process.kill()
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("old", type=Path)
    parser.add_argument("models", nargs="*", default=["bert-tiny", "bert-mini", "minilm"])
    parser.add_argument("--rows", type=int, help="train on N rows only")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--methods", default="full,frozen,encode")
    options = parser.parse_args()
    new = Path(__file__).parent.parent
    for model in options.models:
        for method in options.methods.split(","):
            if method != "full" and model.startswith("bert-"):
                continue  # random weights are neither frozen nor on disk
            result = measure(options.old, new, model, method, options.rows, options.pairs)
            print(json.dumps({f"{model} {method}": result}), flush=True)


if __name__ == "__main__":
    main()
