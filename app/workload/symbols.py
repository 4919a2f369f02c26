"""Names that perf can see for Python functions, in interpreters that give it none.

perf knows machine code only: every Python function is the interpreter's evaluation loop to it. From 3.12 the
interpreter can call each function through a stub of machine code that bears its name (``-X perf``). This module does
the same for the functions marked `register`, in any interpreter on x86-64: it writes a shared library with one stub for
each, its symbol and its unwind table, and calls the functions through it. Unlike the interpreter's stubs these have
unwind tables, so that stacks recorded with ``--call-graph dwarf`` are whole.

Formats: System V ABI, gABI chapters 4 and 5 (ELF); DWARF 4, section 6.4, and LSB 5.0, chapter 10.6 (.eh_frame).
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# endbr64; push %rbp; mov %rsp,%rbp; call *%rsi; pop %rbp; ret: calls its second argument with its first.
STUB_CODE = bytes.fromhex("f30f1efa 55 4889e5 ffd6 5d c3".replace(" ", "")).ljust(16, b"\x90")
# Where in it the stack is laid out how. CFA: rsp+8; after push rsp+16, rbp saved; after mov rbp+16; after pop rsp+8.
_RULES = bytes.fromhex("45 0e10 8602 43 0d06 43 0c0708 c6".replace(" ", ""))
# Version 1, "zR", code alignment 1, data alignment -8, return address in 16, pointers pcrel sdata4; CFA = rsp + 8.
_CIE = bytes.fromhex("00000000 01 7a5200 01 78 10 01 1b 0c0708 9001".replace(" ", ""))
_PAGE = 0x1000

_symbols: list[str] = []
_stubs: dict[str, Callable[[Callable[[], Any], int | None], Any]] = {}
_call_no_arguments = ctypes.cast(ctypes.pythonapi.PyObject_CallNoArgs, ctypes.c_void_p).value


def is_supported() -> bool:
    """Whether the stubs can run on this machine."""
    return platform.machine() == "x86_64" and sys.maxsize > 2**32


def _interpreter_does() -> bool:
    return hasattr(sys, "is_stack_trampoline_active") and sys.is_stack_trampoline_active()


def register(function: Callable[P, R]) -> Callable[P, R]:
    """Let perf see a function by its name, once `install_stubs` was called; until then it is called as ever."""
    symbol = f"py::{function.__qualname__}:{function.__code__.co_filename}"
    _symbols.append(symbol)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        stub = _stubs.get(symbol)
        if stub is None:
            return function(*args, **kwargs)
        result: R = stub(functools.partial(function, *args, **kwargs), _call_no_arguments)
        return result

    return call


def install_stubs() -> bool:
    """Call every function marked `register` through its stub from now on; whether that can be done here.

    perf reads the names from the library's file after the program has ended, so the file stays, in the user's cache.
    """
    if not is_supported() or _interpreter_does() or not _symbols:
        return False
    try:
        library = ctypes.PyDLL(str(_cache_library(shared_library(_symbols))))
    except (OSError, RuntimeError):  # no home, nowhere to write, or a policy that runs nothing written there
        return False
    for symbol in _symbols:
        stub = library[symbol]
        stub.argtypes = [ctypes.py_object, ctypes.c_void_p]
        stub.restype = ctypes.py_object
        _stubs[symbol] = stub
    return True


def _cache_library(image: bytes) -> Path:
    """The library's file in the user's cache, named after its content and written if it is not there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "perfloom"
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = cache / f"names-{hashlib.sha256(image).hexdigest()[:16]}.so"
    if not path.exists() or path.read_bytes() != image:
        being_written = path.with_suffix(f".{os.getpid()}")
        being_written.write_bytes(image)
        being_written.replace(path)
    return path


def _record(body: bytes, alignment: int = 8) -> bytes:
    """A CIE or FDE with its length before it, filled up with DW_CFA_nop."""
    size = -(-(len(body) + 4) // alignment) * alignment
    return struct.pack("<I", size - 4) + body.ljust(size - 4, b"\0")


def _unwind_tables(count: int, text: int, header: int) -> tuple[bytes, bytes]:
    """(.eh_frame_hdr, .eh_frame) for `count` stubs, for code at address `text` and the header at `header`."""
    frames_at = header + 12 + 8 * count
    frames, index = _record(_CIE), b""
    for number in range(count):
        here, code = frames_at + len(frames), text + number * len(STUB_CODE)
        index += struct.pack("<ii", code - header, here - header)
        # To the CIE backwards; the code's place relative to this field; its size; no augmentation; the rules.
        start = struct.pack("<IiI", len(frames) + 4, code - (here + 8), len(STUB_CODE))
        frames += _record(start + b"\0" + _RULES)
    # Encodings of the pointer to .eh_frame (pcrel sdata4), of the count (udata4), of the table (datarel sdata4).
    encodings = bytes([1, 0x1B, 0x03, 0x3B])
    return encodings + struct.pack("<iI", frames_at - (header + 4), count) + index, frames + bytes(4)


def shared_library(symbols: Sequence[str]) -> bytes:
    """An ELF shared object for x86-64 with one stub for each symbol."""
    count = len(symbols)
    names = b"\0" + b"".join(symbol.encode() + b"\0" for symbol in symbols)
    section_names = b"\0.hash\0.dynsym\0.dynstr\0.text\0.eh_frame_hdr\0.eh_frame\0.dynamic\0.shstrtab\0"

    # One after the other from behind the headers; in the file and in memory at the same place.
    hash_at = 64 + 5 * 56
    symbols_at = -(-(hash_at + 4 * (4 + count)) // 8) * 8
    names_at = symbols_at + 24 * (1 + count)
    text_at = -(-(names_at + len(names)) // 16) * 16
    header_at = text_at + len(STUB_CODE) * count
    header, frames = _unwind_tables(count, text_at, header_at)
    frames_at = header_at + len(header)
    dynamic_at = -(-(frames_at + len(frames)) // _PAGE) * _PAGE

    # A hash table of one bucket: a chain through all symbols, 0 being the end.
    table = struct.pack(
        f"<{4 + count}I", 1, 1 + count, 1 if count else 0, 0, *(range(2, count + 1)), *([0] if count else [])
    )
    entries, offset = bytes(24), 1
    for number, symbol in enumerate(symbols):
        # Name, global function, default visibility, section 4, address, size.
        entries += struct.pack("<IBBHQQ", offset, 0x12, 0, 4, text_at + number * len(STUB_CODE), len(STUB_CODE))
        offset += len(symbol.encode()) + 1
    tags = [(4, hash_at), (5, names_at), (6, symbols_at), (10, len(names)), (11, 24), (0, 0)]
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in tags)

    image = bytearray(dynamic_at)
    for at, content in [
        (hash_at, table),
        (symbols_at, entries),
        (names_at, names),
        (text_at, STUB_CODE * count),
        (header_at, header),
        (frames_at, frames),
    ]:
        image[at : at + len(content)] = content
    code_end = frames_at + len(frames)
    section_names_at = dynamic_at + len(dynamic)
    sections_at = -(-(section_names_at + len(section_names)) // 8) * 8
    image += (dynamic + section_names).ljust(sections_at - dynamic_at, b"\0")
    # Type, flags (1 write, 2 memory, 4 code), place, size, link, info, alignment, size of an entry.
    for name, kind, flags, at, size, link, info, alignment, entry in [
        ("", 0, 0, 0, 0, 0, 0, 0, 0),
        (".hash", 5, 2, hash_at, len(table), 2, 0, 8, 4),
        (".dynsym", 11, 2, symbols_at, len(entries), 3, 1, 8, 24),
        (".dynstr", 3, 2, names_at, len(names), 0, 0, 1, 0),
        (".text", 1, 6, text_at, len(STUB_CODE) * count, 0, 0, 16, 0),
        (".eh_frame_hdr", 1, 2, header_at, len(header), 0, 0, 4, 0),
        (".eh_frame", 1, 2, frames_at, len(frames), 0, 0, 8, 0),
        (".dynamic", 6, 3, dynamic_at, len(dynamic), 3, 0, 8, 16),
        (".shstrtab", 3, 0, section_names_at, len(section_names), 0, 0, 1, 0),
    ]:
        index = section_names.index(name.encode() + b"\0")
        address = at if flags else 0
        image += struct.pack("<IIQQQQIIQQ", index, kind, flags, address, at, size, link, info, alignment, entry)

    identity = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    image[:64] = identity + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, sections_at, 0, 64, 56, 5, 64, 9, 8)
    # Type, flags (4 read, 2 write, 1 run), place in the file, address twice, size twice, alignment.
    segments = [
        (1, 5, 0, code_end, _PAGE),
        (1, 6, dynamic_at, len(dynamic), _PAGE),
        (2, 6, dynamic_at, len(dynamic), 8),
        (0x6474E550, 4, header_at, len(header), 4),
        (0x6474E551, 6, 0, 0, 16),
    ]
    image[64:hash_at] = b"".join(struct.pack("<IIQQQQQQ", k, f, at, at, at, n, n, a) for k, f, at, n, a in segments)
    return bytes(image)
