"""The table of jobs."""

from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, Integer
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base
from .results import ResultRow


class JobRow(Base):
    """A job: see `jobs.Job` for what the columns mean."""

    __tablename__ = "jobs"
    __table_args__ = (Index(None, "state", "due_at"), Index(None, "created"), Index(None, "target", "state"))

    id: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    name: Mapped[str]
    spec: Mapped[dict[str, Any]]
    target: Mapped[str] = mapped_column(server_default="local")
    state: Mapped[str]
    progress: Mapped[float | None]
    progress_text: Mapped[str]
    created: Mapped[float]
    changed: Mapped[float]
    started: Mapped[float | None]
    ended: Mapped[float | None]
    attempt: Mapped[int] = mapped_column(Integer)
    claimed_by: Mapped[str | None]
    host: Mapped[str | None]
    process_group: Mapped[int | None] = mapped_column(BigInteger)
    argv: Mapped[list[Any] | None]
    outcome: Mapped[dict[str, Any] | None]
    reason: Mapped[str | None]
    result_id: Mapped[str | None] = mapped_column(ForeignKey(ResultRow.id, ondelete="SET NULL"))
    cancel_requested: Mapped[bool]
    due_at: Mapped[float | None]
    details: Mapped[dict[str, Any]]
    history: Mapped[list[Any]]
