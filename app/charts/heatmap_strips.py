"""A share over time or steps: as an area, or as a strip of cells whose opacity shows the share.

SVG without script or inline style that stretches to its box in the page. The title of a cell has its value, and cells
can be links. Colors come from static/css/trace.css by class.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from .svg import add_element, strip_invalid_xml

WIDTH, HEIGHT = 1000, 100
MIN_OPACITY = 0.08
"""Minimum opacity of a cell that is not 0."""


@dataclass(frozen=True)
class HeatmapCell:
    """A range from start to end with a share (0 to 1), None if unknown. second_share: another share, drawn as a line in
    an area. url: of its link; empty for none. uncertain: drawn as an outline."""

    start: float
    end: float
    share: float | None
    title: str
    second_share: float | None = None
    url: str = ""
    uncertain: bool = False


def draw_area(title: str, cells: Sequence[HeatmapCell], start: float, end: float) -> str:
    """The shares as an area from 0 to 1 between two ends, the second ones as a line."""
    svg, scale = _svg(title, "strips-area"), WIDTH / (end - start) if end > start else 0.0
    filled: list[str] = []
    line: list[str] = []
    drawn_to = start - 1
    for cell in cells:
        left, right = (cell.start - start) * scale, (cell.end - start) * scale
        if cell.share is not None:
            filled.append(f"M{left:.2f} {HEIGHT}V{_high(cell.share)}H{right:.2f}V{HEIGHT}Z")
        if cell.second_share is not None:
            from_ = (
                f"V{_high(cell.second_share)}" if cell.start == drawn_to else f"M{left:.2f} {_high(cell.second_share)}"
            )
            line.append(f"{from_}H{right:.2f}")
            drawn_to = cell.end
    for drawn, css in ((filled, "strips-fill"), (line, "strips-line")):
        if drawn:
            add_element(svg, "path", {"d": "".join(drawn), "class": css})
    for cell in cells:
        _cell(svg, cell, (cell.start - start) * scale, (cell.end - cell.start) * scale, {"class": "strips-touch"})
    return ElementTree.tostring(svg, encoding="unicode")


def draw_heatmap_strip(title: str, cells: Sequence[HeatmapCell], start: float, end: float) -> str:
    """The shares as cells of one height between two ends; unknown values are blank."""
    svg, scale = _svg(title, "strips-cells"), WIDTH / (end - start) if end > start else 0.0
    for cell in cells:
        if cell.share is None:
            continue
        strength = 0.0 if cell.share <= 0 else MIN_OPACITY + (1 - MIN_OPACITY) * min(1.0, cell.share)
        css = "strips-cell strips-unsure" if cell.uncertain else "strips-cell"
        shown = {"class": css, "fill-opacity": f"{strength:.3f}"}
        _cell(svg, cell, (cell.start - start) * scale, (cell.end - cell.start) * scale, shown)
    return ElementTree.tostring(svg, encoding="unicode")


def _cell(svg: ElementTree.Element, cell: HeatmapCell, x: float, wide: float, more: dict[str, str]) -> None:
    # Not reached with the Tab key.
    linked = {"href": cell.url, "aria-label": strip_invalid_xml(cell.title), "tabindex": "-1"}
    parent = add_element(svg, "a", linked) if cell.url else svg
    box = {"x": f"{x:.2f}", "y": "0", "width": f"{wide:.2f}", "height": str(HEIGHT)}
    add_element(add_element(parent, "rect", box | more), "title", {}).text = strip_invalid_xml(cell.title)


def _high(share: float) -> str:
    return f"{HEIGHT * (1 - min(1.0, max(0.0, share))):.2f}"


def _svg(title: str, css: str) -> ElementTree.Element:
    # Not role="img", because images must not contain links.
    svg = add_element(None, "svg", {"xmlns": "http://www.w3.org/2000/svg", "class": f"strips {css}", "role": "group"})
    svg.set("viewBox", f"0 0 {WIDTH} {HEIGHT}")
    svg.set("preserveAspectRatio", "none")
    add_element(svg, "title", {}).text = strip_invalid_xml(title)
    found: ElementTree.Element = svg
    return found
