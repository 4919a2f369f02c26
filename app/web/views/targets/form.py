"""The form of a target: a new one, one filled from another or from a file, and the settings of one that is there."""

from dataclasses import dataclass
from typing import ClassVar

from flask import Blueprint, flash, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from ....domain.fields import Option
from ....domain.targets import KEEP_HOURS, LOCAL, SchedulerName
from ....recording.fields.target_file import from_file
from ....recording.fields.target_form import SSH_FIELDS, TargetForm, parse, to_form
from ....recording.mpi.registry import MPI_LAUNCHERS
from ....recording.recorders.preflight import PreflightFinding, Severity
from ....recording.schedulers import SCHEDULERS
from ...pages import target_url
from ...rendering import Page, render
from ...services import current_services
from ..jobs.presets import read_uploaded_file
from .checks import request_check

blueprint = Blueprint("target_form", __name__)

ACCESS_OPTIONS = (
    ("ssh", "Another host, over SSH", "Jobs run there, or in its batch system."),
    ("here", "This machine", "Without SSH: to use its batch system, or other settings."),
)
NO_SCHEDULER = (SchedulerName.NONE, "None", "Programs are started directly.")


@dataclass(frozen=True)
class TargetFormPage(Page):
    """`/targets/new` and `/targets/<name>/edit`. name: of the target that is edited, empty for a new one.

    source: a label of what the form was filled from. action: where it is sent. errors: a sentence by field.
    """

    template: ClassVar[str] = "targets/form.html"
    name: str
    url: str
    action: str
    source: str
    fields: TargetForm
    errors: dict[str, str]
    local: bool
    keep_hours: int
    access_options: tuple[Option, ...]
    schedulers: tuple[Option, ...]
    mpi_implementations: tuple[Option, ...]

    @property
    def hidden_by(self) -> dict[str, str]:
        """For each field the choices to which it does not apply."""
        return {name: "way-here" if name in SSH_FIELDS else "" for name in vars(self.fields)}

    def findings(self, field: str) -> tuple[PreflightFinding, ...]:
        """The findings of a field."""
        return (PreflightFinding(Severity.ERROR, field, self.errors[field], ""),) if field in self.errors else ()

    def invalid(self, field: str) -> bool:
        """Whether a field has an error."""
        return field in self.errors

    def opened(self, *names: str) -> bool:
        """Whether a part that is usually folded holds something that was set, or is wrong."""
        plain = TargetForm()
        return any(name in self.errors or getattr(self.fields, name) != getattr(plain, name) for name in names)


@blueprint.get("/targets/new")
def new() -> AnyResponse:
    """The empty form, or one filled from an existing target (`from`)."""
    if "from" not in request.args:
        return form_page(TargetForm())
    target = current_services().store.targets.get(request.args["from"]).target
    fields = to_form(target)
    return form_page(TargetForm(**vars(fields) | {"name": ""}), source=f"the target {target.name}")


@blueprint.post("/targets/new")
def add() -> AnyResponse:
    """Save a new target, or show the form again with its errors."""
    typed = TargetForm.from_form(request.form.to_dict(flat=False))
    parsed = parse(typed)
    errors = dict(parsed.errors)
    targets = current_services().store.targets
    if parsed.target is not None and (parsed.target.name == LOCAL or targets.find(parsed.target.name) is not None):
        errors["name"] = f"A target “{parsed.target.name}” already exists. Choose another name."
    if errors or parsed.target is None:
        return form_page(typed, errors, status=422)
    targets.save(parsed.target)
    flash(f"Added the target “{parsed.target.name}”. A check shows what works there.", "good")
    return redirect(request_check(parsed.target.name), 303)


@blueprint.route("/targets/<name>/edit", methods=["GET", "POST"])
def edit(name: str) -> AnyResponse:
    """The settings of a target. Its name stays: jobs know it by that."""
    stored = current_services().store.targets.get(name)
    if request.method == "GET":
        return form_page(to_form(stored.target), name=name)
    typed = TargetForm.from_form(request.form.to_dict(flat=False) | {"name": [name]})
    parsed = parse(typed, stored.target)
    if parsed.target is None:
        return form_page(typed, parsed.errors, name=name, status=422)
    current_services().store.targets.save(parsed.target)
    flash("Saved.", "good")
    return redirect(target_url(name), 303)


@blueprint.post("/targets/import")
def import_file() -> AnyResponse:
    """Fill the form from an exchanged file. Nothing is saved."""
    name, data = read_uploaded_file("Choose a file with a target in TOML or JSON, as exported by the page of a target.")
    return form_page(to_form(from_file(data)), source=f"the file {name}. Nothing is saved yet")


def form_page(
    fields: TargetForm,
    errors: dict[str, str] | None = None,
    *,
    name: str = "",
    source: str = "",
    status: int = 200,
) -> AnyResponse:
    """The form with these fields in it. name: of the target that is edited."""
    page = TargetFormPage(
        name=name,
        url=target_url(name) if name else "/targets",
        action=target_url(name, "edit") if name else "/targets/new",
        source=source,
        fields=fields,
        errors=errors or {},
        local=name == LOCAL,
        keep_hours=KEEP_HOURS,
        access_options=tuple(Option(*way) for way in ACCESS_OPTIONS),
        schedulers=(
            Option(*NO_SCHEDULER),
            *(Option(name, each.title, each.hint) for name, each in SCHEDULERS.items()),
        ),
        mpi_implementations=(
            Option("", "No suggestion"),
            *(Option(name, each.label) for name, each in MPI_LAUNCHERS.items()),
        ),
    )
    return render(page, status)
