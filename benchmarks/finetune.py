"""Fine-tuning on SST-2, against the Trainer of `transformers` with the same weights, rows, batch size and epochs.

    pip install accelerate
    HEEDFUL_DATA=… python benchmarks/finetune.py [MODEL …] [--rows N] [--rounds N]

Full: one epoch of every row. "dynamic" pads each batch of the Trainer to its longest row (its default with a padding
collator), "grouped" is its group_by_length. Frozen: ten epochs of the head on a body that does not move. The texts are
token ids already on both sides; ours counts everything else, also the exact checkpoint at the end of each epoch, which
the Trainer is told not to write. The sides take turns; a ratio is the median of the peer's seconds over ours. Memory is
the peak of a fresh process for each side. The rate is that of the matrix products of real tokens (three times those of
the forward pass), beside what two large matrices reach on the same machine in the same minute.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BATCH, LR, LENGTH, EPOCHS_FROZEN = 32, 5e-5, 128, 10
SHAPES = {"bert-tiny": (2, 128, 2), "bert-mini": (4, 256, 4)}


def rows_of(limit: int | None) -> tuple[list[str], list[int]]:
    data = os.environ.get("HEEDFUL_DATA")
    if not data:
        sys.exit("set HEEDFUL_DATA to the folder that holds sst2/")
    lines = (Path(data) / "sst2" / "stsa.binary.train").read_text(encoding="utf-8").splitlines()[:limit]
    return [line[2:] for line in lines], [int(line[0]) for line in lines]


def source_of(recipe: Any, data: Any) -> Any:
    """What is learned of a data set that is in memory."""
    from heedful.data.labelled import LabelledData
    from heedful.objectives.classify import Classify
    from heedful.training.assembly import Source

    objective = Classify(recipe, LabelledData(data))
    return Source(recipe, 0, objective.data, objective, objective.evaluator())


def make_fit(recipe: Any, parts: Any, directory: Path) -> Any:
    """Our training of what was assembled from the recipe, without dev."""
    from heedful.training.loop import Fit

    return Fit(
        objective=parts.objective,
        inputs=parts.inputs,
        sampler=parts.sampler,
        evaluator=parts.evaluator,
        tuning=parts.tuning,
        training=recipe.training,
        seed=0,
        directory=directory,
        judge=None,
        watch=lambda *_: None,
        should_stop=lambda: False,
    )


def hush_transformers() -> None:
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def make_trainer(model: Any, tokenizer: Any, rows: list[Any], directory: str, epochs: int, grouped: bool) -> Any:
    """Their training with our defaults, without dev and without checkpoints."""
    import transformers

    trainer = transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(
            output_dir=directory,
            num_train_epochs=epochs,
            per_device_train_batch_size=BATCH,
            learning_rate=LR,
            weight_decay=0.01,
            warmup_steps=0.1,
            train_sampling_strategy="group_by_length" if grouped else "random",
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            dataloader_pin_memory=False,
        ),
        train_dataset=rows,
        data_collator=transformers.DataCollatorWithPadding(tokenizer),
    )
    trainer.pop_callback(transformers.trainer_callback.PrinterCallback)
    return trainer


class Ours:
    def __init__(self, directory: str, texts: list[str], labels: list[int]) -> None:
        from heedful.data.records import Dataset, Examples

        self.directory = directory
        names = ["positive" if label else "negative" for label in labels]
        train = Examples(texts, None, names, None, list(range(1, len(texts) + 1)))
        self.data = Dataset("sst2", "classes", ("negative", "positive"), train, None, None)

    def parts(self, what: str, scratch: Path) -> Any:
        """The recipe, and everything that a step needs; the token ids are not timed."""
        from heedful.recipes.reading import make_recipe
        from heedful.storage.shared import SharedStore
        from heedful.training.assembly import assemble

        frozen = what == "frozen"
        training = {"epochs": EPOCHS_FROZEN if frozen else 1, "batch_size": BATCH, "lr": LR, "max_length": LENGTH}
        content = {
            "model": {"name": self.directory, "pooling": "cls"},
            "data": {"name": "sst2"},
            "tuning": {"method": "frozen", "solve": False} if frozen else {"method": "full"},
            "training": {**training, "device": "cpu"},
        }
        recipe = make_recipe(content)
        return recipe, assemble(source_of(recipe, self.data), SharedStore(scratch / "store"))

    def train(self, what: str) -> float:
        with tempfile.TemporaryDirectory() as name:
            scratch = Path(name)
            self.parts("full", scratch)  # leaves the token ids in the store
            started = time.perf_counter()
            recipe, parts = self.parts(what, scratch)
            progress = make_fit(recipe, parts, scratch).run()
            parts.tuning.finish(progress.decay)
            return time.perf_counter() - started

    def flops(self) -> int:
        with tempfile.TemporaryDirectory() as scratch:
            _, parts = self.parts("full", Path(scratch))
            return int(3 * parts.inputs.everything().forward_flops(parts.tuning.transformer.shape))


class Peer:
    def __init__(self, directory: str, texts: list[str], labels: list[int]) -> None:
        import transformers

        hush_transformers()
        self.directory = directory
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
        tokens = self.tokenizer(texts, truncation=True, max_length=LENGTH)
        self.rows = [
            {"input_ids": i, "attention_mask": a, "labels": y}
            for i, a, y in zip(tokens["input_ids"], tokens["attention_mask"], labels, strict=True)
        ]

    def train(self, what: str) -> float:
        import transformers

        model = transformers.AutoModelForSequenceClassification.from_pretrained(self.directory, num_labels=2)
        if what == "frozen":
            model.bert.requires_grad_(False)
        with tempfile.TemporaryDirectory() as scratch:
            epochs = EPOCHS_FROZEN if what == "frozen" else 1
            trainer = make_trainer(model, self.tokenizer, self.rows, scratch, epochs, grouped=what == "grouped")
            started = time.perf_counter()
            trainer.train()
            return time.perf_counter() - started


SIDES = {"ours": Ours, "peer": Peer}


def peak(side: str, directory: str, what: str, limit: int) -> int:
    """Megabytes of a fresh process that trains this once on at most `limit` rows."""
    arguments = [sys.executable, __file__, directory, "--rows", str(limit), "--peak", f"{side}:{what}"]
    return int(json.loads(subprocess.run(arguments, check=True, capture_output=True).stdout))


def matrix_rate() -> float:
    """Floating-point operations a second of one large product, the best of a few."""
    import torch

    a, b = torch.rand(1024, 1024), torch.rand(1024, 1024)
    best = 0.0
    for _ in range(20):
        started = time.perf_counter()
        a @ b
        best = max(best, 2 * 1024**3 / (time.perf_counter() - started))
    return best


def random_model(name: str, into: Path) -> str:
    """A directory with a body of this shape, random weights and the tokenizer of `minilm`."""
    import transformers

    import heedful

    hush_transformers()
    layers, width, heads = SHAPES[name]
    transformers.set_seed(0)
    config = transformers.BertConfig(
        num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads, intermediate_size=4 * width
    )
    transformers.BertModel(config).save_pretrained(into / name)
    heedful.load("minilm").tokenizer.save(into / name)
    return str(into / name)


def measure(directory: str, limit: int | None, rounds: int) -> dict[str, Any]:
    texts, labels = rows_of(limit)
    sides = {name: side(directory, texts, labels) for name, side in SIDES.items()}
    plan = [("ours", "full"), ("peer", "dynamic"), ("peer", "grouped"), ("ours", "frozen"), ("peer", "frozen")]
    seconds: dict[tuple[str, str], list[float]] = {key: [] for key in plan}
    rates = []
    for _ in range(rounds):
        rates.append(matrix_rate())
        for side, what in plan:
            seconds[side, what].append(sides[side].train(what))
            print(f"  {side} {what} {seconds[side, what][-1]:.1f} s", file=sys.stderr, flush=True)
    middle = {key: statistics.median(values) for key, values in seconds.items()}
    rate, top = sides["ours"].flops() / middle["ours", "full"], statistics.median(rates)
    sample = 1024
    return {
        "rows": len(texts),
        "rounds": rounds,
        "seconds": {f"{side} {what}": round(value, 2) for (side, what), value in middle.items()},
        "ratio": {
            "dynamic": round(middle["peer", "dynamic"] / middle["ours", "full"], 2),
            "grouped": round(middle["peer", "grouped"] / middle["ours", "full"], 2),
            "frozen": round(middle["peer", "frozen"] / middle["ours", "frozen"], 2),
        },
        "peak_mb": {f"{s} {w}": peak(s, directory, w, sample) for s, w in plan},
        "gflops": {"step": round(rate / 1e9, 1), "matrix product": round(top / 1e9, 1), "share": round(rate / top, 2)},
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=["bert-tiny", "bert-mini", "minilm"])
    parser.add_argument("--rows", type=int, help="train on the first N rows")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peak")
    options = parser.parse_args()
    if options.peak:
        side, what = options.peak.split(":")
        SIDES[side](options.models[0], *rows_of(options.rows)).train(what)
        from heedful.training.cost import peak_memory

        print(peak_memory() // 1_000_000)
        return
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.models:
            print(name, file=sys.stderr)
            if name in SHAPES:
                directory = random_model(name, Path(scratch))
            else:
                from heedful.checkpoints.finding import find

                directory = str(find(name))
            print(json.dumps({name: measure(directory, options.rows, options.rounds)}, indent=2), flush=True)


if __name__ == "__main__":
    main()
