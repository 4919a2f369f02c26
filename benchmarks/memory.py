"""Memory of a running Perfloom: PSS of a process and its descendants, from /proc/PID/smaps_rollup.

    python -m benchmarks.memory PID

PSS counts a page that N processes share as 1/N in each, so that the sum is the memory of all of them. anon: the part
that belongs to no file. Needs root, because the server's processes cannot be read by other processes of their user.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Held:
    """The memory of one process, in kB."""

    pid: int
    command: str
    pss: int
    anonymous: int


def below(pid: int) -> Iterator[int]:
    """A process and all its descendants."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            yield from below(int(child))


def held(pid: int) -> Held | None:
    """The memory of a process; None if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    except PermissionError:
        raise SystemExit("The server's processes let only root look at their memory; run this as root.") from None
    kilobytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    return Held(pid, words, kilobytes["Pss"], kilobytes.get("Pss_Anon", 0))


def group(pid: int) -> list[Held]:
    """The memory of a process and its descendants, the largest first."""
    found = [one for each in below(pid) if (one := held(each)) is not None]
    return sorted(found, key=lambda one: -one.pss)


def report(pid: int) -> int:
    """Print a line for each process and the sum; returns the sum in kB."""
    rows = group(pid)
    print(f"{'PSS MB':>8}{'anon MB':>9}{'pid':>9}  command")
    for one in rows:
        print(f"{one.pss / 1024:8.1f}{one.anonymous / 1024:9.1f}{one.pid:9}  {one.command[-90:]}")
    total = sum(one.pss for one in rows)
    print(f"{total / 1024:8.1f}{sum(one.anonymous for one in rows) / 1024:9.1f}{len(rows):9}  processes in all")
    return total


if __name__ == "__main__":
    report(int(sys.argv[1]))
