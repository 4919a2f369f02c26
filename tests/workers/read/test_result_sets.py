"""Result sets of PerfAnalyzer: files given together, found beside the .results file, or missing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from perfloom.config import Settings
from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.ingest.result_set_names import group_result_sets
from perfloom.store import Store
from perfloom.workers.read import reading
from perfloom.workers.read.result_sets import add_files_beside
from tests.support import paths
from tests.support.samples import losses_of

DATA = paths.DATA / "perfanalyzer"
FILES = sorted(path for path in DATA.iterdir() if path.suffix != ".md")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A directory with a copy of the set."""
    return Path(shutil.copytree(DATA, tmp_path / "set", ignore=shutil.ignore_patterns("*.md")))


def total(profile: Profile, event: str) -> int:
    number = profile.events.column("name").to_pylist().index(event)
    rows = zip(profile.samples.column("event").to_pylist(), profile.samples.column("weight").to_pylist(), strict=True)
    return sum(weight for one, weight in rows if one == number)


def test_files_given_together(settings: Settings) -> None:
    profile = reading.read_profile(settings, FILES)
    assert (total(profile, "cycles"), total(profile, "instructions")) == (23_815_680_000, 23_189_760_000)
    assert profile.meta.command and profile.meta.command.startswith("dd if=/dev/zero")
    assert losses_of(profile) == {} and profile.meta.complete


def test_files_beside(copy: Path) -> None:
    (copy / "other").write_text("x")
    found = add_files_beside([str(copy / "DD.results")])
    assert sorted(Path(file).name for file in found) == sorted(path.name for path in FILES)
    assert add_files_beside(["a", "b.results"]) == ("a", "b.results")
    assert add_files_beside([str(copy / "other")]) == (str(copy / "other"),)


def test_only_regular_files_in_the_directory_are_added(copy: Path, tmp_path: Path) -> None:
    secret = tmp_path / "x_proc0_secret"
    secret.write_text("t=0\na-0/0;f 1\n")
    (copy / "x_proc0_link").symlink_to(secret)
    (copy / "x_proc0_folder").mkdir()
    lines = ("../x_proc0_secret", str(secret), "x_proc0_link", "x_proc0_folder", "x_proc0_missing", "/x_proc0_y")
    lines += ("x" * 300 + "_proc0_y",)
    with open(copy / "DD.results", "a") as index:
        index.write("".join(f"{line}\n" for line in lines))
    found = add_files_beside([str(copy / "DD.results")])
    assert sorted(Path(file).name for file in found) == sorted(path.name for path in FILES)


def test_stored_result_keeps_all_files(settings: Settings, store: Store) -> None:
    result = reading.read_to_result(
        settings, store, "a" * 12, FILES, name="dd", meta_changes={}, progress=lambda part, text: None
    )
    assert sorted(one.name for one in result.originals) == sorted(path.name for path in FILES)
    assert result.format == "perfanalyzer"


def test_names_as_stored(settings: Settings, tmp_path: Path) -> None:
    """Uploaded files have safe names: a colon becomes an underscore."""
    (tmp_path / "D.results").write_text("event_counter-cycles:u:run-1:10\nD_proc0_cycles:u\n")
    (tmp_path / "D_proc0_cycles_u").write_text("t=0\na-0/0;f 3\nt=1\n")
    profile = reading.read_profile(settings, [tmp_path / "D.results", tmp_path / "D_proc0_cycles_u"])
    assert total(profile, "cycles:u") == 30 and losses_of(profile) == {}


def test_missing_empty_and_unlisted_files(settings: Settings, copy: Path) -> None:
    (copy / "DD_proc0_r0151").unlink()
    (copy / "DD_proc0_LLC-loads").write_bytes(b"")
    (copy / "DD_proc0_other").write_text("t=0\na-0/0;f 3\nt=1\n")
    profile = reading.read_profile(settings, sorted(copy.iterdir()))
    assert losses_of(profile) == {
        "data file that is listed but was not given": (1, "DD_proc0_r0151"),
        "data file that cannot be read": (1, "DD_proc0_LLC-loads is empty"),
        "file that is not listed in the .results file, not read": (1, "DD_proc0_other"),
    }
    assert total(profile, "cycles") == 23_815_680_000 and not profile.meta.complete


def test_two_sets_are_refused(settings: Settings, copy: Path) -> None:
    shutil.copy(copy / "DD.results", copy / "EE.results")
    with pytest.raises(UnreadableInput, match="are two result sets of PerfAnalyzer"):
        reading.read_profile(settings, sorted(copy.iterdir()))


def test_names_of_sets() -> None:
    names = ["run/DD_proc0_cycles.gz", "run/DD.results", "x.data", "run/DD.settings", "DD_proc1_cycles", "E.results"]
    assert group_result_sets(names) == [(1, 0, 3)]
    assert group_result_sets(["a.results", "b_proc0_x"]) == []
    assert group_result_sets(["A.results", "A_host0_proc1_x", "B.results", "B_proc0_x"]) == [(0, 1), (2, 3)]
