"""The tokenizer of a model with random weights: taken from somewhere, or trained, once for all runs of a study."""

from pathlib import Path

from heedful.checkpoints.finding import find
from heedful.errors import RequestError
from heedful.objectives.protocol import Objective
from heedful.recipes.schema import Recipe, TokenizerTable
from heedful.storage.directories import replace_directory
from heedful.storage.shared import SharedStore
from heedful.text.characters import SPECIAL, character_tokenizer
from heedful.text.files import read_tokenizer
from heedful.text.tokenizer import Tokenizer
from heedful.text.training import train_on_texts


def tokenizer_for(recipe: Recipe, seed: int, objective: Objective, family: str, store: SharedStore) -> Tokenizer:
    """As [tokenizer] says, with the special tokens of this family of models."""
    table = recipe.tokenizer
    assert table is not None  # the recipe was refused otherwise
    if table.name is not None:
        tokenizer = read_tokenizer(find(table.name), family)
        if tokenizer is None:
            raise RequestError(f"tokenizer.name = {table.name!r}: there is no tokenizer in it.")
        return tokenizer
    facts = {
        "tokenizer": [table.model_dump(mode="json"), family, list(objective.special_tokens())],
        "data": [recipe.data.model_dump(mode="json"), objective.description()["fingerprints"]],
        "drawn": seed if recipe.data.redrawn else None,  # then each seed has other training texts
    }
    with store.place(facts) as folder:
        place = folder / "tokenizer"
        if not place.is_dir():

            def write(into: Path) -> None:
                _train(table, objective, family).save(into)

            replace_directory(place, write, frozenset())
        made = read_tokenizer(place, family)
        assert made is not None
        return made


def _train(table: TokenizerTable, objective: Objective, family: str) -> Tokenizer:
    if table.kind == "characters":
        return character_tokenizer(objective.texts(), [*SPECIAL, *objective.special_tokens()], family)
    assert table.kind is not None
    tokenizer = train_on_texts(objective.texts(), table.kind, table.size, family, table.prefix_space)
    tokenizer.add_special(objective.special_tokens())
    return tokenizer
