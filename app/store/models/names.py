"""The tables of what users have given a name: job descriptions, formulas, events."""

from typing import Any

from sqlalchemy import Integer
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base


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
