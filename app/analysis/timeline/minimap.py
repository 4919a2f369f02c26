"""The strip above the timeline: usage in each part of the total time, in a readable unit."""

from dataclasses import dataclass

import numpy as np

from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import DEVICE_TIME, NO_ID
from ..core.measurements import find_share_only_events
from ..core.memo import memoize
from ..core.sample_selection import event_id, select_threads, threads_of
from .model import Timeline
from .track import TimeExtent
from .tracks import lane_event
from .usage import CPUS_UNIT, UNITS, MinimapSeries, compute_usage, usage_unit, without_idle_task


@dataclass(frozen=True, eq=False)
class Minimap:
    """host: of threads; device: of streams of devices, None without any."""

    host: MinimapSeries
    device: MinimapSeries | None


def build_minimap(profile: Profile, timeline: Timeline, selection: Selection, extent: TimeExtent) -> Minimap:
    """The strips of an event and of some threads.

    For samples: the sum of their weights in each part ÷ its length. For clocks this is the number of CPUs in use,
    without the idle task (swapper); for other events a rate per second: of samples, if their weights give no total. The
    weight of a sample is spread evenly over its span. Events with a duration count as far as they cover the part.
    """
    shown = selection.only_places().replace(event=selection.event)
    whole = extent.first_ns, extent.last_ns

    def build() -> Minimap:
        threads, event = threads_of(profile), lane_event(profile, shown)
        chosen = select_threads(profile, shown)
        rows = np.flatnonzero((event != NO_ID) & (True if chosen is None else chosen))
        streams = np.array([kind == "gpu_stream" for kind in threads.kind], bool)
        host, device = rows[~streams[rows]], rows[streams[rows]]
        main = event[host[0]] if len(host) else event_id(profile, selection.event)
        unit, guessed = usage_unit(profile, timeline, int(main)), sorted(find_share_only_events(profile))
        if unit == CPUS_UNIT:
            host = without_idle_task(profile, host)
        of_device = (
            compute_usage(timeline, event[device], device, *whole, UNITS[DEVICE_TIME], guessed)
            if streams.any()
            else None
        )
        return Minimap(compute_usage(timeline, event[host], host, *whole, unit, guessed), of_device)

    return memoize(profile, ("timeline strips", shown), build)
