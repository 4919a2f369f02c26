"""Files that users may open but that cannot be read, and which files to use instead."""

import re

_ADVICE: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (
        re.compile(rb'\s*\{(?=.{0,4000}?"raw_events"\s*:)(?=.{0,4000}?"max_events_per_run"\s*:)', re.DOTALL),
        "has the settings of a PerfAnalyzer job, and no measurements. Import the .results file of the job together "
        "with its data files (NAME_proc0_EVENT).",
    ),
    (
        re.compile(
            rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!DOCTYPE svg[^>]*>\s*)?(?:<!--(?:(?!-->).){0,2000}-->\s*)*<svg\b", re.DOTALL
        ),
        "is a picture without the numbers that it was drawn from. Import its source: with py-spy, record with "
        "--format speedscope or --format raw; with flamegraph.pl, import the collapsed stacks; with perf, "
        "perf.data.",
    ),
    (
        re.compile(rb"\x04\x22\x4d\x18.{0,64}?memray|memray\0", re.DOTALL),
        "is a memray recording, which only memray itself can read. Convert it to a table and import that: memray "
        "transform csv FILE -o allocations.csv (with --leaks: only memory that was never freed).",
    ),
    (
        re.compile(rb"\s*<!doctype html>.{0,20000}?memray", re.DOTALL | re.IGNORECASE),
        "is a memray page. Import a table of the same recording instead: memray transform csv FILE -o allocations.csv.",
    ),
    (
        re.compile(rb'\s*\{\s*"total_num_allocations"\s*:'),
        "is a memray summary, which has no call stacks. Import the table of the recording instead: memray "
        "transform csv FILE -o allocations.csv.",
    ),
    (
        re.compile(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"costs"\s*:\s*\[.{0,2000}?"callchain"\s*:', re.DOTALL),
        "is made for gprof2dot. From memray, write a table instead: memray transform csv FILE -o allocations.csv. "
        "From other tools, import collapsed stacks or a callgrind file.",
    ),
    (
        re.compile(
            rb"\s*-{60,}\s+Task +\| +Runtime ms +\||\s*\*?[A-Z.][0-9. ] .{0,2000}? secs [A-Z.][0-9. ] => ", re.DOTALL
        ),
        "is a perf sched summary (latency or map), which has no times of single switches. Import the recording as "
        "text: perf script -i perf.data > sched.txt, or perf sched timehist -i perf.data > sched.txt.",
    ),
    (
        re.compile(rb"version https://git-lfs\.github\.com/spec/"),
        "is a Git LFS pointer, not the file itself. Run git lfs pull in its repository, then import the file.",
    ),
    (
        re.compile(rb"HPCRUN-|HPCPROF-"),
        "is a measurement or trace of HPCToolkit, or a file of a database of 2021 or 2022. Make a database of the "
        "measurements with a newer version: hpcstruct MEASUREMENTS, then hpcprof -o DATABASE MEASUREMENTS. Import the "
        "directory DATABASE.",
    ),
    (
        re.compile(rb"FLR\x00"),
        "is a Java Flight Recorder recording. Convert it to collapsed stacks with the converter of async-profiler: "
        "jfrconv --cpu -o collapsed FILE out.folded.",
    ),
    (
        re.compile(rb"\x00{8}\x03\x00{7}\x00{8}.{8}\x00{8}|\x00{4}\x03\x00{3}\x00{4}.{4}\x00{4}", re.DOTALL),
        "is a gperftools CPU profile, which has addresses instead of functions. Where the program is installed, "
        "convert it to pprof: go tool pprof -proto -output=out.pb.gz PROGRAM FILE.",
    ),
    (
        re.compile(
            rb"(?:goroutine|threadcreate) profile: total \d|heap profile:\s+\d|--- (?:contention|mutex):|"
            rb"--- heapz|heapz? v2/"
        ),
        "is a text profile of Go (debug=1) or gperftools. Go: fetch it without debug, as protobuf. gperftools: go "
        "tool pprof -proto -output=out.pb.gz PROGRAM FILE.",
    ),
    (
        re.compile(rb"Nettrace"),
        "is an EventPipe recording of .NET (dotnet-trace). Convert it, and import the output file: dotnet-trace "
        "convert --format Speedscope FILE.",
    ),
    (
        re.compile(rb"go 1\.\d+ trace\x00"),
        "is a Go execution trace. Convert it to a profile of goroutine waits: go tool trace -pprof=sync FILE > "
        "out.pb.gz (or net, syscall, sched).",
    ),
    (
        re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?<trace-(?:query-result|toc)\b"),
        "is an xctrace export of an Instruments trace. Convert its time profile to collapsed stacks: "
        "inferno-collapse-xctrace FILE > out.folded.",
    ),
    (
        re.compile(
            rb"(?:Weight|Running Time|Bytes Used)\t+(?:Self Weight|Self|Count)[\t ].{0,80}?Symbol Name", re.DOTALL
        ),
        "is a copy from Instruments. Open it in speedscope (www.speedscope.app), and import the file that it exports.",
    ),
    (
        re.compile(
            rb'\s*\{\s*"meta"\s*:\s*\{.{0,100000}?"(?:preprocessedProfileVersion|stackwalk|processType)"\s*:|'
            rb'(?=\s*\{.{0,100000}?"meta"\s*:\s*\{)(?=.{0,100000}?"threads"\s*:\s*\[)'
            rb'(?=.{0,100000}?"(?:product|libs|processes|pausedRanges)"\s*:)(?!.{0,100000}?"(?:traceEvents|\$schema)"\s*:)',
            re.DOTALL,
        ),
        "is a Firefox Profiler profile, which samply also writes. Open it in speedscope (www.speedscope.app), and "
        "import the file that it exports; or record with perf instead of samply.",
    ),
    (
        re.compile(rb'\s*\{\s*"head"\s*:\s*\{\s*"callFrame"\s*:'),
        "is a V8 sampled heap profile. Open it in speedscope (www.speedscope.app), and import the file that it "
        "exports.",
    ),
    (
        re.compile(rb'\s*\{\s*"snapshot"\s*:\s*\{\s*"meta"\s*:'),
        "is a V8 heap snapshot: objects, without call stacks. Record a sampled heap profile in the browser "
        "instead, open it in speedscope, and import the file that it exports.",
    ),
    (
        re.compile(rb"v8-version,\d|shared-library,"),
        "is a V8 log (node --prof). Record with node --cpu-prof, and import the .cpuprofile.",
    ),
    (
        re.compile(rb"v [0-9a-f]+ [0-9a-f]+\n[Xx] "),
        "is a heaptrack recording. Convert it to collapsed stacks and import these: heaptrack_print -F out.folded "
        "FILE.",
    ),
    (
        re.compile(rb"desc: .{0,400}?\ncmd: .{0,4000}?\ntime_unit: ", re.DOTALL),
        "is a Valgrind massif file. Record with valgrind --tool=callgrind for costs, or with heaptrack for memory.",
    ),
    (
        re.compile(rb"(?:Function|Function Stack|Source Function)[^\n]{0,200}?[,\t;|]\"?CPU Time", re.IGNORECASE),
        "is a VTune table, which is not supported. Record the program with perf record -g, and import perf.data.",
    ),
    (
        re.compile(rb"\{[\xa9)]\x03[^\n]{0,200}", re.DOTALL),
        "looks like the output of Python's cProfile, which has no call stacks. Record with py-spy: py-spy record "
        "--format speedscope -o out.json -- python PROGRAM.",
    ),
    (
        re.compile(rb"PERFFILE(?!2)"),
        "is a perf.data file from before Linux 3.1. Print it with the perf that recorded it, and import the text: "
        "perf script > out.txt.",
    ),
    (
        re.compile(rb".{0,4096}?(?:QuadD|Nsight Systems|nsys-rep)", re.DOTALL),
        "looks like an Nsight Systems report. Record with PyTorch's profiler, or single kernels with Nsight "
        "Compute (ncu -o report), and import that.",
    ),
    (
        re.compile(rb"SQLite format 3\x00.{0,200000}?(?:CUPTI_ACTIVITY|StringIds)", re.DOTALL),
        "is an Nsight Systems database (nsys export). Record with PyTorch's profiler, or single kernels with "
        "Nsight Compute (ncu -o report), and import that.",
    ),
    (
        re.compile(rb"SQLite format 3\x00"),
        "is an SQLite database. Export its data in a supported format, such as collapsed stacks.",
    ),
    (
        re.compile(rb"\x7fELF.{12}(?:\x04\x00|\x00\x04)", re.DOTALL),
        "is a core dump: the state at one moment. Record the program with perf record -g, and import perf.data.",
    ),
    (
        re.compile(rb"\x7fELF|MZ.{58}|[\xcf\xce]\xfa\xed\xfe|\xfe\xed\xfa[\xcf\xce]", re.DOTALL),
        "is a program or library. Record it while it runs: perfloom record -- PROGRAM.",
    ),
    (
        re.compile(rb"PK\x03\x04|.{257}ustar|7z\xbc\xaf\x27\x1c|Rar!\x1a\x07", re.DOTALL),
        "is an archive of files. Unpack it, and import the files in it. A .trace of Instruments is a folder: "
        "export its time profile with xctrace export, and convert that to collapsed stacks with "
        "inferno-collapse-xctrace.",
    ),
    (
        re.compile(rb"BZh[1-9]1AY&SY|\x04\x22\x4d\x18|\x1f\x9d"),
        "is compressed in an unsupported way. Unpack it; files compressed as .gz, .zst or .xz can stay as they are.",
    ),
    (
        re.compile(rb"\x89PNG|\xff\xd8\xff|GIF8|RIFF.{4}WEBP|%PDF-", re.DOTALL),
        "is a picture or a document. Import the file that it was made from.",
    ),
    (
        re.compile(rb"\s*<!doctype html|\s*<html\b", re.IGNORECASE),
        "is a web page: perhaps an error or login page that a server sent instead of the file. Download it again, "
        "and check it in a browser.",
    ),
)


def get_advice(head: bytes) -> str | None:
    """What to do about a file that starts with `head`, after its name in a sentence; None if it is unknown here too."""
    return next((said for pattern, said in _ADVICE if pattern.match(head)), None)
