"""What formats other than PyTorch's make of trace events."""

from ..domain.tables import FrameKind
from .pytorch_assembly import Dialect
from .trace_slices import Meaning, What

_PLAIN = What("other", FrameKind.USER)
CHROME = Dialect(
    "chrome-trace", Meaning(lambda category, name: _PLAIN), "its list traceEvents is empty. Trace again, for longer."
)
