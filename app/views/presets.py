"""Named presets of the job form: save what stands in it, delete one. `/jobs/new?preset=` fills the form from one."""

from flask import Blueprint, flash, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from ..domain.errors import InvalidRequest
from ..forms.job import JobFields, parse
from ..recorders.preflight import Finding, Level
from ..services import services
from .job_form import Examined, form_page, present_host, preset_url

blueprint = Blueprint("presets", __name__)


@blueprint.post("/jobs/presets")
def save() -> AnyResponse:
    """Keep what stands in the form under a name, in place of what had it. The command may be missing."""
    typed = JobFields.from_form(request.form.to_dict(flat=False))
    name = request.form.get("preset_name", "").strip()
    parsed = parse(typed, complete=False)
    found = [Finding(Level.ERROR, field, message, "") for field, message in parsed.errors.items()]
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
    host = present_host()
    examined = Examined(None, tuple(found), "", host.name if host else "")
    return form_page(typed, host=host, examined=examined, tried=True, saving=True, preset_name=name, status=422)


@blueprint.post("/jobs/presets/delete")
def delete() -> AnyResponse:
    """Remove a preset."""
    name = request.form.get("name", "")
    services().store.presets.delete(name)
    flash(f"Deleted the preset “{name}”.", "good")
    return redirect("/jobs/new", 303)
