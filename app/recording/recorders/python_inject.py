"""Names the functions of a Python program for perf. Copied to the job's directory as sitecustomize.py.

Python imports a module of that name when it starts. perf sees only machine code: to it, each Python function is the
interpreter's evaluation loop. Here a frame evaluation function (PEP 523) calls that loop through a stub of machine code
for each function, as -X perf does from 3.12 on. These stubs are in a shared library, see `python_names`: its unwind
tables keep stacks of --call-graph dwarf whole, which those of -X perf end. It needs CPython 3.9 to 3.13 on x86-64; of
others from 3.12 on, the interpreter's own stubs are used. After any error, the program continues without names.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any

NAME, FOLDER = "_perfloom_names", "PERFLOOM_NAMES"
LIBRARY_TEXT = "python-stubs.txt"
"""The file next to this one with a library: a line with numbers, see `Library`, then zlib data in base 85."""
TABLE_MARK = (0x1122334455667788).to_bytes(8, "little")
"""The place in the library for the address of `Evaluator.table`."""
BUSY, STUB = 4, 6
"""The words of the table that say whether a stub is being made, and where it is."""
OLDEST, NEWEST = (3, 9), (3, 13)
STUB_BYTES = 16
FRAME_WORDS = 12
"""How many words of a frame are searched for its code object."""


class Library:
    """The content of libraries: the evaluator at byte `start`, behind it `count` stubs; the name of the first stub at
    byte `names`, each with `slot` bytes."""

    def __init__(self, text: bytes) -> None:
        import base64
        import zlib

        head, _, body = text.partition(b"\n")
        self.start, self.stubs, self.count, self.names, self.slot = map(int, head.split())
        self.image = zlib.decompress(base64.b85decode(body.strip()))


class Evaluator:
    """Assigns stubs to code objects, and writes their names into the file of the library, where perf finds them."""

    def __init__(self, folder: str, library: Library) -> None:
        import ctypes

        self.folder, self.library, self.ctypes = folder, library, ctypes
        self.file = self.used = self.stubs = self.files = 0
        api = ctypes.pythonapi
        prefix = "PyUnstable" if sys.version_info >= (3, 12) else "_Py"
        part = "_" if sys.version_info >= (3, 12) else ""
        request = getattr(api, f"{prefix}{part}Eval_RequestCodeExtraIndex")
        request.argtypes = [ctypes.c_void_p]
        self.get_extra, self.set_extra = (getattr(api, f"{prefix}{part}Code_{verb}Extra") for verb in ("Get", "Set"))
        self.set_extra.argtypes = [ctypes.py_object, ctypes.c_ssize_t, ctypes.c_void_p]
        self.loop = address_of(ctypes, api._PyEval_EvalFrameDefault)
        self.index = request(None)
        # Called by machine code. Its result would be undefined after an exception.
        self.callback: Any = ctypes.PYFUNCTYPE(None, ctypes.py_object)(self.make_stub)
        words = [
            *(find_code_offset(ctypes), self.index, address_of(ctypes, self.get_extra), self.loop, 0),
            *(address_of(ctypes, self.callback), 0),
        ]
        self.table = (ctypes.c_uint64 * len(words))(*words)

    def install(self) -> None:
        """Evaluate all frames from now on through stubs."""
        import atexit

        evaluator = self.open_library()
        api = self.ctypes.pythonapi
        api.PyInterpreterState_Get.restype = self.ctypes.c_void_p
        change = api._PyInterpreterState_SetEvalFrameFunc
        change.argtypes, change.restype = [self.ctypes.c_void_p, self.ctypes.c_void_p], None
        interpreter = api.PyInterpreterState_Get()
        os.register_at_fork(after_in_child=self.after_fork)
        # The first function that is registered is called last: functions after it have no names.
        atexit.register(change, interpreter, self.loop)
        change(interpreter, evaluator)

    def open_library(self) -> int:
        """Create and load the next library; the address of its evaluator."""
        path = os.path.join(self.folder, f"python-{os.getpid()}-{self.files}.so")
        self.files += 1
        address = self.ctypes.addressof(self.table).to_bytes(8, "little")
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(file, "wb", closefd=False) as stream:
            stream.write(self.library.image.replace(TABLE_MARK, address))
        evaluator = address_of(self.ctypes, self.ctypes.PyDLL(path)["py_trampoline_evaluator"])
        if self.file:
            os.close(self.file)
        # After all calls, any of which may fail.
        self.file, self.used = file, 0
        self.stubs = evaluator - self.library.start + self.library.stubs
        return evaluator

    def make_stub(self, code: CodeType) -> None:
        """Give a code object that has no stub one, and write its address into the table."""
        try:
            if self.used >= self.library.count:
                self.open_library()
            number = self.used
            name = symbol_of(code, self.library.slot - 1)
            os.pwrite(self.file, name, self.library.names + number * self.library.slot)
            stub = self.stubs + number * STUB_BYTES
            self.set_extra(code, self.index, stub)
            self.used = number + 1
            self.table[STUB] = stub
        except RecursionError:
            # The function gets its stub at a call that is less deep.
            return
        except Exception:
            self.set_extra(code, self.index, self.loop)
        except BaseException as error:
            # Ctrl-C at this moment: raise it in the program, after this function has returned.
            import _thread

            _thread.start_new_thread(self.raise_later, (_thread.get_ident(), type(error)))

    def raise_later(self, thread: int, error: type[BaseException]) -> None:
        """Raise an exception in a thread."""
        import time

        time.sleep(0.01)
        self.ctypes.pythonapi.PyThreadState_SetAsyncExc(self.ctypes.c_ulong(thread), self.ctypes.py_object(error))

    def after_fork(self) -> None:
        """The stubs that are left belong to the parent."""
        if self.file:
            os.close(self.file)
        self.file, self.used, self.files = 0, self.library.count, 0
        self.table[BUSY] = 0


def symbol_of(code: CodeType, most: int) -> bytes:
    """The name of a code object, as -X perf writes it, with at most that many bytes: long paths lose their begin."""
    name = getattr(code, "co_qualname", code.co_name)
    words = ["".join(sign if sign.isprintable() else "?" for sign in word) for word in (name, code.co_filename)]
    name, path = (word.encode("utf-8", "replace") for word in words)
    start = b"py::" + name[: most - 24] + b":"
    return start + path if len(start) + len(path) <= most else start + b"..." + path[len(start) + 3 - most :]


def address_of(ctypes: Any, function: Any) -> int:
    """The address of a function."""
    return int(ctypes.cast(function, ctypes.c_void_p).value)


def find_code_offset(ctypes: Any) -> int:
    """The offset of the code object in the frames that evaluation functions get: PyFrameObject, from 3.11 on
    _PyInterpreterFrame. Raises LookupError."""
    frame = sys._getframe()
    place = id(frame)
    version = sys.version_info[:2]
    if version >= (3, 11):
        # Behind the object's head and f_back.
        place = ctypes.c_uint64.from_address(place + 24).value
    for offset in range(0, 8 * FRAME_WORDS, 8):
        if ctypes.c_uint64.from_address(place + offset).value == id(frame.f_code):
            return offset
    raise LookupError("no code object in a frame")


def has_layout() -> bool:
    """Whether this is an interpreter and a machine that `Evaluator` supports."""
    supported = sys.implementation.name == "cpython" and OLDEST <= sys.version_info[:2] <= NEWEST
    # Debug builds and those without the lock have other layouts.
    other = hasattr(sys, "gettotalrefcount") or not getattr(sys, "_is_gil_enabled", lambda: True)()
    return supported and not other and os.uname().machine == "x86_64" and sys.maxsize > 2**32


def name_functions(folder: str) -> str:
    """Name the functions of this process; the reason if that is not possible, else an empty text."""
    active: Callable[[], bool] | None = getattr(sys, "is_stack_trampoline_active", None)
    if active is not None and active():
        return ""
    error = "it needs CPython 3.9 or later on x86-64, and 3.12 or later elsewhere"
    if has_layout():
        try:
            with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), LIBRARY_TEXT), "rb") as stream:
                library = Library(stream.read())
            Evaluator(folder, library).install()
            return ""
        except Exception as reason:
            error = f"{type(reason).__name__}: {reason}"
    try:
        activate: Callable[[str], None] | None = getattr(sys, "activate_stack_trampoline", None)
        if activate is None:
            return error
        activate("perf")
        mark_map(folder)
        os.register_at_fork(after_in_child=lambda: mark_map(folder))
        return ""
    except (ValueError, OSError):
        return error


def mark_map(folder: str) -> None:
    """Say that this process writes /tmp/perf-PID.map, so that it is removed after it was read."""
    try:
        os.close(os.open(os.path.join(folder, f"map-{os.getpid()}"), os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError:
        pass


def main() -> None:
    """Name the functions, and import the sitecustomize.py that this file hides, if there is one."""
    folder = os.environ.get(FOLDER)
    problem = name_functions(folder) if folder else ""
    if folder and problem:
        version = ".".join(map(str, sys.version_info[:3]))
        try:
            with open(os.path.join(folder, "python.note"), "x") as stream:
                stream.write(f"Python {version} did not name its functions: {problem}.\n")
        except OSError:
            pass
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    ours = sys.modules[NAME] = sys.modules.pop("sitecustomize")
    globals()["__name__"] = NAME
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = ours


if __name__ == "sitecustomize":
    main()
