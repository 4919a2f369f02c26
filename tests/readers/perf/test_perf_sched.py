"""Scheduler events as perf prints them: texts of perf script and of timehist, and other texts."""

import io
from collections import Counter
from pathlib import Path

import pytest

from perfloom.analysis.tables import TABLES, records
from perfloom.config import Settings
from perfloom.domain.errors import UnreadableInput
from perfloom.domain.losses import UNUSED_STACK
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import get_strings
from perfloom.domain.validation import find_error
from perfloom.ingest.losses import UNRECOGNIZED_LINE, UNRECOGNIZED_SCHED_EVENT
from perfloom.ingest.perf_text.losses import SAMPLED_SWITCHES
from perfloom.ingest.trace.losses import UNKNOWN_RUNTIME
from perfloom.ingest.trace.scheduler import BY_STACK, BY_WAKER, RUNNABLE, RUNNING, SLEEPING, SWITCHES
from perfloom.readers import detect_format, perf_data, perf_sched, perf_script
from perfloom.workers.read import reading
from tests.support import paths
from tests.support.made import events_of, losses, slices
from tests.support.parts import require
from tests.support.samples import samples_of

DATA = paths.DATA / "perf"
US = 1_000
FRAMES = "\tffffffff81000010 schedule+0x10 ([kernel.kallsyms])\n\t  401000 wait_for_it+0x5 (/bin/app)\n\n"


def read(text: str) -> Profile:
    data = text.encode()
    assert detect_format(data).name == perf_sched.FORMAT
    found = perf_sched.read(io.BytesIO(data))
    assert find_error(found) is None
    return found


def event(task: str, time: str, told: str, cpu: int = 0) -> str:
    return f"{task:>20} [{cpu:03}] {time}: {told}\n"


def switch(left: str, tid: int, state: str, taken: str, other: int) -> str:
    return (
        f"      sched:sched_switch: prev_comm={left} prev_pid={tid} prev_prio=120 prev_state={state} ==> "
        f"next_comm={taken} next_pid={other} next_prio=120"
    )


def stacks(profile: Profile, event: str) -> list[tuple[str | None, int, str]]:
    """Thread, weight and stack, outermost first, of the samples of an event; the first frame with its module."""
    return [
        (
            one.comm,
            one.weight,
            f"{one.stack[0].name} [{one.stack[0].module}] {' '.join(f.name for f in one.stack[1:])}".rstrip(),
        )
        for one in samples_of(profile)
        if one.event == event
    ]


def test_scheduler_events_become_thread_states() -> None:
    profile = read(
        "# hostname : node7\n"
        + event("swapper     0/0", "50.000100", switch("swapper/0", 0, "R", "app", 7))
        + "\tffffffff81000020 idle+0x1 ([kernel.kallsyms])\n\n"
        + event("app     5/7", "50.000110", "sched:sched_stat_runtime: comm=app pid=7 runtime=10 [ns]")
        + FRAMES
        + event("app     5/7", "50.000120", switch("app", 7, "S", "b", 9))
        + FRAMES
        + event("b     9/9", "50.000150", "sched:sched_waking: comm=app pid=7 prio=120 target_cpu=000")
        + FRAMES
        + event("b     9/9", "50.000160", switch("b", 9, "R", "app", 7))
        + event("app     5/7", "50.000165", "sched:sched_migrate_task: comm=c pid=8 prio=120 orig_cpu=0 dest_cpu=1")
        + FRAMES
        + event("app     5/7", "50.000170", "sched:sched_switch: what is that")
        + "what is this\n"
    )
    assert slices(profile) == [
        ("CPU 0", "app", 0, 20 * US, 0),
        ("CPU 0", "b", 20 * US, 40 * US, 0),
        ("CPU 0", "app", 60 * US, 10 * US, 0),
        ("app", "running", 0, 20 * US, 0),
        ("app", "sleeping", 20 * US, 30 * US, 0),
        ("app", "runnable", 50 * US, 10 * US, 0),
        ("app", "running", 60 * US, 10 * US, 0),
        ("b", "running", 20 * US, 40 * US, 0),
        ("b", "runnable (preempted)", 60 * US, 10 * US, 0),
    ]
    assert events_of(profile) == {
        RUNNING: 70 * US,
        RUNNABLE: 20 * US,
        SLEEPING: 30 * US,
        BY_WAKER: 30 * US,
        BY_STACK: 10,
        SWITCHES: 2,
    }
    # Process, state and stack; or the waker and its stack.
    assert stacks(profile, SLEEPING) == [("app", 30 * US, "sleeping [app] wait_for_it")]
    assert stacks(profile, BY_WAKER) == [("app", 30 * US, "woken by b [b] wait_for_it schedule")]
    assert stacks(profile, BY_STACK) == [("app", 10, "running [app] wait_for_it")]
    assert [stack for _, _, stack in stacks(profile, SWITCHES)] == [
        "sleeping [app] wait_for_it",
        "runnable (preempted) [b]",
    ]
    assert {reason: count for reason, (count, _) in losses(profile).items()} == {
        UNRECOGNIZED_LINE: 1,
        UNRECOGNIZED_SCHED_EVENT: 1,
        UNUSED_STACK: 1,
    }
    assert profile.meta.facts["hostname"] == "node7" and len(profile.instants) == 1
    assert records(TABLES["summary"].rows(profile, Selection()))[0]["threads"] == 2
    # A program's name may be any bytes, and an ended thread has no number.
    ghost = event(":-1     7/-1", "50.000180", "sched:sched_stat_runtime: comm=app pid=7 runtime=10 [ns]")
    gone = event("app     5/7", "50.000100", switch("app", 7, "S", "df", 9)) + event(
        "df     9/9", "50.000170", switch("df", 9, "S", "app", 7)
    )
    assert ("df", "running", 0, 70 * US, 0) in slices(read(gone + ghost)) and not losses(read(gone + ghost))
    # With other events, a text of perf script is one of samples.
    both = event("app 7", "50.1", "").replace("50.1", "50.000100") + event(
        "app 7", "50.000200", "1 cycles: 401000 f (a)"
    )
    assert detect_format((gone + both).encode()).name == perf_script.FORMAT
    heading = "# event : name = sched:sched_switch, , id = {}\n# event : name = dummy:HG, , id = {}\n"
    assert detect_format((heading + gone).encode()).name == perf_sched.FORMAT
    assert perf_data.read(io.BytesIO((heading + gone).encode())).slices.num_rows
    heading += "# event : name = cycles, , id = {}\n"
    assert detect_format((heading + gone).encode()).name == perf_script.FORMAT
    mixed = perf_data.read(io.BytesIO((heading + gone + both).encode()))
    assert mixed.meta.main_event == "sched:sched_switch"
    assert [row for row in slices(mixed) if row[0] == "app"] == [("app", "sleeping", 0, 70 * US, 0)]
    # These are unchanged; thread times are added.
    counted = {"sched:sched_switch": 2, "samples": 1, "cycles": 1}
    assert events_of(mixed) == counted | {RUNNING: 70 * US, SLEEPING: 70 * US}
    assert stacks(mixed, SLEEPING) == [("app", 70 * US, "sleeping [app]")]
    some = gone.replace(" sched:sched_switch", " 3 sched:sched_switch")
    assert losses(read(some)) == {SAMPLED_SWITCHES: (4, "record with -c 1")}
    assert events_of(perf_data.read(io.BytesIO((heading + some + both).encode()))) == counted | {
        "sched:sched_switch": 6
    }


def test_events_of_single_threads() -> None:
    """perf record -e 'sched:*' ./program records threads that leave a CPU, but not their successors and their
    return."""

    def ran(tid: int, time: str, length: int) -> str:
        return event(
            f"app 5/{tid}", time, f"sched:sched_stat_runtime: comm=app pid={tid} runtime={length} [ns]", tid - 7
        )

    def away(tid: int, time: str, state: str, other: int = 99) -> str:
        return event(f"app 5/{tid}", time, switch("app", tid, state, "other", other), tid - 7) + FRAMES

    woken = event("app 5/7", "50.000450", "sched:sched_waking: comm=app pid=8 prio=120 target_cpu=001")
    interrupted = FRAMES.replace("schedule", "try_to_wake_up").replace("\t  40", "\tff handle_softirqs+0x1 (k)\n\t  40")
    profile = read(
        ran(7, "50.000100", 50_000) + away(7, "50.000101", "S") + ran(7, "50.000300", 100_000) + ran(7, "50.000400", 99_000)
        + away(7, "50.000401", "R") + ran(8, "50.000401", 1_000) + away(8, "50.000402", "S", 98) + woken + interrupted
        + ran(8, "50.000500", 20_000) + away(8, "50.000501", "S") + ran(7, "50.000600", 9_000)
        + event("app 5/7", "50.000601", "sched:sched_process_exit: comm=app pid=7 prio=120")
        + away(8, "50.000602", "S", 7) + away(8, "50.000703", "S", 98)
    )  # fmt: skip
    states = [
        (name, start // US, length // US) for thread, name, start, length, _ in slices(profile) if thread == "app"
    ]
    assert states == [
        *(("running", 0, 1), ("sleeping", 1, 99), ("running", 100, 201), ("runnable (preempted)", 301, 190)),
        # Until its end; and the other thread, while an event shows the start of its run.
        *(
            ("running", 491, 10),
            ("running", 300, 2),
            ("sleeping", 302, 48),
            ("runnable", 350, 30),
            ("running", 380, 21),
        ),
    ]
    assert {thread for thread, *_ in slices(profile)} == {"app", "CPU 0", "CPU 1"}
    assert stacks(profile, BY_WAKER) == [("app", 48 * US, "woken by an interrupt [] handle_softirqs try_to_wake_up")]
    assert events_of(profile)[SWITCHES] == 6 and losses(profile) == {UNKNOWN_RUNTIME: (2, "at 50000602000 ns")}


def test_switches_of_one_program_have_advice() -> None:
    """perf record -e sched:sched_switch ./program does not record when the program returned to a CPU."""
    text = "".join(event("app 5/7", f"50.0000{n}1", switch("app", 7, "S", "other", 99), 0) for n in range(1, 6))
    profile = read(text)
    assert not profile.slices.num_rows and not profile.meta.complete
    (reason,) = profile.meta.reasons
    assert "sched_stat_runtime" in reason and "-a" in reason


@pytest.mark.parametrize("with_samples", [False, True])
def test_switches_of_several_threads_of_one_program_say_what_to_record(with_samples: bool) -> None:
    """Some runs are known, from one thread of the program to another: their sum is not the running time."""
    text = ""
    for number, tid in enumerate((7, 8, 7, 8, 7, 8), start=1):
        next_comm, next_tid = ("app", 15 - tid) if number == 3 else ("other", 99)
        text += event(f"app 5/{tid}", f"50.0000{number}1", switch("app", tid, "S", next_comm, next_tid), 0)
    if with_samples:
        text += "app 5/7 [000] 50.000092: 1000000 cpu-clock: \n\n"
    data = text.encode()
    profile = detect_format(data).read(io.BytesIO(data), "switches")
    assert profile.meta.format == ("perf-script" if with_samples else "perf-sched")
    assert not profile.slices.num_rows and not profile.meta.complete
    assert RUNNING not in events_of(profile)
    (reason,) = profile.meta.reasons
    assert "sched_stat_runtime" in reason and "-a" in reason


@pytest.mark.heavy
def test_perf_data_of_the_scheduler(tmp_path: Path) -> None:
    """A real recording of a program with waiting threads (tests/data/perf/waits.c)."""
    require("perf")
    settings = Settings.load(tmp_path, environ={}, reserve_bytes=0)
    profile = reading.read_profile(settings, [DATA / "waits.perf.data.zst"])
    assert (profile.meta.format, profile.meta.main_event) == ("perf-data", RUNNING)
    assert profile.meta.complete and "perf record" in (profile.meta.command or "")
    # The run time of a thread equals that of the kernel, except for its last moments.
    ran, accounted = Counter[str | None](), Counter[str | None]()
    for one in samples_of(profile):
        ran[one.comm] += one.weight * (one.event == RUNNING)
        accounted[one.comm] += one.weight * (one.event == BY_STACK)
    assert set(ran) == {"waits", "lock-a", "lock-b", "consumer", "producer"}
    assert all(abs(ran[name] - accounted[name]) < 500 * US for name in ran)
    assert sum(weight for _, weight, _ in stacks(profile, BY_WAKER)) > 1_000 * US
    # Threads sleep in functions, with the recorded stack depth.
    assert all(stack.startswith("sleeping [waits] ") for _, _, stack in stacks(profile, SLEEPING))
    assert {thread for thread, _, stack in stacks(profile, BY_WAKER) if "woken by producer" in stack} == {"consumer"}


HISTORY = """Samples of sched_switch event do not have callchains.
           time    cpu  task name                       wait time  sch delay   run time  state
                        [tid/pid]                          (msec)     (msec)     (msec)
--------------- ------  ------------------------------  ---------  ---------  ---------  -----
      70.001000 [0000]  my app[7/5]                         0.000      0.000      0.100      S  pipe_read <- vfs_read
      70.001200 [0000]  b[9]                                0.000      0.050      0.200      R
      70.001200 [0001]  <idle>                              0.000      0.000      0.300
      70.001500 [0001]  my app[7/5]                         0.400      0.020      0.101      S
      70.001600 [0000]  b[9]                                0.000      0.000      0.400      D
      70.001600 [0001]       b[9]                                                        awakened: my app[7/5]

Runtime summary
                          comm  parent   sched-in     run-time    min-run     avg-run     max-run  stddev  migrations
"""


def test_timehist() -> None:
    profile = read(HISTORY)
    zero = 900 * US
    assert slices(profile) == [
        ("CPU 0", "my app", 0, 100 * US, 0),
        ("CPU 0", "b", 1_000 * US - zero, 200 * US, 0),
        ("CPU 0", "b", 1_200 * US - zero, 400 * US, 0),
        ("CPU 1", "my app", 1_399 * US - zero, 101 * US, 0),
        ("my app", "running", 0, 100 * US, 0),
        ("my app", "sleeping", 1_000 * US - zero, 379 * US, 0),
        ("my app", "runnable", 1_379 * US - zero, 20 * US, 0),
        ("my app", "running", 1_399 * US - zero, 101 * US, 0),
        ("b", "runnable", 950 * US - zero, 50 * US, 0),
        ("b", "running", 1_000 * US - zero, 200 * US, 0),
        ("b", "running", 1_200 * US - zero, 400 * US, 0),
    ]
    assert events_of(profile) == {RUNNING: 801 * US, RUNNABLE: 70 * US, SLEEPING: 379 * US}
    assert {"pipe_read", "vfs_read"} <= set(get_strings(profile.functions, "name"))
    assert {(row["pid"], row["tid"]) for row in profile.threads.to_pylist() if row["tid"]} == {(5, 7), (9, 9)}
    assert list(losses(profile)) == [UNRECOGNIZED_LINE]


def test_perf_sched_summaries_have_advice() -> None:
    rule = " " + "-" * 90
    for text in (
        f"\n{rule}\n  Task                  |   Runtime ms  | Switches | Avg delay ms\n{rule}\n",
        "  *A0       45227.131338 secs A0 => migration/0:18\n",
    ):
        with pytest.raises(UnreadableInput, match="perf sched timehist -i"):
            detect_format(text.encode())
    with pytest.raises(UnreadableInput, match="perf sched record"):
        perf_sched.read(io.BytesIO(HISTORY[:400].encode()))
