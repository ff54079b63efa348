"""What can be looked up by attention that compares tokens, and by attention that does not.

    python benchmarks/lookup.py runs/lookup [PAIRS …]

A text holds pairs of a letter and a digit, and the same pairs again, four times, with spaces between: each time in
another order ("lookup"), or in the same one ("copy"). A language model learns to go on with such texts. Then it is
given the pairs, the space and a letter of texts that it has not seen: which digit stood beside the letter? In "copy"
the place says so, in "lookup" only the letter does. Kinds of attention × three seeds, all of one size and with as many
steps, as studies in the folder that is named, for each number of pairs (4 unless others are named); the same line goes
on where it was stopped.

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

import torch

import heedful
from heedful.models.next_token import NextToken

KINDS = ["dot-product", "rotary", "relative", "synthesizer-dense", "synthesizer-random"]
SEEDS, TEXTS, ASKED, AGAIN = 3, 20_000, 1_000, 4
STEPS = {"copy": 500, "lookup": 1500}
RECIPE = """
seeds = {seeds}
model = {{ shape = "gpt-mini", layers = 2, width = 64, heads = 4, positions = {positions}, body_dropout = 0.0 }}
tokenizer = {{ kind = "characters" }}
data = {{ corpus = "{corpus}", separator = "line", dev_share = 0.02 }}
objective = {{ kind = "causal" }}
study = {{ model.attention = {kinds}, test = "all" }}

[training]
steps = {steps}
mark_steps = 500
batch_size = 64
optimiser = "muon"
lr = 3e-3
max_length = {positions}
threads = 1
keep = "last"
"""

Pairs = list[tuple[str, str]]


def texts(task: str, pairs: int, draw: random.Random) -> Iterator[list[Pairs]]:
    """The pairs, and all that follows them."""
    while True:
        first = [(letter, draw.choice(string.digits)) for letter in draw.sample(string.ascii_lowercase, pairs)]
        yield [first, *(draw.sample(first, pairs) if task == "lookup" else first for _ in range(AGAIN))]


def spelled(pairs: Pairs) -> str:
    return "".join(letter + digit for letter, digit in pairs)


def study(folder: Path, task: str, pairs: int) -> dict[str, list[float]]:
    """The share of right digits of each kind, for each seed."""
    corpus = (folder / f"{task}-{pairs}.txt").resolve()
    made = texts(task, pairs, random.Random(pairs))
    lines = [" ".join(map(spelled, next(made))) + "\n" for _ in range(TEXTS)]
    corpus.write_text("".join(lines), encoding="utf-8")
    recipe = corpus.with_suffix(".toml")
    values = {
        "seeds": SEEDS,
        "positions": (2 * pairs + 1) * (1 + AGAIN) + 1,
        "corpus": corpus,
        "kinds": KINDS,
        "steps": STEPS[task],
    }
    recipe.write_text(RECIPE.format(**values), encoding="utf-8")
    out = folder / corpus.stem
    heedful.run(recipe, out=out)
    seen = {line.split()[0] for line in lines}
    draw = random.Random(pairs + 1000)
    prompts, gold, guesses = [], [], []
    for first, again, *_ in texts(task, pairs, draw):
        if len(gold) == ASKED:
            break
        if spelled(first) in seen:
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
            found.setdefault(kind, []).append(right(next_characters(model, prompts), gold))
    return found


def next_characters(model: Any, prompts: list[str]) -> list[str]:
    """The likeliest after each prompt, which begins a text as the rows of training do."""
    tokenizer, transformer = model.tokenizer, model.checkpoint.transformer
    ids = [[tokenizer.bos_id, *encoded.ids] for encoded in tokenizer.encode(prompts)]
    batches: dict[int, list[int]] = {}
    for number, row in enumerate(ids):
        batches.setdefault(len(row), []).append(number)
    said = [""] * len(ids)
    for numbers in batches.values():
        with torch.inference_mode():
            scores_bv, _ = NextToken(transformer, "causal")(torch.tensor([ids[n] for n in numbers]), None, None)
        for number, token in zip(numbers, scores_bv.argmax(-1).tolist(), strict=True):
            said[number] = tokenizer.decode([token])
    return said


def right(said: list[str], gold: list[str]) -> float:
    return sum(a == b for a, b in zip(said, gold, strict=True)) / len(gold)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    for number in map(int, sys.argv[2:] or (4,)):
        print(f"| {number} pairs, right of {ASKED} | {' | '.join(('guessing', *KINDS))} |")
        print(f"|---|{'---|' * (1 + len(KINDS))}")
        for task in STEPS:
            found = study(place, task, number)
            cells = [
                f"{statistics.mean(of):.1%}" + (f" ± {statistics.stdev(of):.1%}" if len(of) > 1 else "")
                for of in found.values()
            ]
            print(f"| {task} | {' | '.join(cells)} |", flush=True)
