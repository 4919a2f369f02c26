"""Server time for each page of a comparison after a change of the selection.

    python -m benchmarks.comparison [--samples 10000000] [--stacks 200000] [--runs 10] [--run-samples 1000000]
                                    [--only WORD]… [--again 7] [--keep DIRECTORY]

Two synthetic recordings of the same program are stored as by an import, and so are the runs of two groups, whose
recordings are smaller. Each line is one page of the comparison, in milliseconds: "first" is that of the first request
for the page, with no values kept of the results but those of pages above; "median" and "CPU" (processor time, which
other load of the machine does not affect) of requests that each have a selection that none had before: another window
of time, threads or function; "same" of a request that was made before. The goals, of "CPU", are those of two
recordings and of two groups.
"""

import argparse
import os
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from flask.testing import FlaskClient

from benchmarks.selections import TOKEN, ask, own_mb, selections
from benchmarks.synthetic import profile as synthetic
from perfloom import garbage
from perfloom.config import Settings
from perfloom.store import Store, open_store
from perfloom.store.files import columns
from perfloom.web.app import create_app

PAIR_GOAL_MS, GROUP_GOAL_MS = 500.0, 1500.0
THREADS, EVENTS = 64, 2


@dataclass(frozen=True)
class ComparedPage:
    """A page. sides: the ids of the results. changes: selections that change; goal_ms: of the processor time."""

    name: str
    path: str
    sides: tuple[tuple[str, ...], tuple[str, ...]]
    goal_ms: float

    def url(self, selection: list[tuple[str, str]]) -> str:
        """The address with a selection."""
        words = [(side, id) for side, ids in zip(("base", "other"), self.sides, strict=True) for id in ids]
        path, _, rest = self.path.partition("?")
        return f"{path}?{urlencode([*words, *selection])}{'&' if rest else ''}{rest}"


def result_id(run: int) -> str:
    """The id of a run's result, from 1; 0 is not used."""
    return f"{run:012d}"


def make(store: Store, samples: int, stacks: int, runs: int, run_samples: int) -> None:
    """Store the results that do not exist."""
    sizes = {1: samples, 2: samples} | dict.fromkeys(range(3, 3 + 2 * runs), run_samples)
    for run, size in sizes.items():
        id = result_id(run)
        if store.results.find(id) is None:
            staged = store.results.stage(id)
            profile = synthetic(samples=size, stacks=stacks, threads=THREADS, events=EVENTS, run=run)
            columns.write(profile, staged)
            store.results.publish(id, staged, name=f"run {run}", originals=[])
            # As by the worker, after an import.
            store.timelines.prepare_large(id, store.results.open(id))
            print(f"{id} is stored", flush=True)
    store.close()


def list_pages(runs: int) -> Iterator[ComparedPage]:
    """The pages of a comparison of functions, and what their scripts request."""
    pair = ((result_id(1),), (result_id(2),))
    for name, path in (
        ("functions", "/compare"),
        ("by stack", "/compare?by=stack"),
        ("absolute", "/compare?normalise=0"),
        ("flame graph", "/api/v1/compare/flamegraph"),
        ("inverted", "/api/v1/compare/flamegraph?invert=1"),
        ("vanished", "/api/v1/compare/flamegraph?reverse=1"),
        ("search", "/api/v1/compare/flamegraph/search?q=component1"),
        ("verdicts", "/compare/runs"),
        ("JSON", "/api/v1/compare"),
    ):
        yield ComparedPage(name, path, pair, PAIR_GOAL_MS)
    if runs:
        first, second = (tuple(result_id(3 + side + 2 * run) for run in range(runs)) for side in (0, 1))
        yield ComparedPage(f"{runs} runs a side", "/compare/runs", (first, second), GROUP_GOAL_MS)
        yield ComparedPage("the same, JSON", "/api/v1/compare/runs", (first, second), GROUP_GOAL_MS)


def measure(store: Store, client: FlaskClient, pages: list[ComparedPage], again: int) -> list[str]:
    """Print a line for each page; the names of those over their goal."""
    changes = selections(store.results.open(result_id(1)))
    print(
        f"{'':16} {'first ms':>9} {'CPU':>7} {'median ms':>10} {'CPU':>7} {'most':>7} {'same':>7} {'kB':>6} {'MB':>6}"
    )
    over = []
    for page in pages:
        first = ask(client, page.url([]))
        urls = [page.url([one for one in next(changes) if one[0] != "event"]) for _ in range(again)]
        found = [ask(client, url) for url in urls]
        same = ask(client, urls[-1])
        median, cpu = (statistics.median(getattr(one, name) for one in found) for name in ("wall_ms", "cpu_ms"))
        slow = cpu > page.goal_ms
        over += [page.name] if slow else []
        print(
            f"{page.name:16} {first.wall_ms:9.0f} {first.cpu_ms:7.0f} {median:10.0f} {cpu:7.0f} "
            f"{max(one.cpu_ms for one in found):7.0f} {same.cpu_ms:7.0f} "
            f"{max(one.size for one in found) / 1e3:6.0f} {own_mb():6.0f}{'  over' if slow else ''}",
            flush=True,
        )
    return over


def main() -> None:
    """Make the results unless they are given, and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--samples", type=int, default=10_000_000, help="of each of the two recordings")
    parser.add_argument("--stacks", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=10, help="of each group")
    parser.add_argument("--run-samples", type=int, default=1_000_000, help="of each run of a group")
    parser.add_argument("--only", action="append", default=[], metavar="PAGE", help="only this page; can be repeated")
    parser.add_argument("--again", type=int, default=7, help="requests of each page with different selections")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="a data directory, to use the results again")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pl-") as temporary:
        directory = given.keep or Path(temporary)
        settings = Settings.load(directory, environ={}, token=TOKEN, runtime=Path(temporary) / "run")
        # In another process, whose memory does not count.
        child = os.fork()
        if not child:
            make(open_store(settings), given.samples, given.stacks, given.runs, given.run_samples)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            raise SystemExit("The results could not be made.")
        app = create_app(settings)
        store: Store = app.extensions["perfloom"].store
        client = app.test_client()
        client.get(f"/?token={TOKEN}")
        # As the web server does.
        garbage.exclude_existing()
        garbage.collect_rarely()
        pages = [page for page in list_pages(given.runs) if not given.only or page.name in given.only]
        over = measure(store, client, pages, given.again)
        if over:
            raise SystemExit(f"over the goal: {', '.join(over)}")


if __name__ == "__main__":
    main()
