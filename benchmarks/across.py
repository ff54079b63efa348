"""Settings of several studies on the same test rows, compared as those of one study are: seeds × examples, all pairs.

    python benchmarks/across.py adapter='runs/rte/runs/minilm-adapter-seed*' 'from MNLI=runs/rte-from-mnli/runs/*-seed*'

Each argument is a name and a pattern of run directories, the seeds of one setting. The first is compared with the
others first. What is compared is the mean of a column of values/test.tsv, `right` unless --column says otherwise.
"""

import argparse
import csv
from pathlib import Path

import numpy as np

from heedful.evaluation.metrics import mean_of
from heedful.evaluation.statistics.compare import compare_all
from heedful.evaluation.statistics.crossed import SeedsByExamples


def values(pattern: str, column: str, split: str) -> tuple[list[str], SeedsByExamples]:
    """The numbers of the rows, and what each seed got on each."""
    runs = []
    for directory in sorted(Path().glob(pattern)):
        with (directory / "values" / f"{split}.tsv").open(encoding="utf-8", newline="") as file:
            runs.append([(line["row"], float(line[column])) for line in csv.DictReader(file, delimiter="\t")])
    if not runs:
        raise SystemExit(f"{pattern}: no run")
    rows = [row for row, _ in runs[0]]
    if any([row for row, _ in run] != rows for run in runs):
        raise SystemExit(f"{pattern}: the runs were not judged on the same rows")
    return rows, SeedsByExamples(np.asarray([[value for _, value in run] for run in runs]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="+", metavar="NAME=PATTERN")
    parser.add_argument("--column", default="right")
    parser.add_argument("--split", default="test")
    given = parser.parse_args()
    named = dict(setting.split("=", 1) for setting in given.settings)
    found = {name: values(pattern, given.column, given.split) for name, pattern in named.items()}
    if len({tuple(rows) for rows, _ in found.values()}) > 1:
        raise SystemExit("the settings were not judged on the same rows")
    samples = {name: sample for name, (_, sample) in found.items()}
    for name, sample in samples.items():
        of_seeds = sample.values.mean(axis=1)
        spread = f" ± {of_seeds.std(ddof=1):.4f}" if len(of_seeds) > 1 else ""
        print(f"{name}: {of_seeds.mean():.4f}{spread} (n = {len(of_seeds)})")
    metric = mean_of(given.column, given.column, True, given.column)
    for c in compare_all(samples, metric, chosen=next(iter(samples))):
        between = "no interval" if c.low is None or c.high is None else f"{c.low:+.3f} to {c.high:+.3f}"
        p = "" if c.p is None else f"; p = {c.p:.3f}, corrected for {c.pairs} pairs {c.p_corrected:.3f}"
        print(f"{c.a} − {c.b}: {c.difference:+.3f} ({between}{p})")


if __name__ == "__main__":
    main()
