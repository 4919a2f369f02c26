"""Reads the records of perf.data without perf: the same profile as from the text of `perf script`, many times faster.

The records become the tokens of that text, so that both ways end in the same code. What only perf knows (see
`UnsupportedRecords`) is left to it.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace

import numpy as np

from ..domain.arrays import Array, Int64Array, number_values, sort_distinct
from ..domain.builder import IMPOSSIBLE_PERIOD
from ..domain.event_names import FIRST_EVENT_FACT
from ..domain.profile import Profile
from ..domain.rank_state import INCOMPLETE, THROTTLED
from ..domain.tables import NO_ID
from ..ingest.jit.readiness import has_compiled_loops
from ..ingest.perf_records.block_threads import begin_blocks
from ..ingest.perf_records.code_locations import ChainColumns, CodeTexts, SampleStacks, build_stacks
from ..ingest.perf_records.code_objects import JitSource, SymbolSource
from ..ingest.perf_records.event_attributes import SampleType
from ..ingest.perf_records.file_header import BUILD_ID, COMPRESSED, SETUP_RECORDS, FileHeader, read_header
from ..ingest.perf_records.header_text import format_header
from ..ingest.perf_records.jit_maps import JitMaps
from ..ingest.perf_records.losses import UNKNOWN_EVENT, UNKNOWN_RECORD, UNTIMED_CODE
from ..ingest.perf_records.record_index import SAMPLE, RecordIndex, index_records
from ..ingest.perf_records.sample_columns import (
    RecordedSamples,
    check_events,
    order_records,
    read_samples,
    split_samples,
)
from ..ingest.perf_records.task_history import TaskHistory
from ..ingest.perf_records.task_records import GUESTS, THROTTLE, count_unknown, iterate_task_records
from ..ingest.perf_records.unsupported import UnsupportedRecords
from ..ingest.perf_text.grammar import parse_simple_frame
from ..ingest.perf_text.losses import LOST_IN_KERNEL
from ..ingest.perf_text.script_header import detect_tracepoint_group, header_has_switches
from .perf_build_ids import read_entries
from .perf_data import FORMAT
from .perf_header import plan_repair
from .perf_script.profile import ScriptProfileBuilder

_ARCHITECTURE = 6
LARGE_BYTES = 10_000_000
"""From this size on, compiled loops save more time than they take to load, 0.02 s, if they were compiled before."""
PART = 1 << 18
"""Samples that are taken in at once."""
_MAX_NUMBER = np.uint64(2**63 - 1)


def read(
    data: memoryview,
    symbols: SymbolSource,
    changed_at: float,
    max_bytes: int,
    release: Callable[[], object] = lambda: None,
    read_jit: JitSource = lambda code: None,
) -> Profile:
    """The profile of a whole perf.data file.

    symbols: finds the symbols of addresses. changed_at: when the file was last changed, seconds since the epoch.
    max_bytes: of the records when decompressed. release: called when most of the data has been read. read_jit: reads
    the dumps of just-in-time compilers. Raises UnsupportedRecords if perf script has to read it.
    """
    repair = plan_repair(data)
    header = read_header(data) if repair is None else read_header(data, repair.header, repair.end)
    if repair is not None and repair.features:
        header.features[COMPRESSED] = repair.features[16:]
    compiled = header.estimate_record_bytes() >= LARGE_BYTES and has_compiled_loops()
    index = index_records(
        data, header.start, header.end, max_bytes, header.is_piped, repair is not None, release, compiled
    )
    _take_setup(header, index)
    kind = check_events(header.events)
    lines = format_header(header, changed_at)
    text = b"\n".join(lines) + b"\n"
    if detect_tracepoint_group(text) or header_has_switches(text):
        raise UnsupportedRecords("it contains events of the scheduler or of locks")
    if bytes(header.features.get(_ARCHITECTURE, b"")[4:7]) == b"ppc":
        raise UnsupportedRecords("call chains of this processor need perf")
    if throttled := int(np.count_nonzero(index.kind[index.other_rows] == THROTTLE)):
        lines.append(b"# %b : %d" % (THROTTLED.encode(), throttled))
    lines += [b"# %b : %b" % (INCOMPLETE.encode(), repair.defect.encode())] if repair is not None else []
    assembly = ScriptProfileBuilder(FORMAT)
    assembly.feed_header(b"\n".join(lines))
    for number, count in count_unknown(index).items():
        assembly.add_loss(UNKNOWN_RECORD, f"type {number}", count)
    samples, position, history = _collect_samples(header, index, kind, read_jit, assembly, compiled)
    # What was read takes more memory than what is kept of it.
    words = index.words
    del index
    stacks = _build_stacks(words, samples, position, history, symbols, release, compiled)
    del words
    release()
    samples = replace(samples, key=samples.key[:0], code=samples.code[:0], length=samples.length[:0])
    with ThreadPoolExecutor(1) as pool:
        with _begin_prefixes(samples, position, history, kind) as prefixes:
            stack = _intern_stacks(stacks, assembly)
            del stacks
            assembly.begin_trees(pool)
            assembly.set_columns(_convert_samples(samples, stack, prefixes, header, assembly))
        del samples, stack, position, history
        release()
        profile = assembly.finish()
    facts = {name: value for name, value in profile.meta.facts.items() if name != FIRST_EVENT_FACT}
    return replace(profile, meta=replace(profile.meta, facts=facts))


def _take_setup(header: FileHeader, index: RecordIndex) -> None:
    """Complete the header by the records that are a part of it."""
    rows = index.other_rows
    for row in rows[np.isin(index.kind[rows], SETUP_RECORDS)].tolist():
        header.take_setup_record(int(index.kind[row]), index.read_record(row))
    header.name_events()


def _read_build_ids(header: FileHeader) -> dict[str, str]:
    section = b"".join((bytes(header.features.get(BUILD_ID, b"")), *header.build_id_records))
    return read_entries(section, "<", 0, len(section))


def _collect_samples(
    header: FileHeader,
    index: RecordIndex,
    kind: SampleType,
    read_jit: JitSource,
    assembly: ScriptProfileBuilder,
    compiled: bool,
) -> tuple[RecordedSamples, Int64Array, TaskHistory]:
    """(the samples in the order of perf's text, their positions among the records, what the other records say)."""
    samples = read_samples(index, header.events, compiled=compiled)
    rows = order_records(index, kind, samples)
    is_sample = index.kind == SAMPLE
    if (rows[1:] < rows[:-1]).any():
        samples.reorder((np.cumsum(is_sample) - 1)[rows[is_sample[rows]]])
        is_sample = is_sample[rows]
    position = np.flatnonzero(is_sample)
    if any(event.attributes.sample_type & SampleType.READ for event in header.events):
        samples, row = split_samples(index, rows[position], header.events, samples)
        position = position[row]
    if unknown := int(np.count_nonzero(samples.event < 0)):
        assembly.add_loss(UNKNOWN_EVENT, "identifier that the header does not list", unknown)
        position, samples = position[samples.event >= 0], samples.take(samples.event >= 0)
    if any((samples.mode == guest).any() for guest in GUESTS):
        raise UnsupportedRecords("it contains samples of a virtual machine")
    if len(samples.time) and samples.time.max() > _MAX_NUMBER:
        raise UnsupportedRecords("a sample has an impossible time")
    is_monotonic = all(event.attributes.is_monotonic for event in header.events)
    jit = JitMaps(read_jit, samples.time, position, is_monotonic=is_monotonic)
    history = TaskHistory(_read_build_ids(header), _group_positions(samples.pid, position), jit)
    history.feed(iterate_task_records(index, rows))
    if jit.untimed:
        assembly.add_loss(
            UNTIMED_CODE, "record with -k mono, or code that replaced other code may be named wrong", jit.untimed
        )
    del rows, is_sample
    for count in history.lost:
        assembly.add_loss(LOST_IN_KERNEL, f"the kernel lost {count:,} records", max(1, count))
    if (impossible := samples.period > _MAX_NUMBER).any():
        example = f"a period of {int(samples.period[impossible][0])}"
        assembly.add_loss(IMPOSSIBLE_PERIOD, example, int(impossible.sum()))
        samples, position = samples.take(~impossible), position[~impossible]
    return samples, position, history


def _intern_stacks(stacks: SampleStacks, assembly: ScriptProfileBuilder) -> Array:
    """The stack id of each sample; -1 if it is no part of perf's text."""
    code = stacks.locations
    frames = _intern_frames(code, assembly)
    return assembly.add_stacks(frames, stacks.lines, stacks.ends, code.format_line).astype(np.int32)[stacks.code]


def _split_rows(count: int) -> list[slice]:
    return [slice(start, start + PART) for start in range(0, count, PART)]


def _begin_prefixes(
    samples: RecordedSamples, position: Int64Array, history: TaskHistory, kind: SampleType
) -> AbstractContextManager[Iterable[tuple[Array, list[bytes]]]]:
    """Begin to make the prefixes (see `_make_prefixes`) of each part of the samples, in another thread."""

    def make_prefixes(rows: slice) -> tuple[Array, list[bytes]]:
        part = samples.take(rows)
        known = history.look_up_names(part.tid, position[rows])
        return _make_prefixes(part, known, history.names, has_cpu=bool(kind & SampleType.CPU))

    return begin_blocks(make_prefixes, _split_rows(len(position)))


def _convert_samples(
    samples: RecordedSamples,
    stack: Array,
    parts: Iterable[tuple[Array, list[bytes]]],
    header: FileHeader,
    assembly: ScriptProfileBuilder,
) -> dict[str, Array]:
    """Samples as columns, as if each were a line of perf's text. stack: -1 if it is no part of that. parts: the
    prefixes of each part."""
    kind = header.events[0].attributes.sample_type
    event_names = [event.get_name().encode("utf-8", "surrogateescape") for event in header.events]
    count = len(stack)
    thread, name = np.empty(count, np.int32), np.empty(count, np.int32)
    event_ids = np.zeros(len(event_names), np.int32)
    for rows, (prefix, prefixes) in zip(_split_rows(count), parts, strict=True):
        good = np.flatnonzero(stack[rows] >= 0)
        if len(good) < len(prefix):
            prefix_codes = sort_distinct(prefix[good]).tolist()
        else:
            prefix_codes = list(range(len(prefixes)))
        tasks = np.full((3, len(prefixes)), NO_ID, np.int32)
        for code in prefix_codes:
            tasks[:, code] = assembly.intern_task(prefixes[code])
        thread[rows], name[rows], samples.cpu[rows] = (column[prefix] for column in tasks)
        shown = good[:1] if len(event_names) == 1 else good
        _, first = number_values(samples.event[rows][shown])
        for code in samples.event[rows][shown[first]].tolist():
            event_ids[code] = assembly.intern_event(event_names[code], weighted=True)
    columns = {
        "order": np.arange(1, count + 1),
        "time_ns": samples.time.view(np.int64) if kind & SampleType.TIME else np.full(count, -1),
        "thread": thread,
        "name": name,
        "cpu": samples.cpu,
        "event": event_ids[samples.event],
        "stack": stack,
        "weight": samples.period.view(np.int64),
    }
    kept = (stack >= 0) & (thread != NO_ID)
    return columns if kept.all() else {name: values[kept] for name, values in columns.items()}


def _group_positions(pid: Array, position: Int64Array) -> dict[int, Int64Array]:
    """The positions of the samples of each process, ascending."""
    if not len(pid):
        return {}
    if (pid == pid[0]).all():
        return {int(pid[0]): position}
    order = np.argsort(pid, kind="stable")
    numbers = pid[order]
    begins = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    return dict(zip(numbers[np.append(0, begins)].tolist(), np.split(position[order], begins), strict=True))


def _build_stacks(
    words: Array,
    samples: RecordedSamples,
    position: Int64Array,
    history: TaskHistory,
    symbols: SymbolSource,
    release: Callable[[], object],
    compiled: bool,
) -> SampleStacks:
    columns = ChainColumns(
        key=samples.key,
        mode=samples.mode,
        space=history.look_up_spaces(samples.pid, position),
        code=samples.code,
        length=samples.length,
    )
    return build_stacks(words, columns, history.spaces, history.kernel.space, symbols, release, compiled=compiled)


def _intern_frames(code: CodeTexts, assembly: ScriptProfileBuilder) -> Array:
    """The frame of each location. What is not known by the symbol and module of a line alone is found by the line."""
    builder = assembly.builder
    known = [parse_simple_frame(text) for text in code.texts]
    by_text = [(-1, 0, False) if one is None else (builder.intern_function(one[0], one[2]), one[3], one[1] is not None)
               for one in known]  # fmt: skip
    function, kind, has_offset = (
        np.array(column)[code.text] for column in zip(*by_text or [(0, 0, False)], strict=True)
    )
    simple = np.flatnonzero(function >= 0)
    offset = np.where(has_offset, code.offset, 0)
    codes, first = number_values(*(column[simple] for column in (function, kind, code.address, offset, has_offset)))
    rows = simple[first]
    builder.add_frames(*(column[rows] for column in (function, kind, code.address, offset, has_offset)))
    frames = np.empty(len(code.text), np.int64)
    frames[simple] = codes
    for at in np.flatnonzero(function < 0).tolist():
        frames[at] = assembly.stack_lines.intern(code.format_line(at))
    return frames


def _make_prefixes(
    samples: RecordedSamples, name: Array, names: list[bytes], *, has_cpu: bool
) -> tuple[Array, list[bytes]]:
    """(code of the text before each sample's time, the texts)."""
    codes, first = number_values(samples.pid, samples.tid, samples.cpu, name)
    texts = []
    for row in first.tolist():
        pid, tid, cpu = int(samples.pid[row]), int(samples.tid[row]), int(samples.cpu[row])
        comm = names[name[row]] if name[row] >= 0 else b":%d" % tid
        place = f"{pid:7d}/{tid:<7d} [{cpu:03d}]" if has_cpu else f"{pid:7d}/{tid:<7d}"
        texts.append(b" ".join((comm, place.encode())).strip())
    return codes, texts
