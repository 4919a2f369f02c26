"""Facts of several files' headers, combined: the first values of each fact, and how many more there are."""

from collections.abc import Collection, Mapping

MAX_VALUES = 4
FIRST_SAMPLE_FACT = "clock of first sample"
"""The fact with the time of the profile's zero, in ns of perf's clock."""
STACKS_FACT = "call stacks"
"""The fact with the origin of call stacks that were not recorded, as the end of a sentence."""

BACKWARD_CLOCK_FACT = "clock that goes back"
"""The fact with the number of samples that are earlier than the one before them, as a clause."""
PERF_SCRIPT_FACT = "read by perf script because"
"""The fact with the reason why perf.data was not read from its records, as a clause."""
SWITCH_OUTPUT_FACT = "files of perf record --switch-output"
"""The fact with the number of files that were read as one recording."""


class FactMerger:
    """Facts (see `Meta.facts`) of several files."""

    def __init__(self) -> None:
        self._shown: dict[str, list[str]] = {}
        self._more: dict[str, set[int]] = {}

    def add(self, facts: Mapping[str, str]) -> None:
        """Add the facts of one file."""
        for name, value in facts.items():
            values = self._shown.setdefault(name, [])
            if value in values:
                continue
            if len(values) < MAX_VALUES:
                values.append(value)
            else:
                # Of further values only the number is reported, so they are not stored.
                self._more.setdefault(name, set()).add(hash(value))

    def merge(self, left_out: Collection[str] = ()) -> dict[str, str]:
        """Each fact once, with all its values."""
        return {
            name: "; ".join(shown) + (f" and {len(self._more[name])} more" if name in self._more else "")
            for name, shown in self._shown.items()
            if name not in left_out
        }
