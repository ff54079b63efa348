"""Questions and their answers, both free text: files of two columns, or a named set."""

from pathlib import Path

from heedful.data.catalog import QUESTIONS
from heedful.data.files import open_table
from heedful.data.named import find_set, locate
from heedful.data.records import Questions
from heedful.data.splits import DEV_SHARE, SPLIT_SEED, carve_missing, refuse_for_named
from heedful.errors import RequestError


def load_questions(
    name: str | None,
    files: dict[str, str],
    question: str | None = None,
    answer: str | None = None,
    header: bool | None = None,
    quotes: bool | None = None,
    dev_share: float = DEV_SHARE,
    split_seed: int = SPLIT_SEED,
) -> tuple[dict[str, Questions], list[str]]:
    """Load each split of a named set or of `files`, with sentences on what was done. Without column names, the first
    column has the questions and the second the answers. Without a dev file, dev is carved from train."""
    paths = {split: Path(file) for split, file in files.items()}
    if name:
        _, paths = locate(find_set(name, QUESTIONS), ("train", "dev"))
    if "train" not in paths:
        raise RequestError("[data] needs train, a file of questions and answers, or name.")
    splits = {split: read_questions(path, question, answer, header, quotes) for split, path in paths.items()}
    if name:
        refuse_for_named(name, {"dev_share": dev_share, "split_seed": split_seed}, "data.")
        return splits, []
    notes = carve_missing(splits, {"dev": dev_share}, split_seed, paths["train"].name, "question", "questions")
    return splits, notes


def read_questions(
    path: Path, question: str | None, answer: str | None, header: bool | None, quotes: bool | None
) -> Questions:
    named = [column for column in (question, answer) if column is not None]
    if not named and header is None:
        header = _looks_headed(path)
    table = open_table(path, header, quotes, named)
    columns = table.columns
    if len(columns) < 2 and len(named) < 2:
        raise RequestError(f"{path}: has one column; questions and answers need two.")
    question, answer = question or columns[0], answer or columns[1]
    made = Questions()
    for row in table.rows(question, label=answer):
        if not row.text.strip() or row.label is None:
            place = f"line {row.line}" if row.line is not None else f"row {row.number}"
            raise RequestError(f"{path}, {place}: the question or the answer is empty; fill it in or take it out.")
        made.questions.append(row.text.strip())
        made.answers.append(row.label)
        made.rows.append(row.number)
    if not made.questions:
        raise RequestError(f"{path}: has no questions.")
    return made


def _looks_headed(path: Path) -> bool | None:
    """Return False if the first line ends in a question mark: it is a question, whatever the other lines look like."""
    columns = open_table(path, True).columns
    return False if columns and columns[0].strip().endswith("?") else None
