"""Calls of collectives: their slices, and their properties from arguments.

On a rank with devices a collective is a kernel of a communication library; without devices, the slice of the call
(gloo:all_reduce). Kind, size and process group are from the arguments of the kernel, else of the annotations and
operators around its launch. docs/metrics.md has the definitions.

Also used while files are read, so it does not need pandas.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...domain.arrow import functions as pc
from ...domain.profile import Profile
from ...domain.tables import NO_ID, DeviceWorkKind
from ..core.facts import json_fact
from ..core.functions import functions_of
from ..core.sample_selection import threads_of
from ..core.slice_selection import SliceColumns, device_work_of, slices_of

CALL_PATTERN = r"^(?:nccl|gloo|mpi|ucc|xccl|hccl|rccl):"
RECORD_EVENT = "record_param_comms"
SEQUENCE_ARGUMENT = "Seq"
"""The argument with the number of a collective in its process group."""
MAX_SLICE_DISTANCE = 64
"""Maximum number of enclosing slices of a launch that are checked."""
BYTES = {
    "double": 8,
    "long": 8,
    "long int": 8,
    "int64": 8,
    "complexfloat": 8,
    "c10::complex<float>": 8,
    "float": 4,
    "int": 4,
    "int32": 4,
    "half": 2,
    "c10::half": 2,
    "bfloat16": 2,
    "c10::bfloat16": 2,
    "short": 2,
    "byte": 1,
    "char": 1,
    "bool": 1,
    "unsigned char": 1,
    "signed char": 1,
}
"""Bytes of an element by type, as named in arguments by PyTorch, in lower case."""
_FLOAT8 = "float8"
_KERNEL = re.compile(r"(?:nccl|rccl|msccl)\w*?(?:Dev)?Kernel_?([A-Za-z]+)|(?:nccl|rccl)([A-Z][A-Za-z]+)Kernel")
_NAMES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "allgatherbase": "all_gather",
    "allgatherintotensor": "all_gather",
    "reducescatter": "reduce_scatter",
    "reducescatterbase": "reduce_scatter",
    "reducescattertensor": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoallv": "all_to_all",
    "alltoallbase": "all_to_all",
    "sendrecv": "send_recv",
}
_UNEVEN = frozenset({"all_to_all", "send_recv", "gather", "scatter"})
"""Ranks can send and receive different amounts in these."""
_ONE_SIDED = frozenset({"send", "recv"})
"""Another rank has the other half of these."""


SYNCHRONIZING_COLLECTIVES = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"})
"""Collectives that no rank can end before all have arrived. In others, a rank can end earlier."""
MAX_MISSING = 4
"""Maximum number of first or last collectives that a rank is assumed to lack."""
MIN_FIT_COLLECTIVES = 10
"""Minimum number of collectives to match them by their intervals."""
FIT_SHARE, FIT_RATIO = 0.75, 2
"""Share of the intervals that must fit this well, and this many times better than any other alignment."""


class MatchBasis(IntEnum):
    """How a collective was matched with those of other ranks; the most reliable first."""

    ALONE = -1
    """No other rank has it."""
    NUMBER = 0
    """By its sequence number."""
    STEP = 1
    """By its position in a step."""
    ORDER = 2
    """By its position in the recording, which has no steps."""
    UNDECIDED = 3
    """Not matched: ranks have different numbers of collectives, and they cannot be distinguished."""


@dataclass(frozen=True, eq=False)
class CollectiveMatches:
    """For each collective a number that is equal for matched ones on other ranks, -1 for unmatched ones; and a
    `MatchBasis`."""

    number: Array
    basis: Array


@dataclass(frozen=True)
class CollectiveKind:
    """The kind of a collective. group: its process group, as named in the file. members: its ranks, ascending, as text;
    empty if unknown. size: number of ranks; 0 if unknown. bytes: the larger of what a rank sends and receives; -1 if
    unknown."""

    name: str
    group: str
    members: str
    size: int
    dtype: str
    bytes: int


@dataclass(frozen=True, eq=False)
class CollectiveCalls:
    """Collectives, sorted by rank and start. slice: its row. launch: the slice of the host that launched it, or the
    slice itself. kind: an index into `kinds`. sequence: its number in its process group, -1 where none was recorded."""

    rank: Array
    slice: Array
    launch: Array
    start: Array
    end: Array
    kind: Array
    sequence: Array
    kinds: tuple[CollectiveKind, ...]

    def __len__(self) -> int:
        return len(self.slice)


def collective_calls_of(profile: Profile) -> CollectiveCalls:
    """All collectives of a profile."""
    slices, work = slices_of(profile), device_work_of(profile)
    rank_of = threads_of(profile).rank
    kernels = work.kind == DeviceWorkKind.COMMUNICATION
    row, launch = work.slice[kernels], work.launch[kernels]
    calls = match_function_names(profile, CALL_PATTERN)
    with_devices = np.unique(rank_of[work.thread])
    host = np.flatnonzero(calls[slices.function] & slices.is_kind("operator", "annotation"))
    host = host[~np.isin(rank_of[slices.thread[host]], with_devices)]
    row, launch = np.concatenate((row, host)), np.concatenate((launch, host))
    rank, start = rank_of[slices.thread[row]], slices.start[row]
    order = np.lexsort((start, rank))
    row, launch, rank, start = row[order], launch[order], rank[order], start[order]
    what, sequence, kinds = _parse_calls(profile, slices, row, launch, calls)
    return CollectiveCalls(rank, row, launch, start, start + slices.duration[row], what, sequence, kinds)


def match_collectives(
    rank: Array, what: Array, kinds: Sequence[CollectiveKind], sequence: Array, step: Array, end: Array
) -> CollectiveMatches:
    """Which collectives of several ranks are the same.

    rank, what (a place in kinds), sequence, end: as in `CollectiveCalls`, in order of time within a rank. step: equal
    numbers in the same step of all ranks, -1 for none.

    Matched collectives have the same sequence number in their process group, if recorded. Else: all ranks of a group
    run the same collectives in the same order within a step, so the nth of a kind in a group matches on all ranks; if
    ranks have different numbers of them, they cannot be matched. Without steps, a rank can lack the first or last ones
    of a recording: then the intervals between ends, which are the same on every clock, determine the first
    (`_lacking`).
    """
    if not len(rank):
        return CollectiveMatches(np.zeros(0, np.int64), np.zeros(0, np.int64))
    names: dict[tuple[Any, ...], int] = {}
    one_sided = np.array([kind.name in _ONE_SIDED for kind in kinds] + [False])
    alike = np.array([names.setdefault(_identity(kind), len(names)) for kind in kinds] + [0])
    group = np.array([names.setdefault((kind.group, kind.members, kind.name), len(names)) for kind in kinds] + [0])
    numbered = sequence >= 0
    family = np.where(numbered, group[what], alike[what])
    # A sequence number identifies a call, independent of its step.
    period = np.where(numbered, sequence, step)
    order = np.lexsort((np.arange(len(rank)), rank, family, period, numbered))
    keys = np.stack((numbered, period, family, rank), 1)[order]
    new = np.append(True, (np.diff(keys, axis=0) != 0).any(axis=1))
    first = np.flatnonzero(new)
    block = np.cumsum(new) - 1
    nth = np.arange(len(rank)) - first[block]
    count = np.diff(np.append(first, len(rank)))
    fresh = np.append(True, (np.diff(keys[first, :3], axis=0) != 0).any(axis=1))
    party = np.cumsum(fresh) - 1
    least, most = (f.reduceat(count, np.flatnonzero(fresh)) for f in (np.minimum, np.maximum))
    several = np.bincount(party) > 1
    sure, lacking = (least == most)[party], np.zeros(len(first), np.int64)
    stepless = len(np.unique(step[~numbered & (step >= 0)])) == 1
    if stepless:
        together = np.array([kind.name in SYNCHRONIZING_COLLECTIVES for kind in kinds] + [False])[what[order[first]]]
        apart = together & several[party] & (keys[first, 0] == 0) & (keys[first, 1] >= 0)
        ends = np.split(end[order].astype(np.int64), first[1:])
        for one in np.unique(party[apart]).tolist():
            _count_missing_calls(np.flatnonzero(party == one), ends, count, sure, lacking)
    comparable = several[party][block] & (keys[:, 1] >= 0) & ~one_sided[what[order]]
    usable = comparable & sure[block]
    # Ends and missing calls are few in comparison.
    number = party[block] * (int(count.max()) + 2 * int(np.abs(lacking).max()) + 1) + nth + lacking[block]
    found = np.full(len(rank), NO_ID)
    _, place, times = np.unique(number[usable], return_inverse=True, return_counts=True)
    shared = times > 1
    found[order[usable]] = np.where(shared, np.cumsum(shared) - 1, NO_ID)[place.ravel()]
    basis = np.full(len(rank), MatchBasis.ALONE)
    unsure = np.bincount(party[~sure], minlength=len(least)) > 0
    basis[order[comparable & unsure[party][block]]] = MatchBasis.UNDECIDED
    matched_by = np.where(numbered, MatchBasis.NUMBER, MatchBasis.ORDER if stepless else MatchBasis.STEP)
    return CollectiveMatches(found, np.where(found >= 0, matched_by, basis))


def _count_missing_calls(blocks: Array, ends: Sequence[Array], count: Array, sure: Array, lacking: Array) -> None:
    """For the ranks of a group, the number of missing first collectives, and whether that is certain."""
    # Compare with a rank that has the most frequent number.
    base = int(blocks[np.argmax(np.bincount(count[blocks])[count[blocks]])])
    for block in blocks.tolist():
        found = 0 if block == base else _lacking(ends[base], ends[block])
        sure[block], lacking[block] = found is not None, found or 0
    lacking[blocks] -= lacking[blocks].min()


def _lacking(base: Array, end: Array) -> int | None:
    """The number of first collectives of `base` that a rank with these ends lacks (negative: that `base` lacks), None
    if unknown: the shift with the best agreement of the intervals between ends, if clearly better than any other. Ranks
    with equal numbers lack none unless that is clear."""
    more = len(base) - len(end)
    fits = {}
    for lack in range(min(0, more) - MAX_MISSING, max(0, more) + MAX_MISSING + 1) if abs(more) <= MAX_MISSING else ():
        low, high = max(0, -lack), min(len(end), len(base) - lack)
        if high - low >= MIN_FIT_COLLECTIVES:
            differ = np.abs(np.diff(end[low:high] - base[low + lack : high + lack]))
            fits[lack] = int(np.sort(differ)[int(np.ceil(FIT_SHARE * len(differ))) - 1])
    best = min(fits, key=lambda lack: (fits[lack], abs(lack)), default=None)
    if more == 0:
        return best if best is not None and FIT_RATIO * fits[best] < fits.get(0, 0) else 0
    others = [fit for lack, fit in fits.items() if lack != best]
    return best if best is not None and others and FIT_RATIO * fits[best] < min(others) else None


def match_function_names(profile: Profile, pattern: str) -> Array:
    """Which functions have a name like this, as bools."""
    function_names: Array = pc.match_substring_regex(profile.functions.column("name"), pattern).to_numpy()
    return function_names


def canonical_name(name: str) -> str:
    """The normalized name of a collective: ncclDevKernel_AllReduce_Sum_f32, nccl:_all_gather_base and
    allgather are one or the other of all_reduce and all_gather."""
    kernel = _KERNEL.search(name)
    short = (kernel[1] or kernel[2]) if kernel else name.rpartition(":")[2]
    joined = re.sub(r"[^a-z0-9]", "", short.lower())
    if joined in _NAMES:
        return _NAMES[joined]
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", short).lower().strip("_") or name


def _parse_calls(
    profile: Profile, slices: SliceColumns, row: Array, launch: Array, calls: Array
) -> tuple[Array, Array, tuple[CollectiveKind, ...]]:
    """(index of the kind of each collective, its sequence number or -1, the kinds)."""
    record = match_function_names(profile, f"^{RECORD_EVENT}$")
    call, recorded = (_find_enclosing_slices(slices, launch, wanted) for wanted in (calls, record))
    keys = np.stack([slices.function[row], *(_arguments(slices, of) for of in (row, recorded, call))], 1)
    keys = np.column_stack((keys, np.where(call >= 0, slices.function[call], NO_ID)))
    distinct, of = np.unique(keys, axis=0, return_inverse=True)
    known: dict[CollectiveKind, int] = {}
    names, table, only = functions_of(profile), profile.argument_sets, _only_group(profile)
    places, numbers = [], []
    for function, *sets, caller in distinct.tolist():
        rows = [table.slice(one, 1).to_pylist()[0] for one in sets if one >= 0]
        name = names.name_of(caller) if caller >= 0 else names.name_of(function)
        what, number = _parse_arguments(name, [*rows, {"text": only}])
        places.append(known.setdefault(what, len(known)))
        numbers.append(number)
    return np.array([*places, 0])[of.ravel()], np.array([*numbers, NO_ID])[of.ravel()], tuple(known)


def _only_group(profile: Profile) -> str:
    """The group of a collective by its arguments, if the file states that there is only one group."""
    groups = json_fact(profile, "distributedInfo").get("pg_config")
    if not isinstance(groups, list) or len(groups) != 1 or not isinstance(groups[0], dict):
        return ""
    return json.dumps({"Process Group Name": groups[0].get("pg_name"), "Group size": groups[0].get("pg_size")})


def _find_enclosing_slices(slices: SliceColumns, row: Array, wanted: Array) -> Array:
    """For each slice, the innermost of itself and its ancestors with a function in `wanted`; -1 for none."""
    at, found = row.astype(np.int64), np.full(len(row), NO_ID)
    for _ in range(MAX_SLICE_DISTANCE):
        open_ = (at >= 0) & (found < 0)
        if not open_.any():
            break
        hit = open_ & wanted[slices.function[at]]
        found[hit] = at[hit]
        at = np.where(open_ & ~hit, slices.parent[at], NO_ID)
    return found


def _arguments(slices: SliceColumns, row: Array) -> Array:
    arguments: Array = np.where(row >= 0, slices.arguments[row], NO_ID)
    return arguments


def _parse_arguments(name: str, rows: list[dict[str, Any]]) -> tuple[CollectiveKind, int]:
    """The arguments, those of the kernel first; and the sequence number, -1 if there is none."""
    said: dict[str, Any] = {}
    for row in reversed(rows):
        members = _members(row["text"])
        if isinstance(members, dict):
            said |= {key: value for key, value in members.items() if value not in (None, "")}
    elements = [
        count for key in ("In msg nelems", "Out msg nelems") if (count := _parse_int(said.get(key))) is not None
    ]
    dtype = str(said.get("dtype") or "")
    size = max(elements) * _width(dtype) if elements and _width(dtype) else NO_ID
    if size < 0:
        size, dtype = _size_of_shapes(rows, dtype)
    ranks = _members(said.get("Process Group Ranks"))
    group = said.get("Process Group Name", said.get("Process Group ID", ""))
    sequence = _parse_int(said.get(SEQUENCE_ARGUMENT))
    collective_kind = CollectiveKind(
        name=canonical_name(str(said.get("Collective name") or name)),
        group=str(group)[:200],
        members=_ranks(ranks),
        size=_parse_int(said.get("Group size")) or (len(ranks) if isinstance(ranks, list) else 0),
        dtype=dtype[:80],
        bytes=size,
    )
    return collective_kind, NO_ID if sequence is None else sequence


def _ranks(members: Any) -> str:
    """The ranks of a process group as text, the same for all of them; empty if the list is incomplete."""
    known = isinstance(members, list) and all(_parse_int(member) is not None for member in members)
    return ",".join(map(str, sorted(map(int, members)))) if known else ""


def _size_of_shapes(rows: list[dict[str, Any]], dtype: str) -> tuple[int, str]:
    """(bytes, type) by the shapes of the tensors that the call was given, (-1, dtype) if they are unknown."""
    for row in reversed(rows):
        shapes, types = _members(row.get("shapes")), _members(row.get("types"))
        if not isinstance(shapes, list) or not isinstance(types, list):
            continue
        size, first = 0, ""
        for shape, kind in zip(shapes, types, strict=False):
            width = _width(str(kind))
            if width and isinstance(shape, list) and shape and all(_parse_int(n) is not None for n in shape):
                size, first = size + width * int(np.prod([int(n) for n in shape], dtype=object)), first or str(kind)
        if size:
            return min(size, (1 << 62)), first
    return NO_ID, dtype


def _width(dtype: str) -> int:
    lower = dtype.lower()
    return 1 if lower.startswith(_FLOAT8) else BYTES.get(lower, 0)


def _members(text: Any) -> Any:
    """The object in a JSON text; an empty dict if invalid."""
    if not isinstance(text, str):
        return text if isinstance(text, list) else {}
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {}


def _parse_int(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else None


def _identity(kind: CollectiveKind) -> tuple[Any, ...]:
    """The properties of a collective that are equal on all ranks."""
    return kind.group, kind.members, kind.name, kind.dtype, NO_ID if kind.name in _UNEVEN else kind.bytes
