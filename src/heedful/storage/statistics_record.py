"""The record of what the runs of a study show together: statistics.json."""

from typing import Any

from heedful.storage.record import Number, Record, Text
from heedful.storage.run_record import ExampleRecord

FORMAT = 2
"""Of statistics.json."""


class Sentence(Record):
    """A finding as a sentence, with numbers of its own."""

    sentence: str | None = None


class Expected(Sentence):
    """The score to expect of a setting."""

    mean: Number | None = None
    low: Number | None = None
    high: Number | None = None
    level: Number = 0.95
    """Of the interval."""
    std: Number | None = None
    """Over seeds, on these examples."""
    about: str | None = None
    """What the interval is for: "seeds and examples", "examples" or "this run"."""


class StabilityRecord(Sentence):
    """How the predictions for the examples depend on the seed."""

    always: Number | None = None
    """Number of examples that all seeds predict correctly."""
    sometimes: Number | None = None
    never: Number | None = None
    agreement: Number | None = None
    """The share of examples on which two seeds agree."""


class FailedRuns(Sentence):
    """The runs of a setting that learned nothing."""

    failed: list[int] = []
    """The runs, by number."""
    share: Number | None = None


class SettingStatistics(Record):
    """What was found of one setting."""

    baseline: bool | None = None
    random: bool | None = None
    seeds: Number | None = None
    expected: Expected = Expected()
    stability: StabilityRecord = StabilityRecord()
    failed: FailedRuns = FailedRuns()


class Need(Sentence):
    """What it takes to show a difference."""

    difference: Number | None = None
    seeds_alone: Number | None = None
    rows_alone: Number | None = None
    seeds: Number | None = None
    rows: Number | None = None


class VisibleDifference(Sentence):
    """The smallest difference that a study shows reliably, and what smaller ones need."""

    a: str | None = None
    b: str | None = None
    difference: Number | None = None
    floor: Number | None = None
    """The same with unlimited seeds."""
    needs: list[Need] = []
    rough: bool | None = None
    """Whether there are too few seeds to be sure of it."""


class Difference(Sentence):
    """A difference with its interval and p value."""

    difference: Number | None = None
    low: Number | None = None
    high: Number | None = None
    p: Number | None = None
    p_corrected: Number | None = None
    """None where one seed stands for a method."""

    @property
    def ends(self) -> list[float]:
        """Both ends of the interval; empty if it has none."""
        return [] if self.low is None or self.high is None else [self.low, self.high]


class OrderRecord(Sentence):
    """Whether one setting is almost stochastically better."""

    violation: Number | None = None
    bound: Number | None = None


class EffectRecord(Sentence):
    """The size of a difference, measured in seeds."""

    difference: Number | None = None
    g: Number | None = None
    """Hedges' g; None if nothing varies."""
    superiority: Number | None = None


class ComparisonRecord(Difference):
    """Two settings compared: a minus b, in the direction of the metric."""

    a: str | None = None
    b: str | None = None
    better: str | None = None
    """a or b, if that is shown."""
    decided: str | None = None
    """different, alike or open."""
    about: str | None = None
    pairs: Number | None = None
    """Number of comparisons that p is corrected for."""
    more_seeds_can_decide: bool | None = None
    visible: VisibleDifference = VisibleDifference()
    order: OrderRecord = OrderRecord()
    effect: EffectRecord = EffectRecord()


class Higher(Difference):
    """A setting that scored higher than the chosen one."""

    setting: str | None = None


class NotCompared(Record):
    """A setting that could not be compared."""

    setting: Text = ""
    reason: Text = ""


class AbstentionRow(Record):
    """What happens if the model answers only above a confidence."""

    threshold: Number | None = None
    answered: Number | None = None
    score: Number | None = None
    accuracy: Number | None = None


class Abstention(Sentence):
    """When to hand over to a person."""

    setting: str | None = None
    metric: str | None = None
    """The metric of the scores."""
    title: str | None = None
    rows: list[AbstentionRow] = []
    chosen_on: str | None = None
    """The evaluation set that the thresholds were chosen on."""


class Doubtful(Sentence):
    """Examples that the model predicts otherwise than they are labelled."""

    setting: str | None = None
    agreed_wrong: int | None = None
    """Number of examples for which all seeds predict the same wrong label."""
    examples: list[ExampleRecord] = []
    seeds_disagree: list[ExampleRecord] = []


class Summary(Record):
    """A mean over seeds."""

    mean: Number | None = None
    std: Number | None = None
    n: int = 0
    values: list[Number] = []


class TaskScores(Record):
    """How a setting does on each task."""

    trained_on: list[Text] = []
    in_turn: bool | None = None
    scores: dict[str, Summary] = {}


class TasksRecord(Record):
    """How settings do on each of several tasks."""

    set: str | None = None
    metrics: dict[str, str] = {}
    """The metric that judges each task."""
    settings: dict[str, TaskScores] = {}


class Forgetting(Sentence):
    """What is left of each task after those that were trained later, as means over seeds."""

    setting: str | None = None
    set: str | None = None
    tasks: list[Text] = []
    metrics: Any = None
    n: int | None = None
    """Number of seeds."""
    mean: list[list[Number | None]] = []
    """The score of each task (across) after each was trained (down)."""
    std: list[list[Number | None]] = []
    average: Summary = Summary()


class Interference(Difference):
    """A task that was trained with others, against the same task trained by itself."""

    task: str | None = None
    setting: str | None = None
    single: str | None = None
    metric: str | None = None
    seeds: list[Number] = []
    examples: Number | None = None
    reason: str | None = None
    """Why they are not compared."""


class CurvePoint(Record):
    """The scores of some runs that were trained on as many rows."""

    rows: Number | None = None
    scores: list[Number] = []


class LastStep(Record):
    """What the last increase of the training rows brought."""

    before: Number | None = None
    after: Number | None = None
    gain: Number | None = None
    low: Number | None = None
    high: Number | None = None


class CurveFit(Sentence):
    """The fitted curve: error = a · rows^−b + c."""

    a: Number | None = None
    b: Number | None = None
    c: Number | None = None
    rows: Number | None = None
    low: Number | None = None
    high: Number | None = None
    """The interval of the error with twice as many rows."""
    now: Number | None = None
    doubled: Number | None = None
    """The error with twice as many rows."""
    gain_low: Number | None = None
    gain_high: Number | None = None
    """The interval of what doubling the rows takes off the error."""
    without_smallest: list[Number] | None = None
    lack_of_fit: Number | None = None
    """The p value of the points' distance from the curve."""
    last: LastStep = LastStep()
    verdict: str | None = None
    """help, hardly or open."""


class BaselineCurve(Record):
    """The points of a baseline on the same rows."""

    name: str | None = None
    points: list[CurvePoint] = []


class Curve(Record):
    """The score of a group of settings against the number of training rows."""

    group: Text = ""
    metric: str | None = None
    title: str | None = None
    higher_is_better: bool | None = None
    points: list[CurvePoint] = []
    baseline: BaselineCurve = BaselineCurve()
    fit: CurveFit = CurveFit()


class Statistics(Record):
    """What the runs show together (statistics.json); objectives add entries of their own."""

    format: int | None = None
    split: str | None = None
    """The evaluation set that judges."""
    metric: str | None = None
    higher_is_better: bool | None = None
    chosen: str | None = None
    examples: Number | None = None
    alpha: Number = 0.05
    look: Number | None = None
    """How often the runs had been looked at, where seeds were added until the comparison was decided."""
    settings: dict[str, SettingStatistics] = {}
    comparisons: list[ComparisonRecord] = []
    how_many_more: VisibleDifference = VisibleDifference()
    higher_on_test: list[Higher] = []
    not_compared: list[NotCompared] = []
    abstention: Abstention = Abstention()
    doubtful: Doubtful = Doubtful()
    tasks: TasksRecord = TasksRecord()
    forgetting: list[Forgetting] = []
    interference: list[Interference] = []
    curves: list[Curve] = []

    def about(self, name: str | None) -> SettingStatistics:
        """Return what was found of a setting; empty if nothing was."""
        return self.settings.get(name or "", SettingStatistics())
