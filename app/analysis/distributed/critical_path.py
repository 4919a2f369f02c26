"""The critical path: the chain of work that determined when the recording ended.

It is followed backward from the end: through host work; from a call that waited for a device to the device work; from
device work to what it depended on (`dependencies`): the previous work of the stream, work of another stream, the last
rank to arrive at a collective, or its launch on the host. So the path covers the recording without gaps, and its parts
add up to the duration of the recording.
"""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, Int64Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID, DeviceWorkKind, get_column
from ...domain.units import NS_PER_US
from ..core.functions import functions_of
from ..core.group_by import group_by, select_groups
from ..core.intervals import TIME_LIMIT_NS
from ..core.memo import memoize
from ..core.sample_selection import match_places, threads_of
from ..core.schema import Column, Table, TableRows, build_rows, table_function
from ..core.slice_selection import device_work_of, slices_of
from ..ml.operators import to_us
from ..ml.steps import Steps, rank_column, select_steps, steps_of, window_bounds
from .dependencies import dependencies_of
from .host_timeline import UNKNOWN_TIMELINE, host_timelines
from .replay import replay_saving_ns
from .skew import within_skew

MAX_SAVINGS = 25
BY = ("name", "kind", "step")
HOST_KIND, NOTHING_KIND, LAUNCH_KIND, GAP_KIND = 5, 6, 7, 8
KINDS = (
    *(kind.name.lower() for kind in DeviceWorkKind),
    "host",
    "nothing recorded",
    "launch",
    "device gap",
)
"""Kinds of parts of the path. launch: from the end of a launching call until the device began. device gap: between
device work and dependent work."""
COLUMNS = (
    Column("name", "", "The host function or the device work; with by=step, the step."),
    Column("kind", "", "One of " + ", ".join(KINDS) + "."),
    Column("parts", "", "Number of parts of the path with this name.", "int64"),
    Column("total_us", "µs", "Their time on the path.", "float64"),
    Column("percent", "%", "total_us in percent of the path.", "Float64"),
    Column("mean_us", "µs", "total_us ÷ parts.", "float64"),
    Column(
        "saves_us",
        "µs",
        "How much sooner the recording would end if these parts took no time and nothing else changed; computed for "
        f"the first {MAX_SAVINGS} names on the path of a whole recording.",
        "Float64",
    ),
    Column("rank", "", "The rank, if there are several and all parts are on one.", "Int64"),
    Column(
        "uncertain",
        "",
        "Whether the path changes rank there, and mean_us is shorter than the residual clock skew of the ranks; "
        "missing without several ranks, or if the skew is unknown.",
        "boolean",
    ),
)


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """Parts sorted by time, each starting at the end of the previous one; ns. kind: an index into KINDS. function: -1
    if unknown. slice: of device work, else -1. thread: -1 none."""

    start: Array
    end: Array
    kind: Array
    function: Array
    slice: Array
    thread: Array
    rank: Array

    def __len__(self) -> int:
        return len(self.start)


@table_function
def compute_critical_path(profile: Profile, selection: Selection, by: str = "name") -> TableRows:
    """One row for each name and kind on the path; sorted by time, descending. The window, step and ranks clip the
    path."""
    path, step, whole_part = select_path(profile, selection)
    length = (path.end - path.start).astype(np.int64)
    codes = {"name": (path.kind, path.function), "kind": (path.kind,), "step": (step, path.kind)}[by]
    groups = select_groups(group_by(*codes), None)
    firsts = groups.min(np.arange(len(path)))
    total = groups.sum(length)
    names, of_step = functions_of(profile).names_of(np.maximum(path.function[firsts], 0)), steps_of(profile).name
    known = path.function[firsts] >= 0
    kinds = [KINDS[kind] for kind in path.kind[firsts].tolist()]
    labels = {
        "name": [name if here else kind for name, here, kind in zip(names, known.tolist(), kinds, strict=True)],
        "kind": kinds,
        "step": [of_step[row] if row >= 0 else "" for row in step[firsts].tolist()],
    }[by]
    # Without distinguishing steps, a part in two of them counts once.
    parts = groups.count() if by == "step" else groups.sum((np.diff(whole_part, prepend=NO_ID) != 0).astype(np.int64))
    least, most = groups.min(path.rank), groups.max(path.rank)
    beside = groups.any(_mask_rank_changes(path))
    short = within_skew(profile, total, parts)
    whole = by == "name" and selection.replace(event=None) == Selection()
    several = len(np.unique(threads_of(profile).rank)) > 1
    values = {
        "name": labels,
        "kind": kinds,
        "parts": parts,
        "total_us": to_us(total),
        "percent": total * (100 / max(1, int(length.sum()))),
        "mean_us": to_us(total) / np.maximum(1, parts),
        "saves_us": _saves(profile, path, firsts) if whole else [None] * len(firsts),
        "rank": rank_column(np.where((least == most) & several, least, NO_ID)),
        "uncertain": [None if of is None else of and here for of, here in zip(short, beside.tolist(), strict=True)],
    }
    critical_path = build_rows(COLUMNS, values)
    if by == "step":
        return critical_path
    return critical_path.sort("-total_us", "name")


def count_rank_changes(profile: Profile, selection: Selection) -> int:
    """How often the path changes ranks."""
    path, _, _ = select_path(profile, selection)
    return int((path.rank[1:] != path.rank[:-1]).sum())


def _mask_rank_changes(path: CriticalPath) -> Array:
    """Which parts follow or precede a part of another rank."""
    found = np.zeros(len(path), bool)
    changes = np.flatnonzero(path.rank[1:] != path.rank[:-1])
    found[changes] = found[changes + 1] = True
    return found


@dataclass(frozen=True, eq=False)
class Savings:
    """The savings if each of the functions with most of the path took no time, in ns (NO_ID: unknown).

    code: of kind and function, see `_code`.
    """

    code: Array
    ns: Array


def savings_of(profile: Profile) -> Savings:
    """For the SAVING functions with most of the complete path; built once."""

    def build() -> Savings:
        path = select_path(profile, Selection())[0]
        groups = select_groups(group_by(path.kind, path.function), None)
        firsts = groups.min(np.arange(len(path)))
        total = groups.sum((path.end - path.start).astype(np.int64))
        firsts = firsts[np.argsort(-total, kind="stable")[:MAX_SAVINGS]]
        saved = [replay_saving_ns(profile, of) if of >= 0 else None for of in path.function[firsts].tolist()]
        return Savings(_code(path, firsts), np.array([NO_ID if ns is None else ns for ns in saved], np.int64))

    return memoize(profile, "savings", build)


def _code(path: CriticalPath, parts: Array) -> Array:
    """A number for the kind and function of each of these parts."""
    found: Int64Array = path.function[parts].astype(np.int64) * len(KINDS) + path.kind[parts]
    return found


def _saves(profile: Profile, path: CriticalPath, firsts: Array) -> list[float | None]:
    """The savings of the function of each of these parts, in µs; missing if not computed."""
    savings = savings_of(profile)
    known = {
        code: ns / NS_PER_US for code, ns in zip(savings.code.tolist(), savings.ns.tolist(), strict=True) if ns >= 0
    }
    return [known.get(code) for code in _code(path, firsts).tolist()]


def select_path(profile: Profile, selection: Selection) -> tuple[CriticalPath, Array, Array]:
    """(the selected, clipped parts; the row of `steps_of` of each (-1 none), where parts are split at the ends of
    steps; the index of the original part)."""
    return memoize(profile, ("critical path of", selection.replace(event=None)), lambda: _select(profile, selection))


def _select(profile: Profile, selection: Selection) -> tuple[CriticalPath, Array, Array]:
    path = path_of(profile)
    steps = steps_of(profile)
    cuts = np.unique(np.concatenate((steps.host_start_ns, steps.host_end_ns)))
    low, high = window_bounds(selection)
    cuts = np.unique(np.append(cuts, [low, high]))
    first = np.searchsorted(cuts, path.start, "right")
    pieces = np.maximum(np.searchsorted(cuts, path.end, "left") - first, 0) + 1
    part = np.repeat(np.arange(len(path)), pieces)
    nth = np.arange(len(part)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    place = first[part] + nth
    start = np.where(nth == 0, path.start[part], cuts[np.minimum(place - 1, len(cuts) - 1)])
    end = np.where(nth == pieces[part] - 1, path.end[part], cuts[np.minimum(place, len(cuts) - 1)])
    keep = (start >= low) & (end <= high)
    keep &= match_places(profile, selection, path.rank[part])
    step = _step_of(steps, start, path.rank[part])
    if selection.step is not None:
        keep &= np.isin(step, select_steps(profile, selection))
    part, step = part[keep], step[keep]
    critical_path = CriticalPath(start[keep], end[keep], *(getattr(path, name)[part] for name in _REST))
    return critical_path, step, part


def _step_of(steps: Steps, start: Array, rank: Array) -> Array:
    """The row of the step at each of these times, the last one if several of a rank overlap; -1 none."""
    found = np.full(len(start), NO_ID)
    for one in np.unique(steps.rank).tolist():
        rows = np.flatnonzero(steps.rank == one)
        begins, ends = steps.host_start_ns[rows], steps.host_end_ns[rows]
        cuts = np.unique(np.concatenate((begins, ends)))
        inside = np.full(len(cuts) + 1, NO_ID)
        for row, first, last in zip(rows, *np.searchsorted(cuts, (begins, ends), "left") + 1, strict=True):
            inside[first:last] = row
        mine = rank == one
        found[mine] = inside[np.searchsorted(cuts, start[mine], "right")]
    return found


_REST = ("kind", "function", "slice", "thread", "rank")


def path_of(profile: Profile) -> CriticalPath:
    """The critical path of the whole recording; built once."""
    return memoize(profile, "critical path", lambda: _BackwardTraversal(profile).path())


class _BackwardTraversal:
    """A traversal backward in time. host, device, gaps: the parts on the path."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.waiting = dependencies_of(profile)
        self.lines = host_timelines(profile)
        head = ~self.waiting.after_previous
        self.head_of = np.maximum.accumulate(np.where(head, np.arange(len(head)), 0))
        self.host: list[tuple[int, int, int]] = []
        self.device: list[tuple[int, int, int]] = []
        self.gaps: list[tuple[int, int, int, int]] = []

    def path(self) -> CriticalPath:
        """The whole path."""
        span = self._span()
        if span is None:
            empty = np.zeros(0, np.int64)
            return CriticalPath(*[empty] * 7)
        begin, at, rank, work = span
        if work >= 0:
            rank, at = self._on_device(work, at)
        while at > begin:
            rank, at = self._on_host(rank, at, begin)
        return self._parts(begin)

    def _span(self) -> tuple[int, int, int, int] | None:
        """(beginning, end, rank, the device work that ended last or -1)."""
        last = []
        begin = []
        for rank, line in self.lines.items():
            rows = np.flatnonzero(line.call >= 0)
            if len(rows):
                begin.append(int(line.start[rows[0]]))
                last.append((int(line.end[rows[-1]]), rank, NO_ID))
        waiting = self.waiting
        if len(waiting.end):
            row = int(np.argmax(waiting.end))
            begin.append(int(waiting.start.min()))
            last.append((int(waiting.end[row]), int(waiting.rank[row]), row))
        if not last:
            return None
        end, rank, work = max(last)
        return min(begin), end, rank, work

    def _on_host(self, rank: int, at: int, begin: int) -> tuple[int, int]:
        """Go back on the host until a call that waited, and on until the host is reached again: (rank, time)."""
        calls = self.waiting.calls.get(rank)
        place = int(np.searchsorted(calls.end, at, "right")) - 1 if calls is not None else -1
        work = int(calls.work[place]) if calls is not None and place >= 0 else NO_ID
        if work < 0 or int(self.waiting.end[work]) <= begin:
            self.host.append((rank, begin, at))
            return rank, begin
        over = int(self.waiting.end[work])
        self.host.append((rank, over, at))
        return self._on_device(work, over)

    def _on_device(self, work: int, at: int) -> tuple[int, int]:
        """Go back from the end of device work, `at`, until its launch: (rank, time)."""
        waiting = self.waiting
        while True:
            head = int(self.head_of[work])
            on = int(waiting.waited_for[head])
            begun = int(waiting.start[head])
            if waiting.is_straggler[head] and begun < int(waiting.start[on]) < int(waiting.end[head]):
                # It waited from its start until the last rank arrived.
                begun = int(waiting.start[on])
            self.device.append((head, work, begun))
            at, work = begun, head
            if waiting.is_straggler[head]:
                work = on
                on = int(waiting.waited_for[on]) if not waiting.is_straggler[on] else NO_ID
                if waiting.after_previous[work] and int(waiting.end[work - 1]) < at:
                    on = work - 1
            if on >= 0 and int(waiting.end[on]) <= at and on != work:
                self._gap(int(waiting.end[on]), at, GAP_KIND, work)
                at, work = int(waiting.end[on]), on
                continue
            launched = int(waiting.launch_end[work])
            if -TIME_LIMIT_NS < launched < at:
                self._gap(launched, at, LAUNCH_KIND, work)
                at = launched
            return int(waiting.rank[work]), at

    def _gap(self, start: int, end: int, kind: int, work: int) -> None:
        if end > start:
            self.gaps.append((start, end, kind, work))

    def _parts(self, begin: int) -> CriticalPath:
        columns = [*self._host_parts(), *self._device_parts(), self._gap_parts()]
        start, end, kind, function, row, thread, rank = (
            np.concatenate([part[i] for part in columns]) for i in range(7)
        )
        start = np.maximum(start, begin)
        some = end > start
        order = np.argsort(start[some], kind="stable")
        found = [values[some][order] for values in (start, end, kind, function, row, thread, rank)]
        return CriticalPath(*found)

    def _host_parts(self) -> list[tuple[Array, ...]]:
        function = get_column(self.profile.calls, "function")
        windows = np.array(self.host, np.int64).reshape(-1, 3)
        parts: list[tuple[Array, ...]] = []
        for rank in np.unique(windows[:, 0]).tolist():
            line = self.lines.get(rank, UNKNOWN_TIMELINE)
            _, low, high = windows[windows[:, 0] == rank].T
            _, start, end, row = line.clip(low, high)
            call = line.call[row]
            known = call >= 0
            kind = np.where(known, HOST_KIND, NOTHING_KIND)
            none = np.full(len(row), NO_ID)
            of = np.where(known, function[call], NO_ID)
            parts.append((start, end, kind, of, none, line.thread[row], np.full(len(row), rank)))
        return parts

    def _device_parts(self) -> list[tuple[Array, ...]]:
        """The device work on the path, and the gaps."""
        waiting, work = self.waiting, device_work_of(self.profile)
        runs = np.array(self.device, np.int64).reshape(-1, 3)
        head, last, begun = runs.T
        counts = last - head + 1
        run = np.repeat(np.arange(len(runs)), counts)
        row = np.arange(len(run)) - np.repeat(np.cumsum(counts) - counts, counts) + head[run]
        start = np.where(row == head[run], begun[run], waiting.start[row])
        function = slices_of(self.profile).function[work.slice[row]]
        rest = (work.slice[row], work.thread[row], waiting.rank[row])
        inner = row < last[run]
        before, after = row[inner], np.minimum(row[inner] + 1, len(work) - 1)
        gap = (
            waiting.end[before],
            waiting.start[after],
            np.full(len(before), GAP_KIND),
            np.full(len(before), NO_ID),
            np.full(len(before), NO_ID),
            work.thread[before],
            waiting.rank[before],
        )
        return [(start, waiting.end[row], work.kind[row].astype(np.int64), function, *rest), gap]

    def _gap_parts(self) -> tuple[Array, ...]:
        work = device_work_of(self.profile)
        gaps = np.array(self.gaps, np.int64).reshape(-1, 4)
        row = gaps[:, 3]
        none = np.full(len(gaps), NO_ID)
        return gaps[:, 0], gaps[:, 1], gaps[:, 2], none, none, work.thread[row], self.waiting.rank[row]


TABLES = (
    Table(
        "critical-path",
        "Critical path",
        COLUMNS,
        compute_critical_path,
        by=BY,
    ),
)
"""The tables of this module."""
