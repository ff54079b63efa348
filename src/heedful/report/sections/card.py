"""The decision card of a study: what to use, what to expect of it, what it beats, what it costs, how to use it.

Each of its numbers stands in statistics.json or in the table of study.json, and each sentence is about the setting that
was chosen on dev.
"""

import shlex
from typing import Literal

from heedful.report.facts.checks import checks
from heedful.report.facts.comparison import Comparison, Setting
from heedful.report.facts.run import chose_on_dev
from heedful.report.page.pieces import Card
from heedful.report.page.words import (
    amount,
    duration,
    equals,
    figure,
    interval,
    listed,
    percent,
    several,
    signed,
    size,
    title_of,
)
from heedful.report.sections.shared import confusion_of
from heedful.storage.run_record import DataRecord, TaskData
from heedful.storage.statistics_record import FORMAT, ComparisonRecord
from heedful.studies.kinds.protocol import kind_of_study

Line = tuple[str, str, Literal["", "warning"]]

MOST_NAMED = 3
"""Settings that a sentence names."""


def verdict(c: Comparison) -> str:
    """The card in running words; a sentence where there is none."""
    made = card(c)
    if made is None:
        return without_card(c)
    return " ".join([f"{made.title} ({made.note}).", *(f"{what} {text}".strip() for what, text, _ in made.lines)])


def card(c: Comparison) -> Card | None:
    """None where nothing was chosen, or the statistics do not say what to expect of it."""
    chosen = c.setting(c.chosen)
    if chosen is None or c.expected(chosen.name).mean is None:
        return None
    lines: list[Line] = [("Expect", _expected(c, chosen), "")]
    lines += _baselines(c, chosen)
    lines += _curves(c) or _rivals(c, chosen)
    lines += [("It costs", text, "") for text in [_cost(chosen)] if text]
    more = c.statistics.how_many_more.sentence
    lines += [("How many more?", more, "")] if more else []
    never = _never_predicted(c, chosen)
    lines += [("Mind", never, "warning")] if never else []
    warned = [check.name for check in checks(c) if check.state == "warns" and not check.name.startswith("against ")]
    warned = [name for name in warned if not (never and name == "classes never found")]
    if warned:
        lines.append(("" if never else "Mind", f"{'; '.join(dict.fromkeys(warned))} (see Checks).", "warning"))
    above, unbeaten = _better(c), _unbeaten(c)
    kept = (c.study.directory / "best").is_dir()
    if kept:
        lines.append(("The model", "is in best/." if above or unbeaten else "is in best/, ready to use.", ""))
    note = "the best on dev" if _tried(c) > 1 else "the only setting"
    level = [title_of(s.name) for s in c.scored if s is not chosen and _level(s, chosen)]
    note += f", level with {', '.join(level)}" if level else ""
    if c.study.record.search.curve:
        note = f"{note} with the most rows"
    title = f"Use {title_of(chosen.name)}"
    if above:  # what is better cannot be used: it is no model here
        title = f"{title_of(chosen.name)} is not good enough yet"
        note = f"{note} that is a model; {above}"
    elif unbeaten:
        title = f"{title_of(chosen.name)} is not shown to beat {unbeaten}"
    return Card(title, note, tuple(lines), _command(c) if kept else "")


def _models(c: Comparison) -> list[Setting]:
    """What can be chosen: not a baseline that is no model."""
    return [s for s in c.scored if not s.borrowed or directory_of(s)]


def _better(c: Comparison) -> str:
    """The first baseline that is no model and at least as good as the chosen setting on the same rows, in words: shown
    to be better; where one seed forbids a test, better beyond what other examples would change; or not behind it. "" if
    there is none."""
    models = _models(c)
    for other in c.scored:
        row = c.against(other.name)
        ends = [c.metric.sign * end for end in row.ends]
        if other in models:
            continue
        if row.better == "b":
            return f"{title_of(other.name)} is shown to be better"
        if row.p_corrected is None and ends and max(ends) < 0:
            return f"{title_of(other.name)} is clearly ahead in this run"
        if (ahead := _ahead(c, row)) is not None and ahead <= 0:
            return f"{title_of(other.name)} is {'ahead of' if ahead else 'level with'} it on {c.split}"
    return _better_untested(c)


def _better_untested(c: Comparison) -> str:
    """The same of baselines that were not compared with it: by their scores."""
    ours = c.expected(c.chosen).mean
    for name, scores in c.baselines(c.split, c.metric.name).items() if c.split and ours is not None else ():
        theirs = scores["mean"]
        if theirs is not None and ours is not None and not c.metric.better(ours, theirs):
            return f"{title_of(name)} is {'level with' if ours == theirs else 'ahead of'} it on {c.split}"
    return ""


def _unbeaten(c: Comparison) -> str:
    """The first baseline that is no model and that the chosen setting is not shown to beat: by a test, or where one
    seed forbids it, beyond what other examples would change. "" if there is none."""
    models = _models(c)
    for other in c.scored:
        row = c.against(other.name)
        if other in models or not row or row.better == "a":
            continue
        ends = [c.metric.sign * end for end in row.ends]
        if row.p_corrected is not None or not ends or min(ends) <= 0:
            return title_of(other.name)
    return ""


def _never_predicted(c: Comparison, chosen: Setting) -> str:
    """The classes that occur and that the model in best/ predicts for no example; "" if there are none."""
    seed = c.study.record.chosen.seed
    for run in [*(run for run in chosen.runs if run.manifest.seed == seed), *chosen.runs][:1]:
        labels = list(run.scores(c.split).per_class)
        rows = confusion_of(run.scores(c.split), labels)
        if rows is not None:
            columns = list(zip(*rows, strict=True))
            lost = [label for k, label in enumerate(labels) if any(rows[k]) and not any(columns[k])]
            more = [f"{len(lost) - MOST_NAMED} more"] if len(lost) > MOST_NAMED else []
            named = listed([f"“{label}”" for label in lost[:MOST_NAMED]] + more)
            count = f" ({len(lost)} of {len(labels)} classes)" if len(labels) > 2 else ""
            return f"It never predicts {named}{count} on {c.split}." if lost else ""
    return ""


def _level(one: Setting, other: Setting) -> bool:
    mean = one.row.means.get("dev")
    return mean is not None and mean == other.row.means.get("dev")


def without_card(c: Comparison) -> str:
    """Why there is no card."""
    if c.split is None or not c.scored:
        return "No run of this study has finished with a score, so there is nothing to conclude."
    kind = kind_of_study(c.study)
    if kind is not None and not kind.chooses:
        return "This study does not choose a setting; its results are below."
    known = c.study.statistics
    if known and known.format != FORMAT:
        return (
            "The statistics of this study were written by an earlier version of heedful and say less than they seem "
            "to, so there is no verdict here; run the study again with another --out."
        )
    return "This study has no statistics of these scores (yet), so there is no verdict."


def _expected(c: Comparison, chosen: Setting) -> str:
    expected, seeds = c.expected(chosen.name), c.statistics.about(chosen.name).seeds
    start = amount(c.metric.title, expected.mean)
    examples = c.statistics.examples
    basis = [f"{several(int(examples), f'{c.split} example')}"] if examples else []
    if expected.about == "seeds and examples":
        start += " on other such texts and with other seeds"
        basis = [several(int(seeds), "seed"), *basis] if seeds else basis
    elif expected.about == "examples":
        start += " on other such texts"
        basis = ["no seed plays a part", *basis]
    else:
        start += " on other such texts, of this one run: other seeds may differ"
        basis = ["one seed", *basis]
    chose = c.split == "dev" and _chose_on_dev(c, chosen)
    end = " The dev examples also made the choice, so this is somewhat flattering." if chose else ""
    if expected.low is None:
        return f"{start} ({', '.join(basis)}; this metric has no interval).{end}"
    ends = interval(expected.low, expected.high)
    return f"{start} ({percent(expected.level)}: {ends}; {', '.join(basis)}).{end}"


def _chose_on_dev(c: Comparison, chosen: Setting) -> bool:
    """Whether dev has chosen among several settings, or among the marks of a run."""
    return _tried(c) > 1 or any(chose_on_dev(run) for run in chosen.runs)


def _tried(c: Comparison) -> int:
    """How many settings dev has chosen among, those of a search that were not tested included."""
    tried = [s for s in c.study.record.settings if not s.baseline]
    return max(len(_models(c)), len(tried))


def _baselines(c: Comparison, chosen: Setting) -> list[Line]:
    """Each baseline that competes, or that there is none."""
    others = [s for s in c.scored if s.baseline and s is not chosen]
    if not others and not chosen.baseline:
        return [_untested_baseline(c, chosen)]
    models, lines = _models(c), list[Line]()
    beaten = [s for s in others if s not in models and c.against(s.name).better == "a"]
    for other in (s for s in others if s not in beaten[1:]):  # who beats one guess beats those that score less
        row, name = c.against(other.name), title_of(other.name)
        found = _found(c, row)
        place = directory_of(other)
        simpler = ", the simpler model" if place and not chosen.baseline else ""
        there = f" {name} is in {place}." if place else ""
        if row.better == "a":
            lines.append(("It beats", f"{name} by {_by(c, row)} ({found}).", ""))
        elif row.better == "b":
            found = _found(c, row, of_chosen=False)
            lines.append((name, f"is shown to be better on {c.split}, by {_by(c, row)} ({found}).{there}", "warning"))
        elif row.p_corrected is not None:
            words = f"to beat {name}{simpler}: {_standing(c, row)} on {c.split} ({found}).{there}"
            lines.append(("Not shown", words, "warning"))
        elif row:
            words = f"whether it beats {name}{simpler}: {_standing(c, row)} in this run ({found}).{there}"
            lines.append(("Not tested", words, "warning"))
        else:
            lines.append(("Not tested", f"whether it beats {name}.{_why(c, other, chosen)}{there}", "warning"))
    return lines


def _untested_baseline(c: Comparison, chosen: Setting) -> Line:
    """The best that the runs have a score of, or that there is none."""
    best = c.best_baseline(c.split) if c.split else None
    mean = c.expected(chosen.name).mean
    if best is None or mean is None:
        return "Baseline", "There is no baseline to compare with.", "warning"
    name, score = best
    does = "it does" if c.metric.better(mean, score) else "it does not"
    words = f"whether it beats {title_of(name)}, which has {amount(c.metric.title, score)}; {does} in these runs."
    return "Not tested", words, "warning"


def _rivals(c: Comparison, chosen: Setting) -> list[Line]:
    """The settings that score higher on the judged set, each by name; then those it beats, and those it is not shown
    to beat."""
    rivals = [s for s in c.scored if not s.baseline and s is not chosen]
    higher = [s for s in rivals if (_ahead(c, c.against(s.name)) or 0.0) < 0]
    lines: list[Line] = [
        ("But" if i == 0 else "", _higher(c, chosen, s), "") for i, s in enumerate(higher[:MOST_NAMED])
    ]
    if len(higher) > MOST_NAMED:
        lines.append(("", f"Higher on {c.split} too: {_named(higher[MOST_NAMED:])}.", ""))
    behind = [s for s in rivals if s not in higher]
    beaten = [s for s in behind if c.against(s.name).better == "a"]
    alike = [s for s in behind if s not in beaten and c.against(s.name).p_corrected is not None]
    untested = [s for s in behind if s not in beaten and c.against(s.name) and s not in alike]
    if len(beaten) == 1:
        row = c.against(beaten[0].name)
        lines.append(("It beats", f"{title_of(beaten[0].name)} by {_by(c, row)} ({_found(c, row)}).", ""))
    elif beaten:
        lines.append(("It beats", f"{_named(beaten)}, each by a paired test.", ""))
    if len(alike) == 1:
        row = c.against(alike[0].name)
        behind_by = f"{_by(c, row)} behind" if row.difference else "the same score"
        one = f"{title_of(alike[0].name)} (paired test): {behind_by} on {c.split} ({_found(c, row)})."
        lines.append(("Not shown worse", one, ""))
    elif alike:
        lines.append(("Not shown worse", f"{_named(alike)} (paired tests).", ""))
    if untested:
        lines.append(("Not tested", f"whether it beats {_named(untested)}: one seed stands for a method.", ""))
    missing = [s for s in rivals if not c.against(s.name)]
    if missing:
        lines.append(("Not compared", f"{_named(missing)}.{_why(c, missing[0], chosen)}", "warning"))
    return lines


def _higher(c: Comparison, chosen: Setting, other: Setting) -> str:
    known = (one.sentence for one in c.statistics.higher_on_test if one.setting == other.name)
    words = (next(known, None) or "").removesuffix(".")
    ours, theirs = chosen.cost("training_seconds"), other.cost("training_seconds")
    if ours is not None and theirs is not None and duration(ours) != duration(theirs):
        words += f"; it trains for {duration(theirs)} instead of {duration(ours)}"
    return f"{words}."


def _curves(c: Comparison) -> list[Line]:
    """Sizes of one setting are no rivals: what more labels would do."""
    lines: list[Line] = []
    for curve in c.statistics.curves:
        if curve.fit.sentence:
            lines.append(("More labels?", f"{title_of(curve.group)}: {curve.fit.sentence}", ""))
    return lines


def _cost(chosen: Setting) -> str:
    parts = []
    training, prediction = chosen.cost("training_seconds"), chosen.cost("prediction_seconds")
    if training is not None:
        parts.append(f"{duration(training)} to train")
    if prediction is not None:
        parts.append(f"{duration(prediction)} for 1,000 new texts")
    held = chosen.cost("model_bytes")
    if held is not None:
        adapters = chosen.cost("adapter_bytes")
        of_them = "" if adapters is None else f", {size(adapters)} of it adapters"
        parts.append(f"{size(held)} on disk{of_them}")
    return f"{'; '.join(parts)}." if parts else ""


def _command(c: Comparison) -> str:
    model, chosen = shlex.quote(str(c.study.directory / "best")), c.setting(c.chosen)
    trained = chosen.runs[0].manifest.data if chosen is not None and chosen.runs else DataRecord()
    if trained.usage is not None:  # of an objective whose models predict no labels
        return trained.usage.replace("{model}", model)
    paired, heads = c.study.record.data.pairs, trained.trained_on
    if heads:
        paired = c.study.record.data.tasks.get(heads[0], TaskData()).pairs
        model += f" --head {heads[0]}" if len(heads) > 1 else ""
    return f"heedful predict {model} " + ("FILE.csv --text COLUMN --pair COLUMN" if paired else '"a new text"')


def directory_of(setting: Setting) -> str:
    """Where its model is, beside the report; empty for a baseline that is no model."""
    known = setting.row.model_directory
    return known if known else "" if setting.borrowed else f"runs/ ({setting.name})"


def _ahead(c: Comparison, row: ComparisonRecord) -> float | None:
    """By how much the chosen one is ahead, whichever way is better."""
    return None if row.difference is None else c.metric.sign * row.difference


def _standing(c: Comparison, row: ComparisonRecord) -> str:
    """In words, since a sign says nothing of a metric of which less is better."""
    ahead = _ahead(c, row) or 0.0
    return f"{_by(c, row)} {'behind' if ahead < 0 else 'ahead'}" if ahead else "the same score"


def _by(c: Comparison, row: ComparisonRecord) -> str:
    return figure(abs(_ahead(c, row) or 0.0), 3)


def _found(c: Comparison, row: ComparisonRecord, of_chosen: bool = True) -> str:
    """The interval of a difference, in favour of the chosen one or of the other, and p."""
    low, high = sorted(c.metric.sign * (1 if of_chosen else -1) * end for end in row.ends) or (0.0, 0.0)
    sign = figure if low > 0 else signed
    shown = [f"{percent(1 - c.alpha)}: {sign(low, 3)} to {sign(high, 3)}"] if row.ends else []
    if row.p_corrected is None:
        return "; ".join([*shown, "of these very runs, no test"])
    alone = low * high > 0 and row.better is None  # the interval is of this pair alone
    return "; ".join([*shown, equals(row.p_corrected) + (" for all pairs together" if alone else "")])


def _why(c: Comparison, other: Setting, chosen: Setting) -> str:
    reason = c.not_compared.get(other.name) or c.not_compared.get(chosen.name)
    return f" {reason}" if reason else ""


def _named(settings: list[Setting]) -> str:
    names = [title_of(s.name) for s in settings]
    return listed(names if len(names) <= MOST_NAMED else [*names[:MOST_NAMED], "others"])
