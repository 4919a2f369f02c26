"""A metric-db file of database versions 2 and 3: the values of one thread, of all calling contexts.

"HPCPROF-metricdb__", version "00.10", "b" for big endian, the numbers of contexts and of metrics (32 bits each), then
a double for each context and metric. The first context has the id 1.
"""

import re
from dataclasses import dataclass
from typing import BinaryIO, cast

import numpy as np

from ...domain.arrays import Float64Array
from ...domain.errors import UnreadableInput
from ...ingest.archive import read_exactly
from .format import MAX_FILE_BYTES
from .parts import METRICS
from .prefixed_stream import PrefixedStream

HEADER_BYTES = 32
FIRST_STREAM = 500
"""Threads from this number on are streams of GPUs."""
_NAME = re.compile(
    r"(?:\d+\.)?(?P<program>.*?)-(?P<rank>\d{1,9})-(?P<thread>\d{1,9})-(?P<host>[0-9a-fA-F]{1,16})-(?P<pid>\d{1,18})-\d+"
    r"\.metric-db",
    re.ASCII | re.DOTALL,
)


@dataclass(frozen=True)
class ThreadName:
    """The thread that the name of a metric-db file says. host: its id."""

    rank: int
    thread: int
    host: str
    pid: int


def parse_name(name: str) -> ThreadName | None:
    """The thread of a file "1.PROGRAM-RANK-THREAD-HOST-PID-0.metric-db"; None for other names."""
    match = _NAME.fullmatch(name)
    return match and ThreadName(int(match["rank"]), int(match["thread"]), match["host"].lower(), int(match["pid"]))


def read_values(stream: PrefixedStream, name: str) -> Float64Array:
    """The values, by context and metric. Raises UnreadableInput with a sentence on the file `name`."""
    header = bytes(stream.read(HEADER_BYTES))
    if len(header) < HEADER_BYTES or not header.startswith(METRICS):
        raise UnreadableInput(f"{name} is no metric-db file of HPCToolkit. Copy it again.")
    order = {b"b": ">", b"l": "<"}.get(header[23:24])
    if order is None:
        raise UnreadableInput(f"{name} has an unknown byte order {header[23:24]!r}. Copy it again.")
    contexts, metrics = (int(number) for number in np.frombuffer(header, f"{order}u4", 2, 24))
    if not contexts or not metrics:
        raise UnreadableInput(f"{name} has no values: {contexts:,} contexts, {metrics:,} metrics. Copy it again.")
    if contexts * metrics * 8 > MAX_FILE_BYTES:
        raise UnreadableInput(
            f"{name} announces {contexts:,} contexts with {metrics:,} metrics each, too many for one file. Copy it "
            "again."
        )
    data = read_exactly(cast(BinaryIO, stream), contexts * metrics * 8, name)
    return np.frombuffer(data, f"{order}f8").reshape(contexts, metrics).astype(np.float64)
