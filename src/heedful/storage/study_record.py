"""The record of a study: study.json."""

from typing import Any

from heedful.storage.record import Number, Record, Text
from heedful.storage.run_record import FORMAT, BaselineScores, DataRecord, WithRecipe


class SettingRecord(WithRecipe):
    """One setting of a study: a recipe, run with several seeds."""

    name: str = ""
    group: str | None = None
    """What the settings of one search or learning curve have in common."""
    model: str | None = None
    method: str | None = None
    random: bool | None = None
    """Whether a seed plays a part."""
    baseline: bool | None = None
    values: dict[str, Any] = {}
    """The keys of the recipe that the study varies."""

    @property
    def fixed(self) -> bool:
        """Whether no seed plays a part."""
        return self.random is False


class RunEntry(Record):
    """A run of a study, and how it ended."""

    name: str = ""
    setting: str = ""
    seed: int | None = None
    state: str = "done"
    """done or failed."""
    reason: str | None = None
    """Why it failed."""


class Chosen(Record):
    """What is best on dev."""

    setting: str | None = None
    seed: int | None = None
    """Of the model in best/; None of a baseline that has no runs."""


class SearchRecord(Record):
    """How settings were searched."""

    search: str | None = None
    curve: Any = None
    """Set where the settings are the sizes of a learning curve."""


class TableRow(Record):
    """A row of the table. Other keys are those that the study varies, and the mean, std, low and high of the deciding
    metric on each evaluation set (`test_mean`)."""

    setting: str = ""
    model: str | None = None
    method: str | None = None
    baseline: bool | None = None
    random: bool | None = None
    n: int | None = None
    """Number of runs."""
    pruned: Number | None = None
    """The number of the evaluation at which runs were stopped."""
    metric: str | None = None
    higher_is_better: bool | None = None
    train_rows: Number | None = None
    training_seconds: Number | None = None
    trainable_parameters: Number | None = None
    prediction_seconds: Number | None = None
    model_bytes: Number | None = None
    adapter_bytes: Number | None = None
    model_directory: str | None = None

    @property
    def means(self) -> dict[str, float]:
        """The mean on each evaluation set that has one."""
        known = {key.removesuffix("_mean"): self.number(key) for key in self.extra if key.endswith("_mean")}
        return {name: mean for name, mean in known.items() if mean is not None}


class StudyRecord(Record):
    """What a study is for, its runs, and what was chosen (study.json)."""

    format: int = FORMAT
    kind: str = "search"
    """What the study is for. Earlier versions did not say; what a report has of a search suits their studies."""
    command: Text | None = None
    settings: list[SettingRecord] = []
    final_settings: list[SettingRecord] = []
    """Of a search: what it has chosen, run with seeds that took no part in choosing."""
    seeds: list[int] = []
    search: SearchRecord = SearchRecord()
    fingerprints: dict[str, dict[str, str | None]] = {}
    """The fingerprints of each data set, by its table in the recipe."""
    baselines: dict[str, BaselineScores] = {}
    runs: list[RunEntry] = []
    data: DataRecord = DataRecord()
    thresholds: dict[str, dict[str, Number]] = {}
    """The thresholds of each run, as its manifest has them."""
    chosen: Chosen = Chosen()
    table: list[TableRow] = []

    @property
    def described(self) -> dict[str, SettingRecord]:
        """The settings by name, those included that a search has chosen."""
        return {setting.name: setting for setting in (*self.settings, *self.final_settings)}

    @property
    def tried(self) -> list[TableRow]:
        """The rows of the table that took part in a search; none where nothing was chosen."""
        chosen = {setting.name for setting in self.final_settings}
        return [row for row in self.table if chosen and not row.baseline and row.setting not in chosen]

    @property
    def tried_and_chosen(self) -> set[str]:
        """The names of the settings that a search has chosen, one of each group, as it tried them."""
        return {setting.name.removesuffix("-final") for setting in self.final_settings}
