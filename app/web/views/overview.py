"""The overview of a result: what was recorded, where and how, and the largest contributions."""

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
from flask import Blueprint
from werkzeug.wrappers import Response

from ...analysis.advice.cpu_detectors import has_cpu_samples
from ...analysis.advice.findings import find_advice
from ...analysis.core.facts import has_pytorch_terms
from ...analysis.core.sample_selection import event_id
from ...analysis.core.slice_selection import has_clock, has_operators, has_times
from ...analysis.memory.allocations import has_memory
from ...analysis.ml.steps import sum_token_rates
from ...analysis.stacks.hotspots import compute_hotspots, list_top_functions
from ...analysis.tables import TABLES, records
from ...domain.jobs import Scope
from ...domain.profile import Profile
from ...domain.selection import UNKNOWN_THREAD, Selection
from ...domain.units import (
    NS_PER_MS,
    TIME_UNITS,
    Quantity,
    choose_scale,
    format_caveat,
    format_count,
    format_quantity,
    format_utc,
    format_utc_iso,
)
from ...readers import describe_clock, format_title
from ...store import Job
from ..pages import with_query
from ..rendering import Page, render
from ..services import current_services
from .off_cpu import OffCpuLink, link_off_cpu_recording
from .results.clock_notes import ClockNote, build_clock_note
from .results.functions import FunctionRow, build_function_rows
from .results.merge import MergeOffer, find_merge_offer
from .results.participants import Participants, format_hosts, list_participants
from .results.result_frame import ResultFrame, open_result_frame
from .results.run_notes import list_run_notes, list_stack_notes
from .run_summary import RunSummary, build_run_summary, describe_sampling
from .trace.advice import AdviceItem, build_advice_item
from .trace.overview import TraceOverview, build_trace_overview

blueprint = Blueprint("overview", __name__)
TOP_ADVICE = 3
TOP_FUNCTIONS = 12
TOP_THREADS = 8
MAX_MEMORIES = 4


@dataclass(frozen=True)
class OverviewTile:
    """A key figure. caveat: a note on it."""

    label: str
    quantity: Quantity
    caveat: str = ""


@dataclass(frozen=True)
class EventRow:
    """The total of an event. sampling: how it was measured. url: of this page for that event."""

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
class LossSummary:
    """A loss: data that could not be read."""

    reason: str
    count: Quantity
    example: str


@dataclass(frozen=True)
class CommandHistory:
    """The history of the command of a result. count: its results."""

    url: str
    count: int


@dataclass(frozen=True)
class DownloadLink:
    """A file to download."""

    name: str
    url: str
    size: Quantity


@dataclass(frozen=True)
class OverviewPage(Page):
    """`/results/<id>`. history: of the command; None without other results of it. recorded_text: what was recorded, if
    not a command. recorder: the exact command that recorded,
    for a job of Perfloom. facts: with the names of the file. clock: the time unit, if the file does not contain it;
    clocks: the units with which it can be read again. sampled_note: the term for samples, empty without samples. trace:
    summary of slices, steps and devices; None without these. run_summary: how it was recorded; None without samples and
    counts. advice: the most important of advice_count findings.
    """

    template: ClassVar[str] = "results/overview.html"
    frame: ResultFrame
    tiles: tuple[OverviewTile, ...]
    trace: TraceOverview | None
    command: str
    history: CommandHistory | None
    recorded_text: str
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
    sampled_note: str
    functions: tuple[FunctionRow, ...]
    with_modules: bool
    function_count: int
    threads: tuple[ThreadRow, ...]
    thread_count: int
    participants: Participants | None
    run_summary: RunSummary | None
    clock_note: ClockNote | None
    advice: tuple[AdviceItem, ...]
    advice_count: int
    notes: tuple[str, ...]
    off_cpu: OffCpuLink | None
    losses: tuple[LossSummary, ...]
    originals: tuple[DownloadLink, ...]
    size: Quantity
    merge: MergeOffer | None


@blueprint.get("/results/<id>")
def show(id: str) -> Response:
    """The overview."""
    frame, profile = open_result_frame(id, "")
    chosen = frame.selection.replace(event=frame.event or None)
    top, function_count = _top_functions(frame, profile, chosen)
    threads = records(TABLES["threads"].rows(profile, chosen)) if profile.threads.num_rows else []
    has_advice = any(tab.key == "advice" for tab in frame.tabs)
    advice = find_advice(profile, frame.selection) if has_advice else []
    job = current_services().store.jobs.find(frame.result.job_id) if frame.result.job_id else None
    recorded_text = _describe_observed(job)
    started = frame.result.recorded
    functions = build_function_rows(frame, top)
    clock = describe_clock(profile.meta)
    return render(
        OverviewPage(
            frame=frame,
            tiles=_tiles(frame, profile, chosen),
            trace=build_trace_overview(frame, profile),
            command="" if recorded_text else frame.result.command,
            history=None if recorded_text else _find_history(frame.result.command),
            recorded_text=recorded_text,
            recorder=shlex.join(job.argv) if job and job.argv else "",
            job=job,
            host=format_hosts(profile) or frame.result.host,
            started_text=format_utc(started) if started is not None else "",
            started_iso=format_utc_iso(started) if started is not None else "",
            stored_text=format_utc(frame.result.created),
            stored_iso=format_utc_iso(frame.result.created),
            format=format_title(profile.meta.format),
            facts=tuple((word, value) for word, value in profile.meta.facts.items() if not clock or word != "clock"),
            clock=clock,
            clocks=tuple((word, label) for word, (label, _) in TIME_UNITS.items())
            if clock and frame.result.originals
            else (),
            events=_events(frame, profile),
            sampled_note=_rows_word(profile) if profile.samples.num_rows else "",
            functions=functions,
            with_modules=any(row.module for row in functions),
            function_count=function_count,
            threads=_threads(frame, threads[:TOP_THREADS]),
            thread_count=len(threads),
            participants=list_participants(profile),
            run_summary=build_run_summary(profile),
            clock_note=build_clock_note(frame, profile),
            advice=tuple(build_advice_item(frame, profile, one) for one in advice[:TOP_ADVICE]),
            advice_count=len(advice),
            notes=list_run_notes(profile, Selection()) + list_stack_notes(profile),
            off_cpu=link_off_cpu_recording(frame, profile),
            losses=tuple(
                LossSummary(row["reason"] or "", format_quantity(row["count"], "count"), row["example"] or "")
                for row in records(TABLES["losses"].rows(profile, Selection()))
            ),
            originals=tuple(
                DownloadLink(
                    original.name, f"/results/{id}/original/{number}", format_quantity(original.bytes, "bytes")
                )
                for number, original in enumerate(frame.result.originals, start=1)
            ),
            size=format_quantity(frame.result.bytes, "bytes"),
            merge=find_merge_offer(frame.result),
        )
    )


def _top_functions(frame: ResultFrame, profile: Profile, selection: Selection) -> tuple[pd.DataFrame, int]:
    """(the first rows of the table `hotspots` of the selected event or formula, the number of all its rows)."""
    event = -1 if frame.formula else event_id(profile, frame.event or None)
    if event < 0:
        every = compute_hotspots(profile, selection)
        return every.head(TOP_FUNCTIONS), len(every)
    top, count = list_top_functions(profile, selection, event, TOP_FUNCTIONS)
    return top.to_frame(), count


def _find_history(command: str) -> CommandHistory | None:
    """None if there is no other result of the command."""
    if not command:
        return None
    _, count = current_services().store.results.search(command=command, limit=0)
    return CommandHistory(with_query("/history", [("command", command)]), count) if count > 1 else None


def _describe_observed(job: Job | None) -> str:
    """What a job without a command observed. The command in the data is then that of perf, shown already."""
    if job is None or job.kind != "record":
        return ""
    spec = job.job_spec
    if spec.scope is Scope.PROCESS:
        return f"process {spec.pid_text}"
    return "the whole system" if spec.scope is Scope.SYSTEM and not spec.command else ""


def _tiles(frame: ResultFrame, profile: Profile, selection: Selection) -> tuple[OverviewTile, ...]:
    row = records(TABLES["summary"].rows(profile, selection))[0]
    milliseconds = row["duration_ms"]
    overview_tiles = [
        OverviewTile("Duration", format_quantity(None if milliseconds is None else milliseconds * NS_PER_MS, "ns"))
    ]
    if not has_clock(profile) or has_cpu_samples(profile):
        overview_tiles.append(
            OverviewTile(
                frame.event or "Total", format_quantity(row["value"], frame.unit), format_caveat(row["running_percent"])
            )
        )
        if profile.samples.num_rows or (profile.events.num_rows and not row["counts"]):
            overview_tiles.append(OverviewTile(_rows_word(profile), format_quantity(row["samples"], "count")))
    if row["counts"]:
        overview_tiles.append(OverviewTile("Counted values", format_quantity(row["counts"], "count")))
    for word in ("runs", "hosts", "ranks"):
        if row[word] > 1:
            overview_tiles.append(OverviewTile(word.capitalize(), format_quantity(row[word], "count")))
    if any(pid is not None for pid in profile.threads.column("pid").to_pylist()):
        overview_tiles.append(OverviewTile("Processes", format_quantity(row["processes"], "count")))
    if row["threads"]:
        overview_tiles.append(OverviewTile("Threads", format_quantity(row["threads"], "count")))
    if not has_pytorch_terms(profile):
        overview_tiles += _device_tiles(profile, selection)
    return tuple(tile for tile in overview_tiles if tile.quantity.value is not None)


def _device_tiles(profile: Profile, selection: Selection) -> Iterator[OverviewTile]:
    """What was called, and the most memory that each device had."""
    if has_operators(profile):
        rows = records(TABLES["operators"].rows(profile, selection))
        yield OverviewTile(
            "Operators called", format_quantity(sum(row["calls"] for row in rows if row["kind"] == "operator"), "count")
        )
    for kind, rate in sum_token_rates(profile, selection).items():
        if rate.per_s is not None:
            steps = f"{rate.tokens:,} token{'s' * (rate.tokens != 1)} in {format_quantity(rate.ns, 'ns').text}"
            speed = Quantity(rate.per_s, format_count(rate.per_s), f"{rate.per_s:,.6f}")
            yield OverviewTile(f"{kind.capitalize()}, tokens/s", speed, steps)
    for row in records(TABLES["memory"].rows(profile, selection))[:MAX_MEMORIES] if has_memory(profile) else ():
        blocks = "" if row["allocations"] is None else f"{row['allocations']:,} block{'s' * (row['allocations'] != 1)}"
        left = f", {row['unfreed']:,} never freed" if row["unfreed"] else ""
        yield OverviewTile(f"Peak memory, {row['device']}", format_quantity(row["peak_bytes"], "bytes"), blocks + left)


def _events(frame: ResultFrame, profile: Profile) -> tuple[EventRow, ...]:
    links = {link.key: link for link in frame.events}
    rows = records(TABLES["events"].rows(profile, frame.selection.replace(event=None)))
    several = profile.runs.num_rows > 1
    return tuple(
        EventRow(
            name=row["event"],
            url=links[row["event"]].url,
            current=links[row["event"]].current,
            sampling=_sampling(profile, row) + (f", in run {row['runs']}" if several and row["runs"] else ""),
            samples=format_quantity(row["samples"], "count"),
            value=_value(row),
            caveat=format_caveat(row["running_percent"], row["deviation_percent"]),
        )
        for row in rows
    )


def _value(row: dict[str, Any]) -> Quantity:
    """The total of an event, or why it is missing."""
    quantity = format_quantity(row["value"], row["unit"])
    return quantity._replace(text=row["note"], exact=row["note"]) if row["note"] else quantity


def _rows_word(profile: Profile) -> str:
    """The term for rows of `samples`: without times they are call stacks with sums."""
    return "Samples" if profile.slices.num_rows or has_times(profile) else "Call stacks"


def _sampling(profile: Profile, row: dict[str, Any]) -> str:
    scaled = row["scaling"] is not None and row["running_percent"] is None
    return describe_sampling(profile, row) + (f", scaled ×{row['scaling']:.3g}" if scaled else "")


def _threads(frame: ResultFrame, rows: list[dict[str, Any]]) -> tuple[ThreadRow, ...]:
    largest = max((row["value"] or 0 for row in rows), default=0)
    percents = choose_scale(100, "percent")
    often = Counter((row["rank"], row["name"]) for row in rows)

    def name(row: dict[str, Any]) -> str:
        if not row["name"] or row["tid"] is None or often[row["rank"], row["name"]] == 1:
            return row["name"] or (row["key"] if row["key"] != UNKNOWN_THREAD else "")
        return f"{row['name']} {row['tid']}"

    return tuple(
        ThreadRow(
            name=name(row) or "unknown",
            process=row["process"] or "",
            rank="" if row["rank"] is None else str(row["rank"]),
            url=frame.filtered_url("hotspots", threads=(row["key"],)) if row["key"] else frame.url("hotspots"),
            value=format_quantity(row["value"], frame.unit),
            caveat=format_caveat(row["running_percent"]),
            bar=100.0 * (row["value"] or 0) / largest if largest else 0.0,
            percent=percents.format(row["percent"]),
        )
        for row in rows
    )
