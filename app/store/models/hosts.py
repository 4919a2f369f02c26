"""The tables of hosts, and of what their workers do."""

from typing import Any

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base


class HostRow(Base):
    """A host with a worker: its facts, and the worker's last heartbeat.

    public_key: hexadecimal, the key to which secrets for that worker are encrypted; key_id: its id.
    """

    __tablename__ = "hosts"

    name: Mapped[str] = mapped_column(primary_key=True)
    facts: Mapped[dict[str, Any] | None]
    seen: Mapped[float]
    key_id: Mapped[str | None]
    public_key: Mapped[str | None]


class CheckRow(Base):
    """A request to the worker of a host."""

    __tablename__ = "checks"
    __table_args__ = (Index(None, "created"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    question: Mapped[dict[str, Any]]
    answer: Mapped[dict[str, Any] | None]
    created: Mapped[float]


class LeaseRow(Base):
    """The owner of a lease, and when it expires."""

    __tablename__ = "leases"

    name: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str]
    expires: Mapped[float]
