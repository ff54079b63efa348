"""Which document a question is about: the one whose subject, its first sentence, is in the question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heedful.data.corpus.shards import Corpus
from heedful.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Subjects:
    documents: Mapping[str, int]
    """The number of the document on each; of several on one subject, the first."""
    words: int
    """Of the longest."""
    repeated: int
    """Documents whose subject another before them has."""

    def find(self, question: str) -> int | None:
        """Return the document on the longest of the subjects that are in the question, word by word, whatever their
        case."""
        words = question.split()
        for length in range(min(self.words, len(words)), 0, -1):
            for first in range(len(words) - length + 1):
                document = self.documents.get(_bare(words[first : first + length]))
                if document is not None:
                    return document
        return None


def subjects_of(corpus: Corpus, tokenizer: Tokenizer) -> Subjects:
    """Return the subjects of all documents that have more than one sentence."""
    documents: dict[str, int] = {}
    repeated = 0
    for number in range(corpus.documents):
        start, edges = corpus.document(number)[0], corpus.sentence_starts(number)
        if len(edges) <= 2:
            continue
        subject = _bare(tokenizer.decode(corpus.ids(start, start + int(edges[1] - edges[0]))).split())
        repeated += subject in documents
        documents.setdefault(subject, number)
    documents.pop("", None)
    return Subjects(documents, max((len(subject.split()) for subject in documents), default=0), repeated)


def _bare(words: Sequence[str]) -> str:
    """Return words without what is around them in a sentence."""
    text = " ".join(words).strip(".,;:?!\"'()").casefold()
    return text.removesuffix("'s").removesuffix("’s")
