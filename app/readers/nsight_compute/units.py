"""Units of metrics by their names, because a report has none for most numbers.

Nsight Compute builds names as unit__counter.rollup.submetric (Kernel Profiling Guide, "Metrics Structure"); the
quantity is the last countable word of the counter. Numbers in a report are as measured: times in ns, sizes in bytes.
"""

import re
from functools import lru_cache

_PERCENT = re.compile(r"\.pct|_pct(?:$|\.)|pct_of_peak")
_TIME = re.compile(r"__time_duration(?:_measured_(?:user|wallclock))?(?:\.|$)|__time_(?:start|end|active)")
_RATE = re.compile(r"\.per_(second|cycle_\w+)$")
_SHARED = re.compile(r"launch__shared_mem_per_block(?:_|$)")
_KILOHERTZ = re.compile(r"device__attribute_.*(?:clock_rate|frequency_khz)$")
_SIZES = re.compile(r"(?:^|_)(?:bytes|memory_size|mem_size|cache_size|total_memory|mem_config_size)(?:_|\.|$)")
_COUNTED = (
    ("sectors", "sector"),
    ("requests", "request"),
    ("inst", "inst"),
    ("cycles", "cycle"),
    ("warps", "warp"),
    ("threads", "thread"),
)
_EXACT = {
    "launch__registers_per_thread": "register/thread",
    "launch__thread_count": "thread",
    "launch__occupancy_limit_blocks": "block",
    "launch__occupancy_limit_registers": "block",
    "launch__occupancy_limit_shared_mem": "block",
    "launch__occupancy_limit_warps": "block",
    "sm__maximum_warps_avg_per_active_cycle": "warp",
    "smsp__maximum_warps_avg_per_active_cycle": "warp",
    "sm__warps_active.avg.per_cycle_active": "warp",
    "smsp__warps_active.avg.per_cycle_active": "warp",
    "smsp__warps_eligible.avg.per_cycle_active": "warp",
    "launch__shared_mem_config_size": "byte",
    "device__attribute_max_shared_memory_per_block": "byte",
    "device__attribute_max_shared_memory_per_multiprocessor": "byte",
}
_NAMES_ONLY = ("breakdown:", "group:", "launch__occupancy_per_")
"""Units that have names or slots for values."""
_PLAIN = ("launch__", "device__", "nvlink__")


@lru_cache(maxsize=1 << 14)
def get_unit(name: str) -> str:
    """The unit of a metric; empty if its name does not contain one."""
    if name in _EXACT or name.startswith(_NAMES_ONLY):
        return _EXACT.get(name, "")
    if _SHARED.match(name):
        return "byte/block"
    if _KILOHERTZ.match(name):
        return "Khz"
    family, _, rest = name.partition("__")
    if name.startswith(_PLAIN):
        return "%" if _PERCENT.search(name) else "byte" if _SIZES.search(name) else ""
    if _PERCENT.search(name):
        return "%"
    if _TIME.search(name):
        return "ns"
    if name.endswith(".ratio") or "_per_" in rest.partition(".")[0]:
        return ""
    counted = _find_counted_unit(rest.partition(".")[0] if rest else family)
    rate = _RATE.search(name)
    if rate and counted:
        return f"{counted}/second" if rate[1] == "second" else f"{counted}/cycle" if counted != "cycle" else ""
    return counted


def _find_counted_unit(counter: str) -> str:
    """What a counter counts."""
    if "bytes" in counter:
        return "byte"
    words = counter.split("_")
    # Skip cycles before the event that occurred in them: lts__t_sectors_cycles_active would be cycles.
    if "cycles" in words:
        return "cycle"
    return next((unit for word, unit in _COUNTED if word in words), "")
