"""Colors of flame graph frames.

static/css/flamegraph.css (light) and dark.css have the same values for the page, and
static/js/charts/flamegraph/palette.js the same choice of shade, so that the page and the SVG are equal; a test checks
this.
"""

from collections.abc import Iterable
from dataclasses import dataclass

SHADE_COUNT = 12
MODULE_COLOR_COUNT = 16
RAMP_STEPS = 64
GROUP_KIND = "group"
THEMES = ("system", "light", "dark")


@dataclass(frozen=True)
class Theme:
    """The colors of one theme, as #rrggbb.

    kinds: the two ends of a kind's shades. hot: from no self weight to the most. diff: less, the same, more;
    too_few_samples: too few samples to compare. text: on frames; diff_text: on those of a difference. background:
    behind frames.
    """

    kinds: dict[str, tuple[str, str]]
    modules: tuple[str, ...]
    hot: tuple[str, ...]
    diff: tuple[str, str, str]
    too_few_samples: str
    match: str
    text: str
    match_text: str
    diff_text: str
    background: str


LIGHT = Theme(
    kinds={
        "user": ("#faa498", "#fbde83"),
        "kernel": ("#f68c26", "#fba02d"),
        "jit": ("#81d584", "#a2e694"),
        "inlined": ("#72dee4", "#95ede9"),
        "python": ("#a0baf2", "#b7d4f9"),
        "operator": ("#cbafed", "#d8ccf7"),
        "gpu_kernel": ("#c5db60", "#e0e77d"),
        "runtime": ("#f0b3d2", "#f8cbe2"),
        "annotation": ("#dcc6a0", "#e8d8bb"),
        "communication": ("#ff9c78", "#ffb598"),
        "memory": ("#7bd6c2", "#a3e6d7"),
        "unknown": ("#bcbec1", "#d2d4d7"),
        "group": ("#bccdde", "#ccd9e8"),
    },
    modules=(
        "#ffaaaa",
        "#55c8b0",
        "#f4ace4",
        "#96c076",
        "#c6bbff",
        "#cfad59",
        "#88cfff",
        "#ec9978",
        "#61dde3",
        "#e993b1",
        "#8bdda8",
        "#c99ce3",
        "#cbce77",
        "#92aff8",
        "#f9b879",
        "#54c0e3",
    ),
    hot=("#faf3e5", "#f9d7af", "#feb580", "#ff8d5f", "#ff5e54"),
    diff=("#559fef", "#f3f3ee", "#fc5855"),
    too_few_samples="#c9ced6",
    match="#f050f0",
    text="#16181d",
    match_text="#16181d",
    diff_text="#16181d",
    background="#ffffff",
)
DARK = Theme(
    kinds={
        "user": ("#8d3a2f", "#7b5f06"),
        "kernel": ("#a94e00", "#ad5c00"),
        "jit": ("#1f652f", "#3b7635"),
        "inlined": ("#00646d", "#117878"),
        "python": ("#3b539a", "#3f6aa1"),
        "operator": ("#694191", "#7159a0"),
        "gpu_kernel": ("#566213", "#6b6e18"),
        "runtime": ("#7c3358", "#86456b"),
        "annotation": ("#57482f", "#67573d"),
        "communication": ("#8c3a1c", "#95492d"),
        "memory": ("#0c5f54", "#1d6e63"),
        "unknown": ("#45484c", "#55585d"),
        "group": ("#39495a", "#475768"),
    },
    modules=(
        "#81393b",
        "#007b68",
        "#733b68",
        "#527535",
        "#524785",
        "#816512",
        "#145786",
        "#985438",
        "#006268",
        "#964f69",
        "#136239",
        "#7d5792",
        "#565700",
        "#4f66a3",
        "#774500",
        "#007592",
    ),
    hot=("#3c342a", "#5a3b1c", "#7b3c0a", "#9f3606", "#c22823"),
    diff=("#559fef", "#e5e5e0", "#fc5855"),
    too_few_samples="#8b919b",
    match="#b800b8",
    text="#f7f7f8",
    match_text="#f7f7f8",
    diff_text="#16181d",
    background="#1b1e24",
)


def fnv1a(text: str) -> int:
    """32-bit FNV-1a over the UTF-8 bytes of a text (Fowler, Noll, Vo; draft-eastlake-fnv)."""
    value = 0x811C9DC5
    for byte in text.encode("utf-8", "replace"):
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def module_name(module: str) -> str:
    """The last part of a module's path, for colors and lists by module."""
    return module.rstrip("/").split("/")[-1] or "[unknown]"


def assign_module_colors(modules: Iterable[str]) -> dict[str, int]:
    """The color index of each module, with modules sorted by weight: by its hash, or the next free one."""
    slots: dict[str, int] = {}
    taken: set[int] = set()
    for name in map(module_name, modules):
        if name in slots:
            continue
        slot = fnv1a(name) % MODULE_COLOR_COUNT
        while slot in taken and len(taken) < MODULE_COLOR_COUNT:
            slot = (slot + 1) % MODULE_COLOR_COUNT
        taken.add(slot)
        slots[name] = slot
    return slots


def shade_color(ends: tuple[str, str], step: int) -> str:
    """Shade `step` of a kind."""
    return mix_colors(ends, step / (SHADE_COUNT - 1))


def mix_colors(stops: tuple[str, ...], at: float) -> str:
    """The color at `at` (0–1) of a ramp through `stops`."""
    place = min(1.0, max(0.0, at)) * (len(stops) - 1)
    low = min(len(stops) - 2, int(place))
    part = place - low
    # Like Math.round in the page: halves round up.
    ends = zip(_rgb(stops[low]), _rgb(stops[low + 1]), strict=True)
    channels = (int(a * (1 - part) + b * part + 0.5) for a, b in ends)
    return "#" + "".join(f"{channel:02x}" for channel in channels)


def relative_change(now: float, before: float) -> float:
    """The change from `before` to `now`, from -1 (vanished) over 0 (the same) to 1 (new)."""
    larger = max(now, before)
    return (now - before) / larger if larger > 0 else 0.0


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)
