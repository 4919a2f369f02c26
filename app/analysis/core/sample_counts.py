"""How many samples a weight consists of: a difference of few samples is not significant."""

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID
from ...domain.timed_events import IN_ORDER
from .memo import memoize
from .sample_rollup import count_calls, sum_call_weights
from .sample_selection import clip_weights, samples_of, select_samples
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
        return _spread(samples.weight[samples.event == event])

    return memoize(profile, ("spread of weights", event), build, pin=True)


def list_run_spreads(profile: Profile, selection: Selection, event: int, run_of_thread: Array | None) -> list[float]:
    """`weight_spread` of the selected samples, by number of the run; patterns do not apply, because the samples of a
    function have the weights of their thread and time. run_of_thread: the number of the run by row of `threads`, None
    for one run."""
    count = 1 if run_of_thread is None else int(run_of_thread.max(initial=0)) + 1
    if event == NO_ID or not _has_single_samples(profile):
        return [1.0] * count
    rows = select_samples(profile, selection, event)
    weight = clip_weights(profile, selection, rows)
    if run_of_thread is None:
        return [_spread(weight)]
    run = run_of_thread[samples_of(profile).thread[rows]]
    return [_spread(weight[run == number]) for number in range(count)]


def _spread(weight: Array) -> float:
    size = np.abs(weight).astype(np.float64)
    mean = float(size.mean()) if len(size) else 0.0
    return float((size**2).mean()) / mean**2 if mean else 1.0


def _has_single_samples(profile: Profile) -> bool:
    """Whether a row of `samples` is one sample. Without times, it is the sum for a call stack."""
    return profile.meta.clock == IN_ORDER or profile.meta.duration_ns is not None
