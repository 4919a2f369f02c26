"""HostFacts: what a worker detected on its machine. The web process never inspects its own machine."""

from dataclasses import asdict, dataclass, field
from typing import Any

from .isolation import ProcessNamespaces
from .json_fields import select_known_fields

TUPLE_FIELDS = ("perf_capabilities", "options", "stat_options", "readable_secrets")


@dataclass(frozen=True)
class PerfEvent:
    """An event that `perf list` offers. group: hardware, cache, software, tracepoint, raw or another group of perf."""

    name: str
    group: str
    description: str = ""


@dataclass(frozen=True)
class HostFacts:
    """Facts of one host. perf None: not installed. paranoid: /proc/sys/kernel/perf_event_paranoid.

    perf_problem: why an installed perf cannot be used (None: it can). perf_capabilities: names such as "cap_perfmon"
    that a perf started by the worker has, from the worker itself or from the file. options: names of `perf record`
    options that this perf offers and that Perfloom may use ("-z", "--no-bpf-event"); "--call-graph dwarf" if it can
    unwind. stat_options: the same for `perf stat`. lbr: whether the CPU records call stacks. python: the first
    interpreter on PATH; torch: its version of PyTorch ("": none, or not checked). hardware_counters: whether cycles and
    instructions can be counted here (virtual machines often cannot). checked_at: seconds since the epoch. jobs: as
    which user and in which namespaces programs run there; readable_secrets: files with secrets of the server that they
    can read.
    """

    host: str
    checked_at: float = 0.0
    os: str = ""
    kernel: str = ""
    cpu: str = ""
    cpus: int = 0
    memory_bytes: int = 0
    user: str = ""
    root: bool = False
    perf: str | None = None
    perf_version: str | None = None
    perf_problem: str | None = None
    perf_capabilities: tuple[str, ...] = ()
    paranoid: int | None = None
    kptr_restrict: int | None = None
    max_frequency: int | None = None
    mlock_kb: int | None = None
    hardware_counters: bool | None = None
    lbr: bool | None = None
    options: tuple[str, ...] = ()
    stat_options: tuple[str, ...] = ()
    python: str = ""
    torch: str = ""
    events: tuple[PerfEvent, ...] = ()
    limits: dict[str, str] = field(default_factory=dict)
    jobs: ProcessNamespaces | None = None
    readable_secrets: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "HostFacts":
        known_fields = select_known_fields(cls, data)
        events = tuple(PerfEvent(**event) for event in known_fields.get("events", ()))
        tuples = {name: tuple(known_fields.get(name, ())) for name in TUPLE_FIELDS}
        jobs = (
            ProcessNamespaces(**select_known_fields(ProcessNamespaces, known_fields["jobs"]))
            if known_fields.get("jobs")
            else None
        )
        return cls(**known_fields | tuples | {"events": events, "jobs": jobs})
