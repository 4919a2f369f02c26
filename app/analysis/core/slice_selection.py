"""From a Selection to slices and device work.

A slice is selected, completely, if it **begins** in the window. So it belongs to one window only, and values of
adjacent windows add up. A step is the window of its slice, in each rank; device work belongs to the step that launched
it, independent of when it ran. A thread selects the slices on it and the device work that it launched.
"""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import CATEGORY_KINDS, get_column, get_strings
from .frame_filter import visible_functions
from .memo import memoize
from .sample_selection import event_id, filter_calls, select_threads, sum_by_index, threads_of
from .windows import resolve_step, step_windows


@dataclass(frozen=True, eq=False)
class SliceColumns:
    """The columns of `slices` as arrays, mapped and not copied. kind: an index into CATEGORY_KINDS (int8)."""

    start: Array
    duration: Array
    thread: Array
    function: Array
    parent: Array
    end: Array
    stack: Array
    arguments: Array
    kind: Array

    def __len__(self) -> int:
        return len(self.start)

    def is_kind(self, *words: str) -> Array:
        """Which slices have one of these kinds, as bools."""
        wanted = np.zeros(len(CATEGORY_KINDS), bool)
        wanted[[CATEGORY_KINDS.index(word) for word in words]] = True
        found: Array = wanted[self.kind]
        return found


@dataclass(frozen=True, eq=False)
class DeviceWorkColumns:
    """The table `device_work` with values of its slices. start, duration: ns. thread: the stream's. anchor: the slice
    of the host that it is attributed to: its launch, else its operator, -1 for none."""

    slice: Array
    start: Array
    duration: Array
    thread: Array
    function: Array
    kind: Array
    device: Array
    launch: Array
    operator: Array
    configuration: Array
    anchor: Array

    def __len__(self) -> int:
        return len(self.slice)


def slices_of(profile: Profile) -> SliceColumns:
    """The slices of a profile."""

    def build() -> SliceColumns:
        table = profile.slices
        kinds = np.array([CATEGORY_KINDS.index(kind) for kind in get_strings(profile.categories, "kind")], np.int8)
        columns = {
            name: get_column(table, name)
            for name in ("start_ns", "duration_ns", "thread", "function", "parent", "end", "stack", "arguments")
        }
        category = get_column(table, "category")
        return SliceColumns(
            start=columns.pop("start_ns"),
            duration=columns.pop("duration_ns"),
            kind=kinds[category] if len(category) else np.zeros(0, np.int8),
            **columns,
        )

    return memoize(profile, "slices", build, pin=True)


def device_work_of(profile: Profile) -> DeviceWorkColumns:
    """The device work of a profile."""

    def build() -> DeviceWorkColumns:
        table, slices = profile.device_work, slices_of(profile)
        row, launch, operator = (get_column(table, name) for name in ("slice", "launch", "operator"))
        return DeviceWorkColumns(
            slice=row,
            start=slices.start[row],
            duration=slices.duration[row],
            thread=slices.thread[row],
            function=slices.function[row],
            kind=get_column(table, "kind"),
            device=get_column(table, "device"),
            launch=launch,
            operator=operator,
            configuration=get_column(table, "configuration"),
            anchor=np.where(launch >= 0, launch, operator),
        )

    return memoize(profile, "work", build, pin=True)


def has_operators(profile: Profile) -> bool:
    """Whether there are operators or annotations."""
    return not {"operator", "annotation"}.isdisjoint(profile.categories.column("kind").to_pylist())


def has_clock(profile: Profile) -> bool:
    """Whether slices have their real times. False if all of them are launches measured by Nsight Compute, which
    measures only durations: the gaps between them have no meaning."""
    column = get_column(profile.profiled_kernels, "work")
    return bool(profile.slices.num_rows > int((column >= 0).sum()))


def has_times(profile: Profile) -> bool:
    """Whether anything has a time. Profiles that are summed by call stack have none: all samples are at 0."""
    if profile.meta.duration_ns is not None or not profile.samples.num_rows:
        return True
    return bool(profile.samples.column("time_ns")[-1].as_py())


def select_slices(profile: Profile, selection: Selection) -> Array | None:
    """Which slices are selected, as bools by row; None for all of them.

    focus and ignore apply to the complete call stack of a slice, hide and show to its name, show_from keeps what is
    in a slice that matches. Raises InvalidRequest.
    """
    _check_event(profile, selection)
    selection = selection.replace(event=None, invert=False, recursion=False)

    def build() -> Array | None:
        slices = slices_of(profile)
        mask = _intersect_masks(
            _mask_time(selection, slices.start),
            _on_threads(profile, selection, slices.thread),
            _mask_patterns(profile, selection, slices.stack, slices.function),
        )
        return _intersect_masks(mask, _mask_steps(profile, selection, slices.start, slices.thread))

    return None if selection == Selection() else memoize(profile, ("slices selected", selection), build)


def select_device_work(profile: Profile, selection: Selection) -> Array | None:
    """Which device work is selected, as bools by row of `device_work`; None for all. Raises InvalidRequest."""
    _check_event(profile, selection)
    selection = selection.replace(event=None, invert=False, recursion=False)
    if selection == Selection():
        return None
    return memoize(profile, ("work selected", selection), lambda: _select_work(profile, selection))


def _select_work(profile: Profile, selection: Selection) -> Array | None:
    slices, work = slices_of(profile), device_work_of(profile)
    launched = work.anchor >= 0
    # Checked only if there is one.
    from_thread = np.where(launched, slices.thread[work.anchor], work.thread) if len(slices) else work.thread
    on_stream = _on_threads(profile, selection, work.thread)
    if on_stream is not None and selection.divides_ranks:
        on_stream = on_stream | _on_threads(profile, selection, from_thread)
    began = np.where(launched, slices.start[work.anchor], work.start) if len(slices) else work.start
    return _intersect_masks(
        _mask_time(selection, work.start),
        on_stream,
        _mask_patterns(profile, selection, slices.stack[work.slice], work.function),
        _mask_steps(profile, selection, began, from_thread),
    )


def select_anchored_work(profile: Profile, selection: Selection) -> Array | None:
    """Which device work is attributed to selected slices, as bools; None for all of it.

    Device work without such a slice is selected as by `select_device_work`.
    """
    mask = select_slices(profile, selection)
    if mask is None:
        return None
    work = device_work_of(profile)
    alone = select_device_work(profile, selection)
    return np.where(work.anchor >= 0, mask[work.anchor], True if alone is None else alone)


def device_time_prefix_sums(profile: Profile) -> Array:
    """Prefix sums of the device time (ns) attributed to rows of `slices`: int64, one more than rows.

    The device time of a slice and its descendants is `before[end] - before[row]`.
    """

    def build() -> Array:
        work = device_work_of(profile)
        hung = np.flatnonzero(work.anchor >= 0)
        return prefix_sums(work.anchor[hung], work.duration[hung], len(slices_of(profile)))

    return memoize(profile, "device before", build)


def prefix_sums(rows: Array, values: Array | None, size: int) -> Array:
    """Prefix sums of integer values (None: 1 each) of these rows over `size` rows: size + 1 entries."""
    found = np.zeros(size + 1, np.int64 if values is not None else np.int32)
    found[1:] = np.bincount(rows, minlength=size) if values is None else sum_by_index(rows, values, size)
    np.cumsum(found, out=found)
    return found


def _check_event(profile: Profile, selection: Selection) -> None:
    """Raises InvalidRequest for an unknown event. A known event does not affect slices."""
    if selection.event is not None:
        event_id(profile, selection.event)


def _mask_time(selection: Selection, start: Array) -> Array | None:
    after = None if selection.start_ns is None else start >= selection.start_ns
    return _intersect_masks(after, None if selection.end_ns is None else start < selection.end_ns)


def _mask_steps(profile: Profile, selection: Selection, start: Array, thread: Array) -> Array | None:
    if selection.step is None:
        return None
    rank = threads_of(profile).rank[thread]
    mask = np.zeros(len(start), bool)
    for of_rank, begin, end in step_windows(profile, resolve_step(profile, selection.step)):
        inside = (start >= begin) & (start < end)
        mask |= inside if of_rank is None else inside & (rank == of_rank)
    return mask


def _on_threads(profile: Profile, selection: Selection, thread: Array) -> Array | None:
    threads = select_threads(profile, selection.replace(step=None))
    return None if threads is None else threads[thread]


def _mask_patterns(profile: Profile, selection: Selection, stack: Array, function: Array) -> Array | None:
    # A slice by itself is not a call stack, so that one without a stack is only dropped by other patterns.
    of_stacks = selection if selection.show_from is not None else selection.replace(hide=None, show=None)
    kept = filter_calls(profile, of_stacks)
    mask = None if kept is None else kept[get_column(profile.stacks, "call")[stack]]
    visible = visible_functions(profile, selection.frame_filter)
    return mask if visible is None else _intersect_masks(mask, visible[function])


def _intersect_masks(*masks: Array | None) -> Array | None:
    """The intersection of these masks; None selects all."""
    found: Array | None = None
    for mask in masks:
        if mask is not None:
            found = mask if found is None else found & mask
    return found
