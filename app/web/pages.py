"""The pages of a result: their order, which have data for a profile, and links that keep the selection.

To add a page: a row in `RESULT_PAGES`, a view `/results/<id>/<key>` in app/web/views, a template that extends
results/_layout.html. Selection bar, tabs and links are derived from it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, urlencode

from ..analysis.advice.cpu_detectors import has_cpu_samples
from ..analysis.core.facts import has_pytorch_terms
from ..analysis.core.slice_selection import has_clock, has_operators, has_times
from ..analysis.distributed.collectives import has_communication
from ..analysis.formulas.resolution import has_formulas
from ..analysis.memory.allocations import has_memory
from ..analysis.ml.modules import has_modules
from ..analysis.nsight.reports import has_reports
from ..analysis.ratios.metrics import has_ratios
from ..analysis.source.code_index import has_addresses
from ..analysis.stacks.branches import has_branches
from ..analysis.timeline.heat_map import has_heat_map
from ..analysis.topdown.models import has_topdown
from ..domain.profile import Profile
from ..domain.selection import PATTERN_FIELDS, Selection
from ..domain.units import TIME_UNIT_PARAMETER, format_duration, get_time_unit

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class ResultPage:
    """A page of a result. key: the last part of its address, empty for the overview.

    has_data: whether a profile has data for it. uses_selection: whether the selection applies. shows_all_events:
    without a selected event it shows all events, unlike other pages, which show the main event. shows_event: whether it
    depends on the event. takes_formulas: whether a formula can be shown instead of it.
    """

    key: str
    title: str
    has_data: Callable[[Profile], bool]
    uses_selection: bool = True
    shows_all_events: bool = False
    shows_event: bool = True
    takes_formulas: bool = False


def _always(profile: Profile) -> bool:
    return True


def _has_samples(profile: Profile) -> bool:
    return bool(profile.samples.num_rows)


def _has_timeline(profile: Profile) -> bool:
    if profile.slices.num_rows and not has_clock(profile):
        return False
    if any(t.num_rows for t in (profile.slices, profile.instants, profile.counters)):
        return True
    return _has_samples(profile) and has_times(profile)


def _has_threads(profile: Profile) -> bool:
    return bool(profile.threads.num_rows or profile.ranks.num_rows > 1)


def _has_values(profile: Profile) -> bool:
    return bool(profile.samples.num_rows or profile.counts.num_rows or profile.count_metrics.num_rows)


def _has_steps(profile: Profile) -> bool:
    return bool(profile.steps.num_rows)


def _has_device_work(profile: Profile) -> bool:
    return bool(profile.device_work.num_rows)


def _has_clocked_work(profile: Profile) -> bool:
    return _has_device_work(profile) and has_clock(profile)


def _has_advice(profile: Profile) -> bool:
    """The rules for traces concern training and inference on devices, and PyTorch."""
    is_trace = has_clock(profile) and (has_pytorch_terms(profile) or _has_device_work(profile))
    return is_trace or has_cpu_samples(profile)


def _has_losses(profile: Profile) -> bool:
    return bool(profile.losses.num_rows) or not profile.meta.complete


RESULT_PAGES = (
    ResultPage("", "Overview", _always),
    ResultPage("advice", "Advice", _has_advice, shows_event=False),
    ResultPage("flamegraph", "Flame graph", _has_samples),
    ResultPage("timeline", "Timeline", _has_timeline, takes_formulas=True),
    ResultPage("hotspots", "Hotspots", _has_samples, takes_formulas=True),
    ResultPage("tree", "Call tree", _has_samples, takes_formulas=True),
    ResultPage("source", "Source", has_addresses),
    ResultPage("branches", "Branches", has_branches),
    ResultPage("heatmap", "Heat map", has_heat_map),
    ResultPage("steps", "Steps", _has_steps, shows_event=False),
    ResultPage("operators", "Operators", has_operators, shows_event=False),
    ResultPage("kernels", "Kernels", _has_device_work, shows_event=False),
    ResultPage("nsight", "Nsight Compute", has_reports, uses_selection=False, shows_event=False),
    ResultPage("modules", "Modules", has_modules, shows_event=False),
    ResultPage("critical-path", "Critical path", _has_clocked_work, shows_event=False),
    ResultPage("communication", "Communication", has_communication, shows_event=False),
    ResultPage("memory", "Memory", has_memory, shows_event=False),
    ResultPage("counts", "Event counts", _has_values, shows_all_events=True, takes_formulas=True),
    ResultPage("formulas", "Formulas", has_formulas, shows_event=False),
    ResultPage("topdown", "Top-down", has_topdown, shows_event=False),
    ResultPage("ratios", "Ratios", has_ratios),
    ResultPage("threads", "Threads", _has_threads, takes_formulas=True),
    ResultPage("matrix", "Matrix", _has_samples, takes_formulas=True),
    ResultPage("losses", "Losses", _has_losses, uses_selection=False),
    ResultPage("export", "Export", _always, shows_all_events=True),
)


@dataclass(frozen=True)
class Chip:
    """One restriction of a selection. remove: the address of the same page without it."""

    label: str
    value: str
    remove: str


def with_query(path: str, pairs: Pairs) -> str:
    """`path` with `pairs` as its query string."""
    return f"{path}?{urlencode(pairs)}" if pairs else path


def join_query(path: str, *parts: str) -> str:
    """`path` with these encoded parts as its query string; empty ones are left out."""
    query = "&".join(part for part in parts if part)
    return f"{path}?{query}" if query else path


def target_url(name: str, subpage: str = "") -> str:
    """The address of a target's page, or of one below it."""
    return f"/targets/{quote(name, safe='')}" + (f"/{subpage}" if subpage else "")


def result_url(id: str, key: str = "", selection: Selection | None = None, extra: Pairs | None = None) -> str:
    """The address of a page of a result with the selection and the time unit, then the parameters `extra` of that
    page."""
    path = f"/results/{id}/{key}" if key else f"/results/{id}"
    words = list(extra or [])
    unit = get_time_unit()
    if unit and all(word != TIME_UNIT_PARAMETER for word, _ in words):
        words.append((TIME_UNIT_PARAMETER, unit))
    return join_query(path, _encode_selection(selection or Selection()), urlencode(words))


@lru_cache(64)
def _encode_selection(selection: Selection) -> str:
    """Encoded once: a page has many links with the same selection."""
    return urlencode(selection.to_query())


def selection_chips(selection: Selection, url: Callable[[Selection], str]) -> tuple[Chip, ...]:
    """The filters of a selection except event and direction, each with a link to remove it. url: of a selection, on
    this page."""
    chips = [
        Chip(label, key, url(selection.replace(**{field: tuple(other for other in keys if other != key)})))
        for label, field, keys in (
            ("Thread", "threads", selection.threads),
            ("Process", "processes", selection.processes),
            ("Host", "hosts", selection.hosts),
        )
        for key in keys
    ]
    for low, high in selection.ranks:
        rest = tuple(pair for pair in selection.ranks if pair != (low, high))
        chips.append(Chip("Rank", str(low) if low == high else f"{low}–{high}", url(selection.replace(ranks=rest))))
    if selection.start_ns is not None or selection.end_ns is not None:
        chips.append(Chip("Time", _window(selection), url(selection.replace(start_ns=None, end_ns=None))))
    if selection.step is not None:
        chips.append(Chip("Step", selection.step, url(selection.replace(step=None))))
    for pattern in selection.focuses:
        others = selection.with_focuses(other for other in selection.focuses if other != pattern)
        chips.append(Chip("Focus", pattern, url(others)))
    for word, field in PATTERN_FIELDS.items():
        pattern = getattr(selection, field)
        if pattern is not None and word != "focus":
            label = word.replace("-", " ").capitalize()
            chips.append(Chip(label, pattern, url(selection.replace(**{field: None}))))
    if selection.invert:
        chips.append(Chip("Direction", "callers", url(selection.replace(invert=False))))
    if selection.recursion:
        chips.append(Chip("Recursion", "collapsed", url(selection.replace(recursion=False))))
    return tuple(chips)


def _window(selection: Selection) -> str:
    start, end = selection.start_ns, selection.end_ns
    if end is None:
        return f"from {format_duration(start or 0)}"
    return f"{format_duration(start or 0)} – {format_duration(end)}"
