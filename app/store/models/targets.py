"""The tables of targets and their secrets."""

from typing import Any

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base


class TargetRow(Base):
    """A target, and the result of its last check."""

    __tablename__ = "targets"

    name: Mapped[str] = mapped_column(primary_key=True)
    target: Mapped[dict[str, Any]]
    changed: Mapped[float]
    facts: Mapped[dict[str, Any] | None]
    lines: Mapped[list[Any] | None]
    checked: Mapped[float | None]


class CredentialRow(Base):
    """Secrets encrypted to the key of one worker, which only that worker can decrypt. `sealed`: hexadecimal."""

    __tablename__ = "credentials"
    __table_args__ = (Index(None, "expires"),)

    subject: Mapped[str] = mapped_column(primary_key=True)
    key_id: Mapped[str] = mapped_column(primary_key=True)
    host: Mapped[str]
    sealed: Mapped[str]
    expires: Mapped[float]
