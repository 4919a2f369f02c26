"""Weights of call stacks by event, for formats with stacks and values, but without times."""

from dataclasses import dataclass

import numpy as np

from ..analysis.core.frame_filter import shown_stacks, with_root
from ..analysis.core.group_by import factorize
from ..analysis.core.sample_selection import clip_weights, event_id, filter_samples, samples_of, sum_by_index
from ..analysis.core.trees import nearest_ancestor
from ..domain.arrays import Array
from ..domain.profile import Profile
from ..domain.selection import Selection
from ..domain.tables import NO_ID, get_column


@dataclass(frozen=True, eq=False)
class StackWeights:
    """Pairs of a call stack and a thread, sorted. events: rows of `events`. stack: node of `stacks`. thread:
    row of `threads`. weight: int64, a column for each event. count: how many samples."""

    events: tuple[int, ...]
    stack: Array
    thread: Array
    weight: Array
    count: Array


def select_exported_events(profile: Profile, selection: Selection) -> tuple[int, ...]:
    """The one selected, else all that have samples: rows of `events`. Raises InvalidRequest."""
    if selection.event is not None:
        return (event_id(profile, selection.event),)
    return tuple(np.flatnonzero(samples_of(profile).count_by_event).tolist())


def weigh_stacks(profile: Profile, selection: Selection) -> StackWeights:
    """What a selection leaves, of all events that have samples or of the one selected. Raises InvalidRequest."""
    samples, threads = samples_of(profile), max(1, profile.threads.num_rows)
    events = select_exported_events(profile, selection)
    found = []
    for event in events:
        rows = filter_samples(profile, selection, event)
        key = samples.stack[rows].astype(np.int64) * threads + samples.thread[rows]
        keys, place = factorize(key, profile.stacks.num_rows * threads)
        weight = clip_weights(profile, selection, rows)
        found.append(
            (
                keys,
                sum_by_index(place, weight, len(keys)),
                np.bincount(place, minlength=len(keys)),
            )
        )
    every = np.unique(np.concatenate([keys for keys, _, _ in found] or [np.zeros(0, np.int64)]))
    weight, count = np.zeros((len(every), len(events)), np.int64), np.zeros(len(every), np.int64)
    for column_of, (keys, of_keys, times) in enumerate(found):
        at = np.searchsorted(every, keys)
        weight[at, column_of] = of_keys
        count[at] += times
    stack, thread = np.divmod(every, threads)
    return StackWeights(events, stack, thread, weight, count)


def stack_frames(profile: Profile, selection: Selection) -> tuple[Array, Array]:
    """(of each node of `stacks` the one that represents it, of each node the next one outwards that is shown).

    The callees of frames that are not shown are attached to their callers. The root is 0.
    """
    parent, end = (get_column(profile.stacks, name) for name in ("parent", "end"))
    shown = shown_stacks(profile, selection.frame_filter)
    above = nearest_ancestor(parent, end, np.ones(len(parent), bool) if shown is None else with_root(shown))
    return above, np.where(parent < 0, NO_ID, above[parent])
