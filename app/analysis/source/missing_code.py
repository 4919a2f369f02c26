"""What of the machine code of a profile is missing, so that it can be fetched or uploaded; and how it is added."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array
from ...domain.errors import InvalidRequest
from ...domain.profile import Profile
from ...domain.schemas.code import Code, CodeStatus
from ...domain.tables import get_column, get_strings
from ...domain.text import sanitize_line
from ...ingest.machine_code.source_text import is_source_name

_RANKS = {CodeStatus.COMPLETE: 0, CodeStatus.NO_LINES: 1, CodeStatus.NO_SYMBOLS: 2}
"""How much is known of a binary: of other states nothing."""
_NOTHING = 3
_MAX_NAMED = 5
_FETCHED = (CodeStatus.MISSING, CodeStatus.REBUILT)
_WITHOUT_DEBUG = (CodeStatus.NO_LINES, CodeStatus.NO_SYMBOLS)


@dataclass(frozen=True)
class MissingObject:
    """A binary of which a file is missing. build_id: of the recording. share: of the samples with a function of it on
    their stack, 0 to 1. wants_binary: whether the binary itself is missing, else only its debug information, which is
    all that is needed of the kernel."""

    module: str
    build_id: str
    share: float
    wants_binary: bool


@dataclass(frozen=True)
class MissingSource:
    """A source file without its text. build_ids: of the binaries whose debug information names it."""

    path: str
    build_ids: tuple[str, ...]


@dataclass(frozen=True)
class AddedText:
    """The text of a source file, None to remove it, and what may be wrong with it, empty for nothing."""

    text: str | None
    detail: str = ""


def measure_shares(profile: Profile) -> dict[str, float]:
    """The share of samples with a function of each module on their stack, 0 to 1; recursion through other modules may
    count a sample more than once, up to 1."""
    if not profile.samples.num_rows:
        return {}
    call = get_column(profile.stacks, "call")[get_column(profile.samples, "stack")]
    end, parent = get_column(profile.calls, "end"), get_column(profile.calls, "parent")
    samples = np.concatenate(([0], np.cumsum(np.bincount(call, minlength=len(end)))))
    below = samples[end] - samples[:-1]
    modules = get_strings(profile.functions, "module")
    code_of = {name: number for number, name in enumerate(dict.fromkeys(modules))}
    function = get_column(profile.calls, "function")
    of_function = np.array([code_of[name] for name in modules] or [-1], np.int64)
    module = np.where(function >= 0, of_function[np.maximum(function, 0)], -1)
    enters = module != module[np.maximum(parent, 0)]
    enters[0] = False
    counts = np.bincount(module[enters], below[enters], len(code_of))
    return {name: min(1.0, float(counts[number]) / len(call)) for name, number in code_of.items()}


def list_missing_objects(profile: Profile, code: Code) -> tuple[MissingObject, ...]:
    """The binaries with a build id of which something is missing, those with the largest share of samples first."""
    shares = measure_shares(profile)
    found = [
        MissingObject(row["module"], row["build_id"], shares.get(row["module"], 0.0), row["status"] in _FETCHED)
        for row in code.objects.to_pylist()
        if row["build_id"] and row["status"] in (*_FETCHED, *_WITHOUT_DEBUG, CodeStatus.KERNEL)
    ]
    return tuple(sorted(found, key=lambda one: -one.share))


def list_missing_sources(code: Code) -> tuple[MissingSource, ...]:
    """The source files without a text."""
    return _list_sources(code, have_text=False)


def list_known_sources(code: Code) -> tuple[MissingSource, ...]:
    """The source files with a text, which may be replaced or removed."""
    return _list_sources(code, have_text=True)


def _list_sources(code: Code, *, have_text: bool) -> tuple[MissingSource, ...]:
    paths, texts = code.files.column("path").to_pylist(), code.files.column("text").is_valid().to_pylist()
    pairs = enumerate(zip(paths, texts, strict=True))
    rows = {row for row, (path, has) in pairs if has is have_text and is_source_name(path)}
    if not rows:
        return ()
    build_ids = code.objects.column("build_id").to_pylist()
    users: dict[int, dict[str, None]] = {row: {} for row in sorted(rows)}
    for owner, file in _pair_objects_with_files(code):
        if file in rows and build_ids[owner]:
            users[file][build_ids[owner]] = None
    return tuple(MissingSource(paths[row], tuple(ids)) for row, ids in users.items())


def find_missing_source(name: str, missing: Sequence[MissingSource]) -> MissingSource:
    """The source file without a text whose path ends in the file name `name`, or in as many of its directories as are
    needed to tell it from others. Raises InvalidRequest."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    found = [one for one in missing if parts and PurePosixPath(one.path).name == parts[-1]]
    if not found:
        raise InvalidRequest(
            f"{sanitize_line(name)[:200]} is neither a binary nor the text of a source file that is missing here. "
            "Where a binary is missing, add that first: only then its source files are known."
        )
    lengths = [_count_common_end(PurePosixPath(one.path).parts, parts) for one in found]
    best = [one for one, length in zip(found, lengths, strict=True) if length == max(lengths)]
    if len(best) > 1:
        raise InvalidRequest(
            f"{sanitize_line(name)[:200]} may be {' or '.join(one.path for one in best[:_MAX_NAMED])}. Choose the "
            "source file."
        )
    return best[0]


def _count_common_end(one: Sequence[str], two: Sequence[str]) -> int:
    pairs = zip(reversed(one), reversed(two), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _pair_objects_with_files(code: Code) -> list[tuple[int, int]]:
    """(row of objects, row of files) of all lines, with those that inlined code is called from."""
    place, symbol = get_column(code.instructions, "place"), get_column(code.instructions, "symbol")
    owner = get_column(code.symbols, "object")[symbol]
    parent, file = get_column(code.places, "parent"), get_column(code.places, "file")
    pairs: set[tuple[int, int]] = set()
    rows = _unique_pairs(owner[place >= 0], place[place >= 0])
    while len(rows):
        pairs |= {(int(one), int(two)) for one, two in _unique_pairs(rows[:, 0], file[rows[:, 1]])}
        rows = np.column_stack((rows[:, 0], parent[rows[:, 1]]))
        rows = _unique_pairs(*rows[rows[:, 1] >= 0].T)
    return sorted(pairs)


def _unique_pairs(one: Array, two: Array) -> Array:
    return np.unique(np.column_stack((one, two)).astype(np.int64), axis=0)


def add_texts(code: Code, texts: Mapping[str, AddedText]) -> Code:
    """The code with texts of source files, by path. Paths that it does not name are ignored."""
    paths = code.files.column("path").to_pylist()
    columns = {name: code.files.column(name).to_pylist() for name in ("text", "detail")}
    for row, path in enumerate(paths):
        added = texts.get(path)
        if added is not None:
            columns["text"][row], columns["detail"][row] = added.text, added.detail or None
    schema = code.files.schema
    arrays = [pa.array(paths, schema.field("path").type)]
    arrays += [pa.array(columns[name], schema.field(name).type) for name in ("text", "detail")]
    return replace(code, files=pa.table(arrays, schema=schema))


def keep_texts(code: Code, earlier: Code) -> Code:
    """The code with the texts that it lacks and that were known earlier."""
    rows = earlier.files.to_pylist()
    known = {row["path"]: AddedText(row["text"], row["detail"] or "") for row in rows if row["text"] is not None}
    lacking = {one.path for one in list_missing_sources(code)}
    return add_texts(code, {path: text for path, text in known.items() if path in lacking})


def list_lost_objects(code: Code, earlier: Code) -> tuple[str, ...]:
    """The modules of which less is known than earlier."""
    ranks = [
        {row["module"]: _RANKS.get(row["status"], _NOTHING) for row in one.objects.to_pylist()}
        for one in (earlier, code)
    ]
    return tuple(module for module, rank in ranks[0].items() if ranks[1].get(module, _NOTHING) > rank)
