"""`WordModel`: what `heedful.load` returns for the TF-IDF model of a study."""

from collections.abc import Iterable
from pathlib import Path

from heedful.checkpoints.tfidf import write_tfidf
from heedful.errors import RequestError
from heedful.evaluation.tfidf import TfidfModel
from heedful.inference.given_texts import check_texts, columns_of
from heedful.inference.predictions import Predictions
from heedful.inference.predictor import Named, Task
from heedful.models.composition import Composition
from heedful.text.tokenizer import Text


class WordModel(Named):
    """A TF-IDF model, which predicts as a `Model` does."""

    kind = "a TF-IDF model"
    max_length = None
    """It reads texts of any length."""

    def __init__(self, tfidf: TfidfModel, source: str) -> None:
        self.tfidf = tfidf
        self.source = source

    @property
    def tasks(self) -> tuple[Task, ...]:
        return (Task("predict", "pairs" if self.of_pairs else "texts", labels=self.labels),)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes; ("score",) for a regression."""
        return self.tfidf.labels or ("score",)

    @property
    def of_pairs(self) -> bool:
        """Whether it was trained on pairs of texts."""
        return self.tfidf.pairs

    def predict(
        self,
        texts: Iterable[Text],
        batch_size: int = 32,
        head: str | None = None,
        raw: bool = False,
        adapters: Composition | None = None,
    ) -> Predictions:
        """Return a label and the probability of every class for each text or pair, in their order; a score for a
        regression. There are neither heads nor adapters to choose from, and `raw` changes nothing: it is as it was
        fitted."""
        for what, given in (("head", head), ("adapters", adapters)):
            if given is not None:
                raise RequestError(
                    f"{self.source}: is a TF-IDF model, which has no {what.rstrip('s')}s; remove {what}."
                )
        first, second = columns_of(check_texts(texts, self.source, self.tfidf.pairs))
        return Predictions(self.labels, self.tfidf.predict(first, second if self.tfidf.pairs else None), 0)

    def save(self, directory: str | Path) -> None:
        """Write a model directory in one step: a crash leaves the old directory or the complete new one."""
        write_tfidf(Path(directory).expanduser(), self.tfidf)

    def __repr__(self) -> str:
        return f"<heedful model {self.source}: TF-IDF, {len(self.tfidf.features.idf):,} words and pairs of words>"
