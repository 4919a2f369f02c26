"""Makes perf.data files record by record: what a real recording seldom or never has."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

IP, TID, TIME, CALLCHAIN, CPU, PERIOD = 1, 2, 4, 0x20, 0x80, 0x100
KERNEL, USER, FORK_EXEC = 1, 2, 1 << 13
KERNEL_MARK, USER_MARK, HYPERVISOR_MARK, WRONG_MARK = (2**64 - number for number in (128, 512, 32, 4000))
SAMPLE_TYPE = IP | TID | TIME | CALLCHAIN | CPU | PERIOD
TEXT = 0xFFFFFFFF81000000
HEADER_BYTES, ATTRIBUTE_BYTES = 104, 144


def record(kind: int, body: bytes, flags: int = USER) -> bytes:
    """A record, filled up to a multiple of 8 bytes."""
    body += bytes(-len(body) % 8)
    return struct.pack("<IHH", kind, flags, 8 + len(body)) + body


def text(value: bytes) -> bytes:
    """A text of a record: with a zero at its end, filled up to a multiple of 8 bytes."""
    return value + bytes(8 - len(value) % 8)


@dataclass
class MadeRecording:
    """A perf.data file of one event with frame pointers. sample_type: what its samples contain."""

    sample_type: int = SAMPLE_TYPE
    records: list[bytes] = field(default_factory=list)

    def add(self, kind: int, body: bytes, pid: int, time: int, *, flags: int = USER) -> None:
        """A record other than a sample: it ends with process, time and CPU."""
        self.records.append(record(kind, body + struct.pack("<iiQII", pid, pid, time, 0, 0), flags))

    def name(self, tid: int, name: bytes, time: int = 0, pid: int | None = None) -> None:
        self.add(3, struct.pack("<ii", tid if pid is None else pid, tid) + text(name), tid, time)

    def fork(self, pid: int, parent: int, time: int = 0, *, flags: int = USER) -> None:
        self.add(7, struct.pack("<iiiiQ", pid, parent, pid, parent, time), pid, time, flags=flags)

    def map(
        self, pid: int, start: int, size: int, path: bytes, time: int = 0, offset: int = 0, *, protection: int = 5
    ) -> None:
        """protection: PROT_*, 4 for executable."""
        numbers = struct.pack("<iiQQQIIQQII", pid, pid, start, size, offset, 0, 0, 0, 0, protection, 2)
        self.add(10, numbers + text(path), pid, time)

    def map_kernel(self, start: int = TEXT, size: int = 1 << 24, path: bytes = b"[kernel.kallsyms]_text") -> None:
        self.add(1, struct.pack("<iiQQQ", -1, 0, start, size, start) + text(path), -1, 0, flags=KERNEL)

    def lose(self, count: int, time: int) -> None:
        self.add(2, struct.pack("<QQ", 1, count), 1, time)

    def sample(
        self, pid: int, time: int, *chain: int, tid: int | None = None, flags: int = USER, period: int = 1
    ) -> None:
        """A sample whose chain has these entries."""
        body = struct.pack("<QiiQIIQ", chain[-1] if chain else 0, pid, pid if tid is None else tid, time, 0, 0, period)
        self.records.append(record(9, body + struct.pack(f"<Q{len(chain)}Q", len(chain), *chain), flags))

    def build(self) -> bytes:
        """The file."""
        data = b"".join(self.records)
        start = HEADER_BYTES + ATTRIBUTE_BYTES + 8
        # sample_id_all
        attributes = struct.pack("<IIQQQQQ", 1, 128, 0, 1000, self.sample_type, 0, 1 << 18)
        header = struct.pack("<8sQQ", b"PERFILE2", HEADER_BYTES, ATTRIBUTE_BYTES)
        header += struct.pack("<10Q", HEADER_BYTES, ATTRIBUTE_BYTES, start, len(data), *[0] * 6)
        ids = struct.pack("<QQ", HEADER_BYTES + ATTRIBUTE_BYTES, 8)
        return header + attributes.ljust(128, b"\0") + ids + struct.pack("<Q", 1) + data
