"""Fetches binaries, their debug information and source files from the host of a target.

Its user may change any of its files at any time, and binaries may name any file as their source. So everything has
limits on size and time, names reach the host quoted, and nothing that comes back is used as a name here.
"""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from perfloom.analysis.source.missing_code import MissingObject, MissingSource
from perfloom.domain.errors import PerfloomError
from perfloom.domain.targets import Target
from perfloom.ingest.machine_code.source_text import is_source_name
from perfloom.recording.quoting import join
from perfloom.store.files.binary_cache import BinaryFolder, FileKind, name_target
from perfloom.store.files.disk import disk_errors

from ..base.regular_files import KERNEL_FOLDERS
from ..base.scripts import worker_script
from ..read.binaries import BESIDE
from ..read.code_provider import (
    MAX_ALL_SOURCE_BYTES,
    MAX_SOURCE_BYTES,
    MAX_SOURCES,
    Budget,
    FetchedSource,
)
from ..transports import Transport

PART_BYTES = 16 << 20
BATCH_BYTES = 8 << 20
"""Of source files that one script prints."""
CALL_S = 60.0
MAX_LIST_BYTES = 1 << 20


class TargetFiles:
    """The files of a target's host, as far as its user may read them."""

    def __init__(self, target: Target, transport: Transport, room_bytes: int) -> None:
        """room_bytes: free disk space here that may be used."""
        assert target.ssh is not None
        self.title = target.name
        self.origin = name_target(target.name, target.ssh.host, target.ssh.user, target.ssh.port)
        self._transport = transport
        self._budget = Budget()
        self._budget.bytes = min(self._budget.bytes, room_bytes)

    def fetch_objects(self, wanted: Sequence[MissingObject], into: BinaryFolder) -> None:
        """See CodeProvider."""
        files = [file for one in wanted for file in _list_places(one)]
        for number, (size, changed) in self._list([path for _, _, path in files]).items():
            build_id, kind, path = files[number]
            if self._budget.take(size):
                received = into.root / f".part-{secrets.token_hex(4)}"
                try:
                    if self._fetch(path, size, received):
                        with disk_errors(received):
                            os.utime(received, (changed, changed))
                        into.add(build_id, kind, received)
                finally:
                    received.unlink(missing_ok=True)

    def fetch_sources(self, wanted: Sequence[MissingSource]) -> list[FetchedSource]:
        """See CodeProvider."""
        names = [one for one in wanted if one.build_ids and _is_usable(one.path)][:MAX_SOURCES]
        budget, found = Budget(self._budget.seconds, MAX_ALL_SOURCE_BYTES), []
        batch: dict[MissingSource, float] = {}
        batch_bytes = 0
        for number, (size, changed) in self._list([one.path for one in names]).items():
            if not budget.take(size, MAX_SOURCE_BYTES):
                continue
            if batch_bytes + size > BATCH_BYTES:
                found += self._fetch_batch(batch)
                batch, batch_bytes = {}, 0
            batch[names[number]] = changed
            batch_bytes += size
        return found + self._fetch_batch(batch)

    def _list(self, paths: Sequence[str]) -> dict[int, tuple[int, float]]:
        """(size, time of the last change) of those paths that are readable files, by their row."""
        if not paths:
            return {}
        done = self._transport.run(
            f"set -- {join(paths)}\n{worker_script('remote/list_files.sh')}",
            timeout_s=CALL_S,
            limit_bytes=MAX_LIST_BYTES,
        )
        found: dict[int, tuple[int, float]] = {}
        for line in done.stdout.split(b"\n"):
            words = line.split(b" ")
            if len(words) == 3 and all(word.isdigit() and len(word) < 16 for word in words):
                number, size, changed = map(int, words)
                if 0 < number <= len(paths) and size:
                    found[number - 1] = (size, float(min(changed, 2**33)))
        return found

    def _fetch(self, path: str, size: int, received: Path) -> bool:
        """Write a file of this size here. False if it is shorter, cannot be read, or takes too long."""
        with disk_errors(received), open(received, "xb") as file:
            for start in range(0, size, PART_BYTES):
                count = min(PART_BYTES, size - start)
                arguments = join([path, str(start + 1), str(count)])
                done = self._transport.run(
                    f"set -- {arguments}\n{worker_script('remote/print_part.sh')}",
                    timeout_s=max(1.0, min(CALL_S, self._budget.seconds)),
                    limit_bytes=count + MAX_LIST_BYTES,
                )
                if len(done.stdout) != count or not self._budget.seconds:
                    return False
                file.write(done.stdout)
        return True

    def _fetch_batch(self, batch: dict[MissingSource, float]) -> list[FetchedSource]:
        if not batch:
            return []
        names = list(batch)
        arguments = join([str(MAX_SOURCE_BYTES), *(one.path for one in names)])
        try:
            done = self._transport.run(
                f"set -- {arguments}\n{worker_script('remote/print_sources.sh')}",
                timeout_s=CALL_S,
                limit_bytes=3 * BATCH_BYTES + MAX_LIST_BYTES,
            )
        except PerfloomError:
            # A file grew, or was replaced by a pipe. The lines are known without these texts.
            return []
        found = []
        for line in done.stdout.split(b"\n"):
            words = line.split(b" ")
            if len(words) != 3 or not words[0].isdigit() or not 0 < int(words[0][:6]) <= len(names):
                continue
            try:
                real, content = os.fsdecode(bytes.fromhex(words[1].decode())), bytes.fromhex(words[2].decode())
            except ValueError:
                continue
            wanted = names[int(words[0][:6]) - 1]
            # The name may be a link to anything.
            if is_source_name(real) and not real.startswith(KERNEL_FOLDERS):
                found.append(FetchedSource(wanted, content, batch[wanted] or None))
        return found


def _list_places(wanted: MissingObject) -> list[tuple[str, FileKind, str]]:
    """(build id, what it is, path there) of the files of a binary."""
    build_id, path = wanted.build_id, wanted.module.removesuffix(" (deleted)")
    places = [(build_id, FileKind.DEBUG, f"{folder}/{build_id[:2]}/{build_id[2:]}.debug") for folder in BESIDE]
    if wanted.wants_binary and _is_usable(path):
        places.append((build_id, FileKind.EXECUTABLE, path))
    return places


def _is_usable(path: str) -> bool:
    """Whether a path may be opened there, and can be written in a script."""
    return path.startswith("/") and not path.startswith(KERNEL_FOLDERS) and "\0" not in path and "\ufffd" not in path
