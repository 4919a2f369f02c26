"""A flame graph as one SVG file without external resources. It opens in any viewer; in a browser, its script can zoom
and search.

Names are untrusted. They are only used as text between tags, with characters that are invalid in XML 1.0 replaced,
never in an attribute, style or script; the script is the same in every file.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from ..analysis.core.flame_groups import FlameGroup
from ..analysis.core.functions import functions_of
from ..analysis.stacks.flame_tree import EVIDENCE_TEXTS, FlameTree, FrameEvidence, FrameValues
from ..domain.arrays import Array, IndexArray
from ..domain.profile import Profile
from ..domain.symbols.short_names import shorten_symbol
from ..domain.tables import FrameKind
from ..domain.text import shorten
from ..domain.units import MISSING, format_percent, format_quantity, format_ratio
from . import palette

ROW_HEIGHT = 17
MARGIN = 10
SEARCH_WIDTH = 260
"""Width of the search field."""
TITLE_CHARACTER_WIDTH = 8.5
"""Width of a letter of a title."""
HEADER_HEIGHT = 58
FOOTER_HEIGHT = 28
CHARACTER_WIDTH = 6.6
"""Width of a character: six tenths of the font's size, as in every common monospaced font."""
MIN_LABEL_CHARACTERS = 3
MAX_NAME_CHARACTERS = 1_000
MIN_FRAME_PX = 0.1
MAX_FRAMES = 20_000
COLOR_MODES = ("kind", "module", "hot")
Link = Callable[[int], str]
"""The address for the frame with an id."""
# XML 1.0, production [2] Char; other characters are not allowed, not even as references. Direction marks are allowed,
# but would reorder the following text.
_FOREIGN = re.compile(
    "[^\t\n\r\u0020-\u007e\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
_SPACES = re.compile("[\t\n\r]")
KIND_TITLES = {
    "user": "user code",
    "kernel": "kernel",
    "jit": "JIT code",
    "inlined": "inlined",
    "python": "Python",
    "operator": "operator",
    "gpu_kernel": "GPU kernel",
    "runtime": "runtime call",
    "annotation": "annotation",
    "unknown": "unknown kind",
}
_GROUPS = {FlameGroup.NONE: "all", FlameGroup.COMM: "thread name"}
"""What the rows of labels are; other groups are named by their value."""


@dataclass(frozen=True)
class FlameSvgStyle:
    """How a graph is drawn. root_at_bottom: with the root at the bottom. color_mode: one of COLOR_MODES. theme: one of
    `palette.THEMES`.

    interactive: with a script. width: pixels. min_px: narrower frames are omitted, and more if there are more than
    `max_frames`.
    """

    interactive: bool = True
    width: int = 1200
    root_at_bottom: bool = False
    color_mode: str = "kind"
    theme: str = "system"
    min_px: float = MIN_FRAME_PX
    max_frames: int = MAX_FRAMES


@dataclass(frozen=True)
class _DrawnFrame:
    """A frame to draw: position in pixels, and its tooltip."""

    x: float
    y: int
    width: float
    name: str
    short: str
    tip: str
    fill: str
    above: bool
    data: str
    target: str | None


def write_svg(
    tree: FlameTree,
    profile: Profile,
    *,
    title: str,
    style: FlameSvgStyle | None = None,
    matches: Collection[int] = (),
    link: Link | None = None,
) -> str:
    """The SVG document.

    profile: whose functions the tree's are. title: above the graph. matches: rows of `functions` to be drawn
    as found. link: the address for the frame with this id, to be followed on a click (without a script).
    """
    style = style or FlameSvgStyle()
    rows = _select_rows(tree, style)
    depth = int(tree.depth[rows].max()) + 1 if len(rows) else 0
    names = _names(tree, profile, rows)
    fills = _FillClasses(tree, profile, rows, style, frozenset(matches))
    whole = _span(tree)
    left_out = tree.pruned + len(tree.id) - len(rows)
    frames = []
    for place, row in enumerate(rows.tolist()):
        above = row < tree.zoom
        start = 0 if above else int(tree.start[row] - tree.start[tree.zoom])
        weight = whole if above else int(tree.total_weight[row])
        level = int(tree.depth[row])
        frames.append(
            _DrawnFrame(
                x=MARGIN + start * _scale(whole, style),
                y=HEADER_HEIGHT + (depth - 1 - level if style.root_at_bottom else level) * ROW_HEIGHT,
                width=weight * _scale(whole, style),
                name=names[place][0],
                short=names[place][2],
                tip=_tip(tree, row, *names[place][:2]),
                fill=fills.of(place),
                above=above,
                data=f' data-s="{start}" data-w="{weight}" data-d="{level}"' if style.interactive else "",
                target=link(int(tree.id[row])) if link is not None else None,
            )
        )
    height = HEADER_HEIGHT + max(1, depth) * ROW_HEIGHT + FOOTER_HEIGHT
    summary = _summary(tree, whole, left_out)
    # First, because it has colors that frames need not have.
    legend = _legend(fills, height, tree.values)
    parts = [_opening(style, height, title, link is None), f"<style>{_style(fills, style, tree)}</style>"]
    parts.append('<rect class="ground" width="100%" height="100%"/>')
    parts.append(f'<text class="title" x="{MARGIN}" y="20">{escape(shorten(title, _room(style)))}</text>')
    parts.append(f'<text class="summary" x="{MARGIN}" y="38">{escape(summary)}</text>')
    if not whole:
        parts.append(
            f'<text class="summary" x="{MARGIN}" y="{HEADER_HEIGHT + 12}">The selection has no samples.</text>'
        )
    parts.append(f'<g id="frames" data-up="{int(style.root_at_bottom)}" data-rows="{depth}">')
    parts += [_drawn(frame) for frame in frames]
    parts.append("</g>")
    parts.append(legend)
    if style.interactive:
        parts.append(_controls(style))
        parts.append(f"<script>//<![CDATA[\n{_script()}\n//]]></script>")
    parts.append("</svg>\n")
    return "\n".join(parts)


def scale_labels(values: FrameValues) -> list[tuple[float, str]]:
    """(place from 0 to 1, label) of the ends and the middle of a scale; none without a scale."""
    if not values.low < values.high:
        return []
    low, mean, high = (format_ratio(one, values.unit) for one in (values.low, values.mean, values.high))
    kind = "logarithmic" if values.is_log else "linear"
    return [
        (0.0, f"{shorten(values.name, 40)} ({values.part}, {kind} scale): ≤ {low}"),
        (0.5, f"mean {mean}"),
        (1.0, f"≥ {high}"),
    ]


def escape(text: str) -> str:
    """`text` for use between tags or inside an attribute; characters that are invalid in XML become U+FFFD."""
    text = _FOREIGN.sub("\ufffd", text)
    for sign, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        text = text.replace(sign, entity)
    return text


def count_columns(text: str) -> int:
    """The width of a text in columns of a monospaced font: two for wide characters and for symbols."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in ("W", "F") or ord(c) >= 0x1F000 else 1 for c in text)


def fit_label(name: str, width: float, short: str = "") -> str:
    """A name shortened to `width` pixels without the padding: the short name if there is one, else with an ellipsis; ""
    if nothing fits."""
    room = int((width - 6) / CHARACTER_WIDTH)
    if room < MIN_LABEL_CHARACTERS:
        return ""
    if count_columns(name) <= room:
        return name
    name = short or name
    if count_columns(name) <= room:
        return name
    cut = name[: room - 1]
    while cut and count_columns(cut) > room - 1:
        cut = cut[:-1]
    # A cut after "<…" needs no second ellipsis.
    return cut.rstrip().rstrip("…") + "…" if len(cut) >= MIN_LABEL_CHARACTERS - 1 else ""


def _select_rows(tree: FlameTree, look: FlameSvgStyle) -> Array:
    """The rows to draw: the path to the zoomed frame, and the frames below it that are wide enough."""
    if not len(tree.id) or not _span(tree):
        return np.zeros(0, np.int64)
    weight = tree.total_weight[tree.zoom :]
    least = look.min_px / _scale(_span(tree), look)
    # Heaviest first, outer before inner, so that every frame has its caller.
    widest = np.argsort(-weight, kind="stable")[: look.max_frames]
    kept: IndexArray = np.sort(widest[(weight[widest] >= least) & (weight[widest] > 0)]) + tree.zoom
    return np.concatenate((np.arange(tree.zoom), kept))


def _span(tree: FlameTree) -> int:
    return int(tree.total_weight[tree.zoom]) if len(tree.id) else 0


def _scale(whole: int, look: FlameSvgStyle) -> float:
    return (look.width - 2 * MARGIN) / whole if whole else 0.0


def _names(tree: FlameTree, profile: Profile, rows: Array) -> list[tuple[str, str, str]]:
    """(name, description, short name if it differs) of each row, for display."""
    functions = functions_of(profile)
    names = []
    for row in rows.tolist():
        function = int(tree.function[row])
        if function < 0:
            names.append((_displayed_name(tree.labels[-1 - function]), "", ""))
        else:
            kind = KIND_TITLES[FrameKind(int(tree.kind[row])).name.lower()]
            origin = " · ".join(filter(None, (_displayed_name(functions.module_of(function)), kind)))
            name = functions.name_of(function)
            short = shorten_symbol(name)
            names.append((_displayed_name(name), origin, "" if short == name else _displayed_name(short)))
    return names


def _displayed_name(text: str) -> str:
    return _SPACES.sub(" ", _FOREIGN.sub("\ufffd", shorten(text, MAX_NAME_CHARACTERS)))


def _tip(tree: FlameTree, row: int, name: str, origin: str) -> str:
    unit, total, own = tree.unit, int(tree.total_weight[row]), int(tree.self_weight[row])
    lines = [name, origin] if origin else [name]
    if tree.values is not None:
        lines.append(f"{tree.values.name} ({tree.values.part}) {_value_text(tree.values, row)}")
    if tree.base_total is None or tree.base_self is None:
        lines.append(f"total {_share(total, tree.total)} ({format_quantity(total, unit).text})")
        # The self weights of frames above the zoomed one are unknown here.
        if row >= tree.zoom:
            lines.append(f"self {_share(own, tree.total)} ({format_quantity(own, unit).text})")
    else:
        if tree.evidence is not None and tree.evidence[row]:
            lines.append(EVIDENCE_TEXTS[FrameEvidence(tree.evidence[row])])
        base = int(tree.base_weight or 0)
        for word, here, there in (("total", total, tree.base_total[row]), ("self", own, tree.base_self[row])):
            shares = [_share(float(there), base), _share(here, tree.total)]
            in_base, in_other = reversed(shares) if tree.reversed else shares
            if row >= tree.zoom:
                lines.append(f"{word}: base {in_base}, other {in_other}")
    return "\n".join(lines)


def _value_text(values: FrameValues, row: int) -> str:
    value = float(values.value[row])
    text = format_ratio(value, values.unit)
    if values.is_log and value > 0:
        text += f", {format_ratio(value / values.mean, '')} × the mean"
    return text


def _share(part: float, whole: float) -> str:
    return format_percent(100 * part / whole if whole else None)


def _summary(tree: FlameTree, whole: int, left_out: int) -> str:
    parts = [f"{tree.event}: {format_quantity(tree.total, tree.unit).text}"]
    if whole and whole != tree.total:
        parts.append(f"zoomed to {_share(whole, tree.total)}")
    if left_out:
        parts.append(f"{left_out:,} narrower frame{'s' if left_out != 1 else ''} omitted")
    return ", ".join(parts)


class _FillClasses:
    """The color class of each drawn row; classes are created on first use."""

    def __init__(
        self, tree: FlameTree, profile: Profile, rows: Array, look: FlameSvgStyle, matches: frozenset[int]
    ) -> None:
        self._tree, self._rows, self._matches = tree, rows, matches
        self._functions = functions_of(profile)
        self.classes: dict[tuple[str, str], str] = {}
        self.legend: dict[str, str] = {}
        self._mode = "difference" if tree.base_total is not None else "values" if tree.values else look.color_mode
        self._most = float(tree.self_weight[tree.zoom :].max()) if len(tree.id) else 0.0
        self._slots = self._module_slots() if self._mode == "module" else {}

    def of(self, place: int) -> str:
        """The class of the drawn row at this index; "m" for a search match."""
        row = int(self._rows[place])
        function = int(self._tree.function[row])
        if function >= 0 and function in self._matches:
            self.legend.setdefault("match", "m")
            return "m"
        colors, label = self._color_variants(row, function)
        name = self.classes.setdefault(colors, f"c{len(self.classes)}")
        if label:
            self.legend.setdefault(label, name)
        return name

    def ramp_class(self, at: float) -> str:
        """The class of a color of the diverging ramp, at 0 to 1."""
        light, dark = (palette.mix_colors(theme.diff, at) for theme in (palette.LIGHT, palette.DARK))
        return self.classes.setdefault((light, dark), f"c{len(self.classes)}")

    def _color_variants(self, row: int, function: int) -> tuple[tuple[str, str], str]:
        themes = (palette.LIGHT, palette.DARK)
        tree = self._tree
        if self._mode == "difference" and tree.base_total is not None:
            if tree.evidence is not None and tree.evidence[row]:
                return (themes[0].too_few_samples, themes[1].too_few_samples), ""
            relative_change = palette.relative_change(float(tree.total_weight[row]), float(tree.base_total[row]))
            at = round((1 - relative_change if tree.reversed else 1 + relative_change) * palette.RAMP_STEPS) / (
                2 * palette.RAMP_STEPS
            )
            light, dark = (palette.mix_colors(theme.diff, at) for theme in themes)
            return (light, dark), ""
        if self._mode == "values" and tree.values is not None:
            place = float(tree.values.place[row])
            if math.isnan(place):
                return (themes[0].too_few_samples, themes[1].too_few_samples), f"{MISSING} no value"
            at = (round(place * palette.RAMP_STEPS) / palette.RAMP_STEPS + 1) / 2
            light, dark = (palette.mix_colors(theme.diff, at) for theme in themes)
            return (light, dark), ""
        if self._mode == "hot":
            share = (float(tree.self_weight[row]) / self._most) ** 0.5 if self._most > 0 else 0.0
            light, dark = (palette.mix_colors(theme.hot, round(share * 63) / 63) for theme in themes)
            return (light, dark), ""
        if function < 0:
            light, dark = (palette.shade_color(theme.kinds[palette.GROUP_KIND], 0) for theme in themes)
            return (light, dark), _GROUPS.get(tree.group, tree.group.value)
        if self._mode == "module":
            module = palette.module_name(self._functions.module_of(function))
            light, dark = (theme.modules[self._slots[module]] for theme in themes)
            return (light, dark), shorten(_displayed_name(module), 40)
        kind = FrameKind(int(tree.kind[row])).name.lower()
        step = palette.fnv1a(self._functions.name_of(function)) % palette.SHADE_COUNT
        light, dark = (palette.shade_color(theme.kinds[kind], step) for theme in themes)
        return (light, dark), KIND_TITLES[kind]

    def _module_slots(self) -> dict[str, int]:
        weight: dict[str, float] = {}
        for row in self._rows.tolist():
            function = int(self._tree.function[row])
            if function >= 0:
                module = palette.module_name(self._functions.module_of(function))
                weight[module] = weight.get(module, 0) + float(self._tree.self_weight[row])
        return palette.assign_module_colors(sorted(weight, key=lambda module: (-weight[module], module)))


def _room(look: FlameSvgStyle) -> int:
    """The number of characters of a title that fit next to the search field, if any."""
    return int((look.width - 2 * MARGIN - (SEARCH_WIDTH + MARGIN if look.interactive else 0)) / TITLE_CHARACTER_WIDTH)


def _opening(look: FlameSvgStyle, height: int, title: str, scales: bool) -> str:
    # With links, it is in a frame of a page, which would shrink it to the height of the frame.
    box = f' viewBox="0 0 {look.width} {height}"' if scales else ""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="{look.width}" '
        f'height="{height}"{box} role="img" aria-label="{escape(shorten(title, 200))}">'
    )


def _style(fills: _FillClasses, look: FlameSvgStyle, tree: FlameTree) -> str:
    is_difference = tree.base_total is not None or tree.values is not None
    common = (
        "text{font:11px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre}"
        ".title{font-size:14px;font-weight:bold}.f text{pointer-events:none}.f:hover rect{stroke:currentcolor}"
        ".up{opacity:.55}a{cursor:pointer}"
    )
    if look.interactive:
        common += (
            ".f{cursor:pointer}.hidden{display:none}.m2 rect{fill:var(--match)!important}"
            ".m2 text{fill:var(--match-text)!important}.button{cursor:pointer;text-decoration:underline}"
            "input{box-sizing:border-box;width:100%;height:22px;font:11px monospace;padding:0 4px}"
            "input:invalid{outline:2px solid #c22823}"
        )

    def theme(colors: palette.Theme, which: int) -> str:
        text = colors.diff_text if is_difference else colors.text
        ground = colors.background
        words = colors.diff_text if is_difference and which == 0 else colors.text
        rules = [
            f"svg{{color-scheme:{('light', 'dark')[which]};color:{words};background:{ground};"
            f"--match:{colors.match};--match-text:{colors.match_text}}}",
            f".ground{{fill:{ground}}}text{{fill:{words}}}.f text{{fill:{text}}}.m{{fill:{colors.match}}}",
        ]
        rules += [f".{name}{{fill:{pair[which]}}}" for pair, name in fills.classes.items()]
        return "".join(rules)

    light, dark = theme(palette.LIGHT, 0), theme(palette.DARK, 1)
    if look.theme == "system":
        return f"{common}{light}@media (prefers-color-scheme:dark){{{dark}}}"
    return common + (dark if look.theme == "dark" else light)


def _drawn(frame: _DrawnFrame) -> str:
    text = fit_label(frame.name, frame.width, frame.short)
    # textLength is set, so that no label exceeds its frame in any font.
    words = (
        f'<text x="{_px(frame.x + 3)}" y="{frame.y + 12}" textLength="{_px(count_columns(text) * CHARACTER_WIDTH)}" '
        f'lengthAdjust="spacingAndGlyphs">{escape(text)}</text>'
        if text
        else ""
    )
    # The script shows it in frames that are too narrow for the name.
    short = f"<desc>{escape(frame.short)}</desc>" if frame.short and frame.data else ""
    body = (
        f"<title>{escape(frame.tip)}</title>{short}"
        f'<rect class="{frame.fill}" x="{_px(frame.x)}" y="{frame.y}" width="{_px(max(0.1, frame.width - 0.5))}" '
        f'height="{ROW_HEIGHT - 1}"/>{words}'
    )
    css = "f up" if frame.above else "f"
    group = f'<g class="{css}"{frame.data}>{body}</g>'
    return f'<a href="{escape(frame.target)}" target="_top">{group}</a>' if frame.target is not None else group


def _px(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _legend(fills: _FillClasses, height: int, values: FrameValues | None) -> str:
    parts = ['<g class="legend">']
    x = float(MARGIN)
    if values is not None:
        for at, label in scale_labels(values):
            name = fills.ramp_class(at)
            parts.append(f'<rect class="{name}" x="{_px(x)}" y="{height - 19}" width="10" height="10"/>')
            parts.append(f'<text x="{_px(x + 14)}" y="{height - 10}">{escape(label)}</text>')
            x += 14 + count_columns(label) * CHARACTER_WIDTH + 16
    for label, name in fills.legend.items():
        parts.append(f'<rect class="{name}" x="{_px(x)}" y="{height - 19}" width="10" height="10"/>')
        parts.append(f'<text x="{_px(x + 14)}" y="{height - 10}">{escape(label)}</text>')
        x += 14 + count_columns(label) * CHARACTER_WIDTH + 16
    return "".join(parts) + "</g>"


def _controls(look: FlameSvgStyle) -> str:
    """Search field and buttons; the script positions and enables them."""
    right = look.width - MARGIN
    return (
        f'<text id="reset" class="button hidden" x="{MARGIN}" y="53" role="button" tabindex="0">Reset zoom</text>'
        f'<text id="matched" class="summary" x="{right}" y="53" text-anchor="end"></text>'
        f'<foreignObject id="search" class="hidden" x="{right - SEARCH_WIDTH}" y="8" '
        f'width="{SEARCH_WIDTH}" height="26">'
        '<input xmlns="http://www.w3.org/1999/xhtml" type="search" placeholder="Search (regular expression)" '
        'aria-label="Search: regular expression" spellcheck="false"/></foreignObject>'
    )


@cache
def _script() -> str:
    return resources.files(__package__).joinpath("flamegraph_svg.js").read_text("utf-8")
