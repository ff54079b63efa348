"""The report of a knowledge probe: a card for each model, when to keep silent in one chart, then every figure."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from heedful.evaluation.statistics.wording import percent as round_percent
from heedful.probes.knowledge import wording
from heedful.probes.knowledge.wording import points
from heedful.probes.wording import ends_in_percent, models, percent
from heedful.report.page import charts, plots
from heedful.report.page.pieces import Block, Card, Column, Facts, Figure, Fold, Prose, Report, Row, Section, Table
from heedful.report.page.words import NOTHING, equals, several
from heedful.report.page.write import write

Found = dict[str, Any]
Line = tuple[str, str, Literal["", "warning"]]
_GROUPS = {
    "read": ("What the text says of the name", "Text"),
    "trained": ("What training questions say of the answer", "True answer"),
}
_EFFECTS = {"unseen": "names that were never seen", "seen, wrong": "wrong answers about names that were seen"}
_COVERAGES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)
_HOW = (
    "A question is put as in training, and answered greedily; the confidence is the probability of the whole answer, "
    "its end included. An answer is right if it is the true one to the letter, as the model's tokenizer spells it. "
    "It is made up if it is neither an answer of the training questions nor words of the text that was read; to say "
    "nothing is wrong, but not made up. The line of a name is the one that begins with the longest name that the "
    "question has; the answer stands in it if it has it as whole words."
)
_NEAREST = (
    "The name in a question is what is left without the words that half of the training questions have. Nearest is the "
    "other name in them that shares most words with it; of several, the one that takes the fewest changed letters. By "
    "chance an answer would be that of a random one of the remaining names. People whose names are alike may come from "
    "the same place, so an effect alone is no error."
)
_INTERVALS = (
    "Intervals hold 95 %, each for itself, over questions and, where there are several, seeds together. A calibration "
    "error has none. p values of several models are corrected together (Holm). The threshold was chosen on the first, "
    "third, fifth … question as the lowest that had the wanted accuracy there, and judged on the others."
)


def write_knowledge_report(facts: Found, directory: Path) -> None:
    write(knowledge_report(facts), directory)


def knowledge_report(facts: Found) -> Report:
    subjects: dict[str, Found] = facts["subjects"]
    first, n = next(iter(subjects)), facts["questions"]["n"]
    more = f" and {len(subjects) - 1} more" if len(subjects) > 1 else ""
    opening: list[Block] = [_card(name, found) for name, found in subjects.items()]
    sections = [_of_subject(number, name, found) for number, (name, found) in enumerate(subjects.items(), 1)]
    if facts["comparisons"]:
        sentences = tuple(Prose(row["sentence"]) for row in facts["comparisons"])
        sections.append(Section("comparisons", "Do the models differ?", sentences))
    return Report(
        f"Knowledge probe: {first}{more}",
        f"{facts['questions']['name']}, {several(n, 'question')}.",
        (*opening, _refusals(facts)),
        (*sections, _method(subjects)),
        "Written by heedful; the numbers are in knowledge.json, every answer is in answers.tsv.",
    )


def _card(name: str, found: Found) -> Card:
    lines: list[Line] = [(f"{what}:", text, "") for what, text in found["verdict"]]
    answered = models(found)
    title = f"{name}: {percent(found['exact_match']['mean'])} right"
    return Card(title, answered or "one model", tuple(lines), "")


def _refusals(facts: Found) -> Figure:
    rows = [
        {"by": name, **{key: point[key] for key in ("threshold", "coverage", "accuracy", "low", "high")}}
        for name, found in facts["subjects"].items()
        for point in found["curve"]
    ]
    caption = (
        "Answering only from a confidence on: the share of questions that are answered, and of these answers the share "
        "that is right, with 95 % intervals. The dashed line is what is wanted: "
        f"{round_percent(facts['precision'])}."
    )
    return Figure("refusing", caption, plots.refusals(rows, facts["precision"]))


def _of_subject(number: int, name: str, found: Found) -> Section:
    blocks: list[Block] = [_shares(name, found)]
    for group, rows in found["groups"].items():
        blocks.append(_group(name, *_GROUPS[group], rows))
    if found["nearest"]:
        blocks.append(_nearest(name, found["nearest"]))
    blocks += _calibration(number, name, found["calibration"])
    blocks += [_rules(name, found["rules"]), Fold("The thresholds", (_curve(name, found["curve"]),))]
    if found["made_up"] is not None and found["made_up"]["examples"]:
        blocks.append(_listed("Answers that are made up, the surest first", found["made_up"]["examples"], False))
    for row in found["nearest"]:
        if row["examples"]:
            what = f"The nearest name's answer, {_EFFECTS[row['group']]}, the surest first"
            blocks.append(_listed(what, row["examples"], True))
    return Section(f"model-{number}", name, tuple(blocks))


def _table(caption: str, titles: Iterable[str], rows: Iterable[tuple[str, ...]]) -> Table:
    """The first column names, the others count."""
    columns = tuple(Column(title, numeric=i > 0) for i, title in enumerate(titles))
    return Table(caption, columns, tuple(Row(cells) for cells in rows))


def _cells(row: Found) -> tuple[str, str, str]:
    """Share, interval and n."""
    return percent(row["mean"]), ends_in_percent(row), f"{row['n']:,}"


def _shares(name: str, found: Found) -> Table:
    rows = [("right, to the letter", *_cells(found["exact_match"]))]
    if (base := found["baseline"]) is not None:
        rows.append((f"“{base['answer']}” to everything", *_cells(base["share"])))
        if base["p"] is not None:
            ends = NOTHING if base["low"] is None else f"{points(base['low'])} to {points(base['high'])}"
            rows.append(
                (f"the difference ({equals(base['p_corrected'])})", points(base["mean"]), ends, f"{base['n']:,}")
            )
    if found["made_up"] is not None:
        rows.append(("made up", *_cells(found["made_up"])))
    if (area := found["calibration"]["auroc"])["mean"] is not None:
        rows.append(("right ones above wrong ones (AUROC)", *_cells(area)))
    return _table(f"{name}: what it knows", ("", "Share", "95 % interval", "Questions"), rows)


def _group(name: str, caption: str, column: str, rows: list[Found]) -> Table:
    titles = (column, "Right", "95 % interval", "Questions", "Mean confidence")
    return _table(
        f"{name}: {caption.lower()}", titles, ((r["level"], *_cells(r), percent(r["confidence"])) for r in rows)
    )


def _nearest(name: str, rows: list[Found]) -> Table:
    titles = ("Of", "Nearest name's answer", "95 % interval", "Questions", "By chance", "Difference", "p, corrected")
    made = []
    for row in rows:
        p = NOTHING if row["p_corrected"] is None else equals(row["p_corrected"]).removeprefix("p ").removeprefix("= ")
        change = NOTHING if row["mean"] is None else points(row["mean"])
        made.append((_EFFECTS[row["group"]], *_cells(row["share"]), percent(row["chance"]), change, p))
    return _table(f"{name}: the nearest known name", titles, made)


def _calibration(number: int, name: str, found: Found) -> list[Block]:
    rows = [{key: one[key] for key in ("low", "high", "confidence", "accuracy", "n")} for one in found["bins"]]
    caption = (
        f"{name}: confidence against the share that is right. On the dashed line confidence means what it says; below "
        "it the model is too sure of itself."
    )
    cells = (
        (
            f"{one['low']:.2f} to {one['high']:.2f}",
            f"{one['answers']:,}",
            percent(one["confidence"]),
            percent(one["accuracy"]),
            ends_in_percent(one["interval"]),
        )
        for one in found["bins"]
    )
    spread = "" if found["ece_std"] is None else f" ± {found['ece_std']:.3f} over seeds"
    table = _table(
        f"{name}: calibration error {found['ece']:.3f}{spread}",
        ("Confidence", "Answers", "Mean confidence", "Right", "95 % interval"),
        cells,
    )
    return [Figure(f"calibration-{number}", caption, charts.reliability(rows)), table]


def _rules(name: str, rules: list[Found]) -> Table:
    titles = ("Chosen on", "Answer from", "Answered", "95 % interval", "Of these right", "95 % interval", "Answers")
    made = []
    for rule, half in zip(rules, ("the odd questions", "the even questions"), strict=False):
        if rule["threshold"] is None:
            made.append((half, "never", *[NOTHING] * 5))
            continue
        right = rule["accuracy"]
        answered = _cells(rule["coverage"])[:2]
        made.append(
            (half, wording.threshold(rule["threshold"]), *answered, *_cells(right)[:2], f"{right['answers']:,}")
        )
    return _table(f"{name}: a threshold chosen on one half of the questions, judged on the other", titles, made)


def _curve(name: str, points_of: list[Found]) -> Table:
    """The points that come nearest to round shares."""
    kept = dict.fromkeys(
        min(range(len(points_of)), key=lambda i: (abs(points_of[i]["coverage"] - wanted), i)) for wanted in _COVERAGES
    )
    rows = (
        (
            wording.threshold(point["threshold"]),
            percent(point["coverage"]),
            percent(point["accuracy"]),
            ends_in_percent(point),
            f"{point['answers']:,}",
        )
        for point in (points_of[i] for i in kept)
    )
    return _table(
        f"{name}: answering from a confidence on, on all questions",
        ("Confidence", "Answered", "Of these right", "95 % interval", "Answers"),
        rows,
    )


def _listed(summary: str, examples: list[Found], with_nearest: bool) -> Fold:
    titles = ["Question", "Said", "True answer", *(["Nearest known"] if with_nearest else []), "Confidence"]
    columns = tuple(Column(title, numeric=title == "Confidence", long=title == "Question") for title in titles)
    rows = []
    for one in examples:
        near = [one["nearest"] or NOTHING] if with_nearest else []
        rows.append(Row((one["question"], one["said"] or NOTHING, one["answer"], *near, percent(one["confidence"]))))
    return Fold(summary, (Table("", columns, tuple(rows)),))


def _method(subjects: dict[str, Found]) -> Section:
    pairs = []
    for name, found in subjects.items():
        train, text = found["train"], found["text"]
        learned = [
            *([f"{train['n']:,} training questions ({train['name']})"] if train is not None else []),
            *([f"{text['documents']:,} lines of text ({text['name']})"] if text is not None else []),
        ]
        pairs.append((name, "; ".join(learned) or "nothing is known of what it was trained on"))
    blocks: list[Block] = [Prose(_HOW)]
    if any(found["nearest"] for found in subjects.values()):
        blocks.append(Prose(_NEAREST))
    return Section("method", "How it was measured", (*blocks, Prose(_INTERVALS), Facts(tuple(pairs))))
