"""The formulas of users: added, edited and deleted in the browser, imported and exported as files."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import delete, func, inspect, select, update
from sqlalchemy.orm import Session

from ..analysis.formulas.builtin import BUILTIN_FORMULAS
from ..config import Settings
from ..domain.errors import InvalidRequest, NotFound, Unavailable
from ..domain.formulas.file import MAX_FORMULAS, check_references
from ..domain.formulas.formula import Formula
from .database import Database
from .models.names import FormulaRow

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OwnFormula:
    """A formula of the users. Several may have one name: the first whose events were measured applies."""

    id: int
    formula: Formula


class OwnFormulas:
    """The formulas of users in the database. They refer to each other, to those of the installation and to built-in
    ones."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self) -> tuple[OwnFormula, ...]:
        """All formulas, in order of the names; those of one name in the order in which they were added."""
        with self._database.read() as session:
            return _list(session)

    def get(self, id: int) -> OwnFormula:
        """A formula by its id. Raises NotFound."""
        found = next((one for one in self.list() if one.id == id), None)
        if found is None:
            raise NotFound("No such formula; it may have been deleted.")
        return found

    def add(self, formula: Formula) -> None:
        """Store a new formula. Raises InvalidRequest if it exists, refers to itself, or is beyond the limit."""
        with self._database.write() as session:
            self._check(session, formula)
            session.add(_row(formula))
            self._check_all(session)

    def change(self, id: int, formula: Formula) -> None:
        """Replace the formula with this id. Raises as `add`, and NotFound."""
        with self._database.write() as session:
            self._check(session, formula, id)
            changed = session.execute(
                update(FormulaRow)
                .where(FormulaRow.id == id)
                .values(
                    name=formula.name,
                    expression=formula.expression,
                    unit=formula.unit,
                    description=formula.description,
                )
            )
            if not changed.rowcount:  # type: ignore[attr-defined]
                raise NotFound("No such formula; it may have been deleted.")
            self._check_all(session)

    def delete(self, id: int) -> None:
        """Remove a formula. Raises NotFound."""
        with self._database.write() as session:
            found = session.execute(delete(FormulaRow).where(FormulaRow.id == id))
            if not found.rowcount:  # type: ignore[attr-defined]
                raise NotFound("No such formula; it may have been deleted.")

    def replace(self, formulas: Iterable[Formula]) -> tuple[int, int]:
        """Store formulas, and remove all others that have their names: the number of stored and of removed ones.
        Raises as `add`; then nothing is stored."""
        every = tuple(dict.fromkeys(formulas))
        names = {formula.name for formula in every}
        with self._database.write() as session:
            known = [one.id for one in _list(session) if one.formula.name in names]
            for id in known:
                session.execute(delete(FormulaRow).where(FormulaRow.id == id))
            for formula in every:
                session.add(_row(formula))
                session.flush()
            self._check_all(session)
        return len(every), len(known)

    def _check(self, session: Session, formula: Formula, id: int | None = None) -> None:
        for one in _list(session):
            if one.id != id and (one.formula.name, one.formula.expression) == (formula.name, formula.expression):
                raise InvalidRequest(f"A formula {formula.name!r} with this expression already exists.", "expression")

    def _check_all(self, session: Session) -> None:
        session.flush()
        formulas = tuple(one.formula for one in _list(session))
        if len(formulas) > MAX_FORMULAS:
            raise InvalidRequest(f"There are at most {MAX_FORMULAS:,} formulas. Delete some first.", "expression")
        try:
            check_references(formulas, (*self._database.settings.formulas, *BUILTIN_FORMULAS))
        except InvalidRequest as error:
            raise InvalidRequest(error.message.partition(": ")[2], "expression") from None


def load_formulas(settings: Settings) -> tuple[Formula, ...]:
    """The formulas of users, then those of the installation, for a command that does not open the store. The database
    is not created or upgraded."""
    if settings.database_file is not None and not settings.database_file.exists():
        return settings.formulas
    database = Database(settings)
    try:
        with database.read() as session:
            if not inspect(session.connection()).has_table(FormulaRow.__tablename__):
                return settings.formulas
            return (*(one.formula for one in _list(session)), *settings.formulas)
    except Unavailable as error:
        # A file can be reported without the database.
        log.warning("Formulas that were added in the browser are not used: %s", error.message)
        return settings.formulas
    finally:
        database.close()


def _list(session: Session) -> tuple[OwnFormula, ...]:
    rows = session.scalars(select(FormulaRow).order_by(func.lower(FormulaRow.name), FormulaRow.name, FormulaRow.id))
    return tuple(OwnFormula(row.id, Formula(row.name, row.expression, row.unit, row.description)) for row in rows)


def _row(formula: Formula) -> FormulaRow:
    return FormulaRow(
        name=formula.name, expression=formula.expression, unit=formula.unit, description=formula.description
    )
