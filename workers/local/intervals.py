"""The last interval that a running `perf stat -I` has written."""

import json
import math
import os
from contextlib import suppress
from pathlib import Path

_TAIL_BYTES = 16 << 10
MAX_VALUES = 3


def format_last_interval(path: Path) -> str:
    """The values of the last complete interval of `perf stat -I`, as JSON or with `;`, for the page of the job; empty
    without any."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            start = max(0, size - _TAIL_BYTES)
            lines = os.pread(descriptor, _TAIL_BYTES, start).decode("utf-8", "replace").split("\n")
        finally:
            os.close(descriptor)
        # The first may be cut at its beginning, the last at its end.
        values = [value for line in lines[1 if start else 0 : -1] if (value := _interval_value(line)) is not None]
        ends = list(dict.fromkeys(end for end, _ in values))
        if len(ends) > 1:
            # The next interval has begun.
            shown = [text for end, text in values if end == ends[-2]]
            more = f" and {len(shown) - MAX_VALUES} more" if len(shown) > MAX_VALUES else ""
            return f"interval until {ends[-2]:.1f} s: {', '.join(shown[:MAX_VALUES])}{more}"
    return ""


def _interval_value(line: str) -> tuple[float, str] | None:
    """(end of the interval in seconds, value and event) of a line."""
    try:
        if line.startswith("{"):
            data = json.loads(line)
            end, value, unit, event = (data[key] for key in ("interval", "counter-value", "unit", "event"))
        else:
            end, value, unit, event = line.split(";")[:4]
        end, number, event = float(end), float(value), str(event)[:60]
    except (ValueError, KeyError, TypeError):
        return None
    if not (math.isfinite(end) and math.isfinite(number)):
        return None
    return end, " ".join(
        part for part in (f"{number:,.0f}" if number >= 100 else f"{number:.3g}", str(unit)[:10], event) if part
    )
