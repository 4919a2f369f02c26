"""Tables of perf lock: by caller with stacks, by thread, by lock, as CSV, of perf lock report; and other texts."""

import io

import pytest

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.domain.tables import get_strings
from perfloom.domain.validation import find_error
from perfloom.ingest.losses import UNRECOGNIZED_LINE
from perfloom.readers import detect_format, perf_data, perf_lock, perf_script
from perfloom.readers.perf_lock.contention_tables import ACQUIRED, CONTENDED, WAIT
from perfloom.readers.perf_lock.format import BAD_LOCKS, NO_BEGIN, NO_END, NO_EVENT, NO_TOTAL
from tests.support.made import losses

CALLERS = """Looking at the vmlinux_path (8 entries long)
 contended   total wait     max wait     avg wait         type   caller

         4      2.83 ms      1.09 ms    707.05 us     spinlock   ext4_read_bh+0xa2
			0xffffffff82203efe  lock_slowpath+0x10e
			0x7fa597cdf001
         1       1.50 s       1.50 s       1.50 s      rwsem:W   vm_mmap+0x1
what is this

=== output for debug===

bad: 0, total: 12
bad rate: 0.00 %
histogram of events caused bad sequence
    acquire: 0
"""
THREADS = """ contended   total wait     max wait     avg wait          pid   comm

         9    323.00 ns    300.00 ns     35.89 ns        29036   my app
"""
LOCKS = """ contended   total wait     max wait     avg wait            address   symbol

         6     22.17 us     11.00 us      3.70 us   ffff9f4140059000   cgroup_mutex (mutex)
         1      1.00 us      1.00 us      1.00 us   00009f4140059001    (spinlock)
"""
CSV = """# output: contended, total wait, max wait, avg wait, type, caller
194, 1627541, 54589, 8389, spinlock, __srcu_read_lock+0x2
1, nothing, 1, 1, mutex, f
"""
REPORT = """                Name   acquired  contended     avg wait   total wait     max wait     min wait

 exit to mod...          7          6     54.78 us    328.69 us    159.64 us     20.08 us
"""


def read(text: str) -> Profile:
    data = text.encode()
    assert detect_format(data).name == perf_lock.FORMAT
    found = perf_lock.read(io.BytesIO(data))
    assert find_error(found) is None
    return found


def samples(profile: Profile) -> set[tuple[str, str, int]]:
    """(event, stack from the outermost, weight) of each sample."""
    names, frames, stacks = (
        get_strings(profile.functions, "name"),
        profile.frames.to_pylist(),
        profile.stacks.to_pylist(),
    )
    events = get_strings(profile.events, "name")

    def above(stack: int) -> list[str]:
        row = stacks[stack]
        return [*above(row["parent"]), names[frames[row["frame"]]["function"]]] if stack else []

    return {(events[row["event"]], ";".join(above(row["stack"])), row["weight"]) for row in profile.samples.to_pylist()}


def test_tables_become_waits_and_counts() -> None:
    profile = read(CALLERS)
    assert samples(profile) == {
        (WAIT, "[unknown];lock_slowpath;spinlock", 2_830_000),
        (CONTENDED, "[unknown];lock_slowpath;spinlock", 4),
        (WAIT, "vm_mmap;rwsem:W", 1_500_000_000),
        (CONTENDED, "vm_mmap;rwsem:W", 1),
    }
    assert [(row["name"], row["unit"]) for row in profile.events.to_pylist()] == [(WAIT, "ns"), (CONTENDED, "count")]
    assert losses(profile) == {UNRECOGNIZED_LINE: (1, "line 8: what is this")}
    profile = read(THREADS)
    assert samples(profile) == {(WAIT, "lock", 323), (CONTENDED, "lock", 9)}
    assert [(row["tid"], row["name"]) for row in profile.threads.to_pylist() if row["tid"]] == [(29036, "my app")]
    locks = {
        *((WAIT, "cgroup_mutex;mutex", 22_170), (CONTENDED, "cgroup_mutex;mutex", 6)),
        *((WAIT, "lock at 0x9f4140059001;spinlock", 1_000), (CONTENDED, "lock at 0x9f4140059001;spinlock", 1)),
    }
    assert samples(read(LOCKS)) == locks
    profile = read(CSV)
    assert samples(profile) == {
        (WAIT, "__srcu_read_lock;spinlock", 1_627_541),
        (CONTENDED, "__srcu_read_lock;spinlock", 194),
    }
    assert losses(profile) == {UNRECOGNIZED_LINE: (1, "line 3: 1, nothing, 1, 1, mutex, f")}
    assert samples(read(REPORT)) == {
        (WAIT, "exit to mod...", 328_690),
        (CONTENDED, "exit to mod...", 6),
        (ACQUIRED, "exit to mod...", 7),
    }


def test_csv_with_any_separator() -> None:
    """As print_header_csv and print_lock_stat_csv of perf's builtin-lock.c write it."""
    by_lock = "# output: contended, total wait, address, symbol, type\n6, 22170, ffff9f, cgroup_mutex, mutex\n1, 9, 1a, , mutex\n"
    for mark in (",", ";", "\t", "||", " "):
        assert samples(read(by_lock.replace(",", mark))) == {
            *((WAIT, "cgroup_mutex;mutex", 22_170), (CONTENDED, "cgroup_mutex;mutex", 6)),
            *((WAIT, "lock at 0x1a;mutex", 9), (CONTENDED, "lock at 0x1a;mutex", 1)),
        }
    profile = read(
        "# output: total wait, type, caller, stacktrace\n"
        "50, mutex, f+0x1, 0xffff1 slow+0x10: 0xffff2 : 0xffff3 f+0x1\n"
        "60, rwsem:W, g+0x2\n"
        "# debug: total=12, bad=3, bad_acquire=3\n"
    )
    assert samples(profile) == {(WAIT, "f;[unknown];slow;mutex", 50), (WAIT, "g;rwsem:W", 60)}
    assert losses(profile) == {BAD_LOCKS: (3, "line 4: # debug: total=12, bad=3, bad_acquire=3")}
    profile = read("# output: contended, total wait, pid, owner\n3, 99, 17, my app\n1, 5, -1, Unknown\n")
    assert {one for one in samples(profile) if one[0] == WAIT} == {
        (WAIT, "held by my app", 99),
        (WAIT, "held by Unknown", 5),
    }
    assert samples(read("  total wait     max wait   cgroup\n\n     1.00 us      1.00 us   /user.slice\n")) == {
        (WAIT, "/user.slice", 1_000)
    }


def test_contention_events_become_waits_with_stacks() -> None:
    def event(task: str, us: int, told: str) -> str:
        return f"{task} [001] 50.{us:06}: lock:contention_{told}\n\tff10 slow+0x1 ([kernel.kallsyms])\n\t  40 work+0x1 (/a)\n\n"

    text = (
        "# cmdline : perf lock record ./a\n"
        + event("a     5/7", 1, "end: 0xff01 (ret=0)")
        + event("a     5/7", 10, "begin: 0xff02 (flags=SPIN|MUTEX)")
        + event("dd     5/8", 11, "begin: 0xff02 (flags=WRITE)")
        + event("a     5/7", 12, "begin: 0xff03 (flags=SPIN)")
        + event("a     5/7", 14, "end: 0xff03 (ret=0)")
        # First spinning, then sleeping.
        + event("a     5/7", 15, "begin: 0xff02 (flags=MUTEX)")
        + event("a     5/7", 20, "end: 0xff02 (ret=0)")
        + "nonsense\n"
    )
    profile = read(text)
    assert samples(profile) == {
        *((WAIT, "work;slow;mutex", 10_000), (CONTENDED, "work;slow;mutex", 1)),
        *((WAIT, "work;slow;spinlock", 2_000), (CONTENDED, "work;slow;spinlock", 1)),
    }
    assert [(row["pid"], row["tid"], row["name"]) for row in profile.threads.to_pylist()] == [(5, 7, "a"), (5, 8, "dd")]
    assert profile.meta.command == "perf lock record ./a" and profile.samples["time_ns"].to_pylist() == [
        0,
        0,
        2_000,
        2_000,
    ]
    assert losses(profile) == {
        NO_BEGIN: (1, "lock 0xff01 of thread 7"),
        NO_END: (1, "lock 0xff02 of thread 8"),
        NO_EVENT: (1, "line 30: nonsense"),
    }
    assert perf_data.read(io.BytesIO(text.encode())).meta.main_event == WAIT
    # With other events, a text of perf script is one of samples.
    assert detect_format((text + "a 7 [001] 50.000001: 1 cycles: 40 f (a)\n").encode()).name == perf_script.FORMAT


def test_losses() -> None:
    counts = " contended     avg wait         type   caller\n\n         4    707.05 us     spinlock   f+0xa2\n"
    profile = read(counts)
    assert samples(profile) == {(CONTENDED, "f;spinlock", 4)} and list(losses(profile)) == [NO_TOTAL]
    with pytest.raises(UnreadableInput, match="perf lock record"):
        perf_lock.read(io.BytesIO(CALLERS[:130].encode()))
