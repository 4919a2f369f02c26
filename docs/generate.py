"""Write docs/reference/tables.md from what the program declares of its tables: `python docs/generate.py`.

tests/test_docs.py holds the page equal to what this makes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perfloom.analysis.compare import counts, functions, tables
from perfloom.analysis.tables import TABLES, Column

PAGE = Path(__file__).parent / "reference" / "tables.md"
TYPES = {
    "str": "text",
    "int64": "whole number",
    "Int64": "whole number",
    "float64": "number",
    "Float64": "number",
    "number": "number",
    "bool": "true or false",
    "boolean": "true or false",
}
INTRODUCTION = """\
<!-- Made by docs/generate.py from app/analysis. Change the descriptions there, then run it again. -->
# Tables

Each of these can be printed by [`perfloom report`](../how-to/command-line.md#report), asked for over
[HTTP](http.md#tables), and saved from its page: as CSV, JSON or Parquet. The names are the same everywhere.

* What is not known is `null` in JSON and Parquet, empty in CSV, `-` on a terminal.
* Types are those of Parquet's columns: `string`, `int64`, `double`, `bool`. A *number* without a fraction in any row
  is an `int64` there. The unit and the meaning of a column stand in its metadata (`unit`, `description`), the table and
  the selection in the file's (`title`, `selection`).
* CSV from a page has an apostrophe before a text that a spreadsheet would take for a formula; that of the command line
  has none.
* Percentages go from 0 to 100. Rows are never cut.
* Where something of the recording was not read (see `losses`), or it is not complete, every object in JSON has the
  further field `affected_by_losses`, which is `true`; `perfloom report` says so on standard error. Of `perf stat` an
  event without a value affects that event alone, and what no page shows, as labels of pprof, affects no figure. Of
  what is not complete no advice is given: the table `advice` then has one row, of the rule `withheld`, that says why.
* The unit *event* stands for the one that the column `unit` of the row names: `count`, `ns` or `bytes`.
* A row for each event: a selection of one event (`--event`) leaves the rows of that one.

What the numbers mean where tools disagree stands under [Definitions](definitions.md).
"""
NOTES = {
    "summary": "One row; in JSON one object.",
    "losses": "The most frequent first. The same whatever is selected. What the reasons mean: see the page of each "
    "[format](../index.md#formats).",
    "hotspots": "One row for each event and function that has any weight; the greatest self weight first. A function "
    "is a name in a module. Frames hidden with `--hide` leave their self weight to their callers.\n\nThe page and the "
    "API also group `by=module` and `by=thread`; then `kind`, `file` and `line` are null, and a thread's `module` is "
    "its process.",
    "counts": "One row for each event and thread with samples, and one for each thing counted by `perf stat`; within "
    "an event the greatest value first. Intervals of one counter are added up.",
    "count-metrics": "What `perf stat` computed from its counts (`insn per cycle`, `GHz`), as it printed it. One row "
    "for each value, of its CPU, thread or core and interval; nothing is added up.",
    "threads": "One row for each thread and event; a thread with neither samples nor counts has one row with zeros. "
    "Within an event the greatest value first.",
    "events": "In the order of the recording. Values are of all ranks and runs together.",
    "ranks": "One row for each rank, run and event; a rank of which nothing was measured has one row without an event. "
    "Without ranks, one row for each host. What is known of a process (its end, its notes) is known of those that a "
    "job started.",
    "runs": "One row for each execution of the command: for each group of events of a job, and for each file of an "
    "import of several.",
    "steps": "In order of rank and time. What the parts are: see [Steps](../metrics.md#steps).",
    "devices": "One row for each device that did anything; where none did, for each that the recording knows. See "
    "[Devices](../metrics.md#devices).",
    "utilization": "In order of device and time. See [Devices](../metrics.md#devices).",
    "idle": "One row for each device and cause, then for each of its streams where it has several. See "
    "[Idle time](../metrics.md#idle-time).",
    "communication": "In order of rank and time. Why there are two splits: see "
    "[Communication](../metrics.md#communication).",
    "clocks": "One row for each rank, where there are several. Of a selection only the ranks count. See "
    "[Clocks of ranks](../metrics.md#clocks-of-ranks).",
    "collectives": "Those that took most time on all ranks first. See [Communication](../metrics.md#communication).",
    "operators": "One row for each operator and annotation; the greatest device self time first, then the host's. "
    "`by=shapes`: one for each name and shapes of inputs; `by=stack`: for each name and call stack; "
    "`by=kind`, `tensor`, `layer` or `device`: for each of these, where arguments tell it, as those of llama.cpp and "
    "mllm do. See "
    "[Operators](../metrics.md#operators).",
    "kernels": "One row for each kernel; the greatest total time first. `by=configuration`: one for each name, "
    "operator, "
    "grid, block, registers and shared memory. See [Kernels](../metrics.md#kernels).",
    "copies": "One row for each sort of copy and set, as the recording names it; the greatest total time first.",
    "launches": "One row for each function of the device's runtime that was called; the greatest time of the host "
    "first. "
    "See [Launches](../metrics.md#launches).",
    "graphs": "One row for each CUDA graph (ROCm: HIP graph) that was launched; the greatest time on the device first. "
    "See [CUDA graphs](../metrics.md#cuda-graphs).",
    "sequences": "One row for each sequence that occurs more than once; the most frequent first. `by=operator`: what "
    "one "
    "call of an operator launched. See [Launches](../metrics.md#launches).",
    "modules": "The tree in preorder, siblings in the order of their first calls. `by=type`: one row for each class, "
    "the "
    "longest time first. See [Modules](../metrics.md#modules).",
    "memory": "One row for each memory of which the recording tells: GPUs first. See [Memory](../metrics.md#memory).",
    "memory-operators": "One row for each operator and annotation in which anything was allocated or freed, device and "
    "rank; the greatest self growth first. See [Memory](../metrics.md#memory).",
    "memory-live": "What lives when most is allocated in the window, by the operator that made it; the largest first. "
    "`by=source`: by the function of Python; `by=category`: by what the file says of it. See "
    "[Memory](../metrics.md#memory).",
    "memory-events": "In order of time. Of snapshots, and of traces in which an allocation failed.",
    "memory-curves": "In order of memory, series and time: one row for each change.",
    "allocations": "In order of allocation, first what was there before. A window leaves what was allocated in it. See "
    "[Memory](../metrics.md#memory).",
    "critical-path": "One row for each name and kind; the longest first. `by=kind`: one for each kind; `by=step`: one "
    "for "
    "each step and kind, in order of time. See [Critical path](../metrics.md#critical-path).",
    "advice": "One row for each finding, of all ranks that it was found on; the most serious first. See "
    "[Advice](../metrics.md#advice).",
    "nsight": "One row for each launch that Nsight Compute measured, in the order of the report. See "
    "[Nsight Compute](../metrics.md#nsight-compute).",
    "nsight-metrics": "One row for each metric of each launch: by launch, then by section in the order of the report.",
    "nsight-hints": "One row for each hint of a rule; those that estimate most to be won first.",
    "nsight-source": "One row for each instruction (or line of source) of each launch, in the order of the report.",
    "stragglers": "Who held up others longest first. See [Communication](../metrics.md#communication).",
}
COMPARISON = """\
## Comparison

What [`perfloom diff`](../how-to/command-line.md#diff), `/compare.csv` and `/api/v1/compare` give: one row for each
event and function (or stack) that has any weight in either; the greatest change of self first.
"""
TABLE_COMPARISON = """\
## Comparison of a table

What `perfloom diff` with a table, `/compare/<table>.csv` and `/api/v1/compare/<table>` give: one row for each name that
either has in it; the greatest change first.
"""
COUNT_COMPARISON = """\
## Comparison of counts

What `perfloom diff` of two outputs of `perf stat` (or with the table `counts`), `/compare/counts.csv` and
`/api/v1/compare/counts` give: one row for each event that was counted in either. What was counted in one and sampled in
the other is not compared, and says so.
"""


def tables_page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for table in TABLES.values():
        parts.append(f"## {table.name}\n\n{table.title}. {NOTES[table.name]}\n\n{columns(table.columns)}")
    parts.append(f"{COMPARISON}\n{columns(functions.COLUMNS)}")
    parts.append(f"{TABLE_COMPARISON}\n{columns(tables.COLUMNS)}")
    parts.append(f"{COUNT_COMPARISON}\n{columns(counts.COLUMNS)}")
    return "\n".join(parts)


def columns(declared: Sequence[Column]) -> str:
    """Columns as a Markdown table."""
    lines = ["| column | type | unit | meaning |", "|---|---|---|---|"]
    lines += [f"| `{c.name}` | {TYPES[c.dtype]} | {c.unit} | {c.description} |" for c in declared]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(tables_page(), encoding="utf-8")
