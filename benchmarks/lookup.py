"""What can be looked up by attention that compares tokens, and by attention that does not.

    python benchmarks/lookup.py runs/lookup [PAIRS …]

A text holds pairs of a letter and a digit, and then one of the letters: which digit stood beside it? Kinds of attention
× numbers of pairs (4, 8 and 16 unless others are named) × three seeds, all of one size and budget, as studies in the
folder that is named; the same line goes on where it was stopped. Guessing among the digits of a text is right for one
in so many pairs, or a little more often.
"""

import random
import string
import sys
from pathlib import Path

import heedful

KINDS = ["dot-product", "rotary", "relative", "synthesizer-dense", "synthesizer-random"]
PAIRS = (4, 8, 16)
TRAIN, ASKED = 20_000, 1_000
RECIPE = """
seeds = 3
model = {{ shape = "gpt-mini", layers = 2, width = 64, heads = 4, positions = 48, body_dropout = 0.0 }}
tokenizer = {{ kind = "characters" }}
data = {{ train = "{train}", dev = "{dev}" }}
objective = {{ kind = "answer", answer_tokens = 2 }}
study = {{ model.attention = {kinds} }}

[training]
steps = 2000
mark_steps = 500
batch_size = 64
lr = 2e-3
max_length = 48
threads = 1
keep = "last"
"""


def write(path: Path, rows: int, pairs: int, draw: random.Random) -> None:
    lines = []
    for _ in range(rows):
        letters = draw.sample(string.ascii_lowercase, pairs)
        digits = [draw.choice(string.digits) for _ in letters]
        asked = draw.randrange(pairs)
        text = "".join(f"{a}{b}" for a, b in zip(letters, digits, strict=True))
        lines.append(f"{text} {letters[asked]}\t{digits[asked]}\n")
    path.write_text("".join(lines), encoding="utf-8")


def study(folder: Path, pairs: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(pairs)
    files = {"train": (folder / f"train-{pairs}.tsv").resolve(), "dev": (folder / f"dev-{pairs}.tsv").resolve()}
    for name, path in files.items():
        if not path.exists():
            write(path, TRAIN if name == "train" else ASKED, pairs, draw)
    recipe = folder / f"pairs-{pairs}.toml"
    recipe.write_text(RECIPE.format(**files, kinds=KINDS), encoding="utf-8")
    print(f"{pairs} pairs\n{heedful.run(recipe, out=folder / recipe.stem)}", flush=True)


if __name__ == "__main__":
    for number in map(int, sys.argv[2:] or PAIRS):
        study(Path(sys.argv[1]), number)
