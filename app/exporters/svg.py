"""Writes the flame graph as an SVG file."""

from collections.abc import Iterator, Mapping

from ..analysis.stacks.flamegraph import flame_tree
from ..charts.flamegraph_svg import FlameSvgStyle, write_svg
from ..domain.profile import Profile
from ..domain.selection import Selection

OPTIONS = {
    "flames": "draw callees above their callers, with the root at the bottom",
    "static": "omit the script: only a static picture",
}


def write(
    profile: Profile, selection: Selection, options: Mapping[str, bool], title: str | None = None
) -> Iterator[bytes]:
    """The flame graph of a selection as a file. options: OPTIONS. title: above it; default: the recorded command."""
    look = FlameSvgStyle(interactive=not options.get("static"), root_at_bottom=bool(options.get("flames")))
    tree = flame_tree(profile, selection, min_share=look.min_px / look.width)
    yield write_svg(tree, profile, title=title or profile.meta.command or "Flame graph", style=look).encode()
