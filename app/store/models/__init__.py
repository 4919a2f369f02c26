"""The tables of the database. Times are seconds since the epoch (UTC). Every change here needs a migration.

Each part of the store imports only its own: the mapping of a table takes as long as a query.
"""

import importlib
import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import MetaData


def load_all() -> "MetaData":
    """The description of all tables."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f".{module.name}", __name__)
    from .base import Base

    return Base.metadata
