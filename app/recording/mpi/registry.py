"""The MPI launchers. A new one needs one file and one entry here."""

from ...domain.jobs import MpiFlavor
from .base import Arguments, MpiLauncher
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


__all__ = ["MPI_LAUNCHERS", "Arguments", "MpiLauncher", "mpi_launcher_of", "mpi_title"]
