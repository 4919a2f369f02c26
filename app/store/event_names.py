"""Own names for events, for all jobs of the installation."""

from collections.abc import Iterable

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from ..domain.errors import InvalidRequest, NotFound
from ..recording.fields.own_events import MAX_EVENTS, OwnEvent
from .database import Database
from .models.names import EventNameRow


class OwnEventNames:
    """The own names in the database. Each belongs to one event."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self) -> tuple[OwnEvent, ...]:
        """All of them, in order of the names."""
        with self._database.read() as session:
            return _list(session)

    def save(self, events: Iterable[OwnEvent]) -> None:
        """Store events; each replaces the one with its name. Raises InvalidRequest beyond the limit; then nothing is
        stored."""
        with self._database.write() as session:
            for each in events:
                session.merge(EventNameRow(name=each.name, event=each.event, description=each.description))
            session.flush()
            if len(_list(session)) > MAX_EVENTS:
                raise InvalidRequest(f"There are at most {MAX_EVENTS:,} own names. Delete some first.", "name")

    def delete(self, name: str) -> None:
        """Remove a name. Raises NotFound."""
        with self._database.write() as session:
            found = session.execute(delete(EventNameRow).where(EventNameRow.name == name))
            if not found.rowcount:  # type: ignore[attr-defined]
                raise NotFound(f"No own event {name[:80]!r}; it may have been deleted.")


def _list(session: Session) -> tuple[OwnEvent, ...]:
    rows = session.scalars(select(EventNameRow).order_by(func.lower(EventNameRow.name), EventNameRow.name))
    return tuple(OwnEvent(row.name, row.event, row.description) for row in rows)
