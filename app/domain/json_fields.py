"""JSON of another version: the keys that a data class has fields for."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any


def select_known_fields(cls: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """The items of `data` that the data class has fields for; other keys are ignored."""
    names = {field.name for field in fields(cls)}
    return {key: value for key, value in data.items() if key in names}
