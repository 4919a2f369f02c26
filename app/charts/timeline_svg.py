"""A timeline as a static picture: SVG for browsers without scripts.

Names are untrusted: they are only used as text between tags, as `charts.flamegraph_svg` escapes it.
"""

from collections.abc import Collection, Sequence

from ..analysis.timeline.model import KINDS, Timeline
from ..analysis.timeline.track import TimelineTrack
from ..domain.profile import Profile
from ..domain.selection import Selection
from ..domain.units import format_axis_labels
from . import palette
from .flamegraph_svg import escape, fit_label
from .timeline import build_viewport, format_clipped, parse_bands

HEADER_HEIGHT, ROW_HEIGHT, GAP, LABEL_WIDTH, LINE_HEIGHT = 26, 16, 6, 170, 32
MAX_ROWS = 12
"""Rows of slices or stacks of one track; deeper ones are omitted."""
ALL_STACKED = "all"
MAX_BOXES = 4_000
MIN_BOX_PX = 0.5


def draw_timeline(
    profile: Profile,
    timeline: Timeline,
    selection: Selection,
    tracks: Sequence[TimelineTrack],
    start_ns: int,
    end_ns: int,
    width: int,
    theme: str = "system",
    stacked: Collection[str] = (),
) -> str:
    """The tracks from start to end. theme: system, light or dark. stacked: the keys of tracks that show the rows of
    their call stacks, `ALL_STACKED` for all."""
    room = width - LABEL_WIDTH
    bands: list[tuple[TimelineTrack, str, int]] = []
    for track in tracks:
        if track.kind in ("steps", "counter", "cpu"):
            bands.append((track, track.id, 1))
        elif track.rows:
            bands.append((track, f"{track.id}.0-{min(track.rows, MAX_ROWS) - 1}", min(track.rows, MAX_ROWS)))
        elif track.stacks > 1 and (ALL_STACKED in stacked or track.key in stacked):
            bands.append((track, f"{track.id}.k0-{min(track.stacks, MAX_ROWS) - 1}", min(track.stacks, MAX_ROWS)))
        elif track.lane:
            bands.append((track, f"{track.id}.l", 1))
        elif track.instants:
            bands.append((track, f"{track.id}.i", 1))
    parsed = parse_bands([text for _, text, _ in bands], profile, timeline)
    data = build_viewport(profile, timeline, selection, parsed, start_ns, end_ns, room // 2).data
    scale = room / (end_ns - start_ns)
    parts: list[str] = []
    y = HEADER_HEIGHT
    for track, text, rows in bands:
        band = data["bands"][text]
        hidden = format_clipped(track)
        about = f"<title>Not drawn because of overlap: {escape(hidden)}</title>" if hidden else ""
        # There are no headings of groups.
        name = f"{track.name}, {track.group}" if track.id.startswith("g") else track.name
        words = fit_label(f"{name} *" if hidden else name, LABEL_WIDTH - 12)
        parts.append(f'<text class="name" x="4" y="{y + 12}">{about}{escape(words)}</text>')
        if track.kind == "counter":
            parts.append(_line(track, band, data["unit_ns"] * scale, y))
            y += LINE_HEIGHT + GAP
            continue
        parts += _boxes(band, data["names"], data["unit_ns"] * scale, y, room)
        y += rows * ROW_HEIGHT + GAP
    partly = any(format_clipped(track) for track, _, _ in bands)
    begin, end = format_axis_labels((start_ns, end_ns), "ns")
    head = [
        f'<text x="{LABEL_WIDTH}" y="16">{escape(begin)}</text>',
        f'<text x="{width - 4}" y="16" text-anchor="end">{escape(end)}</text>',
        '<text x="4" y="16">* partly drawn</text>' if partly else "",
    ]
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" '
        f'viewBox="0 0 {width} {y}" role="img" aria-label="Timeline"><style>{_style(theme)}</style>'
        f'<rect class="ground" width="100%" height="100%"/>{"".join(head)}{"".join(parts)}</svg>'
    )


def _boxes(band: dict[str, list[int]], names: dict[str, list[object]], scale: float, y: int, room: int) -> list[str]:
    parts: list[str] = []
    at = 0
    for row, count in enumerate(band["rows"]):
        end = 0
        for n in range(at, at + count):
            begin = end + band["gap"][n]
            end = begin + band["length"][n]
            left, right = max(begin * scale, 0.0), min(end * scale, float(room))
            if len(parts) > MAX_BOXES:
                break
            place = band["name"][n]
            name, kind, shade = str(names["name"][place]), names["kind"][place], names["shade"][place]
            short = str(names["short"][place]) if names["short"] else ""
            text = fit_label(name, right - left, short)
            words = (
                f'<text x="{LABEL_WIDTH + left + 3:.1f}" y="{y + row * ROW_HEIGHT + 11}">{escape(text)}</text>'
                if text
                else ""
            )
            tip = f"<title>{escape(name)}</title>" if name else ""
            parts.append(
                f'<g>{tip}<rect class="k{kind}-{shade}" x="{LABEL_WIDTH + left:.1f}" y="{y + row * ROW_HEIGHT}" '
                f'width="{max(MIN_BOX_PX, right - left - 0.3):.1f}" height="{ROW_HEIGHT - 1}"/>{words}</g>'
            )
        at += count
    return parts


def _line(track: TimelineTrack, band: dict[str, list[float | None]], scale: float, y: int) -> str:
    low, high = min(track.low or 0.0, 0.0), track.high or 0.0
    span = (high - low) or 1.0
    points: list[str] = []
    x, last = 0.0, None
    for gap, value in zip(band["gap"], band["high"], strict=True):
        x += (gap or 0) * scale
        if value is None:
            continue
        height = y + LINE_HEIGHT - (value - low) / span * LINE_HEIGHT
        if last is not None:
            points.append(f"{LABEL_WIDTH + max(x, 0.0):.1f},{last:.1f}")
        points.append(f"{LABEL_WIDTH + max(x, 0.0):.1f},{height:.1f}")
        last = height
    return f'<polyline class="line" points="{" ".join(points)}"/>'


def _style(theme: str) -> str:
    def color_rules(of: palette.Theme) -> str:
        kinds = "".join(
            f".k{n}-{step}{{fill:{palette.shade_color(of.kinds.get(kind, of.kinds['unknown']), step)}}}"
            for n, kind in enumerate(KINDS)
            for step in range(palette.SHADE_COUNT)
        )
        return f".ground{{fill:{of.background}}}text{{fill:{of.text}}}.line{{fill:none;stroke:{of.text}}}{kinds}"

    common = "text{font:11px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre}"
    if theme == "system":
        return f"{common}{color_rules(palette.LIGHT)}@media (prefers-color-scheme:dark){{{color_rules(palette.DARK)}}}"
    return common + color_rules(palette.DARK if theme == "dark" else palette.LIGHT)
