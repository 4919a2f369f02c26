"""Which frames of call stacks a selection shows: hide, show and show-from, as pprof defines them.

In pprof (profile/filter.go, FilterSamplesByName, then ShowFrom), hide removes the frames that match, show those that
do not, and show_from then the callers of the outermost frame that matches. Stacks without remaining frames are dropped.
"""

import numpy as np

from ...domain.arrays import Array, BoolArray
from ...domain.profile import Profile
from ...domain.selection import FrameFilter
from ...domain.tables import ROOT, get_column
from .functions import match_functions
from .memo import memoize
from .trees import mark_subtrees


def simplify_filter(profile: Profile, frames: FrameFilter) -> FrameFilter:
    """The filter without patterns that remove nothing, so that equal trees are built once. Raises InvalidRequest."""
    hide, show = frames.hide, frames.show
    if hide is not None and not match_functions(profile, hide, "hide").any():
        hide = None
    if show is not None and match_functions(profile, show, "show").all():
        show = None
    return FrameFilter(hide, show, frames.show_from)


def visible_functions(profile: Profile, frames: FrameFilter) -> BoolArray | None:
    """Which rows of `functions` hide and show leave, as bools; None: all. Raises InvalidRequest."""
    visible: BoolArray | None = None
    if frames.hide is not None:
        visible = ~match_functions(profile, frames.hide, "hide")
    if frames.show is not None:
        matching = match_functions(profile, frames.show, "show")
        visible = matching if visible is None else visible & matching
    return visible


def shown_nodes(profile: Profile, frames: FrameFilter, function: Array, end: Array) -> BoolArray | None:
    """Which nodes of a tree of frames are shown, as bools; None: all. The root is never marked.

    function: the row of `functions` of each node (any at the root). end: where the subtree of each node ends, in
    preorder. Raises InvalidRequest.
    """
    visible = visible_functions(profile, frames)
    first = None if frames.show_from is None else match_functions(profile, frames.show_from, "show-from")
    if visible is None and first is None:
        return None
    if not profile.functions.num_rows:
        return np.zeros(len(end), bool)
    shown = np.ones(len(end), bool) if visible is None else visible[function]
    shown[:1] = False
    if first is not None:
        shown &= mark_subtrees(end, shown & first[function])
    return shown


def shown_calls(profile: Profile, frames: FrameFilter) -> BoolArray | None:
    """Which nodes of `calls` are shown, as bools; None: all. Raises InvalidRequest."""
    frames = simplify_filter(profile, frames)
    calls = profile.calls

    def build() -> BoolArray | None:
        return shown_nodes(profile, frames, get_column(calls, "function"), get_column(calls, "end"))

    return memoize(profile, ("shown calls", frames), build)


def shown_stacks(profile: Profile, frames: FrameFilter) -> BoolArray | None:
    """Which nodes of `stacks` are shown, as bools; None: all. Raises InvalidRequest."""
    frame, end = get_column(profile.stacks, "frame"), get_column(profile.stacks, "end")
    functions = get_column(profile.frames, "function")
    function = functions[frame] if len(functions) else np.zeros(len(frame), np.int32)
    return shown_nodes(profile, frames, function, end)


def with_root(shown: BoolArray) -> BoolArray:
    """`shown` of `shown_nodes`, with the root: for `nearest_ancestor`."""
    found = shown.copy()
    found[ROOT] = True
    return found
