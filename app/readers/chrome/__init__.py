"""Reader of traces in the JSON of Chrome's trace viewer, by any writer: browsers, Perfetto, build tools, games.

PyTorch's profiler writes such JSON too, which has its own reader.
"""

from dataclasses import replace
from functools import partial
from typing import BinaryIO

from ...domain.profile import Profile
from ...ingest.trace_json.sniff import is_trace_json
from .format import FORMAT, LOSSES

__all__ = ["FORMAT", "LOSSES", "read", "sniff"]

sniff = is_trace_json


def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a trace. `source` names it in messages. Raises UnreadableInput if it has no events."""
    from ...ingest import v8_profile
    from ...ingest.trace.dialects import CHROME
    from ...ingest.trace.profile import build_profile
    from ...ingest.trace_json.reader import read_events

    # Compiled code is imported only when a file is read.
    from . import py_spy as py_spy_events

    events, dialect = read_events(stream), CHROME
    reasons: tuple[str, ...] = ()
    if py_spy_events.is_py_spy_trace(events):
        events, dialect = py_spy_events.convert_events(events), py_spy_events.PY_SPY
    else:
        events, sampled = v8_profile.extract_profiles(events)
        reasons = v8_profile.find_problems(sampled)
        if sampled:
            spans = [one.span() for one in sampled if one.time_ns]
            span = (min(begin for begin, _ in spans), max(end for _, end in spans)) if spans else None
            dialect = replace(dialect, add_more=partial(v8_profile.add_profiles, sampled), span=span)
    profile = build_profile(events, source, getattr(stream, "defect", None), dialect)
    if not reasons:
        return profile
    return replace(profile, meta=replace(profile.meta, complete=False, reasons=(*profile.meta.reasons, *reasons)))
