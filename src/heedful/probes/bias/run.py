"""`probe_bias`: models, runs and studies by name, asked about pairs of texts; the directory that is left."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from heedful.errors import RequestError
from heedful.inference.model import Model
from heedful.probes import output
from heedful.probes.bias.ask import Changes, ask, ask_likelier
from heedful.probes.bias.finding import Reading, find_pairs
from heedful.probes.bias.findings import findings
from heedful.probes.bias.likelihood import Scorer
from heedful.probes.bias.pairs import PairSet
from heedful.probes.bias.report import write_bias_report
from heedful.probes.bias.stereoset import says_what_follows
from heedful.probes.models import Subject
from heedful.probes.output import Layout, check_place, refuse_files
from heedful.probes.subjects import all_subjects, listed, refuse_same_names
from heedful.storage.directories import replace_directory
from heedful.storage.whole import write_json, write_text

FORMAT = 1
_LAYOUT = Layout(
    "bias.json",
    frozenset({"bias.json", "report.html", "report.md"}),
    frozenset({"pairs", "report"}),
    r"gaps\.png|set\d+-by\d+-\d+\.png",
)
Say = Callable[[str], None]


def probe_bias(
    models: str | Path | Sequence[str | Path],
    pairs: str | PairSet | Sequence[str | PairSet] = "generated",
    *,
    label: str | None = None,
    of_pairs: bool | None = None,
    reading: Reading | None = None,
    out: str | Path | None = None,
    say: Say | None = None,
) -> dict[str, Any]:
    """What models answer when a text speaks of another group: as plain data, and with `out` as a directory with a
    report.

    `models`: model directories, names or hub ids, runs, or studies, of which every setting with all its seeds is
    probed. `pairs`: the names of sets that `heedful probe bias --list` lists, files, or sets. `label`: the class whose
    probability is looked at. `of_pairs`: whether the models read pairs of texts, if they do not say so. `reading`: how
    files are read.
    """
    reading = reading or Reading()
    say = say or (lambda _: None)
    place = None if out is None else Path(out).expanduser()
    request = _request(models, pairs, label, of_pairs, reading)
    if place is not None:
        _check_place(place, request)
    subjects = all_subjects(_listed(models))
    traits = {subject.name: _traits(subject) for subject in subjects}
    likelier = all(one.likelier for one in traits.values())
    if likelier and (label is not None or of_pairs):
        raise RequestError("--label and --of pairs are only for classifiers. Remove them.")
    reads_pairs = not likelier and _reads_pairs(traits, label, of_pairs)
    follows = likelier and all(one.follows for one in traits.values())
    sets = [
        one if isinstance(one, PairSet) else find_pairs(one, reads_pairs, reading, follows) for one in _listed(pairs)
    ]
    refuse_same_names("set", [one.name for one in sets])
    for subject in subjects:
        if subject.note:
            say(subject.note)
    made, files = [], {}
    for one in sets:
        for note in one.notes:
            say(note if note.startswith(one.name) else f"{one.name}: {note}")
        asked = []
        for subject in subjects:
            runs = f", {len(subject.runs)} seeds" if len(subject.runs) > 1 else ""
            say(f"{one.name}, {len(one.rows):,} pair{'s' if len(one.rows) > 1 else ''}: {subject.name}{runs}")
            asked.append(ask_likelier(subject, one) if likelier else ask(subject, one, label))
        made.append(findings(one, asked))
        files[one.name] = _table(one, asked)
    facts = {"format": FORMAT, "request": request, "sets": made}
    if place is not None:
        replace_directory(place, partial(_write, facts=facts, files=files), _LAYOUT.files, _LAYOUT.folders)
    return facts


def free_place(
    models: Sequence[str], pairs: Sequence[str], label: str | None, of_pairs: bool | None, reading: Reading
) -> Path:
    """runs/bias-NAME, or the first of runs/bias-NAME-2, … that holds the answer to the same request or is free."""
    wanted = _request(models, pairs, label, of_pairs, reading)
    return output.free_place("bias", models[0], _LAYOUT, wanted)


def _check_place(place: Path, request: Mapping[str, Any]) -> None:
    stored = check_place(place, _LAYOUT, request)
    sets = stored.get("sets")
    names = [str(one.get("name")) for one in sets if isinstance(one, dict)] if isinstance(sets, list) else []
    ours = {f"{stem}.tsv" for stem in _stems(names)}
    refuse_files(p for p in (place / "pairs").glob("*") if p.name not in ours)


def _request(models: Any, pairs: Any, label: str | None, of_pairs: bool | None, reading: Reading) -> dict[str, Any]:
    names = [one.name if isinstance(one, PairSet) else str(one) for one in _listed(pairs)]
    said = {key: list(value) if isinstance(value, tuple) else value for key, value in reading.said().items()}
    return {"models": [str(m) for m in _listed(models)], "pairs": names, "label": label, "of_pairs": of_pairs, **said}


def _listed(one_or_more: Any) -> list[Any]:
    one = [one_or_more] if isinstance(one_or_more, PairSet) else one_or_more
    return listed(one, "probe_bias needs at least one model and one set of pairs.")


class _Traits(NamedTuple):
    """What is to be known of a model before it is asked."""

    labels: tuple[str, ...]
    of_pairs: bool | None
    likelier: bool
    """Whether it has no classifier, and is asked which text is the likelier."""
    follows: bool
    """Whether it says what may follow a text."""


def _traits(subject: Subject) -> _Traits:
    """Of the model of its first seed, which is forgotten again. One that cannot answer is refused."""
    model = subject.runs[0][1]()
    likelier = isinstance(model, Model) and not any(head.labels for head in model.transformer.head_shapes.values())
    if likelier:
        Scorer(cast(Model, model))
        return _Traits((), None, True, says_what_follows(model))
    model.predict([])
    return _Traits(tuple(getattr(model, "labels", ())), model.of_pairs, False, False)


def _reads_pairs(traits: Mapping[str, _Traits], label: str | None, of_pairs: bool | None) -> bool:
    """What the models say, which `of_pairs` may only complete."""
    said: dict[bool, str] = {}
    for name, one in traits.items():
        if one.likelier:
            raise RequestError(f"{name} has no classifier, and other models have one. Probe them separately.")
        if label is not None and len(one.labels) > 1 and label not in one.labels:
            raise RequestError(f"{name} has no class {label!r}; it has {', '.join(one.labels)}.")
        reads = one.of_pairs if one.of_pairs is not None else of_pairs
        if reads is None:
            raise RequestError(
                f"{name} does not record whether it reads single texts or pairs. Add --of texts or --of pairs."
            )
        said.setdefault(reads, name)
    if len(said) > 1:
        raise RequestError(f"{said[True]} reads pairs of texts and {said[False]} single ones. Probe them separately.")
    (reads,) = said
    if of_pairs is not None and reads != of_pairs:
        trained = "pairs of texts" if reads else "single texts"
        raise RequestError(f"{said[reads]} was trained on {trained}. Remove --of.")
    return reads


def _table(pairs: PairSet, asked: Sequence[Changes]) -> str:
    """A line for each pair: what it was made of, its texts, and the mean change of each subject over its seeds."""
    names = [*pairs.parts, *pairs.factors]
    texts = ["a", "a_pair", "b", "b_pair"] if pairs.of_pairs else ["a", "b"]
    columns = {
        f"{changes.subject}: {outcome}": values.mean(axis=0)
        for changes in asked
        for outcome, values in changes.by_outcome.items()
    }
    lines = io.StringIO()
    writer = csv.writer(lines, dialect="excel-tab", lineterminator="\n")
    writer.writerow(["row", *names, *texts, *columns])
    for i, row in enumerate(pairs.rows):
        sides = [row.a, row.b] if isinstance(row.a, str) else [*row.a, *row.b]
        numbers = [f"{values[i]:.6f}" for values in columns.values()]
        writer.writerow([i + 1, *(row.levels[name] for name in names), *sides, *numbers])
    return lines.getvalue()


def _stems(names: Sequence[str]) -> list[str]:
    """Of the files of pairs: the names of sets where these can be names of files."""
    return [
        name if name.isascii() and name.replace("-", "").isalnum() and not name.startswith("set-") else f"set-{number}"
        for number, name in enumerate(names, 1)
    ]


def _write(directory: Path, facts: dict[str, Any], files: dict[str, str]) -> None:
    (directory / "pairs").mkdir()
    for stem, content in zip(_stems(list(files)), files.values(), strict=True):
        write_text(directory / "pairs" / f"{stem}.tsv", content)
    write_json(directory / "bias.json", facts)
    write_bias_report(facts, directory)
