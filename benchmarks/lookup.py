"""What can be looked up by attention that compares tokens, and by attention that does not.

    python benchmarks/lookup.py runs/lookup [PAIRS …]

A text holds pairs of a letter and a digit, a space, and the same pairs again: in another order ("lookup"), or in the
same one ("copy"). A language model learns to go on with such texts. Then it is given the pairs, the space and a letter of
texts that it has not seen: which digit stood beside the letter? In "copy" the place says so, in "lookup" only the letter
does. Kinds of attention × three seeds, all of one size and budget, as studies in the folder that is named, for each number
of pairs (4 unless others are named); the same line goes on where it was stopped.

"guessing" is the commonest digit of each text: the best that can be done without comparing letters.
"""

import random
import statistics
import string
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import heedful

KINDS = ["dot-product", "rotary", "relative", "synthesizer-dense", "synthesizer-random"]
SEEDS, TEXTS, ASKED = 3, 20_000, 1_000
RECIPE = """
seeds = {seeds}
model = {{ shape = "gpt-mini", layers = 2, width = 64, heads = 4, positions = {positions}, body_dropout = 0.0 }}
tokenizer = {{ kind = "characters" }}
data = {{ corpus = "{corpus}", separator = "line", dev_share = 0.02 }}
objective = {{ kind = "causal" }}
study = {{ model.attention = {kinds} }}

[training]
steps = 3000
mark_steps = 1000
batch_size = 64
lr = 3e-3
max_length = {positions}
threads = 1
keep = "last"
"""

Pairs = list[tuple[str, str]]


def texts(task: str, pairs: int, draw: random.Random) -> Iterator[tuple[Pairs, Pairs]]:
    """What stands before the space, and what stands after it."""
    while True:
        first = [(letter, draw.choice(string.digits)) for letter in draw.sample(string.ascii_lowercase, pairs)]
        yield first, draw.sample(first, pairs) if task == "lookup" else first


def spelled(pairs: Pairs) -> str:
    return "".join(letter + digit for letter, digit in pairs)


def study(folder: Path, task: str, pairs: int) -> dict[str, list[float]]:
    """The share of right digits of each kind, for each seed."""
    corpus = (folder / f"{task}-{pairs}.txt").resolve()
    made = texts(task, pairs, random.Random(pairs))
    lines = [f"{spelled(first)} {spelled(again)}\n" for (first, again), _ in zip(made, range(TEXTS), strict=False)]
    corpus.write_text("".join(lines), encoding="utf-8")
    recipe = corpus.with_suffix(".toml")
    values = {"seeds": SEEDS, "positions": 4 * pairs + 3, "corpus": corpus, "kinds": KINDS}
    recipe.write_text(RECIPE.format(**values), encoding="utf-8")
    out = folder / corpus.stem
    heedful.run(recipe, out=out)
    seen = set(lines)
    draw = random.Random(pairs + 1000)
    prompts, gold, guesses = [], [], []
    for first, again in texts(task, pairs, draw):
        if len(gold) == ASKED:
            break
        if f"{spelled(first)} {spelled(again)}\n" in seen:
            continue
        # A letter that is not the first of those asked would also say which digits are used up.
        place = 0 if task == "lookup" else draw.randrange(pairs)
        prompts.append(f"{spelled(first)} {spelled(again[:place])}{again[place][0]}")
        gold.append(again[place][1])
        guesses.append(Counter(digit for _, digit in first).most_common(1)[0][0])
    found: dict[str, list[float]] = {"guessing": [right(guesses, gold)]}
    for number, kind in enumerate(KINDS, 1):
        for seed in range(SEEDS):
            model: Any = heedful.load(str(out / "runs" / f"{corpus.stem}-{number}-seed{seed}" / "model"))
            said = model.generate(prompts, max_new_tokens=1, temperature=0, batch_size=ASKED).texts
            found.setdefault(kind, []).append(right(said, gold))
    return found


def right(said: list[str], gold: list[str]) -> float:
    return sum(a == b for a, b in zip(said, gold, strict=True)) / len(gold)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    for number in map(int, sys.argv[2:] or (4,)):
        print(f"| {number} pairs, right of {ASKED} | {' | '.join(('guessing', *KINDS))} |\n|---|{'---|' * (1 + len(KINDS))}")
        for task in ("copy", "lookup"):
            found = study(place, task, number)
            cells = [
                f"{statistics.mean(of):.1%}" + (f" ± {statistics.stdev(of):.1%}" if len(of) > 1 else "")
                for of in found.values()
            ]
            print(f"| {task} | {' | '.join(cells)} |", flush=True)
