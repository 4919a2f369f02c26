"""Why a page of a result is empty although nothing is filtered, and what to record instead."""

from ....analysis.core.slice_selection import has_times
from ....analysis.stacks.branches import has_branches
from ....domain.arrow import functions as pc
from ....domain.profile import Profile
from ....domain.selection import Selection
from ....domain.tables import get_strings
from ....domain.timed_events import IN_ORDER
from ....ingest.facts import BACKWARD_CLOCK_FACT, STACKS_FACT


def explain_no_samples(profile: Profile, event: str) -> str:
    """Why there are no samples of an event, for pages of call stacks."""
    if profile.samples.num_rows:
        return (
            f"No samples of {event or 'any event'} were recorded. The program may have been too short or idle: "
            "record it for longer, or with another event."
        )
    if profile.counts.num_rows or profile.count_metrics.num_rows:
        return (
            "The events were counted, not sampled, so there are no call stacks; Event counts has the totals. Record "
            "with perf record to sample."
        )
    return "This recording has no samples. Record with perf record, or with a profiler that records call stacks."


def explain_no_formulas(profile: Profile) -> str:
    """Why no formula has a value."""
    names = get_strings(profile.events, "name")
    return (
        f"No formula applies to {', '.join(names[:5])}{', …' if len(names) > 5 else ''}."
        if names
        else "This recording has no events of perf."
    ) + " Record several events together, for example cycles, instructions and cache-misses, or write a formula above."


def explain_no_ratios(profile: Profile) -> str:
    """Why there are no ratios, and what to record."""
    if not profile.samples.num_rows:
        return explain_no_samples(profile, "")
    return (
        "Ratios need samples of at least two events. Record several events together, for example perf record -e "
        "cycles,instructions,cache-misses."
    )


def explain_flat_stacks(profile: Profile) -> tuple[str, ...]:
    """A note if each sample has only its innermost function; empty otherwise."""
    if profile.slices.num_rows or not profile.samples.num_rows or STACKS_FACT in profile.meta.facts:
        return ()
    if (pc.max_(profile.calls.column("depth")).as_py() or 0) > 1:
        return ()
    return (
        "Call stacks were not recorded: each sample has only one function. Record with call stacks (perf record "
        "--call-graph) to see callers.",
    )


def explain_backward_times(profile: Profile) -> str:
    """A note for pages that show times, if the clock of the recording goes back; empty otherwise."""
    fact = profile.meta.facts.get(BACKWARD_CLOCK_FACT)
    if not fact:
        return ""
    return (
        f"The clock of the recording goes back: {fact}. Samples are shown in order of their times, which may not be "
        "the order in which they were taken. If the file was put together from several, import these instead."
    )


def explain_no_timeline(profile: Profile) -> str:
    """Why there is nothing to draw over time; empty if there is."""
    if any(table.num_rows for table in (profile.slices, profile.instants, profile.counters)):
        return ""
    if profile.samples.num_rows:
        return (
            ""
            if has_times(profile)
            else "There is nothing to draw: this format has sums of call stacks without times. Record with perf "
            "record, or import a trace."
        )
    if profile.counts.num_rows or profile.count_metrics.num_rows:
        return (
            "There is nothing to draw: the events were counted once for the complete run. Count in intervals "
            "(perf stat -I), or sample with perf record."
        )
    return "There is nothing to draw: the recording has no samples, slices or counters with times."


def explain_one_group(profile: Profile, selection: Selection, by: str, groups: int) -> str:
    """Why the matrix has nothing to compare, and what to record; empty if it has."""
    if groups > 1 or not profile.samples.num_rows:
        return ""
    if selection.has_places:
        return f"The selection has one {by}: remove it above to compare it with others."
    return (
        f"This recording has one {by} with samples: there is nothing to compare. Ranks: record an MPI program with "
        "perfloom record --mpi openmpi --ranks 4 -- PROGRAM, or import the files of all ranks together. Threads: "
        "record a process with several threads."
    )


def explain_no_branches(profile: Profile, event: str, *, loops: bool) -> str:
    """Why there are no branches or loops of an event, and what to record."""
    if not has_branches(profile):
        return (
            "Branch stacks were not recorded. Record a hardware event with them (perf record -b -e cycles), on a CPU "
            "that keeps its last branches (LBR): Intel, AMD from Zen 3 on, and Arm with BRBE; virtual machines seldom "
            "have it. Import perf.data, or print them with perf script -F +brstacksym."
        )
    if loops:
        return (
            f"No branch of {event} leads back within its function. Loops need symbols: print branch stacks with perf "
            "script -F +brstacksym, or import perf.data."
        )
    return f"No sample of {event} has a branch stack. Choose another event."


def explain_no_heat_map(profile: Profile, event: str) -> str:
    """Why there is no heat map of an event, and what to record."""
    if not profile.samples.num_rows:
        return explain_no_samples(profile, event)
    if profile.meta.clock == IN_ORDER:
        return (
            "There is nothing to draw: the samples have no times. Print them with their times (perf script -F +time), "
            "or import perf.data."
        )
    if not has_times(profile):
        return (
            "There is nothing to draw: the samples have no times, or all have the same one. Some formats, such as "
            "pprof, have only sums of call stacks. Record with perf record, or import a format that has a time for "
            "each sample."
        )
    return explain_no_samples(profile, event)
