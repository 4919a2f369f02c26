"""Reader of traces that PyTorch's profiler exports: JSON for Chrome's trace viewer, written by Kineto."""

import re
from typing import BinaryIO

from ...domain.profile import Profile
from ...ingest.trace.losses import TRACE_LOSSES
from ...ingest.trace_json.losses import TRACE_JSON_LOSSES
from ...ingest.trace_json.sniff import find_top_keys, is_trace_json

FORMAT = "pytorch"
LOSSES = (*TRACE_JSON_LOSSES, *TRACE_LOSSES)
_KEYS = frozenset({"schemaVersion", "deviceProperties", "distributedInfo", "baseTimeNanoseconds", "record_shapes"})
_EVENTS = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|cuda_runtime|cuda_driver|python_function|user_annotation|gpu_user_annotation|'
    rb'cpu_instant_event|Operator)"|"name"\s*:\s*"(?:ProfilerStep#\d+|PyTorch Profiler \(\d+\))"'
)
_OTHER = re.compile(rb'"otherData": \{"exporter": "Perfloom", "format": "(?!pytorch")')
"""A file of Perfloom for another kind of recording, which may have a time like PyTorch's."""


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is a trace of PyTorch's profiler."""
    if _OTHER.search(head):
        return False
    return is_trace_json(head) and (not _KEYS.isdisjoint(find_top_keys(head)) or _EVENTS.search(head) is not None)


def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a trace. `source` names it in messages. Raises UnreadableInput if it has no events."""
    # Compiled code is imported only when a file is read.
    from ...ingest.trace.dialects import PYTORCH
    from ...ingest.trace.profile import build_profile
    from ...ingest.trace_json.reader import read_events

    return build_profile(read_events(stream), source, getattr(stream, "defect", None), PYTORCH)
