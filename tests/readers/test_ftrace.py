"""Text of the kernel's tracer: switches, marks, calls, and damaged lines."""

import io

import pytest

from perfloom.analysis.timeline.model import open_timeline, prepare_timeline
from perfloom.analysis.timeline.tracks import list_tracks
from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import get_strings
from perfloom.domain.validation import find_error
from perfloom.ingest.losses import UNRECOGNIZED_LINE, UNRECOGNIZED_SCHED_EVENT
from perfloom.ingest.trace.losses import LOST_SWITCHES, NEVER_ENDED
from perfloom.ingest.trace.scheduler import BY_WAKER, RUNNABLE, RUNNING, SLEEPING, SWITCHES
from perfloom.readers import detect_format, ftrace
from perfloom.readers.ftrace.format import LOST, OVERWRITTEN, UNMATCHED_RETURN
from tests.support.made import events_of, losses, slices

HEAD = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 9/12   #P:2\n#\n"
US = 1_000


def read(text: str) -> Profile:
    data = text.encode()
    assert detect_format(data).name == ftrace.FORMAT
    found = ftrace.read(io.BytesIO(data))
    assert find_error(found) is None
    return found


def line(task: str, us: int, told: str, cpu: int = 0, process: str = "") -> str:
    return f"{task:>20} {process}[{cpu:03}] d..2. 100.{us:06}: {told}\n"


def switch(left: str, tid: int, state: str, taken: str, other: int) -> str:
    return (
        f"sched_switch: prev_comm={left} prev_pid={tid} prev_prio=120 prev_state={state} ==> "
        f"next_comm={taken} next_pid={other} next_prio=120"
    )


SCHEDULED = HEAD + "".join(
    (
        line("<idle>-0", 100, switch("swapper/0", 0, "R", "my app", 7), process="(-----) "),
        line("my app-7", 130, "sched_waking: comm=b-2 pid=9 prio=120 target_cpu=001"),
        line("my app-7", 140, switch("my app", 7, "R+", "b-2", 9), process="(    5) "),
        line("b-2-9", 155, switch("b-2", 9, "D|K", "my app", 7)),
        line("my app-7", 165, switch("my app", 7, "S", "swapper/0", 0)),
        line("<idle>-0", 170, "sched_waking: comm=b-2 pid=9 prio=120 target_cpu=001", 1),
        line("<idle>-0", 180, switch("swapper/1", 0, "R", "b-2", 9), 1),
        # The thread that leaves here was never switched in.
        line("c-11", 190, switch("c", 11, "S", "swapper/1", 0), 1),
        line("c-11", 200, "hrtimer_expire: function=tick", 1),
    )
)


def test_switches_become_cpu_slices_and_states() -> None:
    profile = read(SCHEDULED)
    assert slices(profile) == [
        ("CPU 0", "my app", 0, 40 * US, 0),
        ("CPU 0", "b-2", 40 * US, 15 * US, 0),
        ("CPU 0", "my app", 55 * US, 10 * US, 0),
        ("CPU 1", "b-2", 80 * US, 10 * US, 0),
        ("my app", "running", 0, 40 * US, 0),
        ("my app", "runnable (preempted)", 40 * US, 15 * US, 0),
        ("my app", "running", 55 * US, 10 * US, 0),
        ("my app", "sleeping", 65 * US, 35 * US, 0),
        ("b-2", "runnable", 30 * US, 10 * US, 0),
        ("b-2", "running", 40 * US, 15 * US, 0),
        ("b-2", "uninterruptible sleep", 55 * US, 15 * US, 0),
        ("b-2", "runnable", 70 * US, 10 * US, 0),
        ("b-2", "running", 80 * US, 10 * US, 0),
        ("c", "sleeping", 90 * US, 10 * US, 0),
    ]
    assert events_of(profile) == {
        RUNNING: 75 * US,
        RUNNABLE: 35 * US,
        SLEEPING: 60 * US,
        BY_WAKER: 15 * US,
        SWITCHES: 4,
    }
    known = {(row["name"], row["pid"], row["tid"], row["process"]) for row in profile.threads.to_pylist()}
    assert {("my app", 5, 7, "my app"), ("b-2", None, 9, "b-2"), ("CPU 1", None, None, "CPUs")} <= known
    assert losses(profile) == {
        OVERWRITTEN: (3, "9 of 12 were still there"),
        LOST_SWITCHES: (1, "thread 11 on CPU 1 at 100000190000 ns"),
    }
    assert len(profile.instants) == 1 and profile.meta.facts == {"tracer": "nop"}
    # As libtraceevent prints it, with CR LF, and with single events.
    other = SCHEDULED.replace("prev_comm=my app prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 ",
                              "my app:7 [120] S ==> swapper/0:0 [120]").replace("\n", "\r\n")  # fmt: skip
    assert slices(read(other)) == slices(profile)


def test_marks_and_system_calls() -> None:
    profile = read(
        "cpus=2\n"
        + "".join(
            (
                line("app-7", 10, "tracing_mark_write: B|5|frame|1"),
                line("app-7", 12, "sys_enter_openat: dfd: 1"),
                line("app-7", 13, "sys_openat(dfd: ffffff9c, filename: 7f)"),
                line("app-7", 14, "sys_openat -> 0x3"),
                line("app-7", 20, "tracing_mark_write: E|5"),
                line("app-7", 21, "tracing_mark_write: C|5|queue|3"),
                line("app-7", 22, "tracing_mark_write: S|5|request|77"),
                line("app-8", 32, "tracing_mark_write: F|5|request|77", 1),
                line("app-8", 33, "tracing_mark_write: I|5|done", 1),
                line("app-8", 34, "vfs_read <-ksys_read", 1),
                line("app-8", 35, "sys_read -> 0x0", 1),
                line("app-8", 36, "sched_switch: nonsense", 1),
                "CPU:1 [LOST 12 EVENTS]\n",
                "garbage\n",
            )
        )
    )
    assert slices(profile) == [
        ("app", "frame|1", 0, 10 * US, 0),
        ("app", "openat", 3 * US, 1 * US, 1),
        ("request", "request", 12 * US, 10 * US, 0),
    ]
    assert [row["value"] for row in profile.counters.to_pylist()] == [3]
    names = get_strings(profile.functions, "name")
    assert [names[row["function"]] for row in profile.instants.to_pylist()] == ["sys_enter_openat", "done", "vfs_read"]
    assert {reason: count for reason, (count, _) in losses(profile).items()} == {
        UNMATCHED_RETURN: 1,
        UNRECOGNIZED_SCHED_EVENT: 1,
        LOST: 12,
        UNRECOGNIZED_LINE: 1,
    }


def test_states_are_below_their_thread() -> None:
    profile = read(
        SCHEDULED + line("b-2-9", 195, "tracing_mark_write: B|5|work") + line("b-2-9", 199, "tracing_mark_write: E|5")
    )
    shown, _ = list_tracks(profile, open_timeline(profile, prepare_timeline(profile)), Selection())
    assert [track.name for track in shown] == ["b-2 9", "b-2 9 states", "my app 7", "CPU 0", "CPU 1", "c 11"]


def test_kernel_calls_are_nested() -> None:
    graph = """# tracer: function_graph
#
# CPU  DURATION                  FUNCTION CALLS
 0)               |  sys_open() {
 0)   0.382 us    |    kmem_cache_free();
 0) + 10.000 us   |  }
 ------------------------------------------
 1)  bash-123   =>   ls-124
 ------------------------------------------

 1)   ==========> |
 1) ! 123.450 us  |  vfs_read [ext4]();
 1)   2.000 us    |  } /* never_begun */
 1)               |  open_still() {
"""
    profile = read(graph)
    assert losses(profile) == {
        UNMATCHED_RETURN: (1, "} /* never_begun */"),
        NEVER_ENDED: (1, losses(profile)[NEVER_ENDED][1]),
    }
    assert slices(profile) == [
        ("CPU 0", "sys_open", 0, 10_000, 0),
        ("CPU 0", "kmem_cache_free", 0, 382, 1),
        ("ls", "vfs_read [ext4]", 0, 123_450, 0),
        ("ls", "open_still", 123_450, 0, 0),
    ]
    timed = " 17.000010 |   0)   ls-9   |               |  outer() {\n 17.000012 |   0)   ls-9   |   1.500 us    |    f();\n"
    timed += " 17.000020 |   0)   ls-9   |   10.000 us   |  }\n"
    assert slices(read("# tracer: function_graph\n" + timed)) == [
        ("ls", "outer", 0, 10_000, 0),
        ("ls", "f", 2_000, 1_500, 1),
    ]
    reported = line("ls-9", 10, "funcgraph_entry:                   |  outer() {")
    reported += line("ls-9", 12, "funcgraph_entry:        1.500 us   |    f();")
    reported += line("ls-9", 20, "funcgraph_exit:        10.000 us   |  }")
    assert slices(read(reported)) == [("ls", "outer", 0, 10_000, 0), ("ls", "f", 2_000, 1_500, 1)]


def test_systrace_page() -> None:
    begin = (
        '<!DOCTYPE html>\n<html>\n<head><title>Android System Trace</title>\n<script>\nlet x-1 = "[000]";\n</script>\n'
    )
    page = begin + '<script class="trace-data" type="application/text">\n' + SCHEDULED + "</script>\n<p>end</p>\n"
    profile = read(page)
    assert slices(profile) == slices(read(SCHEDULED)) and losses(profile) == losses(read(SCHEDULED))


def test_empty_trace_message_has_advice() -> None:
    with pytest.raises(UnreadableInput, match="Enable events"):
        ftrace.read(io.BytesIO(HEAD.encode()))
    assert not ftrace.sniff(b"bash 12 [000] 100.000001: cycles: \n") and not ftrace.sniff(b"")
