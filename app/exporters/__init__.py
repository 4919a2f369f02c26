"""Exporters: a profile written in a format that other tools read, one module per format.

A module is imported when its format is needed: a command that writes one format does not wait for the others.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, cast

from ..analysis.core.sample_selection import check_selection
from ..analysis.core.slice_selection import has_times
from ..domain.errors import InvalidRequest
from ..domain.profile import Profile
from ..domain.selection import Selection

Options = Mapping[str, bool]


class ExporterModule(Protocol):
    """A module that writes one format. OPTIONS: the options of `write`, with a sentence each.

    `write` yields the bytes of one file; it raises InvalidRequest for a selection that the profile does not have, and
    for one without samples if other tools would reject such a file.
    """

    @property
    def OPTIONS(self) -> Mapping[str, str]: ...
    @property
    def write(self) -> Callable[[Profile, Selection, Options], Iterator[bytes]]: ...


def _anything(profile: Profile) -> bool:
    return True


def _has_samples(profile: Profile) -> bool:
    return bool(profile.samples.num_rows)


def _has_timed_samples(profile: Profile) -> bool:
    if any(table.num_rows for table in (profile.slices, profile.instants, profile.counters)):
        return True
    return _has_samples(profile) and has_times(profile)


@dataclass(frozen=True)
class Exporter:
    """An export format.

    name: as given to `convert --to`. module: of this package, an ExporterModule. suffix: of file names.
    writes_all_events: without a selected event it has all events, else only the main one. requires_recorded_stacks: it
    contains call stacks as recorded, and rejects a selection that changes them (hide, show, show-from, invert,
    recursion). has_data: whether a profile has anything to write. other_suffixes: further suffixes of such files.
    """

    name: str
    module: str
    title: str
    description: str
    suffix: str
    media_type: str
    writes_all_events: bool = False
    requires_recorded_stacks: bool = False
    has_data: Callable[[Profile], bool] = _anything
    other_suffixes: tuple[str, ...] = ()

    def write(self, profile: Profile, selection: Selection, options: Options) -> Iterator[bytes]:
        """The bytes of one file. Raises InvalidRequest for a selection that the profile does not have: errors
        are raised before the first byte."""
        check_selection(profile, selection)
        return self.load().write(profile, selection, options)

    @property
    def options(self) -> Mapping[str, str]:
        """The options of `write`, with a sentence each."""
        return self.load().OPTIONS

    def load(self) -> ExporterModule:
        """The module that writes it."""
        return cast(ExporterModule, importlib.import_module(f".{self.module}", __package__))


COMPRESSED_SUFFIXES = (".gz", ".zst", ".xz")
"""Suffixes of compressed files; formats that are always compressed with gzip have only the first one."""

EXPORTERS: dict[str, Exporter] = {
    exporter.name: exporter
    for exporter in (
        Exporter(
            "collapsed",
            "collapsed",
            "Collapsed stacks",
            "One line per call stack; for flamegraph.pl, inferno and many other tools.",
            ".collapsed.txt",
            "text/plain; charset=utf-8",
            has_data=_has_samples,
            other_suffixes=(".folded", ".collapsed"),
        ),
        Exporter(
            "html",
            "html",
            "HTML report",
            "Flame graphs and tables in one file that any browser opens, without Perfloom.",
            ".html",
            "text/html; charset=utf-8",
            writes_all_events=True,
            other_suffixes=(".htm",),
        ),
        Exporter(
            "perfetto",
            "perfetto",
            "Perfetto JSON",
            "Slices, flows and counters over time; for Perfetto and Chrome’s trace viewer.",
            ".trace.json",
            "application/json",
            writes_all_events=True,
            has_data=_has_timed_samples,
            other_suffixes=(".perfetto.json",),
        ),
        Exporter(
            "pprof",
            "pprof",
            "pprof",
            "Call stacks with all events and labels; for go tool pprof, Pyroscope, Parca.",
            ".pb.gz",
            "application/gzip",
            writes_all_events=True,
            has_data=_has_samples,
            other_suffixes=(".pb", ".pprof"),
        ),
        Exporter(
            "profile",
            "archive",
            "Perfloom profile",
            "The complete result, to import into another Perfloom.",
            ".perfloom.tar",
            "application/x-tar",
            writes_all_events=True,
            requires_recorded_stacks=True,
            other_suffixes=(".perfloom",),
        ),
        Exporter(
            "speedscope",
            "speedscope",
            "speedscope",
            "One profile for each thread and event.",
            ".speedscope.json",
            "application/json",
            writes_all_events=True,
            has_data=_has_samples,
        ),
        Exporter(
            "svg",
            "svg",
            "SVG",
            "The flame graph as a picture with its own zoom and search.",
            ".svg",
            "image/svg+xml; charset=utf-8",
            has_data=_has_samples,
        ),
    )
}


def get_exporter(name: str) -> Exporter:
    """The exporter of that name. Raises InvalidRequest with the available names."""
    try:
        return EXPORTERS[name]
    except KeyError:
        known = ", ".join(EXPORTERS)
        raise InvalidRequest(f"No export to {name[:40]!r}; choose one of {known}.", "to") from None


def find_exporter_for_file(file: str) -> Exporter:
    """The exporter by the name of a file. Raises InvalidRequest with the known suffixes if there is none."""
    name = file.lower()
    # Files can be compressed, and ".trace.json" is more specific than ".json".
    fitting = [
        (len(ending), one)
        for one in EXPORTERS.values()
        for ending in (one.suffix, *one.other_suffixes)
        if name.endswith((ending, *(ending + packed for packed in _compressed_suffixes(one))))
    ]
    if fitting:
        return max(fitting, key=lambda found: found[0])[1]
    known = ", ".join(f"{', '.join((*one.other_suffixes, one.suffix))} ({one.name})" for one in EXPORTERS.values())
    raise InvalidRequest(
        f"The output format of {file} is unknown: use --to, or a file name with -o that ends with {known}. "
        f"{', '.join(COMPRESSED_SUFFIXES)} behind it compress the file; pprof is always a .gz.",
        "to",
    )


def _compressed_suffixes(exporter: Exporter) -> tuple[str, ...]:
    return COMPRESSED_SUFFIXES[:1] if exporter.media_type == "application/gzip" else COMPRESSED_SUFFIXES
