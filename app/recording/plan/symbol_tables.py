"""The symbol tables of a target's binaries, which are brought here with a large recording instead of its text."""

import re

from ...domain.host_facts import HostFacts
from ...domain.jobs import CallGraph, JobSpec, RecorderName
from ...domain.rank_state import TABLES_FOLDER, parse_table_name
from ...domain.targets import Target
from ..recorders.branch_stacks import records_branch_stacks
from ..recorders.events import needs_event_fields
from ..recorders.languages import interpreter_of
from ..recorders.perf_record import FIRST_WITH_BUILD_IDS, events_to_sample, kernel_version

MIN_RECORDING_BYTES, MIN_BYTES_WITH_NEW_TABLES = 300_000, 2_000_000
"""Of a recording for which this is faster than its text: if all tables are here already, and if any has to be copied
(benchmarks/far_recordings.py)."""
KNOWN_FILE = "tables.known"
"""In the job's directory: a line for each table that is here already."""
MAX_KNOWN = 1000
COMPRESSION = "-z"
_LINE = re.compile(rf"\s*([0-9]{{1,20}}) \./({TABLES_FOLDER}/(\S+))", re.ASCII)


def find_least_bytes(spec: JobSpec, target: Target, host: HostFacts) -> tuple[int, int] | None:
    """How many bytes a recording must have to be read here, with the symbol tables of its binaries: if all of them are
    here, and if any has to be copied; None if it is converted to text where it is made, whatever its size.

    It is if only perf can read it, if names are known only there, or if the text is what is kept. host: where it is
    made. Its perf must record the build id of each binary that is mapped.
    """
    if target.ssh is None or not target.symbol_tables or spec.recorder is not RecorderName.PERF_RECORD:
        return None
    stacks = spec.call_graph is not CallGraph.NONE
    is_left_to_perf = (
        spec.call_graph not in (CallGraph.NONE, CallGraph.FP)
        or records_branch_stacks(spec)
        or spec.off_cpu
        or spec.perf_arguments
        or needs_event_fields(events_to_sample(spec, host), stacks)
    )
    if is_left_to_perf or spec.sudo or not spec.keep_recordings or interpreter_of(spec) is not None:
        return None
    # Compressed, so that it is not larger than its text.
    if not {COMPRESSION, "--buildid-mmap"} <= set(host.options) or kernel_version(host) < FIRST_WITH_BUILD_IDS:
        return None
    return MIN_RECORDING_BYTES, MIN_BYTES_WITH_NEW_TABLES


def parse_table_list(stdout: bytes) -> dict[str, tuple[str, int]]:
    """The tables that `list_script` printed: (path in the job's directory, bytes) by name. Other lines are ignored."""
    found = {}
    for line in stdout.decode(errors="replace").split("\n"):
        if (match := _LINE.fullmatch(line)) and (name := parse_table_name(match[3])):
            found[name] = (match[2], int(match[1]))
    return found
