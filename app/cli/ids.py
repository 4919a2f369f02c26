"""Arguments that are ids of stored jobs and results, with shell completion."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from .options import load_settings, open_store
from .output import escape_controls

if TYPE_CHECKING:
    from ..store import Store

COMPLETION_LIMIT = 100
"""How many of the newest ids completion offers."""


class StoredId(click.types.StringParamType):
    """An id. Shell completion shows names if the shell supports that."""

    name = "id"

    def list_items(self, store: "Store") -> list[tuple[str, str]]:
        """Ids and names, newest first."""
        raise NotImplementedError

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        given: Any = ctx.params.get("data")
        data = None if given is None else Path(given)
        try:
            if not load_settings(data).data.exists():
                return []
            with open_store(data) as store:
                items = self.list_items(store)
        except Exception:
            # Completion shows no errors.
            return []
        present = ctx.params.get(param.name or "") or ()
        return [
            CompletionItem(id, help=escape_controls(name))
            for id, name in items
            if id.startswith(incomplete) and id not in present
        ]


class JobId(StoredId):
    """The id of a job. active: only of those that have not ended are offered."""

    def __init__(self, *, active: bool = False) -> None:
        self._active = active

    def list_items(self, store: "Store") -> list[tuple[str, str]]:
        jobs = store.jobs.list(active=True if self._active else None, limit=COMPLETION_LIMIT)
        return [(job.id, f"{job.state}: {job.name}") for job in jobs]


class ResultId(StoredId):
    """The id of a stored result."""

    def list_items(self, store: "Store") -> list[tuple[str, str]]:
        results, _ = store.results.search(limit=COMPLETION_LIMIT)
        return [(result.id, result.name) for result in results]


class Source(ResultId):
    """A file, or the id of a stored result: files are completed if no id matches."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file"), *super().shell_complete(ctx, param, incomplete)]
