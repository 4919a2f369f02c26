"""/results/<id>/export/<form>: the selection in a form that other tools read, as a file to save."""

from itertools import chain

from flask import Blueprint, Response, request
from werkzeug.wrappers import Response as AnyResponse

from ..domain.errors import NotFound
from ..domain.selection import flag
from ..exporters import EXPORTERS
from ..security import SANDBOX_POLICY
from ..services import services
from .frame import selected
from .tables import attachment

blueprint = Blueprint("exports", __name__)


@blueprint.get("/results/<id>/export/<form>")
@blueprint.get("/api/v1/results/<id>/export/<form>")
def export(id: str, form: str) -> AnyResponse:
    """The file. Its switches (see `perfloom convert --help`) are words of the query: `kernel=1`."""
    exporter = EXPORTERS.get(form)
    if exporter is None:
        raise NotFound(f"There is no export to {form[:40]!r}; choose one of {', '.join(EXPORTERS)}.")
    store = services().store
    name, profile = store.results.get(id).name, store.results.open(id)
    options = {word: flag(word, request.args.get(word)) for word in exporter.options}
    content = exporter.write(profile, selected(), options)
    # The first piece is made here, so that what cannot be exported is an error and no broken file.
    first = next(content, b"")
    response = Response(chain((first,), content), content_type=exporter.media_type)
    # Some forms are documents with scripts of their own.
    response.headers["Content-Security-Policy"] = SANDBOX_POLICY
    return attachment(response, name + exporter.suffix)
