"""The base of all tables, and their types."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Dialect,
    Double,
    MetaData,
    Text,
    TypeDecorator,
)
from sqlalchemy.orm import DeclarativeBase


def storable(text: str) -> str:
    """`text` without NUL and lone surrogates (from undecodable bytes of file names), which databases cannot store."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def storable_json(value: Any) -> Any:
    """`value` with `storable` applied to every string in it."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {storable(str(key)): storable_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [storable_json(inner) for inner in value]
    return value


class AnyText(TypeDecorator[str]):
    """Text that may contain anything, such as file names or symbols."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(value)


class AnyJson(TypeDecorator[Any]):
    """JSON whose strings may contain anything."""

    impl = JSON
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return storable_json(value)


class Base(DeclarativeBase):
    """The base of all tables, with names for constraints, for use in migrations."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy declares it so
        str: AnyText,
        float: Double,
        bool: Boolean(create_constraint=False),
        dict[str, Any]: AnyJson(none_as_null=True),
        list[Any]: AnyJson(none_as_null=True),
    }
