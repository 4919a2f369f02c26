"""Providers of secrets: functions that return the answer to a prompt."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from perfloom.domain.errors import Prompt

SecretProvider = Callable[[Prompt], str | None]
"""Provides a secret; None if it has none. May be called in another thread."""


def no_secrets(prompt: Prompt) -> str | None:
    """A provider without secrets."""
    return None


@runtime_checkable
class SecretInvalidator(Protocol):
    """A provider of secrets that can also forget them."""

    def invalidate(self, prompt: Prompt) -> None:
        """Forget a secret that was wrong or is valid only once (a one-time code)."""
