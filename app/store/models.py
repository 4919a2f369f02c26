"""The tables of the database. Times are seconds since the epoch (UTC). Every change here needs a migration."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Text,
    TypeDecorator,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


def storable(text: str) -> str:
    """`text` without NUL and lone surrogates (from undecodable bytes of file names), which databases cannot store."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def storable_json(value: Any) -> Any:
    """`value` with `storable` applied to every string in it."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {storable(str(key)): storable_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [storable_json(inner) for inner in value]
    return value


class AnyText(TypeDecorator[str]):
    """Text that may contain anything, such as file names or symbols."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(value)


class AnyJson(TypeDecorator[Any]):
    """JSON whose strings may contain anything."""

    impl = JSON
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return storable_json(value)


class Base(DeclarativeBase):
    """The base of all tables, with names for constraints, for use in migrations."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy declares it so
        str: AnyText,
        float: Double,
        bool: Boolean(create_constraint=False),
        dict[str, Any]: AnyJson(none_as_null=True),
        list[Any]: AnyJson(none_as_null=True),
    }


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
    result_id: Mapped[str | None] = mapped_column(ForeignKey("results.id", ondelete="SET NULL"))
    cancel_requested: Mapped[bool]
    due_at: Mapped[float | None]
    details: Mapped[dict[str, Any]]
    history: Mapped[list[Any]]


class PresetRow(Base):
    """A named job description."""

    __tablename__ = "presets"

    name: Mapped[str] = mapped_column(primary_key=True)
    spec: Mapped[dict[str, Any]]
    changed: Mapped[float]


class FormulaRow(Base):
    """A formula of the users."""

    __tablename__ = "formulas"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    name: Mapped[str]
    expression: Mapped[str]
    unit: Mapped[str]
    description: Mapped[str]


class EventNameRow(Base):
    """An own name for an event of perf."""

    __tablename__ = "event_names"

    name: Mapped[str] = mapped_column(primary_key=True)
    event: Mapped[str]
    description: Mapped[str]


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


class CheckRow(Base):
    """A request to the worker of a host."""

    __tablename__ = "checks"
    __table_args__ = (Index(None, "created"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    question: Mapped[dict[str, Any]]
    answer: Mapped[dict[str, Any] | None]
    created: Mapped[float]


class SessionRow(Base):
    """The session of a browser that has presented the token. hash: of the secret in its cookie. realm: identifies the
    token."""

    __tablename__ = "sessions"

    hash: Mapped[str] = mapped_column(primary_key=True)
    realm: Mapped[str]
    began: Mapped[float]
    expires: Mapped[float]
    address: Mapped[str]
    agent: Mapped[str]


class LeaseRow(Base):
    """The owner of a lease, and when it expires."""

    __tablename__ = "leases"

    name: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str]
    expires: Mapped[float]
