"""A pretrained encoder as it is put into the package: half precision, dropout for fine-tuning, checksums.

    python benchmarks/embed.py runs/pretrain-tiny-en/best src/heedful/checkpoints/embedded/heedful-tiny-en

The weights are rounded to float16, which halves the files; they are read as float32. Pretraining goes without dropout,
as it sees a text once or twice, and fine-tuning, which sees its texts more often, with the usual 0.1. What is printed
goes into the catalog. The model card, README.md, stays as it is.
"""

import hashlib
import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

FILES = ("config.json", "model.safetensors", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json")
DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}


def main() -> None:
    source, target = map(Path, sys.argv[1:])
    target.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        if (source / name).is_file() and name != "model.safetensors":
            shutil.copyfile(source / name, target / name)
    config = json.loads((source / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(config | DROPOUT, indent=2, ensure_ascii=False) + "\n")
    tensors = load_file(source / "model.safetensors")
    halved = {name: tensor.to(torch.float16) for name, tensor in tensors.items()}
    lost = max(float((halved[name].float() - tensor).abs().max()) for name, tensor in tensors.items())
    save_file(halved, target / "model.safetensors", metadata={"format": "pt"})
    (target / "model.safetensors").chmod(0o644)
    for path in sorted(target.iterdir()):
        if path.name in FILES:
            print(f'"{path.name}": "{hashlib.sha256(path.read_bytes()).hexdigest()}",')
    total = sum(path.stat().st_size for path in target.iterdir())
    print(f"{total / 1e6:.2f} MB; the largest change of a weight is {lost:.1e}", file=sys.stderr)


if __name__ == "__main__":
    main()
