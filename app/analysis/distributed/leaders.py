"""The kernels that took most of the devices' time, and the operators that launched most of it: the first rows of
their tables without the rest, which takes longer to put together."""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import DeviceWorkKind
from ..core.functions import functions_of
from ..core.slices import slices_of, work_of, work_selected


@dataclass(frozen=True)
class Leaders:
    """first: (name, ns), the greatest first. count: how many names there are. whole_ns: what all of them have."""

    first: tuple[tuple[str, int], ...]
    count: int
    whole_ns: int


def kernel_leaders(profile: Profile, selection: Selection, most: int) -> Leaders:
    """Kernels by how long they ran."""
    work = work_of(profile)
    kernel = (work.kind == DeviceWorkKind.COMPUTATION) | (work.kind == DeviceWorkKind.COMMUNICATION)
    return _leaders(profile, selection, np.where(kernel, work.function, -1), most)


def operator_leaders(profile: Profile, selection: Selection, most: int) -> Leaders:
    """Operators by how long the work ran that they launched themselves."""
    work, function = work_of(profile), slices_of(profile).function
    launched = np.where(work.operator >= 0, function[work.operator], -1)
    return _leaders(profile, selection, launched, most)


def _leaders(profile: Profile, selection: Selection, function: Array, most: int) -> Leaders:
    """function: of each row of `device_work`, -1 where it does not count."""
    work, functions = work_of(profile), functions_of(profile)
    chosen = function >= 0
    mask = work_selected(profile, selection)
    if mask is not None:
        chosen &= mask
    name = functions.name[function[chosen]]
    named = name >= 0
    sums = np.bincount(name[named], work.duration[chosen][named], len(functions.names))
    order = np.argsort(-sums, kind="stable")[:most]
    return Leaders(
        first=tuple((functions.names[place], int(sums[place])) for place in order.tolist() if sums[place]),
        count=int((sums > 0).sum()),
        whole_ns=int(sums.sum()),
    )
