"""Sentences about the results of a knowledge probe, no stronger than the intervals."""

from heedful.evaluation.statistics.wording import p_text
from heedful.evaluation.statistics.wording import percent as round_percent
from heedful.probes.wording import Facts, Line, interval_in_percent, percent, shown
from heedful.report.page.words import capital, several


def about(random: bool, seeds: int) -> str:
    """Return what an interval covers."""
    if random and seeds > 1:
        return "new questions like these and new seeds"
    return "new questions like these, for this run only" if random else "new questions like these"


def verdict(found: Facts) -> list[Line]:
    lines = [("Knows", _knows(found))]
    if found["baseline"] is not None:
        lines.append(("Baseline", _baseline(found)))
    if found["made_up"] is not None:
        lines.append(("Made up", _made_up(found)))
    if "read" in found["groups"]:
        lines.append(("Read", _read(found)))
    if "trained" in found["groups"]:
        lines.append(("Trained on", _trained(found)))
    for row in found["nearest"]:
        if row["n"]:
            lines.append(("New names" if row["group"] == "unseen" else "Mixed up", _nearest(row)))
        elif row["group"] == "unseen":
            line = "" if found["text"] is None else " or its own line"
            lines.append(("New names", f"None: every name in the questions has a training question{line}."))
    lines += [("Confidence", _confidence(found)), ("Silence", silence(found))]
    return lines


def _knows(found: Facts) -> str:
    exact = found["exact_match"]
    seeds = "" if len(found["seeds"]) < 2 else f" (mean of {len(found['seeds'])} seeds)"
    return (
        f"{percent(exact['mean'])} of {several(exact['n'], 'question')} are answered correctly{seeds} "
        f"({interval_in_percent(exact)}, for {found['about']}).{_unspelled(found['unspelled'])}"
    )


def _unspelled(n: int) -> str:
    if not n:
        return ""
    return f" {several(n, 'true answer')} {'has' if n == 1 else 'have'} letters that the tokenizer cannot spell."


def _baseline(found: Facts) -> str:
    base = found["baseline"]
    start = f"Always answering “{base['answer']}” would be correct for {percent(base['share']['mean'])}"
    if base["p"] is None:
        return f"{start}; one question shows no difference."
    facts = f"{points(base['mean'])} ({_evidence(base)})"
    if not shown(base):
        return f"{start}: a difference of {facts}, which could be chance."
    return f"{start}; the model is {'better' if base['mean'] > 0 else 'worse'}, a difference of {facts}."


def _made_up(found: Facts) -> str:
    made_up = found["made_up"]
    places = []
    if found["train"] is not None:
        places.append(f"an answer of the {several(found['train']['n'], 'training question')}")
    if found["text"] is not None:
        places.append(f"words of {found['text']['name']}")
    where = f"neither {places[0]} nor {places[1]}" if len(places) > 1 else f"not {places[0]}"
    sentence = f"{percent(made_up['mean'])} of the answers are {where} ({interval_in_percent(made_up)})"
    some = list(dict.fromkeys(f"“{one['said']}”" for one in made_up["examples"]))
    such = f", such as {', '.join(some[:3])}" if some else ""
    silent = found["silent"]["mean"]
    nothing = f" {percent(silent)} of the answers are empty, which does not count as made up." if silent else ""
    return f"{sentence}{such}.{nothing}"


def _read(found: Facts) -> str:
    with_answer, without, none = found["groups"]["read"]
    parts = [f"if the name's own line contains the true answer, {_right(with_answer)}"]
    if without["n"]:
        parts.append(f"if it does not, {_right(without)}")
    if none["n"]:
        parts.append(f"if no line begins with the name, {_right(none)}")
    return f"{capital('; '.join(parts))}."


def _trained(found: Facts) -> str:
    seen, new = found["groups"]["trained"]
    return f"If a training question has the true answer, {_right(seen)}; if none has it, {_right(new)}."


def _right(row: Facts) -> str:
    if not row["n"]:
        return "there are no questions"
    return f"{percent(row['mean'])} of {row['n']:,} are correct ({interval_in_percent(row)})"


def _nearest(row: Facts) -> str:
    if row["group"] == "unseen":
        start = (
            f"For {several(row['n'], 'name')} that occur neither in the training questions nor in the text, it gives "
            "the answer of the nearest known name"
        )
    else:
        wrong = several(row["answers"], "wrong answer")
        start = f"Among {wrong} about seen names, it gives the answer of the nearest other name"
    chance = f"that of a random name in {percent(row['chance'])}"
    sentence = f"{start} in {percent(row['share']['mean'])} ({interval_in_percent(row['share'])}), {chance}"
    if row["p"] is None:
        return f"{sentence}; too few to compare with chance."
    sentence += f": {points(row['mean'])} ({_evidence(row)})"
    if not shown(row):
        return f"{sentence}. It is not shown to be guided by similar names."
    if row["mean"] < 0:
        return f"{sentence}. It gives that answer less often than any other name's."
    return (
        f"{sentence}. Its answers are guided by similar names; the nearest name's answer would be correct in "
        f"{percent(row['true'])}."
    )


def _confidence(found: Facts) -> str:
    calibration, exact = found["calibration"], found["exact_match"]["mean"]
    area = calibration["auroc"]
    off = calibration["confidence"] - exact
    mean = f"Its mean confidence is {percent(calibration['confidence'])}"
    if abs(off) < 0.01:
        mean += ", close to the share of correct answers"
    else:
        mean += f", {points(abs(off))[1:]} {'above' if off > 0 else 'below'} the share of correct answers"
    mean += f"; the calibration error is {calibration['ece']:.3f}."
    if area["mean"] is None:
        kind = "correct" if exact == 1 else "wrong"
        return f"All answers are {kind}, so the confidence cannot be tested. {mean}"
    told = "" if area["low"] > 0.5 else " It is not shown to separate correct from wrong answers."
    return (
        f"A correct answer has a higher confidence than a wrong one in {percent(area['mean'])} of pairs "
        f"({interval_in_percent(area)}; 50% is chance).{told} {mean}"
    )


def silence(found: Facts) -> str:
    """Describe the abstention rule and its results on the questions that did not choose it."""
    if not found["rules"]:
        return "One question is too few to choose a threshold."
    rule = found["rules"][0]
    wanted, half = round_percent(rule["wanted"]), f"{several(rule['chosen_on']['n'], 'question')} that chose"
    if rule["threshold"] is None:
        return (
            f"No confidence is high enough: on the {half}, at most {percent(rule['best'])} of the answers above any "
            f"threshold are correct, but {wanted} was wanted. Always abstain, or lower --precision."
        )
    coverage, accuracy = rule["coverage"], rule["accuracy"]
    start = f"Answer only if the confidence is at least {threshold(rule['threshold'])}"
    if rule["threshold"] == 0:
        start = "Answer everything"
    judged = (
        f"On the {several(rule['n'], 'question')} that did not choose it, {percent(coverage['mean'])} are answered "
        f"({interval_in_percent(coverage)})"
    )
    if accuracy["mean"] is None:
        return f"{start}. {judged}, so it is unknown whether {wanted} of such answers are correct."
    right = f"{percent(accuracy['mean'])} are correct ({interval_in_percent(accuracy)})"
    return (
        f"{start}. {judged}, and of these {several(accuracy['answers'], 'answer')} {right}; "
        f"{_kept(rule['wanted'], accuracy)}."
    )


def _kept(wanted: float, accuracy: Facts) -> str:
    words = round_percent(wanted)
    if accuracy["low"] is None:
        return f"one question cannot tell whether {words} would be"
    if accuracy["low"] >= wanted:
        return f"at least the wanted {words}"
    if accuracy["high"] < wanted:
        return f"less than the wanted {words}"
    return f"the wanted {words} is compatible with that, and so is less"


def _evidence(test: Facts) -> str:
    ends = "no interval" if test["low"] is None else f"95% CI {points(test['low'])} to {points(test['high'])}"
    many = f", corrected for {test['tests']} tests" if test["tests"] > 1 else ""
    return f"{ends}; {p_text(test['p_corrected'])}{many}"


def points(change: float) -> str:
    """A difference of shares: "+7.4 points"."""
    return f"{100 * change:+.1f} points".replace("-", "−") if round(100 * change, 1) else "0 points"


def threshold(value: float) -> str:
    """As many digits as it has, four at most."""
    return f"{value:.4g}" if value >= 1e-4 or value == 0 else f"{value:.3e}"
