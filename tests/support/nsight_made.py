"""Reports of Nsight Compute (.ncu-rep) built byte by byte, in the layout of real ones."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from perfloom.ingest.protobuf_wire import encode_bytes, encode_message, encode_number, encode_varint, iterate_fields
from perfloom.readers.nsight_compute import MAGIC as MAGIC

DURATION = "gpu__time_duration.sum"
SM, MEMORY = (
    f"{name}.avg.pct_of_peak_sustained_elapsed" for name in ("sm__throughput", "gpu__compute_memory_throughput")
)
PCS, INSTRUCTIONS, SAMPLES = "launch__function_pcs", "inst_executed", "smsp__pcsamp_sample_count"
WAITED, WAITED_LATE = (f"smsp__pcsamp_warps_issue_stalled_long_scoreboard{end}" for end in ("", "_not_issued"))
BASE = 0x7F91B4FB3600


def text(field: int, words: str) -> bytes:
    return encode_bytes(field, words.encode())


def whole(field: int, value: int) -> bytes:
    """A whole number that is written even if it is 0, as Nsight Compute does."""
    return encode_varint(field << 3) + encode_varint(value)


def framed(data: bytes) -> bytes:
    """Content preceded by its size."""
    return struct.pack("<I", len(data)) + data


def value(of: Any, kind: str = "") -> bytes:
    """The message of a value. kind: of the number, if Python's own type does not determine it."""
    if isinstance(of, str):
        return encode_message(1, of.encode())
    if kind == "float":
        return encode_varint(2 << 3 | 5) + struct.pack("<f", of)
    if isinstance(of, float):
        return encode_varint(3 << 3 | 1) + struct.pack("<d", of)
    return whole(4 if kind == "uint32" else 5, of)


def metric(name: int, of: bytes | None = None, pairs: Sequence[tuple[Any, Any]] = ()) -> bytes:
    """A metric of a launch: the number of its name, its value, and values with what each is of."""
    parts = [whole(1, name)]
    if of is not None:
        parts.append(encode_message(2, of))
    parts += [encode_message(3, encode_message(1, value(key)), encode_message(2, value(one))) for key, one in pairs]
    return encode_message(13, *parts)


def listed(names: Sequence[str]) -> bytes:
    """A table of names."""
    return encode_message(4, *(encode_message(1, name.encode()) for name in names))


def section(identifier: str, title: str, order: int, shown: Sequence[tuple[str, str, str]] = ()) -> bytes:
    """A section with its metrics: name, label, unit."""
    metrics = [encode_message(2, text(1, name), text(2, label), text(5, unit)) for name, label, unit in shown]
    return encode_message(17, text(1, identifier), text(2, title), whole(3, order), encode_message(4, *metrics))


def rule(name: str, of: str, words: str, kind: int, speedup: tuple[int, float] | None = None) -> bytes:
    """The message of a rule, and its estimated speedup."""
    parts = [encode_message(1, text(1, words), whole(2, kind))]
    if speedup is not None:
        parts.append(encode_message(10, whole(1, speedup[0]), encode_varint(2 << 3 | 1), struct.pack("<d", speedup[1])))
    return encode_message(
        19, text(1, name), text(2, f"{name} shown"), encode_message(3, encode_message(1, *parts)), text(4, of)
    )


def launch(name: str, *parts: bytes, stream: int = 7, ranges: Sequence[str] = ()) -> bytes:
    """A result of a launch of `name`(int) with 4 × 1 × 1 blocks of 32."""
    opened = [encode_message(3, text(1, one)) for one in ranges]
    return b"".join(
        (
            whole(1, 4711),
            text(5, f"_Z{len(name)}{name}i"),
            text(6, name),
            text(7, f"{name}(int)"),
            encode_message(10, encode_number(1, 4), encode_number(2, 1), encode_number(3, 1)),
            encode_message(11, encode_number(1, 32), encode_number(2, 1), encode_number(3, 1)),
            *parts,
            encode_message(21, encode_message(2, whole(1, 9), encode_message(2, whole(1, 0), *opened))),
            whole(22, 1),
            whole(23, stream),
        )
    )


def block(*results: bytes, names: bytes = b"", codes: Sequence[bytes] = (), ranges: Sequence[bytes] = ()) -> bytes:
    """A block with its content. names: a table of them."""
    payload = b"".join(map(framed, (*codes, *results, *ranges)))
    process = encode_message(6, encode_number(1, 4711), text(2, "node17"), text(3, "/usr/bin/train"))
    counts = whole(1, len(codes)) + whole(2, len(results))
    return framed(counts + names + whole(5, len(payload)) + process + whole(7, len(ranges))) + payload


def result(*blocks: bytes) -> bytes:
    """A whole file of blocks."""
    return MAGIC + framed(encode_number(1, 7)) + b"".join(blocks)


def report() -> bytes:
    """A report of two launches in two blocks with one table of names, sections, rules and instructions."""
    names = [DURATION, SM, MEMORY, PCS, INSTRUCTIONS, SAMPLES, WAITED, WAITED_LATE, "sass__inst_executed_per_opcode"]
    names += ["device__attribute_display_name", "device__attribute_compute_capability_major"]
    names += ["device__attribute_compute_capability_minor", "launch__device_id", "launch__occupancy_per_block_size"]
    at = {name: place for place, name in enumerate(names)}
    title, shown = "GPU Speed Of Light Throughput", [(SM, "Compute (SM) Throughput", ""), (DURATION, "Duration", "")]
    sections = [
        section("SourceCounters", "Source Counters", 100),
        section("SpeedOfLight", title, 10, [*shown, (MEMORY, "Memory Throughput", "%")]),
    ]
    places = [BASE, BASE + 16, BASE + 32]
    common = [
        metric(at[SM], value(36.5)),
        metric(at["device__attribute_display_name"], value("NVIDIA GeForce RTX 3070")),
        metric(at["device__attribute_compute_capability_major"], value(8)),
        metric(at["device__attribute_compute_capability_minor"], value(6, "uint32")),
        metric(at["launch__device_id"], value(0.0)),
    ]
    first = launch(
        "add",
        *sections,
        metric(at[DURATION], value(84_480.0)),
        *common,
        metric(at[MEMORY], value(88.25, "float")),
        metric(at[PCS], value(float(BASE)), [(0, BASE)]),
        metric(at[INSTRUCTIONS], value(300), [(place, 100) for place in places]),
        metric(at[SAMPLES], value(60.0), [(place, 10 * n) for n, place in enumerate(places, 1)]),
        metric(at[WAITED], value(0.0), zip(places, (0.0, 20.0, 4.0), strict=True)),
        metric(at[WAITED_LATE], value(0.0), zip(places, (0, 15, 4), strict=True)),
        metric(at["sass__inst_executed_per_opcode"], value(300.0), [("MOV", 200), ("EXIT", 100)]),
        metric(at["launch__occupancy_per_block_size"], value(2338.0), [(32, 8), (64, 16)]),
        rule("SOLBottleneck", "SpeedOfLight", "Look at @section:Occupancy:Occupancy@.", 1),
        rule("SmallGrid", "SpeedOfLight", "See the @url:guide:https://example.org/a@.", 4, (1, 12.5)),
        rule("Silent", "SpeedOfLight", "", 0),
        rule("Local", "Other", "A part.", 2, (0, 50.0)),
        ranges=("forward", "linear"),
    )
    second = launch("copy", *sections, metric(at[DURATION], value(20_000)), *common, stream=20)
    code = encode_message(9, encode_message(1, text(1, "_Z3addi"), encode_number(2, BASE), encode_number(3, 3)))
    return result(
        block(),
        block(codes=[b"\x08\x01" + code]),
        block(first, names=listed(names)),
        block(second),
        framed(encode_message(3, encode_message(8, text(1, "CUDA Version"), text(2, "11.7")))),
    )


def ends_of(data: bytes) -> list[int]:
    """The end of each block of a report."""
    at, ends = len(MAGIC), []
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        begin, at = at + 4, at + 4 + size
        at += next((held for of, _, held in iterate_fields(data[begin:at]) if of == 5), 0) if ends else 0
        ends.append(at)
    return ends
