"""Arrays in a file: the same read back; whatever happened to the file, no error."""

from pathlib import Path

import numpy as np
import pytest

from perfloom.domain.errors import Unavailable
from perfloom.store.files import arrays


def test_arrays_are_read_back(tmp_path: Path) -> None:
    kept = {
        "times": np.array([1, -5, 1 << 62]),
        "none": np.zeros(0, np.int32),
        "names with ünicode": np.array([1, 2, 255], np.uint8),
        "every second": np.arange(10, dtype=np.int32)[::2],
        "one for all": np.broadcast_to(np.uint8(7), (5,)),
    }
    path = tmp_path / "kept"
    arrays.write(path, {"old": np.zeros(3)})
    arrays.write(path, kept)
    again = arrays.read(path)
    assert again is not None and list(again) == list(kept)
    for name, array in kept.items():
        assert again[name].dtype == array.dtype
        assert again[name].tolist() == array.tolist()
    assert [found.name for found in tmp_path.iterdir()] == ["kept"]


def test_missing_or_damaged_file_is_none(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    assert arrays.read(path) is None
    arrays.write(path, {"a": np.arange(100), "b": np.arange(5)})
    whole = path.read_bytes()
    for size in (0, 5, 20, 40, 90, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert arrays.read(path) is None
    for old, new in ((b"arrays 1", b"arrays 2"), (b"<i8", b"|O8"), (b'"a"', b"[[["), (b"100]", b"-10]")):
        path.write_bytes(whole.replace(old, new, 1))
        assert arrays.read(path) is None


def test_write_error_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        arrays.write(tmp_path / "nowhere" / "kept", {"a": np.arange(3)})
