"""Named job descriptions."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, select

from ..domain.errors import NotFound
from ..domain.jobs import JobSpec
from .database import Database
from .models.names import PresetRow
from .result import normalize_name


@dataclass(frozen=True)
class Preset:
    """A job description under a name. changed: seconds since the epoch."""

    name: str
    spec: dict[str, Any]
    changed: float

    @property
    def job_spec(self) -> JobSpec:
        """The description. Raises InvalidRequest if it is invalid."""
        return JobSpec.from_json(self.spec)


class Presets:
    """The presets in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self) -> tuple[Preset, ...]:
        """Every preset, in order of the names."""
        with self._database.read() as session:
            rows = session.scalars(select(PresetRow).order_by(func.lower(PresetRow.name), PresetRow.name))
            return tuple(Preset(row.name, row.spec, row.changed) for row in rows)

    def get(self, name: str) -> Preset:
        """A preset by its name. Raises NotFound."""
        with self._database.read() as session:
            row = session.scalar(select(PresetRow).where(PresetRow.name == name))
        if row is None:
            raise NotFound(f"No preset {name[:80]!r}; choose one from the list.")
        return Preset(row.name, row.spec, row.changed)

    def save(self, name: str, spec: Mapping[str, Any]) -> Preset:
        """Store a description under `name`; replaces an existing one. Raises InvalidRequest for an invalid name."""
        name = normalize_name(name)
        with self._database.write() as session:
            session.merge(PresetRow(name=name, spec=dict(spec), changed=time.time()))
        return self.get(name)

    def delete(self, name: str) -> None:
        """Remove a preset. Raises NotFound."""
        self.get(name)
        with self._database.write() as session:
            session.execute(delete(PresetRow).where(PresetRow.name == name))
