"""What the preflight says of events, against what perf's own parser takes."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from perfloom.recording.recorders.event_grammar import find_event_problem, find_group_problem
from perfloom.recording.recorders.events import single_events
from tests.support.marks import slow_but_every
from tests.support.parts import require

TAKEN = """
cpu-clock page-faults: page-faults:uk page-faults:ppp page-faults:SDIeb cycles:pp faults:k page-faults//u
page-faults/period=10/uk page-faults/period=010/ page-faults/period=0x10,percore/ page-faults/period=10,period=20/
cpu-clock/name=a-b:c/ cpu-clock/name='a=b,c'/ cpu-clock/name=a!b/ cpu-clock/metric-id=abc/ cpu-clock/config=0x3/
cpu-clock/config/ cpu-clock/percore=0/ cpu-clock/period=9223372036854775807/ software/config=0/u software//
mem:0x1000 mem:1000 mem:0x1000:rw mem:0x1000/4:rw mem:0x1000/8:x mem:0x1000:wr:uk mem:0x1000/4:u mem:0x1000/2
sched:sched_switch sched:sched_switch// 1:0 1:0/period=1000000/ {cpu-clock,page-faults} {cpu-clock:u,faults:k}:S
g{cpu-clock,page-faults}:u {cpu-clock/period=100000/,page-faults}:uS r1:u
"""
TAKEN_TO_SAMPLE = """
cpu-clock/freq=50000/ cpu-clock/freq=0/ cpu-clock/freq/ cpu-clock/call-graph=fp,max-stack=127,nr=3/ cpu-clock/time=0/
cpu-clock/call-graph=dwarf,stack-size=65528/ cpu-clock/stack-size=65536/ cpu-clock/overwrite,no-inherit/
cpu-clock/inherit=5/ cpu-clock/aux-output=0/ page-faults/freq=10,period=20/ sched:sched_switch/call-graph=fp,nr=3/:u
sched:sched_switch/max-stack=4,no-inherit/u software/freq=10,config=0/
"""
REFUSED = """
mem:zzz mem:main mem:0x1000/4/ mem:0x1000:rwq mem:0x1000:rr
page-faults:uk/period=10/ page-faults/period=10/:uk page-faults:uz page-faults:uu page-faults:pppp page-faults:X
page-faults/period=10/uz page-faults/period=10/pppp page-faults/,/ page-faults/period=/ page-faults/period=1e3/
cpu-clock/period=18446744073709551616/ cpu-clock/period=0x/ cpu-clock/percore=3/
cpu-clock/time=2/ cpu-clock/name=3/ cpu-clock/name/ cpu-clock/name=a=b/ cpu-clock/call-graph/ cpu-clock/config=abc/
cpu-clock/umask=1/ cpu-clock/zzz/ cpu-clock/max-events=3/ cycles/zzz/ cycles:u/period=10/ cycles:pppp
sched:sched_switch/period=1/ sched:sched_switch:u/call-graph=fp/ sched:sched_switch/name=x/ software/config=0/:u
{cpu-clock,page-faults}:z {} cpu-clock/call-graph=lbr/ cpu-clock/branch_type=any/ cpu-clock/aux-output/
cpu-clock/call-graph=dwarf,stack-size=65529/ sched:sched_switch/aux-output/ cpu-clock/period=9223372036854775808/
"""
REFUSED_TO_COUNT = """
cpu-clock/freq=99/ cpu-clock/call-graph=fp/ cpu-clock/max-stack=3/ cpu-clock/time=0/ cpu-clock/overwrite/
cpu-clock/no-inherit/ sched:sched_switch/call-graph=fp/ software/freq=10,config=0/
"""


def refused(event: str, counting: bool) -> bool:
    return find_group_problem(event) is not None or any(
        find_event_problem(part, counting) for part in single_events(event)
    )


def taken_by_perf(event: str, counting: bool, directory: Path) -> bool:
    words = ["stat"] if counting else ["record", "-q", "-o", str(directory / "perf.data")]
    done = subprocess.run([str(require("perf")), *words, "-e", event, "true"], capture_output=True, text=True)
    # Of hardware that is not there, and of what a user may not observe, the parser has nothing to say.
    return done.returncode == 0 or any(words in done.stderr for words in ("event is not supported", "Access to perf"))


@pytest.mark.slow
@pytest.mark.heavy
@pytest.mark.parametrize("event", slow_but_every(5, (TAKEN + TAKEN_TO_SAMPLE).split()))
def test_valid_sampled_events_are_accepted(event: str, tmp_path: Path) -> None:
    assert not refused(event, counting=False)
    if event.startswith("mem:") or "sched:" in event:
        needs_root()
    assert taken_by_perf(event, False, tmp_path)


@pytest.mark.parametrize("event", TAKEN.split())
def test_valid_counted_events_are_accepted(event: str, tmp_path: Path) -> None:
    assert not refused(event, counting=True)
    if "sched:" in event:
        needs_root()
    assert taken_by_perf(event, True, tmp_path)


@pytest.mark.heavy
@pytest.mark.parametrize("event", REFUSED.split())
def test_invalid_sampled_events_are_rejected(event: str, tmp_path: Path) -> None:
    assert refused(event, counting=False)
    assert not taken_by_perf(event, False, tmp_path)


@pytest.mark.parametrize("event", REFUSED_TO_COUNT.split())
def test_invalid_counted_events_are_rejected(event: str, tmp_path: Path) -> None:
    assert refused(event, counting=True) and not refused(event, counting=False)
    assert not taken_by_perf(event, True, tmp_path)


@pytest.mark.parametrize("event", ["mem:0x1000/3", "mem:0x1000/16", "mem:0x1000:rwx", "mem:0x1000:rx"])
def test_breakpoints_that_no_cpu_has_are_refused(event: str) -> None:
    assert refused(event, counting=False)


def needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("tracepoints and breakpoints in the kernel are for root")


def test_listed_events_are_accepted() -> None:
    listed = subprocess.run([require("perf"), "list", "--no-desc"], capture_output=True, text=True).stdout
    names = re.findall(r"^  (\S+)", listed, re.M)
    assert len(names) > 20
    described = re.compile(r"[<\[=]|//modifier$")
    assert [name for name in names if not described.search(name) and refused(name, True)] == []
