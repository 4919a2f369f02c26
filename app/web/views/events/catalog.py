"""/events/catalog: the events that perf offers on each model of CPU, and own names for events."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from flask import Blueprint, Response, flash, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from ....domain.errors import InvalidRequest
from ....domain.host_facts import HostFacts, PerfEvent
from ....recording.fields.events import PAGE_ROWS, EventIndex
from ....recording.fields.own_events import (
    MAX_DESCRIPTION_CHARS,
    MAX_EVENT_CHARS,
    MAX_NAME_CHARS,
    OwnEvent,
    check_event,
    from_file,
    to_file,
)
from ...rendering import Page, render
from ...services import current_services
from ..results.result_frame import PageLink
from ..results.tables import Pager, attachment, build_pager, current_url_with, parse_page, parse_search
from ..settings_files import MEDIA_TYPES, read_uploaded_file

blueprint = Blueprint("event_catalog", __name__)
FIELDS = {"name": MAX_NAME_CHARS, "event": MAX_EVENT_CHARS, "description": MAX_DESCRIPTION_CHARS}
"""The fields of the form, with the maximum number of characters."""
UNKNOWN_CPU = "unknown CPU"


@dataclass(frozen=True)
class OwnEventForm:
    """The fields as typed. error: a sentence about `field`."""

    name: str = ""
    event: str = ""
    description: str = ""
    error: str = ""
    field: str = ""

    def problem(self, field: str) -> str:
        """The error of a field, or nothing."""
        return self.error if self.field == field else ""


@dataclass(frozen=True)
class CatalogPage(Page):
    """cpus: models with a list of events. host: where the list is from; empty without any. own: own names, each with a
    link that fills in the form."""

    template: ClassVar[str] = "events/catalog.html"
    cpus: tuple[PageLink, ...]
    host: str
    groups: tuple[PageLink, ...]
    group: str
    cpu: str
    search: str
    rows: tuple[tuple[PerfEvent, str], ...]
    pager: Pager
    own: tuple[tuple[OwnEvent, str], ...]
    form: OwnEventForm
    limits: Mapping[str, int]


@blueprint.get("/events/catalog")
def show() -> AnyResponse:
    """The events of a model of CPU (`cpu`): `search`, `group`, `page`. `name`, or `event`: fill in the form."""
    known = {each.name: each for each in current_services().store.event_names.list()}
    own = known.get(request.args.get("name", ""))
    typed = request.args.get("event", "")[:MAX_EVENT_CHARS]
    form = OwnEventForm(own.name, own.event, own.description) if own else OwnEventForm(event=typed)
    return _page(form)


@blueprint.post("/events/catalog")
def save() -> AnyResponse:
    """Store an own name, or show the form again with its error. An existing name is replaced."""
    typed = {field: request.form.get(field, "").strip() for field in FIELDS}
    try:
        own = check_event(typed)
        current_services().store.event_names.save([own])
    except InvalidRequest as error:
        field = error.field if error.field in FIELDS else "name"
        return _page(OwnEventForm(**typed, error=error.message, field=field), 422)
    flash(f"Saved the event “{own.name}”. The job form offers it.", "good")
    return redirect("/events/catalog", 303)


@blueprint.post("/events/names/delete")
def delete() -> AnyResponse:
    """Remove an own name (`name`). Results keep it."""
    name = request.form.get("name", "")
    current_services().store.event_names.delete(name)
    flash(f"Deleted the event “{name}”.", "good")
    return redirect("/events/catalog", 303)


@blueprint.get("/events/names/file")
def export_file() -> AnyResponse:
    """The own names as TOML."""
    text = to_file(current_services().store.event_names.list())
    return attachment(Response(text, mimetype=MEDIA_TYPES["toml"]), "events.toml")


@blueprint.post("/events/names/import")
def import_file() -> AnyResponse:
    """Store the own names of a file, and replace those with the same names. An error stores none."""
    try:
        events = from_file(read_uploaded_file("Choose a TOML file of event names, as exported here.")[1])
        current_services().store.event_names.save(events)
    except InvalidRequest as error:
        flash(f"Nothing was imported. {error.message}", "bad")
        return redirect("/events/catalog", 303)
    flash(f"Imported {len(events):,} event name{'' if len(events) == 1 else 's'}.", "good")
    return redirect("/events/catalog", 303)


def _page(form: OwnEventForm, status: int = 200) -> AnyResponse:
    listings = _listings()
    cpu = request.args.get("cpu", "")
    facts = listings.get(cpu) or next(iter(listings.values()), None)
    chosen = next((name for name, each in listings.items() if each is facts), "")
    search, group, page = parse_search(), request.args.get("group", ""), parse_page()
    matches = EventIndex.of(facts.events if facts else ()).search(search, group, (page - 1) * PAGE_ROWS)
    total = sum(count for _, count in matches.groups)
    own = current_services().store.event_names.list()
    result = CatalogPage(
        cpus=tuple(
            PageLink(name, name, current_url_with(("cpu", name), ("page", None), ("group", None)), name == chosen)
            for name in listings
        ),
        host=facts.host if facts else "",
        groups=(
            PageLink("", f"all {total:,}", current_url_with(("group", None), ("page", None)), not group),
            *(
                PageLink(name, f"{name} {count:,}", current_url_with(("group", name), ("page", None)), name == group)
                for name, count in matches.groups
            ),
        ),
        group=group,
        cpu=cpu,
        search=search,
        rows=tuple((each, current_url_with(("event", each.name), ("name", None)) + "#own") for each in matches.rows),
        pager=build_pager(page, matches.total, PAGE_ROWS, noun="event"),
        own=tuple((each, current_url_with(("name", each.name), ("event", None)) + "#own") for each in own),
        form=form,
        limits=FIELDS,
    )
    return render(result, status)


def _listings() -> dict[str, HostFacts]:
    """The newest list of events of each model of CPU, of workers and of checked targets."""
    store = current_services().store
    found = [host.facts for host in store.hosts.list() if host.facts]
    found += [each.facts.recording_host for each in store.targets.list() if each.facts and each.facts.recording_host]
    listings: dict[str, HostFacts] = {}
    for facts in sorted(found, key=lambda each: -each.checked_at):
        if facts.events:
            listings.setdefault(facts.cpu or UNKNOWN_CPU, facts)
    return dict(sorted(listings.items()))
