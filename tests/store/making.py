"""Profiles to store: a small one by hand, and any one at all by hypothesis."""

from __future__ import annotations

import hashlib
from pathlib import Path

from hypothesis import strategies as st

from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.profile import Meta, Profile
from perfloom.domain.tables import FrameKind
from perfloom.ingest.storage_format import EMPTY_FILE, get_file_name
from perfloom.store import Result, Store
from perfloom.store.files import columns

# What Arrow can hold: text that came out of a decoder.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INT64 = st.integers(-(2**62), 2**62)


def small_profile(command: str = "sleep 1", host: str = "node7", weights: tuple[int, ...] = (3, 4)) -> Profile:
    """Two events, two threads, a stack of two frames."""
    builder = ProfileBuilder("perf-script")
    builder.add_run(command, host)
    cycles, faults = builder.intern_event("cycles", "count"), builder.intern_event("page-faults", "count")
    main, other = builder.intern_thread(pid=10, tid=10, host=host), builder.intern_thread(pid=10, tid=11, host=host)
    builder.set_thread_name(main, 0, "sleep")
    stack = builder.intern_stack(
        builder.intern_frame(builder.intern_function(name, "libc.so.6")) for name in ("main", "nanosleep")
    )
    for i, weight in enumerate(weights):
        builder.add_sample(1000 + i * 500, main if i % 2 else other, cycles, stack, weight)
    builder.add_sample(5000, main, faults, 0, 1)
    return builder.finish(Meta("", command=command, facts={"hostname": host}))


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    """Any profile that a reader can build."""
    builder = ProfileBuilder(draw(TEXT))
    for _ in range(draw(st.integers(0, 2))):
        builder.add_run(draw(st.none() | TEXT), draw(st.none() | TEXT), start_ns=draw(st.none() | INT64))
    threads = [
        builder.intern_thread(pid=draw(st.none() | INT64), tid=draw(INT64), rank=draw(st.none() | st.integers(0, 9)))
        for _ in range(draw(st.integers(1, 3)))
    ]
    for thread in threads:
        builder.set_thread_name(thread, draw(st.integers(0, 10**12)), draw(TEXT))
    frames = [
        builder.intern_frame(
            builder.intern_function(
                draw(TEXT), draw(TEXT), draw(st.none() | TEXT), draw(st.none() | st.integers(0, 9999))
            ),
            kind=draw(st.sampled_from(FrameKind)),
            address=draw(st.none() | st.integers(0, 2**64 - 1)),
            symbol_offset=draw(st.none() | st.integers(0, 2**64 - 1)),
        )
        for _ in range(draw(st.integers(1, 5)))
    ]
    stacks = [builder.intern_stack(draw(st.lists(st.sampled_from(frames), max_size=8))) for _ in range(3)]
    events = [builder.intern_event(draw(TEXT), draw(st.sampled_from(["count", "ns", "bytes"]))) for _ in range(2)]
    for _ in range(draw(st.integers(0, 12))):
        builder.add_sample(
            draw(st.integers(0, 2**62)),
            draw(st.sampled_from(threads)),
            draw(st.sampled_from(events)),
            draw(st.sampled_from(stacks)),
            draw(INT64),
            draw(st.integers(-1, 500)),
        )
    for _ in range(draw(st.integers(0, 3))):
        status = draw(st.sampled_from(["ok", "not supported", "not counted"]))
        builder.add_count(
            run=0,
            host=draw(st.none() | TEXT),
            thread=-1,
            cpu=draw(st.integers(-1, 8)),
            event=draw(st.sampled_from(events)),
            value=draw(st.floats(0, 1e18)) if status == "ok" else None,
            status=status,
        )
    for _ in range(draw(st.integers(0, 2))):
        builder.add_loss(draw(TEXT), draw(TEXT), draw(st.integers(1, 2**40)))
    return builder.finish(
        Meta(
            "",
            start_epoch_ns=draw(st.none() | INT64),
            command=draw(st.none() | TEXT),
            complete=draw(st.booleans()),
            reasons=tuple(draw(st.lists(TEXT, max_size=2))),
            facts=draw(st.dictionaries(TEXT, TEXT, max_size=3)),
        )
    )


def same(one: Profile, other: Profile) -> bool:
    """Whether two profiles hold the same, to the last bit."""
    return one.meta == other.meta and all(
        table.equals(other.tables()[name]) and table.schema == other.tables()[name].schema
        for name, table in one.tables().items()
    )


def store_result(store: Store, name: str = "a run", originals: tuple[Path, ...] = (), **changes: str) -> Result:
    """A stored result of a small profile, with its job."""
    job = store.jobs.create("import", {}, name)
    staged = store.results.stage(job.id)
    columns.write(small_profile(**changes), staged)
    return store.results.publish(job.id, staged, name=name, originals=originals, job_id=job.id)


def has_valid_checksums(directory: Path) -> bool:
    """Whether the tables of the profile in `directory` have the checksums of its manifest."""
    return all(
        entry == EMPTY_FILE
        or hashlib.sha256((directory / get_file_name(name)).read_bytes()).hexdigest() == entry.sha256
        for name, entry in columns.read_manifest(directory).tables.items()
    )
