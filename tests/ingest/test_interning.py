"""Ids of keys equal those of a dict, for any batches."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perfloom.ingest.interning import KeyInterner


@given(st.lists(st.lists(st.integers(0, 40) | st.integers(0, 2**63 - 1), max_size=60), max_size=8))
def test_ids_equal_those_of_a_dict(batches: list[list[int]]) -> None:
    numbers, known = KeyInterner(), dict[int, int]()
    for keys in batches:
        assert numbers.intern(np.array(keys, np.int64)).tolist() == [known.setdefault(key, len(known)) for key in keys]
    assert numbers.keys().tolist() == list(known)
    assert numbers.count == len(known)


def test_many_keys_in_batches() -> None:
    numbers = KeyInterner()
    keys = np.random.default_rng(1).integers(0, 1 << 60, 50_000)
    for start in range(0, len(keys), 700):
        numbers.intern(keys[start : start + 700])
    assert (numbers.keys()[numbers.intern(keys)] == keys).all()
