"""The facts of a target that a job's plan needs; found now if it was never checked."""

import logging
import time
from dataclasses import replace

from perfloom.domain.errors import Unavailable, Unreachable
from perfloom.domain.targets import TargetFacts
from perfloom.recording.probe.check_report import check_lines
from perfloom.recording.probe.probe import best_clock_reading
from perfloom.store.targets import StoredTarget

from ..base.context import JobContext
from ..transports import Transport
from .checks import probe, read_clocks

CLOCK_MAX_AGE_S = 3600.0
"""How long the offset of a clock is valid: clocks drift."""

log = logging.getLogger(__name__)


def get_target_facts(context: JobContext, stored_target: StoredTarget, transport: Transport) -> TargetFacts | None:
    """The facts of a target; null if it cannot be probed. Raises Unreachable. The facts of a target that was never
    checked are stored, as by a check.
    """
    if stored_target.target.ssh is None:
        host = context.facts()
        return (
            replace(stored_target.facts, host=host)
            if stored_target.facts and stored_target.target.is_local
            else stored_target.facts or TargetFacts(host)
        )
    if stored_target.facts is not None:
        fresh = stored_target.checked is not None and time.time() - stored_target.checked < CLOCK_MAX_AGE_S
        if fresh:
            return stored_target.facts
        look = best_clock_reading(read_clocks(transport))
        return replace(stored_target.facts, clock_ns=look.offset_ns if look else None)
    try:
        facts = probe(transport, stored_target.target)
    except Unreachable:
        raise
    except Unavailable as error:
        log.warning("target %s: %s", stored_target.name, error.message)
        return None
    context.store.targets.save_check(stored_target.name, facts, check_lines(stored_target.target, facts))
    return facts
