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
    (
        re.compile(rb"version https://git-lfs\.github\.com/spec/"),
        "is a pointer of Git LFS, not the file itself. Run git lfs pull in its repository, and give what is "
        "there then.",
    ),
    (
        re.compile(rb"FLR\x00"),
        "is a recording of Java Flight Recorder. Make collapsed stacks of it with async-profiler's converter: "
        "jfrconv --cpu -o collapsed FILE out.folded.",
    ),
    (
        re.compile(rb"\x00{8}\x03\x00{7}\x00{8}.{8}\x00{8}|\x00{4}\x03\x00{3}\x00{4}.{4}\x00{4}", re.DOTALL),
        "is a CPU profile of gperftools, in which functions are addresses. With the program beside it, make a "
        "file of pprof: go tool pprof -proto -output=out.pb.gz PROGRAM FILE.",
    ),
    (
        re.compile(
            rb"(?:goroutine|threadcreate) profile: total \d|heap profile:\s+\d|--- (?:contention|mutex):|"
            rb"--- heapz|heapz? v2/"
        ),
        "is a profile as text, of Go with debug=1 or of gperftools. Go: fetch it without debug, as protobuf. "
        "gperftools: go tool pprof -proto -output=out.pb.gz PROGRAM FILE.",
    ),
    (
        re.compile(rb"Nettrace"),
        "is an EventPipe recording of .NET (dotnet-trace). Convert it, and import the file that comes out: "
        "dotnet-trace convert --format Speedscope FILE.",
    ),
    (
        re.compile(rb"go 1\.\d+ trace\x00"),
        "is an execution trace of Go. Make a profile of what goroutines waited for: go tool trace -pprof=sync FILE > "
        "out.pb.gz (or net, syscall, sched).",
    ),
    (
        re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?<trace-(?:query-result|toc)\b"),
        "is what xctrace exports of a trace of Instruments. Make collapsed stacks of its time profile: "
        "inferno-collapse-xctrace FILE > out.folded.",
    ),
    (
        re.compile(
            rb"(?:Weight|Running Time|Bytes Used)\t+(?:Self Weight|Self|Count)[\t ].{0,80}?Symbol Name", re.DOTALL
        ),
        "is copied out of Instruments. Open it in speedscope (www.speedscope.app), and import the file that it "
        "exports.",
    ),
    (
        re.compile(
            rb'\s*\{\s*"meta"\s*:\s*\{.{0,100000}?"(?:preprocessedProfileVersion|stackwalk|processType)"\s*:|'
            rb'(?=\s*\{.{0,100000}?"meta"\s*:\s*\{)(?=.{0,100000}?"threads"\s*:\s*\[)'
            rb'(?=.{0,100000}?"(?:product|libs|processes|pausedRanges)"\s*:)(?!.{0,100000}?"(?:traceEvents|\$schema)"\s*:)',
            re.DOTALL,
        ),
        "is a profile of Firefox's profiler, which samply writes, too. Open it in speedscope (www.speedscope.app), and "
        "import the file that it exports; or record with perf instead of samply.",
    ),
    (
        re.compile(rb'\s*\{\s*"head"\s*:\s*\{\s*"callFrame"\s*:'),
        "is a sampled heap profile of V8. Open it in speedscope (www.speedscope.app), and import the file that it "
        "exports.",
    ),
    (
        re.compile(rb'\s*\{\s*"snapshot"\s*:\s*\{\s*"meta"\s*:'),
        "is a heap snapshot of V8: objects, without call stacks. Record a sampled heap profile in the browser instead, "
        "open it in speedscope, and import the file that it exports.",
    ),
    (
        re.compile(rb"v8-version,\d|shared-library,"),
        "is a log of V8 (node --prof). Record with node --cpu-prof, and import the .cpuprofile.",
    ),
    (
        re.compile(rb"v [0-9a-f]+ [0-9a-f]+\n[Xx] "),
        "is a recording of heaptrack. Have it write collapsed stacks, and import these: "
        "heaptrack_print -F out.folded FILE.",
    ),
    (
        re.compile(rb"desc: .{0,400}?\ncmd: .{0,4000}?\ntime_unit: ", re.DOTALL),
        "is a file of valgrind's massif. Record with valgrind --tool=callgrind for costs, or with heaptrack for "
        "memory.",
    ),
    (
        re.compile(rb"(?:Function|Function Stack|Source Function)[^\n]{0,200}?[,\t;|]\"?CPU Time", re.IGNORECASE),
        "is a table of VTune, which cannot be read. Record the program with perf record -g, and import perf.data.",
    ),
    (
        re.compile(rb"\{[\xa9)]\x03[^\n]{0,200}", re.DOTALL),
        "looks like what Python's cProfile writes, in which there are no call stacks. Record with py-spy: "
        "py-spy record --format speedscope -o out.json -- python PROGRAM.",
    ),
    (
        re.compile(rb"PERFFILE(?!2)"),
        "is a perf.data of a perf before Linux 3.1. Print it with the perf that recorded it, and import the text: "
        "perf script > out.txt.",
    ),
    (
        re.compile(rb".{0,4096}?(?:QuadD|Nsight Systems|nsys-rep)", re.DOTALL),
        "looks like a report of Nsight Systems. Record with PyTorch's profiler, or single kernels with Nsight Compute "
        "(ncu -o report), and import that.",
    ),
    (
        re.compile(rb"SQLite format 3\x00.{0,200000}?(?:CUPTI_ACTIVITY|StringIds)", re.DOTALL),
        "is a database of Nsight Systems (nsys export). Record with PyTorch's profiler, or single kernels with Nsight "
        "Compute (ncu -o report), and import that.",
    ),
    (
        re.compile(rb"SQLite format 3\x00"),
        "is a database of SQLite. Export what it holds in a form that can be read: collapsed stacks, for example.",
    ),
    (
        re.compile(rb"\x7fELF.{12}(?:\x04\x00|\x00\x04)", re.DOTALL),
        "is a core dump: one moment of a program. Record the program with perf record -g, and import perf.data.",
    ),
    (
        re.compile(rb"\x7fELF|MZ.{58}|[\xcf\xce]\xfa\xed\xfe|\xfe\xed\xfa[\xcf\xce]", re.DOTALL),
        "is a program or library. Record it while it runs: perfloom record -- PROGRAM.",
    ),
    (
        re.compile(rb"PK\x03\x04|.{257}ustar|7z\xbc\xaf\x27\x1c|Rar!\x1a\x07", re.DOTALL),
        "is an archive of files. Unpack it, and give the files in it. A .trace of Instruments is a folder: export its "
        "time profile with xctrace export, and make collapsed stacks of that with inferno-collapse-xctrace.",
    ),
    (
        re.compile(rb"BZh[1-9]1AY&SY|\x04\x22\x4d\x18|\x1f\x9d"),
        "is packed in a way that is not known here. Unpack it; files packed as .gz, .zst or .xz can stay as they are.",
    ),
    (
        re.compile(rb"\x89PNG|\xff\xd8\xff|GIF8|RIFF.{4}WEBP|%PDF-", re.DOTALL),
        "is a picture or a document. Give the file that it was made of.",
    ),
    (
        re.compile(rb"\s*<!doctype html|\s*<html\b", re.IGNORECASE),
        "is a web page: perhaps the error or the login that a server sent in place of the file. Download it again, and "
        "look at it in a browser.",
    ),
)


def get_advice(head: bytes) -> str | None:
    """What to do about a file that starts with `head`, behind its name in a sentence; None for one not known either."""
    return next((said for pattern, said in _ADVICE if pattern.match(head)), None)
