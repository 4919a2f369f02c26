"""Names of adapters, registered at run time instead of enumerated. Only the registries in `perfloom.recording` register
names."""

from collections.abc import Iterator
from typing import Any, ClassVar, Self


class _NameSet(type):
    """Makes the class of a kind of names iterable: it yields the registered names, in order of registration."""

    _names: dict[str, Any]

    def __iter__(cls) -> Iterator[Any]:
        return iter(tuple(cls._names.values()))

    def __len__(cls) -> int:
        return len(cls._names)

    def __contains__(cls, name: object) -> bool:
        return name in cls._names


class RegisteredName(str, metaclass=_NameSet):
    """A name of one kind. Calling the class looks one up; the same name is always the same object.

    A name that the domain itself needs is declared there; it counts as soon as its adapter is registered. Raises
    ValueError, which lists the registered names, for any other.
    """

    kind: ClassVar[str]
    """What it names, in messages."""
    _names: ClassVar[dict[str, Any]]
    _objects: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, *, kind: str) -> None:
        cls.kind = kind
        cls._names = {}
        cls._objects = {}

    def __new__(cls, name: str) -> Self:
        found: Self | None = cls._names.get(name)
        if found is None:
            raise ValueError(f"{str(name)[:60]!r} is no known {cls.kind}. Use one of: {', '.join(cls)}")
        return found

    @classmethod
    def declare(cls, name: str) -> Self:
        """The object of a name, whether it is registered or not."""
        found: Self = cls._objects.setdefault(name, str.__new__(cls, name))
        return found

    @classmethod
    def register(cls, name: str) -> Self:
        """Register a name, if it is new, and return it."""
        found: Self = cls._names.setdefault(name, cls.declare(name))
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).declare, (str(self),)

    @classmethod
    def unregister(cls, name: str) -> None:
        """Unregister a name."""
        cls._names.pop(name, None)

    @property
    def value(self) -> str:
        """As plain text."""
        return str(self)
