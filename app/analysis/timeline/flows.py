"""Arrows of a timeline: from launches to the launched work, and the flows in the file."""

from typing import Any

import numpy as np

from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID, FlowKind, get_column
from ..core.sample_selection import select_threads

MAX_FLOWS = 400
LAUNCH = "launch"


def list_flows(profile: Profile, selection: Selection, start_ns: int, end_ns: int) -> dict[str, Any]:
    """`{"count", "flows"}` of the flows with an end that begins in a window; no flows if there are more than
    `MAX_FLOWS`.

    A flow: `kind`, and of both ends `[track, depth, from ns, until ns]`.
    """
    slices, work, known = profile.slices, profile.device_work, profile.flows
    launch = get_column(work, "launch")
    launched = launch != NO_ID
    source = np.concatenate((launch[launched], get_column(known, "source")))
    target = np.concatenate((get_column(work, "slice")[launched], get_column(known, "target")))
    kind = np.concatenate((np.full(int(launched.sum()), NO_ID, np.int8), get_column(known, "kind")))
    start, thread = get_column(slices, "start_ns"), get_column(slices, "thread")
    inside = np.zeros(len(source), bool)
    for end in (source, target):
        inside |= (start[end] >= start_ns) & (start[end] < end_ns)
    threads = select_threads(profile, selection)
    if threads is not None:
        inside &= threads[thread[source]] & threads[thread[target]]
    rows = np.flatnonzero(inside)
    if len(rows) > MAX_FLOWS:
        return {"count": len(rows), "flows": None}
    duration, depth = get_column(slices, "duration_ns"), get_column(slices, "depth")

    def place(row: int) -> list[Any]:
        begin = int(start[row])
        return [f"t{int(thread[row])}", int(depth[row]), begin, begin + int(duration[row])]

    return {
        "count": len(rows),
        "flows": [
            {
                "kind": LAUNCH if kind[n] == NO_ID else FlowKind(kind[n]).name.lower(),
                "source": place(int(source[n])),
                "target": place(int(target[n])),
            }
            for n in rows.tolist()
        ],
    }
