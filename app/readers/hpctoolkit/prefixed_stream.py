"""A stream whose first bytes are examined before it is read."""

from typing import Any, BinaryIO

HEAD_BYTES = 1 << 14


class PrefixedStream:
    """A stream that is read from its beginning. head: its first bytes."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.head = self._rest = stream.read(HEAD_BYTES)

    def read(self, size: int = -1) -> bytes:
        """At most this many bytes; all if it is negative."""
        if not self._rest:
            return self._stream.read(size)
        if size < 0:
            data, self._rest = self._rest + self._stream.read(size), b""
            return data
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
