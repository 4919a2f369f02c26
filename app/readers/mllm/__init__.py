"""Reader of mllm's `perf.json`: blocks of memory and operators, each with when it began and ended.

    {"init_time": 1753865973438836,
     "memory_blobs": [{"uuid": 0, "device_type": "CPU", "start_time": …, "end_time": …, "memory_usage": 8388608}, …],
     "op_blobs": [{"op_name": "linear", "device_type": "CPU", "start_time": …, "end_time": …}, …]}

The file does not contain the unit of its times. `init_time` is a date since 2001 in one of them: that
one is used, unless the user selects another. A block whose `end_time` is 0 was never freed.
"""

import re
from typing import BinaryIO

from ...domain.errors import UnreadableInput
from ...domain.profile import Profile
from .format import FORMAT, LOSSES

__all__ = ["FORMAT", "LOSSES", "read", "sniff"]

MAX_BYTES = 1 << 30
_KEY = re.compile(rb'"(?:memory_blobs|op_blobs)"\s*:\s*\[')
_START = re.compile(rb"^(?:\xef\xbb\xbf)?(?:\s|//[^\n]*\n|/\*.*?\*/)*\{", re.DOTALL)


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` has this format."""
    return _START.match(head) is not None and (_KEY.search(head) is not None or b'"init_time"' in head)


def read(stream: BinaryIO, source: str = FORMAT, clock: str = "") -> Profile:
    """The profile in a file. `source` names it in messages. clock: the unit of its times, one of TIME_UNITS; empty:
    derived from the file. Raises UnreadableInput if it is empty."""
    # Compiled code is imported only when a file is read.
    from .profile import build_profile

    text = stream.read(MAX_BYTES)
    if stream.read(1):
        raise UnreadableInput(f"{source} is too large for a perf.json of mllm. Record a shorter run.")
    return build_profile(text, source, getattr(stream, "defect", None), clock)
