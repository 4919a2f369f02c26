"""Fetches binaries, debug information and source files from servers of debuginfod, by build id.

The protocol is that of elfutils: GET <server>/buildid/<build id>/executable, /debuginfo or /source<path>.
"""

import http
import http.client
import secrets
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import BinaryIO

from perfloom.analysis.source.missing_code import MissingObject, MissingSource
from perfloom.domain.errors import NotFound, Unavailable
from perfloom.ingest.machine_code.source_text import is_source_name
from perfloom.store.files.binary_cache import DEBUGINFOD, BinaryFolder, FileKind, is_build_id
from perfloom.store.files.disk import disk_errors

from .read.code_provider import (
    MAX_ALL_SOURCE_BYTES,
    MAX_FILE_BYTES,
    MAX_SOURCE_BYTES,
    MAX_SOURCES,
    Budget,
    FetchedSource,
)

WAIT_S = 20.0
"""For an answer, and for each part of it."""
_PIECE_BYTES = 1 << 20
_ENDPOINTS = {FileKind.EXECUTABLE: "executable", FileKind.DEBUG: "debuginfo"}


class DebuginfodFiles:
    """The files of servers of debuginfod, which are asked one after the other."""

    title = "debuginfod"
    origin = DEBUGINFOD

    def __init__(self, servers: Sequence[str], room_bytes: int) -> None:
        """servers: their addresses. room_bytes: free disk space that may be used."""
        self._servers = list(servers)
        self._budget = Budget()
        self._budget.bytes = min(self._budget.bytes, room_bytes)
        self._failure = ""
        # Not the handlers of files and of FTP, to which a server could redirect.
        self._opener = urllib.request.OpenerDirector()
        for handler in (
            urllib.request.ProxyHandler(),
            urllib.request.HTTPHandler(),
            urllib.request.HTTPSHandler(),
            urllib.request.HTTPRedirectHandler(),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
        ):
            self._opener.add_handler(handler)
        self._opener.addheaders = [("User-Agent", "perfloom")]

    def fetch_objects(self, wanted: Sequence[MissingObject], into: BinaryFolder) -> None:
        """See CodeProvider."""
        for one in wanted:
            if not is_build_id(one.build_id):
                continue
            for kind in (FileKind.EXECUTABLE, FileKind.DEBUG) if one.wants_binary else (FileKind.DEBUG,):
                received = into.root / f".part-{secrets.token_hex(4)}"
                try:
                    with disk_errors(received), open(received, "xb") as file:
                        path = f"{one.build_id}/{_ENDPOINTS[kind]}"
                        is_complete = self._fetch(path, file, self._budget, MAX_FILE_BYTES)
                    if is_complete:
                        into.add(one.build_id, kind, received)
                finally:
                    received.unlink(missing_ok=True)
        self._require_server()

    def fetch_sources(self, wanted: Sequence[MissingSource]) -> list[FetchedSource]:
        """See CodeProvider."""
        budget, found = Budget(self._budget.seconds, MAX_ALL_SOURCE_BYTES), []
        for one in wanted[:MAX_SOURCES]:
            build_id = next(filter(is_build_id, one.build_ids), None)
            if build_id is None or not one.path.startswith("/") or not is_source_name(one.path):
                continue
            path = urllib.parse.quote(one.path, errors="surrogateescape")
            content = BytesIO()
            if self._fetch(f"{build_id}/source{path}", content, budget, MAX_SOURCE_BYTES):
                found.append(FetchedSource(one, content.getvalue(), None))
        self._require_server()
        return found

    def _fetch(self, path: str, file: BinaryIO, budget: Budget, most: int) -> bool:
        """Write what the first server that has it answers. False if none has it, or the limits do not suffice."""
        for server in list(self._servers):
            try:
                size = 0
                for piece in self._read_answer(f"{server}/buildid/{path}", budget):
                    size += len(piece)
                    if size > most or not budget.take(len(piece)):
                        return False
                    file.write(piece)
                return size > 0
            except NotFound:
                continue
            except Unavailable as error:
                # Others wait for it.
                self._servers.remove(server)
                self._failure = f"The debuginfod server {server} does not answer: {error.message}."
                if size:
                    return False
        return False

    def _read_answer(self, url: str, budget: Budget) -> Iterator[bytes]:
        """The content, in pieces. Raises NotFound, and Unavailable with the reason alone."""
        try:
            with self._opener.open(url, timeout=max(1.0, min(WAIT_S, budget.seconds))) as answer:
                expected = answer.length
                while piece := answer.read1(_PIECE_BYTES):
                    expected = None if expected is None else expected - len(piece)
                    yield piece
                if expected:
                    raise Unavailable("it ended too early")
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == http.HTTPStatus.NOT_FOUND:
                raise NotFound(url) from None
            raise Unavailable(f"{error.code} {error.reason}") from None
        except urllib.error.URLError as error:
            raise Unavailable(str(error.reason)) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise Unavailable(str(error) or type(error).__name__) from None

    def _require_server(self) -> None:
        if not self._servers:
            raise Unavailable(
                f"{self._failure} What is missing was not fetched from there. Check PERFLOOM_DEBUGINFOD_URLS and the "
                "network."
            )
