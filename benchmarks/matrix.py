"""Server time for the page of the matrix, with many ranks and functions, and with many samples.

    python -m benchmarks.matrix [--case ranks threads] [--again 5]

Cases, generated: "ranks": 1,024 ranks × 2,000 functions, 4 million samples of one event; "threads": 10 million samples
of 4 events on 200 threads in 60 s. Milliseconds, and those of processor time: "first" with no memo values of the
result; "selection" the median and the maximum of requests that each change the selection (time, event, focus, ranks or
threads) to one that was not requested before; "same" a repeated request. "peak MB": peak resident memory of this
process, which also generated the profile.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from flask.testing import FlaskClient

from perfloom.config import Settings
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.profile import Meta, Profile
from perfloom.store import open_store
from perfloom.store.files import columns
from perfloom.web.app import create_app

TOKEN = "a-token-of-the-benchmark-0123456789"
DURATION_NS = 60_000_000_000
CALLERS = 10
EVENTS = (("cpu-clock", "ns"), ("instructions", "count"), ("cache-misses", "count"), ("cycles", "count"))
SLOW = 2
"""The rank or thread that computes more in the second half."""


@dataclass(frozen=True)
class Case:
    """The size of a profile. ranks 0: threads of one process."""

    ranks: int
    threads: int
    functions: int
    samples: int
    events: int


CASES = {
    "ranks": Case(1024, 1024, 2000, 4_000_000, 1),
    "threads": Case(0, 200, 2000, 10_000_000, 4),
}


def make_profile(case: Case, seed: int = 1) -> Profile:
    """A third of the samples of each thread waits in MPI_Barrier; of the slow one, only before half of the time."""
    random = np.random.default_rng(seed)
    builder = ProfileBuilder("synthetic")
    events = [builder.intern_event(name, unit) for name, unit in EVENTS[: case.events]]
    for number in range(case.threads):
        rank = number if case.ranks else None
        thread = builder.intern_thread(
            pid=1000 + (number if case.ranks else 0), tid=1000 + number, rank=rank, host=f"node{number // 64}"
        )
        builder.set_thread_name(thread, 0, "solver" if case.ranks else f"worker-{number}")

    def frame(name: str, module: str = "/bin/solver") -> int:
        return builder.intern_frame(builder.intern_function(name, module))

    main = frame("main")
    callers = [frame(f"phase_{number}") for number in range(CALLERS)]
    functions = [frame(f"part{number % 40}::compute_{number}(double const*, long)") for number in range(case.functions)]
    stacks = np.array(
        [[builder.intern_stack([main, caller, function]) for function in functions] for caller in callers]
    )
    barrier = [frame("PMPI_Barrier", "/usr/lib/libmpi.so.40"), frame("opal_progress", "/usr/lib/libopen-pal.so.40")]
    waiting = builder.intern_stack([main, callers[0], *barrier])
    time_ns = np.sort(random.integers(0, DURATION_NS, case.samples))
    thread = random.integers(0, case.threads, case.samples)
    # Few functions have most of the samples, as in programs.
    function = np.minimum((random.random(case.samples) ** 3 * case.functions).astype(np.int64), case.functions - 1)
    stack = stacks[random.integers(0, CALLERS, case.samples), function]
    waits = (random.random(case.samples) < 1 / 3) & ~((thread == SLOW) & (time_ns > DURATION_NS // 2))
    slow = (thread == SLOW) & (time_ns > DURATION_NS // 2) & (random.random(case.samples) < 0.5)
    stack = np.where(slow, stacks[0, 7], np.where(waits, waiting, stack))
    builder.add_samples(
        time_ns=time_ns,
        thread=thread,
        cpu=thread % 64,
        event=np.array(events)[random.integers(0, len(events), case.samples)],
        stack=stack,
        weight=np.full(case.samples, 1_000_000),
    )
    return builder.finish(Meta("synthetic", duration_ns=DURATION_NS, main_event="cpu-clock"))


def request(client: FlaskClient, path: str) -> tuple[float, float]:
    """(wall ms, CPU ms) of a request. Raises RuntimeError if it fails."""
    begin, cpu = time.perf_counter(), time.process_time()
    answer = client.get(path)
    if answer.status_code != 200:
        raise RuntimeError(f"{path}: {answer.status_code} {answer.get_data(as_text=True)[:400]}")
    return (time.perf_counter() - begin) * 1e3, (time.process_time() - cpu) * 1e3


def selections(case: Case, again: int) -> list[str]:
    """Changes of the selection, each one different."""
    found = []
    for number in range(again):
        found.append(f"start-ms={1000 * number + 500}&end-ms={60_000 - 1000 * number - 250}")
        found.append(f"focus=phase_{number % CALLERS}&end-ms={50_000 + number}")
        if case.events > 1:
            found.append(f"event={('instructions', 'cache-misses', 'cycles')[number % 3]}&start-ms={number + 1}")
        if case.ranks:
            found.append(f"rank=0-{511 - number}")
        else:
            found.append("&".join(f"thread=worker-{n}" for n in range(100 + number)))
    return found


def main() -> None:
    """Measure and print a line for each case."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--case", nargs="+", choices=tuple(CASES), default=list(CASES))
    parser.add_argument("--again", type=int, default=5)
    given = parser.parse_args()
    heads = ("first", "CPU", "selection", "max", "CPU", "max", "same", "CPU", "peak MB")
    print(f"{'':10} {'samples':>12} " + " ".join(f"{head:>8}"[:9] for head in heads))
    for name in given.case:
        with tempfile.TemporaryDirectory(prefix="perfloom-matrix-") as folder:
            settings = Settings.load(Path(folder) / "data", environ={}, token=TOKEN, runtime=Path(folder) / "run")
            store = open_store(settings)
            staged = store.results.stage("matrix000000")
            columns.write(make_profile(CASES[name]), staged)
            store.results.publish("matrix000000", staged, name=name, originals=())
            store.close()
            client = create_app(settings).test_client()
            client.get(f"/?token={TOKEN}")
            path = "/results/matrix000000/matrix"
            # Load the imports of the first request, which are not of this page.
            request(client, "/results/matrix000000/threads?end-ms=1")
            first = request(client, path)
            changed = [request(client, f"{path}?{query}") for query in selections(CASES[name], given.again)]
            same = [request(client, path) for _ in range(3)]
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
            figures = [*first]
            for times in (changed, same):
                for part in zip(*times, strict=True):
                    figures += [statistics.median(part), max(part)] if times is changed else [statistics.median(part)]
            print(
                f"{name:10} {CASES[name].samples:12,} " + " ".join(f"{one:8.0f}" for one in (*figures, peak)),
                flush=True,
            )


if __name__ == "__main__":
    main()
