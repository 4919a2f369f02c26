"""The probe of a target: a POSIX sh script to run there, and the parser of its output."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...domain.errors import Unavailable
from ...domain.host_facts import HostFacts, PerfEvent
from ...domain.targets import BatchQueue, SchedulerName, Target, TargetFacts
from ...domain.text import sanitize_line, shorten
from ..mpi.registry import MPI_LAUNCHERS
from ..plan.path_variables import expand_path
from ..plan.submission import DEFAULT_DIRECTORY
from ..plan.target_environment import environment_functions, shell_function
from ..quoting import join, quote
from ..schedulers import SCHEDULERS, Scheduler, scheduler_of
from ..scripts import script_text
from . import perf_capabilities, perf_list

SECTION_MARKER = "perfloom-probe"
COMPRESSORS = ("zstd", "gzip")
SHARED_FILESYSTEMS = re.compile(
    r"nfs|lustre|gpfs|beegfs|ceph|afs|panfs|smb|cifs|fuse|9p|orangefs|pvfs|wekafs|daos", re.I
)
"""File systems that other hosts may share, with the names of `stat -f`."""

_CPU_FACTS = {"vendor_id": "cpu_vendor", "cpu family": "cpu_family", "model": "cpu_model", "CPU part": "cpu_part"}
_MAX_TEXT = 400


@dataclass(frozen=True)
class Section:
    """The output of one command of the probe. status: its exit status, null if its end is missing."""

    text: str
    status: int | None

    @property
    def line(self) -> str:
        """Its first non-empty line."""
        return next((line.strip() for line in self.text.splitlines() if line.strip()), "")


@dataclass(frozen=True)
class ClockReading:
    """One reading of the target's clock. Nanoseconds since the epoch: this machine's clock before and after it."""

    before_ns: int
    remote_ns: int
    after_ns: int

    @property
    def offset_ns(self) -> int:
        """How far it is ahead of this machine's clock, ± `error_ns`."""
        return self.remote_ns - (self.before_ns + self.after_ns) // 2

    @property
    def error_ns(self) -> int:
        return (self.after_ns - self.before_ns) // 2


CLOCK_SCRIPT = "date +%s%N"


def probe_script(target: Target, *, compute: bool = False) -> str:
    """The probe script. Any user may run it at the target; it only needs a shell and standard tools.

    It creates the job directory if it is missing, and the scratch directory if jobs run on the same host; it changes
    nothing else. compute: it runs in a batch job, where it does not query the batch system's queues.
    """
    scheduler = scheduler_of(target.scheduler)
    program_names = {*COMPRESSORS, *(name for each in SCHEDULERS.values() for name in each.programs)}
    asked = [each for each in MPI_LAUNCHERS.values() if each.probe_command]
    usual = [name for each in MPI_LAUNCHERS.values() if not each.probe_command for name in each.program_names]
    launchers = dict.fromkeys((*target.starters.values(), *usual))
    lines = [
        f"probe_mark={quote(SECTION_MARKER)}",
        f"probe_perf={quote(target.perf or 'perf')}",
        f"probe_sudo={'yes' if target.sudo else ''}",
        f"probe_makes={'yes' if compute or target.scheduler is SchedulerName.NONE else ''}",
        *shell_function("directory", [f"printf '%s.' {expand_path(target.directory or DEFAULT_DIRECTORY).text}"]),
        *shell_function(
            "scratch", [f"printf '%s.' {expand_path(target.scratch).text}" if target.scratch else "echo none; false"]
        ),
        *shell_function("each_launcher", [f"launcher {quote(name)}" for name in launchers]),
        *shell_function("each_probe", [_try_commands(each.implementation, (each.probe_command,)) for each in asked]),
        *shell_function(
            "each_scheduler", [_try_commands(each.name, each.version_commands) for each in SCHEDULERS.values()]
        ),
        *shell_function("each_program", [f"program {quote(name)}" for name in sorted(program_names)]),
        *shell_function(
            "queues", [f"apart queues {join(scheduler.queues_command())}"] if scheduler and not compute else []
        ),
    ]
    body = script_text("probe/probe.sh")
    return "\n".join([environment_functions(target), *lines, body])


def _try_commands(section: str, commands: Sequence[Sequence[str]]) -> str:
    """sh: run commands until one succeeds, if the program of the first is on PATH."""
    first = quote(commands[0][0])
    said = " || ".join(f"say {section} {join(command)}" for command in commands)
    return f"! command -v {first} >/dev/null 2>&1 || {said} || :"


def read_sections(text: str) -> dict[str, list[Section]]:
    """The sections of the script's output by name; those of one name in order."""
    found: dict[str, list[Section]] = {}
    name: str | None = None
    lines: list[str] = []

    def close(status: int | None) -> None:
        if name is not None:
            found.setdefault(name, []).append(Section("\n".join(lines).removesuffix("\n"), status))
        lines.clear()

    for line in text.split("\n"):
        words = line.split(" ")
        if len(words) == 3 and words[0] == SECTION_MARKER and words[1] in ("begin", "end"):
            if words[1] == "begin":
                close(None)
                name = words[2]
            else:
                close(int(words[2]) if words[2].isdecimal() and len(words[2]) < 6 else None)
                name = None
        elif name is not None:
            lines.append(line)
    close(None)
    return found


def parse_probe(text: str, target: Target, now: float, clocks: tuple[ClockReading, ...] = ()) -> TargetFacts:
    """The facts in the script's output. now: epoch seconds on this machine. clocks: readings of the target's clock.

    Raises Unavailable if the output has no facts of a host: it is not the output of the script.
    """
    sections = read_sections(text)
    if "host" not in sections:
        said = " ".join(text.split())[:_MAX_TEXT]
        raise Unavailable(
            f"The probe did not run there; it printed {f'“{said}”' if said else 'nothing'}. Log in there, and check "
            "whether sh starts and what its startup files print."
        )
    one = _Sections(sections)
    problems: dict[str, str] = {}
    if "complete" not in sections:
        problems["probe"] = "It ended early."
    modules = sections.get("modules")
    if modules and (modules[0].status or _reports_error(modules[0].text)):
        problems["modules"] = _short(modules[0].text) or f"It ended with exit status {modules[0].status}."
    launchers, versions = _mpi_launchers(one, target)
    programs = _fields(one.text("programs"), " ")
    place, scratch = _parse_directory(one.text("directory")), _parse_directory(one.text("scratch"))
    if place.problem:
        problems["directory"] = place.problem
    if target.scratch and scratch.problem:
        problems["scratch"] = scratch.problem
    version, queues = _scheduler(one, target, problems)
    sudo = None
    if target.sudo and "sudo" in sections:
        sudo = sections["sudo"][0].status == 0
        if not sudo:
            problems["sudo"] = _short(one.text("sudo"))
    scheduler = scheduler_of(target.scheduler)
    best = best_clock_reading(clocks)
    return TargetFacts(
        host=_host(one, now),
        mpi_launchers=launchers,
        versions=versions,
        schedulers=tuple(name.value for name, each in SCHEDULERS.items() if each.programs[0] in programs),
        scheduler_version=version,
        queues=queues,
        directory=place.path,
        file_system=place.system,
        runs_programs=place.runs,
        scratch=scratch.path if target.scratch else "",
        free_bytes=place.free_bytes,
        scratch_free_bytes=scratch.free_bytes if target.scratch else None,
        clock_ns=best.offset_ns if best else None,
        clock_error_ns=best.error_ns if best else None,
        sudo=sudo,
        module_command={"yes": True, "no": False}.get(one.line("module-command")),
        packers=tuple(name for name in COMPRESSORS if name in programs),
        missing=tuple(name for name in (scheduler.programs if scheduler else ()) if name not in programs),
        problems=problems,
    )


def with_compute_node(facts: TargetFacts, seen: TargetFacts | None, *, shared: bool) -> TargetFacts:
    """The facts with those of a compute node. seen: the facts of the probe there, None if it could not run.

    shared: whether the job directory is visible there.
    """
    if seen is None:
        return replace(facts, compute=None, shared=shared)
    there = ("scratch", "sudo", "modules")
    problems = {name: text for name, text in facts.problems.items() if name not in (*there, "compute")}
    problems |= {name: text for name, text in seen.problems.items() if name in there}
    return replace(
        facts,
        compute=seen.host,
        shared=shared,
        mpi_launchers=seen.mpi_launchers | facts.mpi_launchers,
        versions=seen.versions | facts.versions,
        scratch=seen.scratch,
        scratch_free_bytes=seen.scratch_free_bytes,
        sudo=seen.sudo,
        module_command=seen.module_command,
        packers=seen.packers,
        problems=problems,
    )


def with_previous_probe(facts: TargetFacts, earlier: TargetFacts | None) -> TargetFacts:
    """The facts of a check without a probe job, with those of the last probe job for the same directory and host."""
    if earlier is None or earlier.compute is None or earlier.directory != facts.directory:
        return facts
    return replace(
        facts,
        compute=earlier.compute,
        shared=earlier.shared,
        scratch=earlier.scratch,
        scratch_free_bytes=earlier.scratch_free_bytes,
        sudo=earlier.sudo,
        module_command=earlier.module_command,
    )


def read_clock(before_ns: int, text: str, after_ns: int) -> ClockReading | None:
    """A clock reading from the output of CLOCK_SCRIPT; None if `date` there does not support nanoseconds."""
    match = re.fullmatch(r"\s*(\d{19})\s*", text)
    return ClockReading(before_ns, int(match[1]), after_ns) if match else None


def best_clock_reading(clocks: Iterable[ClockReading]) -> ClockReading | None:
    """The most precise clock reading; None without any."""
    return min(clocks, key=lambda look: look.after_ns - look.before_ns, default=None)


class _Sections:
    """The first section of each name."""

    def __init__(self, sections: Mapping[str, list[Section]]) -> None:
        self.all = sections

    def text(self, name: str) -> str:
        return self.all[name][0].text if name in self.all else ""

    def line(self, name: str) -> str:
        """The first non-empty line, sanitized for display."""
        return _short(self.all[name][0].line) if name in self.all else ""

    def good(self, name: str) -> str:
        """The text of a section whose command succeeded; else empty."""
        return self.text(name) if name in self.all and self.all[name][0].status == 0 else ""


def _host(one: _Sections, now: float) -> HostFacts:
    settings = _fields(one.text("settings"), " ")
    cpu = _fields(one.text("cpu"), ":")
    perf, version, problem = _perf(one)
    python, torch = _python(one)
    capabilities = perf_capabilities.from_status(one.text("rights")) | perf_capabilities.from_getcap(
        one.good("capabilities")
    )
    paranoid = _number(settings.get("perf_event_paranoid"))
    if perf is not None and paranoid is None:
        perf, problem = None, perf_capabilities.NO_PERF_EVENTS
    limits = {
        name: settings[name]
        for name in ("ptrace_scope", "perf_event_max_stack", "perf_cpu_time_max_percent", "nmi_watchdog")
        if _number(settings.get(name)) is not None
    }
    limits |= {ours: cpu[theirs] for theirs, ours in _CPU_FACTS.items() if cpu.get(theirs)}
    memory = re.search(r"MemTotal:\s*(\d+) kB", one.text("memory"))
    branches = any(_number(line.rpartition(" ")[2]) for line in one.text("branches").splitlines())
    user_id = one.line("uid")
    return HostFacts(
        host=one.line("host") or "unknown",
        checked_at=now,
        os=_os_name(one.text("os")),
        kernel=one.line("kernel"),
        cpu=cpu.get("model name") or cpu.get("cpu") or one.line("machine"),
        cpus=_number(one.line("cpus")) or 0,
        memory_bytes=int(memory[1]) * 1024 if memory else 0,
        user=one.line("user") or user_id,
        root=user_id == "0" and bool({"cap_sys_admin", "cap_perfmon"} & capabilities),
        perf=perf,
        perf_version=version,
        perf_problem=problem,
        perf_capabilities=tuple(sorted(capabilities)),
        paranoid=paranoid,
        kptr_restrict=_number(settings.get("kptr_restrict")),
        max_frequency=_number(settings.get("perf_event_max_sample_rate")),
        mlock_kb=_number(settings.get("perf_event_mlock_kb")),
        hardware_counters=_counters(one),
        lbr="GenuineIntel" in cpu.get("vendor_id", "") and branches,
        options=perf_list.record_options(one.text("record-help"), one.text("build")) if perf else (),
        stat_options=perf_list.stat_options(one.text("stat-help")) if perf else (),
        events=_events(one) if perf else (),
        limits=limits,
        python=python,
        torch=torch,
    )


def _python(one: _Sections) -> tuple[str, str]:
    """(path, version of its PyTorch) of the first Python that is found; empty if there is none."""
    lines = [*map(_short, one.text("python").splitlines()), "", ""]
    return (lines[0], lines[1] if one.good("python") else "") if lines[0].startswith("/") else ("", "")


def _perf(one: _Sections) -> tuple[str | None, str | None, str | None]:
    """(path, version, problem) of the perf that runs."""
    problem = None
    for section in one.all.get("perf", []):
        path, _, said = section.text.partition("\n")
        version = perf_list.version(said)
        if version:
            return path, version, None
        problem = problem or f"{path} exists, but does not run: {_short(said) or 'it prints nothing'}"
    return None, None, problem


def _counters(one: _Sections) -> bool | None:
    for name in ("counters", "user-counters"):
        counters = perf_list.counts_hardware_events(one.text(name))
        if counters is not None:
            return counters
    return None


def _events(one: _Sections) -> tuple[PerfEvent, ...]:
    try:
        return perf_list.events_from_json(one.good("list-json"))
    except ValueError:
        return perf_list.events_from_text(one.text("list"))


def _mpi_launchers(one: _Sections, target: Target) -> tuple[dict[str, str], dict[str, str]]:
    """The programs and their versions, by MPI implementation. The target's own settings take precedence."""
    programs: dict[str, str] = {}
    versions: dict[str, str] = {}
    for section in one.all.get("launcher", []):
        program, _, rest = section.text.partition("\n")
        output = rest.partition("\n")[2]
        # Derived implementations are registered after their base, and may print its name, too.
        for launcher in reversed([each for each in MPI_LAUNCHERS.values() if not each.probe_command]):
            if version := launcher.parse_version(output):
                programs.setdefault(launcher.implementation, program)
                versions.setdefault(launcher.implementation, version)
                break
    for launcher in MPI_LAUNCHERS.values():
        name = launcher.implementation
        if launcher.probe_command and (version := launcher.parse_version(one.good(name))):
            programs[name], versions[name] = launcher.probe_command[0], version
    return {str(name): program for name, program in programs.items()} | dict(target.starters), {
        str(name): version for name, version in versions.items()
    }


def _scheduler(one: _Sections, target: Target, problems: dict[str, str]) -> tuple[str, tuple[BatchQueue, ...]]:
    adapter = scheduler_of(target.scheduler)
    if adapter is None:
        return "", ()
    version = _scheduler_version(adapter, "\n".join(each.text for each in one.all.get(adapter.name, [])))
    if "queues" not in one.all:
        return version, ()
    answer = one.all["queues"][0]
    try:
        return version, adapter.parse_queues_output(answer.text, one.text("queues-problem"), answer.status or 0)
    except Exception as error:
        # The output of an unknown version of the batch system may cause any error; the other facts remain valid.
        message = getattr(error, "message", None)
        said = _short(one.text("queues-problem") or answer.text)
        problems["scheduler"] = message or f"Its list of queues cannot be read: {said or type(error).__name__}"
        return version, ()


def _scheduler_version(scheduler: Scheduler, text: str) -> str:
    match = re.search(scheduler.version_pattern, text, re.M)
    return f"{scheduler.title} {match[1]}" if match else ""


@dataclass(frozen=True)
class _DirectoryFacts:
    path: str = ""
    system: str = ""
    runs: bool | None = None
    free_bytes: int | None = None
    problem: str = ""


def _parse_directory(text: str) -> _DirectoryFacts:
    """The facts about a directory."""
    found = dict(re.findall(r"^(path|system|runs) (.*)$", text, re.M))
    problem = re.search(r"^problem (.*)", text, re.M)
    free = re.search(r"^\S.*?\s\d+\s+\d+\s+(\d+)\s+\d+%\s", text, re.M)
    path = found.get("path", "")
    said = _short(problem[1]) if problem else ""
    if path and not path.startswith("/"):
        path, said = "", f"“{path[:80]}” is not an absolute path."
    return _DirectoryFacts(
        path=path,
        system=found.get("system", ""),
        runs={"yes": True, "no": False}.get(found.get("runs", "")),
        free_bytes=int(free[1]) * 1024 if free else None,
        problem=said,
    )


def _reports_error(text: str) -> bool:
    """Whether module reported an error; old versions exit with status 0 anyway."""
    return bool(re.search(r"\bERROR\b|Unable to locate a modulefile|The following module\(s\) are unknown", text))


def _fields(text: str, mark: str) -> dict[str, str]:
    fields = {}
    for line in text.splitlines():
        key, _, value = line.partition(mark)
        fields[key.strip()] = _short(value)
    return fields


def _os_name(text: str) -> str:
    name = _fields(text, "=").get("PRETTY_NAME", "").strip("\"'")
    return re.sub(r"\\(.)", r"\1", name) or "Linux"


def _number(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"-?\d{1,18}", text) else None


def _short(text: str) -> str:
    return shorten(sanitize_line(text), _MAX_TEXT)
