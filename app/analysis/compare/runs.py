"""The weights of functions in each run of two groups of recordings, for `evidence`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from ...domain.arrays import Array
from ...domain.errors import InvalidRequest
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import get_column, get_strings
from ...domain.text import shorten
from ..core.functions import functions_of
from ..core.measurements import find_share_only_events
from ..core.memo import memoize
from ..core.sample_counts import count_call_samples
from ..core.sample_rollup import roll_up_filtered_samples
from ..core.sample_selection import clip_weights, event_id, event_names, filter_samples, samples_of, sum_by_index
from ..stacks.hotspots import function_weights
from .evidence import RunValues
from .history import find_levels
from .matching import pair_events

MIN_EARLIER = 5
"""With fewer earlier runs, the noise between runs is unknown."""
MIN_EARLIER_SHARE = 1e-4
"""Functions with less of the whole are too small to be tested."""
MAX_RUNS = 200
"""Runs of one side; more would not make the result more certain."""
FunctionKey = tuple[str, str]
"""(display name, module) of a function."""


@dataclass(frozen=True, eq=False)
class RunGroups:
    """Both sides: the totals of all functions, then their self values. functions: those with weight in any run.
    only_shares: the samples of a recording give no total. earlier: groups of earlier runs, see `add_earlier_runs`.
    """

    event: str
    unit: str
    functions: list[FunctionKey]
    base: RunValues
    other: RunValues
    only_shares: bool
    earlier: tuple[RunValues, ...] = ()


@dataclass(frozen=True, eq=False)
class _Run:
    """A run: functions with their own and total weights and samples (NaN: not sampled), and the whole."""

    functions: list[FunctionKey]
    values: Array
    whole: float
    whole_samples: float
    spread: float


def collect_runs(
    base: Sequence[Profile], other: Sequence[Profile], base_selection: Selection, other_selection: Selection
) -> RunGroups:
    """The runs of two groups of recordings: of a recording with several runs, each of them.

    The event is the selected one, else the main event that all recordings have. Raises InvalidRequest if there is none,
    if a side has no run or more than `MAX_RUNS`, or if a run has no weight in the selection.
    """
    name = find_event(base, other, base_selection, other_selection)
    sides = [
        [run for profile in side for run in _read_runs(profile, selection, event_id(profile, name))]
        for side, selection in ((base, base_selection), (other, other_selection))
    ]
    for side, found in zip(("base", "other"), sides, strict=True):
        if len(found) > MAX_RUNS:
            raise InvalidRequest(f"The {side} has {len(found)} runs. Compare at most {MAX_RUNS} on each side.")
        empty = [number for number, run in enumerate(found, 1) if run.whole <= 0]
        if not found or empty:
            which = f"run {empty[0]} of the {side}" if empty else f"the {side}"
            raise InvalidRequest(
                f"Nothing of {name} is selected in {which}, so there is nothing to compare. Leave out that run, or "
                "select a part that every run has."
            )
    units = {get_strings(profile.events, "unit")[event_id(profile, name)] for profile in (*base, *other)}
    if len(units) > 1:
        raise InvalidRequest(
            f"{shorten(name)} has different units in these recordings: {', '.join(sorted(units))}. They cannot be "
            "compared.",
            "event",
        )
    if any((run.values[:2] < 0).any() for side in sides for run in side):
        raise InvalidRequest(
            f"{shorten(name)} has negative weights, whose ratios mean nothing. Compare two recordings without "
            "verdicts, or their table memory.",
            "event",
        )
    index: dict[FunctionKey, int] = {}
    for run in (run for side in sides for run in side):
        for function in run.functions:
            index.setdefault(function, len(index))
    first = other[0]
    only_shares = any(event_id(profile, name) in find_share_only_events(profile) for profile in (*base, *other))
    unit = get_strings(first.events, "unit")[event_id(first, name)]
    groups = [_build_group(side, index) for side in sides]
    return RunGroups(name, unit, list(index), groups[0], groups[1], only_shares)


@dataclass(frozen=True, eq=False)
class EarlierRuns:
    """The runs of an earlier recording, none without the event or the selected part. sampling: of the event."""

    sampling: tuple[object, ...]
    runs: tuple[_Run, ...]


def read_earlier_runs(profile: Profile, selection: Selection, event: str) -> EarlierRuns:
    """The runs of a recording, of each the functions with at least `MIN_EARLIER_SHARE` of the whole."""
    if event not in event_names(profile):
        return EarlierRuns((), ())
    try:
        runs = _sum_runs(profile, selection, event_id(profile, event))
    except InvalidRequest:
        # The selection does not exist there, such as a thread.
        return EarlierRuns((), ())
    positive = [run for run in runs if run.whole > 0 and not (run.values[:2] < 0).any()]
    return EarlierRuns(sampling_of(profile, event), tuple(map(_without_small, positive)))


def _without_small(run: _Run) -> _Run:
    kept = np.flatnonzero(run.values[:2].max(axis=0, initial=0.0) >= MIN_EARLIER_SHARE * run.whole)
    return replace(run, functions=[run.functions[place] for place in kept.tolist()], values=run.values[:, kept])


def add_earlier_runs(groups: RunGroups, recordings: Sequence[EarlierRuns], compared: Profile) -> RunGroups:
    """`groups` with the runs of earlier recordings, the oldest first, divided where their whole changed its level: see
    `history.find_levels`. Recordings that were sampled in another way than `compared` are left out. Without
    `MIN_EARLIER` runs, there are none.
    """
    wanted = sampling_of(compared, groups.event)
    found = [run for recording in recordings if recording.sampling == wanted for run in recording.runs]
    if len(found) < MIN_EARLIER:
        return groups
    index = {function: number for number, function in enumerate(groups.functions)}
    return replace(groups, earlier=divide_at_changes(_build_group(found, index)))


def divide_at_changes(runs: RunValues) -> tuple[RunValues, ...]:
    """Runs in the order of recording, in groups between two changes of their whole."""
    return tuple(
        RunValues(*(getattr(runs, each.name)[..., level.first : level.end] for each in fields(RunValues)))
        for level in find_levels(runs.whole).levels
    )


def sampling_of(profile: Profile, event: str) -> tuple[object, ...]:
    """How an event was sampled: kind and rate."""
    row = profile.events.slice(event_id(profile, event), 1).to_pylist()[0]
    return row["sampling"], row["rate"]


def find_event(
    base: Sequence[Profile], other: Sequence[Profile], base_selection: Selection, other_selection: Selection
) -> str:
    """The event that is compared: the selected one, else the main event of most recordings that all have. Raises
    InvalidRequest if they have none in common."""
    if not base or not other:
        raise InvalidRequest("Name at least one recording for each side.")
    first = other[0]
    events: dict[str, None] = {}
    for before in base:
        pairs = [event_names(first)[after] for _, after in pair_events(before, first, base_selection, other_selection)]
        events = dict.fromkeys(pairs) if before is base[0] else dict.fromkeys(one for one in events if one in pairs)
    for more in other[1:]:
        events = dict.fromkeys(one for one in events if one in event_names(more))
    if not events:
        raise InvalidRequest("The recordings have no event in common. Record all of them with the same event.", "event")
    selected = other_selection.event or base_selection.event
    if selected is not None:
        return event_names(first)[event_id(first, selected)]
    # Independent of which side is which.
    mains = Counter(event_names(profile)[event_id(profile, None)] for profile in (*base, *other))
    return min(events, key=lambda name: (-mains[name], name))


def _read_runs(profile: Profile, selection: Selection, event: int) -> list[_Run]:
    return memoize(profile, ("compared runs", selection, event), lambda: _sum_runs(profile, selection, event))


def _sum_runs(profile: Profile, selection: Selection, event: int) -> list[_Run]:
    rollup = roll_up_filtered_samples(profile, selection, event)
    size = profile.calls.num_rows
    counts = count_call_samples(profile, selection, event)
    of_thread = get_column(profile.threads, "run") if profile.threads.num_rows else np.zeros(1, np.int64)
    if counts is not None:
        rows = filter_samples(profile, selection, event)
        weights = clip_weights(profile, selection, rows).astype(np.float64)
        thread = samples_of(profile).thread[rows]
    found = []
    for run in np.unique(of_thread[rollup.thread]).tolist():
        inside = np.flatnonzero(of_thread[rollup.thread] == run)
        weight = sum_by_index(rollup.call[inside], rollup.weight[inside], size)
        functions, own, total, whole = function_weights(profile, selection, event, calls=weight)
        own_samples = total_samples = np.full(len(own), np.nan)
        whole_samples, spread = np.nan, 1.0
        if counts is not None:
            # Without times, all runs are one.
            alone = len(inside) == len(rollup.thread)
            calls = counts if alone else sum_by_index(rollup.call[inside], rollup.count[inside], size)
            _, own_samples, total_samples, whole_samples = function_weights(profile, selection, event, calls=calls)
            if whole_samples == len(weights) or not alone:
                mine = np.abs(weights[of_thread[thread] == run])
                spread = float((mine**2).mean() / mine.mean() ** 2) if mine.any() else 1.0
        shown = np.flatnonzero((own != 0) | (total != 0))
        known = functions_of(profile)
        keys = zip(known.names_of(functions[shown]), known.modules_of(functions[shown]), strict=True)
        values = np.array([own, total, own_samples, total_samples], np.float64)[:, shown]
        found.append(_Run(list(keys), values, float(whole), float(whole_samples), spread))
    return found


def _build_group(runs: Sequence[_Run], index: dict[FunctionKey, int]) -> RunValues:
    values = np.zeros((4, len(index), len(runs)))
    for number, run in enumerate(runs):
        if np.isnan(run.whole_samples):
            values[2:, :, number] = np.nan
        # Several functions may have one name in one module. Those of earlier runs may be in none that is compared.
        known = [place for place, one in enumerate(run.functions) if one in index]
        rows = np.array([index[run.functions[place]] for place in known], np.int64)
        for measure, of_run in zip(values, run.values[:, known], strict=True):
            np.add.at(measure[:, number], rows, of_run)
    whole = np.array([run.whole for run in runs])
    whole_samples = np.array([run.whole_samples for run in runs])
    spread = np.array([run.spread for run in runs])
    own, total, own_samples, total_samples = values
    return RunValues(np.vstack([total, own]), np.vstack([total_samples, own_samples]), whole, whole_samples, spread)
