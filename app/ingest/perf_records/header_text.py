"""The facts in the header of a perf.data file, in the lines that `perf script --header` prints of them.

Lines without a colon, which no reader needs, are left out.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from .byte_reader import ByteReader
from .file_header import COMPRESSED, EVENT_DESC, SAMPLE_TIME, FileHeader
from .unsupported import UnsupportedRecords

NAMES = (
    *("", "TRACING_DATA", "BUILD_ID", "HOSTNAME", "OSRELEASE", "VERSION", "ARCH", "NRCPUS", "CPUDESC", "CPUID"),
    *("TOTAL_MEM", "CMDLINE", "EVENT_DESC", "CPU_TOPOLOGY", "NUMA_TOPOLOGY", "BRANCH_STACK", "PMU_MAPPINGS"),
    *("GROUP_DESC", "AUXTRACE", "STAT", "CACHE", "SAMPLE_TIME", "MEM_TOPOLOGY", "CLOCKID", "DIR_FORMAT"),
    *("BPF_PROG_INFO", "BPF_BTF", "COMPRESSED", "CPU_PMU_CAPS", "CLOCK_DATA", "HYBRID_TOPOLOGY", "PMU_CAPS"),
)
"""Of the features, by their bits, as of Linux 6.1."""
_TEXTS = {3: "hostname", 4: "os release", 5: "perf version", 6: "arch", 8: "cpudesc", 9: "cpuid"}
_MAX_ITEMS = 4096
GROUP_DESC = 17
_CLOCKS = {0: "realtime", 1: "monotonic", 4: "monotonic_raw", 7: "boottime", 11: "tai"}


def format_header(header: FileHeader, changed_at: float) -> list[bytes]:
    """The lines of the header. changed_at: when the file was last changed, seconds since the epoch."""
    captured = time.strftime("%a %b %e %H:%M:%S %Y", time.localtime(changed_at))
    start, end = (0, 0) if header.is_piped else (header.start, header.end)
    lines = [
        *(f"captured on    : {captured}", "header version : 1", f"data offset    : {start}"),
        *(f"data size      : {end - start}", f"feat offset    : {end}"),
    ]
    for bit in header.features:
        # A section that is damaged or of a later version has no facts.
        with suppress(UnsupportedRecords):
            lines += _format_feature(header, bit)
    if not header.is_piped:
        missing = [name for bit, name in enumerate(NAMES) if name and bit not in header.features]
        lines.append(f"missing features: {' '.join(missing)} ")
    return [b"# " + line.encode("utf-8", "surrogateescape") for line in lines]


def _format_feature(header: FileHeader, bit: int) -> Iterable[str]:
    if bit == EVENT_DESC:
        for event in header.describe_events():
            ids = f", id = {{ {', '.join(map(str, event.ids))} }}" if event.ids else ""
            yield f"event : name = {event.name}, {ids}{event.attributes.describe()}"
        return
    reader = ByteReader(header.features[bit])
    if bit == GROUP_DESC:
        yield from _format_groups(reader, [event.name or "" for event in header.describe_events()])
    elif bit in _TEXTS:
        yield f"{_TEXTS[bit]} : {_text(reader)}"
    elif bit in _FORMATS:
        yield from _FORMATS[bit](reader)


def _text(reader: ByteReader) -> str:
    return reader.read_text().decode("utf-8", "surrogateescape")


def _count(reader: ByteReader) -> int:
    count = reader.read_u32()
    if count > _MAX_ITEMS:
        raise UnsupportedRecords("the header of the file is damaged")
    return count


def _format_cpus(reader: ByteReader) -> Iterable[str]:
    available, online = reader.read_u32(), reader.read_u32()
    yield f"nrcpus online : {online}"
    yield f"nrcpus avail : {available}"


def _format_memory(reader: ByteReader) -> Iterable[str]:
    yield f"total memory : {reader.read_u64()} kB"


def _format_command(reader: ByteReader) -> Iterable[str]:
    arguments = (_text(reader).replace("'", "\\'") for _ in range(_count(reader)))
    yield "cmdline : " + "".join(f"{argument} " for argument in arguments)


def _format_pmus(reader: ByteReader) -> Iterable[str]:
    pmus = [(reader.read_u32(), _text(reader)) for _ in range(_count(reader))]
    yield "pmu mappings: " + ", ".join(f"{name} = {number}" for number, name in pmus)


def _format_sample_time(reader: ByteReader) -> Iterable[str]:
    first, last = reader.read_u64(), reader.read_u64()
    yield f"time of first sample : {first // 10**9}.{first % 10**9 // 1000:06d}"
    yield f"time of last sample : {last // 10**9}.{last % 10**9 // 1000:06d}"
    yield f"sample duration : {(last - first) / 1e6:10.3f} ms"


def _format_clock(reader: ByteReader) -> Iterable[str]:
    # perf multiplies the resolution in nanoseconds by 1000.
    yield f"clockid frequency: {reader.read_u64() * 1000} MHz"


def _format_clock_data(reader: ByteReader) -> Iterable[str]:
    reader.read_u32()
    clock, time_of_day, clock_time = reader.read_u32(), reader.read_u64(), reader.read_u64()
    name = _CLOCKS.get(clock, "unknown")
    yield f"clockid: {name} ({clock})"
    seconds = time_of_day // 10**9
    shown = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds < 1 << 40 else "<error>"
    micros = time_of_day % 10**9 // 1000
    yield (
        f"reference time: {shown}.{micros:06d} = {seconds}.{micros:06d} (TOD) = "
        f"{clock_time // 10**9}.{clock_time % 10**9:09d} ({name})"
    )


def _format_capabilities(reader: ByteReader) -> Iterable[str]:
    pairs = [f"{_text(reader)}={_text(reader)}" for _ in range(_count(reader))]
    yield f"cpu pmu capabilities: {', '.join(pairs)}" if pairs else "cpu pmu capabilities: not available"


def _format_all_capabilities(reader: ByteReader) -> Iterable[str]:
    for _ in range(_count(reader)):
        pairs = [f"{_text(reader)}={_text(reader)}" for _ in range(_count(reader))]
        name = _text(reader)
        yield f"{name} pmu capabilities: {', '.join(pairs) if pairs else 'not available'}"


def _format_compression(reader: ByteReader) -> Iterable[str]:
    _, kind, level, ratio, _ = (reader.read_u32() for _ in range(5))
    yield f"compressed : {'Zstd' if kind == 1 else 'Unknown'}, level = {level}, ratio = {ratio}"


def _format_hybrid(reader: ByteReader) -> Iterable[str]:
    yield "hybrid cpu system:"
    for _ in range(_count(reader)):
        yield f"{_text(reader)} cpu list : {_text(reader)}"


def _format_directory(reader: ByteReader) -> Iterable[str]:
    yield f"directory data version : {reader.read_u64()}"


def _format_groups(reader: ByteReader, events: Sequence[str]) -> Iterable[str]:
    for _ in range(_count(reader)):
        name, leader, members = _text(reader), reader.read_u32(), reader.read_u32()
        yield f"group: {'' if name == '{anon_group}' else name}{{{','.join(events[leader : leader + members])}}}"


_FORMATS: dict[int, Callable[[ByteReader], Iterable[str]]] = {
    7: _format_cpus,
    10: _format_memory,
    11: _format_command,
    16: _format_pmus,
    SAMPLE_TIME: _format_sample_time,
    23: _format_clock,
    24: _format_directory,
    COMPRESSED: _format_compression,
    28: _format_capabilities,
    29: _format_clock_data,
    30: _format_hybrid,
    31: _format_all_capabilities,
}
