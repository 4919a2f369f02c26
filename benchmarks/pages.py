"""Server time for each page of a result of a large trace, and for each of its tables.

    python -m benchmarks.pages DIRECTORY ID [--only WORD]… [--again 3]

DIRECTORY: the data directory into which `perfloom import` put the result ID. Milliseconds of processor time and of
wall-clock time, and the kB of the answer: "first" with no memo values of the result; "again" the median of further
requests, as for sorting; "other" the first request for another time window.
"""

import argparse
import statistics
import time
from pathlib import Path

from flask.testing import FlaskClient

from perfloom.analysis.tables import TABLES
from perfloom.config import Settings
from perfloom.store import Store
from perfloom.web.app import create_app
from perfloom.web.pages import RESULT_PAGES

TOKEN = "a-token-of-the-benchmark-0123456789"


def asked(client: FlaskClient, path: str) -> tuple[float, float, int, int]:
    """(wall ms, CPU ms, bytes, HTTP status) of one request."""
    wall, cpu = time.perf_counter(), time.process_time()
    answer = client.get(path, headers={"Accept-Encoding": "gzip"})
    size = len(answer.get_data())
    return (time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3, size, answer.status_code


def addresses(store: Store, id: str) -> list[tuple[str, str]]:
    """(name, address) of each measured page."""
    profile = store.results.open(id)
    pages = [
        (f"page {page.key or 'overview'}", f"/results/{id}/{page.key}".rstrip("/"))
        for page in RESULT_PAGES
        if page.has_data(profile)
    ]
    return [*pages, *((f"table {name}", f"/api/v1/results/{id}/{name}?limit=100") for name in TABLES)]


def main() -> None:
    """Measure and print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("id")
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="what has this word in its name")
    parser.add_argument("--again", type=int, default=3)
    given = parser.parse_args()
    app = create_app(Settings.load(given.directory, environ={}, token=TOKEN, runtime=given.directory / "run"))
    store: Store = app.extensions["perfloom"].store
    client = app.test_client()
    client.get(f"/?token={TOKEN}")
    length_ms = (store.results.open(given.id).meta.duration_ns or 0) / 1e6
    part = f"start-ms={length_ms / 3:.3f}&end-ms={length_ms / 2:.3f}"
    client.get("/")
    print(f"{'':28} {'first ms':>9} {'CPU':>7} {'again ms':>9} {'CPU':>7} {'other ms':>9} {'CPU':>7} {'kB':>7}")
    served = False
    for name, path in addresses(store, given.id):
        if given.only and not any(word in name for word in given.only):
            continue
        if not served:
            # Load the imports of the first request of any process, which do not count for a page.
            asked(client, path)
            served = True
        # As in a server that was just started.
        store.results._opened.evict(store.results._path(given.id))
        first = asked(client, path)
        if first[3] != 200:
            print(f"{name:28} {'status':>9} {first[3]}")
            continue
        again = [asked(client, path) for _ in range(given.again)]
        other = asked(client, f"{path}{'&' if '?' in path else '?'}{part}")
        told = (*first[:2], *(statistics.median(one[n] for one in again) for n in (0, 1)), *other[:2])
        print(f"{name:28} " + " ".join(f"{value:{9 if n % 2 == 0 else 7}.0f}" for n, value in enumerate(told)), end="")
        print(f" {first[2] / 1e3:7.0f}", flush=True)


if __name__ == "__main__":
    main()
