"""The named sets, an entry each. Licences are as the source states them; contamination is what `minilm` has seen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from heedful.data import arithmetic
from heedful.data.layouts import Layout


@dataclass(frozen=True, kw_only=True)
class NamedSet:
    name: str
    what: str
    licence: str = ""
    contamination: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Rows by official split, as published where it is usually taken from, or as they are made."""
    kind: Literal["classes", "score", "translations", "questions"] = "classes"
    labels: tuple[str, ...] = ()
    languages: tuple[str, str] = ("", "")
    """Of translations: source and target, unless a recipe turns them round."""
    source: Literal["files", "package", "generated"] = "files"
    place: str = ""
    """Its folder in HEEDFUL_DATA; by default, its name."""
    folder: Layout | None = None
    """Of its files in that folder."""
    hub: Layout | None = None
    hidden_test: bool = False
    """The official test split has no true labels: the official dev split is scored as test."""
    remark: str = ""
    """What a reader of results must know about the copy in a data folder."""


def _glue(task: str, sizes: tuple[int, int, int], text: str, pair: str | None, labels: tuple[str, ...]) -> Layout:
    kind = "_matched" if task == "mnli" else ""
    return Layout(
        files={
            "train": f"{task}/train-00000-of-00001.parquet",
            "dev": f"{task}/validation{kind}-00000-of-00001.parquet",
            "test": f"{task}/test{kind}-00000-of-00001.parquet",
        },
        sizes=dict(zip(("train", "dev", "test"), sizes, strict=True)),
        text=text,
        pair=pair,
        codes={str(i): name for i, name in enumerate(labels)},
        repository="nyu-mll/glue",
    )


_SENTIMENT = ("negative", "positive")
_STARS = ("very negative", "negative", "neutral", "positive", "very positive")
_THREE_WAY = ("entailment", "neutral", "contradiction")
_TWO_WAY = ("entailment", "not_entailment")
_BY_NUMBER = {
    name: {str(i): label for i, label in enumerate(labels)}
    for name, labels in {
        "sst2": _SENTIMENT,
        "sst5": _STARS,
        "cfimdb": _SENTIMENT,
        "rte": _TWO_WAY,
        "qnli": _TWO_WAY,
    }.items()
}
_NLI = "minilm was tuned on SNLI and MultiNLI"
_NONE_KNOWN = "none known for minilm"

_SETS = (
    NamedSet(
        name="sst2",
        what="film-review sentences, negative or positive (Stanford Sentiment Treebank)",
        labels=_SENTIMENT,
        licence="MIT",
        contamination=_NONE_KNOWN,
        sizes={"train": 6920, "dev": 872, "test": 1821},
        folder=Layout(
            files={split: f"stsa.binary.{split}" for split in ("train", "dev", "test")},
            sizes={"train": 6920, "dev": 872, "test": 1821},
            form="character",
            codes=_BY_NUMBER["sst2"],
        ),
        # Not GLUE's sst2, which trains on 67,349 phrases and hides its test labels.
        hub=Layout(
            files={split: f"{split}.jsonl" for split in ("train", "dev", "test")},
            sizes={"train": 6920, "dev": 872, "test": 1821},
            codes=_BY_NUMBER["sst2"],
            repository="SetFit/sst2",
        ),
    ),
    NamedSet(
        name="sst5",
        what="film-review sentences in five degrees (Stanford Sentiment Treebank)",
        labels=_STARS,
        licence="Apache-2.0",
        contamination=_NONE_KNOWN,
        sizes={"train": 8544, "dev": 1101, "test": 2210},
        folder=Layout(
            files={split: f"sst-{split}.txt" for split in ("train", "dev", "test")},
            sizes={"train": 8544, "dev": 1101, "test": 2210},
            form="bars",
            codes=_BY_NUMBER["sst5"],
        ),
        hub=Layout(
            files={split: f"{split}.jsonl" for split in ("train", "dev", "test")},
            sizes={"train": 8544, "dev": 1101, "test": 2210},
            codes=_BY_NUMBER["sst5"],
            repository="SetFit/sst5",
        ),
    ),
    NamedSet(
        name="cfimdb",
        what="long film reviews of the counterfactually augmented IMDb, negative or positive",
        labels=_SENTIMENT,
        licence="Apache-2.0",
        contamination=_NONE_KNOWN,
        sizes={"train": 1707, "dev": 245, "test": 488},
        folder=Layout(
            files={split: f"cfimdb-{split}.txt" for split in ("train", "dev", "test")},
            sizes={"train": 1707, "dev": 245, "test": 488},
            form="bars",
            codes=_BY_NUMBER["cfimdb"],
        ),
        hidden_test=True,
    ),
    NamedSet(
        name="rte",
        what="does the first sentence entail the second? (GLUE)",
        labels=_TWO_WAY,
        licence="",
        contamination=_NLI,
        sizes={"train": 2490, "dev": 277, "test": 3000},
        folder=Layout(
            files={split: f"{split}.tsv" for split in ("train", "dev", "test")},
            sizes={"train": 2490, "dev": 277, "test": 3000},
            text="sentence1",
            pair="sentence2",
            codes=_BY_NUMBER["rte"],
        ),
        hub=_glue("rte", (2490, 277, 3000), "sentence1", "sentence2", _TWO_WAY),
        hidden_test=True,
    ),
    NamedSet(
        name="mnli",
        what="entailment, neutral or contradiction, ten genres (MultiNLI)",
        labels=_THREE_WAY,
        licence="MIT",
        contamination="minilm was tuned on this very set (MultiNLI) and on SNLI",
        sizes={"train": 392_702, "dev": 9815, "test": 9796},
        folder=Layout(
            files={"train": "train.dedup.tsv", "dev": "validation.dedup.tsv"},
            sizes={"train": 9888, "dev": 6238},
            text="premise",
            pair="hypothesis",
        ),
        hub=_glue("mnli", (392_702, 9815, 9796), "premise", "hypothesis", _THREE_WAY),
        hidden_test=True,
        remark="the data folder's MNLI is a subset of the published set, many final periods stripped",
    ),
    NamedSet(
        name="qnli",
        what="does the sentence answer the question? (GLUE, from SQuAD)",
        labels=_TWO_WAY,
        licence="Apache-2.0",
        contamination="minilm was tuned on SQuAD questions with their passages",
        sizes={"train": 104_743, "dev": 5463, "test": 5463},
        folder=Layout(
            files={"train": "train_subset_10475.tsv", "dev": "glue_dev_5463.tsv"},
            sizes={"train": 10_475, "dev": 5463},
            text="question",
            pair="sentence",
            codes=_BY_NUMBER["qnli"],
        ),
        hub=_glue("qnli", (104_743, 5463, 5463), "question", "sentence", _TWO_WAY),
        hidden_test=True,
        remark="the data folder's QNLI trains on a 10% subset of the published set",
    ),
    NamedSet(
        name="sick",
        what="entailment, neutral or contradiction; label = relatedness_score: a score from 1 to 5",
        labels=_THREE_WAY,
        licence="CC BY-NC-SA 3.0",
        contamination=f"{_NLI}, and on Flickr30k captions, from whose kind SICK's sentences were made",
        sizes={"train": 4500, "dev": 500, "test": 4927},
        folder=Layout(
            files={"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"},
            sizes={"train": 4500, "dev": 500, "test": 4927},
            text="sentence_A",
            pair="sentence_B",
            label="entailment_judgment",
            score="relatedness_score",
            codes={name.upper(): name for name in _THREE_WAY},
        ),
        hub=Layout(
            files={
                s: f"default/{n}/0000.parquet"
                for s, n in zip(("train", "dev", "test"), ("train", "validation", "test"), strict=True)
            },
            sizes={"train": 4439, "dev": 495, "test": 4906},
            text="sentence_A",
            pair="sentence_B",
            score="relatedness_score",
            codes={str(i): name for i, name in enumerate(_THREE_WAY)},
            repository="RobZamp/sick",
            revision="refs/convert/parquet",
        ),
    ),
    NamedSet(
        name="mrpc",
        what="do two newspaper sentences say the same? (GLUE)",
        labels=("not_equivalent", "equivalent"),
        licence="",
        contamination=_NONE_KNOWN,
        sizes={"train": 3668, "dev": 408, "test": 1725},
        hub=_glue("mrpc", (3668, 408, 1725), "sentence1", "sentence2", ("not_equivalent", "equivalent")),
        hidden_test=True,
    ),
    NamedSet(
        name="cola",
        what="is the sentence acceptable English? (GLUE)",
        labels=("unacceptable", "acceptable"),
        licence="",
        contamination=_NONE_KNOWN,
        sizes={"train": 8551, "dev": 1043, "test": 1063},
        hub=_glue("cola", (8551, 1043, 1063), "sentence", None, ("unacceptable", "acceptable")),
        hidden_test=True,
    ),
    NamedSet(
        name="stsb",
        what="how alike are two sentences, from 0 to 5? (GLUE)",
        labels=(),
        licence="",
        contamination="minilm was tuned on Flickr30k captions, which part of this set is made of",
        sizes={"train": 5749, "dev": 1500, "test": 1379},
        kind="score",
        hub=_glue("stsb", (5749, 1500, 1379), "sentence1", "sentence2", ()),
        hidden_test=True,
    ),
    NamedSet(
        name="tickets",
        what="customer messages to a shop, six topics; written for heedful by a language model",
        labels=("account", "app", "billing", "delivery", "product", "subscription"),
        licence="Apache-2.0",
        contamination="none: written after the models that heedful names were trained",
        sizes={"train": 636, "dev": 159, "test": 265},
        source="package",
    ),
    NamedSet(
        name="arithmetic",
        what="verbal arithmetic ('seven minus twelve'): negative, zero or positive; options size, seed",
        labels=arithmetic.LABELS,
        licence="Apache-2.0",
        contamination="none: generated",
        sizes={"train": 1400, "dev": 200, "test": 400},
        source="generated",
    ),
)

NAMED: dict[str, NamedSet] = {entry.name: entry for entry in _SETS}


_MULTI30K = {
    "train": "train",
    "dev": "val",
    "test": "test_2016_flickr",
    "test-2017": "test_2017_flickr",
    "test-2018": "test_2018_flickr",
    "test-coco": "test_2017_mscoco",
}
_ENGLISH = ("english", "pig-latin")
_MADE = "none: made by rule from a list of words"

_TRANSLATIONS = (
    NamedSet(
        kind="translations",
        name="multi30k-en-de",
        what="captions of photographs in English and German; test sets 2016, 2017, 2018 and of COCO",
        languages=("en", "de"),
        licence="",
        contamination="minilm was tuned on Flickr30k captions, which the English side is made of",
        sizes={"train": 29_000, "dev": 1014, "test": 1000, "test-2017": 1000, "test-2018": 1071, "test-coco": 461},
        place="multi30k_en_de",
        folder=Layout({split: f"{stem}.{{}}" for split, stem in _MULTI30K.items()}, form="sides"),
        hub=Layout(
            {split: f"{_MULTI30K[split]}.jsonl" for split in ("train", "dev")} | {"test": "test.jsonl"},
            text="en",
            pair="de",
            repository="bentrevett/multi30k",
        ),
    ),
    NamedSet(
        kind="translations",
        name="en-my",
        what="English and Burmese (spaced by syllable), reports and laws",
        languages=("en", "my"),
        licence="GPL-3, non-commercial",
        contamination="none known for minilm",
        sizes={"train": 7343, "dev": 918, "test": 918},
        place="en_my",
        folder=Layout({split: f"{split}.{{}}" for split in ("train", "dev", "test")}, form="sides"),
    ),
    NamedSet(
        kind="translations",
        name="pig-latin",
        what="6,387 English words in Pig Latin, as published",
        languages=_ENGLISH,
        licence="",
        contamination="none known for minilm",
        sizes={"train": 5109, "dev": 639, "test": 639},
        place="pig_latin",
        folder=Layout({"train": "pig_latin_data.txt"}, form="words"),
    ),
    NamedSet(
        kind="translations",
        name="pig-latin-small",
        what="the 2,000 most common English words in Pig Latin, made by rule",
        languages=_ENGLISH,
        licence="Apache-2.0",
        contamination=_MADE,
        sizes={"train": 1600, "dev": 200, "test": 200},
        source="generated",
    ),
    NamedSet(
        kind="translations",
        name="pig-latin-large",
        what="the 8,000 most common English words in Pig Latin, made by rule",
        languages=_ENGLISH,
        licence="Apache-2.0",
        contamination=_MADE,
        sizes={"train": 6400, "dev": 800, "test": 800},
        source="generated",
    ),
    NamedSet(
        kind="translations",
        name="pig-latin-sentences",
        what="sentences of random English words in Pig Latin, made by rule; options size, seed",
        languages=_ENGLISH,
        licence="Apache-2.0",
        contamination=_MADE,
        sizes={"train": 8000, "dev": 1000, "test": 1000},
        source="generated",
    ),
)

PAIRS: dict[str, NamedSet] = {entry.name: entry for entry in _TRANSLATIONS}
"""Sets of translations."""

QUESTIONS = {
    entry.name: entry
    for entry in (
        NamedSet(
            name="birthplaces",
            what="where 2,500 people were born; the questions of the official test set have no public answers",
            kind="questions",
            folder=Layout({"train": "birth_places_train.tsv", "dev": "birth_dev.tsv"}),
        ),
    )
}
"""Sets of questions and answers."""
