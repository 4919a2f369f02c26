"""The formulas of this installation. Apart from the others, because every command sets them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...domain.formulas.formula import Formula

_additional: "tuple[Formula, ...]" = ()


def set_additional_formulas(formulas: "Iterable[Formula]") -> None:
    """From now on these formulas apply, before built-in ones of the same name."""
    global _additional
    _additional = tuple(formulas)


def additional_formulas() -> "tuple[Formula, ...]":
    """The formulas of this installation."""
    return _additional
