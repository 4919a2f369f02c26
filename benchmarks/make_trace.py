"""A large trace made by repeating the events of a real one, each time later and with other ids.

    python -m benchmarks.make_trace OUT [--size 300MB] [--source FILE]

The layout is that of the source, a trace in JSON, compressed with gzip or not; by default a small recording of the
tests without a GPU. If OUT ends in .gz, it is compressed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FIXTURE = Path(__file__).parent.parent / "tests" / "data" / "pytorch" / "training.pt.trace.json.gz"
SHIFTED = re.compile(
    r'"(?:(?P<time>ts|external ts)|(?P<id>id|correlation|[Ee]xternal id|Record function id|Sequence number|Ev Idx|'
    r'Python id|Python parent id))"\s*:\s*(?P<number>[0-9]+)|"ProfilerStep#(?P<step>[0-9]+)"'
)
ONCE = re.compile(r'"ph"\s*:\s*"M"|"cat"\s*:\s*"Trace"|"Record Window End"|"Iteration Start')
UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9}


class Repeated:
    """The text of a trace, split where numbers are to differ."""

    def __init__(self, text: str) -> None:
        start = re.compile(r'"traceEvents"\s*:\s*\[').search(text)
        if start is None:
            raise SystemExit("the source is no trace with traceEvents")
        self.before = text[: start.end()]
        events, end = _events(text, start.end())
        self.after = text[end:]
        self.once = ",".join(event for event in events if ONCE.search(event))
        self._parts: list[str] = []
        self._numbers: list[tuple[str, int]] = []
        often = ",".join(event for event in events if not ONCE.search(event))
        last = 0
        for found in SHIFTED.finditer(often):
            kind = "time" if found["time"] else "id" if found["id"] else "step"
            group = "step" if kind == "step" else "number"
            self._parts.append(often[last : found.start(group)])
            self._numbers.append((kind, int(found[group])))
            last = found.end(group)
        self._parts.append(often[last:])
        self._span = {kind: self._spread(kind) for kind in ("time", "id", "step")}

    def _spread(self, kind: str) -> int:
        """The increment of a number, so that no value occurs twice."""
        values = [value for one, value in self._numbers if one == kind]
        if not values:
            return 0
        return max(values) - min(values) + 1000 if kind == "time" else max(values) + 1

    def text(self, number: int) -> str:
        """The events of a repetition, counted from 0."""
        add = {kind: span * number for kind, span in self._span.items()}
        parts = self._parts
        pieces = [
            piece
            for part, (kind, value) in zip(parts, self._numbers, strict=False)
            for piece in (part, str(value + add[kind]))
        ]
        return "".join([*pieces, parts[-1]])


def _events(text: str, start: int) -> tuple[list[str], int]:
    """(the texts of the events of a list from after its bracket, where it ends)."""
    decoder = json.JSONDecoder()
    between = re.compile(r"[\s,]*")
    events: list[str] = []
    while True:
        found = between.match(text, start)
        assert found is not None
        begin = found.end()
        if text[begin] == "]":
            return events, begin
        _, end = decoder.raw_decode(text, begin)
        events.append(text[start:end].removeprefix(","))
        start = end


def pieces(source: Path, size: int) -> Iterator[bytes]:
    """The text of a trace of at least `size` bytes, in chunks."""
    raw = source.read_bytes()
    repeated = Repeated((gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode())
    written = 0
    number = 0
    yield repeated.before.encode()
    if repeated.once:
        yield repeated.once.encode() + b","
    while True:
        piece = repeated.text(number).encode()
        yield piece
        written += len(piece)
        number += 1
        if written >= size:
            break
        yield b","
    yield repeated.after.encode()


def make(source: Path, size: int, out: Path) -> None:
    """Write such a trace."""
    with gzip.open(out, "wb", 6) if out.suffix == ".gz" else open(out, "wb") as file:
        for piece in pieces(source, size):
            file.write(piece)


def size_of(text: str) -> int:
    """A number of bytes, such as 300MB."""
    found = re.fullmatch(r"([0-9.]+)\s*(kB|MB|GB)", text)
    if found is None:
        raise argparse.ArgumentTypeError("give a size such as 300MB or 1GB")
    return int(float(found[1]) * UNITS[found[2]])


def main() -> int:
    """Make a trace."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", type=size_of, default=size_of("300MB"))
    parser.add_argument("--source", type=Path, default=FIXTURE)
    given = parser.parse_args()
    make(given.source, given.size, given.out)
    print(f"{given.out}: {given.out.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
