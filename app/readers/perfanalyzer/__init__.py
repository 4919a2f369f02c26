"""Reader of result sets of PerfAnalyzer: a .results file and the data files that it lists (see `index`, `data_file`).

PerfAnalyzer (https://github.com/ChristopherLemon/PerfAnalyzer) runs a command once for each group of events. Its data
files have call stacks in time slices. `ResultSetReader` reads a whole set; `read` one file alone.
"""

import io
from typing import BinaryIO

from ...domain.builder import ProfileBuilder
from ...domain.errors import UnreadableInput
from ...domain.event_names import get_unit
from ...domain.profile import Meta, Profile
from .data_file import DataFileReader, DataTarget, WeightScale, is_data
from .format import FORMAT, LOSSES, MAX_INDEX_BYTES, NO_COUNTER, TEXT
from .index import is_index, parse_name, read_index
from .result_set import ResultSetReader

__all__ = ["FORMAT", "LOSSES", "ResultSetReader", "is_index", "read", "read_index", "sniff"]
EVENT = "samples"
HEAD_BYTES = 1 << 16


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is a .results file or a data file."""
    return is_index(head) or is_data(head)


def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in one data file, whose samples all count 1: the .results file has the events per sample.

    `source` names the file in messages; the event is the one in this name. Raises UnreadableInput for a .results file
    alone, and if most lines are not of a data file.
    """
    head = stream.read(HEAD_BYTES)
    if is_index(head):
        return ResultSetReader(io.BytesIO(head + stream.read(MAX_INDEX_BYTES)), source).finish()
    file = parse_name(source)
    event = file.event if file else EVENT
    builder = ProfileBuilder(FORMAT)
    target = DataTarget(builder.intern_event(event, get_unit(event, weighted=False), weighted=False), WeightScale())
    builder.add_run()
    found = DataFileReader(builder).add(stream, source, target, head)
    if not found.readable or not found.samples:
        raise UnreadableInput(f"{source} is not {TEXT}: it has no call stacks with a weight. Check its first lines.")
    builder.add_loss(NO_COUNTER, source)
    reasons = [defect] if (defect := getattr(stream, "defect", None)) else []
    if not found.ended:
        reasons.append(f"{source} is truncated: the time at its end is missing. Copy it again.")
    elif not found.complete:
        reasons.append(f"{found.unrecognized:,} of {found.lines:,} lines of {source} cannot be read.")
    meta = Meta(FORMAT, duration_ns=found.end_ns or None, complete=not reasons, reasons=tuple(reasons))
    return builder.finish_with_stack_rows(meta, zero=0)[0]
