"""Run and study directories made from a formula and a seed, in the shapes that reports have to cope with."""

import itertools
import json
import math
from pathlib import Path
from statistics import NormalDist, fmean, stdev
from typing import Any

import numpy as np

from heedful.evaluation.calibration import apply, before_and_after, fit_temperature
from heedful.evaluation.metrics import METRICS, class_columns, number_columns
from heedful.evaluation.scores import score_classes, score_numbers
from heedful.evaluation.statistics.classes import statistics_of_predictions
from heedful.storage.examples import read_predictions, write_values

TEXTS = ["a gem of a film", "long, and dull with it", "neither here nor there", "the cast does what it can"]
NORMAL = NormalDist()
TFIDF = {"baseline": True, "random": False, "n": 1, "training_seconds": 0.4, "prediction_seconds": 0.021}


def make_run(
    directory: Path,
    labels: list[str] | None,
    *,
    seed: int = 1,
    skill: float = 2.0,
    n: int = 300,
    splits: tuple[str, ...] = ("dev", "test"),
    seconds: float = 42.0,
    state: str = "done",
    name: str = "reviews",
    text: str | None = None,
    source: str = "minilm",
    method: str = "full",
    steps: int = 120,
    primary: str | None = None,
) -> Path:
    """`labels` None: numbers are predicted. `skill` is how far the gold class's logit stands out."""
    (directory / "predictions").mkdir(parents=True)
    (directory / "values").mkdir()
    metrics: dict[str, Any] = {"primary": primary or ("accuracy" if labels else "pearson"), "splits": {}, "errors": []}
    metrics["baselines"] = {"random": {}, "majority": {}, "tfidf": {}} if labels else {"mean": {}, "tfidf": {}}
    for k, split in enumerate(splits):
        gold_rng, rng = np.random.default_rng(k), np.random.default_rng([seed, k, int(10 * skill)])
        if labels:
            _classes(directory, metrics, split, labels, gold_rng, rng, skill, n, text)
        else:
            _numbers(directory, metrics, split, gold_rng, rng, skill, n)
    for i, b in enumerate(metrics["baselines"].values()):
        b["seconds"] = 0.01 + 1.3 * i
    if splits:
        metrics["best"] = {"step": 80, "epoch": 2.0, "score": metrics["splits"][splits[0]][metrics["primary"]]}
    manifest = _manifest(labels, seed, n, splits, seconds, state, name, source, method)
    write_json(directory / "manifest.json", manifest)
    write_json(directory / "metrics.json", metrics)
    _log(directory, metrics["primary"], skill, seed, steps)
    return directory


def _classes(directory, metrics, split, labels, gold_rng, rng, skill, n, text) -> None:
    c = len(labels)
    gold = gold_rng.choice(c, size=n, p=np.arange(c, 0, -1) / np.arange(c, 0, -1).sum())
    hard = gold_rng.random(n) < 0.08
    logits = rng.normal(size=(n, c))
    logits[np.arange(n), np.where(hard, (gold + 1) % c, gold)] += skill
    p = apply(logits * 1.6, 1.0)
    metrics["splits"][split] = score_classes(gold, p, labels)
    if split == "dev":
        metrics["temperature"] = fit_temperature(logits * 1.6, gold)
        metrics["calibration"] = {}
    metrics["calibration"][split] = before_and_after(logits * 1.6, gold, metrics["temperature"])
    predicted = p.argmax(axis=1)
    for row in np.flatnonzero(predicted != gold)[:30]:
        metrics["errors"].append(
            {
                "split": split,
                "row": int(row),
                "text": text or TEXTS[row % len(TEXTS)],
                "pair": None,
                "gold": labels[gold[row]],
                "predicted": labels[predicted[row]],
                "probability": float(p[row].max()),
            }
        )
    lines = ["\t".join(["row", "label", *(f"p:{x}" for x in labels)])]
    lines += ["\t".join([str(i), labels[predicted[i]], *(f"{v:.4f}" for v in p[i])]) for i in range(n)]
    (directory / "predictions" / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_values(directory / "values" / f"{split}.tsv", range(n), class_columns(gold, p))
    even = np.full((n, c), 1 / c)
    even[np.arange(n), rng.integers(c, size=n)] += 1e-9
    prior = np.tile((np.bincount(gold, minlength=c) + 1) / (n + c), (n, 1))
    weak = gold_rng.normal(size=(n, c))
    weak[np.arange(n), gold] += 1.5
    for name, guess in (("random", even), ("majority", prior), ("tfidf", apply(weak, 1.0))):
        metrics["baselines"][name][split] = score_classes(gold, guess, labels)


def _numbers(directory, metrics, split, gold_rng, rng, skill, n) -> None:
    gold = gold_rng.random(n) * 5
    predicted = gold + rng.normal(size=n) / skill
    metrics["splits"][split] = score_numbers(gold, predicted)
    metrics["baselines"]["mean"][split] = score_numbers(gold, np.full(n, gold.mean()))
    metrics["baselines"]["tfidf"][split] = score_numbers(gold, gold + gold_rng.normal(size=n))
    for row in np.argsort(-np.abs(gold - predicted))[:20]:
        error = {"split": split, "row": int(row), "text": TEXTS[row % 4], "pair": TEXTS[(row + 1) % 4]}
        metrics["errors"].append({**error, "gold": round(gold[row], 2), "predicted": round(predicted[row], 2)})
    write_values(directory / "values" / f"{split}.tsv", range(n), number_columns(gold, predicted))
    lines = ["row\tscore", *(f"{i}\t{v:.4f}" for i, v in enumerate(predicted))]
    (directory / "predictions" / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _manifest(labels, seed, n, splits, seconds, state, name, source, method) -> dict[str, Any]:
    return {
        "format": 2,
        "heedful": "0.2.0",
        "recipe": recipe(source, method),
        "seed": seed,
        "command": ["heedful", "run", "my recipe.toml", "--seeds", "1"],
        "metrics": [metric.stated() for metric in METRICS.values()],
        "versions": {"python": "3.11.9", "torch": "2.13.0", "numpy": "2.4.6"},
        "threads": 2,
        "device": "cpu",
        "data": data(labels, n, splits, name),
        "model": {
            "source": source,
            "family": "bert",
            "parameters": {"total": 22_713_216, "trainable": 22_713_216 if method == "full" else 770},
            "licence": "Apache-2.0",
            "trained_on": "a billion sentence pairs",
        },
        "cost": {
            "training_seconds": seconds,
            "total_seconds": seconds * 1.2,
            "peak_memory_bytes": (812_000_000 if method == "full" else 455_000_000) + 1_000_000 * seed,
            "gpu_memory_bytes": None,
            "flops": 3.2e13,
            "tokens": 412_000,
            "padding_share": 0.041,
            "truncated_share": 0.072,
        },
        "state": state,
    }


def recipe(source: str, method: str) -> dict[str, Any]:
    return {
        "model": {"name": source},
        "data": {"train": "reviews.csv", "text": "review", "label": "stars"},
        "tuning": {"method": method},
        "training": {"epochs": 3, "batch_size": 32, "lr": 5e-5 if method == "full" else 3e-3, "max_length": 128},
    }


def data(labels: list[str] | None, n: int, splits: tuple[str, ...], name: str) -> dict[str, Any]:
    hidden = [] if "test" in splits else ["test"]
    return {
        "name": name,
        "kind": "classes" if labels else "scores",
        "labels": labels or [],
        "pairs": labels is None,
        "sizes": {"train": 4 * n, "dev": n, "test": n},
        "fingerprints": {"train": "sha256:5c2f9e…", "dev": "sha256:90aa1b…", "test": "sha256:77d0e3…"},
        "hidden": hidden,
        "licence": "CC BY 4.0",
        "contamination": "3 of the test texts are also in train",
        "notes": ["2 rows had no label and were left out: 17, 203."],
    }


def _log(directory: Path, primary: str, skill: float, seed: int, steps: int) -> None:
    rng = np.random.default_rng(seed)
    lines = []
    for step in range(1, steps + 1):
        loss = float(0.2 + 0.5 * np.exp(-step / 30) + 0.03 * rng.normal())
        lines.append({"step": step, "epoch": step / 40, "loss": loss, "lr": 5e-5, "seconds": 0.3, "tokens": 3400})
        if step % 20 == 0:
            value = float(0.5 + 0.15 * skill * (1 - np.exp(-step / 40)) + 0.008 * rng.normal())
            lines.append({"step": step, "epoch": step / 40, "dev": {primary: min(value, 0.99)}})
    (directory / "log.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines), encoding="utf-8")


def make_study(
    directory: Path,
    labels: list[str] | None,
    *,
    seeds: tuple[int, ...] = (1, 2, 3),
    settings: dict[str, tuple[float, float]] | None = None,
    failed: int = 0,
    text: str | None = None,
    splits: tuple[str, ...] = ("dev", "test"),
    n: int = 300,
    tested: bool = False,
    steps: int = 120,
    primary: str | None = None,
) -> Path:
    """`settings` gives each one's skill and seconds; the last `failed` runs have failed and left no files."""
    settings = settings or {
        "minilm · frozen": (1.8, 9.0),
        "minilm · full": (3.0, 61.0),
        "bert-mini · full": (2.1, 24.0),
    }
    directory.mkdir(parents=True, exist_ok=True)
    runs: list[dict[str, Any]] = []
    wanted = [(i, s, seed) for i, s in enumerate(settings) for seed in seeds]
    for k, (i, setting, seed) in enumerate(wanted):
        lost = k >= len(wanted) - failed
        name = f"setting{i}-seed{seed}"
        reason = "the loss was not finite at step 12, rows 3, 99" if lost else None
        entry = {"name": name, "setting": setting, "seed": seed, "state": "failed" if lost else "done"}
        runs.append({**entry, "reason": reason})
        if not lost:
            skill, seconds = settings[setting]
            folder = directory / "runs" / name
            time = seconds * (1 + 0.05 * seed)
            source, method = _parts(setting)
            more: dict[str, Any] = {"text": text, "splits": splits, "n": n, "source": source, "method": method}
            more |= {"steps": steps, "primary": primary}
            make_run(folder, labels, seed=seed, skill=skill, seconds=time, **more)
    described = [
        {"name": s, "model": _parts(s)[0], "method": _parts(s)[1], "values": {}, "recipe": recipe(*_parts(s))}
        for s in settings
    ]
    facts = {
        "format": 2,
        "command": "heedful compare reviews.csv --text review --label stars --seeds 3",
        "data": data(labels, n, splits, "reviews"),
        "settings": described,
        "runs": runs,
    }
    write_json(directory / "study.json", facts)
    return decide(directory) if tested else directory


def add_fusion(
    directory: Path,
    labels: list[str],
    *,
    adapters: tuple[str, ...] = ("mnli", "qnli", "squad", "imdb"),
    layers: int = 12,
    places: tuple[str, ...] = ("feed_forward",),
    seed: int = 0,
    sharpness: float = 2.0,
    between_labels: float = 0.1,
) -> None:
    """What a run with a fusion says of its adapters, in the files of a run: the first adapter counts the more the
    higher the layer, the labels move the others, and seeds differ a little."""
    rng = np.random.default_rng(seed)

    def weights(layer: int, label: int) -> Any:
        scores = 0.1 * rng.normal(size=len(adapters))
        scores[0] += sharpness * layer / layers
        scores[1] += between_labels * label
        return np.exp(scores) / np.exp(scores).sum()

    sets = {}
    for split in ("dev", "test"):
        found = []
        for layer in range(layers):
            for place in places:
                by_label = {label: weights(layer, k) for k, label in enumerate(labels)}
                mean = np.mean(list(by_label.values()), axis=0).tolist()
                own = {label: values.tolist() for label, values in by_label.items()}
                found.append({"place": place, "layer": layer, "weights": mean, "by_label": own})
        sets[split] = {"texts": 300, "layers": found}
    metrics = json.loads((directory / "metrics.json").read_text())
    write_json(directory / "metrics.json", {**metrics, "fusion": {"adapters": list(adapters), "sets": sets}})


def _parts(setting: str) -> tuple[str, str]:
    """A setting is called "model · method", and may have more after that."""
    model, method, *_ = [*setting.split(" · "), ""]
    return model, method


def gold_of(labels: list[str] | None, k: int, n: int) -> list[Any]:
    """Of the k-th evaluation set: names of classes, or numbers."""
    rng = np.random.default_rng(k)
    if labels is None:
        return (rng.random(n) * 5).tolist()
    weights = np.arange(len(labels), 0, -1)
    return [labels[g] for g in rng.choice(len(labels), size=n, p=weights / weights.sum())]


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, allow_nan=False), encoding="utf-8")


def decide(directory: Path, *, chosen: str | None = None, fixed: tuple[str, ...] = ()) -> Path:
    """The study made whole: chosen in study.json, its table, and statistics.json. The numbers are made from the scores
    of the runs by rough formulas of their own: what matters to a report is that they stand in the files.

    `fixed` are settings in which no seed plays a part; `chosen` is the best on dev unless it is named, of those that
    are not baselines.
    """
    facts = json.loads((directory / "study.json").read_text())
    runs: dict[str, list[dict[str, Any]]] = {}
    final = {s["name"] for s in facts.get("final_settings", facts["settings"])}
    for entry in facts["runs"]:
        if entry["state"] == "done" and entry["setting"] in final:
            metrics = json.loads((directory / "runs" / entry["name"] / "metrics.json").read_text())
            runs.setdefault(entry["setting"], []).append({**entry, "metrics": metrics})
    first = next(iter(runs.values()))[0]["metrics"]
    metric = METRICS[first["primary"]]
    scores = {
        name: {
            s: [r["metrics"]["splits"][s][metric.name] for r in of][: 1 if name in fixed else None] for s in _sets(of)
        }
        for name, of in runs.items()
    }
    for baseline in {"tfidf"} & set(first["baselines"]):
        scores[baseline] = {s: [first["baselines"][baseline][s][metric.name]] for s in _sets(next(iter(runs.values())))}
    split = "test" if "test" in _sets(next(iter(runs.values()))) else "dev"
    fixed = (*fixed, "tfidf")
    table = [_row(directory, facts, name, scores[name], metric, name in fixed) for name in scores]
    made = [row for row in table if not row["baseline"]]
    chosen = chosen or max(made, key=lambda row: metric.sign * row["dev_mean"])["setting"]
    for setting in facts["settings"]:
        setting |= {"random": setting["name"] not in fixed, "baseline": False}
    tried = [row for row in facts.get("table", []) if row["setting"] not in scores]
    facts |= {"chosen": {"setting": chosen, "seed": None if chosen in fixed else 1}, "table": [*tried, *table]}
    write_json(directory / "study.json", facts)
    n = first["splits"][split]["n"]
    found = _statistics(scores, split, metric, chosen, fixed, n)
    if "confusion" in first["splits"][split]:
        _about_classes(directory, facts, found, runs, split, n)
    write_json(directory / "statistics.json", found)
    return directory


def _sets(runs: list[dict[str, Any]]) -> list[str]:
    return list(runs[0]["metrics"]["splits"])


def _row(directory: Path, facts: dict[str, Any], name: str, scores: Any, metric: Any, fixed: bool) -> dict[str, Any]:
    row = {"setting": name, "metric": metric.name, "higher_is_better": metric.higher_is_better, "random": not fixed}
    row |= {"baseline": False, "n": len(next(iter(scores.values())))}
    row |= {f"{split}_mean": fmean(values) for split, values in scores.items()}
    if name == "tfidf":
        return row | TFIDF | {"model_bytes": 812_345, "model_directory": "baselines/tfidf"}
    folder = next(r["name"] for r in facts["runs"] if r["setting"] == name)
    spent = json.loads((directory / "runs" / folder / "manifest.json").read_text())["cost"]
    row |= {"training_seconds": spent["training_seconds"], "prediction_seconds": 2.13, "model_bytes": 91_234_567}
    return row | {"model_directory": f"runs/{folder}/model"}


def _statistics(scores: Any, split: str, metric: Any, chosen: str, fixed: tuple[str, ...], n: int) -> dict[str, Any]:
    means = {name: fmean(of[split]) for name, of in scores.items()}
    spreads = {name: stdev(of[split]) if len(of[split]) > 1 else None for name, of in scores.items()}
    settings = {}
    for name, mean in means.items():
        seeds = len(scores[name][split])
        half = 2 * math.sqrt(0.1 / n + (spreads[name] or 0.0) ** 2 / seeds)
        about = "examples" if name in fixed else "seeds and examples" if seeds > 1 else "this run"
        ends = {"low": mean - half, "high": min(mean + half, 1.0) if metric.higher_is_better else mean + half}
        expected = {"mean": mean, **ends, "level": 0.95, "std": spreads[name], "about": about, "sentence": ""}
        settings[name] = {
            "baseline": name == "tfidf",
            "random": name not in fixed,
            "seeds": seeds,
            "expected": expected,
        }
    order = sorted(means, key=lambda name: (name != chosen, -metric.sign * means[name]))
    pairs = list(itertools.combinations(order, 2))
    comparisons = [_compared(a, b, means, settings, metric, n, len(pairs)) for a, b in pairs]
    ours = [row for row in comparisons if row["a"] == chosen]
    higher = [
        {
            "setting": row["b"],
            **{k: row[k] for k in ("difference", "low", "high", "p_corrected")},
            "sentence": _higher(row, split),
        }
        for row in ours
        if metric.sign * row["difference"] < 0
    ]
    content = {"format": 2, "split": split, "metric": metric.name, "higher_is_better": metric.higher_is_better}
    content |= {"chosen": chosen, "examples": n, "alpha": 0.05, "look": 1, "settings": settings}
    content |= {"comparisons": comparisons, "higher_on_test": higher, "not_compared": []}
    if ours:
        content["how_many_more"] = {"a": ours[0]["a"], "b": ours[0]["b"], **ours[0]["visible"]}
    return content


def _higher(row: dict[str, Any], split: str) -> str:
    return (
        f"{row['b']} scored {abs(row['difference']):.3f} {'higher' if row['difference'] < 0 else 'lower'} on {split}."
    )


def _compared(a: str, b: str, means: Any, settings: Any, metric: Any, n: int, pairs: int) -> dict[str, Any]:
    difference = means[a] - means[b]
    spread = sum((settings[x]["expected"]["std"] or 0.0) ** 2 / settings[x]["seeds"] for x in (a, b))
    error = math.sqrt(0.1 / n + spread)
    tested = all(settings[x]["expected"]["about"] != "this run" for x in (a, b))
    p = 2 * NORMAL.cdf(-abs(difference) / error) if tested else None
    corrected = None if p is None else min(1.0, pairs * p)
    shown = corrected is not None and corrected <= 0.05
    ahead = "a" if metric.sign * difference > 0 else "b"
    rows = math.ceil(n * (2.8 * error / 0.02) ** 2)
    least = 2.8 * error
    needs = [
        {"difference": d, "seeds_alone": None, "rows_alone": math.ceil(n * (least / d) ** 2), "seeds": 5, "rows": 4 * n}
        for d in (0.01, 0.02, 0.05)
    ]
    sentence = (
        f"This study could show differences from about {least:.3f}; for 0.02, label about {rows:,} test examples."
    )
    return {
        "a": a, "b": b, "difference": difference, "low": difference - 2 * error, "high": difference + 2 * error,
        "p": p, "p_corrected": corrected, "better": ahead if shown else None,
        "decided": "different" if shown else "open", "about": "seeds and examples", "pairs": pairs,
        "sentence": f"{a} − {b} is {difference:.3f}.",
        "visible": {"difference": least, "rough": True, "floor": 0.0, "needs": needs, "sentence": sentence},
    }  # fmt: skip


def _about_classes(directory: Path, facts: Any, found: Any, runs: Any, split: str, n: int) -> None:
    labels = facts["data"]["labels"]
    kept = directory / "examples" / f"{split}.jsonl"
    if kept.exists():
        examples = [json.loads(line) for line in kept.read_text().splitlines()]
    else:
        gold = gold_of(labels, ["dev", "test"].index(split), n)
        examples = [{"row": i, "gold": g, "text": TEXTS[i % len(TEXTS)], "pair": None} for i, g in enumerate(gold)]
    chosen = found["chosen"] if found["chosen"] in runs else next(iter(runs))
    columns = {
        name: [read_predictions(directory / "runs" / r["name"] / "predictions" / f"{split}.tsv")[1] for r in of]
        for name, of in runs.items()
    }
    metric = METRICS[found["metric"]]
    more = statistics_of_predictions(chosen, {split: columns}, {split: examples}, split, metric, True, labels)
    for name, facts_of in more.pop("settings", {}).items():
        found["settings"][name] |= facts_of
    found |= more if chosen == found["chosen"] else {}
