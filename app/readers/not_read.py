"""Files that people bring and nothing can be read of, and what to bring instead."""

import re

_ADVICE: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (
        re.compile(
            rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!DOCTYPE svg[^>]*>\s*)?(?:<!--(?:(?!-->).){0,2000}-->\s*)*<svg\b", re.DOTALL
        ),
        "is a picture. It does not hold the numbers that it was drawn from. Import what it was made of: of py-spy, "
        "record with --format speedscope or --format raw; of flamegraph.pl, the collapsed stacks; of perf, perf.data.",
    ),
    (
        re.compile(rb"\x04\x22\x4d\x18.{0,64}?memray|memray\0", re.DOTALL),
        "is a recording of memray, which only memray itself can read. Have it write a table, and import that: "
        "memray transform csv FILE -o allocations.csv (with --leaks: what was never freed).",
    ),
    (
        re.compile(rb"\s*<!doctype html>.{0,20000}?memray", re.DOTALL | re.IGNORECASE),
        "is a page of memray. Import a table of the same recording instead: "
        "memray transform csv FILE -o allocations.csv.",
    ),
    (
        re.compile(rb'\s*\{\s*"total_num_allocations"\s*:'),
        "is a summary of memray, in which there are no call stacks. Import the table of the recording instead: "
        "memray transform csv FILE -o allocations.csv.",
    ),
    (
        re.compile(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"costs"\s*:\s*\[.{0,2000}?"callchain"\s*:', re.DOTALL),
        "is made for gprof2dot. Of memray, write a table instead: memray transform csv FILE -o allocations.csv. Of "
        "another tool, its collapsed stacks or callgrind's form.",
    ),
    (
        re.compile(
            rb"\s*-{60,}\s+Task +\| +Runtime ms +\||\s*\*?[A-Z.][0-9. ] .{0,2000}? secs [A-Z.][0-9. ] => ", re.DOTALL
        ),
        "is a summary of perf sched (latency or map), which does not say when what ran. Import the recording as text: "
        "perf script -i perf.data > sched.txt, or perf sched timehist -i perf.data > sched.txt.",
    ),
)


def advice(head: bytes) -> str | None:
    """What to do about a file that starts with `head`, behind its name in a sentence; None for one not known either."""
    return next((said for pattern, said in _ADVICE if pattern.match(head)), None)
