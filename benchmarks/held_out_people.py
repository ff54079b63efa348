"""The text on the birthplaces without the lines on some people who are asked about: names that a model never sees.

    HEEDFUL_DATA=FOLDER python benchmarks/held_out_people.py runs/held-out
    heedful run birthplaces-answer --set data.corpus=runs/held-out/text.txt --out runs/held-out/study
    heedful probe knowledge runs/held-out/study --questions runs/held-out/unseen.tsv --out runs/held-out/unseen
    heedful probe knowledge runs/held-out/study --questions runs/held-out/seen.tsv --out runs/held-out/seen

Of the first 200 people of dev all lines go that begin with their names; the questions on them are `unseen.tsv`, those
on the others `seen.tsv`.
"""

import sys
from pathlib import Path

from heedful.data.corpus.documents import read_documents
from heedful.data.corpus.finding import find_sources
from heedful.data.questions import Questions, load_questions

HELD_OUT = 200


def write_questions(path: Path, some: Questions) -> None:
    rows = zip(some.questions, some.answers, strict=True)
    path.write_text("".join(f"{question}\t{answer}\n" for question, answer in rows), encoding="utf-8")


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    dev = load_questions("birthplaces", {})[0]["dev"]
    names = [question.removeprefix("Where was ").removesuffix(" born?") for question in dev.questions]
    held_out = tuple(f"{name}. " for name in names[:HELD_OUT])
    lines = [line.strip() for line in read_documents(find_sources(["birthplaces-text"], "auto", None)[0])]
    kept = [line for line in lines if not line.startswith(held_out)]
    (folder / "text.txt").write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
    write_questions(folder / "unseen.tsv", dev.take(range(HELD_OUT)))
    write_questions(folder / "seen.tsv", dev.take(range(HELD_OUT, len(dev))))
    print(f"{len(kept):,} of {len(lines):,} lines are kept", file=sys.stderr)


if __name__ == "__main__":
    main()
