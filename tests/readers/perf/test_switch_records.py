"""Time off the CPU from context-switch records among samples."""

import io
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard

from perfloom.analysis.tables import TABLES, records
from perfloom.config import Settings
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.timed_events import RUNNABLE, RUNNING, SLEEPING, SLEEPING_BY_WAKER
from perfloom.domain.validation import find_error
from perfloom.ingest.perf_text.losses import (
    CLOCK_WENT_BACK,
    LOST_BETWEEN_SWITCHES,
    LOST_IN_KERNEL,
    MISSING_SWITCH,
    UNKNOWN_END,
)
from perfloom.readers import perf_script
from perfloom.workers.read import reading
from tests.support import paths
from tests.support.made import events_of, losses, slices
from tests.support.parts import require
from tests.support.samples import samples_of

DATA = paths.DATA / "perf"
US = 1_000
STACK = "\tffffffff81000010 schedule+0x10 ([kernel.kallsyms])\n\tffffffff81000020 futex_wait+0x1 ([kernel.kallsyms])\n"
STACK += "\t  401000 wait_for_it+0x5 (/bin/app)\n\n"
PROGRAM = """
import os, threading, time
ends = os.pipe()

def read_pipe(): os.read(ends[0], 1)
def compute(): return sum(i * i for i in range(300_000))

reader = threading.Thread(target=read_pipe)
reader.start()
time.sleep(0.2)
compute()
os.write(ends[1], b"x")
reader.join()
"""


def line(time_us: int, told: str, task: str = "app 5/7", cpu: int = 0) -> str:
    return f"{task} [{cpu:03}] 50.{time_us:06}000: {told}\n"


def out(time_us: int, how: str = "", task: str = "app 5/7") -> str:
    return line(time_us, f"PERF_RECORD_SWITCH OUT{how or '        '}", task)


def into(time_us: int, task: str = "app 5/7") -> str:
    return line(time_us, "PERF_RECORD_SWITCH IN         ", task)


def left(time_us: int, task: str = "app 5/7", event: str = "context-switches/period=1/:") -> str:
    return line(time_us, f"         1 {event} ", task) + STACK


def ended(time_us: int, tid: int = 7) -> str:
    return line(time_us, f"PERF_RECORD_EXIT(5:{tid}):(1:1)", f"app 5/{tid}")


def clock(time_us: int, task: str = "app 5/7") -> str:
    return line(time_us, "   1000 cpu-clock: ", task) + "\t  401100 compute+0x5 (/bin/app)\n\n"


def read(text: str) -> Profile:
    profile = perf_script.read(io.BytesIO(text.encode()))
    assert find_error(profile) is None
    return profile


def states(profile: Profile) -> list[tuple[str, int, int]]:
    """(state, start, duration) in µs."""
    return [(name, start // US, length // US) for _, name, start, length, _ in slices(profile)]


def stacks(profile: Profile, event: str) -> list[tuple[int, str]]:
    """(weight in µs, stack from the state inwards)."""
    return [
        (one.weight // US, " ".join(frame.name for frame in one.stack))
        for one in samples_of(profile)
        if one.event == event
    ]


def test_switch_records_become_time_off_the_cpu() -> None:
    profile = read(
        into(100)
        + clock(110)
        + left(120)
        + out(121)
        + into(150)
        + left(160)
        + out(160, " preempt")
        + into(165)
        + ended(170)
    )
    assert states(profile) == [
        ("running", 0, 21),
        ("waiting", 21, 29),
        ("running", 50, 10),
        ("runnable (preempted)", 60, 5),
        ("running", 65, 5),
    ]
    totals = events_of(profile)
    assert (totals[RUNNING], totals[SLEEPING], totals[RUNNABLE]) == (36 * US, 29 * US, 5 * US)
    # The innermost function is the one that waits; the process is the module of the state.
    assert stacks(profile, SLEEPING) == [(29, "waiting wait_for_it futex_wait")]
    assert not losses(profile) and profile.meta.complete
    assert profile.meta.main_event == "cpu-clock" and profile.meta.facts["clock of first sample"] == "50000100000 ns"
    # A track with states is no further thread.
    assert records(TABLES["summary"].rows(profile, Selection()))[0]["threads"] == 1


def test_tracepoints_tell_states_and_wakers() -> None:
    switch = "sched:sched_switch: prev_comm=app prev_pid=7 prev_prio=120 prev_state=D ==> next_comm=b next_pid=9 next_prio=120"
    wake = "sched:sched_waking: comm=app pid=7 prio=120 target_cpu=000"
    profile = read(
        into(100)
        + clock(105)
        + line(120, switch)
        + STACK
        + out(121)
        + line(140, wake, "b 9/9")
        + STACK
        + into(150)
        + ended(160)
    )
    assert states(profile) == [
        ("running", 0, 21),
        ("uninterruptible sleep", 21, 19),
        ("runnable", 40, 10),
        ("running", 50, 10),
    ]
    assert stacks(profile, SLEEPING) == [(19, "uninterruptible sleep wait_for_it futex_wait")]
    assert stacks(profile, SLEEPING_BY_WAKER) == [(19, "woken by thread 9 wait_for_it futex_wait schedule")]
    assert stacks(profile, RUNNABLE) == [(10, "runnable")]


def test_the_end_of_a_recording_ends_a_wait() -> None:
    """Of a thread that never returns, and of one that still runs, if the ends of threads are recorded."""
    profile = read(
        clock(100)
        + left(110)
        + out(110)
        + into(150, "app 5/8")
        + line(190, "PERF_RECORD_COMM: b:9/9", "b 9/9")
        + clock(200)
    )
    assert events_of(profile)[SLEEPING] == 90 * US and events_of(profile)[RUNNING] == 50 * US
    last = read(clock(100) + out(110) + into(150, "app 5/8") + ended(155, 9))
    assert states(last) == [("waiting", 10, 45), ("running", 50, 5)]
    # Without the ends of threads, it may have ended since.
    unknown = read(clock(100) + out(110) + into(150, "app 5/8") + out(155, task="b 9/9"))
    assert states(unknown) == [("waiting", 10, 45)]
    assert losses(unknown) == {UNKNOWN_END: (1, "thread 8 at 50000150000 ns")}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (out(110) + out(150) + into(160) + ended(165), MISSING_SWITCH),
        (into(110) + into(150) + out(160) + into(170) + ended(175), MISSING_SWITCH),
        (out(110) + ended(160), MISSING_SWITCH),
        (into(150) + out(110) + into(120) + ended(120), CLOCK_WENT_BACK),
    ],
)
def test_intervals_that_are_not_known_are_losses(text: str, reason: str) -> None:
    profile = read(clock(100) + text)
    assert {reason} == set(losses(profile))
    assert losses(profile)[reason][0] == 1
    assert all(length > 0 for _, _, length in states(profile))


def test_lost_records_make_the_time_around_them_unknown() -> None:
    """Between these two switches there may have been others, with another stack."""
    lost = line(130, "PERF_RECORD_LOST lost 12")
    profile = read(clock(100) + out(110) + lost + into(150) + out(160) + into(170) + ended(175))
    assert states(profile) == [("running", 50, 10), ("waiting", 60, 10), ("running", 70, 5)]
    assert {reason: count for reason, (count, _) in losses(profile).items()} == {
        LOST_IN_KERNEL: 12,
        LOST_BETWEEN_SWITCHES: 1,
    }


def test_switches_of_other_processes_and_of_idle_cpus() -> None:
    """As with -a: each thread has its own switches, and the last switch of an ended thread is no wait."""
    wide = "PERF_RECORD_SWITCH_CPU_WIDE"
    profile = read(
        clock(100)
        + line(110, f"{wide} OUT          next pid/tid:     0/0")
        + line(110, f"{wide} IN           prev pid/tid:     5/7", "swapper 0/0")
        + line(120, f"{wide} OUT          next pid/tid:     9/9", "swapper 0/0")
        + line(120, f"{wide} IN           prev pid/tid:     0/0", "other 9/9")
        + line(125, "PERF_RECORD_EXIT(9:9):(1:1)", "other 9/9")
        + line(130, f"{wide} OUT          next pid/tid:     5/7", "other 9/9")
        + line(130, f"{wide} IN           prev pid/tid:     9/9")
        + line(140, f"{wide} OUT          next pid/tid:     0/0")
    )
    assert [(thread, name, length // US) for thread, name, _, length, _ in slices(profile)] == [
        ("app", "waiting", 20),
        ("app", "running", 10),
        ("other", "running", 5),
    ]
    assert not losses(profile)


def test_impossible_numbers_are_no_error() -> None:
    far = "app 5/7 [000] {}.000000000: PERF_RECORD_SWITCH {}\n"
    for seconds in ("8999999999", "9999999999", "99999999999999999999"):
        profile = read(clock(100) + out(110) + far.format(seconds, "IN ") + far.format(seconds, "OUT "))
        assert all(start >= 0 and length > 0 for _, start, length in states(profile))
    huge = "app 9999999999/9999999999 [99999] 50.000110000: PERF_RECORD_SWITCH {}\n"
    assert not read(clock(100) + huge.format("IN ") + huge.format("sideways")).slices.num_rows
    name = "a\x1b[31m <b> 5/7"
    assert read(clock(100, name) + out(110, task=name) + into(120, name) + ended(130)).slices.num_rows == 2


def test_a_reused_thread_number_is_a_new_thread() -> None:
    again = line(160, "PERF_RECORD_FORK(5:7):(5:5)", "app 5/5")
    profile = read(clock(100) + into(110) + ended(120) + again + into(170) + out(180) + into(190) + ended(195))
    assert states(profile) == [("running", 10, 10), ("running", 70, 10), ("waiting", 80, 10), ("running", 90, 5)]


def test_records_do_not_disturb_samples_without_stacks() -> None:
    """perf aligns names to the right then, so that lines of samples and of records start with spaces."""
    sample = "             app     5/7     [000]    50.000{}000:       1000 cpu-clock:  401100 compute+0x5 (/bin/app)\n"
    record = "             app     5/7     [000]    50.000{}000: PERF_RECORD_SWITCH {}\n"
    profile = read(
        sample.format(100) + record.format(110, "OUT        ") + record.format(120, "IN         ") + sample.format(130)
    )
    assert events_of(profile)["cpu-clock"] == 2000 and states(profile) == [("waiting", 10, 10)]
    assert set(losses(profile)) == {UNKNOWN_END}


def test_recorded_program() -> None:
    """A real recording (tests/data/perf/waits.c): times are complete, and waits are where they belong."""
    text = zstandard.ZstdDecompressor().stream_reader((DATA / "off-cpu.script.txt.zst").read_bytes()).read()
    profile = perf_script.read(io.BytesIO(text))
    assert find_error(profile) is None and profile.meta.complete and not losses(profile)
    of = Counter[tuple[str | None, str]]()
    waits = Counter[str | None]()
    functions = {"lock-a": "contend", "lock-b": "contend", "consumer": "consume", "producer": "produce"}
    for one in samples_of(profile):
        of[one.comm, one.event] += one.weight
        if one.event == SLEEPING and one.comm in functions:
            waits[one.comm] += one.weight * any(frame.name == functions[one.comm] for frame in one.stack)
    for name in functions:
        # Every thread sleeps at least 3 × 2 ms there; only the start of a thread is elsewhere.
        assert 6_000_000 < waits[name] <= of[name, SLEEPING] < 1.1 * waits[name]
    assert "waits" not in waits
    # Per thread the states follow each other without a gap, from its first switch to its end.
    rows = slices(profile)
    for (thread, _, start, length, _), (after, _, begun, _, _) in pairwise(rows):
        assert thread != after or start + length == begun
    # Running time is sampled at 199 Hz, so that it is within a few periods.
    clocked = sum(weight for (_, event), weight in of.items() if event == "cpu-clock")
    ran = sum(weight for (_, event), weight in of.items() if event == RUNNING)
    assert abs(clocked - ran) < 5 * 5_025_125


@pytest.mark.heavy
@pytest.mark.parametrize("tracepoints", [False, True])
def test_new_recording(tmp_path: Path, tracepoints: bool) -> None:
    """A Python program that sleeps and reads a pipe, recorded as a job with “Time off the CPU” does."""
    perf = require("perf")
    events = ["-F", "199", "-e", "cpu-clock", "-e", "context-switches/period=1/"]
    if tracepoints:
        events = ["-c", "1", "-e", "cpu-clock/freq=199/", "-e", "sched:sched_switch", "-e", "sched:sched_waking"]
    recording = tmp_path / "perf.data"
    argv = [perf, "record", "-q", "-o", recording, *events, "-g", "--sample-cpu", "--switch-events"]
    done = subprocess.run([*argv, "--", sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"perf may not record these events here: {done.stderr[-300:]}")
    settings = Settings.load(tmp_path / "data", environ={}, reserve_bytes=0)
    profile = reading.read_profile(settings, [recording])
    assert find_error(profile) is None and profile.meta.complete
    slept = Counter[int | None]()
    for one in samples_of(profile):
        if one.event == SLEEPING:
            slept[one.tid] += one.weight
    # Both threads slept for 0.2 s: one in time.sleep, the other in read.
    assert [time_ns > 190_000_000 for time_ns in slept.values()] == [True, True]
    names = {name for _, name, _, _, _ in slices(profile)}
    assert ("sleeping" if tracepoints else "waiting") in names and "running" in names
    assert (SLEEPING_BY_WAKER in events_of(profile)) == tracepoints
