"""Hosts with workers: their facts, and requests to their workers with the answers.

The web process never probes its own host (a login node is not a compute node): it stores a request here, notifies the
worker of the host, and polls for the answer.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, select, update

from ..domain.errors import NotFound
from ..domain.host_facts import HostFacts
from .database import Database
from .ids import new_id, require_id
from .models.base import storable
from .models.hosts import CheckRow, HostRow

CHECKS_KEPT_SECONDS = 3600.0
KEYS_KEPT_SECONDS = 30 * 86400.0
"""The same for an answer with a host key that a user has to accept."""
MAX_SEARCHED = 500
"""The maximum number of requests that are searched for the latest one about a target."""
HEARTBEAT_TIMEOUT_SECONDS = 20.0
"""Without a heartbeat for longer than this, a worker is considered not running."""
_LATEST_FIRST = (HostRow.seen.desc(), HostRow.name)


@dataclass(frozen=True)
class Host:
    """A host. facts: null until its worker has published them. seen: its last heartbeat (epoch seconds).

    public_key: to which secrets for the worker are encrypted, null if it has published none; key_id: its id.
    """

    name: str
    facts: HostFacts | None
    seen: float
    key_id: str | None = None
    public_key: bytes | None = None


@dataclass(frozen=True)
class Check:
    """A request to a host and its answer, null until there is one; both JSON."""

    id: str
    question: dict[str, Any]
    answer: dict[str, Any] | None
    created: float


class Hosts:
    """The hosts in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def publish(self, facts: HostFacts, now: float | None = None) -> None:
        """Store the facts and a heartbeat of a host."""
        seen = time.time() if now is None else now
        with self._database.write() as session:
            # Facts and key are published by different processes: each keeps the other's columns.
            session.merge(HostRow(name=storable(facts.host), facts=facts.to_json(), seen=seen))

    def publish_key(self, name: str, key_id: str, public_key: bytes, now: float | None = None) -> None:
        """Store the public key of the worker of a host."""
        seen = time.time() if now is None else now
        row = HostRow(name=storable(name), key_id=key_id, public_key=public_key.hex(), seen=seen)
        with self._database.write() as session:
            session.merge(row)

    def heartbeat(self, name: str, now: float | None = None) -> None:
        """Store a heartbeat of the worker of a host."""
        seen = time.time() if now is None else now
        with self._database.write() as session:
            rowcount: int = session.execute(  # type: ignore[attr-defined]
                update(HostRow).where(HostRow.name == name).values(seen=seen)
            ).rowcount
            if not rowcount:
                session.add(HostRow(name=storable(name), facts=None, seen=seen))

    def get(self, name: str) -> Host:
        """A host by its name. Raises NotFound."""
        with self._database.read() as session:
            row = session.scalar(select(HostRow).where(HostRow.name == name))
        if row is None:
            raise NotFound(f"No worker has ever run on {name[:80]!r}; start one there with perfloom worker.")
        return _host(row)

    def list(self) -> tuple[Host, ...]:
        """Hosts, the latest heartbeat first."""
        query = select(HostRow).order_by(*_LATEST_FIRST)
        with self._database.read() as session:
            return tuple(_host(row) for row in session.scalars(query))

    def list_alive(self, since: float | None = None) -> tuple[Host, ...]:
        """Hosts with a heartbeat since then (epoch seconds; default: with a running worker), the latest first. Without
        their facts, which are long."""
        since = time.time() - HEARTBEAT_TIMEOUT_SECONDS if since is None else since
        query = select(HostRow.name, HostRow.seen, HostRow.key_id, HostRow.public_key)
        query = query.where(HostRow.seen >= since).order_by(*_LATEST_FIRST)
        with self._database.read() as session:
            return tuple(Host(name, None, seen, id, _key(key)) for name, seen, id, key in session.execute(query))

    def delete(self, name: str) -> None:
        """Delete a host."""
        with self._database.write() as session:
            session.execute(delete(HostRow).where(HostRow.name == name))


class Checks:
    """Requests to hosts. They are deleted after an hour; those with a host key to accept after a month."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def ask(self, question: Mapping[str, Any]) -> Check:
        """Store a request, and delete old ones."""
        now = time.time()
        row = CheckRow(id=new_id(), question=dict(question), answer=None, created=now)
        with self._database.write() as session:
            for old in session.scalars(select(CheckRow).where(CheckRow.created < now - CHECKS_KEPT_SECONDS)):
                if not (old.answer or {}).get("host_key") or old.created < now - KEYS_KEPT_SECONDS:
                    session.delete(old)
            session.add(row)
        return self.get(row.id)

    def get(self, id: str) -> Check:
        """A request by its id. Raises NotFound."""
        with self._database.read() as session:
            row = session.get(CheckRow, require_id(id, "check"))
        if row is None:
            raise NotFound("This check has expired; check again.")
        return Check(row.id, row.question, row.answer, row.created)

    def latest(self, kind: str, target: str) -> Check | None:
        """The latest answered check of a target, None without one. kind: the value of `kind` in such requests."""
        query = (
            select(CheckRow).where(CheckRow.answer.is_not(None)).order_by(CheckRow.created.desc()).limit(MAX_SEARCHED)
        )
        with self._database.read() as session:
            for row in session.scalars(query):
                question = row.question
                if (question.get("kind"), question.get("target")) == (kind, target) and not question.get("close"):
                    return Check(row.id, row.question, row.answer, row.created)
        return None

    def answer(self, id: str, answer: Mapping[str, Any]) -> bool:
        """Store the answer, if it is the first. False if there is one, or the request was deleted."""
        change = update(CheckRow).where(CheckRow.id == id, CheckRow.answer.is_(None)).values(answer=dict(answer))
        with self._database.write() as session:
            rowcount: int = session.execute(change).rowcount  # type: ignore[attr-defined]
        return rowcount > 0


def _host(row: HostRow) -> Host:
    return Host(
        name=row.name,
        facts=None if row.facts is None else HostFacts.from_json(row.facts),
        seen=row.seen,
        key_id=row.key_id,
        public_key=_key(row.public_key),
    )


def _key(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)
