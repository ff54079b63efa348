"""The records of a run: manifest.json, metrics.json and the lines of log.jsonl."""

from functools import cached_property
from typing import Any

from heedful.storage.record import Number, Record, Text

FORMAT = 2
"""Of the files of runs and studies."""


class StatedMetric(Record):
    """A metric as the run describes it, so that a report needs no code of the objective."""

    name: str = ""
    title: str = ""
    """The name in running text; the name itself where it is empty."""
    higher_is_better: bool | None = None
    signature: str = ""
    """How it was computed, where there are several ways."""


class DataCheck(Record):
    """What a check of the data has found."""

    name: str | None = None
    state: str | None = None
    """pass or warn."""
    sentence: str | None = None
    count: Number | None = None
    """Number of rows that it is about."""
    rows: list[Any] = []
    """Some of these."""


class TaskData(Record):
    """One of several tasks in the data."""

    metric: str | None = None
    """The metric that judges it."""
    pairs: bool | None = None
    sizes: dict[str, Number] = {}


class DataRecord(Record):
    """The data of a run or a study, as the objective describes them."""

    name: str | None = None
    kind: str | None = None
    labels: list[Text] = []
    pairs: bool | None = None
    sizes: dict[str, Number] = {}
    """Number of rows of each set."""
    fingerprints: dict[str, str | None] = {}
    """A hash of the rows of each set, in their order."""
    hidden: list[Text] = []
    """Sets whose labels are not public."""
    licence: str | None = None
    contamination: str | None = None
    notes: list[Text] = []
    warnings: list[Text] = []
    checks: list[DataCheck] = []
    in_turn: bool = False
    """Whether several tasks were trained one after the other."""
    trained_on: list[Text] = []
    tasks: dict[str, TaskData] = {}
    usage: str | None = None
    """The command that uses a model, where it does not predict labels."""


class Parameters(Record):
    """Numbers of parameters."""

    total: Number | None = None
    trainable: Number | None = None


class Trained(Record):
    """How far a pretraining had come."""

    step: Number | None = None
    tokens: Number | None = None


class ModelRecord(Record):
    """The model that a run began from."""

    source: str | None = None
    fingerprint: str | None = None
    family: str | None = None
    tokenizer: str | None = None
    """The fingerprint of the tokenizer."""
    parameters: Parameters = Parameters()
    made_from: dict[str, str | None] = {}
    """Other models or adapters in it, each with its fingerprint."""
    pretrained: Trained = Trained()
    """If a run of heedful has left the model: how far that run had come."""
    licence: str | None = None
    trained_on: str | None = None


class Cost(Record):
    """What a run took, and what using its model takes."""

    training_seconds: Number | None = None
    total_seconds: Number | None = None
    peak_memory_bytes: Number | None = None
    gpu_memory_bytes: Number | None = None
    flops: Number | None = None
    tokens: Number | None = None
    truncated_share: Number | None = None
    padding_share: Number | None = None
    prediction_seconds: Number | None = None
    """For 1,000 examples."""
    model_bytes: Number | None = None
    adapter_bytes: Number | None = None


class EarlyStop(Record):
    """Where training.patience has ended a run."""

    step: Number | None = None
    steps: Number | None = None
    """How many there would have been."""
    marks_without_gain: Number | None = None


class _Keys(Record):
    name: str | None = None
    method: str | None = None
    kind: str | None = None
    metric: str | None = None
    keep: str = "best"


class RecipeView(Record):
    """The keys of a recipe that are read from a record of it; `recipes.schema` has all."""

    model: _Keys = _Keys()
    objective: _Keys = _Keys()
    tuning: _Keys = _Keys()
    training: _Keys = _Keys()
    evaluation: _Keys = _Keys()


class WithRecipe(Record):
    """A record with a recipe in it."""

    recipe: dict[str, Any] = {}
    """Every key of the recipe but the seeds and the study."""

    @cached_property
    def asked(self) -> RecipeView:
        """The keys of the recipe that reports read."""
        return RecipeView.model_validate(self.recipe)


class Manifest(WithRecipe):
    """What a run is, and what it took (manifest.json)."""

    format: int = FORMAT
    engine: int | None = None
    """The version of what a step computes: only a run with the same one is resumed."""
    heedful: str | None = None
    seed: int | None = None
    command: str | list[Text] | None = None
    thresholds: dict[str, Number] = {}
    """What the best score on dev must reach at an evaluation, by its number; else training ends there."""
    versions: dict[str, Text] = {}
    threads: int | None = None
    processes: int = 1
    parts: int | None = None
    """Into how many parts a batch was cut, if the recipe says another number."""
    device: str | None = None
    metrics: list[StatedMetric] = []
    """The metrics of the run, the default first."""
    data: DataRecord = DataRecord()
    model: ModelRecord = ModelRecord()
    state: str = "done"
    reason: str | None = None
    """Why the run failed."""
    stopped_early: EarlyStop = EarlyStop()
    pruned: Number | None = None
    """The number of the evaluation at which the run was stopped, being behind earlier settings of its search."""
    cost: Cost = Cost()
    files: dict[str, Any] = {}
    """What the run has left besides its metrics, with the size of each file."""


class ClassScores(Record):
    """The scores of one class."""

    precision: Number | None = None
    recall: Number | None = None
    f1: Number | None = None
    support: Number | None = None


class Bin(Record):
    """Predictions of about the same confidence."""

    low: Number | None = None
    high: Number | None = None
    confidence: Number | None = None
    accuracy: Number | None = None
    n: Number | None = None


class Scores(Record):
    """The scores on one evaluation set: `n`, a number for each metric, and what belongs to some tasks only."""

    per_class: dict[str, ClassScores] = {}
    confusion: list[list[int]] = []
    """Rows are true classes, columns predicted ones, in the order of per_class."""
    bins: list[Bin] = []
    undefined: dict[str, Text] = {}
    """The metrics that are not defined here, each with the reason."""
    parts: list["Scores"] = []
    """The scores of some of the examples."""
    part: Text | None = None
    """Which examples these are."""

    @property
    def n(self) -> float | None:
        """The number of examples."""
        return self.number("n")


class BaselineScores(Record):
    """A baseline: its scores by evaluation set, and what it took."""

    seconds: Number | None = None
    tested: bool | None = None
    """Whether the statistics compare it."""
    floor: bool | None = None
    """Whether they compare it with the chosen setting only."""
    strength: Number | None = None
    """Of its regularisation."""
    prediction_seconds: Number | None = None
    model_bytes: Number | None = None

    @cached_property
    def sets(self) -> dict[str, Scores]:
        """The scores by evaluation set."""
        return {name: Scores.model_validate(s) for name, s in self.extra.items() if isinstance(s, dict) and s}

    def scores(self, name: str | None) -> Scores:
        """Return the scores on an evaluation set; empty if there are none."""
        return self.sets.get(name or "", Scores())


class BestMark(Record):
    """The evaluation at which dev was best."""

    step: Number | None = None
    epoch: Number | None = None
    mark: Number | None = None
    score: Number | None = None
    """In which higher is better, whatever the metric."""


class Calibrated(Record):
    """The scores of an evaluation set without and with the temperature."""

    before: Scores = Scores()
    after: Scores = Scores()
    temperature: Number | None = None


class ExampleRecord(Record):
    """An example, its true label and what was predicted."""

    split: str | None = None
    task: str | None = None
    row: Any = None
    text: str | None = None
    pair: str | None = None
    gold: Any = None
    predicted: Any = None
    probability: Number | None = None
    """Of what was predicted."""
    votes: dict[str, Number] = {}
    """How many seeds predict each label."""


class FusedLayer(Record):
    """How a layer weighs its adapters, in the order of their names."""

    place: str | None = None
    layer: Number | None = None
    weights: list[Number] = []
    by_label: dict[str, list[Number]] = {}


class FusedSet(Record):
    """How a fusion weighs its adapters on the texts of an evaluation set."""

    texts: Number | None = None
    layers: list[FusedLayer] = []


class FusionRecord(Record):
    """Which adapters a fusion uses."""

    adapters: list[Text] = []
    sets: dict[str, FusedSet] = {}


class ForgettingRecord(Record):
    """Tasks that were trained one after the other; each evaluation set has its matrix of scores under its name."""

    tasks: list[Text] = []
    """In the order in which they were trained."""
    metrics: Any = None

    def matrix(self, name: str) -> list[list[float | None]]:
        """Return the score of each task (across) after each stage (down) on an evaluation set; empty if unknown."""
        found = self.extra.get(name)
        return found if isinstance(found, list) else []


class Metrics(Record):
    """The scores of a finished run (metrics.json)."""

    format: int = FORMAT
    primary: str | None = None
    """The metric that decides."""
    splits: dict[str, Scores] = {}
    """The scores by evaluation set."""
    best: BestMark = BestMark()
    baselines: dict[str, BaselineScores] = {}
    temperature: Number | None = None
    calibration: dict[str, Calibrated] = {}
    errors: list[ExampleRecord] = []
    fusion: FusionRecord = FusionRecord()
    forgetting: ForgettingRecord = ForgettingRecord()


class LogLine(Record):
    """A line of log.jsonl: a step, an evaluation on dev, or both. What an objective adds is in mappings of its own."""

    step: Number | None = None
    epoch: Number | None = None
    mark: Number | None = None
    """The number of the evaluation."""
    loss: Number | None = None
    terms: dict[str, Number] = {}
    """The terms of the loss."""
    lr: Number | None = None
    tokens: Number | None = None
    dev: dict[str, Number | None] | None = None
    """The scores on dev; None where nothing was evaluated."""

    @property
    def others(self) -> dict[str, Record]:
        """The mappings that an objective has added, by name."""
        return {name: Record.model_validate(one) for name, one in self.extra.items() if isinstance(one, dict)}

    @property
    def scores(self) -> dict[str, Number | None]:
        """The scores on dev, if any."""
        return self.dev or {}
