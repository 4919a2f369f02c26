"""What a job's plan is made with: the facts of its target, found now where nobody has checked it yet."""

import logging
import time
from dataclasses import replace

from perfloom.domain.errors import Unavailable, Unreachable
from perfloom.domain.targets import TargetFacts
from perfloom.store.targets import StoredTarget
from perfloom.targets.lines import check_lines
from perfloom.workers.road import Road
from perfloom.workers.target_checks import clock, probe
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
        return known.facts if fresh else replace(known.facts, clock_ns=_clock_ns(there))
    try:
        found = probe(there, known.target)
    except Unreachable:
        raise
    except Unavailable as error:
        log.warning("target %s: %s", known.name, error.message)
        return None
    road.store.targets.note_check(known.name, found, check_lines(known.target, found))
    return found


def _clock_ns(there: Transport) -> int | None:
    """How far the clock there is ahead of ours, by the quickest look at it; null where it tells no nanoseconds."""
    looks = clock(there)
    if not looks:
        return None
    best = min(looks, key=lambda look: look.after_ns - look.before_ns)
    return best.there_ns - (best.before_ns + best.after_ns) // 2
