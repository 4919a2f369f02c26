"""Databases of HPCToolkit: a directory, its files given together, or some of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import zstandard

from perfloom.config import Settings
from perfloom.domain.errors import UnreadableInput
from perfloom.ingest.database_names import group_databases
from perfloom.readers.hpctoolkit.format import OTHER_FILE, UNREADABLE_FILE
from perfloom.store import Store
from perfloom.workers.read import reading
from perfloom.workers.read.databases import add_database_files
from tests.support.hpctoolkit import made
from tests.support.samples import losses_of

TOTAL_NS = 412 * 5_000_000
VERSIONS = ("v2", "v4")


@pytest.fixture(params=VERSIONS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A directory with a copy of a database, and what is beside its files."""
    directory = Path(shutil.copytree(made.DATA / request.param, tmp_path / "app-database"))
    (directory / "cct.db").write_bytes(b"HPCTOOLKITctxt\x04\x00" + bytes(32))
    (directory / "FORMATS.md").write_text("# About\n")
    (directory / "src").mkdir()
    (directory / "src" / "app.c").write_text("int main() {}\n")
    return directory


def files_of(directory: Path) -> list[str]:
    return sorted(str(path) for path in directory.iterdir() if path.suffix in (".db", ".xml", ".metric-db"))


def total(settings: Settings, files: list[str] | tuple[str, ...]) -> int:
    profile = reading.read_profile(settings, files)
    assert profile.meta.complete and losses_of(profile) == {}
    return sum(row["weight"] for row in profile.samples.to_pylist() if row["event"] == 0)


def test_directory_and_files(settings: Settings, database: Path) -> None:
    added = add_database_files([str(database)])
    assert {Path(file).name for file in added} == {*(path.name for path in (database).iterdir())} - {
        *("cct.db", "FORMATS.md", "src")
    }
    tree = added[0]
    assert Path(tree).name in ("meta.db", "experiment.xml") and add_database_files([tree]) == added
    assert total(settings, added) == total(settings, files_of(database)) == TOTAL_NS


def test_only_regular_files_of_the_directory(database: Path, tmp_path: Path) -> None:
    outside = tmp_path / "secret"
    outside.write_text("secret")
    (database / "1.app-000007-000-a0b0-700-0.metric-db").symlink_to(outside)
    (database / "1.app-000008-000-a0b0-700-0.metric-db").mkdir()
    assert all(
        Path(file).parent == database and not Path(file).is_symlink() for file in add_database_files([str(database)])
    )
    assert len(add_database_files([str(database)])) == len({*add_database_files([str(database)])}) < 6
    with pytest.raises(UnreadableInput, match=r"neither meta\.db nor experiment\.xml"):
        add_database_files([str(tmp_path)])
    assert add_database_files(["a", "meta.db"]) == ("a", "meta.db")


def test_compressed_files(settings: Settings, database: Path) -> None:
    for path in map(Path, files_of(database)):
        path.with_name(f"{path.name}.zst").write_bytes(zstandard.compress(path.read_bytes()))
        path.unlink()
    assert total(settings, add_database_files([str(database)])) == TOTAL_NS


def test_files_missing_damaged_or_of_others(settings: Settings, database: Path, tmp_path: Path) -> None:
    files = files_of(database)
    other = tmp_path / "notes.txt"
    other.write_text("notes\n")
    profile = reading.read_profile(settings, [*files, other])
    assert [*losses_of(profile)] == [OTHER_FILE] and profile.meta.complete
    tree = next(file for file in files if Path(file).name in ("meta.db", "experiment.xml"))
    values = next(file for file in files if file.endswith(("profile.db", ".metric-db")))
    Path(values).write_bytes(Path(values).read_bytes()[:40])
    if tree.endswith("meta.db"):
        with pytest.raises(UnreadableInput, match=r"profile\.db is damaged or truncated"):
            reading.read_profile(settings, files)
    else:
        profile = reading.read_profile(settings, files)
        assert [*losses_of(profile)] == [UNREADABLE_FILE] and not profile.meta.complete
        assert "is truncated" in profile.meta.reasons[0]
    with pytest.raises(UnreadableInput, match="are of two databases of HPCToolkit"):
        second = tmp_path / "experiment.xml"
        shutil.copy(made.DATA / "v2" / "experiment.xml", second)
        reading.read_profile(settings, [*files, second])
    with pytest.raises(UnreadableInput, match="Import the directory"):
        reading.read_profile(settings, [file for file in files if file.endswith(".metric-db")] or [values])


def test_stored_result_keeps_the_files(settings: Settings, store: Store, database: Path) -> None:
    files = [Path(file) for file in add_database_files([str(database)])]
    result = reading.read_to_result(
        settings, store, "a" * 12, files, name="app", meta_changes={}, progress=lambda part, text: None
    )
    assert sorted(one.name for one in result.originals) == sorted(file.name for file in files)
    assert (result.format, result.threads) == ("hpctoolkit", 4)


def test_names_of_a_database() -> None:
    names = ["d/meta.db", "d/cct.db", "d/profile.db", "d/src/home/x.c", "d/metrics/default.yaml", "e/profile.db", "x"]
    assert group_databases(names) == [((0, 2), (1, 3, 4))]
    assert group_databases(["meta.db.zst", "profile.db.zst"]) == [((0, 1), ())]
    assert group_databases(["a.metric-db", "experiment.xml", "meta.db", "b\\c.metric-db"]) == [((1, 0), ())]
    assert group_databases(["meta.db", "x/profile.db"]) == group_databases([]) == []
