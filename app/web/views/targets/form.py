"""The form of a target: a new one, one filled from another or from a file, and the settings of an existing one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from flask import Blueprint, flash, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from ....domain.targets import LOCAL, TARGET_FIELDS
from ....recording.fields.relevance import FieldLabel, list_hiding_words
from ....recording.fields.target_file import from_file
from ....recording.fields.target_form import CHOICES, CONDITIONS, FORM_ONLY, TargetForm, parse, to_form
from ....recording.recorders.preflight import PreflightFinding, Severity
from ...pages import target_url
from ...rendering import Page, render
from ...services import current_services
from ..declared_form import DeclaredForm
from ..settings_files import read_uploaded_file
from .checks import request_check

blueprint = Blueprint("target_form", __name__)


@dataclass(frozen=True)
class TargetFormPage(DeclaredForm, Page):
    """`/targets/new` and `/targets/<name>/edit`. name: of the target that is edited, empty for a new one.

    source: a label of what the form was filled from. action: its URL. errors: a sentence by field.
    """

    template: ClassVar[str] = "targets/form.html"
    declarations = TARGET_FIELDS
    form_only = FORM_ONLY
    name: str
    url: str
    action: str
    source: str
    fields: TargetForm
    errors: dict[str, str]
    local: bool
    hidden_by: Mapping[str, str]
    batch_labels: Mapping[str, tuple[FieldLabel, ...]] = field(default_factory=dict)

    def findings(self, field: str) -> tuple[PreflightFinding, ...]:
        """The findings of a field."""
        return (PreflightFinding(Severity.ERROR, field, self.errors[field], ""),) if field in self.errors else ()


@blueprint.get("/targets/new")
def new() -> AnyResponse:
    """The empty form, or one filled from an existing target (`from`)."""
    if "from" not in request.args:
        return form_page(TargetForm())
    target = current_services().store.targets.get(request.args["from"]).target
    fields = to_form(target)
    return form_page(TargetForm(**dict(fields) | {"name": ""}), source=f"the target {target.name}")


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
    """The settings of a target. Its name cannot change, because jobs refer to it."""
    target = current_services().store.targets.get(name)
    if request.method == "GET":
        return form_page(to_form(target.target), name=name)
    typed = TargetForm.from_form(request.form.to_dict(flat=False) | {"name": [name]})
    parsed = parse(typed, target.target)
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
        hidden_by=list_hiding_words(CONDITIONS, CHOICES),
    )
    return render(page, status)
