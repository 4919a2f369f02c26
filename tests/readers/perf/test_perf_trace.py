"""The output of perf trace: complete and interrupted calls, faults, summaries, and other lines."""

import io
import json

import pytest

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.losses import STACK_OF_CALL
from perfloom.domain.profile import Profile
from perfloom.domain.tables import get_strings
from perfloom.domain.validation import find_error
from perfloom.ingest.losses import UNRECOGNIZED_LINE
from perfloom.readers import detect_format, perf_trace
from perfloom.readers.perf_trace.format import LOST, NO_BEGIN, NO_END
from perfloom.readers.perf_trace.profile import CALLS, ERRORS, TIME
from tests.support.made import events_of, losses, slices

US = 1_000
TRACE = """         ? (         ): sh/7  ... [continued]: execve())                                           = 0
     0.100 ( 0.018 ms): sh/7 brk()                                                                 = 0x5602f9b5e000
     0.400 ( 0.020 ms): sh/7 openat(dfd: CWD, filename: "a (b) = c", flags: RDONLY)                = -1 ENOENT (No such file)
     0.500 (         ): sh/7 wait4(upid: -1, stat_addr: 0x7ffc)                                    ...
     0.600 (         ): cat x/8 read(buf: 0x7f, count: 131072)                                     ...
     0.600 ( 1.500 ms): cat x/8  ... [continued]: read())                                             = 157
                                       read (/usr/lib/libc.so.6)
     2.200 (         ): cat x/8 rt_sigreturn()                                                     ...
     2.300 (         ): cat x/8 exit_group()                                                       = ?
     2.400 ( 0.000 ms): cat x/8 minfault [elf_load+0x28a] => 0x7fa42d416110 (?k)
     2.500 (         ): sh/7 sched:sched_process_exit(comm: "cat", pid: 8)
     2.600 (         ): sh/7 what is that
     0.500 (28.799 ms): sh/7  ... [continued]: wait4())                                            = 8 (cat)
    30.000 (         ): sh/7 read(fd: 0)                                                           ...
LOST 12 events!
"""
SUMMARY = """
 Summary of events:

 sh (7), 174 events, 24.4%

   syscall            calls  errors  total       min       avg       max       stddev
                                     (msec)    (msec)    (msec)    (msec)        (%)
   --------------- --------  ------ -------- --------- --------- ---------     ------
   wait4                  4      2    41.104     0.018    10.276    28.986     66.70%
   brk                    3      0     0.078     0.020     0.026     0.032     13.04%

 cat (8), 2 events, 1.0%

   wait4                  1      0     1.000     1.000     1.000     1.000      0.00%
"""


def read(text: str) -> Profile:
    data = text.encode()
    assert detect_format(data).name == perf_trace.FORMAT
    found = perf_trace.read(io.BytesIO(data))
    assert find_error(found) is None
    return found


def test_calls_become_slices() -> None:
    profile = read(TRACE + SUMMARY)
    assert slices(profile) == [
        ("sh", "brk", 0, 18 * US, 0),
        ("sh", "openat", 300 * US, 20 * US, 0),
        ("sh", "wait4", 400 * US, 28_799 * US, 0),
        ("sh", "read", 29_900 * US, 0, 0),
        ("cat x", "read", 500 * US, 1_500 * US, 0),
        ("cat x", "rt_sigreturn", 2_100 * US, 0, 0),
        ("cat x", "exit_group", 2_200 * US, 0, 0),
    ]
    assert events_of(profile) == {"host time": (18 + 20 + 28_799 + 1_500) * US}
    told = [json.loads(text) for text in get_strings(profile.argument_sets, "text")]
    assert {"result": "0x5602f9b5e000"} in told and {
        "arguments": "upid: -1, stat_addr: 0x7ffc",
        "result": "8 (cat)",
    } in told
    assert {
        "arguments": 'dfd: CWD, filename: "a (b) = c", flags: RDONLY',
        "result": "-1 ENOENT (No such file)",
        "error": "ENOENT",
    } in told
    names = get_strings(profile.functions, "name")
    assert [names[row["function"]] for row in profile.instants.to_pylist()] == ["minfault", "sched:sched_process_exit"]
    found = {reason: count for reason, (count, _) in losses(profile).items()}
    assert found.items() >= {NO_BEGIN: 1, STACK_OF_CALL: 1, NO_END: 1, UNRECOGNIZED_LINE: 1, LOST: 12}.items()
    # If only one thread is traced, perf does not print which.
    assert slices(read("     0.100 ( 0.018 ms): brk() = 0x56\n")) == [("the traced program", "brk", 0, 18 * US, 0)]


def test_summary_becomes_samples() -> None:
    profile = read(SUMMARY)
    assert events_of(profile) == {TIME: 42_182 * US, CALLS: 8, ERRORS: 2}
    assert [(row["tid"], row["name"]) for row in profile.threads.to_pylist()] == [(7, "sh"), (8, "cat")]
    assert losses(profile) == {}


def test_empty_trace_message_has_advice() -> None:
    with pytest.raises(UnreadableInput, match="Record with perf trace"):
        perf_trace.read(io.BytesIO(b"nothing\n"))
