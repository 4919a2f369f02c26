"""Profiles to draw."""

from __future__ import annotations

import random
from collections.abc import Sequence

from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.profile import Meta, Profile
from perfloom.domain.tables import FrameKind

HOSTILE = (
    "<script>window.pwned=1</script>",
    '"><img src=x onerror=window.pwned=2>',
    "' onload='window.pwned=3",
    "]]></script><script>window.pwned=4</script>",
    "${window.pwned=5}",
    "A" * 10_000,
    "\u202eoverride\u202c of direction",
    "עברית שלום עולם",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 family \U0001f389 of signs",
    "nul\x00 bell\x07 escape\x1b[31m tab\t line\n end\x0b",
    "a\u0301\u0301\u0301\u0301\u0301\u0301 piled up",
    "",
    "  ",
    "\ufffe\uffff not characters",
    "&amp;&lt;",
    "123",
)
"""Names that a symbol may have."""


OFTEN = 100_000
"""A weight of samples so small that differences are not of few samples."""


def profile(
    stacks: Sequence[tuple[Sequence[str], int]], *, thread: str = "main", unit: str = "ns", each: int = 0
) -> Profile:
    """Of (names from the outermost to the innermost, weight); one sample each, a millisecond apart, or as many as weigh
    so much each."""
    builder = ProfileBuilder("perf script text")
    builder.add_run("program", "node1")
    event = builder.intern_event("cpu-clock", unit, sampling="frequency", rate=1000.0)
    task = builder.intern_thread(pid=1, tid=1)
    builder.set_thread_name(task, 0, thread)
    for number, (names, weight) in enumerate(stacks):
        frames = [builder.intern_frame(builder.intern_function(name, "/usr/bin/program")) for name in names]
        for part in range(weight // each if each else 1):
            at = 10**9 + number * 10**6 + part
            builder.add_sample(at, task, event, builder.intern_stack(frames), each or weight)
    return builder.finish(Meta("perf script text", command="program"))


def small(each: int = 0) -> Profile:
    """Every width known: main 100 % → left 60 % (→ leaf 45 %, other 15 %), right 30 % (→ leaf 30 %), 10 % itself."""
    return profile(
        [
            (("main", "left", "leaf"), 45_000_000),
            (("main", "left", "other"), 15_000_000),
            (("main", "right", "leaf"), 30_000_000),
            (("main",), 10_000_000),
        ],
        each=each,
    )


def changed(each: int = 0) -> Profile:
    """`small` later: left's leaf as it was, right's leaf doubled, other vanished, fresh appeared; 120 in all."""
    return profile(
        [
            (("main", "left", "leaf"), 45_000_000),
            (("main", "right", "leaf"), 60_000_000),
            (("main", "fresh"), 5_000_000),
            (("main",), 10_000_000),
        ],
        each=each,
    )


def hostile() -> Profile:
    """Every hostile name under one caller, each as wide as the others."""
    return profile([(("main", name, "leaf"), 1_000_000) for name in HOSTILE])


def deep(levels: int = 3_000) -> Profile:
    """One stack of that many different frames, with a leaf on every hundredth."""
    names = [f"level_{number}" for number in range(levels)]
    stacks = [(names, 50_000_000)]
    stacks += [((*names[: number + 1], "leaf"), 1_000_000) for number in range(0, levels - 1, 100)]
    return profile(stacks)


def empty() -> Profile:
    """An event without a sample."""
    builder = ProfileBuilder("perf script text")
    builder.intern_event("cpu-clock", "ns")
    builder.set_thread_name(builder.intern_thread(pid=1, tid=1), 0, "main")
    return builder.finish(Meta("perf script text"))


def large(samples: int = 200_000, stacks: int = 20_000, *, seed: int = 7, less: int = 0) -> Profile:
    """Threads, kinds, modules, two events, and a tree with much that is too narrow to be drawn.

    less: leave out stacks of every so many, for something to compare with.
    """
    chance = random.Random(seed)
    builder = ProfileBuilder("perf script text")
    builder.add_run("program --large", "node1")
    clock = builder.intern_event("cpu-clock", "ns", sampling="frequency", rate=999.0)
    faults = builder.intern_event("page-faults", "count", sampling="period", rate=1.0)
    threads = []
    for number in range(8):
        thread = builder.intern_thread(pid=100 + number // 4, tid=100 + number)
        builder.set_thread_name(thread, 0, ("python3", "worker", "writer", "reader")[number % 4])
        threads.append(thread)
    kinds = (FrameKind.USER, FrameKind.USER, FrameKind.PYTHON, FrameKind.INLINED, FrameKind.JIT, FrameKind.KERNEL)
    modules = {
        FrameKind.KERNEL: "[kernel.kallsyms]",
        FrameKind.JIT: "[JIT] tid 7",
        FrameKind.PYTHON: "/usr/bin/python3",
    }
    frames = []
    for number in range(1_000):
        kind = kinds[number % len(kinds)]
        module = modules.get(kind, ("/usr/lib/libc.so.6", "/opt/libmatrix.so")[number % 2])
        frames.append(
            builder.intern_frame(builder.intern_function(f"{kind.name.lower()}::step_{number}", module), kind=kind)
        )
    made = []
    for _ in range(stacks):
        stack = [frames[0]]
        while len(stack) < 40 and chance.random() < 0.9:
            stack.append(frames[min(999, (len(stack) * 11) % 900 + min(int(chance.expovariate(0.5)), 80))])
        made.append(builder.intern_stack(stack))
    times, tasks, cpus, events, places, weights = [], [], [], [], [], []
    for number in range(samples):
        place = min(int(chance.expovariate(3.0) * stacks), stacks - 1)
        if less and place % less == 0:
            continue
        is_fault = number % 10 == 0
        times.append(10**9 + number * 10_000)
        tasks.append(threads[chance.randrange(8)])
        cpus.append(number % 4)
        events.append(faults if is_fault else clock)
        places.append(made[place])
        weights.append(1 if is_fault else 1_001_001)
    builder.add_samples(times, tasks, cpus, events, places, weights)
    return builder.finish(Meta("perf script text", command="program --large", facts={"hostname": "node1"}))
