"""A profile as one file: it round-trips bit by bit, and crafted files are refused."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.errors import InvalidRequest, UnreadableInput
from perfloom.domain.profile import Meta, Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import SCHEMAS, get_column
from perfloom.domain.validation import find_error
from perfloom.exporters import get_exporter
from perfloom.ingest.storage_format import SCHEMA_VERSION
from perfloom.readers import detect_format, stored_profile
from tests.store.making import profiles, same, small_profile
from tests.support.formats import FILES, profile_of

EMPTY = ProfileBuilder("nothing").finish()


def export(profile: Profile, selection: Selection | None = None) -> bytes:
    """The file of a profile."""
    return b"".join(get_exporter("profile").write(profile, selection or Selection(), {}))


def read(data: bytes) -> Profile:
    """The profile in a file."""
    return stored_profile.read(io.BytesIO(data), "x.tar")


def rebuilt(data: bytes, change: Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]) -> bytes:
    """The archive with its files changed, otherwise valid, as Python's tarfile writes it."""
    files: list[tuple[tarfile.TarInfo, bytes]] = []
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for info in archive:
            content = archive.extractfile(info)
            assert content is not None
            files.append((info, content.read()))
    change(files)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for info, content in files:
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def with_table(profile: Profile, name: str, /, **columns: Any) -> bytes:
    """The file of a profile whose table `name` has other values, with correct checksums."""
    table = profile.tables()[name]
    for key, values in columns.items():
        place = table.schema.get_field_index(key)
        table = table.set_column(place, table.schema.field(key), pa.array(values, table.schema.field(key).type))
    return export(replace(profile, **{name: table}))


@pytest.mark.heavy
@given(profiles())
@hypothesis_settings(max_examples=60)
def test_profile_round_trip_is_bit_identical(profile: Profile) -> None:
    data = export(profile)
    assert detect_format(data[:4096]).name == "profile"
    assert same(read(data), profile) and find_error(profile) is None
    # The same profile yields the same file, independent of the writer.
    assert export(read(data)) == data


def test_archive_is_readable_by_other_tools() -> None:
    with tarfile.open(fileobj=io.BytesIO(export(small_profile()))) as archive:
        names = archive.getnames()
        filled = [name for name, table in small_profile().tables().items() if table.num_rows]
        assert names == ["perfloom-profile/manifest.json", *(f"perfloom-profile/{name}.arrow" for name in filled)]
        samples = archive.extractfile("perfloom-profile/samples.arrow")
        assert samples is not None
        assert pa.ipc.open_file(samples.read()).read_all().equals(small_profile().samples)
        assert all(info.isreg() and info.mtime == 0 and info.uid == 0 for info in archive.getmembers())


def test_archive_repacked_by_tar() -> None:
    assert same(read(rebuilt(export(small_profile()), lambda files: None)), small_profile())


def test_sizes_beyond_octal_digits() -> None:
    from perfloom.ingest import archive

    size = 9 * 1024**3
    (member,) = [next(archive.iterate_members(io.BytesIO(archive.make_header("big", size)), "x"))]
    assert member == archive.Member("big", size)


def test_selection_keeps_its_samples() -> None:
    profile = small_profile(weights=tuple(range(1, 9)))
    cycles = read(export(profile, Selection(event="cycles")))
    assert get_column(cycles.samples, "weight").tolist() == list(range(1, 9)) and cycles.meta.main_event == "cycles"
    window = read(export(profile, Selection(start_ns=500, end_ns=1500)))
    assert get_column(window.samples, "weight").tolist() == [2, 3]
    assert window.meta.facts["selection"] == "start-ms=0.0005 end-ms=0.0015"
    thread = read(export(profile, Selection(threads=("-/10/11",))))
    assert get_column(thread.samples, "weight").tolist() == [1, 3, 5, 7]
    assert get_column(read(export(profile, Selection(ignore="nanosleep"))).samples, "weight").tolist() == []
    # pprof: with a pattern, samples without a stack are dropped.
    assert get_column(read(export(profile, Selection(focus="nano"))).samples, "weight").tolist() == list(range(1, 9))
    for part in (cycles, window, thread):
        assert find_error(part) is None and part.stacks.equals(profile.stacks)
    for word in ("hide", "invert", "recursion"):
        with pytest.raises(InvalidRequest, match=word):
            export(profile, Selection(**{word: "x" if word == "hide" else True}))  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="no event"):
        export(profile, Selection(event="nonsense"))


def counted() -> Profile:
    """Two events counted in two intervals, by thread, and once for all."""
    builder = ProfileBuilder("perf-stat")
    threads = [builder.intern_thread(tid=tid) for tid in (1, 2)]
    for place, thread in enumerate([*threads, -1]):
        for event in ("cycles", "faults"):
            for start in (0, 1000) if thread >= 0 else (None,):
                end = None if start is None else start + 1000
                builder.add_count(
                    event=builder.intern_event(event, "count"),
                    thread=thread,
                    start_ns=start,
                    end_ns=end,
                    value=1.0 + place,
                    status="ok",
                )
    return builder.finish(Meta("", duration_ns=2000))


def test_selection_keeps_its_counts() -> None:
    profile = counted()
    assert same(read(export(profile)), profile) and profile.counts.num_rows == 10

    def left(**selection: Any) -> int:
        return read(export(profile, Selection(**selection))).counts.num_rows

    assert left(event="cycles") == 5 and left(threads=("-/-/2",)) == 4 and left(start_ns=1000) == 4
    assert left(end_ns=1000, event="faults") == 2 and left(focus="x") == 0


def test_rank_selection_keeps_its_counts() -> None:
    builder = ProfileBuilder("perf-stat")
    for rank in (0, 1, None):
        builder.add_count(event=builder.intern_event("cycles", "count"), thread=-1, rank=rank, value=1.0, status="ok")
    profile = builder.finish()
    assert read(export(profile, Selection(ranks=((1, 3),)))).counts.column("rank").to_pylist() == [1]


def test_truncated_file_is_refused() -> None:
    whole = export(small_profile())
    content = len(whole) - 1024
    for cut in [*range(0, 3000, 37), *range(3000, content, 511), content - 1]:
        with pytest.raises(UnreadableInput, match=r"truncated|not an archive|empty archive"):
            read(whole[:cut])
    # Some tools omit the end mark or add to it.
    assert same(read(whole + bytes(10_000)), small_profile())
    assert same(read(whole + b"garbage"), small_profile())


@pytest.mark.parametrize("format", sorted(FILES.keys() - {"perf-data"}))
def test_capabilities_of_old_profiles(format: str) -> None:
    """Earlier versions used the format; today's readers write capabilities."""
    profile = profile_of(format)

    def without(files: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        info, content = files[0]
        manifest = json.loads(content)
        assert tuple(manifest["meta"].pop("capabilities")) == profile.meta.capabilities
        data = json.dumps(manifest).encode()
        info.size = len(data)
        files[0] = (info, data)

    assert read(rebuilt(export(profile), without)).meta.capabilities == profile.meta.capabilities


def test_changed_bytes_are_detected_or_harmless() -> None:
    profile = small_profile()
    whole = bytearray(export(profile))
    rng = np.random.default_rng(5)
    for place in rng.integers(0, len(whole), 400).tolist():
        whole[place] ^= 0x55
        try:
            assert same(read(bytes(whole)), profile) or place < 4096
        except UnreadableInput as error:
            assert error.message
        whole[place] ^= 0x55


def first_is(**changes: Any) -> Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]:
    """A change of the header of the second file."""

    def change(files: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        for name, value in changes.items():
            setattr(files[1][0], name, value)

    return change


def manifest_with(**changes: Any) -> Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]:
    """A change of the manifest."""

    def change(files: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        info, text = files[0]
        data = json.loads(text)
        for name, value in changes.items():
            if isinstance(data[name], dict):
                data[name] |= value
            else:
                data[name] = value
        text = json.dumps(data).encode()
        info.size = len(text)
        files[0] = (info, text)

    return change


TRAPS: dict[str, tuple[Callable[[list[tuple[tarfile.TarInfo, bytes]]], None], str]] = {
    "a path that climbs": (first_is(name="perfloom-profile/../../etc/passwd"), "unexpected file"),
    "an absolute path": (first_is(name="/etc/passwd"), "unexpected file"),
    "a name for a terminal": (first_is(name="perfloom-profile/\x1b[31m.arrow"), "unexpected file"),
    "a link": (first_is(type=tarfile.SYMTYPE, linkname="/etc/passwd", size=0), "entries other than plain files"),
    "a hard link": (first_is(type=tarfile.LNKTYPE, linkname="/etc/passwd", size=0), "entries other than plain files"),
    "a device": (first_is(type=tarfile.CHRTYPE, size=0), "entries other than plain files"),
    "a long name": (first_is(name="x" * 300), "entries other than plain files"),
    "one twice": (lambda files: files.append(files[1]), "unexpected file"),
    "one missing": (lambda files: files.__delitem__(3), "missing"),
    "the manifest last": (lambda files: files.append(files.pop(0)), "does not start with the manifest"),
    "no manifest": (lambda files: files.__delitem__(0), "does not start with the manifest"),
    "nothing": (lambda files: files.clear(), "empty archive"),
    "a newer version": (manifest_with(schema_version=SCHEMA_VERSION + 1), "newer version of Perfloom"),
    "another length": (manifest_with(tables={"runs": {"rows": 1, "bytes": 1, "sha256": ""}}), "length of runs differs"),
    "a meta that is none": (manifest_with(meta={"facts": [1]}), "manifest .* is damaged"),
    "a time out of range": (manifest_with(meta={"duration_ns": 10**30}), "duration_ns is out of range"),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_crafted_files_are_refused(trap: str) -> None:
    change, message = TRAPS[trap]
    with pytest.raises(UnreadableInput, match=message):
        read(rebuilt(export(small_profile()), change))


def test_claimed_size_allocates_no_memory() -> None:
    from perfloom.ingest import archive

    head = archive.make_header("perfloom-profile/manifest.json", 2**60) + b"{}"
    with pytest.raises(UnreadableInput, match="too long"):
        read(head)
    text = manifest_of(2**60)
    data = archive.make_header("perfloom-profile/manifest.json", len(text)) + text + archive.make_padding(len(text))
    with pytest.raises(UnreadableInput, match="truncated"):
        read(data + archive.make_header("perfloom-profile/runs.arrow", 2**60) + b"x")


def manifest_of(size: int) -> bytes:
    """A manifest whose one table claims a size."""
    table = {"rows": 1, "bytes": size, "sha256": ""}
    return json.dumps({"schema_version": SCHEMA_VERSION, "meta": {"format": "x"}, "tables": {"runs": table}}).encode()


WRONG: dict[str, dict[str, Any]] = {
    "samples.thread refers to rows": {"samples": {"thread": [0, 2, 0]}},
    "samples.event refers to rows": {"samples": {"event": [0, -1, 0]}},
    "samples.stack refers to rows": {"samples": {"stack": [0, 3, 0]}},
    "samples.weight has missing values": {"samples": {"weight": [1, None, 1]}},
    "samples are not in order of time": {"samples": {"time_ns": [0, 9, 5]}},
    "samples.cpu is not a CPU number": {"samples": {"cpu": [0, -2, 0]}},
    "frames.function refers to rows": {"frames": {"function": [0, 2]}},
    "frames.kind has an unknown value": {"frames": {"kind": [0, 99]}},
    "stacks.call refers to rows": {"stacks": {"call": [0, 1, 9]}},
    "tree stacks does not start": {"stacks": {"parent": [0, 0, 1]}},
    "tree stacks is not in order": {"stacks": {"parent": [-1, 2, 1]}},
    "tree calls is not in order": {"calls": {"end": [3, 3, 2]}},
    "stacks.frame refers to rows": {"stacks": {"frame": [-1, 0, 2]}},
    "trees stacks and calls differ": {"calls": {"function": [-1, 1, 0]}},
    "two events have the same name": {"events": {"name": ["a", "a"]}},
    "threads.kind has an unknown value": {"threads": {"kind": ["thread", "demon"]}},
    "losses.count has missing values": {"losses": {"reason": ["x"], "count": [None], "example": ["y"]}},
}


@pytest.mark.parametrize("message", WRONG)
def test_tables_that_violate_invariants_are_refused(message: str) -> None:
    ((table, columns),) = WRONG[message].items()
    profile = small_profile()
    if table == "losses":
        data = export(replace(profile, losses=pa.table(columns, SCHEMAS["losses"])))
    else:
        data = with_table(profile, table, **columns)
    with pytest.raises(UnreadableInput, match=f"cannot be used: .*{message}"):
        read(data)


def test_tree_without_root_is_refused() -> None:
    with pytest.raises(UnreadableInput, match="no root"):
        read(export(Profile(Meta("x"))))
    assert same(read(export(EMPTY)), EMPTY)


@pytest.mark.parametrize(
    "data", [b"", b"x", bytes(512), bytes(1024), b"perfloom-profile/manifest.json", b"\xff" * 2000]
)
def test_other_archives_are_not_recognized(data: bytes) -> None:
    assert not stored_profile.sniff(data)
    with pytest.raises(UnreadableInput):
        read(data)
