"""All output of the program for every fixture: each table, export and page as a file, to compare two versions.

python -m tests.outputs DIRECTORY          then: diff -r DIRECTORY OTHER

Times, ids and tokens that differ from run to run are replaced. `digests` is the part that is fast enough for a test.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from flask import Flask

from perfloom.analysis.tables import TABLES
from perfloom.config import Settings
from perfloom.domain.errors import PerfloomError
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.exporters import EXPORTERS
from perfloom.readers import READERS
from perfloom.store.files import columns
from perfloom.web.app import create_app
from perfloom.web.pages import RESULT_PAGES
from tests.support.formats import DATA, FILES, profile_of
from tests.web.conftest import TOKEN, Browser

LARGER = {
    "training": ("pytorch", "pytorch/training.pt.trace.json.gz"),
    "workers": ("pytorch", "pytorch/workers.pt.trace.json.gz"),
    "kernel": ("perfetto-trace", "perfetto/kernel.pftrace"),
    "v8": ("chrome-trace", "v8/trace.json.gz"),
    "stat": ("perf-stat", "perf-stat/by-hand-repeat-base.json"),
    "dwarf": ("perf-script", "perf/dwarf.script.txt"),
    "branches": ("perf-script", "perf/branches.script.txt"),
}
"""Fixtures in addition to those of `tests.support.formats`: reader and file of each."""
FILE_OF_A_PAGE = re.compile(r"/results/<id>/([\w-]+)\.<any\(csv,[^)]*\):form>")
"""The address of a page's table as a file."""
IN_THE_API = (
    *("flamegraph", "flamegraph/search?q=a", "functions/0", "sandwich?function=0", "timeline", "timeline/flows"),
    *("timeline/at?at-ms=0&row=0", "timeline/search?q=a", "timeline/search/next?q=a", "timeline/slices/0"),
    "timeline/view",
)
ALWAYS_DIFFERENT = (
    (re.compile(r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z| UTC)?"), "(time)"),
    (re.compile(r'(name="csrf" value="|nonce[-=]"?|content=")[\w+/=-]{16,}'), r"\1(token)"),
    (re.compile(r"/static/v-[0-9a-f]{12}/"), "/static/(version)/"),
    (re.compile(r"\b\d+ (second|minute|hour|day)s? ago\b|\bjust now\b"), "(ago)"),
)


def profiles() -> Iterator[tuple[str, Profile]]:
    """The name and the profile of each fixture."""
    for name in FILES:
        yield name, profile_of(name)
    for name, (reader, file) in LARGER.items():
        raw = (DATA / file).read_bytes()
        data = gzip.decompress(raw) if file.endswith(".gz") else raw
        yield name, READERS[reader].read(io.BytesIO(data), file)


def tables(profile: Profile) -> Iterator[tuple[str, str]]:
    """Each table as JSON, by its name and grouping; if it cannot be computed, the error message."""
    for table in TABLES.values():
        for by in ("", *table.by):
            try:
                rows = table.frame(profile, Selection(), by)
                text = rows.to_json(orient="records", lines=True, double_precision=12)
            except PerfloomError as error:
                text = f"{type(error).__name__}: {error.message}\n"
            yield f"{table.name}{f'-by-{by}' if by else ''}", text


def exports(profile: Profile) -> Iterator[tuple[str, bytes]]:
    """Each export, decompressed."""
    for form in EXPORTERS.values():
        try:
            data = b"".join(form.write(profile, Selection(), {}))
        except PerfloomError as error:
            data = f"{type(error).__name__}: {error.message}\n".encode()
        if data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
        if form.name == "profile":
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                members = sorted(archive.getmembers(), key=lambda member: member.name)
                data = b"".join(
                    b"%s %s\n" % (member.name.encode(), hashlib.sha256(file.read()).hexdigest().encode())
                    for member in members
                    if (file := archive.extractfile(member)) is not None
                )
        yield form.name, data


def digests(profile: Profile) -> dict[str, str]:
    """A digest of each table and export."""
    found = {f"table {name}": text.encode() for name, text in tables(profile)}
    found |= {f"export {name}": data for name, data in exports(profile)}
    return {name: hashlib.sha256(data).hexdigest()[:16] for name, data in found.items()}


def files_of_pages(app: Flask) -> list[str]:
    """The tables that pages offer as files."""
    rules = sorted(rule.rule for rule in app.url_map.iter_rules())
    return [found[1] for rule in rules if (found := FILE_OF_A_PAGE.fullmatch(rule))]


def pages(ids: dict[str, str], browser: Browser) -> Iterator[tuple[str, str]]:
    """Each page of each result, its files and the API's answers, by their addresses."""
    other = ids["perf-script"]
    files = files_of_pages(browser.client.application)
    for id in ids.values():
        found = [f"/results/{id}/{page.key}".rstrip("/") for page in RESULT_PAGES]
        found += [f"/results/{id}/{table}.csv" for table in files]
        found += [f"/results/{id}/{graph}.svg" for graph in ("flamegraph", "timeline")]
        found += [f"/api/v1/results/{id}/{path}" for path in IN_THE_API]
        found += [f"{path}?base={other}&other={id}" for path in ("/compare", "/compare/flamegraph.svg")]
        for address in found:
            response = browser.client.get(address)
            yield address, f"{response.status_code}\n{normalized(response.get_data(as_text=True))}"
    for address in ("/", "/login", "/jobs", "/jobs/new", "/targets", "/targets/new", "/import", "/compare", "/tracer"):
        response = browser.client.get(address)
        yield address, f"{response.status_code}\n{normalized(response.get_data(as_text=True))}"


def normalized(text: str) -> str:
    """A text without the parts that differ from run to run."""
    for pattern, replacement in ALWAYS_DIFFERENT:
        text = pattern.sub(replacement, text)
    return text


def main(directory: Path) -> None:
    """Write all output below `directory`."""

    def put(place: str, data: bytes) -> None:
        path = directory / re.sub(r"[^\w./=-]", "_", place)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    ids: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.load(Path(folder) / "data", environ={}, token=TOKEN, runtime=Path(folder) / "run")
        app = create_app(settings)
        parts = app.extensions["perfloom"]
        for name, profile in profiles():
            for table, text in tables(profile):
                put(f"tables/{name}/{table}.jsonl", text.encode())
            for form, data in exports(profile):
                put(f"exports/{name}/{form}", data)
            ids[name] = f"result{len(ids):06}"
            staged = parts.store.results.stage(ids[name])
            columns.write(profile, staged)
            parts.store.results.publish(ids[name], staged, name=name, originals=())
        for address, text in pages(ids, Browser(app.test_client())):
            put(f"pages{address.replace('?', '/')}.txt", text.replace(folder, "(folder)").encode())
        parts.queue.close()
        parts.store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
