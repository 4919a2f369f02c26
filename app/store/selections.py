"""Named selections of results."""

from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode

from sqlalchemy import delete, func, select

from ..domain.errors import InvalidRequest, NotFound
from ..domain.selection import Selection
from .database import Database
from .ids import require_id
from .models.results import SelectionRow
from .result import normalize_name

MAX_SELECTIONS = 100
"""Of a result."""
MAX_QUERY_CHARS = 6_000
"""Of one selection. Servers and proxies reject much longer addresses."""


@dataclass(frozen=True)
class SavedSelection:
    """A selection under a name."""

    name: str
    selection: Selection


class SavedSelections:
    """The named selections in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, id: str) -> tuple[SavedSelection, ...]:
        """Those of a result, in order of the names."""
        query = select(SelectionRow).where(SelectionRow.result_id == require_id(id, "result"))
        with self._database.read() as session:
            rows = session.scalars(query.order_by(func.lower(SelectionRow.name), SelectionRow.name))
            return tuple(SavedSelection(row.name, Selection.from_query(parse_qs(row.query))) for row in rows)

    def save(self, id: str, name: str, selection: Selection) -> SavedSelection:
        """Store a selection under a name; replaces the one of that name. Raises InvalidRequest for an invalid name, a
        selection that selects all, and beyond the limits."""
        name, query = normalize_name(name), urlencode(selection.to_query())
        if not query:
            raise InvalidRequest("Nothing is selected. Filter first, then save the selection.", "selection_name")
        if len(query) > MAX_QUERY_CHARS:
            raise InvalidRequest(
                f"The selection is longer than {MAX_QUERY_CHARS:,} characters. Select ranks or use a pattern instead "
                "of many threads.",
                "selection_name",
            )
        with self._database.write() as session:
            names = session.scalars(select(SelectionRow.name).where(SelectionRow.result_id == require_id(id, "result")))
            others = set(names) - {name}
            if len(others) >= MAX_SELECTIONS:
                raise InvalidRequest(
                    f"This result has {MAX_SELECTIONS} saved selections, which is the limit. Delete one first.",
                    "selection_name",
                )
            session.merge(SelectionRow(result_id=id, name=name, query=query))
        return SavedSelection(name, selection)

    def delete(self, id: str, name: str) -> None:
        """Remove a saved selection. Raises NotFound."""
        with self._database.write() as session:
            found = session.execute(
                delete(SelectionRow).where(
                    SelectionRow.result_id == require_id(id, "result"), SelectionRow.name == name
                )
            )
            if not found.rowcount:  # type: ignore[attr-defined]
                raise NotFound(f"No saved selection {name[:80]!r}; it may have been deleted.")
