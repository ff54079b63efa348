"""Recipes: what is right is read as written; what is wrong is one sentence with the key and the remedy."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.errors import RequestError
from heedful.recipes.reading import all_keys, builtin_names, explain_key, make_recipe, read_recipe
from heedful.recipes.schema import Recipe

SMALLEST: dict[str, Any] = {"model": {"name": "minilm"}, "data": {"train": "a.csv", "text": "t", "label": "l"}}
TOML = """
[model]
name = "minilm"
[data]
train = "reviews.csv"
text = "review"
label = "stars"
[training]
epochs = 3
lr = 5e-5
"""


def make(**changes: Any) -> Recipe:
    """Keys with a dot in them as `table__key`; None takes a key away."""
    content = {table: dict(keys) for table, keys in SMALLEST.items()}
    for name, value in changes.items():
        table, _, key = name.partition("__")
        if key:
            content.setdefault(table, {})[key] = value
        else:
            content[table] = value
    return make_recipe({k: v for k, v in content.items() if v is not None})


def refusal(**changes: Any) -> str:
    with pytest.raises(RequestError) as caught:
        make(**changes)
    message = str(caught.value)
    assert message.startswith("recipe: ")
    assert message.endswith((".", "?"))
    assert "\n" not in message
    return message


def test_the_smallest_recipe_has_stated_defaults() -> None:
    recipe = make()
    assert (recipe.training.epochs, recipe.training.batch_size, recipe.training.lr) == (3, 32, 5e-5)
    assert recipe.tuning.method == "full"
    assert recipe.seed_list() == [0]
    assert make_recipe(recipe.model_dump(mode="json")) == recipe  # as a manifest keeps it


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"training__epoch": 3}, ("there is no key training.epoch;", "did you mean training.epochs?")),
        ({"training__learning_rate": 1}, ("there is no key training.learning_rate;", "allowed are")),
        ({"data__labels": "x"}, ("there is no key data.labels;", "did you mean data.label?")),
        ({"modle": {}}, ("there is no key modle;", "did you mean model?")),
        ({"tokenizer": {"sise": 200}}, ("there is no key tokenizer.sise;", "did you mean tokenizer.size?")),
        ({"model__heads": "linear"}, ("did you mean model.head?",)),
    ],
)
def test_unknown_keys(changes: dict[str, Any], words: tuple[str, ...]) -> None:
    message = refusal(**changes)
    assert all(word in message for word in words), message


@pytest.mark.parametrize("table", [t for t in Recipe.model_fields if t not in ("format", "seeds")])
def test_the_nearest_key_is_named_in_every_table(table: str) -> None:
    keys = [k.partition(".")[2] for k in all_keys() if k.startswith(f"{table}.")]
    assert keys
    for key in keys:
        if len(key) > 3:
            assert f"did you mean {table}.{key}?" in refusal(**{f"{table}__{key}x": 1})


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"training__epochs": "3"}, "training.epochs = '3'"),
        ({"training__epochs": 3.0}, "training.epochs = 3.0"),
        ({"training__epochs": 2.5}, "training.epochs = 2.5"),
        ({"training__epochs": True}, "training.epochs = True"),
        ({"training__epochs": 0}, "training.epochs = 0"),
        ({"training__lr": "1e-4"}, "training.lr = '1e-4'"),
        ({"training__lr": True}, "training.lr = True"),
        ({"training__lr": -1e-4}, "training.lr = -0.0001"),
        ({"training__lr": float("inf")}, "training.lr = inf"),
        ({"training__lr": float("nan")}, "training.lr = nan"),
        ({"training__weight_decay": float("inf")}, "training.weight_decay = inf"),
        ({"training__warmup": 1.0}, "training.warmup = 1.0"),
        ({"training__schedule": "Linear"}, "training.schedule = 'Linear'"),
        ({"training__max_length": 3}, "training.max_length = 3"),
        ({"data__text": 3}, "data.text = 3"),
        ({"data__dev_share": 0}, "data.dev_share = 0"),
        ({"evaluation__baselines": 1}, "evaluation.baselines = 1"),
        ({"evaluation__baselines": "yes"}, "evaluation.baselines = 'yes'"),
        ({"tuning__method": "lora"}, "tuning.method = 'lora'"),
        ({"model__dropout": 1.0}, "model.dropout = 1.0"),
        ({"model": "minilm"}, "model = 'minilm'"),
        ({"seeds": "all"}, "seeds = 'all'"),
        ({"seeds": 2.0}, "seeds = 2.0"),
        ({"format": 2}, "format = 2"),
    ],
)
def test_wrong_values(changes: dict[str, Any], key: str) -> None:
    assert f"{key} is not right: " in refusal(**changes)


def test_a_whole_number_is_a_number() -> None:
    recipe = make(training__lr=1, training__warmup=0, training__weight_decay=0, training__checkpoint_seconds=30)
    assert isinstance(recipe.training.lr, float)
    assert recipe.training.lr == 1.0
    assert recipe.training.warmup == 0.0


def test_missing_tables() -> None:
    assert "the key model is missing" in refusal(model=None)
    assert "the key data is missing" in refusal(data=None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": {}}, "either name or shape"),
        ({"model__shape": "bert-tiny"}, "either name or shape"),
        ({"model": {"shape": "bert-tiny"}}, "needs [tokenizer]"),
        ({"model": {"shape": "bert-tiny"}, "tokenizer": {}}, "needs [tokenizer]"),
        ({"model": {"shape": "bert-tiny"}, "tokenizer": {"name": "minilm", "kind": "bpe"}}, "either name or kind"),
        ({"tokenizer": {"kind": "bpe"}}, "goes with model.shape"),
        (
            {"model": {"shape": "bert-tiny"}, "tokenizer": {"kind": "wordpiece"}, "tuning": {"method": "frozen"}},
            "learns nothing",
        ),
        ({"data__name": "sst2"}, "either name or train"),
        ({"data": {}}, "either name or train"),
        ({"data": {"train": "a.csv", "text": "t"}}, "data.text and data.label"),
        ({"data__pair": "p", "training__long_texts": "chunk"}, "not for pairs"),
        ({"seeds": 0}, "seeds = 0"),
        ({"seeds": -1}, "seeds = -1"),
        ({"seeds": []}, "seeds = []"),
        ({"seeds": [1, 1]}, "seeds = [1, 1]"),
        ({"seeds": [-1]}, "seeds = [-1]"),
        ({"seeds": [2**64]}, "seeds = "),
        ({"seeds": 10**12}, "seeds = "),
    ],
)
def test_contradictions(changes: dict[str, Any], words: str) -> None:
    assert words in refusal(**changes)


def test_seeds() -> None:
    assert make(seeds=3).seed_list() == [0, 1, 2]
    assert make(seeds=[5, 2]).seed_list() == [5, 2]


def test_settings_of_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(TOML)
    recipe = read_recipe(
        path,
        [
            "training.lr=1e-4",
            "training.epochs = 2",
            "training.epochs=7",
            "tuning.method=frozen",
            'data.text="the text"',
            "seeds=[3, 4]",
            "evaluation.baselines=false",
            "model.name=runs/a b/model",
            "objective.label_smoothing=0.1",
        ],
    )
    assert (recipe.training.lr, recipe.training.epochs) == (1e-4, 7)
    assert (recipe.tuning.method, recipe.data.text, recipe.seeds) == ("frozen", "the text", [3, 4])
    assert (recipe.evaluation.baselines, recipe.model.name) == (False, "runs/a b/model")
    assert recipe.objective.label_smoothing == 0.1
    assert read_recipe(path).training.epochs == 3


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("training.lr", "write key=value"),
        ("=3", "write key=value"),
        ("training.lr=fast", "training.lr = 'fast'"),
        ("training.lr=", "training.lr = ''"),
        ("training.epochs=1.5", "training.epochs = 1.5"),
        ("trainig.lr=1", "there is no key trainig; did you mean training?"),
        ("training.lr.top=1", "lr is not a table"),
        ("data.train.x=1", "train is not a table"),
    ],
)
def test_settings_that_are_refused(setting: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(TOML)
    with pytest.raises(RequestError) as caught:
        read_recipe(path, [setting])
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (TOML.replace("lr = 5e-5", "lr = 5e-"), "line 10"),
        (TOML.replace("epochs = 3", "epochs 3"), "line 9"),
        (TOML + "lr = 1\n", "line 11"),
        (TOML.replace('"minilm"', '"minilm'), "line 3"),
    ],
)
def test_bad_toml_names_the_line(content: str, place: str, tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(content)
    with pytest.raises(RequestError) as caught:
        read_recipe(path)
    assert str(caught.value).startswith(f"{path}: not valid TOML")
    assert place in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no such file, and no recipe of that name"):
        read_recipe(tmp_path / "none.toml")
    with pytest.raises(RequestError, match="no such file"):
        read_recipe(tmp_path)
    (tmp_path / "latin.toml").write_bytes('[model]\nname = "é"\n'.encode("latin-1"))
    with pytest.raises(RequestError, match=r"latin\.toml: cannot be read"):
        read_recipe(tmp_path / "latin.toml")
    (tmp_path / "marked.toml").write_bytes(b"\xef\xbb\xbf" + TOML.encode())  # as some editors save
    assert read_recipe(tmp_path / "marked.toml") == read_recipe_of(TOML, tmp_path)


def read_recipe_of(content: str, folder: Path) -> Recipe:
    (folder / "plain.toml").write_text(content)
    return read_recipe(folder / "plain.toml")


def test_the_place_of_a_mistake_is_the_file(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(TOML + "lrr = 1\n")
    with pytest.raises(RequestError, match=r"r\.toml: there is no key training\.lrr; did you mean training\.lr\?"):
        read_recipe(path)


@pytest.mark.parametrize("key", list(all_keys()))
def test_every_key_is_explained(key: str) -> None:
    first, _, rest = explain_key(key).partition("\n")
    assert first.startswith(f"{key}  (")
    assert "default" in first or "required" in first
    if "." in key or key in ("seeds", "format"):
        assert len(rest.strip()) > 10, key
        assert rest.strip().endswith((".", "…")), key


def test_tables_are_explained_key_by_key() -> None:
    assert [line.split("  ")[0] for line in explain_key("tuning").splitlines() if line and line[0] != " "] == [
        "tuning.method",
        "tuning.layer_decay",
        "tuning.reinit_layers",
    ]


@pytest.mark.parametrize("key", ["training.lrr", "training.lr.x", "nothing", "", "training.", ".", "data.options.x"])
def test_keys_that_are_not_there(key: str) -> None:
    with pytest.raises(RequestError, match="there is no key"):
        explain_key(key)


def test_the_nearest_key_is_named_when_explaining() -> None:
    with pytest.raises(RequestError, match=r"did you mean training\.lr\?"):
        explain_key("training.lrr")


@pytest.mark.parametrize("name", builtin_names())
def test_built_in_recipes(name: str) -> None:
    recipe = read_recipe(name)
    assert recipe.seed_list()
    assert make_recipe(recipe.model_dump(mode="json")) == recipe


@given(st.dictionaries(st.text(max_size=8), st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=6,
), max_size=4))  # fmt: skip
def test_whatever_is_there_is_read_or_refused(content: dict[str, Any]) -> None:
    for extra in (content, {**SMALLEST, **content}, {**SMALLEST, "training": content}, {**SMALLEST, "data": content}):
        with contextlib.suppress(RequestError):
            make_recipe(extra)


def test_a_folder_of_its_name_does_not_hide_a_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tickets-minilm-full").mkdir()
    monkeypatch.chdir(tmp_path)
    assert read_recipe("tickets-minilm-full").data.name == "tickets"
