"""How far a long operation got."""

from collections.abc import Callable

Progress = Callable[[float | None, str], None]
"""Called with the completed part (0 to 1, None if unknown) and what is done; may raise to stop the operation."""
