"""The choices of fields, with labels: those that a field declares, or the registered adapters."""

from ...domain.fields import ChoiceField, EitherField, FieldKind, Option, OptionalChoiceField
from ...domain.jobs import MpiFlavor, RecorderName
from ...domain.targets import SchedulerName
from ..mpi.registry import MPI_LAUNCHERS
from ..recorders import RECORDERS
from ..schedulers import SCHEDULERS

NO_SCHEDULER = Option(SchedulerName.NONE, "None", "Programs are started directly.")


def list_options(kind: FieldKind) -> tuple[Option, ...]:
    """The options of a kind, each with its form value; empty for a kind without choices."""
    match kind:
        case EitherField():
            return (kind.off, kind.on)
        case OptionalChoiceField():
            return (Option("", kind.none), *_options_of(kind))
        case ChoiceField():
            return _options_of(kind)
        case _:
            return ()


def option_label(kind: FieldKind, value: object) -> str:
    """The label of a value; the value itself if it has none."""
    return next((option.label for option in list_options(kind) if option.value == value), str(value))


def _options_of(kind: ChoiceField) -> tuple[Option, ...]:
    if kind.options:
        return kind.options
    if kind.type is RecorderName:
        return tuple(Option(name, each.label, each.hint) for name, each in RECORDERS.items())
    if kind.type is MpiFlavor:
        return tuple(Option(name, each.label) for name, each in MPI_LAUNCHERS.items())
    if kind.type is SchedulerName:
        return (NO_SCHEDULER, *(Option(name, each.title, each.hint) for name, each in SCHEDULERS.items()))
    return tuple(Option(str(value), str(value)) for value in kind.type)
