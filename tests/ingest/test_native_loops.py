"""Compiled functions called without the compiler: arguments and results of all kinds, memory, errors, and their file."""

from __future__ import annotations

import hashlib
import platform
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from perfloom.ingest.jit.decorators import HAS_NUMBA, jit, jit_bounds_checked
from perfloom.ingest.jit.library import CompiledFunction, LoopLibrary, read_library, write_library
from perfloom.ingest.jit.linked_code import LinkedCode

if HAS_NUMBA:
    import llvmlite.binding as llvm

    from perfloom.ingest.jit import object_code
    from perfloom.ingest.jit.compiler import LoopCompiler
    from perfloom.ingest.jit.linker import link
    from perfloom.ingest.jit.object_code import ObjectCode, emit_object

pytestmark = pytest.mark.skipif(not HAS_NUMBA, reason="numba is not installed")


class Pair(NamedTuple):
    first: Any
    scale: int


@jit
def describe(values: Any, pair: Pair, is_last: bool, table: Any) -> Any:
    total = 0
    for value in values:
        total += value * pair.scale
    made = np.zeros(len(values), np.int32)
    made[0] = 7
    return total, is_last, made, pair.first, table[1:, 1], table.shape[1], np.uint64(2**64 - 1)


@jit
def double(value: Any) -> Any:
    return 2 * value


@jit
def change(values: Any) -> None:
    values[0] = 5


@jit
def allocate(count: int) -> Any:
    return np.ones(count, np.int64)


@jit_bounds_checked
def look_up(values: Any, at: int) -> int:
    return values[at]


def test_arguments_and_results() -> None:
    values, first = np.array([1, 2, 3], np.int64), np.array([True, False])
    table = np.arange(6, dtype=np.int32).reshape(3, 2)
    total, is_last, made, same, column, width, largest = describe(values, Pair(first, 10), True, table)
    assert (total, is_last, width, largest) == (60, True, 2, 2**64 - 1)
    assert type(is_last) is bool and made.dtype == np.int32 and made.tolist() == [7, 0, 0]
    assert same.tolist() == [True, False] and column.tolist() == [3, 5]
    table[2, 1] = 9
    assert column.tolist() == [3, 9], "a view of the argument"
    assert describe(values[::2], Pair(first, -1), False, table)[0] == -4


@jit
def transpose(table: Any) -> Any:
    return table.T


@jit
def reinterpret(values: Any) -> Any:
    return values.view(np.int64)


@jit
def drop_first(values: Any) -> Any:
    return values[1:]


def test_results_that_share_the_memory_of_arguments() -> None:
    table = np.arange(4).reshape(2, 2)
    assert transpose(table).tolist() == [[0, 2], [1, 3]]
    assert reinterpret(np.array([2**64 - 1], np.uint64)).tolist() == [-1]
    rest = drop_first(np.frombuffer(b"abc", np.uint8))
    assert bytes(rest) == b"bc" and not rest.flags.writeable
    assert drop_first(np.zeros(2, np.uint8)).flags.writeable


def test_numbers() -> None:
    assert double(-4) == -8 and double(2**63) == 0
    assert double(np.int32(-3)) == -6


def test_none_and_written_arrays() -> None:
    values = np.zeros(2, np.int64)
    assert change(values) is None
    assert values.tolist() == [5, 0]
    values.flags.writeable = False
    with pytest.raises(Exception, match=r"read-only|readonly"):
        change(values)
    assert values.tolist() == [5, 0]


def test_errors() -> None:
    assert look_up(np.array([4, 5]), 1) == 5
    with pytest.raises(IndexError):
        look_up(np.array([4, 5]), 2)
    with pytest.raises(MemoryError):
        allocate(1 << 60)
    with pytest.raises(TypeError, match="list"):
        double([1])
    for number in (2**64, -(2**63) - 1):
        with pytest.raises(OverflowError):
            double(number)
    for values in (np.zeros(2), np.zeros(2, "i4,i4")):
        with pytest.raises(TypeError, match="array"):
            change(values)


def test_memory_of_results_is_freed() -> None:
    allocate(1)
    kept = allocate(1000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(300):
        assert allocate(1 << 20)[-1] == 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10, "one of 300 arrays at a time"
    assert kept.sum() == 1000


def test_a_damaged_library_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "loops"
    assert read_library(path) is None
    functions = (CompiledFunction("a.b", "int", "b", 1, ["int64", "array <i4 1"]),)
    object_code = ObjectCode(b"\x7fELF\n\n", ("memcpy",))
    linked_code = LinkedCode(b"\n\xc3", 2, {"b": 1}, (0, 8), {"memcpy": (16,), "free": (24, 32)})
    for library in (LoopLibrary(functions, object_code), LoopLibrary(functions, linked_code)):
        write_library(path, library)
        assert read_library(path) == library
        assert list(tmp_path.iterdir()) == [path]
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert read_library(path) is None and not path.exists()
    other = b'{"functions": [], "code": {}}\n'
    for content in (b"short", b"", hashlib.sha256(other).hexdigest().encode() + b"\n" + other):
        path.write_bytes(content)
        assert read_library(path) is None and not path.exists()


MISSING = """
import sys
from pathlib import Path
from perfloom.ingest.jit import cache
from perfloom.ingest.jit.library import LoopLibrary, write_library
from perfloom.ingest.jit.linked_code import LinkedCode
from perfloom.ingest.jit.object_code import ObjectCode
assert cache.prepare_folder()
code = {code}
write_library(cache.get_library_path(), LoopLibrary((), code))
import numpy as np
from perfloom.ingest.jit import hashing
print(hashing.factorize(np.array([3, 3, 4]))[0].tolist(), "numba" in sys.modules)
"""


CHECKS = """
import numpy as np
from perfloom.ingest.jit.decorators import jit_bounds_checked

@jit_bounds_checked
def look_up(values, at):
    return values[at]

try:
    look_up(np.array([4, 5]), 2)
except IndexError:
    print("checked")
"""


@pytest.mark.parametrize("variable", ["NUMBA_BOUNDSCHECK", "NUMBA_DISABLE_JIT"])
def test_the_environment_changes_no_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv(variable, "0" if variable == "NUMBA_BOUNDSCHECK" else "1")
    done = subprocess.run([sys.executable, "-c", CHECKS], capture_output=True, text=True, check=True)
    assert done.stdout == "checked\n"


@pytest.mark.parametrize(
    "code",
    [
        'ObjectCode(b"", ("a_symbol_that_is_nowhere",))',
        'LinkedCode(bytes(16), 0, {}, (), {"a_symbol_that_is_nowhere": (0,)})',
    ],
)
def test_code_that_needs_other_libraries_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    program = MISSING.replace("{code}", code)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[0, 0, 1] True\n"


def sum_up(values: Any, most: int) -> Any:
    found = np.zeros(2, np.int64)
    for value in values:
        if value > most:
            raise IndexError
        found[value % 2] += value
    return found


@pytest.mark.skipif(platform.machine() != "x86_64", reason="code for other processors is linked by LLVM")
def test_linked_code_is_that_of_llvm() -> None:
    values = np.arange(10)
    loop = LoopCompiler(sum_up).compile((values, 4))
    content = emit_object([loop.assembly])
    linked = link(content)
    assert linked is not None and linked.own and linked.outside and 0 < linked.data_at < len(linked.content)
    for code in (linked, ObjectCode(content, tuple(linked.outside))):
        call = code.load().bind(loop.symbol, loop.word_count, loop.result, IndexError)
        assert call((values, 9)).tolist() == [20, 25]
        with pytest.raises(IndexError):
            call((values, 8))


def test_code_of_another_form_is_left_to_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = LoopCompiler(sum_up).compile((np.arange(1), 1))

    def create_target_machine() -> Any:
        return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(reloc="pic", codemodel="small")

    monkeypatch.setattr(object_code, "create_target_machine", create_target_machine)
    assert link(emit_object([loop.assembly])) is None


@pytest.mark.skipif(platform.machine() != "x86_64", reason="code for other processors is linked by LLVM")
def test_compiled_loops_load_without_the_compiler(tmp_path: Path) -> None:
    program = (
        "import sys\nimport numpy as np\nfrom perfloom.ingest.jit.hashing import factorize\n"
        "print(factorize(np.array([3, 3, 4]))[0].tolist(), [m for m in ('numba', 'llvmlite') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[0, 0, 1] []\n"


UNUSABLE = """
import os, sys
from pathlib import Path
from perfloom.ingest.jit import cache
from perfloom.ingest.jit.library import LoopLibrary, write_library
from perfloom.ingest.jit.linked_code import LinkedCode
assert cache.prepare_folder()
path = cache.get_library_path()
write_library(path, LoopLibrary((), LinkedCode(b"", 0, {}, (), {"a_symbol_that_is_nowhere": (0,)})))
state = sys.argv[1]
if state == "empty":
    path.write_bytes(b"")
elif state == "folder":
    path.unlink()
    path.mkdir()
elif state == "writable by others":
    path.parent.chmod(0o777)
from perfloom.ingest.jit.readiness import has_compiled_loops
print(has_compiled_loops(), [name for name in ("numba", "llvmlite") if name in sys.modules])
"""


@pytest.mark.parametrize("state", ["of another system", "empty", "folder", "writable by others"])
def test_unusable_loops_are_not_compiled_where_there_is_another_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", UNUSABLE, state], capture_output=True, text=True, check=True)
    assert done.stdout == "False []\n"
