"""What the tables of a large trace need of all of it, as arrays that can be kept: then no page waits for it to be made.

The values are those of `remembered`; they are taken apart by the types that their dataclasses declare.
"""

import hashlib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from pathlib import Path as File
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from ..domain.arrays import Array
from ..domain.profile import Profile
from .advice.findings import remember_whole, told_of_whole
from .core.picking import samples_of
from .core.piles import MANY, Blocks, blocks_of
from .core.remember import remembered
from .core.slices import device_before
from .distributed.critical_path import Path, Savings, path_of, savings_of
from .ml.launches import Waits, waits_of
from .ml.operators import Calls, calls_of
from .ml.roles import RankTime, rank_times

FINDINGS = "findings"
_Part = tuple[Hashable, Any, Callable[[], Any]]


def _parts(profile: Profile) -> list[_Part]:
    """The key under which each is remembered, its type, and what makes it."""
    events = [event for event, count in enumerate(samples_of(profile).per_event.tolist()) if count >= MANY]
    return [
        # First what takes the most memory on the way.
        ("critical path", Path, partial(path_of, profile)),
        ("operator calls", Calls, partial(calls_of, profile)),
        ("rank times", tuple[RankTime, ...], partial(rank_times, profile)),
        ("waits", Waits, partial(waits_of, profile)),
        ("device before", Array, partial(device_before, profile)),
        ("savings", Savings, partial(savings_of, profile)),
        *((("piles", event), Blocks, partial(blocks_of, profile, event)) for event in events),
    ]


@cache
def version() -> str:
    """What differs where the analyses do: what another version kept is of no use."""
    digest = hashlib.sha256()
    folder = File(__file__).parent
    for path in sorted((*folder.rglob("*.py"), folder.parent / "domain" / "tables.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def made(profile: Profile) -> dict[str, Array]:
    """All of it, as arrays of one dimension by name."""
    found: dict[str, Array] = {}
    for key, _, make in _parts(profile):
        _take_apart(make(), str(key), found)
    found[FINDINGS] = np.frombuffer(told_of_whole(profile), np.uint8)
    return found


def remember(profile: Profile, arrays: Mapping[str, Array]) -> None:
    """Have a profile remember what `made` gave. Raises KeyError, TypeError, ValueError where something is
    missing or damaged."""
    for key, kind, _ in _parts(profile):
        # Mapped, it takes no memory that something else needs more.
        remembered(profile, key, partial(_put_together, kind, str(key), arrays), pin=True)
    remember_whole(profile, arrays[FINDINGS].tobytes())


def _take_apart(value: Any, name: str, found: dict[str, Array]) -> None:
    if isinstance(value, tuple):
        found[name] = np.array([len(value)])
        for number, part in enumerate(value):
            _take_apart(part, f"{name}.{number}", found)
    elif is_dataclass(value):
        for field in fields(value):
            _take_apart(getattr(value, field.name), f"{name}.{field.name}", found)
    else:
        found[name] = np.atleast_1d(value)


def _put_together(kind: Any, name: str, arrays: Mapping[str, Array]) -> Any:
    if get_origin(kind) is tuple:
        [count] = arrays[name].tolist()
        return tuple(_put_together(get_args(kind)[0], f"{name}.{number}", arrays) for number in range(count))
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{one.name: _put_together(hints[one.name], f"{name}.{one.name}", arrays) for one in fields(kind)})
    return kind(arrays[name].item()) if kind in (int, bool) else arrays[name]
