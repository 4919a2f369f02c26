"""perf script's text in every form, valid and invalid."""

from __future__ import annotations

import io

import pytest

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.event_names import FIRST_EVENT_FACT
from perfloom.domain.profile import Profile
from perfloom.domain.tables import FrameKind
from perfloom.ingest.losses import UNRECOGNIZED_LINE
from perfloom.readers import detect_format, perf_script
from perfloom.readers.perf_script import profile as perf_assembly
from tests.support import paths
from tests.support.samples import Frame, losses_of, samples_of

DATA = paths.DATA / "perf"


def read(text: str | bytes) -> Profile:
    raw = text.encode() if isinstance(text, str) else text
    assert detect_format(raw).name == "perf-script"
    return perf_script.read(io.BytesIO(raw))


def read_as_is(text: str | bytes) -> Profile:
    """Without detecting the format."""
    return perf_script.read(io.BytesIO(text.encode() if isinstance(text, str) else text))


STACK = "\n\t          400570 main+0x10 (/bin/a)\n\n"


@pytest.mark.parametrize(
    ("header", "comm", "pid", "tid", "cpu", "time_ns", "event", "weight"),
    [
        ("swapper     0 [000] 158665.570607: cpu-clock: ", "swapper", None, 0, 0, 158665570607000, "cpu-clock", 1),
        ("java 25607 4794564.109216: 1 cycles:", "java", None, 25607, -1, 4794564109216000, "cycles", 1),
        ("java 12688 [002] 6544038.708352: 235 cpu-clock:", "java", None, 12688, 2, 6544038708352000, "cpu-clock", 235),
        (
            "V8 WorkerThread 25607 4794564.109216: 104345 cycles:",
            "V8 WorkerThread",
            None,
            25607,
            -1,
            4794564109216000,
            "cycles",
            104345,
        ),
        ("java 24636/25607 [000] 4794564.109216: 1 cycles:", "java", 24636, 25607, 0, 4794564109216000, "cycles", 1),
        (
            "V8 WorkerThread 24636/25607 [000] 94564.109216: 100 cycles:u:",
            "V8 WorkerThread",
            24636,
            25607,
            0,
            94564109216000,
            "cycles:u",
            100,
        ),
        (
            "worker one  6674/6676  [000]  4691.096752753:    5000000 cpu-clock/period=5/: ",
            "worker one",
            6674,
            6676,
            0,
            4691096752753,
            "cpu-clock",
            5000000,
        ),
        (":25607 25607 [001] 1.000001: 3 cycles:", ":25607", None, 25607, 1, 1000001000, "cycles", 3),
        (":-1    -1 [001] 1.000001: 3 cycles:", ":-1", None, -1, 1, 1000001000, "cycles", 3),
        ("Thread 1 999 [000] 1.000000: 4 cycles:", "Thread 1", None, 999, 0, 1000000000, "cycles", 4),
        ("a 12 34/56 1.000000: 4 cycles:", "a 12", 34, 56, -1, 1000000000, "cycles", 4),
        (
            "x 5 [003] 1.000000: 9 sched:sched_switch: prev_comm=a ==> next_comm=b",
            "x",
            None,
            5,
            3,
            1000000000,
            "sched:sched_switch",
            9,
        ),
        ("noclock 15294 cpu-clock: ", "noclock", None, 15294, -1, 0, "cpu-clock", 1),
        ("comm  12.000000: 10 cycles:", "comm", None, None, -1, 12000000000, "cycles", 10),
        ("noevent 12 3.000000: ", "noevent", None, 12, -1, 3000000000, "samples", 1),
        ("bare 30690 ", "bare", None, 30690, -1, 0, "samples", 1),
        ("kworker/0:1-ev 12 [000] 1.000000: 5 cycles:", "kworker/0:1-ev", None, 12, 0, 1000000000, "cycles", 5),
    ],
)
def test_headers(
    header: str, comm: str, pid: int | None, tid: int | None, cpu: int, time_ns: int, event: str, weight: int
) -> None:
    profile = read_as_is(header + STACK)
    (sample,) = samples_of(profile)
    assert sample[:7] == (time_ns, comm, pid, tid, cpu, event, weight)
    assert sample.stack == (Frame("main", "/bin/a", 0x400570, 0x10, None, FrameKind.USER, 0),)
    assert not profile.losses.num_rows


@pytest.mark.parametrize(
    ("line", "frame"),
    [
        (
            "ffffffff8103ce3b native_safe_halt ([kernel.kallsyms])",
            ("native_safe_halt", "[kernel.kallsyms]", FrameKind.KERNEL),
        ),
        (
            "8c3453 tcp_sendmsg (/lib/modules/4.3.0/build/vmlinux)",
            ("tcp_sendmsg", "/lib/modules/4.3.0/build/vmlinux", FrameKind.KERNEL),
        ),
        (
            "7d8 ipv4_conntrack_local ([nf_conntrack_ipv4])",
            ("ipv4_conntrack_local", "[nf_conntrack_ipv4]", FrameKind.KERNEL),
        ),
        ("7d8 f (/lib/modules/5.1/extra/zfs.ko.xz)", ("f", "/lib/modules/5.1/extra/zfs.ko.xz", FrameKind.KERNEL)),
        (
            "7d8 bpf_prog_6deef7357e7b4530 (bpf_prog_6deef7357e7b4530)",
            ("bpf_prog_6deef7357e7b4530", "bpf_prog_6deef7357e7b4530", FrameKind.KERNEL),
        ),
        ("7f72 __vdso_gettimeofday ([vdso])", ("__vdso_gettimeofday", "[vdso]", FrameKind.USER)),
        (
            "7f72 Ljava/io/PrintStream;::print (/tmp/perf-19982.map)",
            ("Ljava/io/PrintStream;::print", "/tmp/perf-19982.map", FrameKind.JIT),
        ),
        (
            "7f72 jitted (/home/me/.debug/jit/x/jitted-12-3.so)",
            ("jitted", "/home/me/.debug/jit/x/jitted-12-3.so", FrameKind.JIT),
        ),
        ("7f72 py::main:/srv/app.py (/tmp/perf-7.map)", ("py::main:/srv/app.py", "/tmp/perf-7.map", FrameKind.PYTHON)),
        ("7f72 [unknown] (/usr/lib/libc.so.6)", ("[unknown]", "/usr/lib/libc.so.6", FrameKind.UNKNOWN)),
        ("0 [unknown] ([unknown])", ("[unknown]", "[unknown]", FrameKind.UNKNOWN)),
        ("ffffffff81 [unknown] ([kernel.kallsyms])", ("[unknown]", "[kernel.kallsyms]", FrameKind.KERNEL)),
        ("7f72 main (/usr/bin/old (deleted))", ("main", "/usr/bin/old (deleted)", FrameKind.USER)),
        ("7f72 main (/tmp/a (b)/prog)", ("main", "/tmp/a (b)/prog", FrameKind.USER)),
        ("7f72 operator+(A const&, A const&) (/bin/a)", ("operator+(A const&, A const&)", "/bin/a", FrameKind.USER)),
        ("7f72 A::operator->() const (/bin/a)", ("A::operator->() const", "/bin/a", FrameKind.USER)),
        ("7f72 (anonymous namespace)::f (/bin/a)", ("(anonymous namespace)::f", "/bin/a", FrameKind.USER)),
        (
            "7f72 <fn() -> u8 as core::ops::FnOnce>::call_once (/bin/a)",
            ("<fn() -> u8 as core::ops::FnOnce>::call_once", "/bin/a", FrameKind.USER),
        ),
        (
            "7f72 decltype({parm#1}->x) f<int>(int) (/bin/a)",
            ("decltype({parm#1}->x) f<int>(int)", "/bin/a", FrameKind.USER),
        ),
        ("7f72  (/usr/lib/libc.so.6)", ("", "/usr/lib/libc.so.6", FrameKind.UNKNOWN)),
    ],
)
def test_frames(line: str, frame: tuple[str, str, FrameKind]) -> None:
    profile = read(f"a 1 1.000000: 5 cycles:\n\t{line}\n\n")
    (sample,) = samples_of(profile)
    assert [(f.name, f.module, f.kind) for f in sample.stack] == [frame]
    assert not profile.losses.num_rows


def test_offset_is_split_from_symbol() -> None:
    profile = read("a 1 1.000000: 5 cycles:\n\td70 _start+0xffff018fd5dce000 (/usr/lib/ld.so)\n\n")
    (sample,) = samples_of(profile)
    assert sample.stack[0][:4] == ("_start", "/usr/lib/ld.so", 0xD70, 0xFFFF018FD5DCE000)


def test_inlined_functions_have_the_outer_module() -> None:
    text = (
        "a 1 1.0"
        + "00000: 5 cycles:\n\t10 inner (inlined)\n\t10 outer (inlined)\n\t10 f+0x4 (/bin/a)\n\t20 main (/bin/b)\n\n"
    )
    (sample,) = samples_of(read(text))
    assert [(f.name, f.module, f.kind, f.inline_depth) for f in sample.stack] == [
        ("main", "/bin/b", FrameKind.USER, 0),
        ("f", "/bin/a", FrameKind.USER, 0),
        ("outer", "/bin/a", FrameKind.INLINED, 1),
        ("inner", "/bin/a", FrameKind.INLINED, 2),
    ]


@pytest.mark.parametrize("module", ["/tmp/perf-12.map", "/bin/a"])
def test_inlined_chain_in_one_line(module: str) -> None:
    (sample,) = samples_of(read(f"a 1 1.000000: 5 cycles:\n\t10 f->g->h ({module})\n\n"))
    assert [(f.name, f.module, f.inline_depth, f.address) for f in sample.stack] == [
        ("f", module, 0, 0x10),
        ("g", module, 1, None),
        ("h", module, 2, None),
    ]
    assert [f.kind == FrameKind.INLINED for f in sample.stack] == [False, True, True]


def test_source_lines_below_frames() -> None:
    text = (
        "a 1 1.000000: 5 cycles:\n\t10 f+0x8b (/bin/a)\n  uniform_int_dist.h:300\n"
        "\t20 main+0x9 (/bin/a)\n  file.cpp:137\n\t30 start+0xd5 (/lib64/libc.so)\n  libc.so[27b25]\n\n"
    )
    profile = read(text)
    (sample,) = samples_of(profile)
    assert [(f.name, f.line) for f in sample.stack] == [("start", None), ("main", 137), ("f", 300)]
    assert not profile.losses.num_rows


def test_samples_without_stacks() -> None:
    profile = read((DATA / "flat.script.txt").read_bytes())
    found = samples_of(profile)
    lines = [line for line in (DATA / "flat.script.txt").read_text().splitlines() if line and line[0] != "#"]
    assert len(found) == len(lines) > 5
    for sample, line in zip(found, lines, strict=True):
        assert sample.comm in ("worker one", "worker two", "spin")
        address, symbol = line.split(":ppp:")[1].split()[:2]
        (frame,) = sample.stack
        assert (f"{frame.address:x}", f"{frame.name}+{frame.offset:#x}") == (address, symbol)


def test_several_events_and_units() -> None:
    profile = read((DATA / "events.script.txt").read_bytes())
    assert profile.events.select(["name", "unit", "weighted", "sampling", "rate"]).to_pylist() == [
        {
            "name": "cpu-clock",
            "unit": "ns",
            "weighted": True,
            "sampling": "period",
            "rate": 5e6,
        },
        {
            "name": "page-faults",
            "unit": "count",
            "weighted": True,
            "sampling": "period",
            "rate": 200.0,
        },
    ]
    assert profile.events.column("attributes").to_pylist() == ["period=5000000", "period=200"]
    # The header lists it first, whatever the first sample is.
    assert profile.meta.main_event == "cpu-clock"
    first = (DATA / "events.script.txt").read_text().split("\n#\n")[1].split("\n")[0]
    assert f"{profile.meta.facts[FIRST_EVENT_FACT]}/" in first


def test_header_becomes_facts() -> None:
    meta = read((DATA / "spin.script.txt").read_bytes()).meta
    assert meta.facts["hostname"] == "vm"
    assert meta.facts["cpudesc"] == "AMD EPYC"
    assert meta.command == "/usr/bin/perf record -q -N -F 499 -g -o spin.perf.data -- ./spin"
    assert meta.complete


def test_arguments_with_line_ends() -> None:
    text = (
        "# ========\n# captured on : x\n# cmdline : /usr/bin/perf record -- python3 -c \na 1 9.000000: 5 cycles:\n\n"
        "print(1)\n# missing features: A\n# ========\n#\nb 1 1.000000: 5 cycles:" + STACK
    )
    profile = read(text)
    assert [s.comm for s in samples_of(profile)] == ["b"]
    assert profile.meta.command == "/usr/bin/perf record -- python3 -c \na 1 9.000000: 5 cycles:\n\nprint(1)"
    assert profile.meta.facts["missing features"] == "A"
    garbage = read(text.replace("\nb 1", "\n?\nb 1"))
    assert losses_of(garbage) == {UNRECOGNIZED_LINE: (1, "line 10: ?")}


def test_time_of_day_from_header() -> None:
    text = (
        "# captured on : x\n# clockid: monotonic (1)\n"
        "# reference time: 2020-12-12 01:02:03.123456 = 1607734923.123456 (TOD) = 100.500000000 (monotonic)\n"
        "a 1 101.500000001: 5 cycles:" + STACK
    )
    meta = read(text).meta
    assert meta.start_epoch_ns == 1607734924123456001
    assert meta.clock == "monotonic (1)"


def test_sample_without_stack_counts() -> None:
    profile = read("a 1 1.000000: 5 cycles:\n\nb 2 2.000000: 7 cycles:\nc 3 3.000000: 9 cycles:" + STACK)
    assert [(s.comm, s.weight, len(s.stack)) for s in samples_of(profile)] == [("a", 5, 0), ("b", 7, 0), ("c", 9, 1)]


@pytest.mark.parametrize("ending", ["", "\n", "\n\n", "\n\n\n\n"])
def test_last_sample_counts_for_any_text_end(ending: str) -> None:
    text = "a 1 1.000000: 5 cycles:" + STACK + "a 1 2.000000: 7 cycles:\n\t10 f (/bin/a)" + ending
    profile = read(text)
    assert [(s.weight, s.stack[0].name) for s in samples_of(profile)] == [(5, "main"), (7, "f")]
    # perf ends each stack with an empty line: without it, frames may be missing.
    assert profile.meta.complete == (ending != "\n")
    assert not profile.losses.num_rows


def test_windows_line_ends() -> None:
    text = (DATA / "events.script.txt").read_text()
    assert samples_of(read(text.replace("\n", "\r\n"))) == samples_of(read(text))


def test_thread_names_change_over_time() -> None:
    text = "".join(f"{comm} 7/7 {t}.000000: 1 cycles:{STACK}" for t, comm in enumerate(["sh", "sh", "ls", "sh"], 1))
    profile = read(text)
    assert profile.threads.num_rows == 1
    assert [row["name"] for row in profile.thread_names.to_pylist()] == ["sh", "ls", "sh"]
    assert [s.comm for s in samples_of(profile)] == ["sh", "sh", "ls", "sh"]


def test_two_names_at_the_same_time() -> None:
    text = "".join(f"{comm} 7/7 1.000000: 1 cycles:{STACK}" for comm in ["sh", "ls", "sh"])
    profile = read(text)
    assert sorted((s.comm, s.pid, s.tid) for s in samples_of(profile)) == [("ls", 7, 7), ("sh", 7, 7), ("sh", 7, 7)]


def test_samples_without_times_are_counted() -> None:
    profile = read("".join(f"a {tid} cpu-clock: {STACK}" for tid in (5, 6, 5)))
    assert [s.tid for s in samples_of(profile)] == [5, 6, 5]
    assert profile.meta.duration_ns is None
    assert profile.meta.clock == perf_assembly.IN_ORDER


def test_times_are_exact() -> None:
    text = "a 1 9999999.123456789: 1 cycles:" + STACK + "a 1 10000000.000000001: 1 cycles:" + STACK
    profile = read(text)
    assert [s.time_ns for s in samples_of(profile)] == [9999999123456789, 10000000000000001]
    assert profile.meta.duration_ns == 876543212


def test_lost_record_adds_no_thread() -> None:
    lost = "swapper     0/0     [001]  2.000000000: PERF_RECORD_LOST lost 7\n:-1 -1/-1 2.5: PERF_RECORD_LOST lost 2\n"
    profile = read("a 7/7 1.000000: 5 cycles:" + STACK + lost + "a 7/7 3.000000: 5 cycles:" + STACK)
    assert profile.threads.column("tid").to_pylist() == [7] and profile.samples.num_rows == 2
    assert losses_of(profile)[perf_assembly.LOST_IN_KERNEL][0] == 9


def test_losses_of_perf_are_reported() -> None:
    text = "a 1 1.000000: 5 cycles:" + STACK + "work2 23843/23845  2640.556291124: PERF_RECORD_LOST lost 2441\n"
    text += "work2 23843/23845  2641.5: PERF_RECORD_LOST lost 9\n" + "b 1 3.000000: 5 cycles:" + STACK
    profile = read(text)
    assert len(samples_of(profile)) == 2
    count, example = losses_of(profile)[perf_assembly.LOST_IN_KERNEL]
    assert count == 2450
    assert example.startswith("line 4: work2")


def test_other_records_are_ignored() -> None:
    text = (
        "         swapper     0     0.000000: PERF_RECORD_MMAP -1/0: [0xff(0x12) @ 0xff]: x [kernel.kallsyms]_text\n"
        "              ls  3700  1738.017050: PERF_RECORD_COMM exec: ls:3700/3700\n"
        "              ls  3700  1738.017051: PERF_RECORD_COMM: ls:3700/3700\n"
        "ls  3700  1738.018000:          5 cpu-clock: \n\t10 f (/bin/a)\n\n"
        "              ls  3700  1738.019052: PERF_RECORD_EXIT(3700:3700):(3665:3665)\n"
    )
    profile = read(text)
    assert len(samples_of(profile)) == 1
    assert not profile.losses.num_rows


def test_garbage_within_a_sample() -> None:
    text = b"a 1 1.000000: 5 cycles:\n\t10 f (/bin/a)\n\x00\xff\xfe garbage\n\t20 main (/bin/a)\n\n"
    text += b"b 2 2.000000: 6 cycles:\n\t10 f (/bin/a)\n\n"
    profile = read(text)
    assert [(s.comm, [f.name for f in s.stack]) for s in samples_of(profile)] == [("a", ["main", "f"]), ("b", ["f"])]
    assert losses_of(profile) == {perf_assembly.NO_FRAME: (1, "line 3: \x00\\xff\\xfe garbage")}


def test_garbage_between_samples() -> None:
    text = b"a 1 1.000000: 5 cycles:\n\t10 f (/bin/a)\n\n\x01\x02\x03\nmore\n\n\t30 lost (/bin/a)\n\n"
    text += b"b 2 2.000000: 6 cycles:\n\t10 f (/bin/a)\n\n"
    profile = read(text)
    assert [s.comm for s in samples_of(profile)] == ["a", "b"]
    assert losses_of(profile) == {UNRECOGNIZED_LINE: (3, "line 4: \x01\x02\x03")}


def test_huge_period() -> None:
    profile = read(f"a 1 1.000000: {2**64 - 1} cycles:{STACK}a 1 2.000000: 3 cycles:{STACK}")
    assert [s.weight for s in samples_of(profile)] == [3]
    assert losses_of(profile)[perf_assembly.IMPOSSIBLE_PERIOD][0] == 1 and not profile.meta.complete
    largest = read(f"a 1 1.000000: {2**63 - 1} cycles:{STACK}")
    assert [s.weight for s in samples_of(largest)] == [2**63 - 1]


@pytest.mark.parametrize("absurd", [[2**63 - 1], [2**63 - 1, 2**62 + 5], [2**62, 2**62]])
def test_periods_that_overflow_are_lost(absurd: list[int]) -> None:
    """Only their own samples are lost; other samples and the clock are unaffected."""
    good = "".join(f"a 1 {n}.000000: {n} cycles:{STACK}" for n in range(10, 15))
    bad = "".join(f"a 1 {n}.000000: {weight} cycles:{STACK}" for n, weight in enumerate(absurd))
    profile = read(bad + good)
    assert [s.weight for s in samples_of(profile)] == [10, 11, 12, 13, 14]
    assert losses_of(profile) == {perf_assembly.IMPOSSIBLE_WEIGHT: (len(absurd), f"line 1: a period of {absurd[0]}")}
    assert profile.meta.facts[perf_assembly.FIRST_SAMPLE_FACT] == f"{10 * 10**9} ns"
    assert profile.meta.duration_ns == 4 * 10**9


def test_unknown_text_after_an_event() -> None:
    text = "a 1 1.000000: 5 cpu/mem-loads/P:  ffff88 5080021 |OP LOAD|LVL L1" + STACK
    profile = read(text)
    assert [f.name for f in samples_of(profile)[0].stack] == ["main"]
    assert losses_of(profile)[perf_assembly.UNKNOWN_FIELDS][0] == 1


def test_address_that_looks_like_a_period() -> None:
    """If the event is not printed, however many spaces follow it."""
    (found,) = samples_of(read("a 1 1.000000:   401136   leaf+0x12 (/tmp/a)\n"))
    assert [(frame.name, frame.address) for frame in found.stack] == [("leaf", 0x401136)]


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert(1)</script>",
        "../../etc/passwd",
        '"; rm -rf ~ #',
        "a\u2028b",
        "ä€𝄞",
        "\x1b[31mred",
        "%s%n",
        "=1+1",
    ],
)
def test_hostile_names_are_unchanged(name: str) -> None:
    profile = read(f"{name[:15]} 1 1.000000: 5 cycles:\n\t10 {name} ({name})\n\n")
    (sample,) = samples_of(profile)
    assert sample.comm == name[:15]
    assert [(f.name, f.module) for f in sample.stack] == [(name, name)]


def test_invalid_utf8() -> None:
    profile = read(b"a\xff 1 1.000000: 5 cycles:\n\t10 f\xfe (/bin/\xfd)\n\t10 f\xfc (/bin/\xfd)\n\n")
    (sample,) = samples_of(profile)
    assert sample.comm == "a\\xff"
    assert [f.name for f in sample.stack] == ["f\\xfc", "f\\xfe"]


def test_long_names_and_deep_stacks() -> None:
    long = "std::vector<" + "std::pair<int, A>, " * 520 + "int>::push_back"
    assert len(long) > 9_900
    deep = "".join(f"\t{i:x} f{i} (/bin/a)\n" for i in range(3000))
    profile = read(f"a 1 1.000000: 5 cycles:\n\t10 {long} (/bin/a)\n\na 1 2.000000: 5 cycles:\n{deep}\n")
    first, second = samples_of(profile)
    assert first.stack[0].name == long
    assert [f.name for f in second.stack] == [f"f{i}" for i in reversed(range(3000))]


def test_text_without_samples() -> None:
    profile = read("# ========\n# captured on    : Sat Nov 21 10:41:02 2026\n# hostname : vm\n# ========\n#\n")
    assert profile.samples.num_rows == 0
    assert profile.meta.facts["hostname"] == "vm"
    with pytest.raises(UnreadableInput, match="x has no samples"):
        perf_script.read(io.BytesIO(b"nothing of the kind\n"), "x")


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["spin", "events", "dwarf", "flat"])
def test_truncated_anywhere(name: str) -> None:
    """Truncated at every 97 bytes and at every kilobyte: everything before is read, and nothing else."""
    raw = (DATA / f"{name}.script.txt").read_bytes()
    whole = samples_of(read(raw))
    for end in sorted({*range(0, len(raw), 1024), *range(len(raw) - 3000, len(raw), 97)}):
        try:
            found = samples_of(read_as_is(raw[:end]))
        except UnreadableInput:
            found = []
        # The last one may have lost a part of its stack.
        assert found[:-1] == whole[: max(0, len(found) - 1)], end
        assert raw[:end].count(b"\n\n") - 1 <= len(found) or name == "flat"


def test_text_truncated_in_a_line_is_incomplete() -> None:
    meta = read("a 1 1.000000: 5 cycles:" + STACK + "a 1 2.000000: 5 cycles:\n\t10 ma").meta
    assert not meta.complete
    assert meta.reasons == ("The text ends in the middle of line 5; the rest is missing.",)


def test_shell_note_is_a_reason() -> None:
    meta = read("a 1 1.000000: 5 cycles:" + STACK + "# incomplete : The recording was cut short.\n").meta
    assert (meta.complete, meta.reasons) == (False, ("The recording was cut short.",))


def test_too_long_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_script, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(perf_script, "MAX_LINE_BYTES", 4000)
    text = "a 1 1.000000: 5 cycles:" + STACK + "x" * 50_000 + "\n" + "b 1 2.000000: 5 cycles:" + STACK
    profile = read(text)
    assert [s.comm for s in samples_of(profile)] == ["a", "b"]
    count, example = losses_of(profile)[perf_script.TOO_LONG]
    assert count == 1
    assert example == "line 4: 50,001 bytes"


@pytest.mark.heavy
@pytest.mark.parametrize("size", [40, 64, 333, 1000, 4096])
@pytest.mark.parametrize("name", ["spin", "events", "dwarf", "flat"])
def test_chunk_size_does_not_matter(monkeypatch: pytest.MonkeyPatch, name: str, size: int) -> None:
    raw = (DATA / f"{name}.script.txt").read_bytes()
    whole = read(raw)
    monkeypatch.setattr(perf_script, "CHUNK_BYTES", size)
    monkeypatch.setattr(perf_script, "MAX_LINE_BYTES", 4 * size)
    pieces = read(raw)
    if size >= 333:
        assert samples_of(pieces) == samples_of(whole)
        assert losses_of(pieces) == losses_of(whole)
    else:
        assert pieces.samples.num_rows <= whole.samples.num_rows


@pytest.mark.parametrize("text", ["", "\n\n\n", "a;b;c 1\n", "{}", "x" * 5000, "\t\t\t\n"])
def test_other_texts_are_not_recognized(text: str) -> None:
    assert not perf_script.sniff(text.encode())
