"""A data folder in miniature, in the layouts of the real files, traps included."""

from pathlib import Path


def make_folder(root: Path) -> Path:
    """sst2, sst5, cfimdb, rte, mnli, qnli and sick, some twenty rows each."""
    for name in ("sst2", "sst5", "cfimdb", "rte", "mnli", "qnli", "sick"):
        (root / name).mkdir(parents=True)
    for split, count in (("train", 24), ("dev", 6), ("test", 8)):
        lines(
            root / f"sst2/stsa.binary.{split}", [f"{i % 2} {split} film {i} . 'quoted \" oddly" for i in range(count)]
        )
        lines(root / f"sst5/sst-{split}.txt", [f"{i % 5} ||| {split} film {i} ||| bars" for i in range(count)])
        placeholder = split == "test"
        lines(
            root / f"cfimdb/cfimdb-{split}.txt",
            [f"{0 if placeholder else i % 2} ||| {split} review {i}" for i in range(count)],
        )
        rte = [f'He said "{split} {i}.\tHe spoke {i}.\t{-1 if placeholder else i % 2}\t{i}' for i in range(count)]
        lines(root / f"rte/{split}.tsv", ["sentence1\tsentence2\tlabel\tidx", *rte])
    three = ("entailment", "neutral", "contradiction")
    for file, count in (("train.dedup.tsv", 30), ("validation.dedup.tsv", 9)):
        rows = [f"{file} premise {i}\thypothesis {i}\t{three[i % 3]}" for i in range(count)]
        lines(root / "mnli" / file, ["premise\thypothesis\tlabel", *rows])
    for file, count in (("train_subset_10475.tsv", 20), ("glue_dev_5463.tsv", 6)):
        rows = [f"{file} question {i}?\tsentence {i}.\t{i % 2}" for i in range(count)]
        lines(root / "qnli" / file, ["question\tsentence\tlabel", *rows])
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
    for file, count in (("SICK_train.txt", 12), ("SICK_trial.txt", 6), ("SICK_test_annotated.txt", 9)):
        rows = [f"{i}\t{file} a {i}\tb {i}\t{1 + i / 4}\t{three[i % 3].upper()}" for i in range(count)]
        lines(root / "sick" / file, [header, *rows], end="\r\n" if "test" in file else "\n")
    return root


def lines(path: Path, rows: list[str], end: str = "\n") -> None:
    path.write_bytes("".join(row + end for row in rows).encode())
