"""The page of a form with declared fields, for its templates."""

from collections.abc import Mapping
from typing import ClassVar

from ...domain.fields import DeclaredField, Info, Option
from ...recording.fields.choices import list_options
from ...recording.fields.form_values import FormValues
from ...recording.fields.relevance import FieldLabel
from ...recording.recorders.preflight import PreflightFinding, Severity


class DeclaredForm:
    """A page with a form. declarations: of its fields, by their names in the form. hidden_by: for each field the
    choices to which it does not apply."""

    declarations: ClassVar[Mapping[str, DeclaredField]]
    form_only: ClassVar[Mapping[str, Info]] = {}
    """Fields of the form that the data class does not have."""
    batch_labels: Mapping[str, tuple[FieldLabel, ...]]
    fields: FormValues
    hidden_by: Mapping[str, str]

    def findings(self, field: str) -> tuple[PreflightFinding, ...]:
        """The findings of a field."""
        raise NotImplementedError

    def invalid(self, field: str) -> bool:
        """Whether a field has an error."""
        return any(finding.level is Severity.ERROR for finding in self.findings(field))

    @property
    def declared(self) -> Mapping[str, Info]:
        """The declarations of the fields."""
        return {**{name: declaration.info for name, declaration in self.declarations.items()}, **self.form_only}

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the fields of each group."""
        groups: dict[str, tuple[str, ...]] = {}
        for name, declaration in self.declarations.items():
            groups[declaration.info.group] = (*groups.get(declaration.info.group, ()), name)
        return groups

    def options(self, field: str) -> tuple[Option, ...]:
        """The choices of a field."""
        return list_options(self.declared[field].kind)

    def group_hidden_by(self, group: str) -> str:
        """The choices that leave all fields of a group unused."""
        words = [self.hidden_by[name].split() for name in self.groups[group]]
        return " ".join(word for word in words[0] if all(word in others for others in words))

    def opened(self, *groups: str) -> bool:
        """Whether a part of the form with these groups is expanded: a field is filled in, or has an error."""
        names = [name for group in groups for name in self.groups[group]]
        return any(self.fields[name] != self.fields.DEFAULTS[name] or self.invalid(name) for name in names)
