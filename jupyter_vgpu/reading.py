"""Read what somebody wrote, by a pydantic model: every refusal names the key, the value and what is allowed.

A key that nobody reads, one written without a value, and a value of another type are refused: a typo is never
"no limit".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError, ValidationInfo

from jupyter_vgpu.errors import BadValueError

_AnyEntry = TypeVar("_AnyEntry", bound="Entry")


class Entry(BaseModel):
    """A mapping as it was written. A field's description ends the sentence of its refusal: "a text is".

    A field that was not written has its default; whether it was is in `model_fields_set`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)


def by(parse: Callable[[Any, str], Any]) -> PlainValidator:
    """Return the annotation of a field that `parse(value, key)` reads; what that raises is raised."""

    def read_field(value: Any, info: ValidationInfo) -> Any:
        return parse(value, f"{info.context['key'] if info.context else 'entry'}.{info.field_name}")

    return PlainValidator(read_field)


def read(model: type[_AnyEntry], value: object, key: str) -> _AnyEntry:
    """Return `value` as a `model`.

    Args:
        model: What may stand there.
        value: What stands there.
        key: Where, for messages.

    Raises:
        BadValueError: Naming the key, the value and what is allowed.
    """
    keys = ", ".join(model.model_fields)
    if not isinstance(value, Mapping):
        raise BadValueError(key, value, f"a mapping with some of {keys} is")
    for name in value:
        if name not in model.model_fields:
            raise BadValueError(f"{key}.{name}", value[name], f"only the keys {keys} are")
        if value[name] is None and (allowed := model.model_fields[name].description):
            raise BadValueError(f"{key}.{name}", None, allowed)
    try:
        return model.model_validate(dict(value), context={"key": key})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0])
        allowed = model.model_fields[name].description or first["msg"]
        raise BadValueError(f"{key}.{name}", value.get(name), allowed) from error
