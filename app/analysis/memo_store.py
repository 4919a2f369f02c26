"""Memoized values that tables of a large trace need, as arrays that can be stored, so that no page has to compute them.

The values are those of `memoize`; they are flattened and restored by the declared types of their dataclasses.
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
from .advice.findings import dump_findings, restore_findings
from .core.memo import memoize
from .core.sample_rollup import MIN_ROLLUP_SAMPLES, BlockRollup, block_rollup_of
from .core.sample_selection import samples_of
from .core.slice_selection import device_time_prefix_sums
from .core.waiting_functions import waiting_pattern
from .distributed.critical_path import CriticalPath, Savings, path_of, savings_of
from .ml.launches import LaunchWaits, launch_waits_of
from .ml.operators import OperatorCalls, operator_calls_of
from .ml.roles import RankTime, rank_times

FINDINGS_KEY = "findings"
_Part = tuple[Hashable, Any, Callable[[], Any]]


def _parts(profile: Profile) -> list[_Part]:
    """For each stored value: its key in the memo, its type and the function that computes it."""
    events = [
        event for event, count in enumerate(samples_of(profile).count_by_event.tolist()) if count >= MIN_ROLLUP_SAMPLES
    ]
    return [
        # First the one whose computation takes the most memory.
        ("critical path", CriticalPath, partial(path_of, profile)),
        ("operator calls", OperatorCalls, partial(operator_calls_of, profile)),
        ("rank times", tuple[RankTime, ...], partial(rank_times, profile)),
        ("waits", LaunchWaits, partial(launch_waits_of, profile)),
        ("device before", Array, partial(device_time_prefix_sums, profile)),
        ("savings", Savings, partial(savings_of, profile)),
        *((("sample_rollup", event), BlockRollup, partial(block_rollup_of, profile, event)) for event in events),
    ]


def analysis_version() -> str:
    """A key that changes with the analyses and their settings: data stored by another version is not used."""
    return hashlib.sha256(f"{_code_version()} {waiting_pattern()}".encode()).hexdigest()[:16]


@cache
def _code_version() -> str:
    digest = hashlib.sha256()
    folder = File(__file__).parent
    for path in sorted((*folder.rglob("*.py"), folder.parent / "domain" / "tables.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def dump_memo(profile: Profile) -> dict[str, Array]:
    """All stored values, as one-dimensional arrays by name."""
    found: dict[str, Array] = {}
    for key, _, make in _parts(profile):
        _flatten(make(), str(key), found)
    found[FINDINGS_KEY] = np.frombuffer(dump_findings(profile), np.uint8)
    return found


def restore_memo(profile: Profile, arrays: Mapping[str, Array]) -> None:
    """Restore the output of `dump_memo` into the memo of a profile. Raises KeyError, TypeError or ValueError if parts
    are missing or damaged."""
    for key, kind, _ in _parts(profile):
        # Pinned: memory-mapped arrays need no eviction.
        memoize(profile, key, partial(_unflatten, kind, str(key), arrays), pin=True)
    restore_findings(profile, arrays[FINDINGS_KEY].tobytes())


def _flatten(value: Any, name: str, found: dict[str, Array]) -> None:
    if isinstance(value, tuple):
        found[name] = np.array([len(value)])
        for number, part in enumerate(value):
            _flatten(part, f"{name}.{number}", found)
    elif is_dataclass(value):
        for field in fields(value):
            _flatten(getattr(value, field.name), f"{name}.{field.name}", found)
    else:
        found[name] = np.atleast_1d(value)


def _unflatten(kind: Any, name: str, arrays: Mapping[str, Array]) -> Any:
    if get_origin(kind) is tuple:
        [count] = arrays[name].tolist()
        return tuple(_unflatten(get_args(kind)[0], f"{name}.{number}", arrays) for number in range(count))
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(
            **{field.name: _unflatten(hints[field.name], f"{name}.{field.name}", arrays) for field in fields(kind)}
        )
    return kind(arrays[name].item()) if kind in (int, bool) else arrays[name]
