"""What probes ask of a model that they look into: `heedful.load` returns one."""

from typing import Protocol

from heedful.models.transformer import Transformer
from heedful.text.tokenizer import Tokenizer


class ReadableModel(Protocol):
    @property
    def source(self) -> str: ...
    @property
    def transformer(self) -> Transformer: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def max_length(self) -> int: ...
