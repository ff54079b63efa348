"""`probe_knowledge`: models, runs and studies by name, asked questions; the directory that is left."""

import csv
import io
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from heedful.errors import RequestError
from heedful.probes import output
from heedful.probes.knowledge import PRECISION
from heedful.probes.knowledge.ask import ask
from heedful.probes.knowledge.findings import findings
from heedful.probes.knowledge.judged import Judged, judge
from heedful.probes.knowledge.material import Given, Library, Material
from heedful.probes.knowledge.report import write_knowledge_report
from heedful.probes.output import Layout, check_place
from heedful.probes.subjects import all_subjects, listed
from heedful.storage.directories import replace_directory
from heedful.storage.whole import write_json, write_text

FORMAT = 1
_LAYOUT = Layout(
    "knowledge.json",
    frozenset({"knowledge.json", "answers.tsv", "report.html", "report.md"}),
    frozenset({"report"}),
    r"refusing\.png|calibration-\d+\.png",
)
_COLUMNS = ("model", "seed", "row", "question", "answer", "said", "confidence", "right", "made_up", "text", "trained")
_NEAREST = ("seen", "nearest", "nearest_answer")
Say = Callable[[str], None]
Names = str | Path | Sequence[str | Path]


def probe_knowledge(
    models: Names,
    questions: str | Path | None = None,
    *,
    train: str | Path | None = None,
    text: Names | None = None,
    precision: float = PRECISION,
    out: str | Path | None = None,
    say: Say | None = None,
) -> dict[str, Any]:
    """What models know, how sure one may be, and from which confidence on they should answer: as plain data, and with
    `out` as a directory with a report.

    `models`: model directories, names or hub ids, runs, or studies, of which every setting with all its seeds is
    asked. `questions`: a file of questions and answers, or the name of a set; `train`: the questions that the models
    were trained on; `text`: what they have read. What is not named is what the recipe of a run names. `precision`: the
    share of answers that should be right.
    """
    say = say or (lambda _: None)
    if not 0 < precision <= 1:
        raise RequestError(f"precision = {precision:g}: is not a share above 0 and up to 1, such as 0.9.")
    place = None if out is None else Path(out).expanduser()
    request = _request(models, questions, train, text, precision)
    if place is not None:
        check_place(place, _LAYOUT, request)
    subjects = all_subjects(request["models"])
    library = Library(Given(request["questions"], request["train"], tuple(request["text"])))
    materials = [library.material(subject.name, subject.recipe) for subject in subjects]
    _refuse_other_questions([subject.name for subject in subjects], materials)
    judged = []
    for subject, material in zip(subjects, materials, strict=True):
        if subject.note:
            say(subject.note)
        runs = f", {len(subject.runs)} seeds" if len(subject.runs) > 1 else ""
        n = len(material.questions)
        say(f"{material.name}, {n:,} question{'' if n == 1 else 's'}: {subject.name}{runs}")
        judged.append(judge(ask(subject, material)))
    facts = {"format": FORMAT, "request": request, **findings(judged, precision)}
    if place is not None:
        table = _table(judged)
        replace_directory(place, partial(_write, facts=facts, table=table), _LAYOUT.files, _LAYOUT.folders)
    return facts


def free_place(
    models: Sequence[str], questions: str | None, train: str | None, text: Sequence[str], precision: float
) -> Path:
    """runs/knowledge-NAME, or the first of runs/knowledge-NAME-2, … that holds the answer to the same request or is
    free."""
    return output.free_place("knowledge", models[0], _LAYOUT, _request(models, questions, train, text, precision))


def _request(models: Any, questions: Any, train: Any, text: Any, precision: float) -> dict[str, Any]:
    named = listed(models, "probe_knowledge needs at least one model.")
    read = [] if text is None or text == [] or text == () else listed(text, "")
    return {
        "models": [str(one) for one in named],
        "questions": None if questions is None else str(questions),
        "train": None if train is None else str(train),
        "text": [str(one) for one in read],
        "precision": precision,
    }


def _refuse_other_questions(names: Sequence[str], materials: Sequence[Material]) -> None:
    for name, material in zip(names, materials, strict=True):
        if material.questions != materials[0].questions:
            raise RequestError(
                f"{names[0]} was trained for the questions of {materials[0].name} and {name} for those of "
                f"{material.name}; choose one set with --questions, or probe them separately."
            )


def _table(judged: Sequence[Judged]) -> str:
    """A line for each answer; a column that nothing is known of is empty."""
    lines = io.StringIO()
    writer = csv.writer(lines, dialect="excel-tab", lineterminator="\n")
    writer.writerow([*_COLUMNS, *_NEAREST])
    for one in judged:
        questions = one.said.material.questions
        for s, seed in enumerate(one.said.seeds):
            for e, row in enumerate(questions.rows):
                said, near = one.said.texts[s][e], None if one.nearest_e is None else one.nearest_e[e]
                asked = (one.said.subject, seed, row, questions.questions[e], questions.answers[e])
                made_up = "" if one.made_up_se is None else int(one.made_up_se[s, e])
                known = ("" if one.read_e is None else one.read_e[e], "" if one.trained_e is None else one.trained_e[e])
                seen = "" if one.unseen_e is None else int(not one.unseen_e[e])
                nearest = ("", "") if near is None else (near.question, near.answer)
                confidence = f"{one.confidence_se[s, e]:.6f}"
                writer.writerow([*asked, said, confidence, int(one.right_se[s, e]), made_up, *known, seen, *nearest])
    return lines.getvalue()


def _write(directory: Path, facts: dict[str, Any], table: str) -> None:
    write_text(directory / "answers.tsv", table)
    write_json(directory / "knowledge.json", facts)
    write_knowledge_report(facts, directory)
