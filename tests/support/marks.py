"""Marks of tests that many files use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pytest

SLOW = pytest.mark.slow
"""`make test` leaves these out; `make test-all` and `.ci/run` run them (see CONTRIBUTING.md)."""


def slow_except(kept: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """`values` for parametrize, all of them slow except `kept`. A tuple is the values of several parameters."""
    return [value if value in kept else _slow(value) for value in values]


def slow_but_every(nth: int, values: Sequence[Any]) -> list[Any]:
    """`values` for parametrize, all of them slow except the first of each `nth`."""
    return [_slow(value) if number % nth else value for number, value in enumerate(values)]


def _slow(value: Any) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=SLOW)
