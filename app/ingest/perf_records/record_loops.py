"""Compiled loops over the records of large recordings. Small ones are read with numpy before these are loaded."""

from typing import Any

import numpy as np

from ...domain.arrays import Array
from ..jit.decorators import jit, uint64


@jit
def walk_records(words: Array, at: int, stop: int, place: Array, head: Array) -> int:
    """Write where records begin, from `at` up to `stop`, and their first words. Returns how many begin there, or before
    the first one that does not end at a word."""
    count = 0
    while at < stop:
        word = words[at]
        size = np.int64(word >> uint64(51))
        if size == 0 or word >> uint64(48) & uint64(7):
            break
        place[count] = at
        head[count] = word
        count += 1
        at += int(size)
    return count


@jit
def read_fields(
    words: Array,
    place: Array,
    low: int,
    size: Array,
    mode: Array,
    fields: tuple[int, ...],
    weights: Array,
    pid: Array,
    tid: Array,
    time: Array,
    cpu: Array,
    period: Array,
    key: Array,
    code: Array,
    length: Array,
) -> bool:
    """Read the samples at these places, one in each row of the columns.

    low: where `words` begin in all of the file. size: of the records, in words; large enough for all fields. fields:
    where in a sample the thread, time, CPU, period, address and call chain are, -1 for one that is missing. weights:
    see `make_weights`. The other columns are those of RecordedSamples, which are written. Returns False if a call chain
    is longer than its record.
    """
    of_task, of_time, of_cpu, of_period, of_address, of_chain = fields
    secret, factor = weights[0], weights[1]
    half, lower = uint64(32), uint64(0xFFFFFFFF)
    for row in range(len(place)):
        at = place[row]
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
            code[row] = low + at + of_address
            continue
        count = words[at + of_chain]
        if count >= uint64(size[row] - of_chain):
            return False
        at += of_chain + 1
        total = uint64(0)
        for depth in range(np.int64(count)):
            word = (words[at + depth] ^ secret) * factor
            word = (word ^ word >> half) * factor
            total += (word ^ word >> half) * weights[2 + depth]
        key[row] = (total ^ total >> half) * factor
        code[row] = low + at
        length[row] = count
    return True


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
