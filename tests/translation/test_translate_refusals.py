"""What a recipe for translation cannot mean: one sentence each."""

import sys
from pathlib import Path
from typing import Any

import pytest

from heedful.cli.recipes import recipes
from heedful.errors import RequestError
from heedful.recipes.reading import builtin_names, explain_key, make_recipe, read_recipe
from tests.support.training_samples import write_tiny
from tests.support.translation_samples import assembled, translation

FUSED = {"kind": "bert-fused", "bert": "minilm"}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model": {"kind": "rnn"}}, "model.kind = 'rnn' is not right: choose 'encoder-decoder', 'recurrent'"),
    ({"model": {"kind": None, "layers": None, "width": None, "heads": None}}, r"\[model\] needs kind"),
    ({"model": {"cell": "lstm"}}, 'model.cell means nothing with model.kind = "encoder-decoder"; leave it out'),
    ({"model": {"pooling": "mean"}}, "model.pooling means nothing with objective.kind"),
    ({"model": {"shape": "bert-tiny"}}, "model.shape means nothing with objective.kind"),
    ({"model": {"bert": "minilm"}}, "model.bert means nothing with model.kind"),
    ({"model": {"kind": "bert-fused"}}, "needs model.bert"),
    ({"model": {**FUSED, "drop_net": 2.0}}, "model.drop_net = 2.0 is not right: it must be at most 1"),
    ({"model": {"name": "somewhere"}, "tokenizer": None}, "both say what the model is; keep one of them"),
    ({"model": {**FUSED, "name": "somewhere"}, "tokenizer": None}, "model.layers goes with random weights"),
    ({"tokenizer": None}, r'model.kind = "encoder-decoder" needs \[tokenizer\] with either name or kind'),
    ({"model": {"kind": "decoder-only"}, "tokenizer": {"joint": False}}, "leave tokenizer.joint = false out"),
    ({"model": {"tied": "all"}, "tokenizer": {"joint": False}}, "needs one vocabulary"),
    ({"tuning": {"method": "frozen"}}, "tuning.method = \"frozen\" is not possible with objective.kind"),
    ({"objective": {"beam": 0}}, "translates nothing at marks"),
    ({"objective": {"smooting": 0.1}}, "did you mean objective.smoothing"),
    ({"objective": {"bleu_words": "mecab"}}, "objective.bleu_words = 'mecab' is not right: choose '13a'"),
    ({"training": {"long_texts": "chunk"}}, "means nothing with objective.kind = \"translate\""),
    ({"evaluation": {"metric": "blue"}}, "did you mean 'bleu'"),
    ({"data": {"label": "pig"}}, "data.label means nothing with objective.kind = \"translate\""),
]  # fmt: skip


@pytest.mark.parametrize(("tables", "words"), REFUSED)
def test_refused_before_anything_is_read(tables: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=words) as refused:
        translation("encoder-decoder", tmp_path, **tables)
    assert "\n" not in str(refused.value)


LATER: list[tuple[dict[str, Any], str]] = [
    ({"model": {"width": 15}}, "model.width = 15 is not divisible by model.heads = 2; change one of them"),
    ({"model": {"positions": 10}}, "training.max_length = 16, but the model reads at most 10 tokens on a side"),
    ({"tuning": {"layer_decay": 0.5}}, "tuning.layer_decay is for a body of blocks, which this model is not"),
]


@pytest.mark.parametrize(("tables", "words"), LATER)
def test_refused_before_training(tables: dict[str, Any], words: str, tmp_path: Path) -> None:
    recipe = translation("encoder-decoder", tmp_path, **tables)
    with pytest.raises(RequestError, match=words) as refused:
        assembled(recipe, tmp_path / "store")
    assert "\n" not in str(refused.value)


def test_a_model_that_does_not_translate(tmp_path: Path) -> None:
    plain = write_tiny(tmp_path / "model")
    sizes = {"kind": None, "layers": None, "width": None, "heads": None}
    recipe = translation("encoder-decoder", tmp_path, model={**sizes, "name": str(plain)}, tokenizer=None)
    with pytest.raises(RequestError, match=r"is no translator; name one, or give model\.kind"):
        assembled(recipe, tmp_path / "store")


def test_training_pairs_that_are_all_too_long(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("plain,pig\n" + "".join(f"{'a' * 20}{i},{'b' * 20}{i}\n" for i in range(9)))
    data = {"train": str(path), "dev": str(path), "test": str(path)}
    with pytest.raises(
        RequestError,
        match=r"every training pair is too long\. train: 9 pairs .* more than 16 tokens, training\.max_length",
    ):
        assembled(translation("recurrent", tmp_path, data=data), tmp_path / "store")


def test_metrics_of_sacrebleu_need_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    for metric, said in (("auto", '"bleu" by default'), ("bleu", '= "bleu"'), ("chrf", '= "chrf"')):
        recipe = translation("recurrent", tmp_path, evaluation={"metric": metric})
        with pytest.raises(RequestError, match=rf"{said}, which .* not installed.* pip install 'heedful\[translate\]'"):
            assembled(recipe, tmp_path / "store")


def test_keys_of_translators_mean_nothing_elsewhere() -> None:
    content = {"model": {"name": "minilm", "drop_net": 0.5}, "data": {"name": "sst2"}}
    with pytest.raises(RequestError, match="drop_net means nothing with objective"):
        make_recipe(content)


@pytest.mark.parametrize(
    "key", ["objective.smoothing", "objective.final_beam", "model.kind", "model.bert", "model.tied"]
)
def test_keys_are_explained(key: str) -> None:
    assert len(explain_key(key)) > 60


@pytest.mark.parametrize(
    "name",
    [
        *("pig-latin-rnn", "pig-latin-encoder-decoder", "pig-latin-decoder-only"),
        *("multi30k-en-de", "multi30k-en-de-bert-fused", "en-my", "en-my-bert-fused"),
    ],
)
def test_recipes_that_come_along(name: str) -> None:
    assert read_recipe(name).objective.kind == "translate"


def test_all_recipes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Those without a named data set too."""
    recipes()
    listed = capsys.readouterr().out
    for name in builtin_names():
        assert name in listed
    assert "encoder-decoder, full, en-my (6 runs)" in listed
