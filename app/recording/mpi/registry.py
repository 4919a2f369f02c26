"""What a starter of MPI ranks is, and which there are. A new one is one file and one entry here."""

from collections.abc import Mapping
from types import MappingProxyType

from ...domain.jobs import MpiFlavour
from .base import Starter, Words
from .hydra import INTEL, MPICH
from .openmpi import OPENMPI
from .spectrum import PLATFORM, SPECTRUM
from .srun import SRUN

STARTERS: Mapping[MpiFlavour, Starter] = MappingProxyType(
    {starter.flavour: starter for starter in (OPENMPI, MPICH, INTEL, SPECTRUM, PLATFORM, SRUN)}
)


def starter_of(flavour: MpiFlavour) -> Starter:
    """The starter of that flavour's ranks."""
    return STARTERS[flavour]


__all__ = ["STARTERS", "Starter", "Words", "starter_of"]
