"""The schema of a recipe. Each field's docstring is its reference (`heedful recipes --explain`)."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny

from heedful.errors import RequestError

Attention = Literal["dot-product", "rotary", "relative", "synthesizer-dense", "synthesizer-random"]


class Table(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, strict=True, allow_inf_nan=False
    )


class ModelTable(Table):
    """The keys of every kind of model; each kind adds its own in its file."""

    name: str | None = None
    """Directory, hub id, or name from `heedful models`. Use either this or `shape`. {seed} is replaced by the run's
    random seed, as in "runs/pretrain/runs/pretrain-seed{seed}/model": each run then starts from a different
    pretrained model. marks/2 instead of marks/STEP of a run is its second evaluation step (`training.keep_marks`)."""
    revision: str | None = None
    """Branch, tag or commit of a hub model."""

    @property
    def title(self) -> str:
        """What the model is called."""
        return str(self.name)

    @property
    def drawn(self) -> bool:
        """Whether the weights of the body are random."""
        return self.name is None

    @property
    def seeded(self) -> bool:
        """Whether each seed starts from a different body."""
        return "{seed}" in (self.name or "")

    def name_for(self, seed: int) -> str | None:
        return None if self.name is None else self.name.replace("{seed}", str(seed))

    def weights_for(self, seed: int) -> str | None:
        """Return the name of the model whose weights a run starts from; None if they are random."""
        return self.name_for(seed)

    def other_models(self) -> tuple[str, ...]:
        """Return the names of other models that become part of this one."""
        return ()


class TokenizerTable(Table):
    name: str | None = None
    """Use the tokenizer of this model (directory, hub id or name)."""
    kind: Literal["wordpiece", "bpe", "characters"] | None = None
    """Or train one on the training texts: WordPiece (lower-cased), byte-level BPE, or one token per character that
    occurs (including white space and line ends) without special tokens around a text."""
    size: int = Field(8000, ge=100, le=200_000)
    """Vocabulary size of a trained tokenizer. "characters" ignores it."""
    prefix_space: bool = False
    """For byte-level BPE that is trained: whether to put a space before every text, so that a word has the same
    tokens at the beginning of a text as inside it."""
    joint: bool = True
    """For translation: whether source and target share one vocabulary, trained on both. If not, each has its own,
    of `size` entries."""


class DataTable(Table):
    """The keys of every kind of data; each kind adds its own in its file."""

    @property
    def redrawn(self) -> bool:
        """Whether each seed trains on different rows."""
        return False

    def with_all_rows(self) -> Self:
        """Return the keys with which all training rows are used."""
        return self

    def files(self, name: str) -> list[str]:
        """Return the files that a set of this name is read from; none where it is held out of another, or named."""
        file = getattr(self, name, None)
        return [] if file is None else [str(file)]


class RowsTable(DataTable):
    """Keys of data of which a part of the training rows may be used."""

    split_seed: int = 0
    """Random seed of the splits. It is the same for all seeds of a study, so that all runs see the same rows."""
    limit: int | None = Field(None, ge=1)
    """Train only on this many rows, the first of a seeded shuffle: a smaller limit takes a subset."""
    fraction: float | None = Field(None, gt=0, le=1)
    """Train only on this share of the rows, selected as for `limit`."""
    redraw: bool = False
    """Whether `limit` and `fraction` select different rows for each seed, so that the spread over seeds includes
    that variation, as in learning curves. If not, all runs see the same rows."""

    @property
    def redrawn(self) -> bool:
        return self.redraw

    def with_all_rows(self) -> Self:
        return self.model_copy(update={"limit": None, "fraction": None, "redraw": False})

    def refuse_two_limits(self, place: str = "data") -> None:
        """Refuse keys that both say how many rows are used."""
        if self.limit is not None and self.fraction is not None:
            raise RequestError(f"{place}.limit and {place}.fraction both say how many rows; keep one of the two.")


class ObjectiveTable(Table):
    """The keys of every objective; each objective adds its own in its file."""

    GROWS: ClassVar[bool] = False
    """Whether its steps can be small, and its texts short, at first (`inputs/warmup.py`); if not, a recipe that asks
    for it is refused."""
    CONVEX: ClassVar[bool] = False
    """Whether its loss is convex in what its heads say and its inputs have `everything`, so that linear heads can be
    solved."""

    kind: str = "classify"
    """Name of an objective: what the model learns."""

    def special_tokens(self) -> Sequence[str]:
        """Return tokens that stand for no text, which a tokenizer that is trained must have besides those of its
        family."""
        return ()

    def for_a_sample(self) -> Self:
        """Return the keys with which a step on a small sample takes as long as on the whole."""
        return self


class TuningTable(Table):
    """The keys of every tuning; each tuning adds its own in its file."""

    method: str = "full"
    """Name of a tuning, such as "full" (train all weights) or "frozen" (train only the head)."""


class TrainingTable(Table):
    epochs: int = Field(3, ge=1, le=10_000)
    """Number of passes over the training rows."""
    steps: int | None = Field(None, ge=1)
    """Number of training steps, instead of `epochs`. A stream has no epochs and needs this or `tokens`."""
    tokens: int | None = Field(None, ge=1)
    """Number of tokens to read (without padding), instead of `epochs` or `steps`. Training ends with the step that
    reaches it; the learning rate follows the share of tokens read."""
    mark_steps: int | None = Field(None, ge=1)
    """Evaluate on dev every N steps. Default: at the end of each epoch, and of the run."""
    mark_tokens: int | None = Field(None, ge=1)
    """Evaluate on dev every N tokens."""
    keep_marks: bool = False
    """Whether to save the model at each evaluation step, uncalibrated, as the model directory marks/STEP of the run."""
    batch_size: int = Field(32, ge=1)
    """Number of rows per step."""
    batch_tokens: int | None = Field(None, ge=16)
    """Instead of `batch_size`: as many rows per step as fit into this many tokens (rows × longest row; for
    translation, on either side)."""
    batch_warmup: float = Field(0.0, ge=0, le=1)
    """Share of training over which a step grows to `batch_size` rows: first a quarter of them, then half. For
    objectives that read a stream."""
    accumulate: int = Field(1, ge=1)
    """Number of parts into which the rows of a step are divided to save memory; the result is the same. Under
    torchrun the parts are distributed over the processes, at least one each."""
    optimiser: Literal["adamw", "muon"] = "adamw"
    """ "adamw"; or "muon", which updates the matrices inside the layers by orthogonal matrices and uses AdamW for
    everything else (token and position tables, heads, norms, biases)."""
    lr: float = Field(5e-5, gt=0)
    """Highest learning rate."""
    muon_lr: float = Field(0.02, gt=0)
    """Highest learning rate of the weights that Muon trains; it follows the same schedule as `lr`."""
    betas: list[Annotated[float, Field(ge=0, lt=1)]] = [0.9, 0.999]
    """AdamW's decay rates for the mean of the gradients and of their squares. For long runs with large batches
    often [0.9, 0.95]."""
    schedule: Literal["linear", "cosine", "constant", "trapezoid", "inverse-sqrt"] = "linear"
    """How the learning rate falls after the warm-up: "linear" or "cosine" to zero; "constant"; "trapezoid":
    constant until the last part of training, then linear to zero; "inverse-sqrt": with the square root of the step,
    independent of the length of training, as in "Attention Is All You Need"."""
    warmup: float = Field(0.1, ge=0, lt=1)
    """Share of all steps, or tokens, over which the learning rate rises from zero."""
    warmup_steps: int | None = Field(None, ge=1)
    """Instead of `warmup`: the step with the highest learning rate, such as 4000."""
    cooldown: float = Field(0.2, gt=0, le=1)
    """With schedule = "trapezoid": share of all steps, or tokens, over which the learning rate falls at the end."""
    weight_decay: float = Field(0.01, ge=0)
    """Weight decay per step, only for matrices (not biases and norms)."""
    clip: float | None = Field(1.0, gt=0)
    """Maximum norm of the gradient; larger gradients are scaled down."""
    max_length: int = Field(128, ge=4)
    """Maximum length of a text in tokens, including special tokens: of both texts of a pair together, or of each
    text in towers."""
    length_warmup: float = Field(0.0, ge=0, le=1)
    """Share of training over which texts grow to `max_length` tokens: first a quarter of them, then half. For
    objectives that read a stream."""
    long_texts: Literal["cut", "chunk"] = "cut"
    """What to do with texts longer than `max_length`: "cut" truncates them; "chunk" reads them in chunks and
    averages their vectors."""
    patience: int | None = Field(None, ge=1)
    """Stop when dev has not improved for this many evaluation steps (epochs, unless `mark_steps` or `mark_tokens`
    is set). An equal score is not an improvement. Evaluations do not count until the model scores better than an
    untrained one: no correct answer, a BLEU or correlation of 0, or undefined."""
    keep: Literal["best", "last"] = "best"
    """Which weights become the model: the best on dev (the first of equal ones), or the last."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to compute. "auto" uses a GPU if there is one."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of matrix products in training. Weights stay in float32, and models are evaluated in it. "auto" is
    bfloat16 with CUDA, otherwise float32. On a CPU, bfloat16 needs AVX512-BF16 or AMX instructions and pays off
    only for large products."""
    threads: int | None = Field(None, ge=1)
    """Number of CPU threads. Default: PyTorch's. Sums differ in the last bit between thread counts."""
    checkpoint_seconds: float = Field(60.0, ge=0)
    """How often to write a state from which the run can resume; also at each evaluation step."""


class EvaluationTable(Table):
    metric: str = "auto"
    """Metric of the objective for choosing on dev. Default: the objective's first, such as accuracy for classes."""
    baselines: bool = True
    """Whether to add the objective's baselines (for classes: random, majority, TF-IDF); in a study of pairs also
    the cosine of each model's two sentence vectors."""
    test: bool = True
    """Whether to evaluate and predict test. A search does not use test until it has chosen."""


class Range(Table):
    """Numbers that a random or TPE search may draw: whole ones if both ends are."""

    low: int | float
    """The least."""
    high: int | float
    """The most."""
    log: bool = False
    """Whether they are drawn evenly by their logarithm, as learning rates should be."""


class StudyTable(Table):
    """What every table of a kind of study has; each kind adds its own keys, in its own file (`studies/kinds/`)."""

    kind: str = "search"
    """What the study is for: the name of a kind of study. Default: "search", or "curve" where `study.curve` is set."""

    def check(self) -> None:
        """Refuse what contradicts itself."""


class Recipe(Table):
    """`objective`, `tuning` and `study` are read as the tables of what they name, `model` and `data` as those of the
    objective's kind of model and of data: see `reading.recipe_type`."""

    format: Literal[1] = 1
    """Version of this schema."""
    seeds: list[int] | int = 1
    """The seeds to run: a list, or how many counting from 0."""
    model: SerializeAsAny[ModelTable]
    tokenizer: TokenizerTable | None = None
    data: SerializeAsAny[DataTable] = DataTable()
    objective: SerializeAsAny[ObjectiveTable] = ObjectiveTable()
    tuning: SerializeAsAny[TuningTable] = TuningTable()
    training: TrainingTable = TrainingTable()
    evaluation: EvaluationTable = EvaluationTable()
    study: SerializeAsAny[StudyTable] | None = None

    def identity(self) -> dict[str, Any]:
        """What makes two recipes the same: every key that differs from its default, but for the seeds and the search.
        So a recipe stays itself when a later version knows more keys. The names of objective and tuning are always in
        it."""
        content: dict[str, Any] = self.model_dump(mode="json", exclude_defaults=True, exclude={"seeds", "study"})
        content["objective"] = {"kind": self.objective.kind, **content.get("objective", {})}
        content["tuning"] = {"method": self.tuning.method, **content.get("tuning", {})}
        return content

    def seed_list(self) -> list[int]:
        return list(range(self.seeds)) if isinstance(self.seeds, int) else list(self.seeds)
