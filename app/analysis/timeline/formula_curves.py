"""Curves of formulas over time: the formula of the sums of its events in each part of the total time."""

import numpy as np

from ...domain.profile import Profile
from ...domain.selection import Selection
from ..core.memo import memoize
from ..core.sample_selection import select_threads
from ..core.sample_spans import SampleSpan
from ..formulas.measures import display_unit, evaluate_weights, list_sampled_formulas
from ..formulas.resolution import ResolvedFormula
from .model import Timeline
from .track import TimeExtent
from .usage import MinimapSeries, compute_usage, scale_of

MAX_CURVES = 16
"""Maximum number of formulas with a curve."""


def list_curve_formulas(profile: Profile) -> tuple[ResolvedFormula, ...]:
    """The formulas that have a curve."""
    return () if profile.slices.num_rows else list_sampled_formulas(profile)[:MAX_CURVES]


def compute_formula_curve(
    profile: Profile, timeline: Timeline, selection: Selection, formula: ResolvedFormula, extent: TimeExtent
) -> MinimapSeries:
    """The values of a formula by the threads of a selection, over the total time, NaN where it has none. The parts are
    as long as the longest ones of its events."""
    shown = selection.only_places()

    def build() -> MinimapSeries:
        chosen = select_threads(profile, shown)
        rows = np.arange(timeline.threads) if chosen is None else np.flatnonzero(chosen)

        def use(event: int, bin_ns: int) -> MinimapSeries:
            events = np.full(len(rows), event)
            return compute_usage(timeline, events, rows, extent.first_ns, extent.last_ns, "", [], bin_ns=bin_ns)

        size = max(use(event, 0).bin_ns for event in formula.parts)
        parts = {event: use(event, size).values for event in formula.parts}
        bins = max(len(values) for values in parts.values())
        sums = {
            # Events with a duration are the time that they cover.
            event: np.pad(values, (0, bins - len(values)))
            * (size if timeline.spans[event] is SampleSpan.AFTER else size / scale_of(timeline.spans[event]))
            for event, values in parts.items()
        }
        return MinimapSeries(evaluate_weights(profile, formula, sums), size, display_unit(formula))

    return memoize(profile, ("timeline formula", formula.formula, formula.steps, shown), build)
