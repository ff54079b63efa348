"""What a recipe may say. Each table is one word of the design; each field's docstring is its reference."""

from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny

Pooling = Literal["cls", "first", "mean", "max", "last"]
RecurrentPooling = Literal["lstm", "bilstm", "gru", "bigru"]
"""These have weights of their own, which belong to a head."""
Attention = Literal["dot-product", "rotary", "relative", "synthesizer-dense", "synthesizer-random"]
Translator = Literal["encoder-decoder", "recurrent", "decoder-only", "bert-fused"]


class Table(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, strict=True, allow_inf_nan=False
    )


class ModelTable(Table):
    name: str | None = None
    """A directory, a hub id, or a name that `heedful models` lists. Either this or `shape`. {seed} stands for the run's
    seed, as in "runs/pretrain/runs/pretrain-seed{seed}/model": each run then begins from another pretraining. marks/2
    in the place of marks/STEP of a run is its second mark (`training.keep_marks`)."""
    scratch: bool = False
    """With `name`: whether only its sizes and its tokenizer are taken, with random weights drawn from the run's seed:
    what its training is worth, study.model.scratch = [false, true] shows."""
    shape: str | None = None
    """A named shape (`heedful models` lists them) with random weights drawn from the run's seed; needs [tokenizer]. The
    keys `layers` to `body_dropout` change its sizes and its wiring. What Hugging Face has no family for, such as most
    other kinds of attention, is saved so that heedful alone reads it."""
    layers: int | None = Field(None, ge=1, le=1000)
    """How many blocks. Default: as the shape has them; of a translator (`kind`), 2, and 1 of a recurrent one."""
    width: int | None = Field(None, ge=1, le=100_000)
    """The width of the states, which the heads divide among them. Default: as the shape has it; of a translator
    (`kind`), 64."""
    heads: int | None = Field(None, ge=1, le=4096)
    """Heads of attention in each block. Default: as the shape has them; of a translator (`kind`), 4."""
    inner: int | None = Field(None, ge=1, le=1_000_000)
    """The width inside the feed-forward networks. Default: as the shape has it, or 4 × `width` where that is given,
    and of a translator (`kind`)."""
    positions: int | None = Field(None, ge=2, le=1_000_000)
    """The most tokens that a text may have, which is the number of learned positions; "roberta-base" counts them from
    its padding, so that there are fewer by one and the padding's id. Default: as the shape has them; of a translator
    (`kind`), 512 or as many as training.max_length needs."""
    attention: Attention | None = None
    """The kind of self-attention: "dot-product"; "rotary", queries and keys turned by their positions; "relative", a
    learned bias for each head and distance added to the scores; "synthesizer-dense", weights that a token makes of its
    own state for each position; "synthesizer-random", a learned table of scores for each pair of positions. Default:
    "dot-product"."""
    position_kind: Literal["learned", "sinusoidal", "sinusoidal-halves", "none"] | None = None
    """What is added to the embeddings of tokens: a learned vector for each position, sines and cosines of it by turns
    ("sinusoidal") or all sines before all cosines ("sinusoidal-halves", as Marian has them), or nothing. Default:
    "none" with attention = "rotary" or "relative", else as the shape has it; of a translator (`kind`), "sinusoidal"."""
    causal: bool | None = None
    """Whether a token sees only itself and what came before it, as the objectives "causal", "span" and "answer" need.
    Default: as the shape has it."""
    body_dropout: float | None = Field(None, ge=0, lt=1)
    """Dropout everywhere in the body where the shape has any. Default: the shape's own, 0.1."""
    revision: str | None = None
    """Branch, tag or commit of a hub model."""
    pooling: Literal[Pooling, RecurrentPooling] | None = None
    """Which state the head reads: "cls" (the first through the checkpoint's pooler, as Hugging Face does), "first",
    "mean", "max" or "last". Or what a recurrent network, a part of the head with fresh weights, makes of all states in
    their order: "lstm" or "gru", its output at the last token; "bilstm" or "bigru", that of one direction at the last
    token beside that of the other at the first. Default: "mean" where the body's matrices do not move, else
    what the family's own classifier reads."""
    rnn_width: int | None = Field(None, ge=1, le=100_000)
    """Width of the recurrent network's output, each way. Default: the body's width; for two directions half of it,
    rounded up, so that the head is given about as much."""
    pairs: Literal["joint", "towers"] | None = None
    """How the head reads a pair of texts: "joint", as one text; or "towers", each alone, of whose states u and v it is
    given u, v, |u − v|, u ∘ v and their cosine. Default: "towers" if the body is frozen, else "joint"."""
    head: Literal["linear", "two-layer"] = "linear"
    """The classifier: one linear map, or two with tanh between them."""
    dropout: float | None = Field(None, ge=0, lt=1)
    """Dropout before the classifier. Default: what the checkpoint's config says."""
    kind: Translator | None = None
    """For translation, a model with random weights drawn from the run's seed; needs [tokenizer]. "encoder-decoder": the
    transformer of "Attention Is All You Need"; "recurrent": recurrent networks with attention to the source;
    "decoder-only": a language model that reads source and target as one text; "bert-fused": an encoder-decoder whose
    layers look at the states of another model, `bert`, beside their usual attention. `layers`, `width`, `heads`,
    `inner`, `positions`, `attention`, `position_kind` and `body_dropout` say its sizes and its wiring."""
    norm: Literal["post", "pre"] | None = None
    """For translation: whether each sublayer's sum is normalised, or its input. Default: "pre", which needs no
    warm-up to train; "post" is the paper's."""
    tied: Literal["none", "output", "all"] | None = None
    """For translation, which tables of tokens are one: none; the target's and that of the scores; or the source's too,
    which needs one vocabulary. Default: "all" with one vocabulary, else "output"."""
    embedding: int | None = Field(None, ge=1, le=100_000)
    """For model.kind = "recurrent": the width of the embeddings of tokens. Default: `width`."""
    cell: Literal["gru", "lstm"] | None = None
    """For model.kind = "recurrent": the cell. Default: "gru"."""
    two_ways: bool | None = None
    """For model.kind = "recurrent": whether the source is read from both ends. Default: true."""
    decoder: Literal["bahdanau", "luong"] | None = None
    """For model.kind = "recurrent": whether the decoder looks at the source before each step, or after it and is fed
    with what it read out before. Default: "bahdanau"."""
    score: Literal["additive", "dot", "scaled-dot"] | None = None
    """For model.kind = "recurrent": how a state is compared with those of the source. Default: "additive"."""
    bert: str | None = None
    """For model.kind = "bert-fused": the other model, a directory, a hub id, or a name that `heedful models` lists.
    With model.name, the translator that is named there is where training begins, as in the paper."""
    bert_tuned: bool = False
    """For model.kind = "bert-fused": whether the other model is trained too. Else its states are computed once."""
    drop_net: float | None = Field(None, ge=0, le=1)
    """For model.kind = "bert-fused": in training, each of the two attentions is left out with half this probability.
    Default: 1, as in the paper."""

    @property
    def title(self) -> str:
        """What is named, or what is drawn; and the model whose states it looks at, if there is one."""
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
        """Whether each seed begins from another body."""
        return self.scratch or "{seed}" in (self.name or "")

    def sizes(self) -> dict[str, int | float | str]:
        """What is said of the sizes and the wiring of `shape`, by key."""
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
"""The keys of [model] that mean something for translation alone."""


class TokenizerTable(Table):
    name: str | None = None
    """Take the tokenizer of this model (directory, hub id or name)."""
    kind: Literal["wordpiece", "bpe", "characters"] | None = None
    """Or make one from the training texts: WordPiece (lower-cased), byte-level BPE, or a token for each character that
    occurs in them, white space and line ends too, with nothing put around a text."""
    size: int = Field(8000, ge=100, le=200_000)
    """Entries of a trained tokenizer. Characters are as many as there are."""
    prefix_space: bool = False
    """Of byte-level BPE that is trained: whether a space is put before every text, so that a word is spelled the same
    at its beginning as inside it."""
    joint: bool = True
    """For translation: whether source and target have one vocabulary, trained on both, or each one of its own, of
    `size` entries."""


class SourceTable(Table):
    """One data set: where it comes from and how many of its rows are trained on."""

    name: str | None = None
    """A named set that `heedful data` lists. Either this or `train`."""
    train: str | None = None
    """A file to train on: CSV, TSV, JSONL or Parquet."""
    dev: str | None = None
    """A file to choose on. Default: carved from `train`, stratified."""
    test: str | None = None
    """A file to report on. Default: carved from `train`, stratified."""
    text: str | None = None
    """The column with the text."""
    pair: str | None = None
    """The column with the second text of a pair."""
    label: str | None = None
    """The column with the label, or with the score of a regression."""
    kind: Literal["auto", "classes", "score"] = "auto"
    """Whether `label` holds classes or a score."""
    header: bool | None = None
    """Whether the first line of a CSV or TSV file names its columns, which are else called "column 1", "column 2" and
    so on. Default: as it looks beside the other lines."""
    quotes: bool | None = None
    """Whether quotes enclose cells, or quotation marks are letters like others. Default: they enclose cells in CSV, and
    in TSV if the whole file is quoted so."""
    split_seed: int = 0
    """Seed of the splits that are carved; fixed over the seeds of a study, so that all runs see the same rows."""
    dev_share: float = Field(0.1, gt=0, lt=0.9)
    """Share of the training rows that become dev when there is no dev file."""
    test_share: float = Field(0.2, gt=0, lt=0.9)
    """Share of the training rows that become test when there is no test file."""
    options: dict[str, int | float | str] = {}
    """What a generated set can be told, such as {size = 2000, seed = 0} for arithmetic."""
    limit: int | None = Field(None, ge=1)
    """Train on this many rows only, the first of a seeded shuffle: fewer rows are a part of more."""
    fraction: float | None = Field(None, gt=0, le=1)
    """Train on this share of the rows only, picked as for `limit`."""
    redraw: bool = False
    """Whether `limit` and `fraction` pick other rows for each seed of a run, so that the spread over seeds holds that
    chance too, as learning curves do; else all runs see the same rows."""


class TaskTable(SourceTable):
    """The data set of one of several tasks: the keys of [data], and these."""

    task: str | None = None
    """What the task, and its head, is called. Default: the name of the set, or of the train file without its ending."""
    metric: str = "auto"
    """What this task is judged by, such as "matthews"; of those of which a higher one is better. Default: accuracy for
    classes, the Pearson correlation for scores."""

    @property
    def title(self) -> str:
        """What the task is called."""
        return self.task or self.name or Path(self.train or "").name.split(".")[0]

    def source(self) -> "DataTable":
        """Its data alone, as the [data] of a recipe of its own."""
        return DataTable(**{key: getattr(self, key) for key in SourceTable.model_fields})


class DataTable(SourceTable):
    tasks: list[TaskTable] = []
    """For objective.kind = "multi-task": a table [[data.tasks]] for each task, with the keys of [data], and `task`,
    what it is called. [data] itself then has no other key."""
    corpus: str | list[str] | None = None
    """For objectives that learn from running text: a file, or several, of text (.gz too), JSONL or Parquet; a name
    (`heedful data` lists them); "hub:OWNER/REPOSITORY/FILE"; or a directory that `heedful data shard` wrote. `dev` and
    `test` may name such files too; without `dev`, the share `dev_share` of the documents is held out."""
    separator: str = "auto"
    """What a document of a corpus is: a "line", what stands between empty lines ("blank-line"), a whole "file", or what
    stands between lines that are just this text, such as "<|endoftext|>". Default: as the file looks; a row of JSONL or
    Parquet is always a document."""
    deduplicate: bool = False
    """Whether of documents of a corpus, or of pairs to train on, that are the same but for case and white space only
    the first is kept."""
    source: str | None = None
    """For translation, which side is translated: a column of the table `train`; or, where `train`, `dev` and `test` are
    no tables, the ending of a file of theirs with a text on each line: train = "data/train", source = "en" and target =
    "de" are data/train.en and data/train.de (or .gz). With {} in the name the ending stands there: "{}/train.txt". A
    dot looks into an object of JSONL or Parquet: "translation.en". Of a named set, one of its languages."""
    target: str | None = None
    """For translation, into which side: as for `source`. Of a table with two columns, both may be left out."""
    max_source: int | None = Field(None, ge=1)
    """For translation: training pairs whose source has more words are left out, and counted. Words stand between white
    space; of scripts that are written without, each character counts. Dev and test are never filtered."""
    max_target: int | None = Field(None, ge=1)
    """For translation: the same for the target."""
    max_ratio: float | None = Field(None, ge=1)
    """For translation: training pairs of which one side has more than so many times the words of the other are left
    out, and counted."""

    @property
    def corpora(self) -> list[str]:
        """The names in `corpus`."""
        return [self.corpus] if isinstance(self.corpus, str) else list(self.corpus or [])

    def own_keys(self) -> list[str]:
        """The keys of a data set that are set in [data] itself."""
        fields = SourceTable.model_fields.items()
        return [key for key, field in fields if getattr(self, key) != field.default]

    @property
    def redrawn(self) -> bool:
        """Whether each seed of a run trains on other rows."""
        return self.redraw or any(task.redraw for task in self.tasks)


class ObjectiveTable(Table):
    """What every objective's table has; each objective adds its own keys, in its own file."""

    kind: str = "classify"
    """What is learned: the name of an objective."""


class TuningTable(Table):
    """What every tuning's table has; each tuning adds its own keys, in its own file."""

    method: str = "full"
    """Which weights move: the name of a tuning, such as "full" (all of them) or "frozen" (the head alone)."""


class TrainingTable(Table):
    epochs: int = Field(3, ge=1, le=10_000)
    """Passes over the training rows."""
    steps: int | None = Field(None, ge=1)
    """Instead of `epochs`: so many steps, whatever part of an epoch that is. A stream has no epochs and needs it, or
    `tokens`."""
    tokens: int | None = Field(None, ge=1)
    """Instead of `epochs` or `steps`: training ends with the first step at which so many tokens have been read, padding
    not counted; the learning rate follows the share of them that has been read."""
    mark_steps: int | None = Field(None, ge=1)
    """Judge the run on dev every so many steps. Default: at the end of each epoch, and of the run."""
    mark_tokens: int | None = Field(None, ge=1)
    """Judge the run on dev whenever it has read so many more tokens."""
    keep_marks: bool = False
    """Whether each mark leaves the model as it is then, uncalibrated, as a model directory marks/STEP of the run."""
    batch_size: int = Field(32, ge=1)
    """Rows in a step."""
    batch_tokens: int | None = Field(None, ge=16)
    """Instead of `batch_size`: as many rows in a step as keep rows times longest row within this many tokens; of
    translations on either side."""
    batch_warmup: float = Field(0.0, ge=0, le=1)
    """Share of training over which a step grows to `batch_size` rows: a quarter of them, then half. For objectives that
    read a stream."""
    accumulate: int = Field(1, ge=1)
    """Into how many parts a step's rows are cut, to save memory; the result is the same. Under torchrun they are dealt
    out to its processes, each of which gets at least one."""
    optimiser: Literal["adamw", "muon"] = "adamw"
    """What moves the weights: "adamw"; or "muon", whose steps are orthogonal matrices, for the matrices inside the
    blocks, with AdamW for all else (token and position tables, heads, norms, biases)."""
    lr: float = Field(5e-5, gt=0)
    """The highest learning rate."""
    muon_lr: float = Field(0.02, gt=0)
    """The highest learning rate of what Muon moves; it rises and falls as `lr` does."""
    betas: list[Annotated[float, Field(ge=0, lt=1)]] = [0.9, 0.999]
    """How slowly AdamW forgets: the gradients, and their squares. For long runs on large batches often [0.9, 0.95]."""
    schedule: Literal["linear", "cosine", "constant", "trapezoid", "inverse-sqrt"] = "linear"
    """How the learning rate falls after the warm-up: to zero in a line, to zero in a cosine, not at all, ("trapezoid")
    not until the last part of training, over which it falls to zero in a line, or ("inverse-sqrt") with the square root
    of the steps, whatever their number, as in "Attention Is All You Need"."""
    warmup: float = Field(0.1, ge=0, lt=1)
    """Share of all steps, or tokens, over which the learning rate rises from zero."""
    warmup_steps: int | None = Field(None, ge=1)
    """Instead of `warmup`: the step in which the learning rate is highest, such as 4000."""
    cooldown: float = Field(0.2, gt=0, le=1)
    """Share of all steps, or tokens, over which it falls at the end, with schedule = "trapezoid"."""
    weight_decay: float = Field(0.01, ge=0)
    """The decay of each step, on matrices alone: biases and norms are left out."""
    clip: float | None = Field(1.0, gt=0)
    """Largest norm of the gradient; longer ones are scaled down to it."""
    max_length: int = Field(128, ge=4)
    """Longest text in tokens, special tokens included: of both texts of a pair together, or of each if they are read in
    towers."""
    length_warmup: float = Field(0.0, ge=0, le=1)
    """Share of training over which texts grow to `max_length` tokens: a quarter of them, then half. For objectives that
    read a stream."""
    long_texts: Literal["cut", "chunk"] = "cut"
    """What happens beyond `max_length`: the rest is cut off, or the text read in chunks and their states averaged."""
    patience: int | None = Field(None, ge=1)
    """Stop when dev has not improved for this many marks: epochs, unless `mark_steps` or `mark_tokens` is set. A mark
    as good as the best so far is no improvement. Marks do not count as long as the metric has not left the value of a
    model that has learned nothing: no answer right, BLEU or a correlation of 0, or undefined."""
    keep: Literal["best", "last"] = "best"
    """Which weights become the model: the best on dev, of several marks that are level the first, or the last."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to compute; "auto" takes a GPU if there is one."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """What training multiplies matrices in; weights stay in float32, and models are judged in it. "auto" is bfloat16
    with CUDA and float32 elsewhere. On a CPU bfloat16 needs instructions of its own (AVX512-BF16 or AMX), and then pays
    where much is multiplied at a time."""
    threads: int | None = Field(None, ge=1)
    """Threads of the CPU. Default: PyTorch's own. Sums differ in the last bit between thread counts."""
    checkpoint_seconds: float = Field(60.0, ge=0)
    """How often a resumable state is written; also at each mark."""


class EvaluationTable(Table):
    metric: str = "auto"
    """What dev is judged by: a metric of the objective. Default: its first, such as accuracy for classes."""
    baselines: bool = True
    """Whether the objective's baselines (for classes: random, majority, TF-IDF) stand beside the result; in a
    study of pairs, the cosine of each model's two sentence vectors too."""
    test: bool = True
    """Whether test is scored and predicted. A search leaves it alone until it has chosen."""


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
