"""Where a job of the form may run: targets to choose from, and what is known of the one that was chosen."""

from collections.abc import Mapping
from dataclasses import dataclass

from ....domain.facts import HostFacts
from ....domain.jobs import JobSpec, RecorderName
from ....domain.targets import LOCAL, Queue, Target, TargetFacts
from ....recording.fields.check_place import FLAVOURS
from ....recording.fields.events import EventIndex, EventMatches
from ....recording.fields.relevance import made
from ....recording.plan import UNKNOWN_HOST
from ....recording.recorders.events import to_count, to_sample
from ....recording.schedulers import scheduler_of
from ....store import Host, StoredTarget
from ...services import services


@dataclass(frozen=True)
class TargetChoice:
    """A target in the form's list. words: what it decides (see forms/relevance.py)."""

    name: str
    label: str
    words: Mapping[str, str]


@dataclass(frozen=True)
class Place:
    """The target that was chosen. target null: there is none of this name. host: the machine that the form names.

    recording: facts of where perf runs, facts: of the target's last check; null as long as they are not known.
    """

    name: str
    target: Target | None
    host: str
    recording: HostFacts | None
    facts: TargetFacts | None

    @property
    def words(self) -> Mapping[str, str]:
        """What the target decides about the fields of the form."""
        return made(self.target or Target(LOCAL))

    @property
    def queues(self) -> tuple[Queue, ...]:
        """Queues or partitions that its check found."""
        return self.facts.queues if self.facts else ()

    @property
    def text(self) -> str:
        """One line on the machine that will record."""
        if self.target is None:
            return "There is no such target any more."
        found = self.recording
        if found is None:
            if self.name == LOCAL:
                return "No worker has described its machine yet."
            return "No check of it has succeeded yet: what is there is not known."
        parts = [found.host, found.cpu, f"{found.cpus} CPUs" if found.cpus else "", found.os]
        perf = f"perf {found.perf_version}" if found.perf_version else "no perf"
        return " · ".join(part for part in [*parts, perf] if part)

    @property
    def suggested(self) -> str:
        """Which MPI is there, in words; empty where nothing is known."""
        names = [FLAVOURS[flavour] for flavour in FLAVOURS if self.facts and flavour in self.facts.starters]
        if self.target is not None and self.target.mpi is not None:
            return f"Usual there: {FLAVOURS[self.target.mpi]}."
        return f"Found there: {', '.join(names)}." if names else ""

    @property
    def queue_hint(self) -> str:
        """Which queue is taken where none is named."""
        default = next((queue.name for queue in self.queues if queue.default), "")
        return f"Empty: the default, {default}." if default else "Empty: the default."

    @property
    def default_events(self) -> dict[str, str]:
        """What each recorder measures where no event is given."""
        facts, plain = self.recording or UNKNOWN_HOST, JobSpec()
        return {
            RecorderName.PERF_RECORD.value: ", ".join(to_sample(plain, facts)),
            RecorderName.PERF_STAT.value: ", ".join(to_count(plain, facts)),
        }


def targets() -> dict[str, Target]:
    """All targets by name."""
    return services().store.targets.all()


def choices() -> tuple[TargetChoice, ...]:
    """What the form's list of targets holds."""
    return tuple(TargetChoice(name, _label(target), made(target)) for name, target in targets().items())


def place_of(name: str) -> Place:
    """What is known of a target, whether it exists or not."""
    stored = services().store.targets.find(name)
    if name == LOCAL:
        host = present_host()
        own = stored or StoredTarget(LOCAL, Target(LOCAL))
        return Place(LOCAL, own.target, host.name if host else "", host.facts if host else None, own.facts)
    if stored is None:
        return Place(name, None, "", None, None)
    facts = stored.facts
    return Place(name, stored.target, name, facts.recording if facts else None, facts)


def present_host() -> Host | None:
    """The machine that would run a local job, as far as known: the one last heard of, with facts before one without."""
    hosts = services().store.hosts.list()
    return next((host for host in hosts if host.facts), hosts[0] if hosts else None)


def matches(place: Place, query: str, group: str = "", offset: int = 0) -> EventMatches:
    """The events of a place that fit a search."""
    facts = place.recording
    return (_index(place.name, facts) if facts else EventIndex.of(())).search(query, group, offset)


_indexes: dict[tuple[str, str, float], EventIndex] = {}


def _index(name: str, facts: HostFacts) -> EventIndex:
    """The index of a place's events, made once for each time they were looked up there."""
    key = (name, facts.host, facts.checked_at)
    found = _indexes.get(key)
    if found is None:
        found = EventIndex.of(facts.events)
        if len(_indexes) >= 8:
            _indexes.clear()
        _indexes[key] = found
    return found


def _label(target: Target) -> str:
    """A target's name, with what it is."""
    if target.name == LOCAL:
        return "local — this machine"
    scheduler = scheduler_of(target.scheduler)
    ways = [scheduler.title] if scheduler else []
    ways += [f"SSH to {target.ssh.host}"] if target.ssh else ["this machine"]
    return f"{target.name} — {', '.join(ways)}"
