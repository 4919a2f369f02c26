"""Reads perf.data files from their records, with the symbols of this machine, in the restricted process.

The symbols that were found are kept in a file, like the text that `perf script` prints of other recordings: the result
can be read again when the binaries have changed.
"""

import mmap
import struct
from contextlib import suppress
from pathlib import Path

import zstandard

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.domain.rank_state import BUILD_IDS_FILE
from perfloom.ingest.perf_records.symbol_store import StoredSymbols, SymbolRecorder
from perfloom.ingest.perf_records.unsupported import UnsupportedRecords
from perfloom.readers import perf_records
from perfloom.store.files.binary_cache import BinaryFolder, is_build_id
from perfloom.store.files.disk import disk_errors

from .perf_tool import compressed_file
from .rank_folders import read_small_file
from .request import SymbolPlaces
from .symbol_files import make_symbol_files

MAX_LIST_BYTES = 4 << 20
_VDSO = " [vdso]"
DAMAGED = (ValueError, TypeError, LookupError, ArithmeticError, struct.error, zstandard.ZstdError)
"""What a damaged file may cause in the reader, beyond what it checks."""


def read_records(
    path: Path,
    stored: Path | None,
    out: Path,
    buildid_dir: str | None,
    max_bytes: int,
    places: SymbolPlaces,
) -> Profile:
    """The profile of a perf.data file.

    stored: the symbols that were found before, None to look for them on this machine and write them to `out`.
    buildid_dir: perf's cache of binaries. max_bytes: of the records when decompressed. places: of symbols. Raises
    UnsupportedRecords if perf script has to read the file, and UnreadableInput, Unavailable.
    """
    if stored is not None:
        with open(stored, "rb") as file:
            symbols = StoredSymbols(file)
        return _read(path, symbols, symbols.changed_at, max_bytes)
    folders = tuple(BinaryFolder(Path(folder)) for folder in places.folders)
    about = path.stat()
    files = make_symbol_files(
        buildid_dir,
        folders,
        public=places.public,
        recorded_here=places.recorded_here,
        owns_cache=places.tables is not None,
        recorder=about.st_uid,
        vdso=_find_vdso(path) if places.tables is not None else None,
    )
    if about.st_size >= perf_records.LARGE_BYTES:
        files.read_ahead()
    recorder = SymbolRecorder(files.find, files.read_jit)
    changed_at = about.st_mtime
    profile = _read(path, recorder, changed_at, max_bytes)
    with disk_errors(out), compressed_file(out) as target:
        recorder.write(target, changed_at)
    return profile


def _find_vdso(path: Path) -> str | None:
    """The build id of [vdso] where it was recorded: records have none. A rank writes it next to its recording."""
    with suppress(UnreadableInput):
        lines = read_small_file(path.with_name(BUILD_IDS_FILE), MAX_LIST_BYTES).decode(errors="replace").splitlines()
        found = next((line.removesuffix(_VDSO) for line in lines if line.endswith(_VDSO)), "")
        return found if is_build_id(found) else None
    return None


def _read(path: Path, symbols: StoredSymbols | SymbolRecorder, changed_at: float, max_bytes: int) -> Profile:
    with open(path, "rb") as file:
        try:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            raise UnsupportedRecords("the file is empty, or larger than the memory limit") from None

        # Arrays may refer to it, so it is not closed here, but its pages need no memory after they were read.
        def release() -> None:
            with suppress(OSError):
                mapped.madvise(mmap.MADV_DONTNEED)

        try:
            return perf_records.read(memoryview(mapped), symbols.find, changed_at, max_bytes, release, symbols.read_jit)
        except UnreadableInput as error:
            raise UnsupportedRecords(error.message) from None
        except DAMAGED:
            raise UnsupportedRecords("its records are damaged") from None
