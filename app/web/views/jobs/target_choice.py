"""Targets of the job form: choices, and facts of the selected one."""

from collections.abc import Mapping
from dataclasses import dataclass

from ....domain.host_facts import HostFacts, PerfEvent
from ....domain.jobs import JobSpec
from ....domain.targets import LOCAL, BatchQueue, Target, TargetFacts
from ....recording.fields.events import OWN_GROUP, EventIndex, EventMatches
from ....recording.fields.relevance import get_target_choices
from ....recording.mpi.registry import MPI_LAUNCHERS, mpi_title
from ....recording.plan import UNKNOWN_HOST
from ....recording.recorders import RECORDERS
from ....recording.schedulers import scheduler_of
from ....store import Host, StoredTarget
from ...services import current_services


@dataclass(frozen=True)
class TargetChoice:
    """A target in the form's list. relevance: what it decides (see forms/relevance.py)."""

    name: str
    label: str
    relevance: Mapping[str, str]


@dataclass(frozen=True)
class SelectedTarget:
    """The selected target. target null: there is none of this name. host: the machine in the form.

    host_facts: facts of where perf runs, target_facts: of the target's last check; null if unknown.
    """

    name: str
    target: Target | None
    host: str
    host_facts: HostFacts | None
    target_facts: TargetFacts | None

    @property
    def relevance(self) -> Mapping[str, str]:
        """How the target affects the fields of the form."""
        return get_target_choices(self.target or Target(LOCAL))

    @property
    def queues(self) -> tuple[BatchQueue, ...]:
        """Queues or partitions that its check found."""
        return self.target_facts.queues if self.target_facts else ()

    @property
    def text(self) -> str:
        """One line on the machine that will record."""
        if self.target is None:
            return "This target no longer exists."
        host_facts = self.host_facts
        if host_facts is None:
            if self.name == LOCAL:
                return "No worker has reported on this machine yet."
            return "No check has succeeded yet, so its hardware and software are unknown."
        parts = [host_facts.host, host_facts.cpu, f"{host_facts.cpus} CPUs" if host_facts.cpus else "", host_facts.os]
        perf = f"perf {host_facts.perf_version}" if host_facts.perf_version else "no perf"
        return " · ".join(part for part in [*parts, perf] if part)

    @property
    def suggestions(self) -> str:
        """The MPI implementations found there; empty if unknown."""
        launchers = self.target_facts.mpi_launchers if self.target_facts else {}
        names = [each.label for name, each in MPI_LAUNCHERS.items() if name in launchers]
        if self.target is not None and self.target.mpi is not None:
            return f"Suggested: {mpi_title(self.target.mpi)}."
        return f"Found: {', '.join(names)}." if names else ""

    @property
    def queue_hint(self) -> str:
        """The default queue."""
        default = next((queue.name for queue in self.queues if queue.default), "")
        return f"Empty: the default, {default}." if default else "Empty: the default."

    @property
    def default_events(self) -> dict[str, str]:
        """The default events of each recorder."""
        facts, plain = self.host_facts or UNKNOWN_HOST, JobSpec()
        return {
            name: ", ".join(events) for name, recorder in RECORDERS.items() if (events := recorder.events(plain, facts))
        }


def list_targets() -> dict[str, Target]:
    """All targets by name."""
    return current_services().store.targets.all()


def list_target_choices() -> tuple[TargetChoice, ...]:
    """What the form's list of targets holds."""
    return tuple(
        TargetChoice(name, _label(target), get_target_choices(target)) for name, target in list_targets().items()
    )


def select_target(name: str) -> SelectedTarget:
    """The facts of a target, whether it exists or not."""
    stored = current_services().store.targets.describe(name)
    stored = None if stored is None or stored.problem else stored
    if name == LOCAL:
        host = current_host()
        own = stored or StoredTarget(LOCAL, Target(LOCAL))
        return SelectedTarget(LOCAL, own.target, host.name if host else "", host.facts if host else None, own.facts)
    if stored is None:
        return SelectedTarget(name, None, "", None, None)
    facts = stored.facts
    return SelectedTarget(name, stored.target, name, facts.recording_host if facts else None, facts)


def current_host() -> Host | None:
    """The machine that would run a local job, as far as known: the most recent one, preferably with facts."""
    hosts = current_services().store.hosts.list()
    return next((host for host in hosts if host.facts), hosts[0] if hosts else None)


def match_events(selected_target: SelectedTarget, query: str, group: str = "", offset: int = 0) -> EventMatches:
    """The events of a place that fit a search."""
    facts = selected_target.host_facts
    own = current_services().store.event_names.list()
    index = _index(selected_target.name, facts) if facts else EventIndex.of(())
    if own:
        named = (PerfEvent(each.recorded, OWN_GROUP, f"{each.name}: {each.description}") for each in own)
        index = EventIndex.of((*named, *index.events))
    return index.search(query, group, offset)


_indexes: dict[tuple[str, str, float], EventIndex] = {}


def _index(name: str, facts: HostFacts) -> EventIndex:
    """The index of the events of a target, built once for each listing."""
    key = (name, facts.host, facts.checked_at)
    index = _indexes.get(key)
    if index is None:
        index = EventIndex.of(facts.events)
        if len(_indexes) >= 8:
            _indexes.clear()
        _indexes[key] = index
    return index


def _label(target: Target) -> str:
    """The name of a target, with its kind."""
    if target.name == LOCAL:
        return "local — this machine"
    scheduler = scheduler_of(target.scheduler)
    ways = [scheduler.title] if scheduler else []
    ways += [f"SSH to {target.ssh.host}"] if target.ssh else ["this machine"]
    return f"{target.name} — {', '.join(ways)}"
