"""What is remembered beside a profile: built once, bounded, and gone with it."""

import gc
import threading
import weakref
from collections.abc import Callable

import numpy as np
import pytest

from perfloom.analysis.core import memo
from perfloom.analysis.core.memo import memoize, size_of
from perfloom.analysis.stacks.flamegraph import flame_tree
from perfloom.analysis.stacks.shapes import shape_of
from perfloom.domain.profile import Meta, Profile
from perfloom.domain.selection import Selection
from tests.support.profiles import profile_of


def counting(calls: list[str], key: str, value: object) -> Callable[[], object]:
    def build() -> object:
        calls.append(key)
        return value

    return build


def test_built_once_for_each_profile_and_key() -> None:
    one, two = Profile(Meta("a")), Profile(Meta("a"))
    calls: list[str] = []
    for profile in (one, two, one, two):
        for key in ("x", "y"):
            assert memoize(profile, key, counting(calls, key, key)) == key
    assert sorted(calls) == ["x", "x", "y", "y"]


def test_gone_with_the_profile() -> None:
    profile = profile_of([("a;b", 1), ("a;c", 2)])
    for invert in (False, True):
        flame_tree(profile, Selection(invert=invert, hide="b", focus="a", recursion=True))
    seen = weakref.ref(profile), weakref.ref(memoize(profile, "x", lambda: np.zeros(10)))
    del profile
    gc.collect()
    assert [ref() for ref in seen] == [None, None]


def test_the_least_recently_used_is_evicted_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo, "MEMO_LIMIT_BYTES", 2500)
    profile = Profile(Meta("a"))
    calls: list[str] = []

    def ask(key: str, kilobytes: int = 1, pin: bool = False) -> None:
        memoize(profile, key, counting(calls, key, np.zeros(kilobytes * 1000, np.int8)), pin=pin)

    ask("pinned", 10, pin=True)
    for key in ("a", "b", "a", "c"):
        ask(key)
    calls.clear()
    for key in ("a", "c", "pinned"):
        ask(key)
    assert calls == []
    ask("b")
    assert calls == ["b"]
    calls.clear()
    ask("huge", 100)
    ask("huge", 100)
    assert calls == ["huge"]


def test_many_threads_build_once() -> None:
    profile = Profile(Meta("a"))
    calls: list[str] = []
    inside, go_on = threading.Event(), threading.Event()

    def build() -> str:
        calls.append("built")
        inside.set()
        assert go_on.wait(10)
        return "value"

    found: list[str] = []
    workers = [
        threading.Thread(target=lambda: found.append(memoize(profile, "x", build)), daemon=True) for _ in range(8)
    ]
    for worker in workers:
        worker.start()
    assert inside.wait(10)
    # Another key of the same profile does not wait.
    assert memoize(profile, "y", lambda: "other") == "other"
    go_on.set()
    for worker in workers:
        worker.join(10)
    assert found == ["value"] * 8
    assert calls == ["built"]


def test_a_failure_is_not_remembered() -> None:
    profile = Profile(Meta("a"))

    def fail() -> str:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        memoize(profile, "x", fail)
    assert memoize(profile, "x", lambda: "yes") == "yes"


def test_sizes() -> None:
    assert size_of(np.zeros(1000, np.int64)) == 8000
    assert size_of((np.zeros(10, np.int8), [np.zeros(20, np.int8)])) > 30
    assert size_of("text") > 0
    array = np.zeros(1000, np.int64)
    assert size_of((array, array)) < 8200, "one array in two places is there once"


def test_a_shape_does_not_count_its_tree() -> None:
    profile = profile_of([(f"a;b{n};c", 1) for n in range(1000)])
    shape = shape_of(profile, Selection(invert=True))
    arrays = (shape.parent, shape.end, shape.first, shape.last, shape.place, shape.leaf, shape.row_of_call)
    assert sum(a.nbytes for a in arrays if a is not None) <= size_of(shape) < size_of(shape.tree) + size_of(arrays)
