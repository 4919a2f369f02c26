"""Presets of the job form: save what stands in it, delete one, exchange one as a file.

`/jobs/new?preset=` fills the form from a saved one.
"""

from flask import Blueprint, Response, flash, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from ....domain.errors import InvalidRequest
from ....domain.jobs import JobSpec
from ....recording.fields.exchange import LIMIT_BYTES
from ....recording.fields.job import JobFields, parse, to_fields
from ....recording.fields.preset_file import from_file, to_file
from ....recording.recorders.preflight import Finding, Level
from ...services import services
from ..results.tables import attachment
from .examine import Examined
from .form import form_page, preset_url
from .places import place_of, targets

blueprint = Blueprint("presets", __name__)
TYPES = {"toml": "application/toml", "json": "application/json"}


@blueprint.post("/jobs/presets")
def save() -> AnyResponse:
    """Keep what stands in the form under a name, in place of what had it. The command may be missing."""
    typed = JobFields.from_form(request.form.to_dict(flat=False))
    name = request.form.get("preset_name", "").strip()
    parsed = parse(typed, targets(), complete=False)
    found = parsed.faults
    if not name:
        found.append(Finding(Level.ERROR, "preset_name", "Give the preset a name.", ""))
    if parsed.spec is not None and not found:
        try:
            preset = services().store.presets.save(name, parsed.spec.to_json())
        except InvalidRequest as error:
            found.append(Finding(Level.ERROR, "preset_name", error.message, ""))
        else:
            flash(f"Saved the preset “{preset.name}”.", "good")
            return redirect(preset_url(preset.name), 303)
    return _again(typed, found, name)


@blueprint.post("/jobs/presets/file")
def download() -> AnyResponse:
    """What stands in the form as a file: `format` is toml or json. The command may be missing."""
    typed = JobFields.from_form(request.form.to_dict(flat=False))
    parsed = parse(typed, targets(), complete=False)
    if parsed.spec is None:
        return _again(typed, parsed.faults, request.form.get("preset_name", ""))
    return _file(parsed.spec, request.form.get("preset_name", "").strip() or parsed.spec.name)


@blueprint.get("/jobs/presets/file")
def download_saved() -> AnyResponse:
    """A saved preset (`name`) as a file."""
    preset = services().store.presets.get(request.args.get("name", ""))
    return _file(preset.job_spec, preset.name)


@blueprint.post("/jobs/presets/open")
def open_file() -> AnyResponse:
    """Fill the form from a file that somebody exchanged. Nothing is saved or started."""
    name, data = sent_file("Choose a file with settings: TOML or JSON, as the form gives them away.")
    return form_page(to_fields(from_file(data)), source=f"the file {name}", preset_name=name.rpartition(".")[0])


def sent_file(missing: str) -> tuple[str, bytes]:
    """A file that somebody exchanged: its name, fit to be shown, and as much of it as tells that it is too long.

    Raises InvalidRequest with the text `missing` where none was sent.
    """
    sent = request.files.get("file")
    if sent is None or not sent.filename:
        raise InvalidRequest(missing, "file")
    name = "".join(sign for sign in sent.filename.rpartition("/")[2] if sign.isprintable())[:100]
    return name, sent.stream.read(LIMIT_BYTES + 1)


def _again(typed: JobFields, found: list[Finding], name: str) -> AnyResponse:
    """The form as it was sent, with what is in the way of saving it."""
    place = place_of(typed.target)
    examined = Examined(None, tuple(found), "", place.host)
    return form_page(typed, place=place, examined=examined, tried=True, saving=True, preset_name=name, status=422)


def _file(spec: JobSpec, title: str) -> Response:
    form = request.values.get("format", "toml")
    text = to_file(spec, form, title)
    return attachment(Response(text, mimetype=TYPES[form]), f"{title or 'job'}.{form}")


@blueprint.post("/jobs/presets/delete")
def delete() -> AnyResponse:
    """Remove a preset."""
    name = request.form.get("name", "")
    services().store.presets.delete(name)
    flash(f"Deleted the preset “{name}”.", "good")
    return redirect("/jobs/new", 303)
