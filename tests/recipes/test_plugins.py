"""Objectives and tunings of other packages: behind an entry point, they are as good as those that come along."""

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from typing import Any, Literal

import pytest

from heedful import plugins
from heedful.errors import RequestError
from heedful.recipes.reading import all_keys, explain_key, make_recipe, recipe_type
from heedful.recipes.schema import TuningTable
from heedful.tuning.full import Full

SMALLEST: dict[str, Any] = {"model": {"name": "minilm"}, "data": {"train": "a.csv", "text": "t", "label": "l"}}


class BiasTable(TuningTable):
    method: Literal["bias-only"] = "bias-only"
    """The biases alone move."""
    depth: int = 3
    """How many of the top layers take part."""


class BiasOnly(Full):
    Table = BiasTable  # type: ignore[assignment]


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Packages that offer plugins, for a while."""

    def offer(**places: str) -> None:
        points = [EntryPoint(name.replace("_", "-"), place, "heedful.tunings") for name, place in places.items()]

        def found(group: str, name: str | None = None) -> list[EntryPoint]:
            return [p for p in points if p.group == group and name in (None, p.name)]

        monkeypatch.setattr(plugins, "entry_points", found)

    def forget() -> None:
        recipe_type.cache_clear()

    forget()
    yield offer
    forget()


def test_a_tuning_of_another_package(offered: Callable[..., None]) -> None:
    offered(bias_only=f"{__name__}:BiasOnly")
    assert plugins.find("tuning", "bias-only") is BiasOnly
    assert plugins.names("tuning")[-1] == "bias-only"
    recipe = make_recipe({**SMALLEST, "tuning": {"method": "bias-only", "depth": 2}})
    assert recipe.tuning == BiasTable(depth=2)
    assert make_recipe(recipe.model_dump(mode="json")) == recipe
    assert recipe.identity()["tuning"] == {"method": "bias-only", "depth": 2}
    assert "tuning.depth" in all_keys()
    assert explain_key("tuning.depth").startswith('tuning.depth  (of "bias-only"; int; default 3)')
    with pytest.raises(RequestError, match=r"there is no key tuning\.dept; did you mean tuning\.depth\?"):
        make_recipe({**SMALLEST, "tuning": {"method": "bias-only", "dept": 2}})
    with pytest.raises(RequestError, match=r"did you mean 'bias-only'\?"):
        make_recipe({**SMALLEST, "tuning": {"method": "biasonly"}})


def test_nobody_takes_the_name_of_one_that_comes_along(offered: Callable[..., None]) -> None:
    offered(full=f"{__name__}:BiasOnly")
    assert plugins.find("tuning", "full") is Full
    assert plugins.names("tuning").count("full") == 1


@pytest.mark.parametrize("place", ["no.such.module:X", f"{__name__}:Missing"])
def test_one_that_cannot_be_loaded_is_refused_in_words(place: str, offered: Callable[..., None]) -> None:
    offered(broken=place)
    with pytest.raises(RequestError, match=r"tuning\.method = 'broken': the package that offers it cannot be loaded"):
        make_recipe({**SMALLEST, "tuning": {"method": "broken"}})
    assert make_recipe(SMALLEST).tuning.method == "full"  # nobody else minds


def test_without_it_the_name_is_unknown() -> None:
    with pytest.raises(RequestError, match=r"'bias-only' is not right: there is no tuning of this name"):
        plugins.find("tuning", "bias-only")
