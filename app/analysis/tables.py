"""The tables of a profile: what `perfloom report`, the API and the pages show. Rows are never cut."""

from . import counting, ranks
from .hotspots import COLUMNS as HOTSPOTS
from .hotspots import hotspots
from .schema import Column, Table, records

__all__ = ["TABLES", "Column", "Table", "records"]

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table("summary", "Summary", counting.SUMMARY, counting.summary, single=True),
        Table("losses", "What could not be read", counting.LOSSES, counting.losses),
        Table("hotspots", "Hotspots", HOTSPOTS, hotspots),
        Table("counts", "Event counts", counting.COUNTS, counting.counts),
        Table("threads", "Threads", counting.THREADS, counting.threads),
        Table("events", "Events", counting.EVENTS, counting.events),
        Table("ranks", "Ranks", ranks.RANKS, ranks.ranks),
        Table("runs", "Runs", ranks.RUNS, ranks.runs),
    )
}
"""Every table by its name on the command line and in URLs."""
