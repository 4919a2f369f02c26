"""Reader of perf's output on the scheduler: `perf script` of a `perf sched record`, and `perf sched timehist`.

    perf 30138 [000] 45227.131338: sched:sched_switch: prev_comm=perf prev_pid=30138 prev_prio=120 prev_state=D ==> …

               time    cpu  task name                       wait time  sch delay   run time
                            [tid/pid]                          (msec)     (msec)     (msec)
    --------------- ------  ------------------------------  ---------  ---------  ---------
       45227.131359 [0000]  migration/0[18]                     0.000      0.005      0.021

A text of perf script in which anything else was recorded too is one of samples: see perf_script.py.
"""

import re
from typing import BinaryIO

from ...domain.profile import Profile
from ...ingest.perf_text import script_header
from ...ingest.perf_text.fields import SCHEDULER
from ...ingest.perf_text.losses import SCHED_TEXT_LOSSES
from ...ingest.perf_text.sched_format import FORMAT
from ...ingest.text_lines import iterate_chunks
from ...ingest.trace.losses import TRACE_LOSSES

__all__ = ["FORMAT", "LOSSES", "read", "sniff"]

LOSSES = (*SCHED_TEXT_LOSSES, *TRACE_LOSSES)
TIMEHIST_HEADER = re.compile(rb" *time +cpu +(?:[0-9a-z]+ +)?task name +wait time +sch delay +run time")
_OTHER = re.compile(rb"\d\.\d{6,9}: +(?:\d+ +)?(?!sched:)[^\s:]\S*?:(?:\s|$)", re.MULTILINE)
_SWITCH = re.compile(
    rb"^[^\n\[#]{1,60}\[\d+\][^\n:]{1,40}\.\d{6,9}: +(?:\d+ +)?sched:sched_switch: +"
    rb"(?:prev_comm=|[^\n]{0,40}?:\d+ \[)",
    re.MULTILINE,
)


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` has only scheduler events."""
    if b"\0" in head:
        return False
    if TIMEHIST_HEADER.search(head[:4096]):
        return True
    if _SWITCH.search(head) is None:
        return False
    tracepoint_group = script_header.detect_tracepoint_group(head)
    return tracepoint_group == SCHEDULER if tracepoint_group is not None else _OTHER.search(head) is None


def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a text. `source` names it in messages. Raises UnreadableInput if nothing ran in it."""
    # Compiled code is imported only when a file is read.
    from ...ingest.perf_text.sched_profile import SchedTextParser, build_profile

    sched_text_parser = SchedTextParser()
    for number, text in iterate_chunks(stream):
        sched_text_parser.feed(number, text)
    return build_profile(sched_text_parser, source, getattr(stream, "defect", None))
