"""Recipes: what is right is read as written; what is wrong is one sentence with the key and the remedy."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful import plugins
from heedful.building.translators import HEADS, LAYERS, POSITIONS, WIDTH
from heedful.errors import RequestError
from heedful.recipes.reading import (
    all_keys,
    builtin_names,
    explain_key,
    make_recipe,
    read_recipe,
    recipe_type,
    same_recipe,
)
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
        (
            {"tuning": {"method": "frozen", "layer_decay": 0.9}},
            ("there is no key tuning.layer_decay;", "allowed are method, solve, penalties."),
        ),
        ({"tuning": {"method": "frozen", "reinit_layers": 1}}, ("there is no key tuning.reinit_layers;",)),
        ({"tuning": {"method": "full", "penalties": [0.1]}}, ("there is no key tuning.penalties;",)),
        ({"tuning": {"penalties": [0.1]}}, ("there is no key tuning.penalties;",)),
        ({"training__epoch": 3}, ("there is no key training.epoch;", "did you mean training.epochs?")),
        ({"training__learning_rate": 1}, ("there is no key training.learning_rate;", "allowed are")),
        ({"data__labels": "x"}, ("there is no key data.labels;", "did you mean data.label?")),
        ({"modle": {}}, ("there is no key modle;", "did you mean model?")),
        ({"tokenizer": {"sise": 200}}, ("there is no key tokenizer.sise;", "did you mean tokenizer.size?")),
        ({"model__haed": "linear"}, ("did you mean model.head?",)),
    ],
)
def test_unknown_keys(changes: dict[str, Any], words: tuple[str, ...]) -> None:
    message = refusal(**changes)
    assert all(word in message for word in words), message


NAMES = {"objective": "kind", "tuning": "method"}
"""The key of each union by which its members are told apart."""


@pytest.mark.parametrize("table", [t for t in Recipe.model_fields if t not in ("format", "seeds", *NAMES)])
def test_the_nearest_key_is_named_in_every_table(table: str) -> None:
    keys = [k.partition(".")[2] for k in all_keys() if k.startswith(f"{table}.")]
    assert keys
    for key in keys:
        if len(key) > 3 and "." not in key:
            assert f"did you mean {table}.{key}?" in refusal(**{f"{table}__{key}x": 1})


MEMBERS = [(group, name) for group in NAMES for name in plugins.names(group)]  # type: ignore[arg-type]


@pytest.mark.parametrize(("group", "name"), MEMBERS)
def test_the_nearest_key_is_named_in_every_table_of_a_union(group: str, name: str) -> None:
    keys = list(plugins.find(group, name).Table.model_fields)  # type: ignore[arg-type]
    assert NAMES[group] in keys
    for key in keys:
        found = refusal(**{group: {NAMES[group]: name, f"{key}x": 1}})
        assert f"there is no key {group}.{key}x; did you mean {group}.{key}?" in found


@pytest.mark.parametrize(("group", "name"), MEMBERS)
def test_the_tables_of_a_union_say_their_name(group: str, name: str) -> None:
    """What a plugin promises: a table of its own whose name is the plugin's, and every key with a default."""
    table = plugins.find(group, name).Table  # type: ignore[arg-type]
    assert getattr(table(), NAMES[group]) == name
    schema = recipe_type(name if group == "objective" else "classify", name if group == "tuning" else "full")
    smallest = {"model": SMALLEST["model"]}
    recipe = schema.model_validate({**smallest, group: {NAMES[group]: name}})
    assert type(getattr(recipe, group)) is table
    assert schema.model_validate(smallest) == recipe  # it need not be said
    assert schema.model_validate(recipe.model_dump(mode="json")) == recipe


def test_those_that_come_along() -> None:
    assert "classify" in plugins.names("objective")
    assert plugins.names("tuning") == ["adapter", "bias", "cosine", "frozen", "full", "fusion", "lora"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"tuning__method": "fulll"},
            "tuning.method = 'fulll' is not right: there is no tuning of this name; did you mean 'full'?",
        ),
        ({"tuning__method": "froze"}, "did you mean 'frozen'?"),
        ({"tuning__method": "xyz"}, f"choose from {', '.join(plugins.names('tuning'))}."),
        ({"tuning__method": "protocol"}, "of this name"),  # a file of that folder, but no tuning
        ({"tuning__method": "features"}, "of this name"),
        ({"tuning__method": "../full"}, "of this name"),
        ({"tuning__method": "FULL"}, "of this name"),
        ({"tuning__method": ""}, "of this name"),
        (
            {"objective__kind": "clasify"},
            "objective.kind = 'clasify' is not right: there is no objective of this name; did you mean 'classify'?",
        ),
        ({"objective__kind": "texts"}, "of this name"),
    ],
)
def test_the_nearest_objective_or_tuning_is_named(changes: dict[str, Any], words: str) -> None:
    assert words in refusal(**changes)


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("acuracy", "evaluation.metric = 'acuracy' is not right: did you mean 'accuracy'?"),
        ("pearsn", "did you mean 'pearson'?"),
        ("xyz", "choose from accuracy, macro_f1, f1"),
        ("", "choose from accuracy"),
    ],
)
def test_a_metric_is_one_of_the_objectives(metric: str, words: str) -> None:
    assert words in refusal(evaluation__metric=metric)


def test_every_metric_of_the_objective_is_allowed() -> None:
    names = [metric.name for metric in plugins.find("objective", "classify").EVALUATOR.METRICS]
    assert {"accuracy", "log_loss", "pearson", "mse"} <= set(names)
    for name in ("auto", *names):
        assert make(evaluation__metric=name).evaluation.metric == name


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
        ({"tuning__method": "prefix"}, "tuning.method = 'prefix'"),
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
    assert "[data] needs either name or train" in refusal(data=None)  # as this objective says: others need no data


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
            "learns little",
        ),
        ({"data__name": "sst2"}, "either name or train"),
        ({"data": {}}, "either name or train"),
        ({"data": {"train": "a.csv", "text": "t"}}, "data.text and data.label"),
        ({"data__pair": "p", "training__long_texts": "chunk"}, "not for pairs"),
        (
            {"tuning": {"method": "cosine"}, "model": {"shape": "bert-tiny"}, "tokenizer": {"kind": "bpe"}},
            "learns little",
        ),
        ({"tuning": {"method": "frozen", "penalties": [0.1, 0.0]}}, "each must be above 0"),
        ({"tuning": {"method": "frozen", "penalties": []}}, "penalties = [] is not right: the list must not be empty."),
        (
            {"tuning": {"method": ["frozen"]}},
            "tuning.method = ['frozen'] is not right: name one of adapter, bias, cosine, frozen, full, fusion, lora "
            "(several are compared by `heedful compare --methods`).",
        ),
        ({"data__options": {"a": [1]}}, "a whole number or it must be a number or it must be a text"),
        ({"training__schedule": "cos"}, "choose 'linear', 'cosine', 'constant', 'trapezoid' or 'inverse-sqrt'."),
        ({"training__lr": 0}, "training.lr = 0 is not right: it must be above 0."),
        ({"tuning": {"method": "cosine"}, "model__pairs": "towers"}, "leave out model.pairs, model.head"),
        (
            {"tuning": {"method": "frozen", "solve": False}, "training__batch_tokens": 100},
            'means nothing with tuning.method = "frozen"',
        ),
        (
            {"tuning": {"method": "cosine"}, "training__warmup": 0.0},
            'training.warmup means nothing with tuning.method = "cosine", whose head is solved',
        ),
        ({"training__steps": 10, "training__epochs": 2}, "training.steps and training.epochs both say how long"),
        ({"training__mark_steps": 2, "training__mark_tokens": 9}, "both say when to judge"),
        ({"training__steps": 0}, "training.steps = 0 is not right"),
        ({"training__mark_steps": 0}, "training.mark_steps = 0 is not right"),
        ({"training__mark_tokens": -1}, "training.mark_tokens = -1 is not right"),
        ({"data__limit": 3, "data__fraction": 0.5}, "data.limit and data.fraction"),
        ({"objective": "classify"}, "objective = 'classify' is not right"),
        ({"tuning": {"method": 3}}, "tuning.method = 3 is not right"),
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
            "tuning.solve=false",
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
    for value in (3, 7):  # also if it is the default
        with pytest.raises(RequestError, match=r"training\.epochs means nothing with"):
            read_recipe(path, ["tuning.method=frozen", f"training.epochs={value}"])


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


def test_what_translators_have_without_a_shape_is_explained() -> None:
    for key, value in (("layers", LAYERS), ("width", WIDTH), ("heads", HEADS), ("positions", POSITIONS)):
        explained = " ".join(explain_key(f"model.{key}").split())
        assert f"Default: {value}" in explained


def heads(explanation: str) -> list[str]:
    return [line for line in explanation.splitlines() if line and line[0] != " "]


def test_tables_are_explained_key_by_key() -> None:
    assert [line.split("  ")[0] for line in heads(explain_key("tokenizer"))] == [
        "tokenizer.name",
        "tokenizer.kind",
        "tokenizer.size",
        "tokenizer.prefix_space",
        "tokenizer.joint",
    ]
    lines = heads(explain_key("tuning"))
    names = ", ".join(f'"{name}"' for name in plugins.names("tuning"))
    assert lines[0] == f"tuning.method  (one of {names}; default 'full')"
    keys = [line.split("  ")[0] for line in lines]
    assert set(keys) == {f"tuning.{key}" for name in plugins.names("tuning") for key in table_of("tuning", name)}
    assert keys[:2] == ["tuning.method", "tuning.name"]


def table_of(group: plugins.Group, name: str) -> list[str]:
    return list(plugins.find(group, name).Table.model_fields)


@pytest.mark.parametrize(("group", "name"), MEMBERS)
def test_the_keys_of_every_member_of_a_union_are_explained(group: str, name: str) -> None:
    for key, field in plugins.find(group, name).Table.model_fields.items():  # type: ignore[arg-type]
        assert f"{group}.{key}" in all_keys()
        explained = explain_key(f"{group}.{key}")
        if key not in ("kind", "method"):
            assert f'{group}.{key}  (of "{name}"; ' in explained
            assert f"default {field.default!r}" in explained
        assert " ".join((field.description or "nothing").split()) in explained
        with pytest.raises(RequestError, match=rf"did you mean {group}\.{key}\?"):
            explain_key(f"{group}.{key}x")


def stored(**changes: Any) -> dict[str, Any]:
    """A recipe as manifests keep it."""
    content: dict[str, Any] = make(**changes).model_dump(mode="json", exclude={"seeds", "study"})
    return content


def test_the_identity_of_a_recipe_is_what_differs_from_the_defaults() -> None:
    assert make().identity() == {**SMALLEST, "objective": {"kind": "classify"}, "tuning": {"method": "full"}}
    stated = make(training__epochs=3, training__lr=5e-5, tuning={"method": "full", "layer_decay": 1.0}, seeds=4)
    assert stated.identity() == make().identity()
    assert make(training__lr=1).identity()["training"] == {"lr": 1.0}
    assert make(study={"training": {"lr": [1e-3]}}).identity() == make().identity()
    solved = make(tuning={"method": "frozen", "penalties": [0.5]})
    assert solved.identity()["tuning"] == {"method": "frozen", "penalties": [0.5]}
    assert make_recipe(solved.model_dump(mode="json")) == solved  # all keys of steps are there, at their defaults


EVERY_DEFAULT = [
    (table, key)
    for table, keys in stored().items()
    if isinstance(keys, dict)
    for key in keys
    if key not in SMALLEST.get(table, {})
]


@pytest.mark.parametrize(("table", "key"), EVERY_DEFAULT)
def test_a_recipe_of_a_version_that_lacked_a_key_is_the_same(table: str, key: str) -> None:
    older = stored()
    del older[table][key]
    assert same_recipe(older, make())


def test_a_recipe_that_lacks_whole_tables_or_states_defaults_is_the_same() -> None:
    assert same_recipe(SMALLEST, make())
    assert same_recipe({**SMALLEST, "training": {"epochs": 3, "patience": None}}, make())
    assert same_recipe(stored(), make(seeds=[4, 5]))
    assert same_recipe(stored(tuning={"method": "frozen"}), make(tuning={"method": "frozen"}))


@pytest.mark.parametrize(
    "changes",
    [
        {"training__lr": 4.9e-5},
        {"training__steps": 3},
        {"training__mark_steps": 1},
        {"training__threads": 1},
        {"tuning": {"method": "frozen"}},
        {"tuning": {"layer_decay": 0.99}},
        {"objective__label_smoothing": 0.1},
        {"evaluation__metric": "accuracy"},
        {"data__label": "other"},
        {"data__redraw": True},
        {"model__name": "other"},
        {"model__head": "two-layer"},
    ],
)
def test_a_recipe_with_another_value_is_another(changes: dict[str, Any]) -> None:
    assert not same_recipe(stored(**changes), make())
    assert not same_recipe(stored(), make(**changes))
    assert same_recipe(stored(**changes), make(**changes))


@pytest.mark.parametrize(
    "content", [{}, {"model": 3}, {**SMALLEST, "later": {"key": 1}}, {**SMALLEST, "tuning": {"method": "gone"}}]
)
def test_a_recipe_that_cannot_be_read_is_another(content: dict[str, Any]) -> None:
    assert not same_recipe(content, make())


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
