"""Databases of HPCToolkit: the figures of hatchet, both kinds of files, and damaged or hostile files."""

from __future__ import annotations

import io
import random
import struct
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import pytest

from perfloom.analysis.tables import TABLES, records
from perfloom.domain.builder import IMPOSSIBLE_STACK_WEIGHT
from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import FrameKind, get_column
from perfloom.readers import detect_format, hpctoolkit
from perfloom.readers.hpctoolkit import format as names
from perfloom.readers.hpctoolkit.database import SUMS_FACT, DatabaseReader
from perfloom.readers.hpctoolkit.metric_db import parse_name, read_values
from perfloom.readers.hpctoolkit.metrics import MetricEvent, parse_metric, subtract_callees
from perfloom.readers.hpctoolkit.prefixed_stream import PrefixedStream
from tests.support.hpctoolkit import made
from tests.support.samples import losses_of

V2, V4 = (
    {name.split("/")[1]: content for name, content in made.files().items() if name.startswith(version)}
    for version in ("v2", "v4")
)
TREES = ("meta.db", "experiment.xml")
# hatchet 2026.2.0 on this database (reader of version 4 from its repository, 2025): name → its "time (inc)" of each rank
# and thread, in s, and the sum of its "time": the exclusive time of a function with its loops and lines.
HATCHET = {
    "main": ((0.755, 0, 0.57, 0), 0.01),
    "solve": ((0.445, 0.33, 0.51, 0.345), 0.615),
    "axpy": ((0.265, 0.225, 0.3, 0.225), 1.015),
    "PMPI_Allreduce": ((0.305, 0, 0.055, 0), 0.015),
    "<unknown procedure> 0x4c9": ((0.3, 0, 0.045, 0), 0.345),
    "application thread": ((0, 0.365, 0, 0.37), 0),
    "main thread": ((0.755, 0, 0.57, 0), 0),
}


def read(files: dict[str, bytes]) -> Profile:
    """The profile of a database with these files."""
    tree = next(name for name in files if name in TREES)
    reader = DatabaseReader(stream(files[tree]), tree, alone=len(files) == 1)
    for name, content in files.items():
        if name != tree:
            reader.add_file(stream(content), name)
    return reader.finish()


def stream(content: bytes) -> PrefixedStream:
    return PrefixedStream(io.BytesIO(content))


def counts(profile: Profile) -> dict[str, int]:
    """The losses by reason."""
    return {reason: count for reason, (count, _) in losses_of(profile).items()}


def totals(profile: Profile, event: str = "CPUTIME") -> dict[str, tuple[float, ...]]:
    """Of each function its total in each rank and thread, in order."""
    number = profile.events.column("name").to_pylist().index(event)
    function, frame = get_column(profile.frames, "function"), get_column(profile.stacks, "frame")
    parent = get_column(profile.stacks, "parent")
    name = profile.functions.column("name").to_pylist()
    threads = profile.threads.to_pylist()
    order = sorted(range(len(threads)), key=lambda row: (threads[row]["rank"] or 0, threads[row]["tid"] or 0))
    sums: dict[str, list[int]] = defaultdict(lambda: [0] * len(threads))
    for row in profile.samples.to_pylist():
        if row["event"] != number:
            continue
        node, seen = row["stack"], set()
        while node > 0:
            seen.add(name[function[frame[node]]])
            node = parent[node]
        for one in seen:
            sums[one][order.index(row["thread"])] += row["weight"]
    return {one: tuple(values) for one, values in sums.items()}


def self_with_loops(profile: Profile) -> dict[str, int]:
    """Of each function the self value of its frames, and of those of loops in it."""
    rows = records(TABLES["tree"].rows(profile, Selection()))
    assert rows
    function, frame = get_column(profile.frames, "function"), get_column(profile.stacks, "frame")
    parent = get_column(profile.stacks, "parent")
    name = profile.functions.column("name").to_pylist()
    sums: dict[str, int] = defaultdict(int)
    for row in profile.samples.to_pylist():
        node = row["stack"]
        while name[function[frame[node]]].startswith("loop "):
            node = parent[node]
        if row["event"] == 0:
            sums[name[function[frame[node]]]] += row["weight"]
    return sums


def text_of(profile: Profile) -> list[str]:
    """The stacks with samples as text, "main:22;loop at app.c:22:23"."""
    function, line = get_column(profile.frames, "function"), profile.frames.column("line").to_pylist()
    parent, frame = get_column(profile.stacks, "parent"), get_column(profile.stacks, "frame")
    display = profile.functions.column("display").to_pylist()
    found = set()
    for node in set(profile.samples.column("stack").to_pylist()):
        parts = []
        while node > 0:
            number = line[frame[node]]
            parts.append(display[function[frame[node]]] + (f":{number}" if number is not None else ""))
            node = parent[node]
        found.add(";".join(reversed(parts)))
    return sorted(found)


def test_files_are_those_of_the_script() -> None:
    assert {name: (made.DATA / name).read_bytes() for name in made.files()} == made.files()


@pytest.mark.parametrize("files", [V2, V4], ids=["2", "4"])
def test_figures_of_hatchet(files: dict[str, bytes]) -> None:
    profile = read(files)
    found = totals(profile)
    for name, (seconds, _) in HATCHET.items():
        assert found[name] == tuple(round(one * 1e9) for one in seconds), name
    own = self_with_loops(profile)
    assert {name: own.get(name, 0) for name in HATCHET} == {
        name: round(seconds * 1e9) for name, (_, seconds) in HATCHET.items()
    }
    assert losses_of(profile) == {} and profile.meta.complete


@pytest.mark.parametrize("files", [V2, V4], ids=["2", "4"])
def test_events_and_units(files: dict[str, bytes]) -> None:
    profile = read(files)
    rows = records(TABLES["events"].rows(profile, Selection()))
    assert [(row["event"], row["unit"], row["value"]) for row in rows] == [
        ("CPUTIME", "ns", 2_060_000_000),
        ("PAPI_TOT_CYC", "count", 412 * 15_000_000),
    ]
    assert profile.meta.main_event == "CPUTIME" and profile.meta.duration_ns is None


def test_threads() -> None:
    columns = ("host", "rank", "pid", "tid", "process", "name")
    rows = [tuple(row[name] for name in columns) for row in read(V2).threads.to_pylist()]
    assert rows[1:3] == [("host a0b0", 0, 700, 1, "app", "thread 1"), ("host a0b0", 1, 701, 0, "app", "thread 0")]
    rows = [tuple(row[name] for name in columns) for row in read(V4).threads.to_pylist()]
    assert rows[1:3] == [("host a0b", 0, None, 1, "app", "thread 1"), ("host a0b", 1, None, 0, "app", "thread 0")]
    one = {name: content for name, content in V2.items() if "000001-" not in name}
    assert read(one).threads.column("rank").to_pylist() == [None, None], "one rank is no rank"
    stream_of_gpu = {name.replace("-001-", "-500-"): content for name, content in V2.items()}
    rows = [(row["kind"], row["name"]) for row in read(stream_of_gpu).threads.to_pylist()]
    assert rows[1] == ("gpu_stream", "GPU stream 0") and rows[0][0] == "thread"
    assert parse_name("1.a-b-000003-007-a8c0-42-0.metric-db") is not None and parse_name("x.metric-db") is None


def test_call_stacks() -> None:
    profile = read(V4)
    start = "main thread;main:22;loop at app.c:22"
    assert text_of(profile) == [
        "application thread;[libmpi.so.40]",
        "application thread;[libmpi.so.40];solve:10;loop at app.c:10:11",
        "application thread;[libmpi.so.40];solve:10;loop at app.c:10:12",
        "application thread;[libmpi.so.40];solve:10;loop at app.c:10:12;axpy:4",
        "application thread;[libmpi.so.40];solve:10;loop at app.c:10:12;axpy:5",
        "main thread;main:21",
        f"{start}:23;solve:10;loop at app.c:10:11",
        f"{start}:23;solve:10;loop at app.c:10:12",
        f"{start}:23;solve:10;loop at app.c:10:12;axpy:4",
        f"{start}:23;solve:10;loop at app.c:10:12;axpy:5",
        f"{start}:23;solve:9",
        f"{start}:24;PMPI_Allreduce",
        f"{start}:24;PMPI_Allreduce;[libmpi.so.40] 0x4c9",
    ]
    functions = {row["name"]: row for row in profile.functions.to_pylist()}
    assert (functions["solve"]["file"], functions["solve"]["start_line"]) == ("/home/user/app.c", 8)
    assert (functions["PMPI_Allreduce"]["module"], functions["PMPI_Allreduce"]["file"]) == (made.MPI, None)
    kinds = {
        profile.functions.column("name")[row["function"]].as_py(): row["kind"] for row in profile.frames.to_pylist()
    }
    assert (kinds["axpy"], kinds["main thread"], kinds["solve"]) == (
        FrameKind.INLINED,
        FrameKind.RUNTIME,
        FrameKind.USER,
    )
    assert 0x1A86D in profile.frames.column("address").to_pylist()
    both = [{line for line in text_of(read(files)) if "axpy" not in line} for files in (V2, V4)]
    assert {line.replace("[libmpi.so.40]:0", "[libmpi.so.40]") for line in both[0]} == both[1]


def test_experiment_alone_has_the_sums() -> None:
    alone = hpctoolkit.read(io.BytesIO(V2["experiment.xml"]), "experiment.xml")
    together = read(V2)
    assert {name: sum(values) for name, values in totals(alone).items()} == {
        name: sum(values) for name, values in totals(together).items()
    }
    assert SUMS_FACT in alone.meta.facts and SUMS_FACT not in together.meta.facts
    assert alone.meta.complete and losses_of(alone) == {}
    bare = V2["experiment.xml"].replace(b"<M ", b"<X ")
    with pytest.raises(UnreadableInput, match=r"there are no values for it\. .* \.metric-db files"):
        hpctoolkit.read(io.BytesIO(bare), "experiment.xml")


def test_inclusive_values_alone() -> None:
    """Without exclusive values, and if they are not those of statements alone."""
    document = V2["experiment.xml"]
    inclusive = document.replace(b't="exclusive"', b't="nil"')
    assert totals(read(V2 | {"experiment.xml": inclusive})) == totals(read(V2))
    swapped = {}
    for name, content in V2.items():
        values = np.frombuffer(content, ">f8", offset=32).reshape(-1, 4).copy() if name not in TREES else None
        if values is not None:
            values[:, 1] = 0
            content = content[:32] + values.tobytes()
        swapped[name] = content
    assert totals(read(swapped)) == totals(read(V2))


def scopes_of(meta: bytes, change: dict[int, tuple[int, int]]) -> bytes:
    """meta.db whose scopes have other types and bits."""
    data = bytearray(meta)
    (at,) = struct.unpack_from("<Q", data, 16 + 16 * 2 + 8)
    (scopes,) = struct.unpack_from("<Q", data, at + 16)
    for number, (kind, bit) in change.items():
        struct.pack_into("<BB", data, scopes + 16 * number + 8, kind, bit)
    return bytes(data)


def test_scopes() -> None:
    """Values of functions give those of contexts, too. Values of single contexts alone lack instructions of lines, which
    the tree does not have."""
    functions_only = read(V4 | {"meta.db": scopes_of(V4["meta.db"], {0: (0, 0), 3: (0, 0)})})
    assert totals(functions_only) == totals(read(V4))
    points_only = read(V4 | {"meta.db": scopes_of(V4["meta.db"], {1: (0, 0), 3: (0, 0)})})
    assert sum(totals(points_only)["application thread"]) == 60_000_000, "the instruction in the tree"
    none = dict.fromkeys(range(4), (0, 0))
    with pytest.raises(UnreadableInput, match="no values"):
        read(V4 | {"meta.db": scopes_of(V4["meta.db"], none)})


def test_metrics() -> None:
    assert parse_metric("REALTIME (usec)") == MetricEvent("REALTIME", "ns", 1000)
    assert parse_metric("GXCOPY:H2D (B)") == MetricEvent("GXCOPY:H2D", "bytes", 1)
    assert parse_metric("perf::CYCLES") == MetricEvent("perf::CYCLES", "count", 1)
    own, small = subtract_callees(np.array([0, 2, 5]), np.array([5.0, 3.0, 4.0]), np.array([-1, 0, 2]))
    assert own.tolist() == [2, 0, 4] and small == 1
    own, small = subtract_callees(np.array([1, 2]), np.array([0.3, 0.1 + 0.2]), np.array([-1, 1]))
    assert own.tolist() == [0, 0.1 + 0.2] and small == 0, "a difference by rounding"


def changed(name: str, **values: float) -> dict[str, bytes]:
    """The database of version 2 with other values in its first metric-db file: c12_3 is of context 12, column 3."""
    content = bytearray(V2[name])
    for place, value in values.items():
        context, column = (int(part) for part in place[1:].split("_"))
        struct.pack_into(">d", content, 32 + 8 * (4 * (context - 1) + column), value)
    return V2 | {name: bytes(content)}


FIRST = next(name for name in V2 if name not in TREES)
STATEMENT = next(at for at, one in enumerate(made.elements()) if one.tag == "S") + 2


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 1e300, 5e9])
def test_impossible_values(value: float) -> None:
    profile = read(changed(FIRST, **{f"c{STATEMENT}_0": value, f"c{STATEMENT}_1": value}))
    # Without this value, the sums of statements differ from the total.
    assert losses_of(profile).get(IMPOSSIBLE_STACK_WEIGHT) or losses_of(profile).get(names.TOO_SMALL)
    assert (get_column(profile.samples, "weight") > 0).all()


def test_other_databases() -> None:
    short = V2[FIRST][:-64]
    short = short[:24] + struct.pack(">I", len(short[32:]) // 32) + short[28:]
    for content, message in (
        (short, "are not of one database"),
        (V2[FIRST][:-8], "is truncated"),
        (b"HPCPROF-metricdb__", "no metric-db file"),
        (V2[FIRST][:23] + b"x" + V2[FIRST][24:], "unknown byte order"),
        (V2[FIRST][:24] + b"\xff" * 8 + V2[FIRST][32:], "too many for one file"),
        (V4["profile.db"], "of another version"),
    ):
        with pytest.raises(UnreadableInput, match=message):
            read(V2 | {FIRST: content})
    with pytest.raises(UnreadableInput, match="of another version"):
        read({"meta.db": V4["meta.db"], FIRST: V2[FIRST]})
    with pytest.raises(UnreadableInput, match=r"Import it together with the profile\.db"):
        read({"meta.db": V4["meta.db"]})


def test_a_file_alone() -> None:
    for content in (V4["profile.db"], V2[FIRST], b"HPCTOOLKITctxt\x04\0" + bytes(40)):
        reader = detect_format(content)
        assert reader.name == hpctoolkit.FORMAT
        with pytest.raises(UnreadableInput, match="Import the directory"):
            reader.read(io.BytesIO(content), "x")
    with pytest.raises(UnreadableInput, match="Make a database of the measurements"):
        detect_format(b"HPCRUN-profile____00.10b")


def test_entities_are_refused(tmp_path: object) -> None:
    document = V2["experiment.xml"].decode()
    bomb = '<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">'
    file = '<!ENTITY a SYSTEM "file:///etc/passwd">'
    parameter = '<!ENTITY % a SYSTEM "http://127.0.0.1:9/x.dtd"> %a;'
    for declared in (bomb, file, parameter):
        hostile = document.replace("<!ELEMENT Info (NV*)>", declared).replace('n="app"', 'n="&a;"', 1)
        with pytest.raises(UnreadableInput, match="declares XML entities"):
            hpctoolkit.read(io.BytesIO(hostile.encode()), "x")
    default = document.replace('(1|0) "0"', f'CDATA "{"x" * 1000}"')
    with pytest.raises(UnreadableInput, match="a default of 1,000 characters"):
        hpctoolkit.read(io.BytesIO(default.encode()), "x")
    # A document type of another file is not opened, and its entities are unknown.
    other = document.replace("HPCToolkitExperiment [", 'HPCToolkitExperiment SYSTEM "file:///nowhere.dtd" [')
    assert totals(hpctoolkit.read(io.BytesIO(other.encode()), "x"))
    unknown = document.replace('<Header n="app">', '<Header n="&a;">')
    with pytest.raises(UnreadableInput, match="has no calling contexts"):
        hpctoolkit.read(io.BytesIO(unknown.encode()), "x")


def test_truncated_and_strange_documents() -> None:
    document = V2["experiment.xml"]
    cut = hpctoolkit.read(io.BytesIO(document[: len(document) * 9 // 10]), "x")
    assert not cut.meta.complete and "truncated" in cut.meta.reasons[0]
    repeated = document.replace(b'i="4" s="4"', b'i="3" s="4"')
    assert counts(hpctoolkit.read(io.BytesIO(repeated), "x")) == {names.INVALID_ELEMENT: 1}
    for wrong in (b"-1", b"x", b"9" * 400, b"", "٣".encode()):
        strange = document.replace(b'i="4" s="4"', b'i="' + wrong + b'"')
        assert counts(hpctoolkit.read(io.BytesIO(strange), "x")) == {names.INVALID_ELEMENT: 1}
    deep = b'<PF i="99999" n="x"><M n="4" v="1"/>'
    deep += b"".join(b'<PF i="%d" n="x">' % number for number in range(100_000, 120_000))
    nested = document.replace(
        b"</SecCallPathProfileData>",
        deep + b'<M n="4" v="1"/><M n="5" v="1"/>' + b"</PF>" * 20_001 + b"</SecCallPathProfileData>",
    )
    assert hpctoolkit.read(io.BytesIO(nested), "x").stacks.num_rows > 20_000
    flat = document.replace(b"SecCallPathProfileData", b"SecFlatProfileData")
    with pytest.raises(UnreadableInput, match="no calling contexts"):
        hpctoolkit.read(io.BytesIO(flat), "x")


def places(meta: bytes) -> Iterable[tuple[int, int]]:
    """(place, id) of the contexts of meta.db below the entries."""
    (tree,) = struct.unpack_from("<Q", meta, 16 + 16 * 3 + 8)
    first, count = struct.unpack_from("<QH", meta, tree)
    blocks = [struct.unpack_from("<QQ", meta, first + 32 * number) for number in range(count)]
    while blocks:
        size, at = blocks.pop()
        end = at + size
        while at < end:
            children, _, id, _, _, _, words = struct.unpack_from("<QQIBBBB", meta, at)
            yield at, id
            if children:
                blocks.append(struct.unpack_from("<QQ", meta, at))
            at += 32 + 8 * words


def test_hostile_trees() -> None:
    meta = V4["meta.db"]
    found = [*places(meta)]
    cyclic, twice, far = (bytearray(meta) for _ in range(3))
    (tree,) = struct.unpack_from("<Q", meta, 16 + 16 * 3 + 8)
    (first,) = struct.unpack_from("<Q", meta, tree)
    # The last context has the children of its entry.
    struct.pack_into("<QQ", cyclic, found[-1][0], *struct.unpack_from("<QQ", meta, first))
    struct.pack_into("<QQ", cyclic, found[0][0], *struct.unpack_from("<QQ", meta, first))
    struct.pack_into("<I", twice, found[1][0] + 16, found[0][1])
    struct.pack_into("<QQ", far, found[0][0], 1 << 62, 1 << 63)
    for content, message in (
        (cyclic, "as if one were below itself"),
        (twice, "have the same number"),
        (far, "refers to byte"),
    ):
        with pytest.raises(UnreadableInput, match=message):
            read(V4 | {"meta.db": bytes(content)})


def test_absurd_counts() -> None:
    data = bytearray(V4["profile.db"])
    (section,) = struct.unpack_from("<Q", data, 24)
    (infos,) = struct.unpack_from("<Q", data, section)
    struct.pack_into("<Q", data, infos + 48, 1 << 60)
    with pytest.raises(UnreadableInput, match="more values than it has bytes"):
        read(V4 | {"profile.db": bytes(data)})
    many = bytearray(V4["profile.db"])
    struct.pack_into("<I", many, section + 8, 1 << 31)
    with pytest.raises(UnreadableInput, match="refers to byte"):
        read(V4 | {"profile.db": bytes(many)})
    for version in (0, 3, 5, 255):
        other = bytearray(V4["meta.db"])
        other[14] = version
        with pytest.raises(UnreadableInput, match=f"has version {version}.0"):
            read(V4 | {"meta.db": bytes(other)})
    unordered = bytearray(V4["profile.db"])
    index = struct.unpack_from("<Q", unordered, infos + 48 + 24)[0]
    struct.pack_into("<Q", unordered, index + 12 + 4, 1 << 50)
    profile = read(V4 | {"profile.db": bytes(unordered)})
    assert counts(profile) == {names.UNREADABLE_PROFILE: 1}
    assert not profile.meta.complete and "1 of 4 profiles" in profile.meta.reasons[0]


@pytest.mark.parametrize(("contexts", "metrics"), [(2**32 - 1, 0), (0, 2**32 - 1), (0, 0)])
def test_a_thread_without_values_is_refused_at_once(contexts: int, metrics: int) -> None:
    header = b"HPCPROF-metricdb__00.10b" + struct.pack(">II", contexts, metrics)
    with pytest.raises(UnreadableInput, match="has no values"):
        read_values(PrefixedStream(io.BytesIO(header)), "x.metric-db")


@pytest.mark.parametrize("name", [*V4])
def test_truncated_binary_files(name: str) -> None:
    """Refused or incomplete, wherever it ends."""
    for size in range(0, len(V4[name]), 7):
        try:
            profile = read(V4 | {name: V4[name][:size]})
        except UnreadableInput as error:
            assert name in error.message
            continue
        assert not profile.meta.complete, size


@pytest.mark.slow
@pytest.mark.parametrize("name", [*V4, "experiment.xml", FIRST])
@pytest.mark.heavy
def test_random_damage(name: str) -> None:
    """Never another error, and never more contexts than the file has bytes for."""
    files = V4 if name in V4 else V2
    numbers = random.Random(name)
    for _ in range(400):
        data = bytearray(files[name])
        for _ in range(numbers.choice((1, 2, 8))):
            at = numbers.randrange(len(data))
            size = numbers.choice((1, 1, 4, 8))
            data[at : at + size] = numbers.choice((b"\xff" * size, bytes(size), numbers.randbytes(size)))
        try:
            profile = read(files | {name: bytes(data)})
        except UnreadableInput as error:
            assert len(error.message) < 500
            continue
        assert profile.stacks.num_rows < 500
        assert set(losses_of(profile)) <= set(names.LOSSES)
