"""Which profiles stay in the cache."""

from pathlib import Path

import numpy as np

from perfloom.analysis.core.memo import derived_bytes, memoize
from perfloom.domain.builder import ProfileBuilder
from perfloom.store.files import columns, profile_cache
from perfloom.store.files.profile_cache import ProfileCache


def test_small_profiles_stay_and_large_ones_leave(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(profile_cache, "MAX_DERIVED_BYTES", 100_000)
    folders = [tmp_path / str(number) for number in range(4)]
    for folder in folders:
        columns.write(ProfileBuilder("test").finish(), folder)
    kept = ProfileCache(size=2)
    first = [kept.get(folder) for folder in folders]
    assert all(kept.get(folder) is profile for folder, profile in zip(folders, first, strict=True))
    memoize(first[0], "large", lambda: np.zeros(60_000, np.int8))
    assert derived_bytes(first[0]) >= 60_000
    assert kept.get(folders[1]) is first[1]
    memoize(first[3], "large", lambda: np.zeros(60_000, np.int8))
    # The oldest leave until little is left.
    assert kept.get(folders[1]) is first[1]
    assert kept.get(folders[3]) is first[3]
    assert kept.get(folders[0]) is not first[0]
    few = ProfileCache(size=1, most=2)
    there = [few.get(folder) for folder in folders[:3]]
    assert few.get(folders[2]) is there[2]
    assert few.get(folders[0]) is not there[0]


def test_values_that_were_not_used_lately_leave_before_profiles(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(profile_cache, "MAX_DERIVED_BYTES", 100_000)
    folders = [tmp_path / str(number) for number in range(3)]
    for folder in folders:
        columns.write(ProfileBuilder("test").finish(), folder)
    kept = ProfileCache(size=1)
    profiles = [kept.get(folder) for folder in folders]
    for profile in profiles:
        for name in ("first", "second"):
            memoize(profile, name, lambda: np.zeros(20_000, np.int8))
    assert sum(map(derived_bytes, profiles)) >= 120_000
    assert [kept.get(folder) for folder in folders] == profiles
    # Of the oldest profile, the value that was used last stays.
    assert sum(map(derived_bytes, profiles)) <= 100_000
    oldest = min(profiles, key=derived_bytes)
    assert oldest is not profiles[2] and memoize(oldest, "second", lambda: np.zeros(0)).nbytes == 20_000
