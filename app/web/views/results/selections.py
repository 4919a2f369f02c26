"""/results/<id>/selections: save the selection of a page under a name, and delete saved ones."""

from urllib.parse import parse_qs, parse_qsl

from flask import Blueprint, flash, redirect, request
from werkzeug.wrappers import Response

from ....domain.errors import InvalidRequest
from ....domain.selection import QUERY_PARAMETERS, Selection
from ...pages import RESULT_PAGES, Pairs, result_url
from ...services import current_services

blueprint = Blueprint("selections", __name__)
MAX_FIELD_CHARS = 20_000


@blueprint.post("/results/<id>/selections")
def save(id: str) -> Response:
    """Save a selection and return to its page. name: of the selection; an existing one is replaced. query: the
    selection as a query string. key: of the page; rest: its other parameters."""
    store, selection = current_services().store, _parse_selection()
    store.results.get(id)
    try:
        saved = store.selections.save(id, request.form.get("selection_name", ""), selection)
    except InvalidRequest as error:
        flash(error.message, "bad")
    else:
        flash(f"Saved the selection “{saved.name}”.", "good")
    return redirect(result_url(id, _parse_key(), selection, _parse_rest()), 303)


@blueprint.post("/results/<id>/selections/delete")
def delete(id: str) -> Response:
    """Delete a saved selection (`selection_name`), and return to the page as it was."""
    name = request.form.get("selection_name", "")
    current_services().store.selections.delete(id, name)
    flash(f"Deleted the saved selection “{name}”.", "good")
    return redirect(result_url(id, _parse_key(), _parse_selection(), _parse_rest()), 303)


def _parse_selection() -> Selection:
    text = request.form.get("query", "")
    if len(text) > MAX_FIELD_CHARS:
        raise InvalidRequest(f"The selection is longer than {MAX_FIELD_CHARS:,} characters.", "query")
    return Selection.from_query(parse_qs(text))


def _parse_rest() -> Pairs:
    text = request.form.get("rest", "")
    return [pair for pair in parse_qsl(text[:MAX_FIELD_CHARS]) if pair[0] not in QUERY_PARAMETERS]


def _parse_key() -> str:
    key = request.form.get("key", "")
    return key if any(page.key == key for page in RESULT_PAGES) else ""
