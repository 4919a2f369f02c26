"""Downloads: the selection of a result in formats of other tools, and rows of its tables.

`/handed/<file>` is the only URL that needs no token, for tools that cannot send one: it has a signature for one export
of one selection, valid for 15 minutes.
"""

from itertools import chain
from typing import Any
from urllib.parse import urlencode, urlsplit

from flask import Blueprint, Response, current_app, request
from itsdangerous import BadData, SignatureExpired, URLSafeTimedSerializer
from werkzeug.wrappers import Response as AnyResponse

from ....analysis.tables import TABLES, table_rows
from ....domain.errors import Forbidden, NotFound
from ....domain.selection import Selection, parse_flag
from ....exporters import EXPORTERS, Exporter
from ...pages import Pairs
from ...security import SANDBOX_POLICY, public
from ...services import current_services
from .result_frame import request_selection
from .tables import FILE_RULE, attachment, figures_of, table_file_response

blueprint = Blueprint("exports", __name__)
SIGNED_URL_SECONDS = 15 * 60


@blueprint.get("/results/<id>/export/<file_format>")
@blueprint.get("/api/v1/results/<id>/export/<file_format>")
def export(id: str, file_format: str) -> AnyResponse:
    """The file. Its switches (see `perfloom convert --help`) are parameters: `kernel=1`."""
    exporter = EXPORTERS.get(file_format)
    if exporter is None:
        raise NotFound(f"No export to {file_format[:40]!r}; choose one of {', '.join(EXPORTERS)}.")
    options = {word: parse_flag(word, request.args.get(word)) for word in exporter.options}
    return _export(id, exporter, request_selection(), options)


@blueprint.get(f"/results/<id>/tables/<table>.{FILE_RULE}")
def table(id: str, table: str, file_format: str) -> Response:
    """A table, as `perfloom report` prints it. by: the grouping, if the table offers several."""
    found = TABLES.get(table)
    if found is None:
        raise NotFound(f"No table {table[:40]!r}; choose one of {', '.join(TABLES)}.")
    store, by = current_services().store, request.args.get("by")
    name = f"{store.results.get(id).name} {table}" + (f" by {by}" if by else "")
    profile = store.results.open(id)
    data = table_rows(found, profile, request_selection(), by).to_frame()
    return table_file_response(name, file_format, data, *figures_of(table, profile), columns=found.columns)


def signed_url(id: str, file_format: str, words: Pairs) -> str:
    """The URL of an export that works without the token, for `SIGNED_URL_SECONDS`. words: of the selection."""
    key = _build_signer().dumps([id, file_format, words])
    return f"{request.host_url}handed/profile{EXPORTERS[file_format].suffix}?{urlencode({'key': key})}"


@blueprint.route("/handed/<file>", methods=["GET", "OPTIONS"])
@public
def download_signed(file: str) -> AnyResponse:
    """The export that the signature in `key` is for. Only pages of the configured speedscope site can read it."""
    if request.method == "OPTIONS":
        return _allow_speedscope(Response(status=204))
    try:
        id, file_format, words = _build_signer().loads(request.args.get("key", ""), max_age=SIGNED_URL_SECONDS)
    except SignatureExpired:
        raise Forbidden(
            f"This address was valid for {SIGNED_URL_SECONDS // 60} minutes. Open the export page of the result again "
            "for a new one."
        ) from None
    except BadData:
        raise Forbidden(
            "This address is not from this server, or incomplete. Copy the whole address from the export page."
        ) from None
    query: dict[str, list[str]] = {}
    for word, value in words:
        query.setdefault(word, []).append(value)
    return _allow_speedscope(_export(id, EXPORTERS[file_format], Selection.from_query(query), {}))


def _build_signer() -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(current_app.config["SECRET_KEY"], salt="perfloom export")


def _allow_speedscope(response: AnyResponse) -> AnyResponse:
    """Allow the configured speedscope site to read `response`."""
    site = urlsplit(current_services().settings.speedscope_url)
    response.headers["Access-Control-Allow-Origin"] = f"{site.scheme}://{site.netloc}"
    if request.method == "OPTIONS":
        response.headers["Access-Control-Allow-Methods"] = "GET"
    if request.headers.get("Access-Control-Request-Private-Network") == "true":
        # Chromium asks this before a page from the internet reaches a server in the local network.
        response.headers["Access-Control-Allow-Private-Network"] = "true"
    return response


def _export(id: str, exporter: Exporter, selection: Selection, options: dict[str, Any]) -> AnyResponse:
    store = current_services().store
    name, profile = store.results.get(id).name, store.results.open(id)
    content = exporter.write(profile, selection, options)
    # Generate the first part here, so that errors are not broken files.
    first = next(content, b"")
    response = Response(chain((first,), content), content_type=exporter.media_type)
    # Some formats are documents with scripts.
    response.headers["Content-Security-Policy"] = SANDBOX_POLICY
    return attachment(response, name + exporter.suffix)
