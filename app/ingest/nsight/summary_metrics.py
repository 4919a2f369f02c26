"""Known metrics of Nsight Compute: those that summarize a launch, and the section of the report that a metric belongs
to.

Names and sections are those of the section files that come with Nsight Compute (SpeedOfLight.section,
Occupancy.section, LaunchStatistics.section …); units of the GPU those of its Kernel Profiling Guide.
"""

import re
from dataclasses import dataclass

SPEED_OF_LIGHT = "GPU Speed Of Light Throughput"
LAUNCH = "Launch Statistics"
OCCUPANCY = "Occupancy"
SCHEDULER = "Scheduler Statistics"
WARP = "Warp State Statistics"
INSTRUCTIONS = "Instruction Statistics"
SOURCE_SECTION = "Source counters"
TIMES_FACT = "times"
"""The fact of a profile with the meaning of its times."""


@dataclass(frozen=True)
class SummaryMetric:
    """A metric of the summary. key: Perfloom's name. names: Nsight Compute's, the best first. labels: their names in
    sections, with a unit of `unit` ("%" for shares, "" for any)."""

    key: str
    label: str
    names: tuple[str, ...]
    labels: tuple[str, ...]
    section: str
    unit: str = ""


SUMMARY_METRICS = (
    SummaryMetric(
        "duration",
        "Duration",
        (
            "gpu__time_duration.sum",
            "gpu__time_duration.avg",
            "gpu__time_duration.max",
            "gpu__time_duration_measured_user",
        ),
        ("Duration",),
        SPEED_OF_LIGHT,
    ),
    SummaryMetric(
        "sm_percent",
        "Compute (SM) throughput",
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed",),
        ("Compute (SM) Throughput", "Compute (SM) [%]", "SM [%]", "SOL SM"),
        SPEED_OF_LIGHT,
        "%",
    ),
    SummaryMetric(
        "memory_percent",
        "Memory throughput",
        (
            "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
            "gpu__compute_memory_access_throughput.avg.pct_of_peak_sustained_elapsed",
        ),
        ("Memory Throughput", "Memory [%]", "SOL Memory"),
        SPEED_OF_LIGHT,
        "%",
    ),
    SummaryMetric(
        "l1_percent",
        "L1/TEX cache throughput",
        ("l1tex__throughput.avg.pct_of_peak_sustained_active", "l1tex__throughput.avg.pct_of_peak_sustained_elapsed"),
        ("L1/TEX Cache Throughput", "SOL L1/TEX Cache"),
        SPEED_OF_LIGHT,
        "%",
    ),
    SummaryMetric(
        "l2_percent",
        "L2 cache throughput",
        ("lts__throughput.avg.pct_of_peak_sustained_elapsed",),
        ("L2 Cache Throughput", "SOL L2 Cache"),
        SPEED_OF_LIGHT,
        "%",
    ),
    SummaryMetric(
        "dram_percent",
        "DRAM throughput",
        (
            "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
            "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        ),
        ("DRAM Throughput", "SOL DRAM", "SOL FB"),
        SPEED_OF_LIGHT,
        "%",
    ),
    SummaryMetric(
        "occupancy_percent",
        "Achieved occupancy",
        ("sm__warps_active.avg.pct_of_peak_sustained_active",),
        ("Achieved Occupancy",),
        OCCUPANCY,
        "%",
    ),
    SummaryMetric(
        "theoretical_percent",
        "Theoretical occupancy",
        ("sm__maximum_warps_per_active_cycle_pct",),
        ("Theoretical Occupancy",),
        OCCUPANCY,
        "%",
    ),
    SummaryMetric(
        "registers",
        "Registers per thread",
        ("launch__registers_per_thread",),
        ("Registers Per Thread", "Register Per Thread"),
        LAUNCH,
    ),
    SummaryMetric(
        "shared_static",
        "Static shared memory per block",
        ("launch__shared_mem_per_block_static",),
        ("Static Shared Memory Per Block",),
        LAUNCH,
    ),
    SummaryMetric(
        "shared_dynamic",
        "Dynamic shared memory per block",
        ("launch__shared_mem_per_block_dynamic",),
        ("Dynamic Shared Memory Per Block",),
        LAUNCH,
    ),
    SummaryMetric("shared_all", "Shared memory per block", ("launch__shared_mem_per_block",), (), LAUNCH),
    SummaryMetric("waves", "Waves per SM", ("launch__waves_per_multiprocessor",), ("Waves Per SM",), LAUNCH),
    SummaryMetric(
        "limit_blocks", "Block limit SM", ("launch__occupancy_limit_blocks",), ("Block Limit SM",), OCCUPANCY
    ),
    SummaryMetric(
        "limit_registers",
        "Block limit registers",
        ("launch__occupancy_limit_registers",),
        ("Block Limit Registers", "Block Limit Register"),
        OCCUPANCY,
    ),
    SummaryMetric(
        "limit_shared",
        "Block limit shared memory",
        ("launch__occupancy_limit_shared_mem",),
        ("Block Limit Shared Mem",),
        OCCUPANCY,
    ),
    SummaryMetric(
        "limit_warps", "Block limit warps", ("launch__occupancy_limit_warps",), ("Block Limit Warps",), OCCUPANCY
    ),
    SummaryMetric("device_name", "Device", ("device__attribute_display_name",), (), "Device"),
    SummaryMetric(
        "sms", "Multiprocessors", ("device__attribute_multiprocessor_count", "launch__sm_count"), ("# SMs",), "Device"
    ),
    SummaryMetric("warp_size", "Warp size", ("device__attribute_warp_size",), (), "Device"),
    SummaryMetric(
        "threads_per_sm",
        "Threads per multiprocessor",
        ("device__attribute_max_threads_per_multiprocessor",),
        (),
        "Device",
    ),
)
SUMMARY_METRICS_BY_NAME = {name: (known, place) for known in SUMMARY_METRICS for place, name in enumerate(known.names)}
_BY_LABEL = {(label, known.unit): (known, 100 + n) for known in SUMMARY_METRICS for n, label in enumerate(known.labels)}
_FAMILIES = {
    "launch": LAUNCH,
    "device": "Device",
    "profiler": "Profiler",
    "nvlink": "NVLink",
    "nvlrx": "NVLink",
    "nvltx": "NVLink",
    "pcie": "PCIe",
    "numa": "NUMA",
    "gpu": "GPU",
    "gpc": "Graphics processing clusters",
    "sm": "Multiprocessors (SM)",
    "smsp": "Multiprocessors (SM)",
    "sass": INSTRUCTIONS,
    "inst": INSTRUCTIONS,
    "idc": "Constant cache",
    "l1tex": "L1/TEX cache",
    "lts": "L2 cache",
    "ltc": "L2 cache",
    "lrc": "L2 cache",
    "l2": "L2 cache",
    "fbpa": "DRAM",
    "dram": "DRAM",
    "fe": "Front end",
    "tpc": "Texture processing clusters",
    "memory": "Memory",
    "group": "Groups of metrics",
    "breakdown": "Breakdowns",
    "derived": "Derived",
    "thread": INSTRUCTIONS,
}
"""The unit of the GPU in the prefix of a metric (sm__, dram__), and the heading of such metrics."""
_ISSUE = re.compile(r"smsp__(?:issue_|warps_(?:eligible|active)|maximum_warps)")
_STALL = re.compile(r"smsp__average_warps?_|smsp__pcsamp_|smsp__average_thread")


SECTIONS = (SPEED_OF_LIGHT, LAUNCH, OCCUPANCY, SCHEDULER, WARP, INSTRUCTIONS)
"""The order of sections if the file has none."""


def find_summary_metric(name: str, label: str, unit: str) -> tuple[SummaryMetric, int] | None:
    """(the summary metric that this one is, its priority: the smallest is the best)."""
    summary_metric = SUMMARY_METRICS_BY_NAME.get(name)
    if summary_metric is None and label:
        summary_metric = _BY_LABEL.get((label, "%")) if unit == "%" else _BY_LABEL.get((label, ""))
    return summary_metric


def get_section(name: str) -> str:
    """The section of a metric if the file has none."""
    if name in SUMMARY_METRICS_BY_NAME:
        return SUMMARY_METRICS_BY_NAME[name][0].section
    if _STALL.match(name):
        return WARP
    if _ISSUE.match(name):
        return SCHEDULER
    family = name.partition("__")[0].partition("_")[0]
    return _FAMILIES.get(family, "Other")
