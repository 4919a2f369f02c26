"""What a job's plan is made with: the facts of its target, found now where nobody has checked it yet."""

import logging
import time
from dataclasses import replace

from perfloom.domain.errors import Unavailable, Unreachable
from perfloom.domain.targets import TargetFacts
from perfloom.recording.probe.lines import check_lines
from perfloom.recording.probe.probe import quickest
from perfloom.store.targets import StoredTarget
from perfloom.workers.remote.checks import clock, probe
from perfloom.workers.road import Road
from perfloom.workers.transports import Transport

CLOCK_S = 3600.0
"""What is known of a clock is trusted for so long; clocks drift apart."""

log = logging.getLogger(__name__)


def facts_of(road: Road, known: StoredTarget, there: Transport) -> TargetFacts | None:
    """The facts of a target; null where it cannot be asked. Raises Unreachable.

    What is found of a target that was never checked is kept, as a check does.
    """
    if known.target.ssh is None:
        own = road.facts()
        return replace(known.facts, host=own) if known.facts and known.target.here else known.facts or TargetFacts(own)
    if known.facts is not None:
        fresh = known.checked is not None and time.time() - known.checked < CLOCK_S
        if fresh:
            return known.facts
        look = quickest(clock(there))
        return replace(known.facts, clock_ns=look.ahead_ns if look else None)
    try:
        found = probe(there, known.target)
    except Unreachable:
        raise
    except Unavailable as error:
        log.warning("target %s: %s", known.name, error.message)
        return None
    road.store.targets.note_check(known.name, found, check_lines(known.target, found))
    return found
