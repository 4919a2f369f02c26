"""A flame graph encoded for the browser: the frames visible at one zoom and width, as columns of numbers.

Frames narrower than half a pixel are omitted, and more if the response would exceed `WIRE_BYTES` compressed. Their
weight remains in the frames above them; zooming requests them.
"""

import json
import math
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..analysis.compare.flamegraph import flame_diff
from ..analysis.core.functions import KIND_NAMES, functions_of
from ..analysis.ratios.frame_values import Coloring, color_tree
from ..analysis.stacks.flame_tree import EVIDENCE_TEXTS, FrameEvidence, FrameValues
from ..analysis.stacks.flamegraph import FlameGroup, FlameTree, SiblingOrder
from ..domain.arrays import Array
from ..domain.profile import Profile
from ..domain.selection import Selection
from ..domain.symbols.short_names import list_short_names
from ..domain.text import shorten_middle
from .palette import GROUP_KIND, RAMP_STEPS

WIRE_BYTES = 96_000
MAX_FRAMES = 5_800
"""About the number that fits in `WIRE_BYTES`. If there are more, the widest are sent, to avoid compressing twice."""
MIN_FRAME_PX = 0.5
WIDTH_RANGE = (100, 16_000)
MAX_NAME_CHARACTERS = 2_000
MAX_SHORT_NAME_CHARACTERS = 200
MAX_BREADCRUMBS = 200


def build_flame_payload(
    profile: Profile,
    selection: Selection,
    *,
    group: FlameGroup = FlameGroup.COMM,
    order: SiblingOrder = SiblingOrder.WEIGHT,
    zoom: int | None = None,
    width_px: int = 1600,
    coloring: Coloring | None = None,
) -> dict[str, Any]:
    """`build_payload` of the flame graph of a selection, without building omitted frames."""
    least = min_frame_share(width_px)
    tree = color_tree(profile, selection, coloring, group=group, order=order, zoom=zoom, min_share=least)
    return build_payload(tree, profile, width_px=width_px)


def build_difference_payload(
    base: Profile,
    other: Profile,
    base_selection: Selection,
    other_selection: Selection,
    *,
    group: FlameGroup = FlameGroup.COMM,
    order: SiblingOrder = SiblingOrder.WEIGHT,
    zoom: int | None = None,
    width_px: int = 1600,
    normalize: bool = True,
    reverse: bool = False,
) -> dict[str, Any]:
    """`build_payload` of a differential flame graph: widths and functions are of `other`, with `reverse` of `base`."""
    tree = flame_diff(
        base,
        other,
        base_selection,
        other_selection,
        group=group,
        order=order,
        zoom=zoom,
        min_share=min_frame_share(width_px),
        normalize=normalize,
        reverse=reverse,
    )
    return build_payload(tree, base if reverse else other, width_px=width_px)


def min_frame_share(width_px: int) -> float:
    """Half a pixel as a share of the width, with the width clamped to `WIDTH_RANGE`."""
    return MIN_FRAME_PX / min(max(width_px, WIDTH_RANGE[0]), WIDTH_RANGE[1])


def build_payload(
    tree: FlameTree, profile: Profile, *, zoom: int | None = None, width_px: int = 1600
) -> dict[str, Any]:
    """The tree below the frame with id `zoom` (None or unknown: the zoom of the tree) as plain data.

    `zoom`: the frames from the root to the one zoomed to, with `depth` from the root and `function` as in `nodes`; if
    there are more than 200, those in the middle are omitted. `functions`: columns; ids below 0 are labels; `short` is
    empty if no name has a short one. `nodes`:
    columns, in preorder, siblings in the order drawn and packed to the left; `start` (weight from the left edge of the
    first node) only by time. `pruned`: lower bound of the number of omitted frames.

    `values`, for a tree with values: the formula, its scale and in `nodes` the columns `value` and `shade`: from
    -RAMP_STEPS to RAMP_STEPS; null is missing.
    """
    top = tree.zoom
    if zoom is not None:
        rows = np.flatnonzero(tree.id == zoom)
        top = int(rows[0]) if len(rows) else top
    inside = slice(top, int(tree.end[top]))
    total = tree.total_weight[inside]
    narrowest = max(1, math.ceil(min_frame_share(width_px) * int(tree.total_weight[top])))
    chosen = np.flatnonzero(total >= narrowest) + top
    if not len(chosen):
        chosen = np.array([top])
    if len(chosen) > MAX_FRAMES:
        chosen = _widest(tree, chosen, MAX_FRAMES)
    left_out = tree.pruned + len(total) - len(chosen)
    names = _NameColumns(profile, tree)
    longest = MAX_NAME_CHARACTERS
    while True:
        data = _columns(tree, names, chosen, top, longest) | {"pruned": left_out}
        size = _compressed_size(data)
        if size <= WIRE_BYTES or (len(chosen) == 1 and longest == MAX_SHORT_NAME_CHARACTERS):
            return data
        in_names = sum(map(len, data["functions"]["name"])) + sum(map(len, data["functions"]["module"]))
        in_names += sum(map(len, data["functions"]["short"]))
        if longest != MAX_SHORT_NAME_CHARACTERS and in_names > WIRE_BYTES:
            longest = MAX_SHORT_NAME_CHARACTERS
            continue
        fewer = max(1, int(len(chosen) * 0.95 * WIRE_BYTES / size))
        left_out += len(chosen) - fewer
        chosen = _widest(tree, chosen, fewer)


def _widest(tree: FlameTree, chosen: Array, number: int) -> Array:
    """The `number` widest of the chosen rows; of equally wide ones the first, so that every frame has its caller."""
    order = np.lexsort((tree.depth[chosen], -tree.total_weight[chosen]))
    return np.sort(chosen[order[:number]])


@dataclass(frozen=True, eq=False)
class _NameColumns:
    profile: Profile
    tree: FlameTree

    def columns(self, function: Array, kind: Array, longest: int) -> dict[str, list[Any]]:
        functions = functions_of(self.profile)
        is_label = function < 0
        labels = [self.tree.labels[-1 - f] for f in function[is_label].tolist()]
        real = function[~is_label]
        names = _interleave(is_label, labels, functions.names_of(real))
        modules = _interleave(is_label, [""] * len(labels), functions.modules_of(real))
        return {
            "id": function.tolist(),
            "name": [shorten_middle(name, longest) for name in names],
            "short": list_short_names(
                ["" if label else name for name, label in zip(names, is_label.tolist(), strict=True)], longest
            ),
            "module": [shorten_middle(module, longest) for module in modules],
            "kind": np.where(kind < 0, len(KIND_NAMES), kind).tolist(),
        }


def _interleave(first: Array, ones: list[str], others: list[str]) -> list[str]:
    one, other = iter(ones), iter(others)
    return [next(one) if is_first else next(other) for is_first in first.tolist()]


def _columns(tree: FlameTree, names: _NameColumns, chosen: Array, top: int, longest: int) -> dict[str, Any]:
    kinds = len(KIND_NAMES) + 1
    path = _path(tree, top)
    rows = np.concatenate((path, chosen))
    identity = tree.function[rows].astype(np.int64) * kinds + tree.kind[rows]
    _, first, which = np.unique(identity, return_index=True, return_inverse=True)
    functions = names.columns(tree.function[rows[first]], tree.kind[rows[first]], longest)
    nodes = {
        "id": tree.id[chosen].tolist(),
        "depth": (tree.depth[chosen] - tree.depth[top]).tolist(),
        "function": which[len(path) :].tolist(),
        "self": tree.self_weight[chosen].tolist(),
        "total": tree.total_weight[chosen].tolist(),
    }
    if tree.order is SiblingOrder.TIME:
        nodes["start"] = (tree.start[chosen] - tree.start[top]).tolist()
    data = {
        "event": tree.event,
        "unit": tree.unit,
        "total": tree.total,
        "zoom": _crumbs(tree, path, which[: len(path)].tolist(), functions["name"]),
        "functions": functions,
        "kinds": [*KIND_NAMES, GROUP_KIND],
        "nodes": nodes,
        "groups": tree.group is not FlameGroup.NONE,
        "group": tree.group.value,
    }
    if tree.values is not None:
        nodes["value"], nodes["shade"] = _values_of(tree.values, chosen)
        data["values"] = _describe(tree.values)
    if tree.base_self is not None and tree.base_total is not None:
        nodes["base_self"] = tree.base_self[chosen].tolist()
        nodes["base_total"] = tree.base_total[chosen].tolist()
        data["base"] = {
            "total": tree.base_weight,
            "measured": tree.base_measured,
            "reversed": tree.reversed,
            "evidence": [EVIDENCE_TEXTS.get(one, "") for one in FrameEvidence],
        }
        if tree.evidence is not None:
            nodes["evidence"] = tree.evidence[chosen].tolist()
    return data


def _values_of(values: FrameValues, rows: Array) -> tuple[list[float | None], list[int | None]]:
    """(values, shades) of frames; None is missing."""
    value = [float(f"{one:.6g}") if math.isfinite(one) else None for one in values.value[rows].tolist()]
    shade = [round(one * RAMP_STEPS) if math.isfinite(one) else None for one in values.place[rows].tolist()]
    return value, shade


def _describe(values: FrameValues) -> dict[str, Any]:
    """A formula and its scale as plain data; null is missing."""
    ends = {word: getattr(values, word) for word in ("low", "mean", "high")}
    return {
        "name": shorten_middle(values.name, MAX_SHORT_NAME_CHARACTERS),
        "unit": values.unit,
        "part": values.part,
        "log": values.is_log,
        "note": values.note,
        **{word: value if math.isfinite(value) else None for word, value in ends.items()},
    }


def _path(tree: FlameTree, top: int) -> Array:
    """The rows from the root to `top`, both included; the middle of a long path is omitted."""
    path = [top]
    while path[-1]:
        path.append(int(tree.parent[path[-1]]))
    path.reverse()
    if len(path) > MAX_BREADCRUMBS:
        path = path[: MAX_BREADCRUMBS // 10] + path[MAX_BREADCRUMBS // 10 - MAX_BREADCRUMBS :]
    return np.array(path)


def _crumbs(tree: FlameTree, path: Array, which: list[int], names: list[str]) -> list[dict[str, Any]]:
    columns = (tree.id[path].tolist(), tree.total_weight[path].tolist(), tree.depth[path].tolist(), which)
    crumbs = [
        {"id": i, "name": names[function], "total": total, "depth": depth, "function": function}
        for i, total, depth, function in zip(*columns, strict=True)
    ]
    if tree.values is not None:
        for crumb, value, shade in zip(crumbs, *_values_of(tree.values, path), strict=True):
            crumb |= {"value": value, "shade": shade}
    if tree.base_total is not None:
        for crumb, total in zip(crumbs, tree.base_total[path].tolist(), strict=True):
            crumb["base_total"] = total
    return crumbs


def _compressed_size(data: dict[str, Any]) -> int:
    """An upper bound of the compressed size: estimated per character, and if that is too large, measured."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
    if len(text) <= WIRE_BYTES:
        return len(text)
    return len(zlib.compress(text, 1))
