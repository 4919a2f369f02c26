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
from ..core.sample_counts import count_call_samples, list_run_spreads
from ..core.sample_rollup import roll_up_filtered_samples, sum_call_weights
from ..core.sample_selection import event_id, event_names, sum_by_index
from ..stacks.hotspots import function_weights
from .evidence import RunValues
from .history import find_levels
from .matching import NOT_FOUND, map_functions, pair_events

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
    """A run: functions (rows of `functions` that represent them) with their own and total weights and samples (NaN:
    not sampled), and the whole."""

    functions: Array
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
    found = [
        [(profile, run) for profile in side for run in _read_runs(profile, selection, event_id(profile, name))]
        for side, selection in ((base, base_selection), (other, other_selection))
    ]
    sides = [[run for _, run in side] for side in found]
    for side, runs in zip(("base", "other"), sides, strict=True):
        if len(runs) > MAX_RUNS:
            raise InvalidRequest(f"The {side} has {len(runs)} runs. Compare at most {MAX_RUNS} on each side.")
        empty = [number for number, run in enumerate(runs, 1) if run.whole <= 0]
        if not runs or empty:
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
    first = other[0]
    numbers = FunctionNumbers(first)
    rows = [[numbers.find(profile, run.functions) for profile, run in side] for side in found]
    only_shares = any(event_id(profile, name) in find_share_only_events(profile) for profile in (*base, *other))
    unit = get_strings(first.events, "unit")[event_id(first, name)]
    groups = [_build_group(*both, len(numbers.keys)) for both in zip(sides, rows, strict=True)]
    return RunGroups(name, unit, numbers.keys, groups[0], groups[1], only_shares)


class FunctionNumbers:
    """Numbers the functions of several recordings. Most are those of the first one, in which they are looked up once
    for each pair of recordings. keys: the functions by number."""

    def __init__(self, first: Profile) -> None:
        self._first = first
        self._of_first = np.full(first.functions.num_rows, -1, np.int64)
        self._others: dict[FunctionKey, int] = {}
        self.keys: list[FunctionKey] = []

    def find(self, profile: Profile, functions: Array) -> Array:
        """The numbers of different functions of a recording."""
        place = map_functions(profile, self._first, functions)
        there = place != NOT_FOUND
        new = place[there][self._of_first[place[there]] < 0]
        self._of_first[new] = np.arange(len(self.keys), len(self.keys) + len(new))
        self.keys += functions_of(self._first).keys_of(new)
        numbers = np.empty(len(functions), np.int64)
        numbers[there] = self._of_first[place[there]]
        for at in np.flatnonzero(~there).tolist():
            (key,) = functions_of(profile).keys_of(functions[at : at + 1])
            if key not in self._others:
                self._others[key] = len(self.keys)
                self.keys.append(key)
            numbers[at] = self._others[key]
        return numbers


@dataclass(frozen=True, eq=False)
class EarlierRuns:
    """The runs of an earlier recording, none without the event or the selected part. sampling: of the event. functions:
    of each run."""

    sampling: tuple[object, ...]
    runs: tuple[_Run, ...]
    functions: tuple[list[FunctionKey], ...] = ()


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
    large, known = tuple(map(_without_small, positive)), functions_of(profile)
    return EarlierRuns(sampling_of(profile, event), large, tuple(known.keys_of(run.functions) for run in large))


def _without_small(run: _Run) -> _Run:
    kept = np.flatnonzero(run.values[:2].max(axis=0, initial=0.0) >= MIN_EARLIER_SHARE * run.whole)
    return replace(run, functions=run.functions[kept], values=run.values[:, kept])


def add_earlier_runs(groups: RunGroups, recordings: Sequence[EarlierRuns], compared: Profile) -> RunGroups:
    """`groups` with the runs of earlier recordings, the oldest first, divided where their whole changed its level: see
    `history.find_levels`. Recordings that were sampled in another way than `compared` are left out. Without
    `MIN_EARLIER` runs, there are none.
    """
    wanted = sampling_of(compared, groups.event)
    alike = [recording for recording in recordings if recording.sampling == wanted]
    found = [run for recording in alike for run in recording.runs]
    if len(found) < MIN_EARLIER:
        return groups
    index = {function: number for number, function in enumerate(groups.functions)}
    # They may have functions that are not compared.
    rows = [
        np.array([index.get(key, NOT_FOUND) for key in functions], np.int64)
        for recording in alike
        for functions in recording.functions
    ]
    return replace(groups, earlier=divide_at_changes(_build_group(found, rows, len(index))))


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
        both = pair_events(before, first, base_selection, other_selection)
        pairs = [event_names(first)[after] for _, after in both]
        if None not in (base_selection.event, other_selection.event):
            _check_same_event(before, both[0][0], pairs[0])
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


def _check_same_event(base: Profile, selected: int, event: str) -> None:
    """Raises InvalidRequest if the event selected of the base is another one than `event`, which is that of the other
    side."""
    if event_id(base, event) != selected:
        name = event_names(base)[selected]
        raise InvalidRequest(
            f"The base selects {shorten(name)}, the other {shorten(event)}. Select one event for both sides.", "event"
        )


def _read_runs(profile: Profile, selection: Selection, event: int) -> list[_Run]:
    return memoize(profile, ("compared runs", selection, event), lambda: _sum_runs(profile, selection, event))


def _sum_runs(profile: Profile, selection: Selection, event: int) -> list[_Run]:
    counts = count_call_samples(profile, selection, event)
    runs = np.unique(get_column(profile.threads, "run"), return_inverse=True)[1] if profile.threads.num_rows else None
    if runs is None or not runs.any():
        spread = 1.0 if counts is None else list_run_spreads(profile, selection, event, None)[0]
        weights = sum_call_weights(profile, selection, event)
        return [_sum_functions(profile, selection, event, weights, counts, spread)] if weights.any() else []
    rollup = roll_up_filtered_samples(profile, selection, event)
    spreads = list_run_spreads(profile, selection, event, runs)
    size = profile.calls.num_rows
    found = []
    for run in np.unique(runs[rollup.thread]).tolist():
        part = rollup.filter(runs[rollup.thread] == run)
        weights = sum_by_index(part.call, part.weight, size)
        # Without times, all runs are one.
        inside = counts if len(part.call) == len(rollup.call) else sum_by_index(part.call, part.count, size)
        of_run = None if counts is None else inside
        found.append(_sum_functions(profile, selection, event, weights, of_run, spreads[run]))
    return found


def _sum_functions(
    profile: Profile, selection: Selection, event: int, weights: Array, counts: Array | None, spread: float
) -> _Run:
    """A run. weights, counts: of its samples by node of `calls`; counts: None if nothing was sampled."""
    functions, own, total, whole = function_weights(profile, selection, event, calls=weights)
    own_samples = total_samples = np.full(len(own), np.nan)
    whole_samples = np.nan
    if counts is None:
        spread = 1.0
    else:
        _, own_samples, total_samples, whole_samples = function_weights(profile, selection, event, calls=counts)
    shown = np.flatnonzero((own != 0) | (total != 0))
    values = np.array([own, total, own_samples, total_samples], np.float64)[:, shown]
    return _Run(functions[shown], values, float(whole), float(whole_samples), spread)


def _build_group(runs: Sequence[_Run], rows: Sequence[Array], count: int) -> RunValues:
    """The values of `count` functions. rows: the numbers of the functions of each run, `NOT_FOUND` for none."""
    values = np.zeros((4, len(runs), count))
    for number, (run, row) in enumerate(zip(runs, rows, strict=True)):
        if np.isnan(run.whole_samples):
            values[2:, number] = np.nan
        known = np.flatnonzero(row != NOT_FOUND)
        values[:, number, row[known]] = run.values[:, known]
    whole = np.array([run.whole for run in runs])
    whole_samples = np.array([run.whole_samples for run in runs])
    spread = np.array([run.spread for run in runs])
    own, total, own_samples, total_samples = values.transpose(0, 2, 1)
    return RunValues(np.vstack([total, own]), np.vstack([total_samples, own_samples]), whole, whole_samples, spread)
