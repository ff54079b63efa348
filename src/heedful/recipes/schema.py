"""The schema of a recipe. Each field's docstring is its reference (`heedful recipes --explain`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny

Pooling = Literal["cls", "first", "mean", "max", "last"]
RecurrentPooling = Literal["lstm", "bilstm", "gru", "bigru"]
"""These have weights, which belong to a head."""
Attention = Literal["dot-product", "rotary", "relative", "synthesizer-dense", "synthesizer-random"]
Translator = Literal["encoder-decoder", "recurrent", "decoder-only", "bert-fused"]


class Table(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, strict=True, allow_inf_nan=False
    )


class ModelTable(Table):
    name: str | None = None
    """Directory, hub id, or name from `heedful models`. Use either this or `shape`. {seed} is replaced by the run's
    random seed, as in "runs/pretrain/runs/pretrain-seed{seed}/model": each run then starts from a different
    pretrained model. marks/2 instead of marks/STEP of a run is its second evaluation step (`training.keep_marks`)."""
    scratch: bool = False
    """With `name`: use only its sizes and its tokenizer, with random weights (by the run's seed).
    study.model.scratch = [false, true] measures what pretraining contributes."""
    shape: str | None = None
    """Named shape (see `heedful models`) with random weights (by the run's seed); needs [tokenizer]. The keys
    `layers` to `body_dropout` change its sizes and wiring. Models that fit no Hugging Face family, such as most
    other kinds of attention, are saved in a format that only heedful reads."""
    layers: int | None = Field(None, ge=1, le=1000)
    """Number of layers. Default: the shape's; for a translator (`kind`) 2, or 1 if it is recurrent."""
    width: int | None = Field(None, ge=1, le=100_000)
    """Width of the states, which the attention heads divide among them. Default: the shape's; for a translator
    (`kind`) 64."""
    heads: int | None = Field(None, ge=1, le=4096)
    """Number of attention heads per layer. Default: the shape's; for a translator (`kind`) 4."""
    inner: int | None = Field(None, ge=1, le=1_000_000)
    """Width inside the feed-forward networks. Default: the shape's, or 4 × `width` if `width` is set or for a
    translator (`kind`)."""
    positions: int | None = Field(None, ge=2, le=1_000_000)
    """Maximum number of tokens in a text, which is the number of learned positions. "roberta-base" counts them from
    its padding id, so fewer are usable. Default: the shape's; for a translator (`kind`) 512, or what
    training.max_length needs."""
    attention: Attention | None = None
    """Kind of self-attention. "dot-product"; "rotary": queries and keys are rotated by their positions; "relative":
    a learned bias for each head and distance is added to the scores; "synthesizer-dense": each token computes its
    weights for all positions from its own state; "synthesizer-random": a learned table of scores for each pair of
    positions. Default: "dot-product"."""
    position_kind: Literal["learned", "sinusoidal", "sinusoidal-halves", "none"] | None = None
    """What is added to the token embeddings: a learned vector for each position; sines and cosines, alternating
    ("sinusoidal") or all sines before all cosines ("sinusoidal-halves", as in Marian); or nothing. Default: "none"
    with attention = "rotary" or "relative", otherwise the shape's; for a translator (`kind`) "sinusoidal"."""
    causal: bool | None = None
    """Whether a token sees only itself and earlier tokens, as the objectives "causal", "span" and "answer" need.
    Default: the shape's."""
    body_dropout: float | None = Field(None, ge=0, lt=1)
    """Dropout everywhere in the body where the shape has any. Default: the shape's, 0.1."""
    revision: str | None = None
    """Branch, tag or commit of a hub model."""
    pooling: Literal[Pooling, RecurrentPooling] | None = None
    """How the states of a text become the input of the head: "cls" (the first state through the checkpoint's
    pooler, as in Hugging Face), "first", "mean", "max" or "last". Or a recurrent network over all states, which is
    part of the head and starts from random weights: "lstm" and "gru" use the output at the last token; "bilstm" and
    "bigru" concatenate the forward output at the last token and the backward output at the first. Default: "mean"
    if the body's matrices are frozen, otherwise what the family's own classifier uses."""
    rnn_width: int | None = Field(None, ge=1, le=100_000)
    """Output width of the recurrent network, per direction. Default: the body's width, or half of it (rounded up)
    for two directions, so that the head's input is about equally wide."""
    pairs: Literal["joint", "towers"] | None = None
    """How the head reads a pair of texts: "joint": as one text; "towers": each text separately; from their vectors
    u and v the head receives u, v, |u − v|, u ∘ v and their cosine. Default: "towers" if the body is frozen,
    otherwise "joint"."""
    head: Literal["linear", "two-layer"] = "linear"
    """Classifier: one linear map, or two with tanh between them."""
    dropout: float | None = Field(None, ge=0, lt=1)
    """Dropout before the classifier. Default: the checkpoint's."""
    kind: Translator | None = None
    """For translation: a model with random weights (by the run's seed); needs [tokenizer]. "encoder-decoder": the
    transformer of "Attention Is All You Need"; "recurrent": recurrent networks with attention to the source;
    "decoder-only": a language model that reads source and target as one text; "bert-fused": an encoder-decoder
    whose layers also attend to the states of another model, `bert`. `layers`, `width`, `heads`, `inner`,
    `positions`, `attention`, `position_kind` and `body_dropout` set its sizes and wiring."""
    norm: Literal["post", "pre"] | None = None
    """For translation: normalise the sum after each sublayer ("post", as in the paper) or the sublayer's input
    ("pre", which trains without warm-up). Default: "pre"."""
    tied: Literal["none", "output", "all"] | None = None
    """For translation: which token tables are shared: none; the target's embeddings with the output ("output"); or
    also the source's ("all", which needs one vocabulary). Default: "all" with one vocabulary, otherwise "output"."""
    embedding: int | None = Field(None, ge=1, le=100_000)
    """For model.kind = "recurrent": width of the token embeddings. Default: `width`."""
    cell: Literal["gru", "lstm"] | None = None
    """For model.kind = "recurrent": type of cell. Default: "gru"."""
    two_ways: bool | None = None
    """For model.kind = "recurrent": whether the encoder reads the source in both directions. Default: true."""
    decoder: Literal["bahdanau", "luong"] | None = None
    """For model.kind = "recurrent": whether the decoder attends to the source before each step ("bahdanau"), or
    after it and receives the result at the next step ("luong"). Default: "bahdanau"."""
    score: Literal["additive", "dot", "scaled-dot"] | None = None
    """For model.kind = "recurrent": how a decoder state is compared with source states. Default: "additive"."""
    bert: str | None = None
    """For model.kind = "bert-fused": the other model: directory, hub id, or name from `heedful models`. With
    model.name, training starts from the translator of that name, as in the paper."""
    bert_tuned: bool = False
    """For model.kind = "bert-fused": whether the other model is trained too. If not, its states are computed once."""
    drop_net: float | None = Field(None, ge=0, le=1)
    """For model.kind = "bert-fused": during training, each of the two attentions is dropped with half this
    probability. Default: 1, as in the paper."""

    @property
    def title(self) -> str:
        """The model's name or shape, and the model that it is fused with, if any."""
        if self.scratch:
            return f"{self.name} from scratch"
        return str(self.name or self.shape or self.kind) + (f" with {self.bert}" if self.bert else "")

    @property
    def drawn(self) -> bool:
        """Whether the weights of the body are random."""
        return self.shape is not None or self.scratch

    def name_for(self, seed: int) -> str | None:
        return None if self.name is None else self.name.replace("{seed}", str(seed))

    @property
    def seeded(self) -> bool:
        """Whether each seed starts from a different body."""
        return self.scratch or "{seed}" in (self.name or "")

    def sizes(self) -> dict[str, int | float | str]:
        """Return the keys that change the sizes and wiring of `shape`."""
        return {key: value for key in SIZES if (value := getattr(self, key)) is not None}

    @property
    def recurrent(self) -> RecurrentPooling | None:
        """The pooling, if it is a recurrent network."""
        return cast(RecurrentPooling, self.pooling) if self.pooling in get_args(RecurrentPooling) else None


SIZES = ("layers", "width", "heads", "inner", "positions", "attention", "position_kind", "causal", "body_dropout")
"""The keys of [model] that change a named shape."""
OF_TRANSLATORS = (
    *("kind", "norm", "tied", "embedding", "cell", "two_ways", "decoder", "score", "bert", "bert_tuned", "drop_net"),
)
"""The keys of [model] that are only for translation."""


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


class SourceTable(Table):
    """A data set: its source and how many of its rows are used for training."""

    name: str | None = None
    """Named data set from `heedful data`. Use either this or `train`."""
    train: str | None = None
    """Training file: CSV, TSV, JSONL or Parquet."""
    dev: str | None = None
    """Validation file for choosing a model. Default: split from `train`, stratified."""
    test: str | None = None
    """Test file for the reported score. Default: split from `train`, stratified."""
    text: str | None = None
    """Column with the text."""
    pair: str | None = None
    """Column with the second text of a pair."""
    label: str | None = None
    """Column with the label, or with the score of a regression."""
    kind: Literal["auto", "classes", "score"] = "auto"
    """Whether `label` contains classes or a score."""
    header: bool | None = None
    """Whether the first line of a CSV or TSV file contains column names. If not, the columns are called "column 1",
    "column 2" and so on. Default: detect."""
    quotes: bool | None = None
    """Whether quotation marks enclose cells; if not, they are ordinary characters. Default: true for CSV; for TSV
    only if the whole file is quoted."""
    split_seed: int = 0
    """Random seed of the splits. It is the same for all seeds of a study, so that all runs see the same rows."""
    dev_share: float = Field(0.1, gt=0, lt=0.9)
    """Share of the training rows that becomes dev if there is no dev file."""
    test_share: float = Field(0.2, gt=0, lt=0.9)
    """Share of the training rows that becomes test if there is no test file."""
    options: dict[str, int | float | str] = {}
    """Options of a generated data set, such as {size = 2000, seed = 0} for arithmetic."""
    limit: int | None = Field(None, ge=1)
    """Train only on this many rows, the first of a seeded shuffle: a smaller limit takes a subset."""
    fraction: float | None = Field(None, gt=0, le=1)
    """Train only on this share of the rows, selected as for `limit`."""
    redraw: bool = False
    """Whether `limit` and `fraction` select different rows for each seed, so that the spread over seeds includes
    that variation, as in learning curves. If not, all runs see the same rows."""


class TaskTable(SourceTable):
    """The data set of one of several tasks: the keys of [data] and these."""

    task: str | None = None
    """Name of the task and its head. Default: the name of the data set, or of the train file without its ending."""
    metric: str = "auto"
    """Metric of this task, such as "matthews"; only metrics for which higher is better. Default: accuracy for
    classes, the Pearson correlation for scores."""

    @property
    def title(self) -> str:
        """The name of the task."""
        return self.task or self.name or Path(self.train or "").name.split(".")[0]

    def source(self) -> "DataTable":
        """Return its data as the [data] of a recipe with one task."""
        return DataTable(**{key: getattr(self, key) for key in SourceTable.model_fields})


class DataTable(SourceTable):
    tasks: list[TaskTable] = []
    """For objective.kind = "multi-task": a table [[data.tasks]] for each task, with the keys of [data] and `task`,
    its name. [data] itself then has no other key."""
    corpus: str | list[str] | None = None
    """For objectives that learn from running text: one or several files of text (may be gzipped), JSONL or Parquet;
    a name from `heedful data`; "hub:OWNER/REPOSITORY/FILE"; or a directory written by `heedful data shard`. `dev`
    and `test` may name such files too. Without `dev`, the share `dev_share` of the documents is held out."""
    separator: str = "auto"
    """What a document of a corpus is: a "line"; a block between empty lines ("blank-line"); a whole "file"; or a
    block between lines with exactly this text, such as "<|endoftext|>". Default: detect. A row of JSONL or Parquet
    is always a document."""
    deduplicate: bool = False
    """Whether to keep only the first of documents (or training pairs) that are equal except for case and white
    space."""
    source: str | None = None
    """For translation, the source side: a column of the table `train`; or, if `train`, `dev` and `test` are not
    tables, the ending of files with one text per line: train = "data/train", source = "en" and target = "de" are
    data/train.en and data/train.de (or .gz). {} in a name is replaced by the ending: "{}/train.txt". A dot reads
    from an object of JSONL or Parquet: "translation.en". For a named data set: one of its languages."""
    target: str | None = None
    """For translation, the target side, as for `source`. For a table with two columns, both may be omitted."""
    max_source: int | None = Field(None, ge=1)
    """For translation: skip and count training pairs whose source has more words. Words are separated by white
    space; in scripts without spaces, each character counts. Dev and test are never filtered."""
    max_target: int | None = Field(None, ge=1)
    """For translation: the same for the target."""
    max_ratio: float | None = Field(None, ge=1)
    """For translation: skip and count training pairs with one side more than this many times as long as the other,
    in words."""

    @property
    def corpora(self) -> list[str]:
        """The names in `corpus`."""
        return [self.corpus] if isinstance(self.corpus, str) else list(self.corpus or [])

    def own_keys(self) -> list[str]:
        """Return the keys of a data set that are set in [data] itself."""
        fields = SourceTable.model_fields.items()
        return [key for key, field in fields if getattr(self, key) != field.default]

    @property
    def redrawn(self) -> bool:
        """Whether each seed trains on different rows."""
        return self.redraw or any(task.redraw for task in self.tasks)


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
    """`objective`, `tuning` and `study` are read as the tables of what they name: see `reading.recipe_type`."""

    format: Literal[1] = 1
    """Version of this schema."""
    seeds: list[int] | int = 1
    """The seeds to run: a list, or how many counting from 0."""
    model: ModelTable
    tokenizer: TokenizerTable | None = None
    data: DataTable = DataTable()
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
