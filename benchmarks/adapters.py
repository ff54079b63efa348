"""Adapters and low-rank changes, against PEFT's LoRA with the Trainer of `transformers`, and tuning every weight.

    pip install accelerate peft
    HEEDFUL_DATA=… python benchmarks/adapters.py [--shape bert-mini] [--rows N] [--repetitions N] [--threads N]

SST-2 and RTE, or without HEEDFUL_DATA the tickets of the package; `minilm`, or a named shape with random weights. All
have the same weights, rows, batch size, longest text, learning rate, AdamW, and a head on the pooled first state. (Our
own default for adapters is the mean of all states, for which the last layer is computed whole: `--pooling mean`.)
Dropout is as each has it by default: ours has none in a body that does not move, while the Trainer leaves that of the
body on; how much of a ratio that is, `--peer-without-dropout` shows. PEFT's LoRA is as ours is: query and value, rank
8, alpha 16, no dropout of its own. "grouped" is the Trainer's group_by_length, else it pads each batch to its longest
row. "upper" has adapters in the upper half of the layers alone, so that what the lower half gives is computed once
("once", which is in no other column) and read from a file.

"steps" are the seconds that an epoch's steps take, batches made included: the figure to quote. "epoch" is the whole
call that trains, where ours also writes its exact checkpoint, which the Trainer is told not to, and the Trainer makes
itself ready, which weighs in short runs. Reading the model and making token ids are in neither. The contestants take
turns, each time from another one on, after a short training of each that is not counted; figures are medians, and a
ratio is one of two medians. Memory is the peak of a fresh process for each, which has the modules that it imports in
it, and the pages of the mapped file of "upper".
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from finetune import BATCH, LENGTH, LR, SHAPES, hush_transformers, make_fit, make_trainer, random_model, source_of

RANK, ALPHA = 8, 16
OURS = ("full", "adapter", "lora", "upper")
PEERS = ("peft", "peft grouped")
RATIOS = (
    *((peer, ours) for ours in ("lora", "adapter", "upper") for peer in PEERS),
    ("full", "adapter"),
    ("full", "lora"),
    ("full", "upper"),
)
WARM_UP = 2 * BATCH  # rows


@dataclass(frozen=True)
class Rows:
    """Training rows as both sides get them, also those in a process of their own."""

    data: str
    texts: list[str]
    pairs: list[str] | None
    labels: list[int]
    classes: list[str]

    def first(self, count: int | None) -> "Rows":
        pairs = None if self.pairs is None else self.pairs[:count]
        return replace(self, texts=self.texts[:count], pairs=pairs, labels=self.labels[:count])


@dataclass(frozen=True)
class Taken:
    """By one training."""

    steps: float
    """Seconds of an epoch's steps."""
    epoch: float
    """Seconds of an epoch with all that belongs to it."""
    once: float
    tokens: int
    """Real ones, in an epoch."""
    trained: int
    """Parameters that move."""


@dataclass(frozen=True)
class Setting:
    """What is the same for all contestants."""

    directory: str
    pooling: str
    epochs: int
    peer_dropout: bool

    def train(self, contestant: str, rows: Rows) -> Taken:
        with tempfile.TemporaryDirectory() as scratch:
            return (self._ours if contestant in OURS else self._peer)(contestant, rows, Path(scratch))

    def _tuning(self, contestant: str) -> dict[str, Any]:
        layers = json.loads((Path(self.directory) / "config.json").read_text(encoding="utf-8"))["num_hidden_layers"]
        return {
            "full": {"method": "full"},
            "adapter": {"method": "adapter"},
            "lora": {"method": "lora", "maps": ["query", "value"], "rank": RANK, "alpha": ALPHA},
            "upper": {"method": "adapter", "layers": list(range(layers // 2, layers))},
        }[contestant]

    def _ours(self, contestant: str, rows: Rows, scratch: Path) -> Taken:
        from heedful.data.records import Dataset, Examples
        from heedful.recipes.reading import make_recipe
        from heedful.storage.shared import SharedStore
        from heedful.training.assembly import assemble

        training = {"epochs": self.epochs, "batch_size": BATCH, "lr": LR, "max_length": LENGTH, "device": "cpu"}
        model = {"name": self.directory, "pooling": self.pooling}
        recipe = make_recipe(
            {
                "model": model if rows.pairs is None else {**model, "pairs": "joint"},
                "data": {"name": rows.data},
                "tuning": self._tuning(contestant),
                "training": training,
            }
        )
        names = [rows.classes[label] for label in rows.labels]
        train = Examples(rows.texts, rows.pairs, names, None, list(range(1, len(names) + 1)))
        data = Dataset(rows.data, "classes", tuple(rows.classes), train, None, None)
        parts = assemble(source_of(recipe, data), SharedStore(scratch / "store"))
        started = time.perf_counter()
        progress = make_fit(recipe, parts, scratch).run()
        parts.tuning.finish(progress.decay)
        seconds = time.perf_counter() - started
        once = parts.tuning.once.seconds if contestant == "upper" else 0.0
        trained = sum(p.numel() for p in parts.tuning.trainable().values())
        n = self.epochs
        return Taken(progress.seconds / n, seconds / n, once, progress.tokens // n, trained)

    def _peer(self, contestant: str, rows: Rows, scratch: Path) -> Taken:
        import peft
        import transformers

        hush_transformers()
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.directory)
        made = tokenizer(rows.texts, rows.pairs, truncation=True, max_length=LENGTH)
        dataset = [
            {**{name: made[name][i] for name in tokenizer.model_input_names}, "labels": label}
            for i, label in enumerate(rows.labels)
        ]
        dropout = {} if self.peer_dropout else {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        body = transformers.AutoModelForSequenceClassification.from_pretrained(
            self.directory, num_labels=len(rows.classes), **dropout
        )
        config = peft.LoraConfig(task_type="SEQ_CLS", r=RANK, lora_alpha=ALPHA, target_modules=["query", "value"])
        model = peft.get_peft_model(body, config)
        grouped = contestant == "peft grouped"
        trainer = make_trainer(model, tokenizer, dataset, str(scratch), self.epochs, grouped)
        started = time.perf_counter()
        steps = trainer.train().metrics["train_runtime"]
        seconds = time.perf_counter() - started
        trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
        n = self.epochs
        return Taken(steps / n, seconds / n, 0.0, sum(map(len, made["input_ids"])), trained)


def rows_of(name: str, count: int | None) -> Rows:
    from heedful.data.examples import load_dataset

    data = load_dataset(name=name)
    classes = list(data.labels)
    if data.train.labels is None:
        sys.exit(f"{name} has scores; name sets with classes")
    labels = [classes.index(label) for label in data.train.labels]
    return Rows(name, data.train.texts, data.train.pairs, labels, classes).first(count)


def peak(contestant: str, setting: Setting, rows: Rows, threads: int) -> int:
    """Bytes of a fresh process that trains this once."""
    given = {"contestant": contestant, "setting": asdict(setting), "rows": asdict(rows), "threads": threads}
    done = subprocess.run(
        [sys.executable, __file__, "--peak"], input=json.dumps(given), check=True, stdout=subprocess.PIPE, text=True
    )
    return int(done.stdout.splitlines()[-1])


def run_peak() -> None:
    import torch

    given = json.load(sys.stdin)
    torch.set_num_threads(given["threads"])
    Setting(**given["setting"]).train(given["contestant"], Rows(**given["rows"]))
    from heedful.training.cost import peak_memory

    print(peak_memory())


def measure(setting: Setting, rows: Rows, repetitions: int, threads: int) -> dict[str, Any]:
    contestants = [*OURS, *PEERS]
    for contestant in contestants:
        replace(setting, epochs=1).train(contestant, rows.first(WARM_UP))
    taken: dict[str, list[Taken]] = {contestant: [] for contestant in contestants}
    for n in range(repetitions):
        turn = n % len(contestants)
        for contestant in contestants[turn:] + contestants[:turn]:
            taken[contestant].append(setting.train(contestant, rows))
            print(f"  {rows.data} {contestant} {taken[contestant][-1].epoch:.2f} s", file=sys.stderr, flush=True)
    tokens = {t.tokens for trainings in taken.values() for t in trainings}
    if len(tokens) > 1:
        sys.exit(f"{rows.data}: the contestants read different numbers of tokens: {sorted(tokens)}")
    middle = {
        contestant: {key: statistics.median(getattr(t, key) for t in trainings) for key in ("steps", "epoch", "once")}
        for contestant, trainings in taken.items()
    }
    return {
        "rows": len(rows.texts),
        "tokens": tokens.pop(),
        "batches": -(-len(rows.texts) // BATCH),
        "median": middle,
        "every": {contestant: [asdict(t) for t in trainings] for contestant, trainings in taken.items()},
        "ratios": {
            f"{a} / {b}": {key: middle[a][key] / middle[b][key] for key in ("steps", "epoch")} for a, b in RATIOS
        },
        "peak": {contestant: peak(contestant, setting, rows, threads) for contestant in contestants},
    }


def show(data: str, found: dict[str, Any]) -> None:
    print(f"\n{data}: {found['rows']} rows, {found['tokens']} tokens, {found['batches']} batches of {BATCH}\n")
    print(
        "| | ms a step | steps, s | epoch, s | once, s | trained parameters | peak MB |\n|---|---|---|---|---|---|---|"
    )
    for name, m in found["median"].items():
        step = 1000 * m["steps"] / found["batches"]
        once = f"{m['once']:.2f}" if m["once"] else ""
        trained, megabytes = found["every"][name][0]["trained"], found["peak"][name] / 1e6
        print(f"| {name} | {step:.1f} | {m['steps']:.2f} | {m['epoch']:.2f} | {once} | {trained} | {megabytes:.0f} |")
    print("\n| ratio | steps | epoch |\n|---|---|---|")
    for name, ratio in found["ratios"].items():
        print(f"| {name} | {ratio['steps']:.2f} | {ratio['epoch']:.2f} |")
    adapter, upper = found["median"]["adapter"], found["median"]["upper"]
    saved = adapter["steps"] - upper["steps"]
    after = f"{upper['once'] / saved:.1f} epochs" if saved > 0 else "no number of epochs"
    print(f"\nupper: what is computed once pays after {after}, against adapters in all layers", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--model", default="minilm", help="a named model or a directory")
    which.add_argument("--shape", choices=list(SHAPES), help="instead: random weights of a shape")
    parser.add_argument("--data", nargs="+", help="named sets with classes")
    parser.add_argument("--rows", type=int, default=1024, help="train on the first N rows; 0: on all")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=1, help="in each repetition")
    parser.add_argument("--pooling", choices=["cls", "mean"], default="cls", help="what our heads read")
    parser.add_argument("--peer-without-dropout", action="store_true", help="also the body's")
    parser.add_argument("--threads", type=int, help="default: PyTorch's own number")
    parser.add_argument("--json", type=Path, help="write everything that was measured here")
    parser.add_argument("--peak", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        run_peak()
        return
    import torch

    from heedful.checkpoints.finding import find

    threads = options.threads or torch.get_num_threads()
    torch.set_num_threads(threads)
    names = options.data or (["sst2", "rte"] if os.environ.get("HEEDFUL_DATA") else ["tickets"])
    about: dict[str, Any] = {
        "model": options.shape or options.model,
        "pooling": options.pooling,
        "peer's dropout": "none" if options.peer_without_dropout else "default",
        "epochs": options.epochs,
        "repetitions": options.repetitions,
        "threads": threads,
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("heedful", "torch", "transformers", "peft", "accelerate")},
        },
    }
    print(", ".join(f"{key} {value}" for key, value in about.items() if key != "versions"))
    print(", ".join(f"{name} {number}" for name, number in about["versions"].items()), flush=True)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        directory = random_model(options.shape, Path(scratch)) if options.shape else str(find(options.model))
        setting = Setting(directory, options.pooling, options.epochs, not options.peer_without_dropout)
        for name in names:
            found[name] = measure(setting, rows_of(name, options.rows or None), options.repetitions, threads)
            show(name, found[name])
    if options.json:
        options.json.write_text(json.dumps({**about, "data": found}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
