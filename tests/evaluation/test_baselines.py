"""The baselines know what can be known from training, in any script, and say the same thing twice."""

import json
import math
import random

import pytest

from heedful.errors import RequestError
from heedful.evaluation.baselines import baselines
from heedful.evaluation.features import TextFeatures, words
from heedful.evaluation.tfidf import STRENGTHS

FILLER = ["the", "film", "was", "a", "story", "about", "people", "and", "rain", "one", "evening"]


def reviews(n: int, seed: int, cues: list[list[str]] | None = None) -> tuple[list[str], None, list[int]]:
    """Texts whose class is said by one cue word among filler."""
    cues = cues or [["dull", "bad", "tired"], ["bright", "good", "lively"]]
    rng = random.Random(seed)
    labels = [rng.randrange(len(cues)) for _ in range(n)]
    return [" ".join([*rng.choices(FILLER, k=8), rng.choice(cues[k])]) for k in labels], None, labels


def without_seconds(found: dict) -> dict:
    return {name: {k: v for k, v in one.items() if "seconds" not in k} for name, one in found.items()}


@pytest.mark.filterwarnings("error")
def test_a_separable_set_is_separated_and_twice_the_same() -> None:
    texts, pairs, labels = reviews(120, 1)
    sets = {"dev": reviews(60, 2), "test": reviews(80, 3)}
    found = baselines(texts, pairs, labels, sets, 2, seed=5, labels=["negative", "positive"]).scores
    assert list(found) == ["majority", "random", "tfidf"]
    assert found["tfidf"]["test"]["accuracy"] > 0.95
    assert found["tfidf"]["strength"] in STRENGTHS
    assert 0.3 < found["random"]["test"]["accuracy"] < 0.7
    assert found["random"]["test"]["log_loss"] == pytest.approx(math.log(2))
    commonest = max((0, 1), key=labels.count)
    assert found["majority"]["test"]["accuracy"] == sets["test"][2].count(commonest) / 80
    assert list(found["tfidf"]["dev"]["per_class"]) == ["negative", "positive"]
    for name, one in found.items():
        right = [p == g for p, g in zip(one["values"]["test"]["predicted"], sets["test"][2], strict=True)]
        assert sum(right) / 80 == one["test"]["accuracy"], name
    assert all(one["seconds"] >= 0 for one in found.values())
    json.dumps(found, allow_nan=False)
    again = baselines(texts, pairs, labels, sets, 2, seed=5, labels=["negative", "positive"]).scores
    assert without_seconds(again) == without_seconds(found)
    other = baselines(texts, pairs, labels, sets, 2, seed=6).scores
    assert other["random"]["test"]["confusion"] != found["random"]["test"]["confusion"]


@pytest.mark.filterwarnings("error")
def test_many_classes_some_rare_some_absent_from_training() -> None:
    cues = [[f"cue{k}"] for k in range(12)]
    texts, _, labels = reviews(200, 1, cues)
    kept = [i for i, k in enumerate(labels) if k != 11]  # class 11 is never seen
    rare = [i for i in kept if labels[i] == 10][1:]  # class 10 once
    kept = [i for i in kept if i not in rare]
    found = baselines(
        [texts[i] for i in kept], None, [labels[i] for i in kept], {"dev": reviews(100, 2, cues)}, 12, seed=0
    ).scores
    recalls = {k: one["recall"] for k, one in found["tfidf"]["dev"]["per_class"].items()}
    assert recalls.pop("11") == 0.0
    recalls.pop("10")
    assert min(recalls.values()) == 1.0
    json.dumps(found, allow_nan=False)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "cues",
    [
        [["这部电影很无聊没有意思"], ["这部电影非常精彩感人"]],
        [["बुरी फिल्म"], ["अच्छी फिल्म"]],
        [["скучно"], ["прекрасно"]],
        [["😀"], ["😡"]],
        [["หนังแย่มาก"], ["หนังดีมาก"]],
    ],
)
def test_any_script(cues: list[list[str]]) -> None:
    texts, _, labels = reviews(150, 1, cues)
    found = baselines(texts, None, labels, {"dev": reviews(40, 2, cues)}, 2, seed=0).scores
    assert found["tfidf"]["dev"]["accuracy"] > 0.95


def test_words() -> None:
    assert words("Don't SHOUT, naïve_one 42!") == ["don", "t", "shout", "naïve", "one", "42"]
    assert words("नमस्ते दुनिया") == ["नमस्ते", "दुनिया"]
    assert words("你好 ok 😀") == ["你", "好", "ok", "😀"]
    assert words(" ?! ") == ["∅"]


@pytest.mark.filterwarnings("error")
def test_pairs_are_compared() -> None:
    """Whether two texts share their words says the label; neither text alone does."""
    rng = random.Random(0)
    vocabulary = [f"w{i}" for i in range(60)]

    def make(n: int) -> tuple[list[str], list[str], list[int]]:
        first = [rng.sample(vocabulary, 6) for _ in range(n)]
        labels = [rng.randrange(2) for _ in range(n)]
        second = [rng.sample(a if k else [w for w in vocabulary if w not in a], 5) for a, k in zip(first, labels)]  # noqa: B905
        return [" ".join(a) for a in first], [" ".join(b) for b in second], labels

    texts, pairs, labels = make(200)
    found = baselines(texts, pairs, labels, {"dev": make(100)}, 2, seed=0).scores
    assert found["tfidf"]["dev"]["accuracy"] > 0.95
    features = TextFeatures().fit(["a b", "c"], ["b c", ""])
    row = features.transform(["a b"], ["b c"]).toarray()[0]
    assert row[-3:].tolist() == pytest.approx([1 / 3, 1 / 2, 1 / 2])


@pytest.mark.filterwarnings("error")
def test_numbers() -> None:
    values = {"awful": 0.0, "poor": 1.0, "fair": 2.0, "fine": 3.0, "superb": 5.0}
    cues = [[w] for w in values]

    def make(n: int, seed: int) -> tuple[list[str], None, list[float]]:
        texts, _, ks = reviews(n, seed, cues)
        return texts, None, [list(values.values())[k] for k in ks]

    texts, _, labels = make(150, 1)
    found = baselines(texts, None, labels, {"dev": make(60, 2)}, None, seed=0).scores
    assert list(found) == ["mean", "tfidf"]
    assert found["mean"]["dev"]["pearson"] is None
    assert found["tfidf"]["dev"]["pearson"] > 0.97
    assert found["tfidf"]["dev"]["mse"] < 0.2 * found["mean"]["dev"]["mse"]
    json.dumps(found, allow_nan=False)


@pytest.mark.filterwarnings("error")
def test_the_edges() -> None:
    one_class = baselines(["a", "b", "c"], None, [1, 1, 1], {"dev": (["a"], None, [1])}, 2, seed=0).scores
    assert one_class["tfidf"]["dev"]["accuracy"] == 1.0
    wordless = baselines(["", "?"], None, [0, 1], {"dev": (["!"], None, [1])}, 2, seed=0).scores
    assert wordless["tfidf"]["dev"]["n"] == 1
    hidden = baselines(["a", "b"], None, [0, 1], {"test": (["a"], None, None)}, 2, seed=0).scores
    assert "test" not in hidden["tfidf"]
    with pytest.raises(RequestError, match="no training examples"):
        baselines([], None, [], {}, 2, seed=0)
