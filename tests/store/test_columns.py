"""Profiles as files: exact, mapped without a copy, and a damaged one is said to be damaged."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Meta, Profile
from perfloom.domain.tables import SCHEMAS, get_column
from perfloom.ingest import storage_format, storage_names
from perfloom.ingest.chunked_tables import ChunkedTable
from perfloom.store.files import columns

from .making import has_valid_checksums, profiles, same, small_profile


@given(profiles())
@hypothesis_settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_written_profile_is_read(profile: Profile) -> None:
    with tempfile.TemporaryDirectory() as folder:
        columns.write(profile, Path(folder))
        assert has_valid_checksums(Path(folder))
        assert same(columns.read(Path(folder)), profile)


def test_reading_copies_nothing(tmp_path: Path) -> None:
    columns.write(small_profile(weights=tuple(range(10_000))), tmp_path)
    columns.read(tmp_path)
    before = pa.total_allocated_bytes()
    profile = columns.read(tmp_path)
    arrays = [get_column(profile.samples, name) for name in SCHEMAS["samples"].names]
    arrays += [get_column(profile.stacks, name) for name in SCHEMAS["stacks"].names]
    assert pa.total_allocated_bytes() == before
    assert not any(array.flags.owndata or array.flags.writeable for array in arrays)
    assert get_column(profile.samples, "weight").sum() == sum(range(10_000)) + 1


def test_every_table_is_one_chunk(tmp_path: Path) -> None:
    profile = small_profile()
    table = profile.samples
    pieces = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    assert pieces.column("weight").num_chunks == 2
    columns.write(Profile(**{**profile.tables(), "meta": profile.meta, "samples": pieces}), tmp_path)
    read = columns.read(tmp_path)
    assert {name: table.column(0).num_chunks for name, table in read.tables().items()} == dict.fromkeys(SCHEMAS, 1)
    assert same(read, profile)


@pytest.mark.parametrize(
    "rows", [0, 1, storage_format.GAP_BYTES - 1, storage_format.GAP_BYTES, 3 * storage_format.GAP_BYTES + 7]
)
@pytest.mark.parametrize("name", ["samples", "counts"])
def test_chunked_table_is_stored_as_one(tmp_path: Path, name: str, rows: int) -> None:
    schema = SCHEMAS[name]
    numbers = np.random.default_rng(rows).integers(0, 2**30, rows)
    arrays = [pa.array(numbers + place).cast(pa.int64()).cast(f.type) for place, f in enumerate(schema)]
    whole = pa.Table.from_arrays(arrays, schema=schema)
    pieces = ChunkedTable(name, rows, lambda: iter(whole.to_batches(max_chunksize=50_001)))
    columns.write(Profile(Meta("x")), tmp_path / "pieces", {name: pieces})
    columns.write(Profile(Meta("x"), **{name: whole}), tmp_path / "whole")
    assert has_valid_checksums(tmp_path / "pieces")
    read = columns.read(tmp_path / "pieces").tables()[name]
    assert read.equals(whole)
    if name == "samples" and rows:
        # To the last byte, so that it is mapped as one array.
        assert len({(tmp_path / way / "samples.arrow").read_bytes() for way in ("pieces", "whole")}) == 1
    with pytest.raises(ValueError, match="rows in chunks"):
        columns.write(
            Profile(Meta("x")), tmp_path / "wrong", {name: replace(pieces, rows=rows + storage_format.GAP_BYTES)}
        )


def test_a_mapped_profile_outlives_its_files(tmp_path: Path) -> None:
    columns.write(small_profile(), tmp_path)
    profile = columns.read(tmp_path)
    for file in tmp_path.iterdir():
        file.unlink()
    assert get_column(profile.samples, "weight").tolist() == [3, 4, 1]


@pytest.mark.parametrize("name", [name for name, table in small_profile().tables().items() if table.num_rows])
def test_truncated_file_is_detected(tmp_path: Path, name: str) -> None:
    columns.write(small_profile(), tmp_path)
    file = tmp_path / storage_format.get_file_name(name)
    size = file.stat().st_size
    for cut in {0, 1, size // 2, size - 1}:
        whole = file.read_bytes()
        file.write_bytes(whole[:cut])
        with pytest.raises(UnreadableInput, match=f"table {name} .*Import the original"):
            columns.read(tmp_path)
        file.write_bytes(whole)
    file.unlink()
    with pytest.raises(UnreadableInput, match="Import the original"):
        columns.read(tmp_path)


def test_checksum_detects_changed_byte(tmp_path: Path) -> None:
    columns.write(small_profile(), tmp_path)
    file = tmp_path / storage_format.get_file_name("samples")
    whole = bytearray(file.read_bytes())
    whole[len(whole) // 2] ^= 1
    file.write_bytes(whole)
    assert not has_valid_checksums(tmp_path)


def test_rows_are_counted(tmp_path: Path) -> None:
    columns.write(small_profile(), tmp_path)
    manifest = json.loads((tmp_path / storage_names.MANIFEST).read_text())
    manifest["tables"]["samples"]["rows"] += 1
    (tmp_path / storage_names.MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(UnreadableInput, match="rows are missing"):
        columns.read(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"schema_version": 1}',
        b'{"schema_version": 1, "meta": {}, "tables": {}}',
        b'{"schema_version": 1, "meta": {"format": 3}, "tables": {}}',
        b'{"schema_version": 1, "meta": {"format": "x", "facts": {"a": 1}}, "tables": {}}',
        b'{"schema_version": 1, "meta": {"format": "x", "duration_ns": true}, "tables": {}}',
        b'{"schema_version": 1, "meta": {"format": "x"}, "tables": {"samples": 1}}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_damaged_manifest_is_reported(tmp_path: Path, text: bytes) -> None:
    columns.write(small_profile(), tmp_path)
    (tmp_path / storage_names.MANIFEST).write_bytes(text)
    with pytest.raises(UnreadableInput, match="Import the original"):
        columns.read(tmp_path)


def test_no_profile_at_all(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="No stored profile"):
        columns.read(tmp_path)


def test_a_newer_schema_asks_for_an_upgrade(tmp_path: Path) -> None:
    columns.write(small_profile(), tmp_path)
    manifest = json.loads((tmp_path / storage_names.MANIFEST).read_text())
    manifest["schema_version"] = storage_format.SCHEMA_VERSION + 1
    (tmp_path / storage_names.MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(UnreadableInput, match="newer version of Perfloom"):
        columns.read(tmp_path)


def rewritten(tmp_path: Path, name: str, table: pa.Table) -> None:
    """Put another table in the place of one, with the manifest to fit."""
    path = tmp_path / storage_format.get_file_name(name)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    manifest = json.loads((tmp_path / storage_names.MANIFEST).read_text())
    manifest["tables"][name] |= {"rows": table.num_rows, "bytes": path.stat().st_size}
    (tmp_path / storage_names.MANIFEST).write_text(json.dumps(manifest))


def test_older_schema_is_filled_with_nulls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = small_profile()
    columns.write(profile, tmp_path)
    rewritten(tmp_path, "threads", profile.threads.drop_columns(["rank"]))
    with pytest.raises(UnreadableInput, match=r"no column threads\.rank"):
        columns.read(tmp_path)
    # To the version after this one, what was just written is of an older schema.
    monkeypatch.setattr(storage_format, "SCHEMA_VERSION", storage_format.SCHEMA_VERSION + 1)
    assert columns.read(tmp_path).threads.column("rank").to_pylist() == [None, None]

    rewritten(tmp_path, "samples", profile.samples.drop_columns(["cpu"]))
    with pytest.raises(UnreadableInput, match=r"no column samples\.cpu.*Import the original"):
        columns.read(tmp_path)


def test_an_older_schema_without_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns.write(small_profile(), tmp_path)
    manifest = json.loads((tmp_path / storage_names.MANIFEST).read_text())
    del manifest["tables"]["counts"]
    (tmp_path / storage_names.MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(UnreadableInput, match=r"table counts .*missing"):
        columns.read(tmp_path)
    monkeypatch.setattr(storage_format, "SCHEMA_VERSION", storage_format.SCHEMA_VERSION + 1)
    assert columns.read(tmp_path).counts.num_rows == 0


def test_narrower_column_is_widened_and_other_type_rejected(tmp_path: Path) -> None:
    profile = small_profile()
    columns.write(profile, tmp_path)
    narrow = profile.losses.schema.set(1, pa.field("count", pa.int32()))
    rewritten(tmp_path, "losses", profile.losses.cast(narrow))
    assert columns.read(tmp_path).losses.schema == SCHEMAS["losses"]
    words = pa.table({"reason": ["a"], "count": ["many"], "example": ["b"]})
    rewritten(tmp_path, "losses", words)
    with pytest.raises(UnreadableInput, match=r"losses\.count .*unexpected type"):
        columns.read(tmp_path)
