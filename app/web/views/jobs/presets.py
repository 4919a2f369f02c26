"""Presets of the job form: save its fields, delete a preset, exchange one as a file.

`/jobs/new?preset=` fills the form from a saved one.
"""

from flask import Blueprint, Response, flash, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from ....domain.errors import InvalidRequest
from ....domain.jobs import JobSpec
from ....recording.fields.job_form import JobForm, parse, to_form
from ....recording.fields.preset_file import from_file, to_file
from ....recording.recorders.preflight import PreflightFinding, Severity
from ...services import current_services
from ..results.tables import attachment
from ..settings_files import MEDIA_TYPES, read_uploaded_file
from .form import form_page, preset_url
from .form_check import FormCheck
from .target_choice import list_targets, select_target

blueprint = Blueprint("presets", __name__)


@blueprint.post("/jobs/presets")
def save() -> AnyResponse:
    """Save the fields of the form under a name, and overwrite a preset of that name. The command may be missing."""
    typed = JobForm.from_form(request.form.to_dict(flat=False))
    name = request.form.get("preset_name", "").strip()
    parsed = parse(typed, list_targets(), complete=False)
    preflight_findings = parsed.findings
    if not name:
        preflight_findings.append(PreflightFinding(Severity.ERROR, "preset_name", "Enter a name for the preset.", ""))
    if parsed.spec is not None and not preflight_findings:
        try:
            preset = current_services().store.presets.save(name, parsed.spec.to_json())
        except InvalidRequest as error:
            preflight_findings.append(PreflightFinding(Severity.ERROR, "preset_name", error.message, ""))
        else:
            flash(f"Saved the preset “{preset.name}”.", "good")
            return redirect(preset_url(preset.name), 303)
    return _render_form_again(typed, preflight_findings, name)


@blueprint.post("/jobs/presets/file")
def download() -> AnyResponse:
    """The fields of the form as a file: `format` is toml or json. The command may be missing."""
    typed = JobForm.from_form(request.form.to_dict(flat=False))
    parsed = parse(typed, list_targets(), complete=False)
    if parsed.spec is None:
        return _render_form_again(typed, parsed.findings, request.form.get("preset_name", ""))
    return _file(parsed.spec, request.form.get("preset_name", "").strip() or parsed.spec.name)


@blueprint.get("/jobs/presets/file")
def download_saved() -> AnyResponse:
    """A saved preset (`name`) as a file."""
    preset = current_services().store.presets.get(request.args.get("name", ""))
    return _file(preset.job_spec, preset.name)


@blueprint.post("/jobs/presets/open")
def open_file() -> AnyResponse:
    """Fill the form from an exchanged file. Nothing is saved or started."""
    name, data = read_uploaded_file("Choose a file with settings in TOML or JSON, as exported by the form.")
    return form_page(to_form(from_file(data)), source=f"the file {name}", preset_name=name.rpartition(".")[0])


def _render_form_again(job_form: JobForm, preflight_findings: list[PreflightFinding], name: str) -> AnyResponse:
    """The form as it was sent, with the errors that prevent saving it."""
    selected_target = select_target(job_form.target)
    form_check = FormCheck(None, tuple(preflight_findings), "", selected_target.host)
    return form_page(
        job_form,
        selected_target=selected_target,
        form_check=form_check,
        submitted=True,
        saving=True,
        preset_name=name,
        status=422,
    )


def _file(spec: JobSpec, title: str) -> Response:
    form = request.values.get("format", "toml")
    text = to_file(spec, form, title)
    return attachment(Response(text, mimetype=MEDIA_TYPES[form]), f"{title or 'job'}.{form}")


@blueprint.post("/jobs/presets/delete")
def delete() -> AnyResponse:
    """Remove a preset."""
    name = request.form.get("name", "")
    current_services().store.presets.delete(name)
    flash(f"Deleted the preset “{name}”.", "good")
    return redirect("/jobs/new", 303)
