"""Repeated sequences of kernels, which could be fused or captured in a graph.

By stream: n consecutive kernels on one stream. By operator: everything that one call of an operator launched,
as Holistic Trace Analysis counts them (cuda_kernel_analysis.py, get_frequent_cuda_kernel_sequences).
"""

import numpy as np

from ...domain.arrays import Array
from ...domain.errors import InvalidRequest
from ...domain.profile import Profile
from ...domain.selection import Selection, check_choice
from ..core.functions import functions_of
from ..core.group_by import GroupIndex, group_by, select_groups
from ..core.schema import Column, Table, TableRows, build_rows, concatenate_rows, table_function
from ..core.slice_selection import device_work_of, select_device_work, slices_of
from .operators import call_names, operator_calls_of, to_us

BY = ("stream", "operator")
MIN_LENGTH, MAX_LENGTH, DEFAULT_LENGTH = 2, 8, 3
SEPARATOR = " | "

SEQUENCES = (
    Column("sequence", "", "The kernels, memcpy and memset in order of time, separated by “ | ”."),
    Column("length", "", "Number of kernels, memcpy and memset in the sequence.", "int64"),
    Column("count", "", "Number of occurrences; by=stream, occurrences may overlap.", "int64"),
    Column("device_us", "µs", "Time of the kernels in all occurrences.", "float64"),
    Column("mean_us", "µs", "device_us ÷ count.", "float64"),
    Column("gap_us", "µs", "Average time per occurrence between its kernels in which the stream was idle.", "float64"),
    Column("operator", "", "The operator whose call launched it; only by=operator."),
    Column("host_us", "µs", "Time of the host in these calls; only by=operator.", "Float64"),
)


@table_function
def compute_sequences(
    profile: Profile, selection: Selection, by: str = "stream", *, length: int = DEFAULT_LENGTH
) -> TableRows:
    """One row for each sequence that occurs more than once; sorted by count, then by time, descending.

    by "stream": of `length` pieces of device work. "operator": the work that one call launched, at least two. Raises
    InvalidRequest.
    """
    check_choice("by", by, BY)
    if not MIN_LENGTH <= length <= MAX_LENGTH:
        raise InvalidRequest(
            f"length must be a whole number from {MIN_LENGTH} to {MAX_LENGTH}, not {length}.", "length"
        )

    mask = select_device_work(profile, selection)
    rows = np.arange(len(device_work_of(profile))) if mask is None else np.flatnonzero(mask)
    parts = _stream_sequences(profile, rows, length) if by == "stream" else _operator_sequences(profile, rows)
    return concatenate_rows(SEQUENCES, parts).sort("-count", "-device_us", "sequence")


def _stream_sequences(profile: Profile, rows: Array, length: int) -> list[TableRows]:
    thread = device_work_of(profile).thread[rows]
    first = np.arange(max(0, len(rows) - length + 1))
    first = first[thread[first] == thread[first + length - 1]]
    return _table(profile, rows[first[:, None] + np.arange(length)], None)


def _operator_sequences(profile: Profile, rows: Array) -> list[TableRows]:
    work, calls = device_work_of(profile), operator_calls_of(profile)
    call = calls.operator_of_work[rows]
    rows, call = rows[call >= 0], call[call >= 0]
    order = np.lexsort((work.start[rows], call))
    rows, call = rows[order], call[order]
    fresh = np.flatnonzero(np.append(True, call[1:] != call[:-1])) if len(call) else np.zeros(0, np.int64)
    counts = np.diff(np.append(fresh, len(call)))
    parts = []
    for length in np.unique(counts[counts > 1]).tolist():
        first = fresh[counts == length]
        parts += _table(profile, rows[first[:, None] + np.arange(length)], call[first])
    return parts


def _table(profile: Profile, runs: Array, call: Array | None) -> list[TableRows]:
    """The rows of the table for runs of one length: rows of `device_work`, one run per line."""
    work, functions = device_work_of(profile), functions_of(profile)
    if not len(runs):
        return []
    code = functions.canonical[work.function]
    codes = [code[runs[:, place]] for place in range(runs.shape[1])]
    calls = operator_calls_of(profile)
    groups: GroupIndex = group_by(*([] if call is None else [calls.label[call]]), *codes)
    some = select_groups(groups, None)
    often = some.count() > 1
    if not often.any():
        return []
    some = select_groups(groups, often[groups.code])
    device = work.duration[runs].astype(np.int64).sum(axis=1)
    over = work.start[runs] + work.duration[runs]
    reached = np.maximum.accumulate(over, axis=1)
    gap = np.maximum(0, work.start[runs[:, 1:]] - reached[:, :-1]).sum(axis=1)
    firsts = groups.first[some.groups]
    names = [functions.names_of(work.function[run]) for run in runs[firsts]]
    host = None if call is None else slices_of(profile).duration[calls.row[call]].astype(np.int64)
    values = {
        "sequence": [SEPARATOR.join(part) for part in names],
        "length": np.full(len(some), runs.shape[1]),
        "count": some.count(),
        "device_us": to_us(some.sum(device)),
        "mean_us": to_us(some.mean(device)),
        "gap_us": to_us(some.mean(gap)),
        "operator": [None] * len(some) if call is None else call_names(profile, call[firsts]),
        "host_us": np.full(len(some), np.nan) if host is None else to_us(some.sum(host)),
    }
    return [build_rows(SEQUENCES, values)]


TABLES = (Table("sequences", "Sequences of kernels", SEQUENCES, compute_sequences, by=BY),)
"""The tables of this module."""
