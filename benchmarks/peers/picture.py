"""Bar charts and a growth curve as SVG, readable on light and dark backgrounds."""

from collections.abc import Sequence
from html import escape

WIDTH, ROW, TEXT, END = 760, 24, 270, 110
LABEL_WIDTH = 40
_STYLE = (
    "<style>text{font:13px system-ui,sans-serif;fill:#24292f}.ours{fill:#1f6feb}.peer{fill:#8c959f}"
    ".line{fill:none;stroke:#1f6feb;stroke-width:2}.axis{stroke:#8c959f;fill:none}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}}</style>"
)


def draw_bars(title: str, rows: Sequence[tuple[str, float, str, bool]]) -> str:
    """Horizontal bars. rows: (name, length, label at the end, whether it is Perfloom)."""
    longest = max((length for _, length, _, _ in rows), default=1.0) or 1.0
    height = ROW * (len(rows) + 1) + 8
    parts = [f'<text x="0" y="16" font-weight="600">{escape(title)}</text>']
    for number, (name, length, label, ours) in enumerate(rows, 1):
        width = max(1.0, (WIDTH - TEXT - END) * length / longest)
        y = number * ROW
        parts.append(f'<text x="{TEXT - 8}" y="{y + 17}" text-anchor="end">{escape(name)}</text>')
        kind = "ours" if ours else "peer"
        parts.append(f'<rect class="{kind}" x="{TEXT}" y="{y + 4}" width="{width:.1f}" height="{ROW - 7}"/>')
        parts.append(f'<text x="{TEXT + width + 6:.1f}" y="{y + 17}">{escape(label)}</text>')
    return _wrap(height, parts)


def draw_growth(title: str, points: Sequence[tuple[float, float]], unit: str) -> str:
    """Seconds over megabytes, from the origin. points: (megabytes, seconds)."""
    height, left, bottom = 300, 60, 260
    most_x, most_y = max(x for x, _ in points), max(y for _, y in points)

    def place(x: float, y: float) -> tuple[float, float]:
        return left + (WIDTH - left - 90) * x / most_x, bottom - (bottom - 40) * y / most_y

    parts = [f'<text x="0" y="16" font-weight="600">{escape(title)}</text>']
    parts.append(f'<path class="axis" d="M{left} 30V{bottom}H{WIDTH - 60}"/>')
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(0, 0), *(place(*point) for point in points)))
    parts.append(f'<polyline class="line" points="{corners}"/>')
    free_from = 0.0
    for megabytes, seconds in sorted(points):
        x, y = place(megabytes, seconds)
        parts.append(f'<circle class="ours" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
        if x < free_from:
            # Its texts would be over those of the point before; the table below has them.
            continue
        free_from = x + LABEL_WIDTH
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{megabytes:,.0f}</text>')
        parts.append(f'<text x="{x:.1f}" y="{y - 9:.1f}" text-anchor="middle">{seconds:.1f} s</text>')
    parts.append(f'<text x="{WIDTH - 55}" y="{bottom + 18}">{escape(unit)}</text>')
    return _wrap(height, parts)


def _wrap(height: int, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
    return head + _STYLE + "".join(parts) + "</svg>\n"
