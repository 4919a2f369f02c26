"""Files of one `perf record --switch-output`, by their names."""

from __future__ import annotations

from perfloom.ingest.switch_output_names import group_switch_output

FIRST, SECOND, THIRD = "2026112722582587", "2026112722582714", "2026112723002837"


def test_files_of_a_recording_in_the_order_of_time() -> None:
    names = [f"perf.data.{THIRD}", "notes", f"perf.data.{FIRST}.zst", f"perf.data.{SECOND}"]
    assert group_switch_output(names) == [("perf.data", (2, 3, 0))]


def test_other_prefixes_and_folders_are_other_recordings() -> None:
    names = [f"{prefix}.{time}" for prefix in ("a/perf.data", "b\\perf.data", "b/other") for time in (FIRST, SECOND)]
    assert group_switch_output(names) == [("perf.data", (0, 1)), ("perf.data", (2, 3)), ("other", (4, 5))]
    assert group_switch_output([f"perf.data.{FIRST}", f"other.{SECOND}", "x/perf.data"]) == []


def test_the_file_of_a_killed_perf_is_the_last() -> None:
    names = ["perf.data", f"perf.data.{SECOND}", "other", f"perf.data.{FIRST}"]
    assert group_switch_output(names) == [("perf.data", (3, 1, 0))]
    assert group_switch_output(names[:2]) == [("perf.data", (1, 0))]
    assert group_switch_output(["perf.data.gz", *names]) == [("perf.data", (4, 2))]
    assert group_switch_output(["perf.data", "other"]) == []


def test_other_numbers_are_no_times() -> None:
    for one, other in (
        (FIRST[:-2], SECOND[:-2]),
        ("2026132722582587", "2026142722582587"),
        ("2026112724582587", "2026112725582587"),
        (f"{FIRST}.symbols.zst", f"{SECOND}.symbols.zst"),
        (FIRST, FIRST),
        (FIRST, f"{FIRST}.gz"),
    ):
        assert group_switch_output([f"perf.data.{one}", f"perf.data.{other}"]) == []
