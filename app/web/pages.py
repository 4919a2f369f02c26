"""The pages of a result: which there are, which a profile has data for, and how the selection goes between them.

To add a page: a row in `RESULT_PAGES`, a view `/results/<id>/<key>` in app/web/views, a template that extends
results/_layout.html. Bar, tabs and links follow from here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from ..analysis.core.slices import has_clock, has_operators, has_times
from ..analysis.core.told import by_pytorch
from ..analysis.distributed.collectives import communicates
from ..analysis.memory.allocations import has_memory
from ..analysis.ml.modules import has_modules
from ..analysis.nsight.reports import has_reports
from ..domain.profile import Profile
from ..domain.selection import Selection
from ..domain.units import UNIT_WORD, chosen_time_unit, duration

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class ResultPage:
    """A page of a result. key: the last word of its address, empty for the overview.

    has_data: whether a profile has something for it. narrows: whether it obeys the selection. all_events: without an
    event it shows every one, where others show the main event. by_event: whether it shows an event at all.
    """

    key: str
    title: str
    has_data: Callable[[Profile], bool]
    narrows: bool = True
    all_events: bool = False
    by_event: bool = True


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
    """The rules are of training and inference on devices, and of PyTorch."""
    return has_clock(profile) and (by_pytorch(profile) or _has_device_work(profile))


def _has_losses(profile: Profile) -> bool:
    return bool(profile.losses.num_rows) or not profile.meta.complete


RESULT_PAGES = (
    ResultPage("", "Overview", _always),
    ResultPage("advice", "Advice", _has_advice, by_event=False),
    ResultPage("flamegraph", "Flame graph", _has_samples),
    ResultPage("timeline", "Timeline", _has_timeline),
    ResultPage("hotspots", "Hotspots", _has_samples),
    ResultPage("steps", "Steps", _has_steps, by_event=False),
    ResultPage("operators", "Operators", has_operators, by_event=False),
    ResultPage("kernels", "Kernels", _has_device_work, by_event=False),
    ResultPage("nsight", "Nsight Compute", has_reports, narrows=False, by_event=False),
    ResultPage("modules", "Modules", has_modules, by_event=False),
    ResultPage("critical-path", "Critical path", _has_clocked_work, by_event=False),
    ResultPage("communication", "Communication", communicates, by_event=False),
    ResultPage("memory", "Memory", has_memory, by_event=False),
    ResultPage("counts", "Event counts", _has_values, all_events=True),
    ResultPage("threads", "Threads", _has_threads),
    ResultPage("losses", "Losses", _has_losses, narrows=False),
    ResultPage("export", "Export", _always, all_events=True),
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


def target_url(name: str, word: str = "") -> str:
    """The address of a target's page, or of one below it."""
    return f"/targets/{quote(name, safe='')}" + (f"/{word}" if word else "")


def result_url(id: str, key: str = "", selection: Selection | None = None, extra: Pairs | None = None) -> str:
    """The address of a page of a result, carrying the selection and the unit of times, then the words `extra` of that
    page."""
    path = f"/results/{id}/{key}" if key else f"/results/{id}"
    words = (selection.to_query() if selection else []) + (extra or [])
    unit = chosen_time_unit()
    if unit and all(word != UNIT_WORD for word, _ in words):
        words.append((UNIT_WORD, unit))
    return with_query(path, words)


def chips(selection: Selection, url: Callable[[Selection], str]) -> tuple[Chip, ...]:
    """What narrows a selection, event and direction aside, each with its way out. url: of a selection, on this page."""
    found = [
        Chip("Thread", key, url(selection.only(threads=tuple(k for k in selection.threads if k != key))))
        for key in selection.threads
    ]
    for low, high in selection.ranks:
        rest = tuple(pair for pair in selection.ranks if pair != (low, high))
        found.append(Chip("Rank", str(low) if low == high else f"{low}–{high}", url(selection.only(ranks=rest))))
    if selection.start_ns is not None or selection.end_ns is not None:
        found.append(Chip("Time", _window(selection), url(selection.only(start_ns=None, end_ns=None))))
    if selection.step is not None:
        found.append(Chip("Step", selection.step, url(selection.only(step=None))))
    for word in ("focus", "ignore", "hide"):
        pattern = getattr(selection, word)
        if pattern is not None:
            found.append(Chip(word.capitalize(), pattern, url(selection.only(**{word: None}))))
    if selection.invert:
        found.append(Chip("Direction", "callers", url(selection.only(invert=False))))
    if selection.recursion:
        found.append(Chip("Recursion", "collapsed", url(selection.only(recursion=False))))
    return tuple(found)


def _window(selection: Selection) -> str:
    start, end = selection.start_ns, selection.end_ns
    if end is None:
        return f"from {duration(start or 0)}"
    return f"{duration(start or 0)} – {duration(end)}"
