"""The facts of a target that a job's plan needs; found now if it was never checked."""

import logging
import time
from dataclasses import replace

from perfloom.domain.errors import Unavailable, Unreachable
from perfloom.domain.targets import TargetFacts
from perfloom.recording.probe.check_report import check_lines
from perfloom.recording.probe.probe import best_clock_reading
from perfloom.store.targets import StoredTarget

from ..context import JobContext
from ..transports import Transport
from .checks import probe, read_clocks

CLOCK_MAX_AGE_S = 3600.0
"""How long the offset of a clock is valid: clocks drift."""

log = logging.getLogger(__name__)


def get_target_facts(context: JobContext, known: StoredTarget, transport: Transport) -> TargetFacts | None:
    """The facts of a target; null if it cannot be probed. Raises Unreachable. The facts of a target that was never
    checked are stored, as by a check.
    """
    if known.target.ssh is None:
        own = context.facts()
        return (
            replace(known.facts, host=own) if known.facts and known.target.is_local else known.facts or TargetFacts(own)
        )
    if known.facts is not None:
        fresh = known.checked is not None and time.time() - known.checked < CLOCK_MAX_AGE_S
        if fresh:
            return known.facts
        look = best_clock_reading(read_clocks(transport))
        return replace(known.facts, clock_ns=look.offset_ns if look else None)
    try:
        facts = probe(transport, known.target)
    except Unreachable:
        raise
    except Unavailable as error:
        log.warning("target %s: %s", known.name, error.message)
        return None
    context.store.targets.save_check(known.name, facts, check_lines(known.target, facts))
    return facts
