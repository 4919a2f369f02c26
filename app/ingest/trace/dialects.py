"""How dialects interpret JSON trace events: that of PyTorch, and others."""

from ...domain.meta import KERNEL_TRACE, PYTORCH_PROFILE
from .profile import Dialect
from .pytorch_names import classify
from .slices import PLAIN_SLICE, SliceClassifier

TRACKS = frozenset({"-1", "Spans", "Traces", ""})
"""Process ids that are not processes: Kineto uses them for its own overhead and the spans of the profiler."""
PYTORCH = Dialect(
    "pytorch",
    SliceClassifier(classify, TRACKS),
    "traceEvents is empty. Record again, with at least one step while the profiler is active.",
    capabilities=(KERNEL_TRACE, PYTORCH_PROFILE),
)
CHROME = Dialect(
    "chrome-trace",
    SliceClassifier(lambda category, name: PLAIN_SLICE),
    "traceEvents is empty. Record again, for longer.",
)
