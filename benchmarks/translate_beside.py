"""JoeyNMT trained as long as our translator of multi30k, judged on the same sentences.

    HEEDFUL_DATA=FOLDER python benchmarks/translate.py prepare runs/speed
    HEEDFUL_DATA=FOLDER heedful run multi30k-en-de-bert-fused
    HEEDFUL_DATA=FOLDER python benchmarks/translate_beside.py pace runs/speed --joeynmt PYTHON
    python benchmarks/translate_beside.py train runs/speed --joeynmt PYTHON --updates N --seed 0 [--lr X] [--tokens N]
    python benchmarks/across.py --metric bleu 'heedful=runs/multi30k-en-de-bert-fused/runs/*-1-seed*' \\
        'JoeyNMT=runs/speed/joeynmt-1024-0.002/seed?'

`pace` says how many updates JoeyNMT makes in the time in which ours makes the 3,000 steps of its recipe: seconds for a
step of either, from two trainings of different length, in processes that take turns, one thread each. Marks on dev
are not counted for either. `train` trains JoeyNMT for so many updates, keeps the better of two marks by BLEU on dev,
translates the test set with 5 beams and writes values/test.tsv as a run of ours does.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from translate import joeynmt_settings, run_joeynmt

STEPS, MARKS, WORDS = 3000, 2, "13a"
SHORT, LONG = 30, 130
TESTS = ("test",)


def settings(options: argparse.Namespace, directory: Path, updates: int, mark: int, test: str = "test") -> Path:
    """Blocks that normalise first, and the recipe's dropout."""
    return joeynmt_settings(
        options.folder, directory, options.seed, test, dropout=0.2, tokens=options.tokens, lr=options.lr,
        warmup=max(1, updates // 10), norm="pre", activation="relu", epochs=1000, updates=updates, mark=mark,
        metric="bleu", testing='beam_size: 5, beam_alpha: 1.0, eval_metrics: ["bleu"], max_output_length: 64',
    )  # fmt: skip


def pace(options: argparse.Namespace) -> None:
    times: dict[str, list[float]] = {"heedful": [], "JoeyNMT": []}
    with tempfile.TemporaryDirectory() as scratch:
        for n in range(options.repetitions):
            pair = {"heedful": our_step, "JoeyNMT": their_step}
            for name in sorted(pair, reverse=bool(n % 2)):
                times[name].append(pair[name](Path(scratch) / f"{name}-{n}", options))
    ours, theirs = (statistics.median(of) for of in times.values())
    print(f"seconds a step: ours {ours:.4f}, JoeyNMT's of {options.tokens} tokens {theirs:.4f}")
    print(f"in the time of our {STEPS} steps: {round(STEPS * ours / theirs)} updates")


def our_step(place: Path, options: argparse.Namespace) -> float:
    import heedful

    seconds = []
    for steps in (SHORT, LONG):
        changes = [f"training.steps={steps}", f"training.mark_steps={steps}", "objective.beam=0"]
        changes += ["objective.final_beam=1", "evaluation.metric=loss", "evaluation.test=false"]
        out = place.with_name(f"{place.name}-{steps}")
        heedful.run("multi30k-en-de", settings=changes, seeds=1, out=out)
        seconds.append(json.loads(next(out.rglob("manifest.json")).read_text())["cost"]["training_seconds"])
    return (seconds[1] - seconds[0]) / (LONG - SHORT)


def their_step(place: Path, options: argparse.Namespace) -> float:
    seconds = []
    for updates in (SHORT, LONG):
        file = settings(options, place.with_name(f"{place.name}-{updates}"), updates, mark=1000000)
        start = time.perf_counter()
        run_joeynmt(options.joeynmt, 1, "train", file, "--skip-test")
        seconds.append(time.perf_counter() - start)
    return (seconds[1] - seconds[0]) / (LONG - SHORT)


def train(options: argparse.Namespace) -> None:
    from heedful.evaluation.translations import translation_columns
    from heedful.storage.examples import write_values

    directory: Path = options.folder / f"joeynmt-{options.tokens}-{options.lr:g}" / f"seed{options.seed}"
    directory.parent.mkdir(exist_ok=True)
    mark = options.updates // MARKS
    start = time.perf_counter()
    run_joeynmt(options.joeynmt, 1, "train", settings(options, directory, options.updates, mark), "--skip-test")
    print(f"{directory}: {(time.perf_counter() - start) / 60:.1f} minutes, marks included")
    (directory / "values").mkdir()
    for split in TESTS:
        file = settings(options, directory, options.updates, mark, split)
        run_joeynmt(options.joeynmt, 1, "test", file, "--output-path", directory / split)
        found = (directory / f"{split}.test").read_text(encoding="utf-8").splitlines()
        references = (options.folder / f"{split}.de").read_text(encoding="utf-8").splitlines()
        columns = translation_columns(found, references, WORDS)
        write_values(directory / "values" / f"{split}.tsv", range(1, len(found) + 1), columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("pace", "train"))
    parser.add_argument("folder", type=lambda given: Path(given).resolve())
    parser.add_argument("--joeynmt", required=True, help="a Python in which JoeyNMT is installed")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--updates", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--tokens", type=int, default=1024)
    options = parser.parse_args()
    {"pace": pace, "train": train}[options.part](options)


if __name__ == "__main__":
    main()
