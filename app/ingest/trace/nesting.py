"""Nesting of slices by time: their order, parents, self time, call stacks and lanes.

Slices of a thread that runs code are nested. One that reaches a little past the end of another, by a rounding error or
a quarter of their common part, is still within it: a call that ends an annotation returns a moment after it. If two
overlap otherwise, the later one continues next to the other, whose self time ends there. So every moment in which a
thread has any slice belongs to exactly one of them, the last one to begin.

Slices of a stream or a track may overlap freely: they get lanes.
"""

import numpy as np

from ...domain.arrays import Array
from ..jit.decorators import jit
from ..jit.hashing import grow, hash_slot
from .events import MAX_DEPTH

ROUNDING_NS = 2_000
"""How far a slice may reach past its parent, because times may be rounded to whole microseconds."""
WITHIN = 4
"""The minimum ratio of the part of a slice within its parent to the part past it."""
OPEN_END_NS = 1 << 62
"""The end of a slice of which only the begin is known: it ends with the one around it."""
MAX_ENCLOSING = 64
"""The number of open slices on a stream that are checked for one that contains another."""


@jit
def _sort_run(order: Array, first: int, last: int, length: Array, rank: Array, other: Array) -> None:
    """Sort order[first:last], slices that begin together: the longest first, then by rank, then in their previous
    order."""
    width = 1
    while width < last - first:
        for low in range(first, last, 2 * width):
            middle, high = min(low + width, last), min(low + 2 * width, last)
            left, right = low, middle
            for to in range(low, high):
                if left == middle:
                    take_right = True
                elif right == high:
                    take_right = False
                else:
                    a, b = order[left], order[right]
                    take_right = length[b] > length[a] or (length[b] == length[a] and rank[b] < rank[a])
                if take_right:
                    other[to] = order[right]
                    right += 1
                else:
                    other[to] = order[left]
                    left += 1
        order[first:last] = other[first:last]
        width *= 2


@jit
def sort_slices(line: Array, lines: int, start: Array, length: Array, rank: Array) -> tuple[Array, Array]:
    """(the order (line, start, longest first, rank, previous order) of slices, as int32 row numbers; where each line
    begins in it, and the end).

    line: below `lines`. rank: which of two with the same interval is the outer one, the smaller.
    """
    n = len(line)
    bounds = np.zeros(lines + 1, np.int64)
    for i in range(n):
        bounds[line[i] + 1] += 1
    for i in range(lines):
        bounds[i + 1] += bounds[i]
    free = bounds[:-1].copy()
    order, other = np.empty(n, np.int32), np.empty(n, np.int32)
    key, other_key = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        to = free[line[i]]
        free[line[i]] = to + 1
        order[to] = i
        key[to] = start[i]
    counts = np.empty(2048, np.int64)
    for at in range(lines):
        first, last = bounds[at], bounds[at + 1]
        if first == last:
            continue
        least = most = key[first]
        rising = True
        for i in range(first + 1, last):
            rising &= key[i] >= key[i - 1]
            least = min(least, key[i])
            most = max(most, key[i])
        shift = 0
        while not rising and ((most - least) >> shift) > 0:
            counts[:] = 0
            for i in range(first, last):
                counts[((key[i] - least) >> shift) & 2047] += 1
            sum_ = first
            for digit in range(2048):
                sum_ += counts[digit]
                counts[digit] = sum_ - counts[digit]
            for i in range(first, last):
                digit = ((key[i] - least) >> shift) & 2047
                to = counts[digit]
                counts[digit] = to + 1
                other[to] = order[i]
                other_key[to] = key[i]
            order[first:last] = other[first:last]
            key[first:last] = other_key[first:last]
            shift += 11
        i = first
        while i < last:
            j = i + 1
            while j < last and key[j] == key[i]:
                j += 1
            if j - i > 1:
                _sort_run(order, i, j, length, rank, other)
            i = j
    return order, bounds


@jit
def nest(
    bounds: Array,
    threads: Array,
    start: Array,
    stop: Array,
    rank: Array,
    frame: Array,
    end_of_all: int,
    parent: Array,
    depth: Array,
    end: Array,
    own: Array,
    node: Array,
    stretch_row: Array,
    stretch_start: Array,
    stretch_length: Array,
    keys: Array,
    values: Array,
    tree_parent: Array,
    tree_frame: Array,
    nodes: int,
    factor: int,
) -> tuple[int, Array, Array, int]:
    """Nest the slices of threads, and compute what follows from it. threads: which lines are threads. The rows of line
    i are bounds[i] … bounds[i+1]-1, in their order.

    stop: the end of each slice, OPEN if unknown (then it is set). parent, depth, end, own, node, stretch_*: output.
    keys, values, tree_parent, tree_frame, nodes: the calling context tree, see `Tree`. Returns (number of self-time
    intervals, keys, values, nodes).
    """
    stretches = 0
    for line in range(len(threads)):
        if threads[line]:
            stretches, keys, values, nodes = _nest(
                bounds[line], bounds[line + 1], start, stop, rank, frame, end_of_all, parent, depth, end, own, node,
                stretch_row, stretch_start, stretch_length, stretches,
                keys, values, tree_parent, tree_frame, nodes, factor,
            )  # fmt: skip
    return stretches, keys, values, nodes


@jit
def _nest(
    first: int,
    last: int,
    start: Array,
    stop: Array,
    rank: Array,
    frame: Array,
    end_of_all: int,
    parent: Array,
    depth: Array,
    end: Array,
    own: Array,
    node: Array,
    stretch_row: Array,
    stretch_start: Array,
    stretch_length: Array,
    stretches: int,
    keys: Array,
    values: Array,
    tree_parent: Array,
    tree_frame: Array,
    nodes: int,
    factor: int,
) -> tuple[int, Array, Array, int]:
    stack = np.empty(64, np.int32)
    level = 0
    cursor = np.int64(0)
    for i in range(first, last):
        begin, finish = start[i], stop[i]
        while level:
            top = stack[level - 1]
            limit = stop[top]
            if limit <= begin:
                # Of two with the same start and end, one may be within the other.
                if limit == begin == finish == start[top] and rank[top] < rank[i]:
                    break
                if limit > cursor:
                    stretch_row[stretches] = top
                    stretch_start[stretches] = cursor
                    stretch_length[stretches] = limit - cursor
                    stretches += 1
                    own[top] += limit - cursor
                    cursor = limit
            elif finish == OPEN_END_NS:
                finish = limit
                stop[i] = limit
                break
            elif finish <= limit or (
                limit - begin > finish - limit
                and (finish - limit <= ROUNDING_NS or (finish - limit) * WITHIN <= limit - begin)
            ):
                break
            elif begin > cursor:
                stretch_row[stretches] = top
                stretch_start[stretches] = cursor
                stretch_length[stretches] = begin - cursor
                stretches += 1
                own[top] += begin - cursor
                cursor = begin
            end[top] = i
            level -= 1
        if finish == OPEN_END_NS:
            stop[i] = max(begin, end_of_all)
        above = 0
        if level:
            top = stack[level - 1]
            if begin > cursor:
                stretch_row[stretches] = top
                stretch_start[stretches] = cursor
                stretch_length[stretches] = begin - cursor
                stretches += 1
                own[top] += begin - cursor
            parent[i] = top
            above = node[top]
        else:
            parent[i] = -1
        cursor = max(cursor, begin)
        depth[i] = level
        own[i] = 0
        if level >= MAX_DEPTH:
            node[i] = above
        else:
            key = (np.int64(above) << 32) | frame[i]
            mask = len(keys) - 1
            at = hash_slot(key, factor, mask)
            while values[at] >= 0 and keys[at] != key:
                at = (at + 1) & mask
            if values[at] < 0:
                keys[at] = key
                values[at] = nodes
                tree_parent[nodes] = above
                tree_frame[nodes] = frame[i]
                node[i] = nodes
                nodes += 1
                if 2 * nodes > len(keys):
                    keys, values = grow(keys, values, factor)
            else:
                node[i] = values[at]
        if level == len(stack):
            more = np.empty(4 * level, np.int32)
            more[:level] = stack
            stack = more
        stack[level] = i
        level += 1
    while level:
        top = stack[level - 1]
        if stop[top] > cursor:
            stretch_row[stretches] = top
            stretch_start[stretches] = cursor
            stretch_length[stretches] = stop[top] - cursor
            stretches += 1
            own[top] += stop[top] - cursor
            cursor = stop[top]
        end[top] = last
        level -= 1
    return stretches, keys, values, nodes


@jit
def grow_tree(
    above: Array,
    frame: Array,
    node: Array,
    keys: Array,
    values: Array,
    tree_parent: Array,
    tree_frame: Array,
    nodes: int,
    factor: int,
) -> tuple[Array, Array, int]:
    """Find or create the node of frame[i] below the node above[i]; sets `node`. Returns (keys, values, nodes)."""
    for i in range(len(above)):
        key = (np.int64(above[i]) << 32) | frame[i]
        mask = len(keys) - 1
        at = hash_slot(key, factor, mask)
        while values[at] >= 0 and keys[at] != key:
            at = (at + 1) & mask
        if values[at] < 0:
            keys[at] = key
            values[at] = nodes
            tree_parent[nodes] = above[i]
            tree_frame[nodes] = frame[i]
            node[i] = nodes
            nodes += 1
            if 2 * nodes > len(keys):
                keys, values = grow(keys, values, factor)
        else:
            node[i] = values[at]
    return keys, values, nodes


@jit
def _push(heap_key: Array, heap_value: Array, size: int, key: int, value: int) -> None:
    """Push onto a heap of `size` entries, least key first."""
    at = size
    while at > 0:
        up = (at - 1) >> 1
        if heap_key[up] <= key:
            break
        heap_key[at] = heap_key[up]
        heap_value[at] = heap_value[up]
        at = up
    heap_key[at] = key
    heap_value[at] = value


@jit
def _pop(heap_key: Array, heap_value: Array, size: int) -> None:
    """Pop the first from a heap of `size` entries."""
    size -= 1
    key, value = heap_key[size], heap_value[size]
    at = 0
    while True:
        down = 2 * at + 1
        if down >= size:
            break
        if down + 1 < size and heap_key[down + 1] < heap_key[down]:
            down += 1
        if heap_key[down] >= key:
            break
        heap_key[at] = heap_key[down]
        heap_value[at] = heap_value[down]
        at = down
    heap_key[at] = key
    heap_value[at] = value


@jit
def _assign_lane_range(
    first: int, last: int, start: Array, stop: Array, sort: Array, which: int, base: int, lane: Array
) -> int:
    """Assign each row of one kind the lowest free lane from `base` on. Returns the number of lanes."""
    size = 0
    for i in range(first, last):
        if sort[i] == which:
            size += 1
    busy_end, busy_lane = np.empty(size, np.int64), np.empty(size, np.int64)
    free_lane, nothing = np.empty(size, np.int64), np.empty(size, np.int64)
    busy = free = lanes = 0
    for i in range(first, last):
        if sort[i] != which:
            continue
        while busy and busy_end[0] <= start[i]:
            _push(free_lane, nothing, free, busy_lane[0], 0)
            free += 1
            _pop(busy_end, busy_lane, busy)
            busy -= 1
        if free:
            found = free_lane[0]
            _pop(free_lane, nothing, free)
            free -= 1
        else:
            found = lanes
            lanes += 1
        lane[i] = base + found
        _push(busy_end, busy_lane, busy, stop[i], found)
        busy += 1
    return lanes


@jit
def assign_lanes(
    bounds: Array,
    lanes: Array,
    end_of_all: int,
    start: Array,
    stop: Array,
    sort: Array,
    parent: Array,
    lane: Array,
    end: Array,
    own: Array,
) -> None:
    """Assign lanes and parents to the slices of streams and tracks. lanes: which lines are streams or tracks. The rows
    of line i are bounds[i] … bounds[i+1]-1, in their order.

    stop: the end of each slice, OPEN if unknown (then it is set). sort: 0 for slices that may be parents (annotations),
    1, 2; each kind has its own lanes, below those of the previous kinds. parent, lane, end, own: output. Self time of
    an annotation: the time that no slice directly in it covers.
    """
    for line in range(len(lanes)):
        if lanes[line]:
            for i in range(bounds[line], bounds[line + 1]):
                if stop[i] == OPEN_END_NS:
                    stop[i] = max(start[i], end_of_all)
            _lay_in_lanes(bounds[line], bounds[line + 1], start, stop, sort, parent, lane, end, own)


@jit
def _lay_in_lanes(
    first: int,
    last: int,
    start: Array,
    stop: Array,
    sort: Array,
    parent: Array,
    lane: Array,
    end: Array,
    own: Array,
) -> None:
    base = 0
    for which in range(3):
        base += _assign_lane_range(first, last, start, stop, sort, which, base, lane)
    opened = np.empty(last - first, np.int32)
    level = 0
    # Up to when each annotation is covered by slices that are directly in it.
    covered = np.zeros(last - first, np.int64)
    for i in range(first, last):
        while level and stop[opened[level - 1]] <= start[i]:
            level -= 1
        end[i] = i + 1
        own[i] = stop[i] - start[i]
        covered[i - first] = start[i]
        parent[i] = -1
        for back in range(1, min(level, MAX_ENCLOSING) + 1):
            candidate = opened[level - back]
            if stop[candidate] >= stop[i] and stop[candidate] > start[i]:
                parent[i] = candidate
                uncovered = max(covered[candidate - first], start[i])
                if stop[i] > uncovered:
                    own[candidate] -= stop[i] - uncovered
                    covered[candidate - first] = stop[i]
                break
        if sort[i] == 0:
            opened[level] = i
            level += 1
    for i in range(last - 1, first - 1, -1):
        if parent[i] >= 0:
            end[parent[i]] = max(end[parent[i]], end[i])
