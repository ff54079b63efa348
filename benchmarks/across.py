"""Settings of several studies on the same test rows, compared as those of one study are: seeds × examples, all pairs.

    python benchmarks/across.py adapter='runs/rte/runs/minilm-adapter-seed*' 'from MNLI=runs/rte-from-mnli/runs/*-seed*'

Each argument is a name and a pattern of run directories, the seeds of one setting. The first is compared with the
others first. What is compared is the mean of a column of values/test.tsv, `right` unless --column says otherwise, or a
metric of translations (--metric bleu), which is made of several.
"""

import argparse
from pathlib import Path

import numpy as np

from heedful.evaluation.metrics import Metric, mean_of
from heedful.evaluation.statistics.compare import compare_all
from heedful.evaluation.statistics.crossed import SeedsByExamples
from heedful.evaluation.translations import OF_TEXTS, TRANSLATION_METRICS
from heedful.storage.examples import read_values
from heedful.studies.values import contributions


def values(pattern: str, metric: Metric, split: str) -> tuple[list[int], SeedsByExamples]:
    """The numbers of the rows, and what each seed got on each."""
    runs = []
    for directory in sorted(Path().glob(pattern)):
        path = directory / "values" / f"{split}.tsv"
        rows, columns = read_values(path)
        runs.append((rows, contributions(metric, columns, str(path))))
    if not runs:
        raise SystemExit(f"{pattern}: no run")
    rows = runs[0][0]
    if any(others != rows for others, _ in runs):
        raise SystemExit(f"{pattern}: the runs were not judged on the same rows")
    return rows, SeedsByExamples(np.asarray([values_e for _, values_e in runs]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="+", metavar="NAME=PATTERN")
    parser.add_argument("--column", default="right")
    parser.add_argument("--metric", choices=OF_TEXTS)
    parser.add_argument("--split", default="test")
    given = parser.parse_args()
    metric = mean_of(given.column, given.column, True, given.column)
    if given.metric:
        metric = next(one for one in TRANSLATION_METRICS if one.name == given.metric)
    named = dict(setting.split("=", 1) for setting in given.settings)
    found = {name: values(pattern, metric, given.split) for name, pattern in named.items()}
    if len({tuple(rows) for rows, _ in found.values()}) > 1:
        raise SystemExit("the settings were not judged on the same rows")
    samples = {name: sample for name, (_, sample) in found.items()}
    for name, sample in samples.items():
        spread = f" ± {sample.scores.std(ddof=1):.4f}" if sample.seeds > 1 else ""
        print(f"{name}: {sample.scores.mean():.4f}{spread} (n = {sample.seeds})")
    for c in compare_all(samples, metric, chosen=next(iter(samples))):
        between = "no interval" if c.low is None or c.high is None else f"{c.low:+.3f} to {c.high:+.3f}"
        p = "" if c.p is None else f"; p = {c.p:.3f}, corrected for {c.pairs} pairs {c.p_corrected:.3f}"
        print(f"{c.a} − {c.b}: {c.difference:+.3f} ({between}{p})")


if __name__ == "__main__":
    main()
