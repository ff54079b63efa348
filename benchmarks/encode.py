"""Features for classification, against `transformers` with the same weights in the same process.

    HEEDFUL_DATA=… python benchmarks/encode.py [MODEL …]

Real sentences (SST-2's test set), sorted by length into batches of 32, the state of the first token through the pooler.
The two sides take turns; a ratio is the median of the peer's time over the median of ours. "whole" includes the
tokenizer, "model" has the batches as tensors already. Memory: the peak of a fresh process that loads the model and
encodes every sentence, and how far that is above the same process after its imports.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BATCH = 32
SHAPES = {"bert-tiny": (2, 128, 2), "bert-mini": (4, 256, 4)}


def sentences() -> list[str]:
    data = os.environ.get("HEEDFUL_DATA")
    if not data:
        sys.exit("set HEEDFUL_DATA to the folder that holds sst2/")
    lines = (Path(data) / "sst2" / "stsa.binary.test").read_text(encoding="utf-8").splitlines()
    return [line[2:] for line in lines]


class Ours:
    def __init__(self, directory: str) -> None:
        import heedful

        self.model = heedful.load(directory)

    def whole(self, texts: list[str]) -> Any:
        return self.model.encode(texts, pooling="cls", batch_size=BATCH)

    def batches(self, texts: list[str]) -> list[Any]:
        import torch

        from heedful.inference.batching import BatchRule, batches
        from heedful.inference.items import encode_texts
        from heedful.inference.reader import collate

        items = encode_texts(self.model.tokenizer, texts, 512)
        pad_id, device = self.model.transformer.shape.pad_id, torch.device("cpu")
        chosen = batches([item.tokens for item in items], BatchRule(BATCH, None))
        return [collate([items[i] for i in rows], pad_id, device)[0] for rows in chosen]

    def forward(self, batch: Any) -> Any:
        return self.model.transformer.features("pooled", batch).numpy()


class Peer:
    def __init__(self, directory: str) -> None:
        import transformers

        transformers.utils.logging.disable_progress_bar()
        self.model = transformers.AutoModel.from_pretrained(directory).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(directory)

    def whole(self, texts: list[str]) -> Any:
        import numpy as np
        import torch

        features = np.empty((len(texts), self.model.config.hidden_size), dtype=np.float32)
        tokens = self.tokenizer(texts, truncation=True, max_length=512)
        order = sorted(range(len(texts)), key=lambda r: -len(tokens["input_ids"][r]))
        with torch.inference_mode():
            for at in range(0, len(order), BATCH):
                rows = order[at : at + BATCH]
                batch = self.tokenizer.pad({k: [v[r] for r in rows] for k, v in tokens.items()}, return_tensors="pt")
                features[rows] = self.forward(batch)
        return features

    def batches(self, texts: list[str]) -> list[Any]:
        tokens = self.tokenizer(texts, truncation=True, max_length=512)
        order = sorted(range(len(texts)), key=lambda r: -len(tokens["input_ids"][r]))
        chosen = [order[at : at + BATCH] for at in range(0, len(order), BATCH)]
        return [
            self.tokenizer.pad({k: [v[r] for r in rows] for k, v in tokens.items()}, return_tensors="pt")
            for rows in chosen
        ]

    def forward(self, batch: Any) -> Any:
        return self.model(**batch).pooler_output.numpy()


def interleaved(ours: Callable[[], Any], peer: Callable[[], Any], repetitions: int) -> tuple[float, float]:
    """Median seconds of each; they take turns, so that a slow minute of the machine hits both."""
    times: tuple[list[float], list[float]] = ([], [])
    for n in range(repetitions + 1):
        for side, call in enumerate((ours, peer) if n % 2 else (peer, ours)):
            start = time.perf_counter()
            call()
            if n:  # the first round only warms up
                times[side if n % 2 else 1 - side].append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def measure(directory: str, texts: list[str], repetitions: int) -> dict[str, Any]:
    import numpy as np
    import torch

    ours, peer = Ours(directory), Peer(directory)
    error = float(np.abs(ours.whole(texts) - peer.whole(texts)).max())
    found: dict[str, Any] = {"largest error": error, "sentences": len(texts), "threads": torch.get_num_threads()}
    found["whole"] = interleaved(lambda: ours.whole(texts), lambda: peer.whole(texts), repetitions)
    mine, theirs = ours.batches(texts), peer.batches(texts)
    with torch.inference_mode():
        found["model"] = interleaved(
            lambda: [ours.forward(b) for b in mine], lambda: [peer.forward(b) for b in theirs], repetitions
        )
    singles = iter(texts * 3)
    current = {"text": ""}

    def next_ours() -> None:
        current["text"] = next(singles)
        ours.whole([current["text"]])

    found["latency"] = interleaved(next_ours, lambda: peer.whole([current["text"] or texts[0]]), 40 * repetitions)
    return found


def peak(side: str, directory: str) -> dict[str, int]:
    """In a fresh process: bytes after the imports, and at the peak."""
    done = subprocess.run(
        [sys.executable, __file__, "--peak", side, directory], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def run_peak(side: str, directory: str) -> None:
    import numpy  # noqa: F401
    import torch  # noqa: F401

    if side == "Ours":
        import heedful.api  # noqa: F401
    else:
        from transformers import AutoModel, AutoTokenizer, BertModel  # noqa: F401
    before = high_water()
    {"Ours": Ours, "Peer": Peer}[side](directory).whole(sentences())
    print(json.dumps({"imports": before, "peak": high_water()}))


def high_water() -> int:
    """The process's peak of resident memory (getrusage would include that of the parent it was forked from)."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def make_directories(scratch: Path) -> dict[str, str]:
    """`minilm`, and the two shapes with random weights and minilm's tokenizer."""
    import torch
    import transformers

    import heedful

    minilm = heedful.load("minilm")
    minilm.save(scratch / "minilm")
    for name, (layers, width, heads) in SHAPES.items():
        torch.manual_seed(0)
        config = transformers.BertConfig(
            hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * width
        )
        transformers.BertModel(config).save_pretrained(scratch / name)
        minilm.tokenizer.save(scratch / name)
    return {name: str(scratch / name) for name in (*SHAPES, "minilm")}


def main() -> None:
    texts = sentences()
    columns = ["model", "sentences/s, ours", "peer", "ratio whole", "ratio model", "latency ms, ours", "peer", "ratio"]
    columns += ["peak MB, ours", "peer"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    with tempfile.TemporaryDirectory() as scratch:
        for name, directory in make_directories(Path(scratch)).items():
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            some = texts if name == "bert-tiny" else texts[:512]
            found = measure(directory, some, repetitions=7)
            memory = {side: peak(side, directory) for side in ("Ours", "Peer")}
            (a, b), (c, d), (e, f) = found["whole"], found["model"], found["latency"]
            mb = [f"{m['peak'] / 1e6:.0f} (+{(m['peak'] - m['imports']) / 1e6:.0f})" for m in memory.values()]
            print(
                f"| {name} | {len(some) / a:.0f} | {len(some) / b:.0f} | **{b / a:.2f}** | **{d / c:.2f}** "
                f"| {1e3 * e:.2f} | {1e3 * f:.2f} | **{f / e:.2f}** | {mb[0]} | {mb[1]} |",
                flush=True,
            )
            print(f"{name}: largest error {found['largest error']:.1e}, {found['threads']} threads", file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak"]:
        run_peak(*sys.argv[2:])
    else:
        main()
