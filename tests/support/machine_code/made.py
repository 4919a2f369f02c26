"""Code that was made up: functions with four instructions, on two lines each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.profile import Profile
from perfloom.domain.schemas.code import CODE_SCHEMAS, Code

FUNCTIONS, INSTRUCTIONS, SIZE, CALL_BYTES = 3, 4, 0x100, 4
MODULE = "/bin/made"
Sample = tuple[Sequence[tuple[int, int]], int, int]
"""Stack of (function, instruction), outermost first; event; weight."""


def address_of(function: int, instruction: int, *, is_call: bool) -> int:
    """The address in a sample: of a call, that behind it."""
    return (function + 1) * SIZE + instruction * CALL_BYTES + (CALL_BYTES if is_call else 0)


def make_profile(samples: Sequence[Sample], events: Sequence[str] = ("cycles", "instructions")) -> Profile:
    """A profile of these samples."""
    builder = ProfileBuilder("perf-script")
    thread = builder.intern_thread(pid=1, tid=1)
    numbers = [builder.intern_event(name, "count") for name in events]
    for time, (stack, event, weight) in enumerate(samples):
        frames = []
        for depth, (function, instruction) in enumerate(stack):
            address = address_of(function, instruction, is_call=depth < len(stack) - 1)
            frames.append(
                builder.intern_frame(
                    builder.intern_function(f"f{function}", MODULE),
                    address=address,
                    symbol_offset=address - (function + 1) * SIZE,
                )
            )
        builder.add_sample(time, thread, numbers[event], builder.intern_stack(frames), weight)
    return builder.finish()


def make_code(profile: Profile, name: str = "/src/made.c") -> Code:
    """The code of `make_profile`: instructions 0 and 1 of a function are on its first line, 2 and 3 on its second.

    An instruction 3 is inlined, and was called from the first line.
    """
    symbols = range(FUNCTIONS)
    text = "\n".join(f"line {number} <&>" for number in range(1, 41))
    places = [(-1, f"f{f}", 0, 10 * f + line) for f in symbols for line in (1, 2)]
    inlined = [(2 * f, "inner", 0, 10 * f + 2) for f in symbols]
    place_of = [place for f in symbols for place in (2 * f, 2 * f, 2 * f + 1, len(places) + f)]
    addresses = profile.frames.column("address").to_numpy()
    columns = {
        "objects": [[MODULE], ["ab"], ["x64"], ["complete"], [None]],
        "symbols": [
            [0] * FUNCTIONS,
            [f"f{f}" for f in symbols],
            [(f + 1) * SIZE for f in symbols],
            # The address behind the last call is still inside.
            [(f + 1) * SIZE + INSTRUCTIONS * CALL_BYTES + 1 for f in symbols],
        ],
        "instructions": [
            [f for f in symbols for _ in range(INSTRUCTIONS)],
            [(f + 1) * SIZE + i * CALL_BYTES for f in symbols for i in range(INSTRUCTIONS)],
            [CALL_BYTES] * FUNCTIONS * INSTRUCTIONS,
            [f"insn {i}" for _ in symbols for i in range(INSTRUCTIONS)],
            [(f + 1) * SIZE if i == 3 else None for f in symbols for i in range(INSTRUCTIONS)],
            place_of,
        ],
        "places": [list(column) for column in zip(*places, *inlined, strict=True)],
        "files": [[name], [text], [None]],
        "frames": [np.arange(len(addresses)), np.zeros(len(addresses)), addresses],
    }
    tables = {}
    for table, parts in columns.items():
        schema = CODE_SCHEMAS[table]
        arrays = [
            pa.array(part, pa.string()).dictionary_encode() if pa.types.is_dictionary(kind) else pa.array(part, kind)
            for part, kind in zip(parts, schema.types, strict=True)
        ]
        tables[table] = pa.table(arrays, schema=schema)
    return Code(**tables)
