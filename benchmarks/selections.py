"""Server time for each page of a result after a change of the selection.

    python -m benchmarks.selections [--samples 10000000] [--threads 200] [--events 4] [--only WORD]… [--event CPI]
                                   [--again 7]

A synthetic profile of 60 seconds is stored as by an import. Each line is one page, in milliseconds of wall-clock and of
processor time: "first" without values kept of the result; "median" and "most" of requests that each have a selection
that no request had before: another window of time, threads, event or function. The goal is for "CPU", which other load
of the machine does not affect. "kB" is the largest answer, "MB" the memory of the process without mapped files.
"""

import argparse
import gc
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from flask.testing import FlaskClient

from benchmarks.synthetic import profile as synthetic
from perfloom import garbage
from perfloom.analysis.ratios.metrics import default_metric
from perfloom.config import Settings
from perfloom.domain.profile import Profile
from perfloom.store import Store, open_store
from perfloom.store.files import columns
from perfloom.web.app import create_app
from perfloom.web.pages import RESULT_PAGES

TOKEN = "a-token-of-the-benchmark-0123456789"
RESULT = "000000000000"
GOAL_MS = 300.0


def make(store: Store, samples: int, threads: int, events: int) -> None:
    """Store the result if it does not exist."""
    if store.results.find(RESULT) is None:
        staged = store.results.stage(RESULT)
        columns.write(synthetic(samples=samples, threads=threads, events=events), staged)
        store.results.publish(RESULT, staged, name="synthetic", originals=[])
        # As by the worker, after an import.
        store.timelines.prepare_large(RESULT, store.results.open(RESULT))
    store.close()


def selections(profile: Profile) -> Iterator[list[tuple[str, str]]]:
    """Different selections, none twice."""
    whole_ms = (profile.meta.duration_ns or 1) / 1e6
    threads = profile.threads.select(["pid", "tid"]).to_pylist()
    events = profile.events.column("name").to_pylist()
    # A server does not keep a profile for this.
    del profile
    for n in itertools.count(1):
        start = whole_ms * (n % 11) / 23 + n / 7
        window = [("start-ms", f"{start:.3f}"), ("end-ms", f"{start + whole_ms / 2:.3f}")]
        some = [f"-/{row['pid']}/{row['tid']}" for row in threads[n :: max(2, len(threads) // 20)]]
        yield window
        yield [*window, ("event", events[n % len(events)])]
        yield [("thread", key) for key in some]
        yield [("focus", f"component{n}[0-9]::")]
        yield [("hide", f"operation_{n}[0-9]"), *window]
        yield [("show", f"component{n}|operation_{n}")]
        yield [("show-from", f"component{n}[0-9]::"), *window]
        yield [("process", f"-/{row['pid']}") for row in threads[n :: max(2, len(threads) // 20)]]


@dataclass(frozen=True)
class Answer:
    """The cost of one request."""

    wall_ms: float
    cpu_ms: float
    size: int


def ask(client: FlaskClient, path: str) -> Answer:
    """One request. Raises SystemExit if it fails."""
    wall, cpu = time.perf_counter(), time.process_time()
    answer = client.get(path, headers={"Accept-Encoding": "gzip"})
    size = len(answer.get_data())
    if answer.status_code != 200:
        raise SystemExit(f"{path}: status {answer.status_code}")
    return Answer((time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3, size)


def list_paths(profile: Profile) -> Iterator[tuple[str, str]]:
    """(name, path) of each page with data, and of what the scripts of flame graph and timeline request."""
    for page in RESULT_PAGES:
        if page.has_data(profile):
            yield page.key or "overview", f"/results/{RESULT}/{page.key}".rstrip("/")
            if page.key == "flamegraph":
                yield "flamegraph data", f"/api/v1/results/{RESULT}/flamegraph"
            if page.key == "ratios":
                words = urlencode({"colour": default_metric(profile)})
                yield "ratios data", f"/api/v1/results/{RESULT}/flamegraph?{words}"
                yield "ratios threads", f"/results/{RESULT}/ratios?by=thread"
            if page.key == "timeline":
                yield "timeline data", f"/api/v1/results/{RESULT}/timeline"
                yield "timeline range", f"/results/{RESULT}/timeline/selected"


def own_mb() -> float:
    """The memory that only this process uses: without mapped files, which all processes share."""
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["RssAnon"].split()[0]) / 1e3


def measure(store: Store, client: FlaskClient, only: list[str], again: int, event: str) -> list[str]:
    """Print a line for each page; the names of those over the goal. event: of all requests, "" for several."""
    chosen = [("event", event)] if event else []
    over = []
    profile = store.results.open(RESULT)
    changes, paths = selections(profile), list(list_paths(profile))
    next(changes)
    del profile
    ask(client, f"/results/{RESULT}")
    print(f"{'':16} {'first ms':>9} {'CPU':>7} {'median ms':>10} {'CPU':>7} {'most ms':>9} {'kB':>6} {'MB':>6}")
    for name, path in paths:
        if only and name not in only:
            continue
        store.results._opened.evict(store.results._path(RESULT))
        gc.collect()
        mark = "&" if "?" in path else "?"
        first = ask(client, f"{path}{mark}{urlencode(chosen)}")
        # The last event applies.
        found = [ask(client, f"{path}{mark}{urlencode(next(changes) + chosen)}") for _ in range(again)]
        median, cpu = (statistics.median(getattr(one, name) for one in found) for name in ("wall_ms", "cpu_ms"))
        slow = cpu > GOAL_MS
        over += [name] if slow else []
        print(
            f"{name:16} {first.wall_ms:9.0f} {first.cpu_ms:7.0f} {median:10.0f} {cpu:7.0f} "
            f"{max(one.wall_ms for one in found):9.0f} {max(one.size for one in found) / 1e3:6.0f} {own_mb():6.0f}"
            f"{'  over' if slow else ''}",
            flush=True,
        )
    return over


def main() -> None:
    """Make the result unless it is given, and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--threads", type=int, default=200)
    parser.add_argument("--events", type=int, default=4)
    parser.add_argument("--only", action="append", default=[], metavar="PAGE", help="only this page; can be repeated")
    parser.add_argument("--event", default="", metavar="NAME", help="the event or formula of all requests")
    parser.add_argument("--again", type=int, default=10, help="requests of each page with different selections")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="a data directory for this result, to use again")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pl-") as temporary:
        directory = given.keep or Path(temporary)
        settings = Settings.load(directory, environ={}, token=TOKEN, runtime=Path(temporary) / "run")
        # In another process, whose memory does not count.
        child = os.fork()
        if not child:
            make(open_store(settings), given.samples, given.threads, given.events)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            raise SystemExit("The result could not be made.")
        app = create_app(settings)
        store: Store = app.extensions["perfloom"].store
        client = app.test_client()
        client.get(f"/?token={TOKEN}")
        # As the web server does.
        garbage.exclude_existing()
        garbage.collect_rarely()
        over = measure(store, client, given.only, given.again, given.event)
        if over:
            raise SystemExit(f"over {GOAL_MS:.0f} ms: {', '.join(over)}")


if __name__ == "__main__":
    main()
