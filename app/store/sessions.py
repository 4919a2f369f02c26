"""Sessions of browsers that have presented the token. The database has only hashes of their ids, which open none."""

import hashlib
import time
from dataclasses import dataclass

from sqlalchemy import delete, select

from .database import Database
from .models.base import storable
from .models.sessions import SessionRow

MAX_SESSIONS = 1000
"""The maximum number of sessions; the oldest are ended."""


@dataclass(frozen=True)
class BrowserSession:
    """A session. name: identifies it in the list; it does not grant access. Times are seconds since the epoch."""

    name: str
    began: float
    expires: float
    address: str
    agent: str


class Sessions:
    """The sessions of a realm in the database. Each token has its own realm, so that no session outlives its token."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, id: str, realm: str, seconds: float, address: str, agent: str) -> None:
        """Store a session of the browser that has the secret `id`; it expires after so many seconds."""
        now = time.time()
        row = SessionRow(
            hash=hash_of(id),
            realm=realm,
            began=now,
            expires=now + seconds,
            address=storable(address[:100]),
            agent=storable(agent[:300]),
        )
        with self._database.write() as session:
            session.execute(delete(SessionRow).where((SessionRow.expires <= now) | (SessionRow.realm != realm)))
            oldest = select(SessionRow.hash).order_by(SessionRow.began.desc()).offset(MAX_SESSIONS - 1)
            for hash in session.scalars(oldest).all():
                session.execute(delete(SessionRow).where(SessionRow.hash == hash))
            session.add(row)

    def is_valid(self, id: str, realm: str) -> bool:
        """Whether a session is active."""
        query = select(SessionRow.expires).where(SessionRow.hash == hash_of(id), SessionRow.realm == realm)
        with self._database.read() as session:
            expires = session.scalar(query)
        return expires is not None and expires > time.time()

    def list(self, realm: str) -> tuple[BrowserSession, ...]:
        """The active sessions, newest first."""
        query = select(SessionRow).where(SessionRow.realm == realm, SessionRow.expires > time.time())
        with self._database.read() as session:
            rows = session.scalars(query.order_by(SessionRow.began.desc(), SessionRow.hash))
            return tuple(BrowserSession(r.hash[:16], r.began, r.expires, r.address, r.agent) for r in rows)

    def end(self, id: str) -> None:
        """End the session with this id."""
        self._end(hash_of(id))

    def end_by_name(self, name: str) -> None:
        """End the session with this name."""
        with self._database.write() as session:
            session.execute(delete(SessionRow).where(SessionRow.hash.startswith(name, autoescape=True)))

    def end_all(self) -> None:
        """End every session."""
        with self._database.write() as session:
            session.execute(delete(SessionRow))

    def _end(self, hash: str) -> None:
        with self._database.write() as session:
            session.execute(delete(SessionRow).where(SessionRow.hash == hash))


def hash_of(id: str) -> str:
    """SHA-256 in hexadecimal. The id has 192 random bits, so that a slow hash would gain nothing."""
    return hashlib.sha256(id.encode(errors="replace")).hexdigest()
