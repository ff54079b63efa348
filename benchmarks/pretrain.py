"""Pretraining by masked words, against `transformers` and its Trainer, on the same text, words and weights.

    pip install accelerate
    HEEDFUL_DATA=… python benchmarks/pretrain.py [--shape bert-mini] [--steps N] [--repetitions N] [--threads N]

The text are film reviews, or any file named by `--text`. Both sides start from the same random weights, with the same
tokenizer, batches of 32 rows of 128 tokens, dropout of 0.1, 15 % of the tokens asked for, AdamW and learning rate. The
peer is BertForMaskedLM, trained as its own example does: texts are joined and cut into blocks of 128 tokens, so that it
has no padding; its collator draws the masks. Ours cuts rows at the ends of sentences, and its batches have a little
padding, which is not counted: the figure is real tokens in a second.

Each repetition trains both for some steps, taking turns at being first, after a short training of each that is not
counted; the figures are medians. The peak is that of a large product of matrices on the same threads, measured between
the repetitions; the share of it is of the operations that our formula counts (three passes' worth).
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import Any

from finetune import hush_transformers, make_fit

BATCH, LENGTH, LR = 32, 128, 1e-4
VOCABULARIES = ("30522", "8000")


def recipe_for(text: str, shape: str, vocabulary: str, steps: int, next_sentence: bool) -> Any:
    from heedful.recipes.reading import make_recipe

    small = {"kind": "wordpiece", "size": int(vocabulary)}
    return make_recipe(
        {
            "model": {"shape": shape},
            "tokenizer": {"name": "minilm"} if vocabulary == "30522" else small,
            "data": {"corpus": text, "separator": "line"},
            "objective": {"kind": "mask", "next_sentence": next_sentence},
            "training": {
                "steps": steps, "batch_size": BATCH, "max_length": LENGTH, "lr": LR, "device": "cpu",
                "checkpoint_seconds": 10_000,
            },
        }
    )  # fmt: skip


class Contest:
    def __init__(self, text: str, shape: str, vocabulary: str, steps: int, scratch: Path) -> None:
        from heedful.storage.shared import SharedStore
        from heedful.training.assembly import assemble, read_source

        self.text, self.shape, self.vocabulary, self.steps, self.scratch = text, shape, vocabulary, steps, scratch
        self.store = SharedStore(scratch / "store")
        self.recipe = recipe_for(text, shape, vocabulary, steps, next_sentence=False)
        self.parts = assemble(read_source(self.recipe, 0, self.store), self.store)
        from heedful.checkpoints.directory import write_model

        self.model = scratch / "model"
        write_model(self.model, self.parts.checkpoint)
        self.blocks = self._blocks()

    def _blocks(self) -> list[list[int]]:
        """Texts joined and cut, as the peer's own example has it."""
        corpus = self.parts.inputs.rows["train"].corpus
        tokenizer = self.parts.checkpoint.tokenizer
        assert tokenizer is not None
        documents = (corpus.ids(*corpus.document(i)).tolist() for i in range(corpus.documents))
        joined = chain.from_iterable([tokenizer.cls_id, *ids, tokenizer.sep_id] for ids in documents)
        blocks = []
        while len(block := list(islice(joined, LENGTH))) == LENGTH and len(blocks) < 2 * BATCH * self.steps:
            blocks.append(block)
        return blocks

    def ours(self) -> dict[str, float]:
        from heedful.training.assembly import assemble, read_source

        parts = assemble(read_source(self.recipe, 0, self.store), self.store)
        with tempfile.TemporaryDirectory() as folder:
            progress = make_fit(self.recipe, parts, Path(folder)).run()
        rate = progress.tokens / progress.seconds
        return {"tokens_per_second": rate, "flops_per_second": 3 * progress.forward_flops / progress.seconds}

    def theirs(self) -> dict[str, float]:
        import transformers

        hush_transformers()
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.model)
        model = transformers.BertForMaskedLM.from_pretrained(self.model)
        with tempfile.TemporaryDirectory() as folder:
            trainer = transformers.Trainer(
                model=model,
                args=transformers.TrainingArguments(
                    output_dir=folder, max_steps=self.steps, per_device_train_batch_size=BATCH, learning_rate=LR,
                    weight_decay=0.01, optim="adamw_torch_fused", save_strategy="no", report_to=[], use_cpu=True,
                    disable_tqdm=True, dataloader_pin_memory=False,
                ),
                train_dataset=[{"input_ids": block} for block in self.blocks],
                data_collator=transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15),
            )  # fmt: skip
            trainer.pop_callback(transformers.trainer_callback.PrinterCallback)
            clock = _steps_clock(transformers)
            trainer.add_callback(clock)
            trainer.train()
        return {"tokens_per_second": self.steps * BATCH * LENGTH / clock.seconds}


def _steps_clock(transformers: Any) -> Any:
    """Takes the time of the peer's steps alone, as ours are taken: not that of what it makes ready before them."""

    class Clock(transformers.TrainerCallback):  # type: ignore[misc]
        seconds = 0.0

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            self.started = time.perf_counter()

        def on_train_end(self, *_: Any, **__: Any) -> None:
            self.seconds = time.perf_counter() - self.started

    return Clock()


def peak_rate(seconds: float = 1.0) -> float:
    """Operations a second of a product of large matrices."""
    import torch

    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    a @ b
    done, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        a @ b
        done += 1
    return 2 * 1024**3 * done / (time.perf_counter() - started)


def measure(text: str, shape: str, vocabulary: str, steps: int, repetitions: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        contest = Contest(text, shape, vocabulary, steps, Path(scratch))
        contest.steps, contest.recipe = 2, recipe_for(text, shape, vocabulary, 2, next_sentence=False)
        contest.ours(), contest.theirs()
        contest.steps, contest.recipe = steps, recipe_for(text, shape, vocabulary, steps, next_sentence=False)
        taken: dict[str, list[dict[str, float]]] = {"heedful": [], "transformers": []}
        peaks = []
        for n in range(repetitions):
            turns = [("heedful", contest.ours), ("transformers", contest.theirs)]
            for name, train in turns if n % 2 == 0 else turns[::-1]:
                taken[name].append(train())
                rate = taken[name][-1]["tokens_per_second"]
                print(f"  {vocabulary} words, {name}: {rate:.0f} tokens/s", file=sys.stderr, flush=True)
            peaks.append(peak_rate())
    rates = {name: statistics.median(one["tokens_per_second"] for one in some) for name, some in taken.items()}
    flops, peak = statistics.median(one["flops_per_second"] for one in taken["heedful"]), statistics.median(peaks)
    return {
        "vocabulary": int(vocabulary),
        "tokens_per_second": rates,
        "ratio": rates["heedful"] / rates["transformers"],
        "share_of_peak": flops / peak,
        "peak_gigaflops": peak / 1e9,
        "repetitions": repetitions,
        "each": taken,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="bert-mini")
    parser.add_argument("--text", default="reviews", help="a file of lines, or a named corpus")
    parser.add_argument("--vocabulary", nargs="+", choices=VOCABULARIES, default=list(VOCABULARIES))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    import torch

    torch.set_num_threads(given.threads)
    results = [measure(given.text, given.shape, v, given.steps, given.repetitions) for v in given.vocabulary]
    facts = {
        "shape": given.shape, "steps": given.steps, "threads": given.threads, "machine": platform.processor(),
        "versions": {name: version(name) for name in ("torch", "transformers", "accelerate")}, "results": results,
    }  # fmt: skip
    if given.json:
        print(json.dumps(facts, indent=2))
        return
    for one in results:
        rates = one["tokens_per_second"]
        print(
            f"{one['vocabulary']:,} words: heedful {rates['heedful']:,.0f} tokens/s, transformers "
            f"{rates['transformers']:,.0f}; ratio {one['ratio']:.2f}; {100 * one['share_of_peak']:.0f} % of a peak of "
            f"{one['peak_gigaflops']:.0f} GFLOP/s"
        )


if __name__ == "__main__":
    main()
