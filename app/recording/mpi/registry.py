"""The MPI launchers. A new one needs one file and one entry here."""

from collections.abc import Iterable
from itertools import chain, zip_longest

from ...domain.jobs import MpiFlavor
from .base import Arguments, MpiLauncher, RankVariables
from .hydra import INTEL, MPICH
from .openmpi import OPENMPI
from .spectrum import PLATFORM, SPECTRUM
from .srun import SRUN

MPI_LAUNCHERS: dict[MpiFlavor, MpiLauncher] = {
    MpiFlavor.register(launcher.implementation): launcher
    for launcher in (OPENMPI, MPICH, INTEL, SPECTRUM, PLATFORM, SRUN)
}


def mpi_launcher_of(flavour: MpiFlavor) -> MpiLauncher:
    """The launcher of this MPI implementation."""
    return MPI_LAUNCHERS[flavour]


def mpi_title(name: str, *, short: bool = False) -> str:
    """The label of an MPI implementation, or its short title; the name itself if it is not registered."""
    found = next((each for known, each in MPI_LAUNCHERS.items() if known == name), None)
    return name if found is None else found.title if short else found.label


def library_patterns() -> tuple[tuple[str, str], ...]:
    """(pattern of a library, implementation whose programs have it), the most certain first. What is derived from
    another implementation has its libraries, too, and goes before it."""
    most = max(len(each.library_patterns) for each in MPI_LAUNCHERS.values())
    return tuple(
        (each.library_patterns[place], name)
        for place in range(most)
        for name, each in reversed(MPI_LAUNCHERS.items())
        if place < len(each.library_patterns)
    )


def launchers_for_library(name: str) -> str:
    """The titles of the launchers that start programs built for an implementation."""
    return " or ".join(each.title for each in MPI_LAUNCHERS.values() if name in each.accepted_libraries)


def rank_variables(own: Iterable[RankVariables] = (), *, of_batch_systems: bool = False) -> tuple[RankVariables, ...]:
    """Variables with the number of a rank, of all launchers: `own` ones first, then those that are the most reliable.
    of_batch_systems: also those of launchers that belong to a batch system, which may be inherited by other ones."""
    known = [each for each in MPI_LAUNCHERS.values() if of_batch_systems or not each.scheduler]
    ordered = [*own, *filter(None, chain.from_iterable(zip_longest(*(each.rank_variables for each in known))))]
    sizes: dict[str, dict[str, None]] = {}
    for each in ordered:
        sizes.setdefault(each.rank, {}).update(dict.fromkeys(each.sizes))
    return tuple(RankVariables(rank, tuple(found)) for rank, found in sizes.items())


__all__ = [
    "MPI_LAUNCHERS",
    "Arguments",
    "MpiLauncher",
    "launchers_for_library",
    "library_patterns",
    "mpi_launcher_of",
    "mpi_title",
    "rank_variables",
]
