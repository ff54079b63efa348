"""The tokenizer of a model with random weights: taken from somewhere, or trained, once for all runs of a study."""

from pathlib import Path

from heedful.building.protocol import Request
from heedful.checkpoints.finding import find
from heedful.errors import RequestError
from heedful.storage.directories import replace_directory
from heedful.text.characters import SPECIAL, character_tokenizer
from heedful.text.files import read_tokenizer
from heedful.text.tokenizer import Tokenizer
from heedful.text.training import train_on_texts


def tokenizer_for(request: Request, family: str) -> Tokenizer:
    """Return the tokenizer that [tokenizer] describes, with the special tokens of this family of models."""
    recipe, table = request.recipe, request.recipe.tokenizer
    assert table is not None  # the recipe was refused otherwise
    if table.name is not None:
        tokenizer = read_tokenizer(find(table.name), family)
        if tokenizer is None:
            raise RequestError(f"tokenizer.name = {table.name!r}: there is no tokenizer in it.")
        return tokenizer
    facts = {
        "tokenizer": [table.model_dump(mode="json"), family, list(request.special_tokens)],
        "data": [recipe.data.model_dump(mode="json"), request.data.describe()["fingerprints"]],
        "drawn": request.seed if recipe.data.redrawn else None,  # then each seed has other training texts
    }
    with request.store.place(facts) as folder:
        place = folder / "tokenizer"
        if not place.is_dir():

            def write(into: Path) -> None:
                _train(request, family).save(into)

            replace_directory(place, write, frozenset())
        made = read_tokenizer(place, family)
        assert made is not None
        return made


def _train(request: Request, family: str) -> Tokenizer:
    table, texts, special = request.recipe.tokenizer, request.data.texts(), request.special_tokens
    assert table is not None
    if table.kind == "characters":
        return character_tokenizer(texts, [*SPECIAL, *special], family)
    assert table.kind is not None
    tokenizer = train_on_texts(texts, table.kind, table.size, family, table.prefix_space)
    tokenizer.add_special(special)
    return tokenizer
