"""import, list, delete, report and convert: for stored results, and for files."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..domain.errors import InvalidRequest, JobFailed, NotFound, Unavailable, UnreadableInput
from ..domain.selection import Selection
from ..domain.units import NS_PER_MS, TIME_UNITS, format_utc_iso
from ..ingest.database_names import is_tree_file
from ..ingest.jit.mode import may_need_loops
from ..ingest.result_set_names import INDEX_SUFFIX
from .ids import ResultId, Source
from .options import data_option, format_option, load_settings, open_store, output_option, rows_format_option
from .output import STDIO, open_output, refuse_terminal, warn_sampled_only, warn_shares_only, write_rows, write_table

if TYPE_CHECKING:
    from ..analysis.core.schema import TableRows
    from ..config import Settings
    from ..domain.profile import Profile
    from ..domain.selection import Selection
    from ..exporters import Exporter

F = TypeVar("F", bound=Callable[..., Any])
EXPORT_SWITCHES = {
    "collapsed": ("pid", "tid", "kernel", "jit", "all", "addrs"),
    "html": (),
    "perfetto": (),
    "pprof": (),
    "profile": (),
    "speedscope": (),
    "svg": ("flames", "static"),
}
TABLES_WITH_PLACES = ("hotspots", "tree")
"""Tables with columns for the file and line of a function."""
LIST_COLUMNS = (
    *(
        "id",
        "created",
        "recorded",
        "name",
        "format",
        "host",
        "command",
        "duration_ms",
        "samples",
        "threads",
        "events",
        "bytes",
    ),
    *("complete", "tags"),
)
DEFAULT_LIST_COLUMNS = ("id", "recorded", "created", "name", "format", "duration_ms", "samples", "bytes")
_ID = re.compile(r"[a-z0-9]{12}")
_FILTERS = (
    click.option("--event", metavar="NAME", help="Only this event; where tables show values, also a formula."),
    click.option("--thread", "thread", multiple=True, metavar="KEY|NAME", help="Only this thread; may be repeated."),
    click.option("--process", multiple=True, metavar="KEY|NAME", help="Only this process; may be repeated."),
    click.option("--rank", multiple=True, metavar="RANGES", help="Only these ranks, for example 0-63,128."),
    click.option("--host", multiple=True, metavar="NAME", help="Only this host; may be repeated."),
    click.option("--start-ms", metavar="MS", help="From this time on, in ms from the start."),
    click.option("--end-ms", metavar="MS", help="Before this time, in ms from the start."),
    click.option(
        "--focus",
        multiple=True,
        metavar="REGEX",
        help="Only stacks with a matching function, file or module; repeated, with a match of each.",
    ),
    click.option("--ignore", metavar="REGEX", help="Only stacks without a match."),
    click.option("--hide", metavar="REGEX", help="Remove matching functions from stacks."),
    click.option("--show", metavar="REGEX", help="Remove all other functions from stacks."),
    click.option("--show-from", metavar="REGEX", help="Remove the callers of the outermost match."),
    click.option("--invert", is_flag=True, help="Show callers of the innermost functions."),
    click.option("--recursion", is_flag=True, help="Collapse recursion."),
    click.option("--step", metavar="STEPS", help="Only these steps."),
)


def filter_options(command: F) -> F:
    """The options that select a part of a profile; `build_selection` takes their values."""
    for option in reversed(_FILTERS):
        command = option(command)
    return command


def build_selection(words: Mapping[str, Any]) -> Selection:
    """The selection by the options of `filter_options`. Raises InvalidRequest."""
    query: dict[str, list[str]] = {}
    for word, value in words.items():
        values = value if isinstance(value, tuple) else (value,)
        query[word.replace("_", "-")] = ["1" if v is True else str(v) for v in values if v not in (None, False)]
    return Selection.from_query(query)


@contextmanager
def _progress_line() -> Iterator[Callable[[float | None, str], None]]:
    """A callback that shows the progress of reading in one line of a terminal, and nothing without a terminal."""
    shown = 0

    def show(part: float | None, text: str) -> None:
        nonlocal shown
        if sys.stderr.isatty():
            width = os.get_terminal_size(sys.stderr.fileno()).columns - 1
            line = f"perfloom: {text}{'' if part is None else f' ({part:.0%})'}"[:width]
            sys.stderr.write("\r" + line.ljust(shown))
            sys.stderr.flush()
            shown = len(line)

    try:
        yield show
    finally:
        if shown:
            sys.stderr.write("\r" + " " * shown + "\r")


@contextmanager
def _reader_ahead(files: Sequence[str]) -> Iterator[None]:
    """Start a reader process, which loads its libraries while this process loads its own."""
    from ..workers.read import prefork

    if files and STDIO not in files and not prefork.has_begun():
        prefork.prefork_reader(loads_loops=may_need_loops(files))
    try:
        yield
    finally:
        prefork.end_reader()


def open_sources(settings: "Settings", sources: Sequence[str], *, with_places: bool = False) -> "Profile":
    """The profile of files or stored results: an existing path is a file, else an id. Several are ranks of one run.

    with_places: functions of stored results also have file and line of their debug information. Raises UnreadableInput
    if neither exists, or a file cannot be read.
    """
    are_files = [source == STDIO or os.path.exists(source) for source in sources]
    for source, is_file in zip(sources, are_files, strict=True):
        if not is_file and not _ID.fullmatch(source):
            raise UnreadableInput(f"{source!r} is neither an existing file nor the id of a result. Check the path.")
    if list(sources).count(STDIO) > 1:
        raise InvalidRequest("Standard input can be read only once. Use - for one of them.")
    if all(are_files):
        sources = _add_files_beside(sources)
        are_files = [True] * len(sources)
    with _reader_ahead(sources if all(are_files) else ()), _progress_line() as progress:
        from ..workers.base.without_pandas import load_pyarrow
        from ..workers.read import reading

        load_pyarrow()

        if all(are_files):
            return reading.read_profile(settings, sources, progress)
        from ..analysis.distributed.clock_alignment import ClockAligner
        from ..ingest.merge import merge

        return merge(
            [
                reading.read_profile(settings, [source], progress)
                if is_file
                else _open_stored(settings, source, with_places=with_places)
                for source, is_file in zip(sources, are_files, strict=True)
            ],
            ClockAligner(),
        )


def _add_files_beside(files: Sequence[str]) -> tuple[str, ...]:
    """`files` with those that belong to a result set or a database beside them, and of a directory those in it."""
    if any(os.path.isdir(file) or is_tree_file(file) for file in files):
        from ..workers.read.databases import add_database_files

        return add_database_files(files)
    if not any(INDEX_SUFFIX in os.path.basename(file) for file in files):
        return tuple(files)
    from ..workers.read.result_sets import add_files_beside

    return add_files_beside(files)


def _open_stored(settings: "Settings", id: str, *, with_places: bool) -> "Profile":
    """The profile of a stored result, from its files alone: loading the database takes longer than reading most."""
    from ..store.deletion import is_deleting
    from ..store.files.profile_cache import ProfileCache
    from ..store.ids import is_id

    if not settings.data.exists():
        raise UnreadableInput(f"No file {id!r}, and no result with that id in {settings.data}.")
    settings.prepare()
    results = settings.data / "results"
    try:
        if is_id(id) and not is_deleting(results, id):
            profile = ProfileCache().get(results / id, settings.data / "cache" / id)
            return _add_places(profile, results / id) if with_places else profile
    except NotFound:
        pass
    raise UnreadableInput(f"No file {id!r}, and no result with that id; `perfloom list` shows the ids.")


def _add_places(profile: "Profile", directory: Path) -> "Profile":
    from ..analysis.source.code_index import add_places
    from ..store.files.code import read_code

    # Where the code is damaged, the page Source says so.
    with suppress(UnreadableInput):
        if code := read_code(directory):
            return add_places(profile, code)
    return profile


@click.command("import")
@click.option("--name", default="", help="Name of the result.  [default: the file's]")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Tag of the result; may be repeated.")
@click.option(
    "--clock",
    type=click.Choice(tuple(TIME_UNITS)),
    help="Unit of the times, if the file does not contain it (perf.json of mllm).  [default: guessed from the file]",
)
@data_option
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
def import_(name: str, tags: tuple[str, ...], clock: str | None, data: Path | None, files: tuple[str, ...]) -> int:
    """Read FILE... into a stored result and print its id. Several files are the ranks of one run.

    Of a database of HPCToolkit, FILE is its directory.
    """
    if len(files) == 1 and (os.path.isdir(files[0]) or is_tree_file(files[0])):
        path = os.path.abspath(files[0])
        name = name or os.path.basename(path if os.path.isdir(path) else os.path.dirname(path))
    if any(map(os.path.isdir, files)):
        files = _add_files_beside(files)
    for file in files:
        if file != STDIO and not os.path.isfile(file):
            what = "is not a regular file" if os.path.exists(file) else "does not exist"
            raise UnreadableInput(f"The file {file!r} {what}. Check the path.")
    if files.count(STDIO) > 1:
        raise InvalidRequest("Standard input can be read only once. Use - for one of them.")
    files = _add_files_beside(files)
    if tags:
        from ..store.result import normalize_tags

        normalize_tags(tags)
    with _reader_ahead(files):
        from ..workers import import_client
        from .progress import ProgressLine

        settings = load_settings(data)
        settings.prepare()
        with ProgressLine() as progress:
            job = import_client.import_files(settings, files, name, progress.show, clock or "")
    if job.result_id is None:
        # An unreadable file has another exit status than other failures of the job.
        kind = {"UnreadableInput": UnreadableInput, "TooLarge": UnreadableInput}.get(job.details.error_kind)
        raise (kind or JobFailed)(job.reason or f"The import ended in state {job.state} without a result.")
    if tags:
        with open_store(data) as store:
            store.results.set_tags(job.result_id, tags)
    if job.reason:
        click.echo(f"perfloom: {job.reason}", err=True)
    click.echo(job.result_id)
    return 0


@click.command("list")
@click.option("--search", default="", metavar="WORDS", help="Only results that contain every word.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only results with this tag; may be repeated.")
@format_option
@data_option
def list_(search: str, tags: tuple[str, ...], output_format: str, data: Path | None) -> int:
    """List stored results, newest first. Column recorded: when the recording started, if known."""
    with open_store(data) as store:
        rows: list[dict[str, Any]] = []
        while True:
            found, total = store.results.search(search, tags, offset=len(rows), limit=1000)
            for result in found:
                rows.append(
                    {
                        "id": result.id,
                        "created": format_utc_iso(result.created),
                        "recorded": None if result.recorded is None else format_utc_iso(result.recorded),
                        "name": result.name,
                        "format": result.format,
                        "host": result.host or None,
                        "command": result.command or None,
                        "duration_ms": None if result.duration_ns is None else result.duration_ns / NS_PER_MS,
                        "samples": result.samples,
                        "threads": result.threads,
                        "events": [event.name for event in result.events],
                        "bytes": result.bytes,
                        "complete": result.complete,
                        "tags": list(result.tags),
                    }
                )
            if not found or len(rows) >= total:
                break
    if output_format == "csv":
        rows = [row | {"events": ", ".join(row["events"]), "tags": ", ".join(row["tags"])} for row in rows]
    write_rows(DEFAULT_LIST_COLUMNS if output_format == "table" else LIST_COLUMNS, rows, output_format, fit=True)
    return 0


@click.command()
@data_option
@click.argument("ids", nargs=-1, required=True, type=ResultId(), metavar="ID...")
def delete(data: Path | None, ids: tuple[str, ...]) -> int:
    """Delete stored results and their files."""
    from ..store.deletion import delete_files_by_id, has_unfinished
    from ..store.files.disk import is_full

    settings = load_settings(data)
    try:
        with open_store(data) as store:
            for id in ids:
                store.results.get(id)
            for id in ids:
                store.results.delete(id)
    except Unavailable:
        # Even opening a database takes some space on its disk.
        if not any(is_full(place) for place in settings.storage_directories):
            raise
        for id in ids:
            delete_files_by_id(settings.data, id)
    try:
        if has_unfinished(settings.data / "results"):
            with open_store(data) as store:
                store.results.recover()
    except Unavailable as error:
        # The files are gone and the results are no longer shown, which is what the user requested.
        click.echo(
            "Deleted the files. The database entries will follow as soon as the database can be written. "
            + error.message,
            err=True,
        )
    return 0


def _warn_missing_values(profile: "Profile", selection: "Selection", rows: "TableRows") -> None:
    """Print on standard error why values of hotspots are missing. A quotient may be missing in some functions only."""
    if selection.event is None:
        warn_sampled_only(rows, "total")
        return
    from ..analysis.formulas.measures import explain_no_weights, selected_formula

    formula = selected_formula(profile, selection)
    if formula is None:
        warn_sampled_only(rows, "total")
    elif why := explain_no_weights(profile, formula):
        click.echo(f"perfloom: {formula.name}: {why.removesuffix('.')}.", err=True)


@click.command()
@filter_options
@click.option("--by", metavar="NAME", help="What to group by, if the table offers several: operators by shapes.")
@rows_format_option
@output_option
@data_option
@click.argument("arguments", nargs=-1, required=True, type=Source(), metavar="SOURCE... TABLE")
def report(
    output_format: str, by: str | None, output: str, data: Path | None, arguments: tuple[str, ...], **words: Any
) -> int:
    """Print TABLE of a file or stored result; several SOURCEs are the ranks of one run.

    Tables: summary, losses, hotspots, tree, branches, loops, heatmap, matrix, matrix-cells, counts, count-shares,
    count-metrics, formulas, topdown, ratios, threads, events, ranks, runs, sampling, conditions, operators, kernels,
    copies, launches, graphs, sequences, modules, steps, devices, utilization, idle, memory, memory-operators,
    memory-live, memory-events, memory-curves, allocations, communication, clocks, advice, critical-path,
    collectives, nsight, nsight-metrics, nsight-hints, nsight-source, stragglers. A SOURCE that exists as a path is
    a file, else it is an id; - is standard input.
    """
    *sources, name = arguments
    from ..analysis.core.loss_impact import LOSS_TABLES, loss_impact_of
    from ..analysis.tables import TABLES, table_rows

    table = TABLES.get(name)
    if table is None:
        raise click.UsageError(f"No table {name!r}; the last argument must be one of {', '.join(TABLES)}.")
    if not sources:
        raise click.UsageError(f"Nothing to report: give a file or an id before {name}.")
    refuse_terminal(output_format, output)
    selection = build_selection(words)
    profile = open_sources(load_settings(data), sources, with_places=name in TABLES_WITH_PLACES)
    rows = table_rows(table, profile, selection, by)
    state = loss_impact_of(profile)
    if state and name != "losses":
        click.echo(f"perfloom: {state.note}{' See the table losses.' if state.losses else ''}", err=True)
    if name == "hotspots":
        _warn_missing_values(profile, selection, rows)
    if name == "advice":
        from ..analysis.advice.findings import withheld_reason

        if why := withheld_reason(profile):
            click.echo(f"perfloom: Advice is withheld. {why}", err=True)
    write_table(
        table.title,
        rows,
        output_format,
        output,
        selection,
        single=table.single_row,
        affected=bool(state) and name not in LOSS_TABLES,
    )
    return 0


@click.command()
@click.option("--to", metavar="FORMAT", help=f"One of {', '.join(EXPORT_SWITCHES)}.  [default: by the name of OUT]")
@output_option
@filter_options
@click.option("--pid", is_flag=True, help="collapsed: append the process id to the command name.")
@click.option("--tid", is_flag=True, help="collapsed: append process and thread id to the command name.")
@click.option("--kernel", is_flag=True, help="collapsed: mark kernel functions with _[k].")
@click.option("--jit", is_flag=True, help="collapsed: mark JIT-compiled functions with _[j].")
@click.option("--all", "all", is_flag=True, help="collapsed: mark both.")
@click.option("--addrs", is_flag=True, help="collapsed: show addresses of unknown functions.")
@click.option("--flames", is_flag=True, help="svg: root at the bottom.")
@click.option("--static", is_flag=True, help="svg: without a script.")
@data_option
@click.argument("sources", nargs=-1, required=True, type=Source(), metavar="SOURCE...")
def convert(to: str | None, output: str, data: Path | None, sources: tuple[str, ...], **words: Any) -> int:
    """Write a file or stored result in another format; several SOURCEs are the ranks of one run."""
    from ..exporters import find_exporter_for_file, get_exporter

    exporter = get_exporter(to) if to is not None else find_exporter_for_file(output)
    switches = {name: bool(words.pop(name)) for names in EXPORT_SWITCHES.values() for name in names}
    for name in (name for name, on in switches.items() if on and name not in exporter.options):
        raise click.UsageError(f"--{name} does not apply to {exporter.name}; leave it out.")
    if output == STDIO and exporter.media_type.startswith("application/") and sys.stdout.isatty():
        raise click.UsageError(f"{exporter.name} cannot be written to a terminal: name a file with -o.")
    selection = build_selection(words)
    # Another process may be reading already.
    exporter.load()
    profile = open_sources(load_settings(data), sources)
    if not exporter.writes_all_events:
        _name_other_events(profile, selection, exporter.name)
    if not exporter.requires_recorded_stacks:
        _note_shares(profile, selection, exporter)
    with open_output(output, compressed=exporter.media_type == "application/gzip") as file:
        for piece in exporter.write(profile, selection, switches):
            file.write(piece)
    return 0


def _name_other_events(profile: "Profile", selection: Selection, format_name: str) -> None:
    names = profile.events.column("name").to_pylist()
    if selection.event is None and len(names) > 1:
        exported_event = _exported_event(profile, format_name)
        others = ", ".join(name for name in names if name != exported_event)
        click.echo(f"perfloom: The output has only {exported_event}; --event also accepts: {others}", err=True)


def _note_shares(profile: "Profile", selection: Selection, exporter: "Exporter") -> None:
    from ..analysis.core.measurements import find_share_only_events
    from ..analysis.core.sample_selection import event_names, select_events

    names, guessed = event_names(profile), find_share_only_events(profile)
    only = (
        selection
        if exporter.writes_all_events
        else selection.replace(event=selection.event or _exported_event(profile, exporter.name))
    )
    warn_shares_only(names[event] for event in select_events(profile, only) if event in guessed)


def _exported_event(profile: "Profile", format_name: str) -> str | None:
    """The event that a format for one event contains if none is selected."""
    from ..exporters.collapsed import default_event

    return default_event(profile) if format_name == "collapsed" else profile.meta.main_event


commands: list[click.Command] = [import_, list_, delete, report, convert]
"""The commands of this module."""
