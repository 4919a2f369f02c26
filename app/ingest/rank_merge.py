"""The ranks of a planned job as one result: ranks, what each recorded, when, and what is missing.

Time: each run begins at its own start, so that runs overlap on one axis. Within a run all ranks are on one clock. Ranks
of a host share the clock of perf; its offset to the epoch is that of the rank that recorded soonest after its start (or
is recorded by perf). If the clocks of hosts are wrong, because there is no moment at which all of them were at work,
the hosts begin together.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..domain.list_text import abbreviate_names, format_ranges, to_ranges
from ..domain.profile import Meta, Profile
from ..domain.rank_state import CPUS_FACT, GOVERNOR_FACT, Rank, RankState, RecordingPlan
from ..domain.text import signal_name
from .merge import Ends, MergedProfile, MergeInput, Origin, ProfileMerger

ALL = "all"
MAX_HOSTS = 4
MAX_VALUES = 16
MAX_RANGES = 8
MAX_REASONS = 40
NO_SAMPLES = "no samples: the program used too little CPU time, or the events did not occur"
NO_DATA = "no data returned: never started, or the host was lost"
NOT_WRITTEN = "no samples: perf had them in its buffer when it was killed"
NO_END = "no end recorded: killed, or the host was lost"
NO_RECORDING = "no recording returned"
CLOCKS_DIFFER = (
    "their clocks differ by more than the duration of a run, so all hosts are shown as if they had started together"
)


class RankMerger:
    """Merges the ranks of a planned job, one after the other. Not for use after `finish`."""

    def __init__(self, plan: RecordingPlan, merging: ProfileMerger) -> None:
        self.plan = plan
        self._merging = merging
        self._runs = {
            one.run: merging.add_run(command=one.command, event_group=one.run, clock_offset_ns=0) for one in plan.runs
        }
        self._seen: dict[int, list[Rank]] = defaultdict(list)
        self._parts: dict[Rank, list[MergeInput]] = defaultdict(list)
        self._said: dict[tuple[int, str], list[Rank]] = defaultdict(list)
        self._notes: dict[Rank, list[str]] = defaultdict(list)
        self._reasons: list[str] = []
        self._failed: set[Rank] = set()
        self._of_part: list[Rank] = []
        self._starts: dict[int, int] = {}
        self._hosts_start_together = False

    def format_label(self, rank: Rank) -> str:
        """The name of a rank in messages; empty for the only process of the only run."""
        words = [f"run {rank.run}"] if len(self.plan.runs) > 1 else []
        if rank.number is not None:
            words.append(f"rank {rank.number}")
        elif rank.folder != ALL:
            words.append(f"the recording on {rank.host}")
        return ", ".join(words)

    def format_file_name(self, rank: Rank, file: str) -> str:
        """The name of a rank's file in messages."""
        label = self.format_label(rank)
        return f"{file} of {label}" if label else file

    def is_planned(self, rank: Rank) -> bool:
        """Whether its run was planned; others do not belong to this job."""
        return rank.run in self._runs

    def add(self, rank: Rank, profile: Profile) -> None:
        """Add a rank's recording. A rank may have several. Raises OSError."""
        origin = Origin(self.format_label(rank), rank.number, rank.host, self._runs[rank.run])
        self._parts[rank].append(self._merging.add(profile, origin))
        self._of_part.append(rank)

    def add_failure(self, rank: Rank, why: str) -> None:
        """Record that the recording of a rank cannot be read. why: a sentence."""
        self._reasons.append(why)
        self._failed.add(rank)
        self._notes[rank].append(why)

    def add_note(self, rank: Rank, text: str) -> None:
        """Add a note to a rank. text: a sentence."""
        self._notes[rank].append(text)

    def add_state(self, rank: Rank) -> None:
        """Record the state of a rank, after its recordings were added."""
        self._seen[rank.run].append(rank)
        state = rank.state
        if state is None:
            self._note_reason(rank, NO_END)
            return
        self._notes[rank] += map(_make_sentence, state.notes)
        how = "" if state.stop_reason and self.plan.stop_requested else _describe_end(state)
        if how:
            self._note_reason(rank, how)
        if state.size and self.plan.ranks and state.size != self.plan.ranks and rank.number is not None:
            self._note_reason(
                rank,
                f"one of {state.size}, not of {self.plan.ranks}: was the program built with the MPI that starts it?",
            )
        if not state.recorded:
            return
        parts = self._parts.get(rank, [])
        if not parts and rank not in self._failed:
            removeprefix = (
                state.text_status.removeprefix("failed").strip() if state.text_status.startswith("failed") else ""
            )
            self._note_reason(rank, f"{NO_RECORDING}: {removeprefix.rstrip('.')}" if removeprefix else NO_RECORDING)
        elif parts and not any(part.samples.rows or part.counts for part in parts):
            self._notes[rank].append(_make_sentence(NO_SAMPLES if state.perf_signal is None else NOT_WRITTEN))

    @property
    def empty(self) -> bool:
        """Whether nothing was measured at all."""
        return not any(part.samples.rows or part.counts for parts in self._parts.values() for part in parts)

    def get_reasons(self) -> tuple[str, ...]:
        """Why the result is incomplete, after all ranks were added; empty if it is complete."""
        found = list(self._reasons[:MAX_REASONS])
        if len(self._reasons) > MAX_REASONS:
            found.append(f"{len(self._reasons) - MAX_REASONS} more recordings could not be read completely.")
        for run in self._runs:
            missing = self._note_missing_ranks(run)
            if not self._seen[run]:
                before = f"Run {run}" if len(self._runs) > 1 else "The command"
                found.append(f"{before}: {NO_DATA}.")
            elif missing:
                found.append(self._describe_several(run, missing, NO_DATA))
        found += [self._describe_several(run, ranks, how) for (run, how), ranks in self._said.items()]
        return tuple(dict.fromkeys(found))

    def finish(self) -> MergedProfile:
        """The result. Raises OSError."""
        self._tell_ranks()
        return self._merging.finish(self._compute_offsets, self._complete_meta)

    def _note_reason(self, rank: Rank, how: str) -> None:
        """Record why a rank makes the result incomplete, worded for one or several."""
        self._said[rank.run, how].append(rank)
        self._notes[rank].append(_make_sentence(how))

    def _note_missing_ranks(self, run: int) -> list[Rank]:
        numbers = {rank.number for rank in self._seen[run]}
        absent = (number for number in range(self.plan.ranks or 0) if number not in numbers)
        return [Rank(run, str(number), None) for number in absent]

    def _describe_several(self, run: int, ranks: Sequence[Rank], how: str) -> str:
        numbers = sorted(rank.number for rank in ranks if rank.number is not None)
        hosts = sorted(rank.host or "?" for rank in ranks if rank.number is None and rank.folder != ALL)
        who = [f"rank{'s' if len(numbers) > 1 else ''} {abbreviate_ranges(numbers)}"] if numbers else []
        who += [f"the recording on {abbreviate_names(hosts, MAX_HOSTS)}"] if hosts else []
        before = [f"run {run}"] if len(self._runs) > 1 else []
        before += [" and ".join(who)] if who else []
        return f"{_capitalize(', '.join(before) or 'the command')}: {_make_sentence(how, capital=False)}"

    def _tell_ranks(self) -> None:
        builder = self._merging.builder
        exits: dict[int, list[int]] = defaultdict(list)
        hosts: dict[int, dict[str, None]] = defaultdict(dict)
        for run, row in self._runs.items():
            missing = self._note_missing_ranks(run)
            for rank in missing:
                self._notes[rank].append(_make_sentence(NO_DATA))
            for rank in sorted([*self._seen[run], *missing], key=lambda one: one.sort_key):
                state = rank.state or RankState()
                if state.signal is not None or state.exit_status is not None:
                    exits[run].append(128 + state.signal if state.signal is not None else state.exit_status or 0)
                if rank.host:
                    hosts[run][rank.host] = None
                builder.add_rank(
                    run=row,
                    rank=rank.number,
                    host=rank.host,
                    pid=state.pid,
                    start_ns=self._to_local_clock(state.start_ns),
                    end_ns=self._to_local_clock(state.end_ns),
                    exit_status=state.exit_status,
                    signal=state.signal,
                    recorded=state.recorded,
                    losses=sum(part.losses for part in self._parts.get(rank, ())),
                    note=" ".join(dict.fromkeys(self._notes.get(rank, ()))) or None,
                )
            statuses = exits[run]
            builder.update_run(
                row,
                exit_status=next((status for status in statuses if status), 0 if statuses else None),
                host=next(iter(hosts[run])) if len(hosts[run]) == 1 else None,
            )

    def _list_states(self) -> list[tuple[int | None, RankState]]:
        """(rank, state) of every process."""
        ranks = (rank for run in self._seen.values() for rank in run)
        return [(rank.number, rank.state) for rank in ranks if rank.state is not None]

    def _to_local_clock(self, there_ns: int | None) -> int | None:
        """A time of the target's clock, converted to the clock of this machine."""
        return None if there_ns is None else there_ns - self.plan.clock_ns

    def _compute_offsets(self, parts: Sequence[MergeInput]) -> list[int]:
        ranks = self._of_part
        epochs = _find_epochs(parts, ranks)
        offsets = [0] * len(parts)
        for run, row in self._runs.items():
            mine = [n for n, rank in enumerate(ranks) if rank.run == run]
            begins = {n: epochs[n] for n in mine}
            if (moved := _find_wrong_clocks([ranks[n] for n in mine])) is not None:
                begins = {n: at - moved.get(ranks[n].host, 0) if (at := begins[n]) is not None else None for n in mine}
                self._hosts_start_together = True
            known = [at for at in begins.values() if at is not None]
            # Ranks without a known start began with the others.
            usual = min(known, default=0)
            absolute = {n: usual if (at := begins[n]) is None else at for n in mine}
            firsts = [absolute[n] + parts[n].first_ns for n in mine if parts[n].samples.rows]
            zero = min(firsts or absolute.values(), default=0)
            for n in mine:
                offsets[n] = absolute[n] - zero
            if known:
                self._starts[run] = zero - self.plan.clock_ns
                self._merging.builder.update_run(row, start_ns=self._starts[run])
        return offsets

    def _complete_meta(self, meta: Meta, ends: Ends) -> Meta:
        lengths = {run: high - low for run, (low, high) in ends.items() if run in self._runs.values()}
        for run, row in self._runs.items():
            # Counts without intervals have no times; the ranks have them.
            if row not in lengths and (taken := _find_longest_duration_ns(self._seen[run])) is not None:
                lengths[row] = taken
                self._merging.builder.update_run(row, duration_ns=taken)
        commands = {run.command for run in self.plan.runs}
        hosts = list(dict.fromkeys(rank.host for run in self._seen.values() for rank in run if rank.host))
        facts = {
            "target": self.plan.target,
            "MPI": self.plan.mpi_flavor,
            "ranks": str(self.plan.ranks) if self.plan.ranks else None,
            "runs": str(len(self._runs)) if len(self._runs) > 1 else None,
            "hosts": abbreviate_names(hosts, MAX_HOSTS) if len(hosts) > 1 else None,
            GOVERNOR_FACT: _join_values((rank, state.governor) for rank, state in self._list_states()),
            CPUS_FACT: _join_values((rank, state.cpus) for rank, state in self._list_states()),
            "clocks": CLOCKS_DIFFER if self._hosts_start_together else None,
        }
        reasons = self.get_reasons()
        own = tuple(_abbreviate_reasons(meta.reasons))
        return replace(
            meta,
            duration_ns=max(lengths.values(), default=None),
            start_epoch_ns=min(self._starts.values(), default=None),
            command=commands.pop() if len(commands) == 1 else meta.command,
            complete=meta.complete and not reasons,
            reasons=(*own, *reasons),
            facts={name: value for name, value in facts.items() if value} | meta.facts,
        )


def abbreviate_ranges(numbers: Iterable[int]) -> str:
    """Numbers, ascending, as "0–3, 7"; of many ranges the first, and how many more numbers."""
    ranges = to_ranges(numbers)
    more = sum(high - low + 1 for low, high in ranges[MAX_RANGES:])
    return format_ranges(ranges[:MAX_RANGES]) + (f" and {more} more" if more else "")


def _describe_end(state: RankState) -> str:
    """Worded for one or several; "" for success."""
    if state.perf_signal is not None:
        return (
            f"its perf was ended by {signal_name(state.perf_signal)}; the program continued without recording, and its "
            "exit status is unknown"
        )
    if state.signal is not None:
        return f"ended by {signal_name(state.signal)}"
    if state.exit_status:
        return f"ended with exit status {state.exit_status}"
    if state.stop_reason:
        return "stopped early"
    return "" if state.exit_status == 0 else NO_END


def _join_values(values: Iterable[tuple[int | None, str]]) -> str:
    """What ranks report: the value if it is the same for all, else each value with its ranks; empty if unknown."""
    ranks: dict[str, set[int | None]] = defaultdict(set)
    for rank, value in values:
        ranks[value].add(rank)
    if len(ranks) == 1:
        return next(iter(ranks))
    texts = []
    for value, mine in ranks.items():
        numbers = sorted(rank for rank in mine if rank is not None)
        of_ranks = f" (rank{'s' if len(numbers) > 1 else ''} {abbreviate_ranges(numbers)})" if numbers else ""
        texts.append(f"{value or 'unknown'}{of_ranks}")
    more = f" and {len(texts) - MAX_VALUES} more" if len(texts) > MAX_VALUES else ""
    return "; ".join(texts[:MAX_VALUES]) + more


def _find_epochs(parts: Sequence[MergeInput], ranks: Sequence[Rank]) -> list[int | None]:
    """When each part's zero was, in ns since the epoch; None if unknown."""
    # Offset of the epoch to the clock of perf, by host: the value of perf precedes estimates from starts of ranks.
    sure: dict[str | None, int] = {}
    guess: dict[str | None, int] = {}
    for part, rank in zip(parts, ranks, strict=True):
        start = rank.state.start_ns if rank.state else None
        if part.clock_ns is None:
            continue
        if part.meta.start_epoch_ns is not None:
            sure[rank.host] = part.meta.start_epoch_ns - part.clock_ns
        if start is not None:
            # There is a delay from the start to the first sample: the smallest observed one is nearest to the truth.
            guess[rank.host] = max(start - part.clock_ns - part.samples.first_ns, guess.get(rank.host, -(1 << 62)))
    alone = 0 if len({rank.host for rank in ranks}) == 1 and not sure and not guess else None
    epochs: list[int | None] = []
    for part, rank in zip(parts, ranks, strict=True):
        behind = sure.get(rank.host, guess.get(rank.host, alone))
        if part.clock_ns is not None and behind is not None:
            epochs.append(part.clock_ns + behind)
        elif part.meta.start_epoch_ns is not None:
            epochs.append(part.meta.start_epoch_ns)
        else:
            epochs.append(rank.state.start_ns if rank.state else None)
    return epochs


def _find_wrong_clocks(ranks: Sequence[Rank]) -> dict[str | None, int] | None:
    """How far the clock of each host is ahead of the first one's, if they cannot be right: there is no moment at which
    all hosts of a run were at work. None if they can."""
    begins: dict[str | None, int] = {}
    ends: dict[str | None, int] = {}
    for rank in ranks:
        state = rank.state
        if state is not None and state.start_ns is not None:
            begins[rank.host] = min(state.start_ns, begins.get(rank.host, state.start_ns))
            end = 1 << 63 if state.end_ns is None else state.end_ns
            ends[rank.host] = max(end, ends.get(rank.host, end))
    if len(begins) < 2 or max(begins.values()) <= min(ends.values()):
        return None
    first = next(iter(begins.values()))
    return {host: at - first for host, at in begins.items()}


def _find_longest_duration_ns(ranks: Sequence[Rank]) -> int | None:
    """How long a run took according to its ranks: the longest of them, in ns."""
    times = [
        rank.state.end_ns - rank.state.start_ns
        for rank in ranks
        if rank.state and rank.state.start_ns is not None and rank.state.end_ns is not None
    ]
    return max((time for time in times if time >= 0), default=None)


def _abbreviate_reasons(reasons: Sequence[str]) -> Iterable[str]:
    yield from reasons[:MAX_REASONS]
    if len(reasons) > MAX_REASONS:
        yield f"{len(reasons) - MAX_REASONS} more recordings are incomplete."


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def _make_sentence(text: str, *, capital: bool = True) -> str:
    text = _capitalize(text.strip()) if capital else text.strip()
    return text if text.endswith((".", "?", "!")) else f"{text}."
