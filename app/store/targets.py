"""Targets: named places to run jobs. The target local, the worker's own machine, always exists."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Select, delete, func, select, update

from ..domain.errors import Conflict, InvalidRequest, NotFound
from ..domain.jobs import JobState
from ..domain.targets import LOCAL, CheckLine, CheckStatus, Target, TargetFacts
from ..recording import adapters  # noqa: F401  (registers the names in stored targets)
from .database import Database
from .jobs import ACTIVE_STATES, POLLED_STATES
from .models.base import storable
from .models.jobs import JobRow
from .models.targets import CredentialRow, TargetRow

STARTED_STATES = tuple(state.value for state in (JobState.STAGING, *POLLED_STATES, JobState.COLLECTING))
"""States of jobs that may have files or processes at their target."""


@dataclass(frozen=True)
class StoredTarget:
    """A target and the result of its last check. facts null, lines empty: never checked. checked, changed: epoch
    seconds.

    problem: why it cannot be used, such as a batch system that is not registered; empty if it can. Then `target` has
    only what can be read, for a list.
    """

    name: str
    target: Target
    facts: TargetFacts | None = None
    lines: tuple[CheckLine, ...] = ()
    checked: float | None = None
    changed: float | None = None
    problem: str = ""


class Targets:
    """The targets in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self) -> tuple[StoredTarget, ...]:
        """All targets: local first, then by name. Also those that cannot be used."""
        with self._database.read() as session:
            found = [_to_stored(row) for row in session.scalars(_order_by_name(select(TargetRow)))]
        own = [one for one in found if one.name == LOCAL] or [_local()]
        return (*own, *(one for one in found if one.name != LOCAL))

    def all(self) -> dict[str, Target]:
        """The usable targets by name, in the same order, without the results of their checks, which are long."""
        with self._database.read() as session:
            rows = session.execute(_order_by_name(select(TargetRow.name, TargetRow.target)))
            read = {name: _read_target(name, data) for name, data in rows}
        found = {name: target for name, (target, problem) in read.items() if not problem}
        return {LOCAL: found.get(LOCAL) or Target(LOCAL)} | found

    def get(self, name: str) -> StoredTarget:
        """A target by its name. Raises NotFound, and InvalidRequest if it cannot be used."""
        found = self.find(name)
        if found is None:
            raise NotFound(f"No target {name[:80]!r}. Choose one under Targets, or add it there.")
        return found

    def find(self, name: str) -> StoredTarget | None:
        """A target by its name, or None. Raises InvalidRequest if it cannot be used."""
        stored = self.describe(name)
        if stored is not None and stored.problem:
            raise InvalidRequest(stored.problem, "target")
        return stored

    def describe(self, name: str) -> StoredTarget | None:
        """A target by its name, or None. Also one that cannot be used."""
        with self._database.read() as session:
            row = session.scalar(select(TargetRow).where(TargetRow.name == name))
        if row is None:
            return _local() if name == LOCAL else None
        return _to_stored(row)

    def save(self, target: Target) -> StoredTarget:
        """Store a target under its name. The result of an earlier check is kept if host and directory are the same;
        secrets that were typed for it are deleted if its host or connection changes. Raises InvalidRequest for the
        target local on another host, and Conflict if active jobs would be polled at another host or batch system than
        they run on."""
        if target.name == LOCAL and not target.is_local:
            raise InvalidRequest("The target local is this machine. Choose another name for another host.", "name")
        values: dict[str, Any] = {"target": target.to_json(), "changed": time.time()}
        with self._database.write() as session:
            row = session.scalar(select(TargetRow).where(TargetRow.name == target.name))
            if row is None:
                session.add(TargetRow(name=storable(target.name), **values))
            else:
                earlier, _ = _read_target(target.name, row.target)
                begun = select(func.count()).where(JobRow.target == target.name, JobRow.state.in_(STARTED_STATES))
                if _host_settings(earlier) != _host_settings(target) and (count := session.scalar(begun)):
                    raise Conflict(
                        f"{count} of its jobs have started there, and cannot be found at another host or batch system. "
                        "Wait for them, cancel them, or add a target with another name."
                    )
                active = select(func.count()).where(JobRow.target == target.name, JobRow.state.in_(ACTIVE_STATES))
                if (earlier.ssh is None) != (target.ssh is None) and (count := session.scalar(active)):
                    raise Conflict(
                        f"{count} of its jobs have not ended, and were submitted for "
                        f"{'this' if earlier.ssh is None else 'another'} machine. Wait for them, cancel them, or add a "
                        "target with another name."
                    )
                if _check_settings(earlier) != _check_settings(target):
                    values |= {"facts": None, "lines": None, "checked": None}
                if _connection_settings(earlier) != _connection_settings(target):
                    jobs = select("job:" + JobRow.id).where(
                        JobRow.target == target.name, JobRow.state.in_(ACTIVE_STATES)
                    )
                    typed = CredentialRow.subject.in_(jobs) | (CredentialRow.subject == f"target:{target.name}")
                    session.execute(delete(CredentialRow).where(typed))
                for name, value in values.items():
                    setattr(row, name, value)
        return self.get(target.name)

    def delete(self, name: str) -> None:
        """Delete a target, and the secrets for its check. Raises NotFound, or Conflict while it has active jobs."""
        if self.describe(name) is None:
            raise NotFound(f"No target {name[:80]!r}. Choose one under Targets, or add it there.")
        if name == LOCAL:
            raise InvalidRequest("The target local is this machine and cannot be deleted.")
        with self._database.write() as session:
            busy = select(func.count()).where(JobRow.target == name, JobRow.state.in_(ACTIVE_STATES))
            if count := session.scalar(busy):
                raise Conflict(f"{count} of its jobs have not ended. Cancel them, or wait for them.")
            session.execute(delete(TargetRow).where(TargetRow.name == name))
            session.execute(delete(CredentialRow).where(CredentialRow.subject == f"target:{name}"))

    def save_check(self, name: str, facts: TargetFacts | None, lines: Sequence[CheckLine]) -> None:
        """Store the result of a check; without facts those of the earlier one are kept. Raises NotFound."""
        values: dict[str, Any] = {"lines": [asdict(line) for line in lines], "checked": time.time()}
        if facts is not None:
            values["facts"] = facts.to_json()
        if self.get(name).changed is None:
            self.save(Target(name))
        with self._database.write() as session:
            session.execute(update(TargetRow).where(TargetRow.name == name).values(values))


def _host_settings(target: Target) -> tuple[object, ...]:
    """The settings that determine where started jobs are polled."""
    ssh = target.ssh
    return (None if ssh is None else (ssh.host, ssh.user, ssh.port), target.scheduler)


def _connection_settings(target: Target) -> tuple[object, ...]:
    """The settings that determine the hosts and users of the connection."""
    ssh = target.ssh
    return () if ssh is None else (ssh.host, ssh.user, ssh.port, ssh.jump, ssh.config)


def _check_settings(target: Target) -> tuple[object, ...]:
    """The settings that the result of a check depends on."""
    return (
        _host_settings(target),
        _connection_settings(target),
        target.directory,
        target.scratch,
        target.perf,
        target.modules,
    )


def _order_by_name(rows: Select[Any]) -> Select[Any]:
    return rows.order_by(func.lower(TargetRow.name), TargetRow.name)


def _local() -> StoredTarget:
    return StoredTarget(LOCAL, Target(LOCAL))


def _read_target(name: str, data: Any) -> tuple[Target, str]:
    """(the target, why it cannot be used). A name that is not registered is left out."""
    try:
        return Target.from_json(data), ""
    except InvalidRequest as error:
        problem = f"The target “{name}” cannot be used. {error.message}"
    try:
        return Target.from_json({key: value for key, value in data.items() if key not in ("scheduler", "mpi")}), problem
    except (InvalidRequest, AttributeError):
        return Target(name), problem


def _to_stored(row: TargetRow) -> StoredTarget:
    target, problem = _read_target(row.name, row.target)
    return StoredTarget(
        name=row.name,
        target=target,
        facts=None if row.facts is None else TargetFacts.from_json(row.facts),
        lines=tuple(CheckLine(**line | {"light": CheckStatus(line["light"])}) for line in row.lines or ()),
        checked=row.checked,
        changed=row.changed,
        problem=problem,
    )
