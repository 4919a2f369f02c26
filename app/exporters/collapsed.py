"""Collapsed stacks: one line per distinct stack, outermost function first, with its weight.

    swapper;start_kernel;rest_init;cpu_idle;default_idle 12

For recordings of perf, the output equals that of FlameGraph's stackcollapse-perf.pl (revision 57207af) for the text of
perf script, byte for byte except for the order of lines. Its handling of names is only in this file. Names of other
formats are written unchanged.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ..analysis.core.flame_groups import FlameGroup, groups_of
from ..analysis.core.frame_filter import shown_stacks
from ..analysis.core.sample_selection import clip_weights, event_id, filter_samples
from ..analysis.core.trees import nearest_ancestor
from ..domain.arrays import Array, Int64Array
from ..domain.arrow import functions as pc
from ..domain.call_tree import compute_depths, merge_children
from ..domain.event_names import FIRST_EVENT_FACT
from ..domain.profile import Profile
from ..domain.selection import Selection
from ..domain.tables import NO_ID, ROOT, FrameKind, get_column, get_strings
from .errors import no_samples_error

TITLE = "collapsed stacks"
PERF_FORMATS = frozenset({"perf-script", "perf-data"})
OPTIONS: Mapping[str, str] = {
    "pid": "Append the process id to the name of the command.",
    "tid": "Append process and thread id to the name of the command.",
    "kernel": "Mark kernel functions with _[k].",
    "jit": "Mark functions compiled at run time with _[j].",
    "all": "Mark both.",
    "addrs": "Show the address if the function is unknown.",
}
BLOCK_LINES = 20_000
BLOCK_FRAMES = 1 << 20
"""Of paths that are made at a time, if one of them does not have more."""
BLOCK_BYTES = 64 << 20
"""Of texts of frames that are copied at a time."""
MIN_TABLE = 1 << 20
"""Up to this limit, or the number of keys, distinct keys are found in a table with a row for each possible one."""

_LINE = re.compile(r"\s*(\w+)\s*(.+) \((.*)\)", re.ASCII)
_GO_METHOD = re.compile(r"\.\(.*\)\.")
_ARGUMENTS = re.compile(r"\((?!anonymous namespace\)).*")
_KERNEL = re.compile(r"^\[|vmlinux$")
_JIT_MAP = re.compile(r"/tmp/perf-\d+\.map", re.ASCII)
_OFFSET = re.compile(r"\+0x[\da-f]+$")


@dataclass(frozen=True)
class _Switches:
    pid: bool
    tid: bool
    kernel: bool
    jit: bool
    addrs: bool

    @classmethod
    def of(cls, options: Mapping[str, bool]) -> "_Switches":
        on = {name: bool(options.get(name)) for name in OPTIONS}
        return cls(on["pid"], on["tid"], on["kernel"] or on["all"], on["jit"] or on["all"], on["addrs"])


def write(profile: Profile, selection: Selection, options: Mapping[str, bool]) -> Iterator[bytes]:
    """The lines, ordered by their bytes, of one event: the selected one, else `default_event`. Raises InvalidRequest,
    also if there are no lines."""
    switches = _Switches.of(options)
    event = event_id(profile, selection.event or default_event(profile))
    rows = filter_samples(profile, selection, event)
    table = profile.samples
    stack, weight = get_column(table, "stack")[rows], clip_weights(profile, selection, rows)
    perf = profile.meta.format in PERF_FORMATS
    if perf:
        # The tool treats a period of 0 as missing.
        weight = np.where(weight == 0, 1, weight)
    labels, of_row = _labels(profile, rows, switches, perf)
    sums: dict[bytes, int] = {}
    java = np.array([label.startswith("java") for label in labels] or [False], bool)
    for is_java in (False, True):
        chosen = java[of_row] == is_java
        if chosen.any():
            part: Array | slice = slice(None) if chosen.all() else chosen
            naming = (
                partial(_perf_frame_texts, switches=switches, java=is_java) if perf else partial(_frame_texts, switches)
            )
            paths = _Paths(profile, selection, naming)
            _add_up(paths, labels, of_row[part], stack[part], weight[part], selection, sums)
    if not sums:
        raise no_samples_error(profile, selection, TITLE)
    lines = sorted(b"%b %d\n" % (path, total) for path, total in sums.items())
    for start in range(0, len(lines), BLOCK_LINES):
        yield b"".join(lines[start : start + BLOCK_LINES])


def default_event(profile: Profile) -> str | None:
    """The event that is written by default: the result's main event; for text of perf script the first one in
    it, like the tool."""
    return profile.meta.facts.get(FIRST_EVENT_FACT, profile.meta.main_event)


def _labels(profile: Profile, rows: Any, switches: _Switches, perf: bool) -> tuple[list[str], Array]:
    """The distinct prefixes of stacks, and the prefix of each row."""
    thread = get_column(profile.samples, "thread")[rows].astype(np.int64)
    named = profile.thread_names.num_rows > 0
    if not named and not perf and not (switches.pid or switches.tid):
        return [""], np.zeros(len(thread), np.int64)
    groups = groups_of(profile, FlameGroup.COMM)
    comm = groups.for_samples(profile, rows).astype(np.int64)
    keys, of_row = _find_distinct(thread * max(1, len(groups.labels)) + comm)
    pids, tids = (profile.threads.column(name).to_pylist() for name in ("pid", "tid"))
    labels = []
    for key in keys.tolist():
        of_thread, of_comm = divmod(key, max(1, len(groups.labels)))
        labels.append(_label(groups.labels[of_comm] if named else "", pids[of_thread], tids[of_thread], switches))
    return labels, of_row


def _find_distinct(keys: Array) -> tuple[Array, Array]:
    """The distinct ones of keys that are not negative, and which of them each key is."""
    limit = int(keys.max(initial=-1)) + 1
    if limit > max(MIN_TABLE, len(keys)):
        encoded = pc.dictionary_encode(pa.Array.from_buffers(pa.int64(), len(keys), [None, pa.py_buffer(keys)]))
        return encoded.dictionary.to_numpy(), encoded.indices.to_numpy()
    occurs = np.zeros(limit, bool)
    occurs[keys] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[keys]


def _label(comm: str, pid: int | None, tid: int | None, switches: _Switches) -> str:
    # If perf printed one number, it is the thread's; the tool treats thread 0 as missing.
    shown_tid, shown_pid = (tid, pid) if pid is not None and tid else (pid if pid is not None else tid, "?")
    ids = f"-{shown_pid}/{shown_tid}" if switches.tid else f"-{shown_pid}" if switches.pid else ""
    return (comm + ids).replace(" ", "_")


class _Paths:
    """The tree of stacks with the text of each frame as label, equal ones merged."""

    def __init__(self, profile: Profile, selection: Selection, naming: Any) -> None:
        stacks = profile.stacks
        frame, end = get_column(stacks, "frame"), get_column(stacks, "end")
        ids: dict[str, int] = {}
        of_frame = np.array(
            [NO_ID if text is None else ids.setdefault(text, len(ids)) for text in naming(profile)] + [NO_ID], np.int64
        )
        label = of_frame[frame]
        stays = label >= 0
        shown = shown_stacks(profile, selection.frame_filter)
        if shown is not None:
            stays &= shown
        stays[ROOT] = True
        above = nearest_ancestor(get_column(stacks, "parent"), end, stays)
        rows = np.flatnonzero(stays)
        place = np.cumsum(stays) - 1
        parent = place[above[get_column(stacks, "parent")[rows]]]
        parent[0] = NO_ID
        into, self.parent, self.label = merge_children(parent, label[rows])
        self.node = into[place[above]]
        self.depth = compute_depths(self.parent)
        self.texts = list(ids)
        self.sizes = np.array([len(text) for text in ids], np.int64)

    def list_labels(self, nodes: Int64Array, ends: Int64Array) -> Int64Array:
        """The labels on the paths to nodes, one path after another, outermost first. ends: where each path ends."""
        labels = np.zeros(int(ends[-1]) if len(ends) else 0, np.int64)
        node, place = nodes, ends - 1
        # One step towards the root on all paths at once.
        while len(node):
            inside = node != ROOT
            node, place = node[inside], place[inside]
            labels[place] = self.label[node]
            node, place = self.parent[node], place - 1
        return labels


def _add_up(
    paths: _Paths,
    labels: list[str],
    of_row: Array,
    stack: Array,
    weight: Array,
    selection: Selection,
    sums: dict[bytes, int],
) -> None:
    """Add the weight of each path to `sums`."""
    count = len(paths.parent)
    distinct, place = _find_distinct(of_row.astype(np.int64) * count + paths.node[stack])
    totals = np.zeros(len(distinct), np.int64)
    np.add.at(totals, place.astype(np.intp, copy=False), weight)
    label, nodes = np.divmod(distinct, count)
    texts = list(_join_paths(paths, labels, label, nodes, selection))
    if not sums:
        sums.update(zip(texts, totals.tolist(), strict=True))
        if len(sums) == len(texts) and b"" not in sums:
            return
        # Frames with different texts in the profile may have the same text here.
        sums.clear()
    for text, total in zip(texts, totals.tolist(), strict=True):
        if text:
            sums[text] = sums.get(text, 0) + total


def _join_paths(
    paths: _Paths, labels: list[str], label: Int64Array, nodes: Int64Array, selection: Selection
) -> Iterator[bytes]:
    """The text of the path to each node, with its label before it."""
    has_label = np.array([bool(text) for text in labels], bool)[label]
    depth = paths.depth[nodes].astype(np.int64)
    ends = np.cumsum(depth)
    first = 0
    while first < len(nodes):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + BLOCK_FRAMES, "right")))
        block = slice(first, last)
        frames = paths.list_labels(nodes[block], ends[block] - before)
        first = last
        if selection.recursion or paths.sizes[frames].sum() > BLOCK_BYTES:
            heads = [labels[code] for code in label[block].tolist()]
            yield from _join_each(paths.texts, frames, (ends[block] - before).tolist(), heads, selection)
            continue
        order = np.arange(len(frames))
        if selection.invert:
            order = np.repeat(2 * (ends[block] - before) - depth[block] - 1, depth[block]) - order
        # Before each path is place for its label.
        starts = np.cumsum(has_label[block])
        codes = np.empty(len(frames) + int(starts[-1]), np.int64)
        codes[order + np.repeat(starts, depth[block])] = frames
        path_ends = ends[block] - before + starts
        own = has_label[block]
        codes[(path_ends - depth[block] - 1)[own]] = len(paths.texts) + label[block][own]
        yield from _join([*paths.texts, *labels], codes, path_ends)


def _join(texts: list[str], codes: Int64Array, ends: Int64Array) -> list[bytes]:
    """The texts with these codes, of each path with semicolons between them. ends: where each path ends."""
    rows = np.concatenate((np.zeros(1, np.int32), ends.astype(np.int32)))
    chosen = pa.Array.from_buffers(pa.int64(), len(codes), [None, pa.py_buffer(codes)])
    values = pc.take(pa.array(texts, pa.string()), chosen)
    kind = pa.list_(pa.string())
    lists = pa.Array.from_buffers(kind, len(ends), [None, pa.py_buffer(rows)], null_count=0, children=[values])
    joined: list[bytes] = pc.cast(pc.binary_join(lists, ";"), pa.binary()).to_pylist()
    return joined


def _join_each(
    texts: list[str], frames: Int64Array, ends: list[int], labels: list[str], selection: Selection
) -> Iterator[bytes]:
    """Like `_join`, one path at a time: of these frames, outermost first, each with its label."""
    begin = 0
    for end, label in zip(ends, labels, strict=True):
        path = [texts[code] for code in frames[begin:end].tolist()]
        begin = end
        if selection.recursion:
            path = _without_recursion(path)
        if selection.invert:
            path.reverse()
        if label:
            path.insert(0, label)
        yield ";".join(path).encode()


def _without_recursion(path: list[str]) -> list[str]:
    """A path, outermost first, with each name once: frames between two calls of one function are removed."""
    result: list[str] = []
    for name in path:
        if name in result:
            del result[result.index(name) + 1 :]
        else:
            result.append(name)
    return result


def _frame_texts(switches: _Switches, profile: Profile) -> list[str | None]:
    """The text of each frame of a profile that is not from perf: its name, on one line and without semicolons."""
    marks = {int(FrameKind.KERNEL): "_[k]" * switches.kernel, int(FrameKind.JIT): "_[j]" * switches.jit}
    names = [" ".join(name.replace(";", ":").splitlines()) for name in get_strings(profile.functions, "name")]
    written = []
    function, kind = (get_column(profile.frames, name).tolist() for name in ("function", "kind"))
    for of_function, of_kind in zip(function, kind, strict=True):
        mark = marks.get(of_kind, "")
        name = names[of_function]
        written.append(name if name.endswith(mark) else name + mark)
    return list(written)


def _perf_frame_texts(profile: Profile, switches: _Switches, java: bool) -> list[str | None]:
    """The text that stackcollapse-perf.pl writes for each frame of a recording of perf; None if it skips the line."""
    symbols, modules = get_strings(profile.functions, "name"), get_strings(profile.functions, "module")
    known: dict[tuple[int, bool, bool, int | None], str | None] = {}
    frames = profile.frames
    columns = [frames.column(name).to_pylist() for name in ("function", "address", "kind", "inline_depth")]
    pieces = []
    for function, address, kind, depth in zip(*columns, strict=True):
        inlined = kind == FrameKind.INLINED
        inner = inlined and depth > 0 and address is None
        shown = address if switches.addrs and "[unknown]" in symbols[function] else None
        key = (function, inlined, inner, shown)
        if key not in known:
            module = "inlined" if inlined and not inner else modules[function]
            known[key] = _perf_piece(symbols[function], module, address, switches, java, inner)
        pieces.append(known[key])
    return pieces


def _perf_piece(
    symbol: str, module: str, address: int | None, switches: _Switches, java: bool, inner: bool
) -> str | None:
    """A line of a stack, as processed by stackcollapse-perf.pl.

    The line is reconstructed and parsed as there, so that symbols and modules with brackets and blanks are equal.
    inner: the function was after an arrow in its line.
    """
    line = None if address is None else _LINE.match(f"{address:x} {symbol} ({module})")
    raw, module = (line[2], line[3]) if line else (symbol, module)
    raw = _OFFSET.sub("", raw)
    if raw.startswith("(") and not inner:
        return None
    names = raw.split("->")
    while names and not names[-1]:
        names.pop()
    pieces: list[str] = []
    for name in names:
        if name == "[unknown]":
            name = "unknown" if module == "[unknown]" else module.rpartition("/")[2]
            name = f"[{name} <{address or 0:x}>]" if switches.addrs else f"[{name}]"
        name = name.replace(";", ":")
        if not _GO_METHOD.search(name):
            name = _ARGUMENTS.sub("", name, count=1)
        name = name.replace('"', "").replace("'", "")
        if java and "/" in name:
            name = name.removeprefix("L")
        if pieces or inner:
            name += "" if "_[i]" in name else "_[i]"
        elif switches.kernel and _KERNEL.search(module) and "unknown" not in module:
            name += "_[k]"
        elif switches.jit and _JIT_MAP.search(module):
            name += "" if "_[j]" in name else "_[j]"
        pieces.append(name)
    return ";".join(pieces) if pieces else None
