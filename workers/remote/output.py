"""The output of a program at a target, appended to the job's log in parts: its beginning and its end."""

import os
from pathlib import Path

from perfloom.store.files.disk import disk_errors

from ..base.jobfiles import JobFiles
from ..base.json_files import read_json, write_json
from ..local import supervisor_client
from ..local.capture import GAP_ENDS, gap_line

STATE_FILE = "output.json"
"""In the run directory, once a part was omitted: the size of the log, and of the output that it represents."""


class RemoteOutput:
    """The log of a job. As long as all of it fits it only grows, so its size says how much is here; after that its
    beginning stays, and the rest is rewritten. A part that comes twice is written once."""

    def __init__(self, files: JobFiles) -> None:
        self._path = files.output
        self._state = files.run / STATE_FILE
        self._size = _size(files.output)
        state = read_json(self._state) or {}
        # After a crash between the two files, a part of the end is there twice.
        self.here = int(state.get("output", self._size))
        self._full = bool(state)

    def next_offset(self, far: int, most: int) -> int:
        """Where to continue, of at least `far` bytes: a part that would be omitted again is not fetched."""
        if self.here < supervisor_client.HEAD_BYTES:
            return self.here
        return max(self.here, far - max(most, supervisor_client.TAIL_BYTES))

    def append(self, data: bytes, start: int) -> None:
        """Append a part that begins at byte `start` of the output."""
        data, start = data[max(0, self.here - start) :], max(start, self.here)
        if not data:
            return
        with disk_errors(self._path):
            if not self._full and start == self._size and start + len(data) <= _room():
                with open(self._path, "ab") as log:
                    log.write(data)
                self._size += len(data)
            else:
                self._rewrite(data, start)
        self.here = start + len(data)

    def _rewrite(self, data: bytes, start: int) -> None:
        """Keep the beginning, a line with how much is missing, and the newest part."""
        head, end = supervisor_client.HEAD_BYTES, supervisor_client.TAIL_BYTES
        old = self._path.read_bytes() if self._size else b""
        if start > self.here:
            old = old[:head]
        elif self._full:
            old = old[:head] + (old[head:].partition(GAP_ENDS)[2] or old[head:])
        beginning, tail = (old + data)[:head], (old + data)[head:][-end:]
        total = start + len(data)
        tail = gap_line(total - len(beginning) - len(tail)) + tail
        temporary = self._path.with_name(f".{self._path.name}.new")
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as log:
            log.write(beginning + tail)
        os.replace(temporary, self._path)
        self._size, self._full = len(beginning) + len(tail), True
        write_json(self._state, {"output": total})


def _room() -> int:
    return supervisor_client.HEAD_BYTES + supervisor_client.TAIL_BYTES


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
