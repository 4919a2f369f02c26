"""How dialects interpret JSON trace events: that of PyTorch, and others."""

from ...domain.meta import KERNEL_TRACE, PYTORCH_PROFILE
from ...domain.tables import FrameKind
from .profile import Dialect
from .pytorch_names import classify
from .slices import SliceClassifier, SliceType

TRACKS = frozenset({"-1", "Spans", "Traces", ""})
"""Process ids that are not processes: Kineto uses them for its own overhead and the spans of the profiler."""
PYTORCH = Dialect(
    "pytorch",
    SliceClassifier(classify, TRACKS),
    "traceEvents is empty. Record again, with at least one step while the profiler is active.",
    capabilities=(KERNEL_TRACE, PYTORCH_PROFILE),
)
_PLAIN = SliceType("other", FrameKind.USER)
CHROME = Dialect(
    "chrome-trace",
    SliceClassifier(lambda category, name: _PLAIN),
    "traceEvents is empty. Record again, for longer.",
)
