"""More events than a CPU has counters: put them in groups that it counts at once."""

from collections.abc import Sequence

from ..domain.facts import HostFacts


def groups(
    events: Sequence[str], facts: HostFacts | None, *, most: int | None = None, counters: int | None = None
) -> tuple[tuple[str, ...], ...]:
    """The events in groups, each for one run."""
    return (tuple(events),)
