"""Ranks of a planned job as one result: numbers, times, and missing data."""

from __future__ import annotations

import io
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.domain.rank_state import (
    CPUS_FACT,
    GOVERNOR_FACT,
    MAX_RANKS,
    Rank,
    RankState,
    RecordingPlan,
    is_rank_folder,
    parse_plan,
    parse_run_folder,
    parse_state,
)
from perfloom.domain.validation import find_error
from perfloom.ingest.chunked_tables import SpillFile
from perfloom.ingest.merge import ProfileMerger
from perfloom.ingest.rank_merge import CLOCKS_DIFFER, RankMerger, abbreviate_ranges
from perfloom.readers import perf_data, perf_stat

S = 10**9
EPOCH = 1_760_000_000 * S


def text(rank: int, samples: int = 4, *, clock_s: float = 100.0, event: str = "cycles", base: int = 0) -> Profile:
    """A recording of perf. base: the address of the program in memory."""
    lines = []
    for number in range(samples):
        lines.append(f"solve {rank + 50}/{rank + 50} {clock_s + number:.9f}: 7 {event}: \n")
        lines += [f"\t{base + 16 * rank + 1:x} {name}+0x1 (/bin/solve)\n" for name in ("inner", "main")] + ["\n"]
    return perf_data.read(io.BytesIO(("# ========\n# captured on : now\n# ========\n" + "".join(lines)).encode()))


def counts(*values: int, event: str = "instructions", running: int = 100, interval: bool = False) -> Profile:
    """The output of perf stat, in intervals of a second or once."""
    lines = []
    for number, value in enumerate(values):
        line = {"counter-value": f"{value}.0", "unit": "", "event": event, "event-runtime": S * running // 100}
        line |= {"pcnt-running": float(running)} | ({"interval": f"{number + 1}.0"} if interval else {})
        lines.append(json.dumps(line) + "\n")
    return perf_stat.read(io.BytesIO("".join(lines).encode()))


def state(start_s: float | None = 0.0, end_s: float | None = 9.0, **more: Any) -> RankState:
    def at(seconds: float | None) -> int | None:
        return None if seconds is None else EPOCH + int(seconds * S)

    return RankState(**{"host": "one", "exit_status": 0, "start_ns": at(start_s), "end_ns": at(end_s)} | more)


def plan(ranks: int | None = None, runs: int = 1, **more: Any) -> RecordingPlan:
    told = {"runs": [{"run": n, "events": [], "command": ["./solve", str(n)]} for n in range(runs)], "ranks": ranks}
    return parse_plan(json.dumps(told | more).encode())


def merge_ranks(planned: RecordingPlan, *found: tuple[Rank, list[Profile]]) -> Profile:
    """The merged profile of these ranks; every result must be valid."""
    ranks = RankMerger(planned, ProfileMerger(SpillFile(io.BytesIO())))
    for rank, profiles in found:
        for profile in profiles:
            ranks.add(rank, profile)
        ranks.add_state(rank)
    profile = ranks.finish().to_profile()
    assert find_error(profile) is None
    return profile


def times(profile: Profile) -> dict[Any, list[float]]:
    """The times of each rank's samples, in seconds, by (run, rank)."""
    found: dict[Any, list[float]] = {}
    threads = profile.threads.to_pylist()
    for row in profile.samples.to_pylist():
        thread = threads[row["thread"]]
        found.setdefault((thread["run"], thread["rank"]), []).append(row["time_ns"] / S)
    return found


def test_ranks_keep_their_samples_and_counts() -> None:
    found = [(Rank(0, str(n), state(host=f"host{n // 2}")), [text(n, 4 * (1 + (n == 1)))]) for n in range(4)]
    profile = merge_ranks(plan(4), *found)
    assert {key: len(at) for key, at in times(profile).items()} == {(0, 0): 4, (0, 1): 8, (0, 2): 4, (0, 3): 4}
    rows = profile.threads.to_pylist()
    assert [(row["rank"], row["host"], row["pid"]) for row in rows] == [
        (0, "host0", 50),
        (1, "host0", 51),
        (2, "host1", 52),
        (3, "host1", 53),
    ]
    assert [(row["rank"], row["host"], row["exit_status"]) for row in profile.ranks.to_pylist()] == [
        (n, f"host{n // 2}", 0) for n in range(4)
    ]
    assert (profile.meta.complete, profile.meta.reasons, profile.meta.command) == (True, (), "./solve 0")
    assert profile.runs.to_pylist() == [
        {
            "command": "./solve 0",
            "host": None,
            "event_group": 0,
            "repeat": None,
            "start_ns": EPOCH,
            "clock_offset_ns": 0,
            "exit_status": 0,
            "duration_ns": 7 * S,
        }
    ]


def test_ranks_of_a_host_share_perf_clock() -> None:
    """The second began 2 s later by that clock, whatever delay of perf the recorded starts imply."""
    found = [(Rank(0, "0", state(0.5)), [text(0, clock_s=100)]), (Rank(0, "1", state(0.9)), [text(1, clock_s=102)])]
    profile = merge_ranks(plan(2), *found)
    assert times(profile) == {(0, 0): [0, 1, 2, 3], (0, 1): [2, 3, 4, 5]}
    assert profile.meta.start_epoch_ns == EPOCH + S // 2
    assert profile.meta.duration_ns == 5 * S


def test_hosts_are_aligned_by_starts() -> None:
    found = [
        (Rank(0, "0", state(1.0, host="one")), [text(0, clock_s=100)]),
        (Rank(0, "1", state(3.0, host="two")), [text(1, clock_s=5000)]),
        # It slept at first, which its own host's clock shows.
        (Rank(0, "2", state(1.0, host="one")), [text(2, clock_s=104)]),
    ]
    assert times(merge_ranks(plan(3), *found)) == {(0, 0): [0, 1, 2, 3], (0, 1): [2, 3, 4, 5], (0, 2): [4, 5, 6, 7]}


def test_hosts_with_wrong_clocks_start_together() -> None:
    found = [
        (Rank(0, "0", state(0.0, 9.0, host="one")), [text(0, clock_s=100)]),
        (Rank(0, "1", state(3600.0, 3609.0, host="two")), [text(1, clock_s=5000)]),
    ]
    profile = merge_ranks(plan(2), *found)
    assert times(profile) == {(0, 0): [0, 1, 2, 3], (0, 1): [0, 1, 2, 3]}
    assert profile.meta.facts["clocks"] == CLOCKS_DIFFER
    assert profile.meta.complete


def test_target_clock_offset_is_applied() -> None:
    profile = merge_ranks(plan(1, clock_ns=5 * S), (Rank(0, "0", state()), [text(0)]))
    assert profile.meta.start_epoch_ns == profile.runs.to_pylist()[0]["start_ns"] == EPOCH - 5 * S
    assert profile.ranks.to_pylist()[0]["start_ns"] == EPOCH - 5 * S


def test_ranks_without_start_times() -> None:
    def two(**hosts: str) -> dict[Any, list[float]]:
        found = [
            (Rank(0, str(n), state(None, host=host)), [text(n, 2, clock_s=100 + 3 * n)])
            for n, host in enumerate(hosts.values())
        ]
        return times(merge_ranks(plan(2), *found))

    assert two(a="one", b="one") == {(0, 0): [0, 1], (0, 1): [3, 4]}
    assert two(a="one", b="two") == {(0, 0): [0, 1], (0, 1): [0, 1]}


def test_runs_begin_at_their_start() -> None:
    """Event groups, consecutive or concurrent, are no long run; and a repeated event is one event."""
    found = []
    for run, (event, other) in enumerate((("cycles", "faults"), ("cycles", "misses"))):
        for rank in range(2):
            at = 100 + 1000 * run + rank
            found.append(
                (
                    Rank(run, str(rank), state(1000.0 * run + rank, 1000.0 * run + 9, exit_status=3 * run)),
                    [text(rank, 3 + run, clock_s=at, event=event), text(rank, 1, clock_s=at, event=other)],
                )
            )
    profile = merge_ranks(plan(2, runs=2), *found)
    assert profile.events.column("name").to_pylist() == ["cycles", "faults", "misses"]
    assert {key: sorted(set(at)) for key, at in times(profile).items()} == {
        (0, 0): [0, 1, 2],
        (0, 1): [1, 2, 3],
        (1, 0): [0, 1, 2, 3],
        (1, 1): [1, 2, 3, 4],
    }
    runs = profile.runs.to_pylist()
    assert [(run["command"], run["start_ns"] - EPOCH, run["duration_ns"], run["exit_status"]) for run in runs] == [
        ("./solve 0", 0, 3 * S, 0),
        ("./solve 1", 1000 * S, 4 * S, 3),
    ]
    assert (profile.meta.duration_ns, profile.meta.command) == (4 * S, None)
    assert profile.meta.reasons == ("Run 1, ranks 0–1: ended with exit status 3.",)


def test_program_without_ranks() -> None:
    profile = merge_ranks(plan(), (Rank(0, "all", state(exit_status=2)), [text(5)]))
    assert profile.threads.column("rank").to_pylist() == [None]
    assert profile.runs.to_pylist()[0]["host"] == "one"
    assert profile.meta.reasons == ("The command: ended with exit status 2.",)


def test_one_recording_for_each_host() -> None:
    """perf does not record the rank of a thread on a host."""
    found: list[tuple[Rank, list[Profile]]] = [
        (Rank(0, f"on-node{n}", state(host=f"node{n}")), [text(n)]) for n in range(2)
    ]
    found += [(Rank(0, str(n), state(host=f"node{n % 2}", recorded=False)), []) for n in range(4)]
    profile = merge_ranks(plan(4), *found)
    assert profile.meta.complete
    assert [(row["rank"], row["host"]) for row in profile.threads.to_pylist()] == [(None, "node0"), (None, "node1")]
    assert Counter(row["recorded"] for row in profile.ranks.to_pylist()) == {True: 2, False: 4}


@pytest.mark.parametrize(
    ("how", "profiles", "reason"),
    [
        (state(signal=11, exit_status=None), [text(2)], "Rank 2: ended by signal 11 (SIGSEGV)."),
        (state(exit_status=7), [text(2)], "Rank 2: ended with exit status 7."),
        (state(exit_status=None, stop_reason="signal TERM"), [text(2)], "Rank 2: stopped early."),
        (state(None, None, exit_status=None), [text(2)], "Rank 2: no end recorded: killed, or the host was lost."),
        (None, [text(2)], "Rank 2: no end recorded: killed, or the host was lost."),
        (state(), [], "Rank 2: no recording returned."),
        (state(text_status="failed perf ran out of it."), [], "Rank 2: no recording returned: perf ran out of it."),
        (
            state(size=1),
            [text(2)],
            "Rank 2: one of 1, not of 4: was the program built with the MPI that starts it?",
        ),
    ],
)
def test_incomplete_reasons(how: RankState | None, profiles: list[Profile], reason: str) -> None:
    others = [(Rank(0, str(n), state(size=4)), [text(n)]) for n in (0, 1, 3)]
    profile = merge_ranks(plan(4), *others, (Rank(0, "2", how), profiles))
    assert (profile.meta.complete, profile.meta.reasons) == (False, (reason,))
    noted = profile.ranks.to_pylist()[2]
    assert noted["rank"] == 2 and noted["note"].lower() == reason.removeprefix("Rank 2: ").lower()


def test_rank_without_samples_is_complete() -> None:
    nothing = perf_data.read(io.BytesIO(b"# ========\n# captured on : now\n# ========\n"))
    profile = merge_ranks(plan(2), (Rank(0, "0", state()), [text(0)]), (Rank(0, "1", state()), [nothing]))
    assert profile.meta.complete
    assert [row["note"] for row in profile.ranks.to_pylist()] == [
        None,
        "No samples: the program used too little CPU time, or the events did not occur.",
    ]


def test_rank_whose_perf_was_killed() -> None:
    nothing = perf_data.read(io.BytesIO(b"# ========\n# captured on : now\n# ========\n"))
    killed = state(perf_signal=9, exit_status=None)
    profile = merge_ranks(plan(2), (Rank(0, "0", state()), [text(0)]), (Rank(0, "1", killed), [nothing]))
    note = profile.ranks.to_pylist()[1]["note"]
    assert "ended by signal 9" in note and "perf had them in its buffer" in note and "too little CPU" not in note


def test_missing_ranks_are_reported_in_one_line() -> None:
    found = [(Rank(0, str(n), state()), [text(n, 1)]) for n in range(0, 1000, 100)]
    profile = merge_ranks(plan(1024), *found)
    assert profile.meta.reasons == (
        "Ranks 1–99, 101–199, 201–299, 301–399, 401–499, 501–599, 601–699, 701–799 and 222 more: no data returned: "
        "never started, or the host was lost.",
    )
    assert profile.ranks.num_rows == 1024


def test_run_without_data() -> None:
    profile = merge_ranks(plan(2, runs=2), *[(Rank(1, str(n), state()), [text(n)]) for n in range(2)])
    assert profile.meta.reasons == ("Run 0: no data returned: never started, or the host was lost.",)
    assert profile.runs.num_rows == 2


def test_losses_and_truncations_name_their_rank() -> None:
    bad = perf_data.read(io.BytesIO(b"solve 1/1 1.000000: 5 cycles: \n\t1 main (/bin/a)\n\nnonsense\n\nsolve 1/1 2.0"))
    profile = merge_ranks(plan(2), (Rank(0, "0", state()), [text(0)]), (Rank(0, "1", state()), [bad]))
    first, second = profile.ranks.to_pylist()
    assert first["losses"] == 0 < second["losses"]
    assert all(row["example"].startswith("rank 1, line ") for row in profile.losses.to_pylist())
    assert not profile.meta.complete
    assert profile.meta.reasons[0].startswith("Rank 1: The text ends in the middle of line 6")


def test_counts_of_ranks_and_runs() -> None:
    found = [
        (Rank(run, str(rank), state(host=f"h{rank}")), [counts(10 * run + rank + 1, event=event, running=50)])
        for run, event in enumerate(("instructions", "cycles"))
        for rank in range(2)
    ]
    profile = merge_ranks(plan(2, runs=2), *found)
    rows = profile.counts.to_pylist()
    assert [(row["run"], row["host"], row["rank"], row["event"], row["value"]) for row in rows] == [
        (0, "h0", 0, 0, 1),
        (0, "h1", 1, 0, 2),
        (1, "h0", 0, 1, 11),
        (1, "h1", 1, 1, 12),
    ]
    assert profile.events.column("scaling").to_pylist() == [2.0, 2.0]
    assert profile.meta.duration_ns == 9 * S


def test_scaling_covers_all_ranks() -> None:
    found = [(Rank(0, str(n), state()), [counts(1, running=share)]) for n, share in enumerate((100, 50))]
    profile = merge_ranks(plan(2), *found)
    assert profile.events.column("scaling").to_pylist() == [pytest.approx(2 / 1.5)]
    found = [(Rank(0, str(n), state()), [counts(1)]) for n in range(2)]
    assert merge_ranks(plan(2), *found).events.column("scaling").to_pylist() == [None]


def test_intervals_keep_their_times() -> None:
    found = [
        (Rank(0, "0", state(0.0, 2.0)), [counts(1, 2, interval=True)]),
        (Rank(0, "1", state(0.5, 2.5, host="two")), [counts(3, 4, interval=True)]),
    ]
    profile = merge_ranks(plan(2), *found)
    rows = [(row["rank"], row["start_ns"] / S, row["end_ns"] / S) for row in profile.counts.to_pylist()]
    assert rows == [(0, 0, 1), (0, 1, 2), (1, 0.5, 1.5), (1, 1.5, 2.5)]
    assert profile.meta.duration_ns == 2.5 * S


def test_addresses_of_many_ranks_are_not_kept() -> None:
    """So that memory for code does not grow with the number of processes."""
    merging = ProfileMerger(SpillFile(io.BytesIO()), addresses=False)
    ranks = RankMerger(plan(40), merging)
    for number in range(40):
        rank = Rank(0, str(number), state())
        ranks.add(rank, text(number, base=number << 20))
        ranks.add_state(rank)
    profile = ranks.finish().to_profile()
    assert find_error(profile) is None
    assert (profile.functions.num_rows, profile.frames.num_rows, profile.stacks.num_rows) == (2, 2, 3)
    assert profile.frames.column("address").null_count == 2


NO_PLANS = (
    *("", "[]", "{}", "null", '{"runs": 5}', '{"runs": [5]}', '{"runs": [{"run": -1}]}', '{"runs": [{"run": "x"}]}'),
    *('{"runs": [{"run": 1}, {"run": 1}]}', "[" * 100_000, '{"runs": [{"run": 1e99}]}', "\udcff"),
)


@pytest.mark.parametrize("number", range(len(NO_PLANS)))
def test_invalid_plans_are_refused(number: int) -> None:
    with pytest.raises(UnreadableInput, match=r"plan\.json"):
        parse_plan(NO_PLANS[number].encode(errors="surrogateescape"))


def test_plans_with_huge_numbers() -> None:
    for ranks in (10**30, MAX_RANKS + 1, -1, 0, "4", True, 4.0, None):
        assert parse_plan(json.dumps({"runs": [], "ranks": ranks}).encode()).ranks is None
    assert parse_plan(json.dumps({"runs": [{}] * 5000}).encode()).runs[-1].run == 999
    hostile = {"runs": [{"run": 0, "command": ["a b", "$(touch /tmp/x)", "\n"], "events": ["a\n\x1b[31mb", ""]}]}
    told = parse_plan(json.dumps(hostile | {"flavour": ["x"], "target": "t\x00\nu" * 500}).encode())
    assert told.runs[0].command == "'a b' '$(touch /tmp/x)' '\n'"
    assert told.runs[0].events == ("a [31mb",)
    assert told.mpi_flavor is None
    assert told.target is not None and len(told.target) <= 400 and told.target.isprintable()


def test_invalid_state_lines_are_ignored() -> None:
    told = (
        b"start 5\nhost  a\x00b\xff\nexit 999\nsignal 4000\nsize 99999999999999999999\nend x\nrecorded 0\nnote one\n"
        b"note one\nnote\nnote two\x1b[2J\nstart 6\n" + b"key" * 10**6 + b"\npid -4"
    )
    assert parse_state(told) == RankState(
        host="a b�",
        start_ns=6,
        recorded=False,
        notes=("one", "two [2J"),
    )
    assert parse_state(b"") == RankState()


@given(st.binary(max_size=300))
def test_any_state_is_parsed(told: bytes) -> None:
    found = parse_state(told)
    assert all(note.isprintable() for note in found.notes)
    assert found.exit_status is None or 0 <= found.exit_status < 256


def test_rank_directory_names() -> None:
    assert [
        parse_run_folder(name) for name in ("run0", "run12", "run00", "run", "run-1", "xrun1", "run1 ", "run9999999")
    ] == [
        0,
        12,
        *[None] * 6,
    ]
    good = ("0", "1023", "all", "on-node7.cluster", "on-n-1_x-4711")
    bad = ("", "01", "-1", "on-", "on-a/b", "..", "on-\n", "x", "12345678", "on-" + "a" * 300, "٣")
    assert all(map(is_rank_folder, good)) and not any(map(is_rank_folder, bad))


def test_ranges() -> None:
    assert abbreviate_ranges([]) == ""
    assert abbreviate_ranges([3]) == "3"
    assert abbreviate_ranges([0, 1, 2, 5, 7, 8]) == "0–2, 5, 7–8"
    assert abbreviate_ranges(range(0, 40, 2)) == "0, 2, 4, 6, 8, 10, 12, 14 and 12 more"


def test_pinning_of_ranks() -> None:
    def facts(*cpus: str) -> dict[str, str]:
        found = [(Rank(0, str(n), state(cpus=one, governor="powersave")), [text(n)]) for n, one in enumerate(cpus)]
        return merge_ranks(plan(len(cpus)), *found).meta.facts

    assert facts("0-3", "0-3")[CPUS_FACT] == "0-3"
    assert facts("0", "1", "0")[CPUS_FACT] == "0 (ranks 0, 2); 1 (rank 1)"
    assert facts("0", "")[CPUS_FACT] == "0 (rank 0); unknown (rank 1)"
    assert facts("0", "1")[GOVERNOR_FACT] == "powersave"
    assert CPUS_FACT not in facts("", "")
    assert facts(*map(str, range(20)))[CPUS_FACT].endswith("15 (rank 15) and 4 more")
