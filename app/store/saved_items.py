"""Comparisons that somebody kept, and formulas over events."""

import time
from dataclasses import dataclass

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError

from ..domain.errors import NotFound
from .database import Database
from .ids import new_id, require_id
from .models import ComparisonRow, DerivedEventRow
from .result import normalize_name


@dataclass(frozen=True)
class Comparison:
    """Two results under a name: what changed from `base` to `other`. Gone with either of them."""

    id: str
    name: str
    base: str
    other: str
    created: float


class Comparisons:
    """The kept comparisons of a catalogue."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, name: str, base: str, other: str) -> Comparison:
        """Keep a comparison of two results. Raises NotFound where one does not exist, InvalidRequest."""
        kept = Comparison(
            new_id(), normalize_name(name), require_id(base, "result"), require_id(other, "result"), time.time()
        )
        try:
            with self._database.write() as session:
                session.add(ComparisonRow(**vars(kept)))
        except IntegrityError:
            raise NotFound(f"One of the results {base} and {other} does not exist (any more).") from None
        return kept

    def list(self) -> tuple[Comparison, ...]:
        """Every kept comparison, newest first."""
        wanted = select(ComparisonRow).order_by(ComparisonRow.created.desc(), ComparisonRow.id)
        with self._database.read() as session:
            return tuple(
                Comparison(row.id, row.name, row.base, row.other, row.created) for row in session.scalars(wanted)
            )

    def delete(self, id: str) -> None:
        """Forget a comparison; the results stay."""
        with self._database.write() as session:
            session.execute(delete(ComparisonRow).where(ComparisonRow.id == id))


@dataclass(frozen=True)
class DerivedEvent:
    """A formula over events, such as instructions / cycles. unit: of its value ("" for a ratio)."""

    name: str
    formula: str
    unit: str = ""
    description: str = ""


class DerivedEvents:
    """The derived events of a catalogue."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, event: DerivedEvent) -> DerivedEvent:
        """Store a derived event in place of what had its name. Raises InvalidRequest for a bad name."""
        kept = DerivedEvent(normalize_name(event.name), event.formula, event.unit, event.description)
        with self._database.write() as session:
            session.merge(DerivedEventRow(**vars(kept)))
        return kept

    def list(self) -> tuple[DerivedEvent, ...]:
        """Every derived event, in order of the names."""
        with self._database.read() as session:
            rows = session.scalars(select(DerivedEventRow).order_by(DerivedEventRow.name))
            return tuple(DerivedEvent(row.name, row.formula, row.unit, row.description) for row in rows)

    def get(self, name: str) -> DerivedEvent:
        """A derived event by its name. Raises NotFound."""
        for event in self.list():
            if event.name == name:
                return event
        raise NotFound(f"There is no derived event {name[:80]!r}; look at the catalogue of events.")

    def delete(self, name: str) -> None:
        """Remove a derived event. Raises NotFound."""
        self.get(name)
        with self._database.write() as session:
            session.execute(delete(DerivedEventRow).where(DerivedEventRow.name == name))
