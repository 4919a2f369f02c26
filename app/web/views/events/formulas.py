"""/events: formulas over events. Those of users are added, edited and deleted here, imported and exported as TOML."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from flask import Blueprint, Response, flash, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from ....analysis.formulas.builtin import BUILTIN_FORMULAS
from ....domain.errors import InvalidRequest
from ....domain.formulas.file import (
    MAX_DESCRIPTION_CHARS,
    MAX_FILE_BYTES,
    MAX_NAME_CHARS,
    MAX_UNIT_CHARS,
    check_formula,
    read_formulas,
    write_formulas,
)
from ....domain.formulas.formula import MAX_FORMULA_CHARS, Formula, FormulaError
from ...rendering import Page, render
from ...services import current_services
from ..results.tables import attachment
from ..settings_files import MEDIA_TYPES, read_uploaded_file

blueprint = Blueprint("own_formulas", __name__)
FIELDS = {
    "name": MAX_NAME_CHARS,
    "expression": MAX_FORMULA_CHARS,
    "unit": MAX_UNIT_CHARS,
    "description": MAX_DESCRIPTION_CHARS,
}
"""The fields of the form, with the maximum number of characters."""


@dataclass(frozen=True)
class FormulaForm:
    """The fields of a formula as typed. error: a sentence about `field`. before, at: of the expression up to the
    character that the error names, and that character; empty if it names none."""

    name: str = ""
    expression: str = ""
    unit: str = ""
    description: str = ""
    error: str = ""
    field: str = ""
    before: str = ""
    at: str = ""

    def problem(self, field: str) -> str:
        """The error of a field, or nothing."""
        return self.error if self.field == field else ""


@dataclass(frozen=True)
class FormulaLine:
    """A formula in a list. url: of its form, empty if it cannot be edited. note: which other formula precedes it."""

    name: str
    expression: str
    unit: str
    description: str
    url: str = ""
    note: str = ""


@dataclass(frozen=True)
class EventsPage(Page):
    """`/events`. own: of users; installed: from the file of the installation; builtin: of Perfloom."""

    template: ClassVar[str] = "events/formulas.html"
    own: tuple[FormulaLine, ...]
    installed: tuple[FormulaLine, ...]
    builtin: tuple[FormulaLine, ...]
    form: FormulaForm
    limits: dict[str, int]
    file_error: str


@dataclass(frozen=True)
class FormulaPage(Page):
    """`/events/formulas/<id>`: the form of a formula of users."""

    template: ClassVar[str] = "events/formula.html"
    url: str
    name: str
    form: FormulaForm
    limits: dict[str, int]


@dataclass(frozen=True)
class DeleteFormulaPage(Page):
    """`/events/formulas/<id>/delete`: the confirmation. users: names of formulas that name it."""

    template: ClassVar[str] = "events/delete.html"
    url: str
    name: str
    expression: str
    users: tuple[str, ...]


@blueprint.get("/events")
def show() -> AnyResponse:
    """All formulas, and the form of a new one."""
    return _page()


@blueprint.post("/events/formulas")
def add() -> AnyResponse:
    """Store a new formula, or show the form again with its error."""
    try:
        formula = _typed_formula()
        current_services().store.formulas.add(formula)
    except InvalidRequest as error:
        return _page(_form_with(error), status=422)
    flash(f"Added the formula “{formula.name}”.", "good")
    return redirect("/events", 303)


@blueprint.route("/events/formulas/<int:id>", methods=["GET", "POST"])
def edit(id: int) -> AnyResponse:
    """The form of a formula; POST stores it."""
    formulas = current_services().store.formulas
    known = formulas.get(id).formula
    if request.method == "GET":
        form = FormulaForm(known.name, known.expression, known.unit, known.description)
        return render(FormulaPage(_url(id), known.name, form, FIELDS))
    try:
        formulas.change(id, _typed_formula())
    except InvalidRequest as error:
        return render(FormulaPage(_url(id), known.name, _form_with(error), FIELDS), 422)
    flash("Saved.", "good")
    return redirect("/events", 303)


@blueprint.route("/events/formulas/<int:id>/delete", methods=["GET", "POST"])
def delete(id: int) -> AnyResponse:
    """Ask for confirmation, then delete a formula."""
    formulas = current_services().store.formulas
    known = formulas.get(id).formula
    if request.method == "GET":
        every = formulas.list()
        alone = sum(one.formula.name == known.name for one in every) == 1
        users = (one.formula.name for one in every if one.id != id and known.name in one.formula.names)
        return render(
            DeleteFormulaPage(_url(id), known.name, known.expression, tuple(dict.fromkeys(users)) if alone else ())
        )
    formulas.delete(id)
    flash(f"Deleted the formula “{known.name}”.", "good")
    return redirect("/events", 303)


@blueprint.get("/events/formulas/file")
def export_file() -> AnyResponse:
    """The formulas of users as TOML, as `PERFLOOM_FORMULAS` and the import read it."""
    text = write_formulas(one.formula for one in current_services().store.formulas.list())
    return attachment(Response(text, mimetype=MEDIA_TYPES["toml"]), "formulas.toml")


@blueprint.post("/events/formulas/import")
def import_file() -> AnyResponse:
    """Store the formulas of a file, and remove those with the same names. An error stores none."""
    try:
        _, content = read_uploaded_file("Choose a TOML file of formulas, as exported here.", MAX_FILE_BYTES)
        added, replaced = current_services().store.formulas.replace(read_formulas(content))
    except InvalidRequest as error:
        return _page(file_error=f"Nothing was imported. {error.message}", status=422)
    text = f"Imported {added:,} formula{'' if added == 1 else 's'}"
    flash(f"{text}, and replaced {replaced:,} with the same names." if replaced else f"{text}.", "good")
    return redirect("/events", 303)


def _page(form: FormulaForm | None = None, *, file_error: str = "", status: int = 200) -> AnyResponse:
    services = current_services()
    own = services.store.formulas.list()
    installed = services.settings.formulas
    own_names = {one.formula.name for one in own}
    page = EventsPage(
        own=tuple(_row(one.formula, _url(one.id)) for one in own),
        installed=tuple(_rows(installed, own_names)),
        builtin=tuple(_rows(BUILTIN_FORMULAS, own_names | {formula.name for formula in installed})),
        form=form or FormulaForm(),
        limits=FIELDS,
        file_error=file_error,
    )
    return render(page, status)


def _rows(formulas: Iterable[Formula], preceding: set[str]) -> Iterable[FormulaLine]:
    for formula in formulas:
        note = "A formula of this name above applies first." if formula.name in preceding else ""
        yield _row(formula, note=note)


def _row(formula: Formula, url: str = "", note: str = "") -> FormulaLine:
    return FormulaLine(formula.name, formula.expression, formula.unit, formula.description, url, note)


def _url(id: int) -> str:
    return f"/events/formulas/{id}"


def _typed_formula() -> Formula:
    """The formula of the form. Raises InvalidRequest."""
    return check_formula({field: request.form.get(field, "").strip() for field in FIELDS})


def _form_with(error: InvalidRequest) -> FormulaForm:
    """The form as it was typed, with its error."""
    typed = {field: request.form.get(field, "").strip() for field in FIELDS}
    position = error.position if isinstance(error, FormulaError) else None
    before = at = ""
    if position is not None:
        before, at = typed["expression"][: position - 1], typed["expression"][position - 1 : position]
    field = error.field if error.field in FIELDS else "expression"
    return FormulaForm(**typed, error=error.message, field=field, before=before, at=at)
