"""Machines that have workers: what the workers found out about them, and the questions put to them.

The web process never asks its own machine (a login node is no compute node): it puts a question here, notifies the
machine's worker, and looks for the answer here.
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
from .models import CheckRow, HostRow, storable

CHECKS_KEPT_SECONDS = 3600.0
KEYS_KEPT_SECONDS = 30 * 86400.0
"""The same for one whose answer is a host's key that somebody has to accept."""
MAX_SEARCHED = 500
"""Among so many questions the latest about a target is looked for."""
HEARTBEAT_TIMEOUT_SECONDS = 20.0
"""A worker that was not heard of for longer is not there."""
_LATEST_FIRST = (HostRow.seen.desc(), HostRow.name)


@dataclass(frozen=True)
class Host:
    """A machine. facts: null until its worker has found them. seen: when the worker was last heard of (epoch).

    public_key: what secrets for the worker are encrypted to, null where it has published none; key_id names it.
    """

    name: str
    facts: HostFacts | None
    seen: float
    key_id: str | None = None
    public_key: bytes | None = None


@dataclass(frozen=True)
class Check:
    """A question to a machine and, once there is one, its answer; both JSON."""

    id: str
    question: dict[str, Any]
    answer: dict[str, Any] | None
    created: float


class Hosts:
    """The machines in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def publish(self, facts: HostFacts, now: float | None = None) -> None:
        """Store the facts of a machine, heard of just now."""
        seen = time.time() if now is None else now
        with self._database.write() as session:
            # Whoever publishes facts does not know the key, and the other way round: each leaves the other's alone.
            session.merge(HostRow(name=storable(facts.host), facts=facts.to_json(), seen=seen))

    def publish_key(self, name: str, key_id: str, public_key: bytes, now: float | None = None) -> None:
        """Store the key that secrets for the worker of a machine are to be encrypted to."""
        seen = time.time() if now is None else now
        row = HostRow(name=storable(name), key_id=key_id, public_key=public_key.hex(), seen=seen)
        with self._database.write() as session:
            session.merge(row)

    def heartbeat(self, name: str, now: float | None = None) -> None:
        """Note that the worker of a machine is alive."""
        seen = time.time() if now is None else now
        with self._database.write() as session:
            rowcount: int = session.execute(  # type: ignore[attr-defined]
                update(HostRow).where(HostRow.name == name).values(seen=seen)
            ).rowcount
            if not rowcount:
                session.add(HostRow(name=storable(name), facts=None, seen=seen))

    def get(self, name: str) -> Host:
        """A machine by its name. Raises NotFound."""
        with self._database.read() as session:
            row = session.scalar(select(HostRow).where(HostRow.name == name))
        if row is None:
            raise NotFound(f"No worker has ever run on {name[:80]!r}; start one there with perfloom worker.")
        return _host(row)

    def list(self) -> tuple[Host, ...]:
        """Machines, the latest heard of first."""
        wanted = select(HostRow).order_by(*_LATEST_FIRST)
        with self._database.read() as session:
            return tuple(_host(row) for row in session.scalars(wanted))

    def list_alive(self, since: float | None = None) -> tuple[Host, ...]:
        """Machines whose worker was heard of since then (epoch), or is taken to be there; the latest first. Without
        their facts, which are long."""
        since = time.time() - HEARTBEAT_TIMEOUT_SECONDS if since is None else since
        wanted = select(HostRow.name, HostRow.seen, HostRow.key_id, HostRow.public_key)
        wanted = wanted.where(HostRow.seen >= since).order_by(*_LATEST_FIRST)
        with self._database.read() as session:
            return tuple(Host(name, None, seen, id, _key(key)) for name, seen, id, key in session.execute(wanted))

    def delete(self, name: str) -> None:
        """Forget a machine."""
        with self._database.write() as session:
            session.execute(delete(HostRow).where(HostRow.name == name))


class Checks:
    """Questions to machines, kept for an hour; those that wait for somebody to accept a key, for a month."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def ask(self, question: Mapping[str, Any]) -> Check:
        """Store a question. What is too old is forgotten."""
        now = time.time()
        row = CheckRow(id=new_id(), question=dict(question), answer=None, created=now)
        with self._database.write() as session:
            for old in session.scalars(select(CheckRow).where(CheckRow.created < now - CHECKS_KEPT_SECONDS)):
                if not (old.answer or {}).get("host_key") or old.created < now - KEYS_KEPT_SECONDS:
                    session.delete(old)
            session.add(row)
        return self.get(row.id)

    def get(self, id: str) -> Check:
        """A question by its id. Raises NotFound."""
        with self._database.read() as session:
            row = session.get(CheckRow, require_id(id, "check"))
        if row is None:
            raise NotFound("This check has expired; check again.")
        return Check(row.id, row.question, row.answer, row.created)

    def latest(self, kind: str, target: str) -> Check | None:
        """The latest check of a target that was answered, None where there is none (any more). kind: the word `kind` of
        such questions."""
        wanted = (
            select(CheckRow).where(CheckRow.answer.is_not(None)).order_by(CheckRow.created.desc()).limit(MAX_SEARCHED)
        )
        with self._database.read() as session:
            for row in session.scalars(wanted):
                question = row.question
                if (question.get("kind"), question.get("target")) == (kind, target) and not question.get("close"):
                    return Check(row.id, row.question, row.answer, row.created)
        return None

    def answer(self, id: str, answer: Mapping[str, Any]) -> bool:
        """Store the answer; the first one stands. False where there is one, or the question is forgotten."""
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
