"""Switches and wakeups of a scheduler that a Perfetto trace has in columns, bundle by bundle.

The thread that is switched out is not recorded: it is the one that was last switched in on the CPU.
"""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, Int64Array
from ...ingest.jit.hashing import factorize
from ...ingest.jit.protobuf_columns import read_messages, read_numbers
from ...ingest.trace.thread_states import UNKNOWN_TASK
from .texts import InternText, read_texts

SWITCH_TIME, SWITCH_STATE, SWITCH_TASK, COMMS, SWITCH_COMM, WAKE_TIME, WAKE_TASK = 1, 2, 3, 5, 6, 7, 8
_COLUMNS = (SWITCH_TIME, SWITCH_STATE, SWITCH_TASK, 4, SWITCH_COMM, WAKE_TIME, WAKE_TASK, 9, 10, 11)
"""Fields of CompactSched that are numbers."""


@dataclass(frozen=True, eq=False)
class CompactSched:
    """The content of bundles, in their order. bundle: which of them. comm: the index of the name of the thread that was
    switched in. malformed: how many bundles are damaged, or have columns of different lengths: of these nothing, or
    only wakeups, are read."""

    bundle: Array
    time_ns: Array
    prev_task: Array
    state_bits: Array
    next_task: Array
    comm: Array
    wake_bundle: Array
    wake_ns: Array
    wake_task: Array
    malformed: int


def read_compact_sched(data: bytes, spans: Array, cpu: Array, place: InternText) -> CompactSched:
    """The content of these bundles, each of one CPU. place: interns a text."""
    array = np.frombuffer(data, np.uint8)
    bundles = read_messages(array, spans, (), (), (*_COLUMNS, COMMS))
    count = len(bundles)
    damaged = bundles.malformed != 0
    columns = {field: read_numbers(array, bundles.listed[field], damaged) for field in _COLUMNS}
    counts = {field: np.bincount(rows, minlength=count) for field, (rows, _) in columns.items()}
    names = bundles.listed[COMMS].select_contents()
    # If a bundle has no names, the first is the empty one.
    places = np.append(read_texts(data, names.spans, place), np.int32(place("")))
    of_names = np.bincount(names.row, minlength=count)
    first_name = np.cumsum(of_names) - of_names
    several = np.maximum(of_names, 1)
    rows, index = columns[SWITCH_COMM]
    outside = (index >= several[rows]) | (index < -several[rows])
    damaged[rows[outside]] = True
    for field in (SWITCH_STATE, SWITCH_TASK, SWITCH_COMM):
        damaged |= counts[field] != counts[SWITCH_TIME]
    uneven = (counts[WAKE_TIME] != counts[WAKE_TASK]) & (counts[WAKE_TIME] > 0)

    def select_bundles(field: int, bundle: Array) -> tuple[Array, Array]:
        rows, values = columns[field]
        good = bundle[rows]
        return rows[good], values[good]

    bundle, delta = select_bundles(SWITCH_TIME, ~damaged)
    _, next_task = select_bundles(SWITCH_TASK, ~damaged)
    _, index = select_bundles(SWITCH_COMM, ~damaged)
    index = np.where(index < 0, index + several[bundle], index)
    wake_bundle, wake_delta = select_bundles(WAKE_TIME, ~damaged & ~uneven)
    return CompactSched(
        bundle=bundle,
        time_ns=_sum_deltas(delta, bundle),
        prev_task=_find_previous(next_task, cpu[bundle]),
        state_bits=select_bundles(SWITCH_STATE, ~damaged)[1],
        next_task=next_task,
        comm=places[np.where(of_names[bundle] > 0, first_name[bundle] + index, len(places) - 1)],
        wake_bundle=wake_bundle,
        wake_ns=_sum_deltas(wake_delta, wake_bundle),
        wake_task=select_bundles(WAKE_TASK, ~damaged & ~uneven & (counts[WAKE_TIME] > 0))[1],
        malformed=int(np.count_nonzero(damaged | uneven)),
    )


def _sum_deltas(values: Array, bundle: Array) -> Array:
    """The running sums of the values of each bundle."""
    total = np.cumsum(values)
    new = np.ones(len(bundle), bool)
    new[1:] = bundle[1:] != bundle[:-1]
    before = (total - values)[new]
    deltas: Array = total - before[np.cumsum(new) - 1]
    return deltas


def _find_previous(taken: Array, cpu: Array) -> Int64Array:
    """The thread that was switched in on the same CPU before each switch."""
    code, _ = factorize(cpu)
    order = np.argsort(code, kind="stable")
    found = np.full(len(taken), UNKNOWN_TASK, np.int64)
    same = code[order[1:]] == code[order[:-1]]
    found[order[1:][same]] = taken[order[:-1][same]]
    return found
