"""The detectors of the advice rules: one function each, which yields its measurements with evidence as text.

docs/metrics.md defines each number.
"""

import re
from collections.abc import Iterator

import numpy as np

from ...domain.arrays import Array, IndexArray
from ...domain.tables import get_column
from ...domain.units import NS_PER_US, US_PER_MS, US_PER_S, format_bytes, format_quantity
from ..core.functions import match_functions
from ..core.intervals import merge_intervals
from ..core.sample_selection import threads_of
from ..core.slice_selection import select_slices, slices_of
from ..distributed.dependencies import dependencies_of
from ..distributed.skew import skew_of, within_skew
from ..ml.graphs import graph_device_share
from ..ml.idle import IdleCause
from ..ml.launch_groups import launch_groups_of
from ..ml.tensor_cores import has_tensor_cores
from .model import AdviceFinding, Row, RuleInput

COMPILE_PATTERN = (
    r"^(_compile\.|compile_inner|TorchDynamo|torch\._dynamo|CompiledFxGraph.*compile|.*compile_fx|cudagraphify)"
)
MIN_IDLE_PERCENT = 1.0
"""Waiting times of devices below this percentage are not reported."""
MAX_GRAPH_PERCENT = 50.0
"""If graphs launched at least this percentage of the device time, no rule advises to capture one."""
PARTLY_CAPTURED_ADVICE = (
    "Most of the device time is in CUDA graphs already. Move the remaining single launches into them, or fuse them "
    "with torch.compile."
)


def _ms(us: float) -> str:
    # Findings are cached for all requests, so they do not use the time unit of a request (`format_duration`).
    return f"{us / US_PER_MS:,.3g} ms" if us < US_PER_S else f"{us / US_PER_S:,.3g} s"


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


def _iterate_rank_steps(evidence: RuleInput, column: str) -> Iterator[tuple[int | None, list[Row], float, float]]:
    """For each rank: its steps, their sum of a column, and its percentage of their time."""
    for rank, rows in evidence.group_by_rank(evidence.steps).items():
        spent, whole = sum(row[column] or 0.0 for row in rows), sum(row["total_us"] for row in rows)
        if whole:
            yield rank, rows, spent, _percent(spent, whole)


def _worst(rows: list[Row], column: str) -> str:
    worst = max(rows, key=lambda row: (row[column] or 0.0) / max(row["total_us"], 1e-9))
    return f"most in step {worst['step']}: {_ms(worst[column] or 0.0)} of {_ms(worst['total_us'])}"


def detect_dataloader_waits(evidence: RuleInput) -> Iterator[AdviceFinding]:
    idle = "the devices were idle and " if evidence.devices else ""
    for rank, rows, spent, share in _iterate_rank_steps(evidence, "dataloader_us"):
        if spent:
            yield AdviceFinding(
                share,
                f"For {share:.1f} % of the time of {len(rows)} steps ({_ms(spent)}), {idle}the host "
                f"waited for the next batch; {_worst(rows, 'dataloader_us')}.",
                share,
                rank,
            )


def detect_low_utilization(evidence: RuleInput) -> Iterator[AdviceFinding]:
    for row in evidence.devices:
        busy = row["utilization_percent"]
        if busy is None or not row["observed_us"]:
            continue
        waits = {
            one["cause"]: one for one in evidence.idle if (one["rank"], one["device"]) == (row["rank"], row["device"])
        }
        causes = sorted(((one["percent"] or 0.0, cause) for cause, one in waits.items()), reverse=True)
        cause = f"; main cause of idle time: {causes[0][1]} ({causes[0][0]:.1f} %)" if causes else ""
        yield AdviceFinding(
            busy,
            f"GPU {row['device']} was busy {busy:.1f} % of {_ms(row['observed_us'])}{cause}.",
            100 - busy,
            row["rank"],
        )


def detect_launch_bound_work(evidence: RuleInput) -> Iterator[AdviceFinding]:
    for rank, rows in evidence.group_by_rank(evidence.launches).items():
        launched, shorter = sum(row["launches"] for row in rows), sum(row["shorter"] for row in rows)
        host = sum(
            row["idle_us"] for row in evidence.idle if row["rank"] == rank and row["cause"] == IdleCause.HOST_WAIT.value
        )
        loading = sum(row["dataloader_us"] for row in evidence.steps if row["rank"] == rank)
        # What devices wait for while the host itself waits for data is reported by another rule.
        idle, whole = max(0.0, host - loading), evidence.time_us.get(rank, 0.0)
        if launched and whole and _percent(idle, whole) >= MIN_IDLE_PERCENT:
            captured = 100 * graph_device_share(evidence.profile, evidence.selection, rank)
            graphs = f" CUDA graphs launched {captured:.1f} % of the device time." if captured else ""
            yield AdviceFinding(
                _percent(shorter, launched),
                f"{shorter:,} of {launched:,} launches took less time on the device than on the host, "
                f"and devices waited for the host for {_ms(idle)} ({_percent(idle, whole):.1f} %).{graphs}",
                _percent(idle, whole),
                rank,
                advice=PARTLY_CAPTURED_ADVICE if captured >= MAX_GRAPH_PERCENT else "",
            )


def detect_graph_delays(evidence: RuleInput) -> Iterator[AdviceFinding]:
    for rank, rows in evidence.group_by_rank(evidence.graphs).items():
        waited, count = sum(row["waited_us"] for row in rows), sum(row["launches"] for row in rows)
        whole = evidence.time_us.get(rank, 0.0)
        if waited and whole:
            worst = max(rows, key=lambda row: row["waited_us"])
            name = "" if worst["graph_id"] is None else f", most of it for graph {worst['graph_id']}"
            yield AdviceFinding(
                _percent(waited, whole),
                f"Devices were idle for {_ms(waited)} ({_percent(waited, whole):.1f} % of the steps) until the host "
                f"launched the next of {count:,} CUDA graphs{name}.",
                _percent(waited, whole),
                rank,
            )


def detect_synchronizing_calls(evidence: RuleInput) -> Iterator[AdviceFinding]:
    profile = evidence.profile
    waiting, slices = dependencies_of(profile), slices_of(profile)
    chosen = select_slices(profile, evidence.selection)
    for number, calls in waiting.calls.items():
        over = np.minimum(waiting.end[calls.work], calls.end)
        keep = over > calls.start
        if chosen is not None:
            keep &= np.isin(calls.start, slices.start[chosen])
        spent = merge_intervals(calls.start[keep], over[keep]).length / NS_PER_US
        rank = evidence.rank_of(number)
        whole = evidence.time_us.get(rank, 0.0)
        if spent and whole:
            share = min(100.0, _percent(spent, whole))
            yield AdviceFinding(
                share,
                f"The host waited {_ms(spent)} in {int(keep.sum()):,} calls that block until a device is done.",
                share,
                rank,
            )


def detect_pageable_copies(evidence: RuleInput) -> Iterator[AdviceFinding]:
    for rank, rows in evidence.group_by_rank(evidence.copies).items():
        slow = [row for row in rows if "pageable" in row["name"].lower()]
        spent, whole = sum(row["total_us"] for row in slow), evidence.time_us.get(rank, 0.0)
        if slow and whole:
            count, size = sum(row["count"] for row in slow), sum(row["bytes"] or 0 for row in slow)
            yield AdviceFinding(
                _percent(spent, whole),
                f"{count:,} copies of {format_bytes(size)} between devices and pageable memory took "
                f"{_ms(spent)}, {_percent(spent, whole):.1f} % of the steps.",
                _percent(spent, whole),
                rank,
            )


def detect_exposed_communication(evidence: RuleInput) -> Iterator[AdviceFinding]:
    for rank, rows in evidence.group_by_rank(evidence.communication).items():
        spent, whole = sum(row["communicating_us"] for row in rows), sum(row["total_us"] for row in rows)
        if spent and whole:
            both = sum(row["both_us"] for row in rows)
            yield AdviceFinding(
                _percent(spent, whole),
                f"{_percent(spent, whole):.1f} % of the steps ({_ms(spent)}) only communication kernels ran; "
                f"{_percent(both, both + spent):.1f} % of the communication overlapped with computation.",
                _percent(spent, whole),
                rank,
            )


def detect_stragglers(evidence: RuleInput) -> Iterator[AdviceFinding]:
    rows = evidence.stragglers
    waited = sum(row["waiting_us"] or 0.0 for row in rows)
    moved = sum(row["transferring_us"] or 0.0 for row in rows)
    if len(rows) < 2 or not waited:
        return
    last = max(rows, key=lambda row: (not row["held_up_uncertain"], row["held_up_us"] or 0.0))
    count = sum(row["collectives"] for row in rows)
    (unsure,) = within_skew(evidence.profile, np.array([waited * NS_PER_US]), np.array([count]))
    if unsure and last["held_up_uncertain"]:
        # A wait shorter than the residual skew of the clocks is not certain.
        return
    skew = skew_of(evidence.profile)
    text = format_quantity(skew.residual_ns if skew else None, "ns").text
    mark = f", each time on average less than the residual skew of {text}, so not certain"
    yield AdviceFinding(
        _percent(waited, waited + moved),
        f"For {_percent(waited, waited + moved):.1f} % of the time in collectives, ranks waited for the last one "
        f"({_ms(waited)} in total{mark if unsure else ''}); rank {last['rank']} arrived last at {last['last']:,} of "
        f"{last['collectives']:,} and delayed others by {_ms(last['held_up_us'] or 0.0)}"
        f"{mark if last['held_up_uncertain'] else ''}.",
        _percent(waited, sum(evidence.time_us.values())),
        last["rank"],
    )


def detect_small_collectives(evidence: RuleInput) -> Iterator[AdviceFinding]:
    rows = [row for row in evidence.collectives if row["bytes"] is not None]
    small = [row for row in rows if row["bytes"] < 1 << 20]
    count, every = sum(row["collectives"] for row in small), sum(row["collectives"] for row in rows)
    if every >= 20:
        spent = sum(row["total_us"] for row in small)
        yield AdviceFinding(
            _percent(count, every),
            f"{count:,} of {every:,} collectives move less than 1 MiB; their total time is {_ms(spent)}.",
            _percent(spent, sum(evidence.time_us.values())),
        )


def detect_unused_tensor_cores(evidence: RuleInput) -> Iterator[AdviceFinding]:
    able = {row["rank"] for row in evidence.devices if has_tensor_cores(row["name"], row["compute"])}
    for rank, rows in evidence.group_by_rank(evidence.operators).items():
        if rank not in able:
            continue
        whole = sum(row["device_self_us"] or 0.0 for row in rows)
        without = sum(
            (row["device_self_us"] or 0.0) * (1 - (row["tensor_core_self_percent"] or 0.0) / 100)
            for row in rows
            if row["tensor_core_eligible"]
        )
        if whole:
            first = max(
                (r for r in rows if r["tensor_core_eligible"]), key=lambda r: r["device_self_us"] or 0, default=None
            )
            most = f", mostly {first['name']}" if first and without else ""
            yield AdviceFinding(
                _percent(without, whole),
                f"{_percent(without, whole):.1f} % of the device time ({_ms(without)}) is spent in kernels without "
                f"tensor cores, of operators that could use them{most}.",
                _percent(without, whole),
                rank,
            )


def detect_full_memory(evidence: RuleInput) -> Iterator[AdviceFinding]:
    for row in evidence.memory:
        peak = row["peak_reserved_bytes"] or row["peak_bytes"]
        if peak and row["memory_bytes"]:
            share = _percent(peak, row["memory_bytes"])
            yield AdviceFinding(
                share,
                f"{row['device']} had {share:.1f} % of its {format_bytes(row['memory_bytes'])} reserved.",
                None,
                row["rank"],
            )


def detect_free_memory(evidence: RuleInput) -> Iterator[AdviceFinding]:
    idle = {
        (row["rank"], f"GPU {row['device']}") for row in evidence.devices if (row["sm_efficiency_percent"] or 100) < 60
    }
    for row in evidence.memory:
        peak = row["peak_reserved_bytes"] or row["peak_bytes"]
        if peak and row["memory_bytes"] and (row["rank"], row["device"]) in idle:
            share = _percent(peak, row["memory_bytes"])
            yield AdviceFinding(
                share,
                f"{row['device']} used at most {share:.1f} % of its {format_bytes(row['memory_bytes'])}, and its "
                "multiprocessors were not filled.",
                None,
                row["rank"],
            )


def detect_fragmentation(evidence: RuleInput) -> Iterator[AdviceFinding]:
    for row in evidence.memory:
        reserved, unused = row["peak_reserved_bytes"], row["unused_at_peak_bytes"]
        if reserved and unused is not None:
            share = _percent(unused, reserved)
            yield AdviceFinding(
                share,
                f"At the peak, {format_bytes(unused)} of the {format_bytes(reserved)} that {row['device']} had "
                "reserved were not allocated.",
                None,
                row["rank"],
            )


def detect_retries(evidence: RuleInput) -> Iterator[AdviceFinding]:
    for row in evidence.memory:
        count = (row["retries"] or 0) + (row["out_of_memory"] or 0)
        if count:
            yield AdviceFinding(
                float(count),
                f"The allocator of {row['device']} freed its cache and retried {row['retries'] or 0:,} times; "
                f"{row['out_of_memory'] or 0:,} allocations failed.",
                None,
                row["rank"],
            )


def detect_system_allocations(evidence: RuleInput) -> Iterator[AdviceFinding]:
    for rank, rows in evidence.group_by_rank(evidence.launches).items():
        calls = [row for row in rows if re.fullmatch(r"(cuda|hip)(Malloc|Free|MallocAsync|FreeAsync)", row["name"])]
        count, spent = sum(row["calls"] for row in calls), sum(row["total_us"] for row in calls)
        known = len(evidence.group_by_rank(evidence.steps).get(rank, ()))
        if count and known > 1:
            yield AdviceFinding(
                count / known,
                f"{count:,} calls of cudaMalloc or cudaFree in {known} steps took {_ms(spent)}; each synchronizes "
                "with the device.",
                _percent(spent, evidence.time_us.get(rank, 0.0)),
                rank,
            )


def detect_compilation(evidence: RuleInput) -> Iterator[AdviceFinding]:
    yield from _host_share(evidence, COMPILE_PATTERN, "compiled or looked up compiled code")


def detect_data_parallel(evidence: RuleInput) -> Iterator[AdviceFinding]:
    yield from _host_share(evidence, r"^DataParallel\.forward$", "was in DataParallel.forward")


def detect_profiler_overhead(evidence: RuleInput) -> Iterator[AdviceFinding]:
    profile = evidence.profile
    yield from _share_of(evidence, slices_of(profile).is_kind("overhead"), "went to the profiler itself")


def _host_share(evidence: RuleInput, pattern: str, doing: str) -> Iterator[AdviceFinding]:
    named = match_functions(evidence.profile, pattern, "focus")
    yield from _share_of(evidence, named[slices_of(evidence.profile).function], f"the host {doing}")


def _share_of(evidence: RuleInput, chosen: Array, doing: str) -> Iterator[AdviceFinding]:
    profile = evidence.profile
    slices, selected = slices_of(profile), select_slices(profile, evidence.selection)
    if selected is not None:
        chosen = chosen & selected
    rank_of = threads_of(profile).rank[slices.thread]
    for rank, whole in evidence.time_us.items():
        rows = np.flatnonzero(chosen & (rank_of == rank) if evidence.has_several_ranks else chosen)
        spent = merge_intervals(slices.start[rows], slices.start[rows] + slices.duration[rows]).length / NS_PER_US
        if spent and whole:
            share = min(100.0, _percent(spent, whole))
            yield AdviceFinding(
                share, f"{_ms(spent)}, {share:.1f} % of the steps, {doing} ({len(rows):,} times).", share, rank
            )


def detect_uneven_steps(evidence: RuleInput) -> Iterator[AdviceFinding]:
    for rank, rows in evidence.group_by_rank(evidence.steps).items():
        if len(rows) < 4:
            continue
        total = np.array([row["total_us"] for row in rows])
        middle = float(np.median(total))
        worst = rows[int(total.argmax())]
        over = _percent(float(total.max()) - middle, middle)
        yield AdviceFinding(
            over,
            f"Step {worst['step']} took {_ms(worst['total_us'])}, the median of {len(rows)} steps is {_ms(middle)}.",
            _percent(float(np.maximum(total - middle, 0).sum()), float(total.sum())),
            rank,
        )


def detect_optimizer_kernels(evidence: RuleInput) -> Iterator[AdviceFinding]:
    profile = evidence.profile
    slices, called = slices_of(profile), np.sort(launch_groups_of(profile).call)
    for rank, rows in evidence.group_by_rank(evidence.operators).items():
        found = [row for row in rows if row["name"].startswith("Optimizer.step#") and row["calls"] and row["kernels"]]
        for row in found:
            steps = _select_rows(evidence, f"^{re.escape(row['name'])}$", rank)
            # A CUDA graph is one launch, however many kernels it has.
            launched = np.searchsorted(called, slices.end[steps]) - np.searchsorted(called, steps)
            each = int(launched.sum()) / row["calls"]
            yield AdviceFinding(
                each,
                f"{row['name']} makes {each:,.0f} launches per step and takes {_ms(row['host_mean_us'])} on the host.",
                _percent(row["host_total_us"], evidence.time_us.get(rank, 0.0)),
                rank,
            )


def _select_rows(evidence: RuleInput, pattern: str, rank: int | None) -> IndexArray:
    """The slices of these names that are selected, of a rank (None: of all)."""
    profile = evidence.profile
    slices, selected = slices_of(profile), select_slices(profile, evidence.selection)
    chosen = match_functions(profile, pattern, "focus")[slices.function]
    if selected is not None:
        chosen &= selected
    if rank is not None:
        chosen &= threads_of(profile).rank[slices.thread] == rank
    return np.flatnonzero(chosen)


def detect_small_grids(evidence: RuleInput) -> Iterator[AdviceFinding]:
    for rank, rows in evidence.group_by_rank(evidence.kernels).items():
        # Communication kernels use small grids on purpose.
        known = [row for row in rows if row["blocks_per_sm"] is not None and row["kind"] == "computation"]
        small = [row for row in known if row["blocks_per_sm"] < 1]
        whole, spent = sum(row["total_us"] for row in known), sum(row["total_us"] for row in small)
        if whole:
            first = max(small, key=lambda row: row["total_us"], default=None)
            most = f"; most of it in {first['name'][:80]} ({_ms(first['total_us'])})" if first else ""
            yield AdviceFinding(
                _percent(spent, whole),
                f"{_percent(spent, whole):.1f} % of the kernel time ({_ms(spent)}) is spent in kernels with fewer "
                f"blocks than the device has multiprocessors{most}.",
                _percent(spent, whole),
                rank,
            )


def detect_memory_growth(evidence: RuleInput) -> Iterator[AdviceFinding]:
    profile = evidence.profile
    names = profile.series.column("name").to_pylist()
    series, time_ns, value = (get_column(profile.counters, name) for name in ("series", "time_ns", "value"))
    for row, about in enumerate(profile.series.to_pylist()):
        if names[row].lower() not in ("allocated", "total allocated") or about["unit"] != "bytes":
            continue
        mine = series == row
        at, held = time_ns[mine], value[mine]
        ends = sorted(
            step["end_ns"]
            for step in profile.steps.to_pylist()
            if about["rank"] is None or step["rank"] == about["rank"]
        )
        if len(ends) < 4 or not len(at):
            continue
        left = held[np.maximum(np.searchsorted(at, ends, "right") - 1, 0)]
        if (np.diff(left) > 0).all():
            each = float(np.diff(left).mean())
            yield AdviceFinding(
                each,
                f"The memory still allocated at the end of a step grows by {format_bytes(each)} per step, in each "
                f"of {len(ends)} steps.",
                None,
                about["rank"],
            )
