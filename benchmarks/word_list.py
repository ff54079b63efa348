"""The list of common English words in the package, `src/heedful/data/words.txt`, counted in novels out of copyright.

    HEEDFUL_DATA=FOLDER python benchmarks/word_list.py > src/heedful/data/words.txt

A word is counted where it stands in lower case and by itself (no part of `don't` or `good-bye`). Names go: words that
have a capital inside sentences a third as often as they have none. So do words that fewer than a quarter of the novels
have, which are mostly dialect and foreign ones, numerals, what is French all the same, and what insults people.
"""

import re
import sys
from collections import Counter

from heedful.data.corpus.documents import read_documents
from heedful.data.corpus.finding import find_sources

COUNT = 8000
SHARE = 0.25
SMALL = re.compile(r"(?<![\w'’\-])[a-z]+(?![\w'’\-])")
NAMES = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+(?![\w'’\-])")
NUMERAL = re.compile(r"[xl]{0,4}(ix|iv|v?i{0,3})")
INSULTS = re.compile(r"nigg|bitch|whore")
FRENCH = frozenset(
    ("de", "la", "un", "et", "le", "en", "du", "ne", "les", "des", "une", "que", "qui", "pas", "mon", "ma", "est")
)


def main() -> None:
    counts: Counter[str] = Counter()
    names: Counter[str] = Counter()
    novels: Counter[str] = Counter()
    total = 0
    for text in read_documents(find_sources(["novels"], "auto", None)[0]):
        total += 1
        found = Counter(SMALL.findall(text))
        counts.update(found)
        novels.update(found.keys())
        names.update(name.lower() for name in NAMES.findall(text))
    kept = [
        word
        for word in sorted(counts, key=lambda word: (-counts[word], word))
        if novels[word] >= SHARE * total
        and 3 * names[word] <= counts[word]
        and (len(word) > 1 or word == "a")
        and not NUMERAL.fullmatch(word)
        and not INSULTS.match(word)
        and word not in FRENCH
    ]
    print("\n".join(kept[:COUNT]))
    print(f"{len(kept):,} words pass; {min(COUNT, len(kept)):,} are kept.", file=sys.stderr)


if __name__ == "__main__":
    main()
