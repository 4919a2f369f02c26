"""The kernels with most of the device time, and the operators that launched most of it: the first rows of their tables,
because the complete tables take longer to compute."""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import DeviceWorkKind
from ..core.functions import functions_of
from ..core.slice_selection import device_work_of, select_device_work, slices_of


@dataclass(frozen=True)
class TopEntries:
    """entries: (name, ns), descending. count: number of names. total_ns: of all of them."""

    entries: tuple[tuple[str, int], ...]
    count: int
    total_ns: int


def top_kernels(profile: Profile, selection: Selection, limit: int) -> TopEntries:
    """Kernels by duration."""
    work = device_work_of(profile)
    kernel = (work.kind == DeviceWorkKind.COMPUTATION) | (work.kind == DeviceWorkKind.COMMUNICATION)
    return _leaders(profile, selection, np.where(kernel, work.function, -1), limit)


def top_operators(profile: Profile, selection: Selection, limit: int) -> TopEntries:
    """Operators by device self time."""
    work, function = device_work_of(profile), slices_of(profile).function
    launched = np.where(work.operator >= 0, function[work.operator], -1)
    return _leaders(profile, selection, launched, limit)


def _leaders(profile: Profile, selection: Selection, function: Array, most: int) -> TopEntries:
    """function: of each row of `device_work`, -1 if it does not count."""
    work, functions = device_work_of(profile), functions_of(profile)
    chosen = function >= 0
    mask = select_device_work(profile, selection)
    if mask is not None:
        chosen &= mask
    name = functions.name[function[chosen]]
    named = name >= 0
    sums = np.bincount(name[named], work.duration[chosen][named], len(functions.names))
    order = np.argsort(-sums, kind="stable")[:most]
    return TopEntries(
        entries=tuple((functions.names[place], int(sums[place])) for place in order.tolist() if sums[place]),
        count=int((sums > 0).sum()),
        total_ns=int(sums.sum()),
    )
