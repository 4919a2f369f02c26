"""Write docs/reference/{tables,job-fields,target-fields,waiting-functions,formulas,topdown}.md from what is declared in
the code: `python docs/generate.py`.

tests/test_docs.py checks that the pages are up to date.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from perfloom.analysis.compare import counts, functions, group_tables, tables
from perfloom.analysis.core import waiting_functions
from perfloom.analysis.formulas.builtin import BUILTIN_FORMULAS
from perfloom.analysis.tables import TABLES, Column
from perfloom.analysis.topdown.models import load_models
from perfloom.domain import fields as kinds
from perfloom.domain.jobs import JOB_FIELDS
from perfloom.domain.targets import TARGET_FIELDS
from perfloom.recording.fields import target_form
from perfloom.recording.fields.relevance import list_choices, list_conditions

PAGE = Path(__file__).parent / "reference" / "tables.md"
JOB_PAGE = Path(__file__).parent / "reference" / "job-fields.md"
TARGET_PAGE = Path(__file__).parent / "reference" / "target-fields.md"
WAITING_PAGE = Path(__file__).parent / "reference" / "waiting-functions.md"
FORMULA_PAGE = Path(__file__).parent / "reference" / "formulas.md"
TOPDOWN_PAGE = Path(__file__).parent / "reference" / "topdown.md"
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

Each table can be printed with [`perfloom report`](../how-to/command-line.md#report), requested over
[HTTP](http.md#tables), and exported from its page: as CSV, JSON or Parquet. The names are the same everywhere.

* Unknown values are `null` in JSON and Parquet, empty in CSV, `-` on a terminal.
* Types are those of the Parquet columns: `string`, `int64`, `double`, `bool`. A *number* without a fraction in any row
  is an `int64` there. Unit and meaning of a column are in its metadata (`unit`, `description`), table and selection in
  the metadata of the file (`title`, `selection`).
* CSV from a page has an apostrophe before text that a spreadsheet would read as a formula; CSV from the command line
  has none.
* Percentages are 0 to 100. Rows are never cut off.
* If part of the recording was not read (see `losses`), or it is not complete, every JSON object has the additional
  field `affected_by_losses`, which is `true`; `perfloom report` says so on standard error. For `perf stat`, an event
  without a value affects only that event; what no page shows, such as pprof labels, affects no figure. Incomplete
  recordings get no advice: the table `advice` then has one row, of the rule `withheld`, with the reason.
* The unit *event* means the unit in the column `unit` of the row: `count`, `ns` or `bytes`.
* With one row per event, a selection of one event (`--event`) leaves the rows of that event.

For the meaning of the numbers, and where tools disagree, see [Definitions](definitions.md).
"""
NOTES = {
    "summary": "One row; in JSON one object.",
    "losses": "Most frequent first. Not affected by a selection. For the meaning of the reasons see the page of each "
    "[format](../index.md#formats).",
    "hotspots": "One row for each event and function that has weight; largest self weight first. A function "
    "is a name in a module. The self weight of frames hidden with `--hide` goes to their callers.\n\nThe page and the "
    "API also group `by=module` and `by=thread`; then `kind`, `file` and `line` are null, and a thread's `module` is "
    "its process.",
    "tree": "One row for each event and frame of the [call tree](../how-to/call-tree.md) that has weight, in preorder, "
    "the heaviest sibling first; with `--invert` bottom-up. All threads together.",
    "branches": "One row for each event and branch in [branch stacks](../how-to/branches.md); most frequent first. See "
    "[Branches and loops](definitions.md#branches-and-loops).",
    "loops": "One row for each event and branch that leads back within its function; most frequent first. See "
    "[Branches and loops](definitions.md#branches-and-loops).",
    "heatmap": "One row for each cell of the [heat map](../how-to/timeline.md#heat-map) that has samples, in order of "
    "time. Columns of one second (wider for long recordings, narrower below two seconds) and 50 rows; the file of the "
    "page has the columns and rows of the page.",
    "matrix": "One row for each event and function with samples, computing or waiting; largest value first. Without "
    "`by`: ranks if there are several, else processes, else threads. See [Matrix](definitions.md#matrix) and "
    "[Outliers](definitions.md#outliers).",
    "matrix-cells": "One row for each event, function and group with samples, in the order of `matrix`.",
    "counts": "One row for each event and thread with samples, and one for each count of `perf stat`; within "
    "an event, largest value first. Intervals of one counter are added up.",
    "count-shares": "One row for each event, process and innermost function; by event, then largest total first. "
    "`by=thread`, `rank` or `host`: for each of these. A count of `perf stat` has one row, without a function. See "
    "[Event counts](definitions.md#event-counts).",
    "count-metrics": "What `perf stat` computed from its counts (`insn per cycle`, `GHz`), as it printed it. One row "
    "for each value, of its CPU, thread or core and interval; nothing is added up.",
    "topdown": "One row for each category of the [top-down tree](topdown.md) whose events were measured, in preorder. "
    "No rows if level 1 was not measured.",
    "formulas": "One row for each [formula](formulas.md) whose events were measured; with `by=function`, `module`, "
    "`thread`, `process`, `rank` or `host` for each of these, by the weight of its first event.",
    "ratios": "One row for each formula whose events have samples, and function; with `by=rank`, `process`, `thread` "
    "or `host` for each of these. Without such a formula: the ratios of two events. By formula, then by the total "
    "weight of its first event. From samples only. See [Read ratios](../how-to/ratios.md).",
    "threads": "One row for each thread and event; a thread with neither samples nor counts has one row with zeros. "
    "Within an event, largest value first.",
    "events": "In the order of the recording. Values are sums over all ranks and runs.",
    "ranks": "One row for each rank, run and event; a rank without measurements has one row without an event. "
    "Without ranks, one row for each host. Exit status and notes of processes exist only for jobs.",
    "runs": "One row for each execution of the command: for each group of events of a job, and for each file of an "
    "import of several.",
    "sampling": "One row for each event, in the order of the recording, then one for each event that was recorded "
    "without a sample. See [Run summary](definitions.md#run-summary).",
    "conditions": "One row for each condition. Not affected by a selection. See "
    "[Run summary](definitions.md#run-summary).",
    "steps": "By rank and time. For the parts see [Steps](../metrics.md#steps).",
    "devices": "One row for each device that did anything; if none did, for each device of the recording. See "
    "[Devices](../metrics.md#devices).",
    "utilization": "By device and time. See [Devices](../metrics.md#devices).",
    "idle": "One row for each device and cause, then for each of its streams if it has several. See "
    "[Idle time](../metrics.md#idle-time).",
    "communication": "By rank and time. For the two breakdowns see [Communication](../metrics.md#communication).",
    "clocks": "One row for each rank, if there are several. Only the ranks of a selection apply. See "
    "[Clocks of ranks](../metrics.md#clocks-of-ranks).",
    "collectives": "Longest total time over all ranks first. See [Communication](../metrics.md#communication).",
    "operators": "One row for each operator and annotation; largest device self time first, then host self time. "
    "`by=shapes`: one for each name and input shapes; `by=stack`: for each name and call stack; "
    "`by=kind`, `tensor`, `layer` or `device`: for each of these, if the arguments contain it, as for llama.cpp and "
    "mllm. See "
    "[Operators](../metrics.md#operators).",
    "kernels": "One row for each kernel; longest total time first. `by=configuration`: one for each name, "
    "operator, "
    "grid, block, registers and shared memory. See [Kernels](../metrics.md#kernels).",
    "copies": "One row for each kind of memcpy and memset, as named in the recording; longest total time first.",
    "launches": "One row for each function of the device runtime that was called; longest host time first. "
    "See [Launches](../metrics.md#launches).",
    "graphs": "One row for each CUDA graph (ROCm: HIP graph) that was launched; longest device time first. "
    "See [CUDA graphs](../metrics.md#cuda-graphs).",
    "sequences": "One row for each sequence that occurs more than once; most frequent first. `by=operator`: what one "
    "call of an operator launched. See [Launches](../metrics.md#launches).",
    "modules": "The tree in preorder, siblings in the order of their first calls. `by=type`: one row for each class, "
    "longest time first. See [Modules](../metrics.md#modules).",
    "memory": "One row for each memory in the recording: GPUs first. See [Memory](../metrics.md#memory).",
    "memory-operators": "One row for each operator and annotation in which anything was allocated or freed, device and "
    "rank; largest self growth first. See [Memory](../metrics.md#memory).",
    "memory-live": "Live memory at the peak of the window, by the operator that allocated it; largest first. "
    "`by=source`: by Python function; `by=category`: by the category in the file. See "
    "[Memory](../metrics.md#memory).",
    "memory-events": "In order of time. For snapshots, and for traces in which an allocation failed.",
    "memory-curves": "In order of memory, series and time: one row for each change.",
    "allocations": "In order of allocation, first what existed before. A window keeps what was allocated in it. See "
    "[Memory](../metrics.md#memory).",
    "critical-path": "One row for each name and kind; longest first. `by=kind`: one for each kind; `by=step`: one "
    "for "
    "each step and kind, in order of time. See [Critical path](../metrics.md#critical-path).",
    "advice": "One row for each finding, with all ranks that it applies to; by severity. See "
    "[Advice](../metrics.md#advice).",
    "nsight": "One row for each launch that Nsight Compute measured, in the order of the report. See "
    "[Nsight Compute](../metrics.md#nsight-compute).",
    "nsight-metrics": "One row for each metric of each launch: by launch, then by section in the order of the report.",
    "nsight-hints": "One row for each hint of a rule; largest estimated speedup first.",
    "nsight-source": "One row for each instruction (or line of source) of each launch, in the order of the report.",
    "stragglers": "Longest time held up first. See [Communication](../metrics.md#communication).",
}
COMPARISON = """\
## Comparison

What [`perfloom diff`](../how-to/command-line.md#diff), `/compare.csv` and `/api/v1/compare` give: one row for each
event and function (or stack) with weight in either; largest change of self first.
"""
TABLE_COMPARISON = """\
## Comparison of a table

What `perfloom diff` with a table, `/compare/<table>.csv` and `/api/v1/compare/<table>` give: one row for each name in
either; largest change first.
"""
GROUP_COMPARISON = """\
With several recordings on a side, the values are means, and there are further columns:
"""
COUNT_COMPARISON = """\
## Comparison of counts

What `perfloom diff` of two outputs of `perf stat` (or with the table `counts`), `/compare/counts.csv` and
`/api/v1/compare/counts` give: one row for each event that was counted in either. Events that were counted in one and
sampled in the other are not compared; the row says so.
"""


def tables_page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for table in TABLES.values():
        parts.append(f"## {table.name}\n\n{table.title}. {NOTES[table.name]}\n\n{columns(table.columns)}")
    parts.append(f"{COMPARISON}\n{columns(functions.COLUMNS)}")
    of_groups = group_tables.GROUP_COLUMNS[len(tables.COLUMNS) :]
    parts.append(f"{TABLE_COMPARISON}\n{columns(tables.COLUMNS)}")
    parts.append(f"{GROUP_COMPARISON}\n{columns(of_groups)}")
    parts.append(f"{COUNT_COMPARISON}\n{columns(counts.COLUMNS)}")
    return "\n".join(parts)


def columns(declared: Sequence[Column]) -> str:
    """Columns as a Markdown table."""
    lines = ["| column | type | unit | meaning |", "|---|---|---|---|"]
    lines += [f"| `{c.name}` | {TYPES[c.dtype]} | {c.unit} | {c.description} |" for c in declared]
    return "\n".join(lines) + "\n"


JOB_INTRODUCTION = """\
<!-- Made by docs/generate.py from app/domain/jobs. Change the declarations there, then run it again. -->
# Fields of a job

The same fields make up the job form, the options of [`perfloom record`](../how-to/command-line.md#record), the JSON of
the [HTTP API](http.md#jobs) and [preset files](../how-to/record.md).

* *Field* is the name in JSON and TOML; `mpi.ranks` is the field `ranks` of the object `mpi`.
* Fields that are absent have their defaults. A field that does not apply is not checked, and is set to its default.
* *Applies to* lists the choices that a field depends on. `scheduler` and `sudo` are settings of the target.
"""


TARGET_INTRODUCTION = """\
<!-- Made by docs/generate.py from app/domain/targets. Change the declarations there, then run it again. -->
# Fields of a target

The same fields make up the form of a [target](../how-to/targets.md), the options of
[`perfloom target add`](../how-to/command-line.md#target) and the files that `perfloom target export` writes.

* *Field* is the name in TOML and JSON; `ssh.port` is the field `port` of the table `ssh`. A target without `ssh` is
  this machine.
* Fields that are absent have their defaults. Host keys that you accepted are not exported.
"""


WAITING_INTRODUCTION = """\
<!-- Made by docs/generate.py from app/analysis/core/waiting_functions.py. Change the list there, then run it again. -->
# Functions that wait

Samples with one of these functions on their call stack count as waiting in the [matrix](../how-to/matrix.md), in the
load balance of ranks and in advice; all others count as computing. Many of these functions spin: they use CPU time.

The patterns are [RE2](https://github.com/google/re2/wiki/Syntax) regular expressions of the complete name. A version
(`@@GLIBC_2.34`) or `@plt` may follow a name.

To extend the list for an installation, set [`PERFLOOM_WAITING_FUNCTIONS`](settings.md): patterns of complete names of
functions or of file names of libraries, separated by semicolons. They apply to the web server and to commands:

```
export PERFLOOM_WAITING_FUNCTIONS='my_spin_\\w+;libfast\\.so.*'
```
"""


def waiting_page() -> str:
    """The page of the functions that wait."""
    parts = [WAITING_INTRODUCTION]
    for title, patterns in waiting_functions.WAITING_FUNCTIONS.items():
        parts.append(f"## {title[0].upper()}{title[1:]}\n\n{bullets(patterns)}")
    modules = [pattern for patterns in waiting_functions.WAITING_MODULES.values() for pattern in patterns]
    parts.append(
        "## Libraries\n\nEverything in these libraries, and everything that they call, because without symbols and "
        f"frame pointers their functions have no names and no callers:\n\n{bullets(modules)}"
    )
    parts.append(
        "In these libraries, the functions without a name (but not what they call, which is the program):\n\n"
        f"{bullets(waiting_functions.SPINNING_MODULES)}"
    )
    parts.append(
        "## Functions that compute again\n\nBelow these, samples count as computing, although a caller waits: they run "
        f"tasks of the program.\n\n{bullets(waiting_functions.RESUMING_FUNCTIONS)}"
    )
    return "\n".join(parts)


FORMULA_INTRODUCTION = """\
<!-- Made by docs/generate.py from app/analysis/formulas/builtin.py. Change the list there, then run it again. -->
# Formulas

A formula is a named expression over events, such as `cycles / instructions`. The table
[`formulas`](tables.md#formulas) has the values of all formulas whose events were measured, for the selection, or for
each function, module, thread, process, rank or host:

```
perfloom report ID formulas
perfloom report ID formulas --by function --focus 'parse_.*'
```

* A formula is evaluated on **sums**: CPI of a function is its cycles ÷ its instructions, never the mean of other
  ratios. `self` uses the self weights of the function, `total` its totals. Counts of `perf stat` are used where there
  are any, else the weights of samples.
* Values are in the units of the events: counts, nanoseconds of `task-clock` and `cpu-clock`, or bytes.
* x ÷ 0 is missing (`-`), and so is a formula of an event that gives no total, such as page faults that were
  [sampled by frequency](definitions.md#weight). Samples without periods (`perf script` without `-F period`) give no
  ratio of two events: perf may have sampled each at another rate.
* The column `note` says if the events were measured in different runs, so that they do not belong to the same
  execution, counted on different ranks, hosts or threads, or in different code (`cycles:u` with `instructions`).

The page *Formulas* of a result shows the same, also for a formula that you write there.

## Instead of an event

The name of a formula can be used wherever an event is chosen and values are shown: choose it next to the events of a
page, or as `--event` and `event=`:

```
perfloom report ID threads --event CPI
perfloom report ID matrix-cells --event IPC --format parquet -o ipc.parquet
perfloom diff A B --event CPI
```

An event comes before a formula of the same name. Everywhere the formula is evaluated on the sums of its events, in the
selected time, threads and functions:

| page, table | value |
|---|---|
| hotspots, call tree (`hotspots`, `tree`) | of the self weights and of the totals of a row; the tree has all formulas |
| event counts (`counts`, `count-shares`) | of each thread and count; of each bar |
| threads (`threads`, `ranks`) | of each thread, and of each host, rank and process in the tree |
| matrix (`matrix`, `matrix-cells`) | of each cell, each row, and all that computes or waits in a group |
| timeline | of each part of the time, as a curve; parts are as long as the longest of its events |
| comparisons of functions, stacks and counts | base, other, difference, ratio (other ÷ base) |

* A formula is not a sum of parts: it has no share of a total, no stacked parts, no mean and no rate. Such columns are
  empty.
* Rows are in the order of the first event of the formula, because small functions have the most extreme values. Sort by
  the value on the page.
* Pages that draw weights, such as the flame graph, the heat map and exports to other tools, show the first event of the
  formula and say so; such tables refuse it.
* Functions, stacks, cells and parts of the time have only samples; counts of `perf stat` have none of these.
* Counts of several runs are compared by the formula of their means.

## Syntax

| written | means |
|---|---|
| `cycles`, `LLC-load-misses`, `sched:sched_switch` | an event: letters, digits, `_`, `.`, `:` and `-` |
| `'cpu/event=0x3c/'` | an event with other characters, in quotes |
| `1000`, `0.5`, `1e9` | a number |
| `+` `-` `*` `/`, also `−` `×` `÷` | operators; put spaces around a minus sign, which may be a part of a name |
| `( )` | parentheses |
| `CPI * 2` | another formula by its name, if no event has that name; names with spaces in quotes |

A name means the event as recorded, else the only event that has this name without its modifiers (`instructions` means
`instructions:u`), also by its other name in `perf list` (`cpu-cycles` is `cycles`). A formula has at most 2,000
characters, and cannot refer to itself.

## Your own formulas

The page *Events* lists all formulas, and adds, edits and deletes yours: a name, an expression, a unit (at most 20
characters) and a description (at most 500). An error names the character at fault. They are in the database of the
installation, so that everyone who uses it has the same, up to 1,000. They apply to all results, in the browser and in
commands, before any other formula of the same name. A formula of the same name with another expression is an
alternative to the first: see below.

They are imported and exported as a TOML file, on that page and with `perfloom formulas`. An import replaces yours of
the same names, and stores nothing if there is an error in the file:

```
perfloom formulas list
perfloom formulas export -o formulas.toml
perfloom formulas import formulas.toml
perfloom formulas delete 'cycles per byte'
```

For the formulas of an installation, set [`PERFLOOM_FORMULAS`](settings.md) to such a file. They come after yours, and
before built-in formulas of the same name:

```toml
[[formula]]
name = "cycles per byte"
expression = "cycles / 'net:bytes'"
unit = "cycles/byte"
description = "CPU cost of a byte sent."
```

## Built-in formulas

Of two formulas with one name, the first whose events were measured applies. Per second means per second of CPU time.

"""


def formula_page() -> str:
    """The page of formulas."""
    rows = (
        f"| {formula.name} | `{formula.expression}` | {formula.unit} | {formula.description} |\n"
        for formula in BUILTIN_FORMULAS
    )
    return f"{FORMULA_INTRODUCTION}| name | formula | unit | meaning |\n|---|---|---|---|\n{''.join(rows)}"


TOPDOWN_INTRODUCTION = """\
<!-- Made by docs/generate.py from app/analysis/topdown/*.toml. Change these, then run it again. -->
# Top-down

A CPU can process a fixed number of micro-operations in each cycle: its pipeline slots. Top-down analysis tells how
many of them did useful work, and why the others did not: a tree of categories, each with its share of all slots. The
method is A. Yasin's (A Top-Down Method for Performance Analysis and Counters Architecture, ISPASS 2014).

The page *Top-down* of a result and the table [`topdown`](tables.md#topdown) show it for the selection, from counts of
`perf stat`, else from sampled events:

```
perfloom record --recorder perf-stat \\
  -e '{slots,topdown-retiring,topdown-bad-spec,topdown-fe-bound,topdown-be-bound}' -- ./program
perfloom report ID topdown
```

Without these events the page says what to record on which CPU, and *Record one level deeper* opens the job form with
the events of level 2. [How to find what limits a program](../how-to/top-down.md) is an example.

* Shares are evaluated on sums of counts, as [formulas](formulas.md) are. Names of events may be in upper case, have
  modifiers, or be written `cpu/name/` or `cpu_core/name/`.
* A share is *above* if it exceeds its threshold, and that of its parent does, too. Heavy operations (microcode) are
  above alone, and then retiring is.
* Where counts fit several CPUs, that with the most categories applies, then that whose shares of level 1 sum to about
  100 %. Another sum, or a share below 0 %, means that the events were not counted at the same time (multiplexing), or
  on another CPU; the column `note` says so.
* `topdown-` events can be counted, and sampled only as a group with `slots` as its leader (`{slots,…}:S`). E-cores of
  hybrid CPUs have other events and are not supported.

**Nothing of this was run on hardware by this project**, because its machines have no hardware counters. The formulas
were verified with counts that others published together with the percentages of perf; each CPU below says which
(`tests/data/perf-stat-topdown/README.md` names the sources).

Formulas and thresholds of Intel CPUs are derived from [Intel's perfmon repository](https://github.com/intel/perfmon)
(TMA_Metrics-full.csv 5.2, BSD 3-Clause License, Copyright (c) 2021, Intel Corporation). Those of AMD CPUs are the
pipeline utilization of AMD's Performance Monitor Counters for Family 19h Model 10h and Family 1Ah, with the names of
events in Linux; their thresholds are Intel's. They are data: `app/analysis/topdown/intel.toml` and `amd.toml`.
"""


def topdown_page() -> str:
    """The page of top-down models."""
    parts = [TOPDOWN_INTRODUCTION]
    for model in load_models():
        groups = "\n".join(f"perf stat -e '{','.join(each)}' COMMAND" for each in model.record.values())
        terms = (
            f"| *{name}* | `{formula.expression}` | |\n"
            for name, formulas in model.terms.items()
            for formula in formulas
        )
        categories = (
            f"| {'– ' if category.parent else ''}{category.name} | `{formula.expression}` | {category.above:g} % |\n"
            for category in model.categories
            for formula in category.formulas
        )
        parts.append(
            f"## {model.title}\n\n{model.cpus}. {model.verified}\n\n```\n{groups}\n```\n\n"
            f"| category | formula | threshold |\n|---|---|---|\n{''.join((*terms, *categories))}"
        )
    return "\n".join(parts)


def bullets(patterns: Iterable[str]) -> str:
    """Patterns as a Markdown list."""
    return "".join(f"* `{pattern}`\n" for pattern in patterns)


def job_fields_page() -> str:
    """The page of the fields of a job."""
    return fields_page(JOB_INTRODUCTION, JOB_FIELDS.values(), list_conditions(), list_choices())


def target_fields_page() -> str:
    """The page of the fields of a target."""
    declared = [each for each in TARGET_FIELDS.values() if not each.info.internal]
    return fields_page(TARGET_INTRODUCTION, declared, {name: {} for name in TARGET_FIELDS}, target_form.CHOICES)


def fields_page(
    introduction: str,
    declared: Iterable[kinds.DeclaredField],
    conditions: Mapping[str, kinds.Applies],
    choices: Mapping[str, Collection[str]],
) -> str:
    """A page with a table of declared fields; the column of conditions exists only if a field has any."""
    rows = [("field", "type", "default", "option", "applies to", "meaning")]
    for each in declared:
        option = each.info.option
        rows.append(
            (
                f"`{each.path}`",
                field_type(each.kind) + (" (required)" if each.required else ""),
                field_default(each.default),
                ", ".join(f"`{name}`" for name in option.names) if option else "",
                "; ".join(
                    field_condition(name, values, choices[name]) for name, values in conditions[each.name].items()
                ),
                f"{each.info.label}. {each.info.help or (option.help.partition('  [')[0] if option else '')}".strip(),
            )
        )
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in zip(*columns, strict=True)]
    lines.insert(1, "|" + "---|" * len(columns))
    return introduction + "\n" + "\n".join(lines) + "\n"


def field_type(kind: kinds.FieldKind) -> str:
    """The type of a field in JSON, with its range."""
    match kind:
        case kinds.NumbersField():
            return f"whole number, {kind.least:,} to {kind.most:,}, or a list of such"
        case kinds.NumberField():
            multiple = f", a multiple of {kind.multiple}" if kind.multiple > 1 else ""
            return f"whole number, {kind.least:,} to {kind.most:,}{multiple}"
        case kinds.DurationField():
            return f"seconds, {kind.least:,} to {kind.most:,.0f}"
        case kinds.WallTimeField():
            return f"whole seconds, 1 to {kind.most:,}"
        case kinds.SwitchField() | kinds.EitherField():
            return "true or false"
        case kinds.ChoiceField():
            return "one of " + ", ".join(f"`{value}`" for value in kind.type)
        case kinds.CommandLineField():
            return "list of strings, or one string as typed in a shell"
        case kinds.TextListField():
            return "list of strings"
        case kinds.VariablesField() | kinds.ProgramsField():
            return "object of strings"
        case _:
            return "string"


def field_condition(choice: str, values: Collection[str], every: Collection[str]) -> str:
    """A choice with the values for which a field applies, or the one for which it does not. every: all values."""
    others = [value for value in every if value not in values]
    if len(others) == 1 and len(values) > 2:
        return f"{choice}: not `{others[0]}`"
    return f"{choice}: {', '.join(f'`{value}`' for value in values)}"


def field_default(default: object) -> str:
    """A default as JSON writes it; empty for none."""
    if default is None or default == () or default == "" or default == {}:
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


if __name__ == "__main__":
    PAGE.write_text(tables_page(), encoding="utf-8")
    JOB_PAGE.write_text(job_fields_page(), encoding="utf-8")
    TARGET_PAGE.write_text(target_fields_page(), encoding="utf-8")
    WAITING_PAGE.write_text(waiting_page(), encoding="utf-8")
    TOPDOWN_PAGE.write_text(topdown_page(), encoding="utf-8")
    FORMULA_PAGE.write_text(formula_page(), encoding="utf-8")
