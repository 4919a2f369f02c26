"""What formats make of trace events that are JSON: PyTorch's, and of whoever else writes them."""

from ...domain.tables import FrameKind
from .assembly import Dialect
from .pytorch_names import meaning
from .slices import Meaning, What

TRACKS = frozenset({"-1", "Spans", "Traces", ""})
"""Processes that are none: Kineto puts its own overhead and the spans of the profiler there."""
PYTORCH = Dialect(
    "pytorch",
    Meaning(meaning, TRACKS),
    "its list traceEvents is empty. Record again, with at least one step while the profiler is active.",
)
_PLAIN = What("other", FrameKind.USER)
CHROME = Dialect(
    "chrome-trace", Meaning(lambda category, name: _PLAIN), "its list traceEvents is empty. Trace again, for longer."
)
