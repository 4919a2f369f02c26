"""The formulas of this installation and its users. Apart from the others, because every command sets them."""

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...domain.formulas.formula import Formula


class _Source:
    """Formulas that are loaded at their first use."""

    def __init__(self, load: "Callable[[], Iterable[Formula]]") -> None:
        self._load = load

    @cached_property
    def formulas(self) -> "tuple[Formula, ...]":
        return tuple(self._load())


_source = _Source(tuple)


def set_additional_formulas(formulas: "Iterable[Formula]") -> None:
    """From now on these formulas apply, before built-in ones of the same name."""
    known = tuple(formulas)
    load_additional_formulas(lambda: known)


def load_additional_formulas(load: "Callable[[], Iterable[Formula]]") -> None:
    """From now on the formulas that `load` returns apply. It is called at most once, where formulas are used: most
    commands and pages need none."""
    global _source
    _source = _Source(load)


def additional_formulas() -> "tuple[Formula, ...]":
    """These formulas."""
    return _source.formulas
