"""Call stacks over time, as rows: row 0 has the outermost functions of the samples of a thread, the next their callees.

The rows are made from the items of a lane of samples, so they need no further levels. Where an item is several
samples, the stack of the first is shown. Boxes of one call that follow each other are joined if the gap between them is
not longer than the later one: between two samples of one call it was probably not left.
"""

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.tables import get_column
from ..core.functions import functions_of
from ..core.sample_selection import samples_of
from .mipmap import MAX_FILL, MipmapItems
from .model import KINDS


def build_stack_rows(profile: Profile, items: MipmapItems, rows: range, cell_ns: int) -> list[MipmapItems]:
    """The boxes of these rows. items: of the lane, by time. cell_ns: gaps up to this length are not seen."""
    samples = samples_of(profile)
    calls = profile.calls
    parent, depth = get_column(calls, "parent"), get_column(calls, "depth")
    function, kind = get_column(calls, "function"), get_column(calls, "kind")
    node = samples.call[samples.stack[items.event_row]].astype(np.int64)
    found: dict[int, MipmapItems] = {}
    # From the innermost frame of any stack outwards.
    for level in range(int(depth[node].max(initial=0)), rows.start, -1):
        if level - 1 in rows:
            inside = np.flatnonzero(depth[node] == level)
            code = functions_of(profile).canonical[function[node[inside]]] * np.int32(len(KINDS)) + kind[node[inside]]
            found[level - 1] = _join(items.take(inside), node[inside], code, cell_ns)
        node = np.where(depth[node] == level, parent[node], node)
    nothing = items.take(slice(0, 0))
    return [found.get(row, nothing) for row in rows]


def _join(items: MipmapItems, node: Array, code: Array, cell_ns: int) -> MipmapItems:
    """Items of one node that follow each other as one item."""
    new = np.ones(len(items), bool)
    gap = items.start[1:] - items.end[:-1]
    length = items.end[1:] - items.start[1:]
    new[1:] = (node[1:] != node[:-1]) | (gap > np.maximum(length, cell_ns))
    first = np.flatnonzero(new)
    if not len(first):
        return items
    last = np.append(first[1:], len(items)) - 1
    start, end = items.start[first], items.end[last]
    covered = np.add.reduceat((items.end - items.start) * (items.fill / MAX_FILL), first)
    span = np.maximum(end - start, 1)
    return MipmapItems(
        start=start,
        end=end,
        code=code[first],
        event_row=items.event_row[first],
        count=np.add.reduceat(items.count, first),
        weight=np.add.reduceat(items.weight, first),
        share=np.full(len(first), MAX_FILL, np.uint8),
        fill=np.where(covered > 0, np.ceil(MAX_FILL * np.minimum(covered / span, 1.0)), MAX_FILL).astype(np.uint8),
    )
