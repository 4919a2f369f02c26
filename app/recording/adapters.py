"""All adapters. Importing this module registers the names of recorders, MPI launchers and batch systems."""

from .mpi.registry import MPI_LAUNCHERS
from .recorders import RECORDERS
from .schedulers import SCHEDULERS

__all__ = ["MPI_LAUNCHERS", "RECORDERS", "SCHEDULERS"]
