"""Leases: exclusive rights of one process, until it releases them or they expire."""

from sqlalchemy import delete, select, update
from sqlalchemy.exc import IntegrityError

from .database import Database
from .models.hosts import LeaseRow


class Leases:
    """The leases in the database. They use the clock of the database, so clocks of hosts need not agree."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, name: str, owner: str, seconds: float) -> bool:
        """Acquire or extend a lease. False while another owner has it."""
        now = self._database.now()
        change = (
            update(LeaseRow)
            .where(LeaseRow.name == name, (LeaseRow.owner == owner) | (LeaseRow.expires <= now))
            .values(owner=owner, expires=now + seconds)
        )
        try:
            with self._database.write() as session:
                if session.execute(change).rowcount:  # type: ignore[attr-defined]
                    return True
                if session.scalar(select(LeaseRow.name).where(LeaseRow.name == name)) is not None:
                    return False
                expires = session.scalar(select(now + seconds))
                session.add(LeaseRow(name=name, owner=owner, expires=expires))
        except IntegrityError:
            return False
        return True

    def release(self, name: str, owner: str) -> bool:
        """Release a lease. False if `owner` did not have it any more."""
        with self._database.write() as session:
            change = delete(LeaseRow).where(LeaseRow.name == name, LeaseRow.owner == owner)
            rowcount: int = session.execute(change).rowcount  # type: ignore[attr-defined]
        return rowcount > 0

    def holder(self, name: str) -> str | None:
        """The owner of a lease, or None."""
        query = select(LeaseRow.owner).where(LeaseRow.name == name, LeaseRow.expires > self._database.now())
        with self._database.read() as session:
            return session.scalar(query)
