"""What rules for sampled CPU profiles measure. Each detector yields findings regardless of the threshold.

All of them use the main event, a clock or cycles, under the selection.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from ...domain import timed_events
from ...domain.arrays import Array
from ...domain.event_names import measures_time
from ...domain.profile import Profile
from ...domain.symbols.short_names import shorten_symbol
from ...domain.tables import ROOT, get_column, get_strings
from ...domain.units import format_quantity
from ..core.functions import base_name, functions_of, match_functions
from ..core.sample_counts import count_call_samples
from ..core.sample_rollup import roll_up_filtered_samples, sum_call_weights
from ..core.sample_selection import event_id, event_names, sum_by_index, threads_of
from ..core.slice_selection import has_times
from ..core.trees import find_outermost, mark_subtrees
from .model import AdviceFinding, RuleInput
from .waiting_functions import WAITING_PATTERN

FRAME_LIMIT = 127
"""Frames of a call stack that perf records by default (kernel.perf_event_max_stack)."""
UNKNOWN_NAMES = frozenset({"", "[unknown]"})
C_LIBRARY = re.compile(r"(libc|libpthread|ld|ld-linux\S*|ld-musl\S*)[-.]")
"""Modules in which stacks of threads begin."""
MAX_NAMED = 3
"""How many names a sentence lists."""
MIN_ROLE_THREADS = 3
"""Fewer threads of one role are not compared."""
EXAMPLE_SHARE = 0.1
_Amount = tuple[str, int, int | None]
"""A label, a weight, and the rank it is of."""


def has_cpu_samples(profile: Profile) -> bool:
    """Whether the main event samples CPU time or cycles."""
    main = profile.meta.main_event
    return bool(profile.samples.num_rows) and main is not None and measures_time(main)


def lacks_off_cpu(profile: Profile) -> bool:
    """Whether a recording of perf has samples of running code over time, but not of what threads waited for."""
    names = get_strings(profile.events, "name")
    by_perf = any(timed_events.is_clock(name) or timed_events.is_cycles(name) for name in names)
    known = (timed_events.SLEEPING, timed_events.WALL_TIME, timed_events.LOCK_WAIT)
    return by_perf and has_cpu_samples(profile) and has_times(profile) and not set(known) & set(names)


def detect_few_samples(evidence: RuleInput) -> Iterator[AdviceFinding]:
    """The number of samples."""
    profile, event = evidence.profile, _main_event(evidence)
    samples = count_call_samples(profile, evidence.selection, event)
    count = int(
        roll_up_filtered_samples(profile, evidence.selection, event).count.sum() if samples is None else samples.sum()
    )
    if not count:
        return
    error = 100 * math.sqrt(EXAMPLE_SHARE * (1 - EXAMPLE_SHARE) / count)
    yield AdviceFinding(
        count,
        f"{count:,} samples of {event_names(profile)[event]}: a share of 10 % has a standard error of {error:.2g} "
        "percentage points.",
    )


def detect_unresolved_symbols(evidence: RuleInput) -> Iterator[AdviceFinding]:
    """The share of samples in functions without a symbol."""
    profile, weights = evidence.profile, _call_weights(evidence)
    total = int(weights.sum())
    if not total:
        return
    function = get_column(profile.calls, "function")
    lost = _mask_unknown(profile)[function] & (np.arange(len(function)) != ROOT)
    share = 100.0 * float(weights[lost].sum()) / total
    modules = Counter[str]()
    functions = functions_of(profile)
    for row in np.unique(function[lost & (weights > 0)]).tolist():
        modules[functions.module_of(row)] += int(weights[lost & (function == row)].sum())
    named = _list_shares(
        ((base_name(module) or "no module", weight) for module, weight in modules.most_common()), total
    )
    yield AdviceFinding(share, f"{share:.1f} % of the samples are in functions without a symbol: {named}.", share)


def detect_cut_off_stacks(evidence: RuleInput) -> Iterator[AdviceFinding]:
    """The share of samples whose call stack is incomplete: at perf's limit, or with an unknown outermost function."""
    profile, weights = evidence.profile, _call_weights(evidence)
    total, depth = int(weights.sum()), get_column(profile.calls, "depth")
    if not total or int(depth.max(initial=0)) < 2:
        return
    function, end = get_column(profile.calls, "function"), get_column(profile.calls, "end")
    deep = depth >= FRAME_LIMIT
    unknown = (depth == 1) & _mask_unknown(profile)[function] & (end - np.arange(len(end)) > 1)
    # The C library starts threads, in functions that have no symbol if it is stripped.
    modules = functions_of(profile)
    starts = np.array([bool(C_LIBRARY.match(base_name(module))) for module in modules.modules] + [False], bool)
    unknown[ROOT + 1 :] &= ~starts[modules.module[function[ROOT + 1 :]]]
    cut = mark_subtrees(end, unknown)
    deep_share, cut_share = (100.0 * float(weights[mask].sum()) / total for mask in (deep & ~cut, cut))
    share = deep_share + cut_share
    yield AdviceFinding(
        share,
        f"{share:.1f} % of the samples have an incomplete call stack: {cut_share:.1f} % begin in an unknown function, "
        f"{deep_share:.1f} % have {FRAME_LIMIT} frames or more.",
        share,
    )


def detect_waiting(evidence: RuleInput) -> Iterator[AdviceFinding]:
    """The share of samples in functions that wait."""
    profile, weights = evidence.profile, _call_weights(evidence)
    total = int(weights.sum())
    if not total:
        return
    hit = match_functions(profile, WAITING_PATTERN, "focus", ("display",))[get_column(profile.calls, "function")]
    hit[ROOT] = False
    end = get_column(profile.calls, "end")
    waiting = mark_subtrees(end, hit)
    share = 100.0 * float(weights[waiting].sum()) / total
    # By the outermost of them: a lock that sleeps in the kernel is the lock.
    outer = find_outermost(end, np.where(waiting, 0, 1 + np.arange(len(end))))
    weight = sum_by_index(outer[waiting], weights[waiting], len(end))
    names = Counter[str]()
    functions, function = functions_of(profile), get_column(profile.calls, "function")
    for call in np.flatnonzero(weight).tolist():
        names[shorten_symbol(functions.name_of(int(function[call])))] += int(weight[call])
    named = _list_shares(names.most_common(), total)
    yield AdviceFinding(share, f"{share:.1f} % of the samples are in functions that wait: {named}.", share)


def detect_imbalance(evidence: RuleInput) -> Iterator[AdviceFinding]:
    """How much more the busiest rank, or thread of a role, ran than the mean of them."""
    profile, event = evidence.profile, _main_event(evidence)
    threads, rollup = threads_of(profile), roll_up_filtered_samples(profile, evidence.selection, event)
    weight = sum_by_index(rollup.thread, rollup.weight, len(threads.key))
    name, unit = (get_strings(profile.events, column)[event] for column in ("name", "unit"))
    unit = unit or "count"
    ranks = np.unique(threads.rank[(threads.rank >= 0) & (weight > 0)])
    if len(ranks) > 1:
        amounts: list[_Amount] = [
            (f"Rank {rank}", int(weight[threads.rank == rank].sum()), rank) for rank in ranks.tolist()
        ]
        yield _imbalance(amounts, "ranks", int(weight.sum()), unit, name)
        return
    roles: dict[str, list[_Amount]] = {}
    for row in np.flatnonzero(weight).tolist():
        thread = threads.name[row] or threads.process[row] or ""
        label = f"Thread {thread}" + (f" (TID {threads.tid[row]})" if threads.tid[row] is not None else "")
        roles.setdefault(re.sub(r"\d+", "", thread), []).append((label, int(weight[row]), None))
    for role in roles.values():
        if len(role) >= MIN_ROLE_THREADS:
            yield _imbalance(role, "threads of its name", int(weight.sum()), unit, name)


def detect_idle_cpus(evidence: RuleInput) -> Iterator[AdviceFinding]:
    """The share of CPU time that was used, of all CPUs of the host."""
    profile, event, selection = evidence.profile, _main_event(evidence), evidence.selection
    hosts = {host for host in threads_of(profile).host if host}
    cpus = profile.meta.facts.get("nrcpus online", "")
    start = selection.start_ns or 0
    duration = (profile.meta.duration_ns or 0) if selection.end_ns is None else selection.end_ns
    duration = min(duration, profile.meta.duration_ns or 0) - start
    if get_strings(profile.events, "unit")[event] != "ns" or len(hosts) > 1 or not cpus.isdecimal() or duration <= 0:
        return
    if selection.threads or selection.focus or selection.ignore or selection.hide or not 1 < int(cpus) < 1 << 20:
        return
    used = float(roll_up_filtered_samples(profile, selection, event).weight.sum()) / duration
    yield AdviceFinding(
        100.0 * used / int(cpus),
        f"On average {used:.1f} of {int(cpus)} CPUs were in use by this program.",
        # Not every program can use all CPUs, so that this is the least important finding.
        0.0,
    )


def _imbalance(amounts: list[_Amount], group: str, total: int, unit: str, event: str) -> AdviceFinding:
    label, most, rank = max(amounts, key=lambda amount: amount[1])
    mean = sum(amount for _, amount, _ in amounts) / len(amounts)
    # What the others could wait for it, at most, of the time of all.
    share = 100.0 * (most - mean) * len(amounts) / max(1, total)
    shown, usual = (format_quantity(value, unit).text for value in (most, mean))
    shown += f" {event}" if unit == "count" else ""
    return AdviceFinding(
        100.0 * (most / mean - 1),
        f"{label} has {shown}, {100 * (most / mean - 1):.0f} % more than the mean of {len(amounts)} {group} ({usual}).",
        min(100.0, share),
        rank,
    )


def _main_event(evidence: RuleInput) -> int:
    return event_id(evidence.profile, evidence.profile.meta.main_event)


def _call_weights(evidence: RuleInput) -> Array:
    return sum_call_weights(evidence.profile, evidence.selection, _main_event(evidence))


def _mask_unknown(profile: Profile) -> Array:
    """Which rows of `functions` have no symbol."""
    names = profile.functions.column("name").to_pylist()
    return np.array([(name or "") in UNKNOWN_NAMES for name in names] + [False], bool)


def _list_shares(amounts: Iterable[tuple[str, int]], total: int) -> str:
    parts = [f"{name} {100.0 * weight / total:.1f} %" for name, weight in amounts]
    more = len(parts) - MAX_NAMED
    return ", ".join(parts[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "") if parts else "none"
