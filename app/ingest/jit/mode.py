"""Whether loops are compiled or run as plain Python: chosen before the first module with loops is imported.

Loading compiled loops takes 0.02 s, in which plain Python reads a small file.
"""

import math
import os
import re
import sys
from collections.abc import Sequence

PERF_DATA_MAGIC = (b"PERFILE2", b"2ELIFREP")
"""The first bytes of perf.data, in both byte orders. Here, because this module loads nothing else."""
HEAD_BYTES = 16 << 10
_SCRIPT_TEXT = re.compile(rb"# ========\r?\n# captured on|\S.{0,200}?\s\d+(?:/\d+)?\s+(?:\[\d+\]\s+)?\d+\.\d{6,9}:\s")
"""What text of perf script begins with: its heading or a sample, unless the name of its task is indented."""
PLAIN_TEXT_BYTES = 10_000
"""Text up to this size (bytes, decompressed) is read in plain Python before compiled loops are loaded, which takes
0.02 s: 0.5 MB/s, measured with llama.cpp traces of 0.06 to 0.3 MB."""
PLAIN_JSON_BYTES = 50_000
"""The same for JSON of trace events: 1.5 to 3 MB/s, measured with PyTorch traces of 0.05 to 2 MB."""
PLAIN_LINES_BYTES = 5_000
"""The same for lines of text where a loop checks each byte: 0.3 MB/s, measured with callgrind files."""
PLAIN_PROTOBUF_BYTES = 4_000
"""The same for protocol buffers, where a loop reads each byte."""
AHEAD_BYTES = 1_500_000
"""For files above this estimate, loops are loaded before the file is opened. A small file would wait for that."""
COLD_FACTOR = 500
"""The factor for files read in plain Python while no loops are compiled yet, which takes 40 s."""
COMPRESSED_SUFFIXES = (".gz", ".xz", ".zst")
COMPRESSION_RATIO = 20
"""How much larger a compressed trace usually is at most."""
_is_plain = False


def is_plain() -> bool:
    """Whether loops run as plain Python in this process."""
    return _is_plain


def use_plain_loops() -> None:
    """Run loops as plain Python in this process, if none is loaded yet."""
    global _is_plain
    _is_plain = not has_loops()


def has_loops() -> bool:
    """Whether modules with loops are loaded, compiled or plain."""
    return f"{__package__}.decorators" in sys.modules


def may_need_loops(paths: Sequence[str]) -> bool:
    """Whether files may be read with compiled loops, which take longer to load than the records of most perf.data."""
    return estimate_decompressed_bytes(paths) > AHEAD_BYTES and not all(map(_is_from_perf, paths))


def _is_from_perf(path: str) -> bool:
    """Whether a file is perf.data, or text of perf script without events of the scheduler."""
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return False
    return head.startswith(PERF_DATA_MAGIC) or (_SCRIPT_TEXT.match(head) is not None and b"sched:" not in head)


def estimate_decompressed_bytes(paths: Sequence[str]) -> float:
    """About how many bytes files have when decompressed; infinite if one is no file, or there is none."""
    if not paths or not all(os.path.isfile(path) for path in paths):
        return math.inf
    return sum(
        os.path.getsize(path) * (COMPRESSION_RATIO if path.endswith(COMPRESSED_SUFFIXES) else 1) for path in paths
    )
