"""The symbol tables of a target's binaries: which are to be fetched, and how they become files here.

The host's user may write anything there. What it says is checked, and what is wrong is left out: then functions of
that binary have no names.
"""

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from perfloom.domain.errors import TooLarge, UnreadableInput
from perfloom.domain.rank_state import BUILD_IDS_FILE
from perfloom.domain.targets import Target
from perfloom.ingest.compression import DecompressedStream, open_decompressed
from perfloom.ingest.machine_code.elf import is_same_build
from perfloom.ingest.machine_code.elf_image import ElfImage
from perfloom.store.files.binary_cache import name_target
from perfloom.store.files.disk import disk_errors
from perfloom.store.files.symbol_cache import SymbolCache, open_symbols

from ..read.rank_folders import read_small_file
from ..transports import FileCopy

INCOMING = "tables"
"""In the job's directory here: the tables as they were fetched."""
MAX_TABLE_BYTES = 512 << 20
"""Of a table, decompressed."""
MAX_ALL_BYTES = 4 << 30
"""Of all tables of a job, decompressed."""
MAX_PARTS = 1 << 16
"""Of a table."""
MAX_FILE_BYTES = 1 << 40
"""Of a binary, of which only some parts are here."""
MAX_LINE_BYTES = 100
MAX_LIST_BYTES = 4 << 20
MAX_DIGITS = 18
MAX_FETCHED_BYTES = 1 << 30
"""Of all tables of a job, as they are transferred."""
KALLSYMS = "kallsyms"
_PIECE_BYTES = 1 << 20
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TableFetch:
    """Tables that a job needs, and those of them that are not here. copies: by name."""

    cache: SymbolCache
    copies: Mapping[str, FileCopy]

    def keep(self, room_bytes: int) -> None:
        """Make files of the tables that were fetched. room_bytes: free disk space that they may use; what does not fit
        is left out. Raises Unavailable."""
        room = min(room_bytes, MAX_ALL_BYTES)
        for name, copy in self.copies.items():
            made = copy.local.with_name(f"{name}.made")
            made.unlink(missing_ok=True)
            limit = max(0, min(room, MAX_TABLE_BYTES))
            try:
                used = make_file(name, copy.local, made, limit)
                # Each part takes at least a block of the disk, however few bytes it has.
                room -= max(used, _measure_blocks(made))
                self.cache.add(name, made)
            except UnreadableInput as error:
                # It may have been unpacked up to the limit.
                room -= limit if isinstance(error, TooLarge) else _measure_blocks(made)
                log.warning("the symbol table %s is left out: %s", name, error.message)
            finally:
                made.unlink(missing_ok=True)


def _measure_blocks(path: Path) -> int:
    """Disk space of a file, bytes; 0 if there is none."""
    with suppress(OSError):
        return path.stat().st_blocks * 512
    return 0


def open_target_symbols(data: Path, target: Target) -> SymbolCache | None:
    """The tables of a target that are here; None for this machine, whose tables are not copied."""
    ssh = target.ssh
    return open_symbols(data, name_target(target.name, ssh.host, ssh.user, ssh.port)) if ssh else None


def plan_fetch(cache: SymbolCache, listed: Mapping[str, tuple[str, int]], directory: str, folder: Path) -> TableFetch:
    """What to fetch of the tables that a job left. listed: (path in its directory, bytes) by name. folder: for them,
    here."""
    room = MAX_FETCHED_BYTES
    copies = {}
    for name, (path, size) in listed.items():
        if not cache.file(name).exists() and size <= room:
            room -= size
            copies[name] = FileCopy(f"{directory}/{path}", folder / name, size)
    return TableFetch(cache, copies)


def note_use(cache: SymbolCache, files: Iterable[Path]) -> None:
    """Note that tables are in use, by the lists of build ids among the files of ranks."""
    for path in files:
        if path.name == BUILD_IDS_FILE:
            lines = read_small_file(path, MAX_LIST_BYTES).decode(errors="replace").splitlines()
            cache.keep({line.split(" ", 1)[0] for line in lines})


def make_file(name: str, packed: Path, out: Path, limit_bytes: int) -> int:
    """Write the file of a table that was fetched. limit_bytes: of it, decompressed. Returns the bytes of its content.
    Raises UnreadableInput for a damaged or another one, Unavailable."""
    with open_decompressed(packed, limit_bytes) as stream, disk_errors(out), open(out, "x+b") as file:
        if name.endswith(f".{KALLSYMS}"):
            while data := stream.read(_PIECE_BYTES):
                file.write(data)
        else:
            _write_parts(stream, file)
            if not is_same_build(ElfImage.read(file).build_id, name.partition(".")[0]):
                raise UnreadableInput("It is of another build.")
        if stream.defect:
            raise UnreadableInput(stream.defect)
        return stream.unpacked_bytes


def _write_parts(stream: DecompressedStream, file: BinaryIO) -> None:
    """Write the parts of a file where they belong. See plan/tables.sh."""
    size = _read_number(*_read_line(stream, b"file"))
    if not 0 < size <= MAX_FILE_BYTES:
        raise UnreadableInput("It is of a file of an impossible size.")
    file.truncate(size)
    parts = 0
    while stream.peek(1):
        parts += 1
        if parts > MAX_PARTS:
            raise UnreadableInput("It has too many parts.")
        offset, left = map(_read_number, _read_line(stream))
        if offset + left > size:
            raise UnreadableInput("A part of it is outside of the file.")
        file.seek(offset)
        while left:
            data = stream.read(min(left, _PIECE_BYTES))
            if not data:
                raise UnreadableInput("Its end is missing.")
            file.write(data)
            left -= len(data)


def _read_line(stream: DecompressedStream, *first: bytes) -> list[bytes]:
    """The words of the next line, of which there are two, without those that it must begin with."""
    line, end, _ = stream.peek(MAX_LINE_BYTES).partition(b"\n")
    stream.read(len(line) + len(end))
    words = line.split(b" ")
    if not end or len(words) != 2 or words[: len(first)] != list(first):
        raise UnreadableInput("It has an invalid line.")
    return words[len(first) :]


def _read_number(word: bytes) -> int:
    if not word.isdigit() or len(word) > MAX_DIGITS:
        raise UnreadableInput("It has an invalid number.")
    return int(word)
