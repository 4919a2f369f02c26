"""Traces of steps and devices by hand, in µs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from perfloom.domain.profile import Profile
from perfloom.domain.tables import SCHEMAS, DeviceWorkKind
from tests.support import traced

US = 1000


class Trace:
    """A `traced.Trace` with a device for each rank, whose number is the rank's."""

    def __init__(self) -> None:
        self.made = traced.Trace()
        self.device: dict[int | None, int] = {}
        self.stream_of: dict[int, tuple[int | None, int]] = {}

    def thread(self, rank: int | None = None) -> int:
        """A thread of the host."""
        return self.made.thread(1, rank=rank, pid=(rank or 0) + 1)

    def stream(self, number: int = 7, rank: int | None = None) -> int:
        """A stream of the device of a rank."""
        stream = self.made.thread(number, rank=rank, pid=(rank or 0) + 1, stream=True)
        self.device.setdefault(rank, len(self.device))
        self.stream_of[stream] = rank, number
        return stream

    def slice(self, thread: int, name: str, start: float, duration: float, kind: str = "operator", **more: Any) -> Any:
        """Something that the host did."""
        numbers = {"External id": more.pop("id")} if "id" in more else {}
        first = round(start * US)
        return self.made.slice(thread, first, first + round(duration * US), name, kind, **more, **numbers)

    def work(
        self,
        stream: int,
        name: str,
        start: float,
        duration: float,
        launch: Any = None,
        what: DeviceWorkKind = DeviceWorkKind.COMPUTATION,
        **more: Any,
    ) -> Any:
        """Something that a device did. configuration: columns of `configurations`."""
        kind = {DeviceWorkKind.MEMCPY: "memcpy", DeviceWorkKind.MEMSET: "memset"}.get(what, "kernel")
        rank, number = self.stream_of[stream]
        row = {"kind": int(what), "device": self.device[rank], "stream": number}
        if configuration := more.pop("configuration", None):
            row["configuration"] = configuration
        return self.slice(stream, name, start, duration, kind, launch=launch, work=row, **more)

    def step(self, thread: int, number: int, start: float, duration: float, rank: int | None = None) -> None:
        """A step: its annotation and its row."""
        made = self.slice(thread, f"ProfilerStep#{number}", start, duration, "annotation")
        self.made.step(made.name, made.start, made.end, rank)

    def finish(self) -> Profile:
        """The profile."""
        rows = [
            {"rank": rank, "kind": "gpu", "device": rank or 0, "name": "A100", "memory_bytes": 40 << 30, "sms": 108}
            for rank in self.device
        ]
        return replace(self.made.finish(), devices=pa.Table.from_pylist(rows, schema=SCHEMAS["devices"]))
