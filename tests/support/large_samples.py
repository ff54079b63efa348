"""Studies of a hundred runs, as large on disk as real ones (but for their models)."""

import json
from pathlib import Path
from typing import Any

from tests.support.report_samples import data, decide, make_run, make_study, recipe, write_json

FIVE = ["very negative", "negative", "neutral", "positive", "very positive"]
ROWS, STEPS = 1000, 480
"""Examples of dev and of test; steps of a run, which leave a log of 504 lines."""


def make_comparison(directory: Path) -> Path:
    """20 settings × 5 seeds with everything that a report can show; one setting has lost two of its runs."""
    settings = {}
    for i in range(20):
        model, method = ("minilm", "bert-mini", "bert-tiny", "roberta-small")[i % 4], ("full", "frozen")[i % 2]
        seconds = (400.0 if method == "full" else 4.0) * (1 + 0.15 * i)
        settings[f"{model} · {method} · lr {i + 1}e-5"] = (1.4 + 0.11 * i, seconds)
    make_study(directory, FIVE, seeds=(1, 2, 3, 4, 5), settings=settings, failed=2, n=ROWS, steps=STEPS)
    lose_runs(decide(directory))
    return directory


def lose_runs(directory: Path) -> None:
    """Eight settings of which a run learned nothing."""
    found: dict[str, Any] = json.loads((directory / "statistics.json").read_text())
    for i, facts in enumerate(s for s in found["settings"].values() if not s["baseline"]):
        if i >= 12:
            facts["failed"] |= {"failed": [1], "sentence": "1 of 5 runs learned nothing."}
    write_json(directory / "statistics.json", found)


def make_search(directory: Path) -> Path:
    """30 settings × 3 seeds on dev, the chosen one again with 5 fresh seeds, and on test."""
    skills = {f"minilm · full · {i:02d}": (1.5 + (i * 7 % 30) / 12, 60.0 + i) for i in range(30)}
    make_study(directory, FIVE, seeds=(0, 1, 2), settings=skills, splits=("dev",), n=ROWS, steps=STEPS)
    facts = json.loads((directory / "study.json").read_text())
    facts["data"] = data(FIVE, ROWS, ("dev", "test"), "reviews")
    table = []
    for i, setting in enumerate(facts["settings"]):
        setting["values"] = {"training.lr": (i + 1) * 1e-5, "training.epochs": 2 + i % 3}
        row = {"setting": setting["name"], "model": "minilm", "method": "full", **setting["values"]}
        row |= {
            "n": 3,
            "metric": "accuracy",
            "higher_is_better": True,
            "dev_mean": _mean(directory, facts, setting["name"], "dev"),
        }
        table.append({**row, "dev_std": 0.01})
    best = max(table, key=lambda r: r["dev_mean"])
    chosen = {"name": f"{best['setting']}-final", "model": "minilm", "method": "full", "values": {}}
    for seed in range(3, 8):
        name = f"chosen-seed{seed}"
        skill, seconds = skills[best["setting"]]
        make_run(directory / "runs" / name, FIVE, seed=seed, skill=skill, n=ROWS, seconds=seconds, steps=STEPS)
        entry = {"name": name, "setting": chosen["name"], "seed": seed, "state": "done", "reason": None}
        facts["runs"].append(entry)
    facts |= {"final_settings": [{**chosen, "recipe": recipe("minilm", "full")}], "table": table}
    write_json(directory / "study.json", facts)
    return decide(directory, chosen=chosen["name"])


def _mean(directory: Path, facts: dict[str, Any], setting: str, split: str) -> float:
    names = [run["name"] for run in facts["runs"] if run["setting"] == setting]
    found = [json.loads((directory / "runs" / name / "metrics.json").read_text()) for name in names]
    return sum(m["splits"][split]["accuracy"] for m in found) / len(found)
