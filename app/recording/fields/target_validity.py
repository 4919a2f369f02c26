"""The permitted values of a Target. One definition for form, files and command line."""

from collections.abc import Iterator, Mapping

from ...domain.errors import InvalidRequest
from ...domain.targets import LOCAL, TARGET_FIELDS, Target
from ..mpi.registry import MPI_LAUNCHERS, mpi_title
from ..schedulers import scheduler_title
from .models import find_problems


def validate_target(target: Target) -> dict[str, str]:
    """The problems of a target, by form field. Empty if it is valid.

    Values of any type are checked, since a target may come from a file.
    """
    values = {name: each.get(target) for name, each in TARGET_FIELDS.items() if not each.part or target.ssh is not None}
    problems = find_problems(values, TARGET_FIELDS)
    for name, message in _contradictions(target):
        problems.setdefault(name, message)
    return problems


def raise_problems(problems: Mapping[str, str]) -> None:
    """Raises InvalidRequest with all problems, each with the name of its field where there are several."""
    if not problems:
        return
    name, message = next(iter(problems.items()))
    if len(problems) > 1:
        message = " ".join(f"{name}: {text}" for name, text in problems.items())
    raise InvalidRequest(message, name or None)


def _contradictions(target: Target) -> Iterator[tuple[str, str]]:
    if target.name == LOCAL and not target.is_local:
        yield "name", "The name “local” is reserved for this machine. Choose another name."
    scheduler = MPI_LAUNCHERS[target.mpi].scheduler if target.mpi in MPI_LAUNCHERS else ""
    if target.mpi is not None and scheduler and target.scheduler != scheduler:
        title, system = mpi_title(target.mpi, short=True), scheduler_title(scheduler)
        yield (
            "mpi",
            f"{title} works only with {system}. Choose {system} as the batch system, or another MPI implementation.",
        )
