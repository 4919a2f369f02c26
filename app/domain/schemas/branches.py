"""The tables of branch stacks (perf record -b): part of `tables.SCHEMAS`."""

import pyarrow as pa

BRANCH_SCHEMAS: dict[str, pa.Schema] = {
    # Distinct branches that were taken. source, target: functions. offset: in the function, null if the text has only
    # addresses. address: null if the text has symbols; of brstackoff the offset in the module. kind: perf's type (COND,
    # CALL), null if not recorded. is_loop: it closes a loop of its function.
    "branch_edges": pa.schema(
        [
            ("source", pa.int32()),
            ("source_offset", pa.uint64()),
            ("source_address", pa.uint64()),
            ("target", pa.int32()),
            ("target_offset", pa.uint64()),
            ("target_address", pa.uint64()),
            ("kind", pa.string()),
            ("is_loop", pa.bool_()),
        ]
    ),
    # How often a branch is in the branch stacks of an event's samples. time_ns: of the first of these samples. They are
    # at most interval_ns apart; 0: all have that time. count: entries; mispredicted, predicted: those of which the CPU
    # said so. cycles: sum of the cycles since the branch before each, null if not recorded. Of an edge that closes a
    # loop: iterations: how often the loop ran from one of its entries to the next, iteration_cycles: their cycles
    # (null as cycles), exits: how often it was left. See ingest/perf_text/branch_loops.
    "branches": pa.schema(
        [
            ("time_ns", pa.int64()),
            ("interval_ns", pa.int64()),
            ("thread", pa.int32()),
            ("event", pa.int32()),
            ("edge", pa.int32()),
            ("count", pa.int64()),
            ("mispredicted", pa.int64()),
            ("predicted", pa.int64()),
            ("cycles", pa.int64()),
            ("iterations", pa.int64()),
            ("iteration_cycles", pa.int64()),
            ("exits", pa.int64()),
        ]
    ),
}

BRANCH_REQUIRED: dict[str, tuple[str, ...]] = {
    "branch_edges": ("source", "target", "is_loop"),
    "branches": (
        *("time_ns", "interval_ns", "thread", "event", "edge"),
        *("count", "mispredicted", "predicted", "iterations", "exits"),
    ),
}
"""The columns that are never null."""
