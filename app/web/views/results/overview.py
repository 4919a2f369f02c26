"""The first page of a result: what was recorded, where and how, and where most of it went."""

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from flask import Blueprint
from werkzeug.wrappers import Response

from ....analysis.core.slices import has_clock, has_operators, has_times
from ....analysis.core.told import by_pytorch
from ....analysis.memory.allocations import has_memory
from ....analysis.ml.steps import token_rates
from ....analysis.stacks.hotspots import hotspots
from ....analysis.tables import TABLES, records
from ....domain.jobs import Scope
from ....domain.profile import Profile
from ....domain.selection import UNKNOWN_THREAD, Selection
from ....domain.units import TIME_UNITS, Quantity, count, quantity, scale_for, utc_iso, utc_text
from ....readers import READERS
from ....store import Job
from ...rendering import Page, render
from ...services import services
from ..trace.overview import TraceOverview, trace_overview
from .caveats import caveat
from .clock_notes import ClockNote, clock_note
from .frame import Frame, open_frame
from .functions import FunctionRow, function_rows
from .run_notes import run_notes, stack_notes
from .taking import Taking, hosts_text, taking

blueprint = Blueprint("overview", __name__)
TOP_FUNCTIONS = 12
TOP_THREADS = 8
MOST_MEMORIES = 4


@dataclass(frozen=True)
class Tile:
    """A number that stands out. caveat: what is to be said of it."""

    label: str
    quantity: Quantity
    caveat: str = ""


@dataclass(frozen=True)
class EventRow:
    """An event in all. sampling: how it was measured, in words. url: this page for that event."""

    name: str
    url: str
    current: bool
    sampling: str
    samples: Quantity
    value: Quantity
    caveat: str


@dataclass(frozen=True)
class ThreadRow:
    """A thread's share of the event. bar: of the largest, in percent. url: its hotspots."""

    name: str
    process: str
    rank: str
    url: str
    value: Quantity
    caveat: str
    bar: float
    percent: Quantity


@dataclass(frozen=True)
class Loss:
    """Something that could not be read."""

    reason: str
    count: Quantity
    example: str


@dataclass(frozen=True)
class File:
    """A file to download."""

    name: str
    url: str
    size: Quantity


@dataclass(frozen=True)
class OverviewPage(Page):
    """`/results/<id>`. observed: what was recorded, in words, where that was no command. recorder: the exact command
    that recorded, where a job of ours did. facts: in the file's own words. clock: the unit of its times, where the
    file does not say it; clocks: the others, by which it can be read again. sampled: what samples are called, empty
    where there are none. trace: what there is to say of slices, steps and devices; None where there are none.
    """

    template: ClassVar[str] = "results/overview.html"
    frame: Frame
    tiles: tuple[Tile, ...]
    trace: TraceOverview | None
    command: str
    observed: str
    recorder: str
    job: Job | None
    host: str
    started_text: str
    started_iso: str
    stored_text: str
    stored_iso: str
    format: str
    facts: tuple[tuple[str, str], ...]
    clock: str
    clocks: tuple[tuple[str, str], ...]
    events: tuple[EventRow, ...]
    sampled: str
    functions: tuple[FunctionRow, ...]
    with_modules: bool
    function_count: int
    threads: tuple[ThreadRow, ...]
    thread_count: int
    taking: Taking | None
    clock_note: ClockNote | None
    notes: tuple[str, ...]
    losses: tuple[Loss, ...]
    originals: tuple[File, ...]
    size: Quantity


@blueprint.get("/results/<id>")
def show(id: str) -> Response:
    """The overview."""
    frame, profile = open_frame(id, "")
    chosen = frame.selection.only(event=frame.event or None)
    top = hotspots(profile, chosen) if profile.samples.num_rows else None
    threads = records(TABLES["threads"].rows(profile, chosen)) if profile.threads.num_rows else []
    job = services().store.jobs.find(frame.result.job_id) if frame.result.job_id else None
    observed = _observed(job)
    started = frame.result.recorded
    functions = function_rows(frame, top.head(TOP_FUNCTIONS)) if top is not None else ()
    reader = READERS.get(profile.meta.format)
    clock = profile.meta.facts.get("clock", "") if reader is not None and reader.by_clock else ""
    return render(
        OverviewPage(
            frame=frame,
            tiles=_tiles(frame, profile, chosen),
            trace=trace_overview(frame, profile),
            command="" if observed else frame.result.command,
            observed=observed,
            recorder=shlex.join(job.argv) if job and job.argv else "",
            job=job,
            host=hosts_text(profile) or frame.result.host,
            started_text=utc_text(started) if started is not None else "",
            started_iso=utc_iso(started) if started is not None else "",
            stored_text=utc_text(frame.result.created),
            stored_iso=utc_iso(frame.result.created),
            format=profile.meta.format if reader is None else reader.label.removeprefix("a "),
            facts=tuple((word, value) for word, value in profile.meta.facts.items() if not clock or word != "clock"),
            clock=clock,
            clocks=tuple((word, label) for word, (label, _) in TIME_UNITS.items())
            if clock and frame.result.originals
            else (),
            events=_events(frame, profile),
            sampled=_rows_word(profile) if profile.samples.num_rows else "",
            functions=functions,
            with_modules=any(row.module for row in functions),
            function_count=len(top) if top is not None else 0,
            threads=_threads(frame, threads[:TOP_THREADS]),
            thread_count=len(threads),
            taking=taking(profile),
            clock_note=clock_note(frame, profile),
            notes=run_notes(profile, Selection()) + stack_notes(profile),
            losses=tuple(
                Loss(row["reason"] or "", quantity(row["count"], "count"), row["example"] or "")
                for row in records(TABLES["losses"].rows(profile, Selection()))
            ),
            originals=tuple(
                File(original.name, f"/results/{id}/original/{number}", quantity(original.bytes, "bytes"))
                for number, original in enumerate(frame.result.originals, start=1)
            ),
            size=quantity(frame.result.bytes, "bytes"),
        )
    )


def _observed(job: Job | None) -> str:
    """What a job without a command observed. The command that perf itself notes then is its own, said already."""
    if job is None or job.kind != "record":
        return ""
    spec = job.job_spec
    if spec.scope is Scope.PROCESS:
        return f"process {spec.pid}"
    return "the whole system" if spec.scope is Scope.SYSTEM and not spec.command else ""


def _tiles(frame: Frame, profile: Profile, selection: Selection) -> tuple[Tile, ...]:
    row = records(TABLES["summary"].rows(profile, selection))[0]
    milliseconds = row["duration_ms"]
    found = [Tile("Duration", quantity(None if milliseconds is None else milliseconds * 1e6, "ns"))]
    if not has_clock(profile):
        found.append(Tile(frame.event or "Total", quantity(row["value"], frame.unit), caveat(row["running_percent"])))
        if profile.samples.num_rows or (profile.events.num_rows and not row["counts"]):
            found.append(Tile(_rows_word(profile), quantity(row["samples"], "count")))
    if row["counts"]:
        found.append(Tile("Counted values", quantity(row["counts"], "count")))
    for word in ("runs", "hosts", "ranks"):
        if row[word] > 1:
            found.append(Tile(word.capitalize(), quantity(row[word], "count")))
    if any(pid is not None for pid in profile.threads.column("pid").to_pylist()):
        found.append(Tile("Processes", quantity(row["processes"], "count")))
    if row["threads"]:
        found.append(Tile("Threads", quantity(row["threads"], "count")))
    if not by_pytorch(profile):
        found += _device_tiles(profile, selection)
    return tuple(tile for tile in found if tile.quantity.value is not None)


def _device_tiles(profile: Profile, selection: Selection) -> Iterator[Tile]:
    """What was called, and the most memory that each device had."""
    if has_operators(profile):
        rows = records(TABLES["operators"].rows(profile, selection))
        yield Tile(
            "Operators called", quantity(sum(row["calls"] for row in rows if row["kind"] == "operator"), "count")
        )
    for kind, rate in token_rates(profile, selection).items():
        if rate.per_s is not None:
            steps = f"{rate.tokens:,} token{'s' * (rate.tokens != 1)} in {quantity(rate.ns, 'ns').text}"
            told = Quantity(rate.per_s, count(rate.per_s), f"{rate.per_s:,.6f}")
            yield Tile(f"{kind.capitalize()}, tokens/s", told, steps)
    for row in records(TABLES["memory"].rows(profile, selection))[:MOST_MEMORIES] if has_memory(profile) else ():
        blocks = "" if row["allocations"] is None else f"{row['allocations']:,} block{'s' * (row['allocations'] != 1)}"
        left = f", {row['unfreed']:,} never freed" if row["unfreed"] else ""
        yield Tile(f"Peak memory, {row['device']}", quantity(row["peak_bytes"], "bytes"), blocks + left)


def _events(frame: Frame, profile: Profile) -> tuple[EventRow, ...]:
    links = {link.key: link for link in frame.events}
    rows = records(TABLES["events"].rows(profile, frame.selection.only(event=None)))
    several = profile.runs.num_rows > 1
    return tuple(
        EventRow(
            name=row["event"],
            url=links[row["event"]].url,
            current=links[row["event"]].current,
            sampling=_sampling(profile, row) + (f", in run {row['runs']}" if several and row["runs"] else ""),
            samples=quantity(row["samples"], "count"),
            value=_value(row),
            caveat=caveat(row["running_percent"], row["deviation_percent"]),
        )
        for row in rows
    )


def _value(row: dict[str, Any]) -> Quantity:
    """The total of an event, or why there is none."""
    found = quantity(row["value"], row["unit"])
    return replace(found, text=row["note"], exact=row["note"]) if row["note"] else found


def _rows_word(profile: Profile) -> str:
    """What the rows of `samples` are: without times they are call stacks, with all that was seen in each."""
    return "Samples" if profile.slices.num_rows or has_times(profile) else "Call stacks"


def _sampling(profile: Profile, row: dict[str, Any]) -> str:
    rate, unit = row["rate"], row["unit"]
    if not row["samples"]:
        words = "counted"
    elif row["sampling"] == "frequency" and rate is not None:
        words = f"{rate:,.0f} samples a second"
    elif row["sampling"] == "period" and rate is not None:
        words = "every one" if rate == 1 else f"every {rate:,.0f}th"
        words = f"every {quantity(rate, unit).text}" if unit in ("ns", "bytes") else words
    elif not row["weighted"]:
        words = "sampled, each weighs 1"
    elif unit == "bytes" and profile.allocations.num_rows:
        words = "from allocations"
    elif profile.slices.num_rows:
        words = "from slices"
    else:
        words = "sampled" if has_times(profile) else "added up by call stack"
    told = row["scaling"] is not None and row["running_percent"] is None
    return words + (f", scaled ×{row['scaling']:.3g}" if told else "")


def _threads(frame: Frame, rows: list[dict[str, Any]]) -> tuple[ThreadRow, ...]:
    largest = max((row["value"] or 0 for row in rows), default=0)
    percents = scale_for(100, "percent")
    often = Counter((row["rank"], row["name"]) for row in rows)

    def name(row: dict[str, Any]) -> str:
        if not row["name"] or row["tid"] is None or often[row["rank"], row["name"]] == 1:
            return row["name"] or (row["key"] if row["key"] != UNKNOWN_THREAD else "")
        return f"{row['name']} {row['tid']}"

    return tuple(
        ThreadRow(
            name=name(row) or "not known",
            process=row["process"] or "",
            rank="" if row["rank"] is None else str(row["rank"]),
            url=frame.narrowed("hotspots", threads=(row["key"],)) if row["key"] else frame.url("hotspots"),
            value=quantity(row["value"], frame.unit),
            caveat=caveat(row["running_percent"]),
            bar=100.0 * (row["value"] or 0) / largest if largest else 0.0,
            percent=percents.quantity(row["percent"]),
        )
        for row in rows
    )
