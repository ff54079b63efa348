"""What every record of a run or a study on disk has in common: typed keys that are known, and room for others."""

import math
from contextlib import suppress
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)

Number = int | float
Text = Annotated[str, BeforeValidator(str)]
"""Anything that is shown as text."""


class Record(BaseModel):
    """A JSON object with typed keys. Keys that it does not know are kept, for objectives and evaluations add their own.

    Reading trusts nothing: a key that is missing, or whose value has another type, has its default, and entries of
    lists and mappings that have another type are left out. So files of earlier versions and damaged ones can be read.
    """

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="allow",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )

    @field_validator("*", mode="wrap")
    @classmethod
    def _read(cls, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        try:
            return handler(value)
        except ValidationError as error:
            wrong = {problem["loc"][0] for problem in error.errors() if problem["loc"]}
        rest: Any = None
        if isinstance(value, dict):
            rest = {key: entry for key, entry in value.items() if key not in wrong}
        elif isinstance(value, list):
            rest = [entry for i, entry in enumerate(value) if i not in wrong]
        with suppress(ValidationError):
            if rest:
                return handler(rest)
        return cls.model_fields[str(info.field_name)].get_default(call_default_factory=True)

    def __bool__(self) -> bool:
        """Whether anything was read, as of a mapping."""
        return bool(self.model_fields_set)

    @property
    def extra(self) -> dict[str, Any]:
        """The keys that have no type here, in their order."""
        return self.model_extra or {}

    @property
    def written(self) -> dict[str, Any]:
        """The record as the JSON object that it was read from; empty for one that there is no file of."""
        return self.model_dump(exclude_unset=True)

    def number(self, key: str) -> float | None:
        """Return the number of this name, known here or not; None where there is none."""
        value = getattr(self, key) if key in type(self).model_fields else self.extra.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return None
        return float(value)
