"""A pretrained encoder as it is put into the package: half precision, dropout for fine-tuning, checksums.

    python benchmarks/embed.py runs/pretrain-tiny-en/best src/heedful/checkpoints/embedded/heedful-tiny-en

The weights are rounded to float16, which halves the file; they are read as float32. Pretraining goes without dropout,
as hardly a text is seen twice, and fine-tuning, which sees its texts several times, with the usual 0.1. What is printed
goes into the catalog. The model card, README.md, stays as it is.
"""

import hashlib
import json
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

import heedful

DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
MOST_BYTES = 8_000_000


def main() -> None:
    source, target = map(Path, sys.argv[1:])
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "model"
        heedful.load(source).save(written)
        for path in sorted(written.iterdir()):
            if path.suffix == ".safetensors":
                halve(path, target / path.name)
            elif path.name == "config.json":
                config = json.loads(path.read_text(encoding="utf-8")) | DROPOUT
                text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
                (target / path.name).write_text(text, encoding="utf-8")
            else:
                (target / path.name).write_bytes(path.read_bytes())
            print(f'"{path.name}": "{hashlib.sha256((target / path.name).read_bytes()).hexdigest()}",')
    size = sum(path.stat().st_size for path in target.iterdir())
    print(f"{size / 1e6:.2f} MB", file=sys.stderr)
    if size > MOST_BYTES:
        sys.exit(f"more than {MOST_BYTES / 1e6:.0f} MB")


def halve(source: Path, target: Path) -> None:
    tensors = load_file(source)
    halved = {name: t if "embed_positions" in name else t.to(torch.float16) for name, t in tensors.items()}  # sines
    save_file(halved, target, metadata={"format": "pt"})
    target.chmod(0o644)
    lost = max(float((halved[name].float() - tensor).abs().max()) for name, tensor in tensors.items())
    print(f"{target.name}: the largest change of a weight is {lost:.1e}", file=sys.stderr)


if __name__ == "__main__":
    main()
