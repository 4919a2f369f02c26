"""Makes the recordings in this folder. Needs perf (as root, or with perf_event_paranoid at most 1), gcc and zstd.

    python tests/data/perf/make.py [PATH OF stackcollapse-perf.pl]

With that path it also makes the *.collapsed-*.txt files, which are what that script (revision 57207af) prints.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
WORK = Path(tempfile.gettempdir(), "perfloom-fixture")
SWITCHES = ("pid", "tid", "kernel", "jit", "all", "addrs")
SCHEDULER = ",".join(f"sched:sched_{name}" for name in ("switch", "waking", "stat_runtime", "process_exit"))
FIELDS = "comm,pid,tid,cpu,time,period,event,ip,sym,symoff,dso"


def run(*argv: str, out: Path | None = None) -> None:
    """Run a command in the work directory."""
    print("+", " ".join(argv), file=sys.stderr)
    with open(out or "/dev/null", "wb") as file:
        subprocess.run(argv, cwd=WORK, check=True, stdout=file)


def main() -> None:
    """Record, print, compress."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()
    run("gcc", "-O1", "-g", "-fno-omit-frame-pointer", "-pthread", "-o", "spin", str(HERE / "spin.c"))
    record = ("perf", "record", "-q", "-N")
    run(*record, "-F", "499", "-g", "-o", "spin.perf.data", "--", "./spin")
    run("perf", "script", "-i", "spin.perf.data", "--header", out=HERE / "spin.script.txt")
    events = ("-e", "cpu-clock/period=5000000/", "-e", "page-faults/period=200/", "-g", "--sample-cpu")
    run(*record, *events, "-o", "events.perf.data", "--", "./spin")
    run(
        *("perf", "script", "-i", "events.perf.data", "--ns", "--header", "--no-inline", "-F", FIELDS),
        out=HERE / "events.script.txt",
    )
    run(*record, "-F", "49", "--call-graph", "dwarf,4096", "-o", "dwarf.perf.data", "--", "./spin")
    run("perf", "script", "-i", "dwarf.perf.data", out=HERE / "dwarf.script.txt")
    run(*record, "-F", "99", "-o", "flat.perf.data", "--", "./spin")
    run("perf", "script", "-i", "flat.perf.data", "--header", out=HERE / "flat.script.txt")
    run("zstd", "-q", "-19", "-f", "spin.perf.data", "-o", str(HERE / "spin.perf.data.zst"))
    run("gcc", "-O1", "-g", "-fno-omit-frame-pointer", "-pthread", "-o", "waits", str(HERE / "waits.c"))
    run(*record, "-g", "-c", "1", "-m", "64", "-e", SCHEDULER, "-o", "waits.perf.data", "--", "./waits")
    run("zstd", "-q", "-19", "-f", "waits.perf.data", "-o", str(HERE / "waits.perf.data.zst"))
    switches = ("-e", "cpu-clock", "-e", "context-switches/period=1/", "--sample-cpu", "--switch-events")
    run(*record, "-F", "199", "-g", *switches, "-o", "off-cpu.perf.data", "--", "./waits")
    shown = ("--ns", "--header", "--no-inline", "--show-lost-events", "--show-switch-events", "--show-task-events")
    run("perf", "script", "-i", "off-cpu.perf.data", *shown, "-F", FIELDS, out=WORK / "off-cpu.script.txt")
    run("zstd", "-q", "-19", "-f", "off-cpu.script.txt", "-o", str(HERE / "off-cpu.script.txt.zst"))
    if len(sys.argv) > 1:
        for name in ("spin", "events", "dwarf"):
            for switch in SWITCHES:
                out = HERE / f"{name}.collapsed-{switch}.txt"
                run("perl", sys.argv[1], f"--{switch}", str(HERE / f"{name}.script.txt"), out=out)
    shutil.rmtree(WORK)


if __name__ == "__main__":
    main()
