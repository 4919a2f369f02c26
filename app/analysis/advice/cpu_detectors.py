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
from ..core.functions import base_name, functions_of
from ..core.memo import memoize
from ..core.sample_counts import count_call_samples
from ..core.sample_rollup import roll_up_filtered_samples, sum_call_weights
from ..core.sample_selection import event_id, event_names, ranks_of, sum_by_index, threads_of
from ..core.slice_selection import has_times
from ..core.trees import mark_subtrees
from ..core.waiting_calls import waiting_calls_of
from ..matrix.balance import find_balances, format_balance
from .model import AdviceFinding, RuleInput

FRAME_LIMIT = 127
"""Frames of a call stack that perf records by default (kernel.perf_event_max_stack)."""
UNKNOWN_NAMES = frozenset({"", "[unknown]"})
C_LIBRARY = re.compile(r"(libc|libpthread|ld|ld-linux\S*|ld-musl\S*)[-.]")
"""Modules in which stacks of threads begin."""
MAX_NAMED = 3
"""How many names a sentence lists."""
EXAMPLE_SHARE = 0.1


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
    deep, cut = depth >= FRAME_LIMIT, memoize(profile, "cut-off stacks", lambda: _mask_cut_off(profile))
    deep_share, cut_share = (100.0 * float(weights[mask].sum()) / total for mask in (deep & ~cut, cut))
    share = deep_share + cut_share
    yield AdviceFinding(
        share,
        f"{share:.1f} % of the samples have an incomplete call stack: {cut_share:.1f} % begin in an unknown function, "
        f"{deep_share:.1f} % have {FRAME_LIMIT} frames or more.",
        share,
    )


def _mask_cut_off(profile: Profile) -> Array:
    """Which calls are below an unknown outermost function."""
    function, end = get_column(profile.calls, "function"), get_column(profile.calls, "end")
    outermost = get_column(profile.calls, "depth") == 1
    unknown = outermost & _mask_unknown(profile)[function] & (end - np.arange(len(end)) > 1)
    # The C library starts threads, in functions that have no symbol if it is stripped.
    modules = functions_of(profile)
    starts = np.array([bool(C_LIBRARY.match(base_name(module))) for module in modules.modules] + [False], bool)
    unknown[ROOT + 1 :] &= ~starts[modules.module[function[ROOT + 1 :]]]
    return mark_subtrees(end, unknown)


def detect_waiting(evidence: RuleInput) -> Iterator[AdviceFinding]:
    """The share of samples in functions that wait."""
    profile, weights = evidence.profile, _call_weights(evidence)
    total = int(weights.sum())
    if not total:
        return
    found = waiting_calls_of(profile)
    share = 100.0 * float(weights[found.waits].sum()) / total
    # By the outermost of them: a lock that sleeps in the kernel is the lock.
    weight = sum_by_index(found.call[found.waits], weights[found.waits], len(weights))
    names = Counter[str]()
    functions, function = functions_of(profile), get_column(profile.calls, "function")
    for call in np.flatnonzero(weight).tolist():
        names[shorten_symbol(functions.name_of(int(function[call])))] += int(weight[call])
    named = _list_shares(names.most_common(), total)
    yield AdviceFinding(share, f"{share:.1f} % of the samples are in functions that wait: {named}.", share)


def detect_imbalance(evidence: RuleInput) -> Iterator[AdviceFinding]:
    """How much more the rank, or thread of a role, that computes most does so than their mean, if that exceeds the
    error of the samples. Waiting does not count."""
    profile, event = evidence.profile, _main_event(evidence)
    by = "rank" if len(ranks_of(profile)) > 1 else "thread"
    total = int(_call_weights(evidence).sum())
    for balance in find_balances(profile, evidence.selection, event, by):
        if balance.outlier:
            yield AdviceFinding(
                balance.over_mean_percent,
                format_balance(profile, event, balance),
                # What the others could wait for it, at most, of the time of all.
                min(100.0, 100.0 * (balance.value - balance.mean) * balance.members / max(1, total)),
                balance.groups.key[balance.most] if by == "rank" else None,
            )


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
    if selection.divides_ranks or selection.has_patterns or not 1 < int(cpus) < 1 << 20:
        return
    used = float(roll_up_filtered_samples(profile, selection, event).weight.sum()) / duration
    yield AdviceFinding(
        100.0 * used / int(cpus),
        f"On average {used:.1f} of {int(cpus)} CPUs were in use by this program.",
        # Not every program can use all CPUs, so that this is the least important finding.
        0.0,
    )


def _main_event(evidence: RuleInput) -> int:
    return event_id(evidence.profile, evidence.profile.meta.main_event)


def _call_weights(evidence: RuleInput) -> Array:
    """Several rules need them."""
    profile, selection, event = evidence.profile, evidence.selection, _main_event(evidence)
    return sum_call_weights(profile, selection, event)


def _mask_unknown(profile: Profile) -> Array:
    """Which rows of `functions` have no symbol."""

    def build() -> Array:
        names = profile.functions.column("name").to_pylist()
        return np.array([(name or "") in UNKNOWN_NAMES for name in names] + [False], bool)

    return memoize(profile, "functions without a symbol", build)


def _list_shares(amounts: Iterable[tuple[str, int]], total: int) -> str:
    parts = [f"{name} {100.0 * weight / total:.1f} %" for name, weight in amounts]
    more = len(parts) - MAX_NAMED
    return ", ".join(parts[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "") if parts else "none"
