"""Files as just-in-time compilers write them for perf (jitdump)."""

from __future__ import annotations

import struct

LOAD, MOVE, LINES, CLOSE = range(4)


def make_header(order: str = "<", flags: int = 0, version: int = 1) -> bytes:
    return struct.pack(f"{order}IIIIIIQQ", 0x4A695444, version, 40, 62, 0, 7, 0, flags)


def make_record(kind: int, time: int, body: bytes, order: str = "<") -> bytes:
    return struct.pack(f"{order}IIQ", kind, 16 + len(body), time) + body


def make_load(time: int, start: int, name: bytes, code: bytes, index: int, order: str = "<") -> bytes:
    fields = struct.pack(f"{order}IIQQQQ", 7, 7, start, start, len(code), index)
    return make_record(LOAD, time, fields + name + b"\0" + code, order)


def make_lines(start: int, *lines: tuple[int, int, bytes], order: str = "<") -> bytes:
    entries = (struct.pack(f"{order}QII", address, line, 0) + file + b"\0" for address, line, file in lines)
    return make_record(LINES, 1, struct.pack(f"{order}QQ", start, len(lines)) + b"".join(entries), order)


def make_dump(order: str = "<", flags: int = 0) -> bytes:
    return b"".join(
        (
            make_header(order, flags),
            make_lines(0x1000, (0x1000, 3, b"/src/a.js"), (0x1004, 9, b"\xff"), order=order),
            make_load(10, 0x1000, b"f", b"codecode", 1, order),
            make_record(9, 11, b"unknown", order),
            make_load(12, 0x2000, b"g\xff h", b"12", 2, order),
            make_record(MOVE, 13, struct.pack(f"{order}IIQQQQQ", 7, 7, 0, 0x1000, 0x3000, 8, 1), order),
            make_record(CLOSE, 14, b"", order),
            make_load(15, 0x9000, b"late", b"1", 3, order),
        )
    )
