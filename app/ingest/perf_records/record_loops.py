"""Compiled loops over the records of large recordings. Small ones are read with numpy before these are loaded."""

from typing import Any

import numpy as np

from ...domain.arrays import Array
from ..jit.decorators import jit, uint64

TOO_SHORT, TOO_LONG = 1, 2
"""What `read_fields` returns if a sample is shorter than its fields, or a call chain longer than its sample."""


@jit
def walk_records(words: Array, at: int, stop: int, place: Array, kind: Array, flags: Array, size: Array) -> int:
    """Write where records begin, from `at` up to `stop`, and what their first words say. Returns how many begin there,
    for which there are rows, or before the first one that does not end at a word."""
    count, most = 0, len(place)
    while at < stop and count < most:
        word = words[at]
        length = np.int64(word >> uint64(51))
        if length == 0 or word >> uint64(48) & uint64(7):
            break
        place[count] = at
        kind[count] = np.uint32(word & uint64(0xFFFFFFFF))
        flags[count] = np.uint16(word >> uint64(32) & uint64(0xFFFF))
        size[count] = np.int16(length)
        count += 1
        at += int(length)
    return count


@jit
def read_fields(
    words: Array,
    rows: Array,
    place: Array,
    size: Array,
    flags: Array,
    fields: tuple[int, ...],
    weights: Array,
    mode: Array,
    pid: Array,
    tid: Array,
    time: Array,
    cpu: Array,
    period: Array,
    key: Array,
    code: Array,
    length: Array,
) -> int:
    """Read the samples in these rows of the index, one into each row of the columns.

    place, size, flags: of all records, see RecordIndex. fields: where in a sample the thread, time, CPU, period,
    address and call chain are, -1 for one that is missing; then the bits of the flags that are the mode, and how many
    words a sample has at least. weights: see `make_weights`. The other columns are those of RecordedSamples, which are
    written. Returns 0, TOO_SHORT or TOO_LONG.
    """
    of_task, of_time, of_cpu, of_period, of_address, of_chain, mode_bits, least = fields
    secret, factor = weights[0], weights[1]
    half, lower = uint64(32), uint64(0xFFFFFFFF)
    failure = 0
    for row in range(len(rows)):
        record = rows[row]
        if size[record] < least:
            return TOO_SHORT
        at = place[record]
        mode[row] = flags[record] & np.uint16(mode_bits)
        task = words[at + of_task]
        pid[row] = np.int32(task & lower)
        tid[row] = np.int32(task >> half)
        if of_time >= 0:
            time[row] = words[at + of_time]
        if of_cpu >= 0:
            cpu[row] = np.int32(words[at + of_cpu] & lower)
        if of_period >= 0:
            period[row] = words[at + of_period]
        if of_chain < 0:
            word = (words[at + of_address] ^ secret) * factor
            word = (word ^ word >> half) * factor
            key[row] = (word ^ word >> half) + uint64(mode[row])
            code[row] = at + of_address
            continue
        count = words[at + of_chain]
        if count >= uint64(size[record] - of_chain):
            failure = TOO_LONG
            continue
        at += of_chain + 1
        total = uint64(0)
        for depth in range(np.int64(count)):
            word = (words[at + depth] ^ secret) * factor
            word = (word ^ word >> half) * factor
            total += (word ^ word >> half) * weights[2 + depth]
        key[row] = (total ^ total >> half) * factor
        code[row] = at
        length[row] = count
    return failure


@jit
def flatten_chains(
    words: Array,
    code: Array,
    length: Array,
    mode: Array,
    space: Array,
    marks: Array,
    limits: tuple[int, ...],
    address: Array,
    owner: Array,
    relative: Array,
    count: Array,
) -> int:
    """Write the locations of samples. Returns how many they have.

    code, length, mode, space: see ChainColumns. marks: the lowest marker in a call chain, and those of the kernel, the
    user and a hypervisor. limits: of locations in a chain; then the numbers of modes kernel and user, and of the spaces
    of the kernel and of nothing. address, owner, relative: of each location, as in _Locations. count: of locations of
    each sample, none for a chain with an invalid marker.
    """
    most, kernel, user, kernel_space, nowhere = limits
    lowest, kernel_mark, user_mark, hypervisor_mark = marks[0], marks[1], marks[2], marks[3]
    total = 0
    for row in range(len(code)):
        begin = np.int64(code[row])
        own: Any = space[row]
        first = total
        if length[row] < 0:
            address[total] = words[begin]
            owner[total] = kernel_space if mode[row] == kernel else own if mode[row] == user else nowhere
            relative[total] = False
            total += 1
        place: Any = own
        for at in range(begin, begin + np.int64(length[row])):
            word = words[at]
            if word < lowest:
                if total - first == most:
                    break
                address[total] = word
                owner[total] = place
                relative[total] = True
                total += 1
            elif word == kernel_mark:
                place = kernel_space
            elif word == user_mark:
                place = own
            elif word == hypervisor_mark:
                place = nowhere
            elif total - first < most:
                total = first
                break
        count[row] = total - first
    return total
