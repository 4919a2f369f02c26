"""How many samples a weight consists of: a difference of few samples is not significant."""

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID
from ...domain.timed_events import IN_ORDER
from .memo import memoize
from .sample_rollup import count_calls, sum_call_weights
from .sample_selection import samples_of
from .sample_spans import SampleSpan, spans_of

MIN_COMPARED_SAMPLES = 30
"""With fewer samples on both sides, a difference is not reported (see docs/reference/definitions.md)."""
SAMPLES_EVENT = "samples"
"""The event of formats that record call stacks with their number of samples."""


def count_call_samples(profile: Profile, selection: Selection, event: int) -> Array | None:
    """How many of the selected samples of an event were taken on each node of `calls` themselves (int64); None where
    its weights are measured or counted instead of sampled, or if the number is unknown."""
    if event == NO_ID or spans_of(profile)[event] is SampleSpan.AFTER:
        return None
    about = profile.events.slice(event, 1).to_pylist()[0]
    if _has_single_samples(profile):
        if about["unit"] == "bytes":
            return None
        return count_calls(profile, selection, event)
    # Without times, a row is the sum for a call stack.
    if about["sampling"] == "period" and about["rate"]:
        # At least one sample was taken, so zero is not possible.
        taken: Array = np.ceil(np.abs(sum_call_weights(profile, selection, event)) / about["rate"]).astype(np.int64)
        return taken
    if about["name"] == SAMPLES_EVENT:
        return abs(sum_call_weights(profile, selection, event))
    return None


def weight_spread(profile: Profile, event: int) -> float:
    """The mean square of the weights of an event's samples divided by the square of their mean: 1 for equal weights. By
    this factor the variance of a sum of samples is larger than that of as many equal ones."""
    if event == NO_ID or not _has_single_samples(profile):
        return 1.0

    def build() -> float:
        samples = samples_of(profile)
        weight = np.abs(samples.weight[samples.event == event]).astype(np.float64)
        mean = float(weight.mean()) if len(weight) else 0.0
        return float((weight**2).mean()) / mean**2 if mean else 1.0

    return memoize(profile, ("spread of weights", event), build, pin=True)


def _has_single_samples(profile: Profile) -> bool:
    """Whether a row of `samples` is one sample. Without times, it is the sum for a call stack."""
    return profile.meta.clock == IN_ORDER or profile.meta.duration_ns is not None
