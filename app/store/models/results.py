"""The tables of results."""

from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base


class ResultRow(Base):
    """The row of a result; its profile is stored in columns. search: all searchable text, case folded.

    created: when it was stored. recorded: when its recording started, null if unknown. missing: whether its files are
    missing. originals: see `results.Original`.
    """

    __tablename__ = "results"
    __table_args__ = (Index(None, "created"), Index(None, "recorded"), Index(None, "name"))

    id: Mapped[str] = mapped_column(primary_key=True)
    job_id: Mapped[str | None]
    name: Mapped[str]
    format: Mapped[str]
    created: Mapped[float]
    bytes: Mapped[int] = mapped_column(BigInteger)
    meta: Mapped[dict[str, Any]]
    events: Mapped[list[Any]]
    samples: Mapped[int] = mapped_column(BigInteger)
    threads: Mapped[int] = mapped_column(BigInteger)
    duration_ns: Mapped[int | None] = mapped_column(BigInteger)
    host: Mapped[str]
    command: Mapped[str]
    complete: Mapped[bool]
    reasons: Mapped[list[Any]]
    originals: Mapped[list[Any]]
    notes: Mapped[str]
    search: Mapped[str]
    missing: Mapped[bool]
    recorded: Mapped[float | None]


class TagRow(Base):
    """A tag of a result."""

    __tablename__ = "tags"
    __table_args__ = (Index(None, "tag"),)

    result_id: Mapped[str] = mapped_column(ForeignKey("results.id", ondelete="CASCADE"), primary_key=True)
    tag: Mapped[str] = mapped_column(primary_key=True)


class SelectionRow(Base):
    """A named selection of a result, as a query string."""

    __tablename__ = "selections"

    result_id: Mapped[str] = mapped_column(ForeignKey("results.id", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    query: Mapped[str]
