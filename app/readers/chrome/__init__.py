"""Reader of traces in the JSON of Chrome's trace viewer, whoever wrote them: browsers, Perfetto, build tools, games.

What PyTorch's profiler writes is such JSON too, and has a reader of its own.
"""

from dataclasses import replace
from functools import partial
from typing import BinaryIO

from ...domain.profile import Profile
from ...ingest.trace_json.sniff import looks_like_trace
from .format import FORMAT as FORMAT

sniff = looks_like_trace


def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a trace. `source` names it in messages. Raises UnreadableInput where no event is in it."""
    from ...ingest import v8_profile
    from ...ingest.trace.assembly import assembled
    from ...ingest.trace.dialects import CHROME
    from ...ingest.trace_json.read import read_events

    # What is compiled is loaded where something is read, and nowhere else.
    from . import py_spy as py_spy_events

    events, dialect = read_events(stream), CHROME
    reasons: tuple[str, ...] = ()
    if py_spy_events.written(events):
        events, dialect = py_spy_events.prepared(events), py_spy_events.PY_SPY
    else:
        events, sampled = v8_profile.of_trace(events)
        reasons = v8_profile.incomplete(sampled)
        if sampled:
            spans = [one.span() for one in sampled if one.time_ns]
            span = (min(begin for begin, _ in spans), max(end for _, end in spans)) if spans else None
            dialect = replace(dialect, more=partial(v8_profile.add, sampled), span=span)
    profile = assembled(events, source, getattr(stream, "defect", None), dialect)
    if not reasons:
        return profile
    return replace(profile, meta=replace(profile.meta, complete=False, reasons=(*profile.meta.reasons, *reasons)))
