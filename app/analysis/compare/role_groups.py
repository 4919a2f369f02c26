"""The threads of two recordings as groups of a flame graph, by role."""

from dataclasses import dataclass
from weakref import ref

import numpy as np

from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID
from ..core.flame_groups import FlameGroup, FlameGroups, effective_group
from ..core.memo import memoize
from ..core.sample_selection import event_id, event_names
from .thread_roles import ALONE, RoleSide, ThreadRole, match_threads

MIN_MATCHED = 0.5
"""With less of the weight of a side in roles that both have, roles divide what belongs together."""
NOT_SAMPLED = "not sampled"
"""The label of threads without samples of the event."""


@dataclass(frozen=True, eq=False)
class RoleGroups:
    """roles: of all samples of an event, the largest first, so that they are the same for every selection. base, other:
    the groups of both sides, with the same labels."""

    roles: tuple[ThreadRole, ...]
    base: FlameGroups
    other: FlameGroups


def group_by_role(base: Profile, other: Profile, events: tuple[int, int]) -> RoleGroups | None:
    """The roles of the threads with samples of an event, which has these ids in base and other; kept for all
    selections. None if threads have no names, or too little of a side has a role that the other has, too."""
    # A value kept for a profile must not keep another one.
    return memoize(other, ("roles in", ref(base), events), lambda: _group(base, other, events))


def _group(base: Profile, other: Profile, events: tuple[int, int]) -> RoleGroups | None:
    if NO_ID in events or any(effective_group(one, FlameGroup.COMM) is FlameGroup.NONE for one in (base, other)):
        return None
    name = event_names(other)[events[1]]
    if event_names(base)[events[0]] != name or event_id(base, name) != events[0]:
        return None
    roles = tuple(match_threads([base], [other], Selection(), Selection(), name))
    for sides in ([role.base for role in roles], [role.other for role in roles]):
        weight = np.abs([float(side.weight[0]) for side in sides])
        matched = np.array([role.match != ALONE for role in roles], bool)
        if not weight.sum() or weight[matched].sum() < MIN_MATCHED * weight.sum():
            return None
    labels = (*(role.name for role in roles), NOT_SAMPLED)
    return RoleGroups(
        roles,
        _label_threads(base, [role.base for role in roles], labels),
        _label_threads(other, [role.other for role in roles], labels),
    )


def _label_threads(profile: Profile, sides: list[RoleSide], labels: tuple[str, ...]) -> FlameGroups:
    groups = np.full(profile.threads.num_rows, len(labels) - 1, np.int32)
    for number, side in enumerate(sides):
        groups[side.rows[0]] = number
    return FlameGroups(FlameGroup.COMM, labels, groups, None)
