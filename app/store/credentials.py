"""Secrets encrypted to a worker's key. Only that worker, while it lives, can open them."""

import time
from dataclasses import dataclass

from sqlalchemy import delete, select

from .database import Database
from .models.base import storable
from .models.targets import CredentialRow


@dataclass(frozen=True)
class SealedBox:
    """Secrets for `subject` ("job:<id>" or "target:<name>"), encrypted to the key `key_id` of the worker on `host`.

    expires: seconds since the epoch.
    """

    subject: str
    host: str
    key_id: str
    sealed: bytes
    expires: float


class Credentials:
    """The encrypted secrets in the database. Expired ones are not returned, and are deleted at the next `put`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, subject: str, host: str, key_id: str, sealed: bytes, expires: float) -> None:
        """Store them, and replace those for the same subject and key."""
        row = CredentialRow(
            subject=storable(subject), key_id=key_id, host=storable(host), sealed=sealed.hex(), expires=expires
        )
        with self._database.write() as session:
            session.execute(delete(CredentialRow).where(CredentialRow.expires <= time.time()))
            session.merge(row)

    def get(self, subject: str) -> tuple[SealedBox, ...]:
        """The encrypted secrets of a subject, one for each key."""
        query = select(CredentialRow).where(CredentialRow.subject == subject, CredentialRow.expires > time.time())
        with self._database.read() as session:
            return tuple(
                SealedBox(row.subject, row.host, row.key_id, bytes.fromhex(row.sealed), row.expires)
                for row in session.scalars(query.order_by(CredentialRow.key_id))
            )

    def delete(self, subject: str) -> None:
        """Delete the encrypted secrets of a subject."""
        with self._database.write() as session:
            session.execute(delete(CredentialRow).where(CredentialRow.subject == subject))
