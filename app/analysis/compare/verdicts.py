"""What changed between two groups of runs, and whether chance explains it: rows, one sentence, and a gate."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...domain.errors import InvalidRequest
from ...domain.list_text import abbreviate_names
from ...domain.profile import Profile
from ...domain.rank_state import CPUS_FACT, GOVERNOR_FACT
from ...domain.selection import Selection
from ...domain.text import shorten
from ...domain.units import format_percent, format_quantity
from ..core.common_columns import EVENT
from ..core.functions import base_name
from ..core.schema import Column, TableRows, build_rows
from .evidence import Evidence, RunValues, compare_values, has_enough_runs
from .history import find_levels
from .runs import EarlierRuns, RunGroups, add_earlier_runs, collect_runs, sampling_of

MAX_CAUSES = 3
MOST = 0.5
"""A function explains a change if it has this part of it."""


_PERF = re.compile(r"(\S*/)?perf\s")
_PERF_OUTPUT = re.compile(r"\s(-o\s*|--output[=\s])\S+")


class Verdict(StrEnum):
    """Of a row. MORE, LESS: of a formula, which may be better when it grows. NOISE: it differs by more than the noise
    of sampling, but the noise between runs is unknown."""

    SLOWER = "slower"
    FASTER = "faster"
    MORE = "more"
    LESS = "less"
    NONE = "no evidence"
    NOISE = "beyond sampling noise"
    UNTESTED = "not tested"


_FOUND = frozenset(str(one) for one in Verdict) - {str(Verdict.NONE), str(Verdict.UNTESTED)}


def _columns(measure: str, what: str) -> tuple[Column, ...]:
    mean = f"Mean {what} of the runs of the {{}}, missing if samples give no total."
    share = f"Mean {what} of the runs of the {{}}, in percent of everything selected."
    return (
        Column(f"{measure}_verdict", "", f"The verdict on the {what}: see definitions.md."),
        Column(f"base_{measure}", "event", mean.format("base"), "Float64"),
        Column(f"other_{measure}", "event", mean.format("other"), "Float64"),
        Column(f"base_{measure}_percent", "%", share.format("base"), "Float64"),
        Column(f"other_{measure}_percent", "%", share.format("other"), "Float64"),
        Column(
            f"growth_{measure}_percent",
            "%",
            "Difference in percent of everything selected in the base; of shares, the difference in percentage points; "
            "of a formula, in percent of its value in the base.",
            "Float64",
        ),
        Column(f"change_{measure}_percent", "%", "Ratio other ÷ base of the geometric means, minus 1.", "Float64"),
        Column(f"low_{measure}_percent", "%", "Lower end of the 95 % interval of the change.", "Float64"),
        Column(f"high_{measure}_percent", "%", "Upper end of the interval.", "Float64"),
        Column(
            f"q_{measure}",
            "",
            "Smallest rate of false discoveries at which the change is found; missing if it was not tested.",
            "Float64",
        ),
        Column(
            f"detectable_{measure}_percent",
            "%",
            "The smallest growth of this value that a single test of these runs finds with a probability of 80 %.",
            "Float64",
        ),
    )


MEASURES = {"total": "weight of the function and its callees", "self": "weight of the function itself"}
COLUMNS = (
    Column("name", "", "Name of the function."),
    Column("module", "", "Program or library of the function."),
    EVENT,
    Column("unit", "", "The unit of the weights: count, ns or bytes."),
    *(column for measure, what in MEASURES.items() for column in _columns(measure, what)),
    Column("earlier_runs", "", "Earlier runs that the noise between runs is from; missing if it is not.", "Int64"),
    Column("earlier_variation_percent", "%", "Coefficient of variation of the whole in these runs.", "Float64"),
)


@dataclass(frozen=True)
class WholeChange:
    """A change of the whole, as a ratio minus 1. found: whether chance does not explain it."""

    ratio: float
    low: float
    high: float
    detectable: float
    found: bool


@dataclass(frozen=True)
class Note:
    """A sentence on what else differs. text: with {} where the names are, which are from files."""

    text: str
    names: tuple[str, ...] = ()


MOVED = Note(
    "Most functions are in modules of other directories on the two sides, so that they are not compared with each "
    "other: choose the rules for names of two builds (--names builds)."
)


@dataclass(frozen=True)
class EarlierNoise:
    """The noise between runs, from earlier ones of the same command. variation: coefficient of variation of the whole
    between two changes of its level."""

    runs: int
    variation: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """A comparison of two groups of runs. whole: how their total weight changed; None if only shares were compared.
    is_certain: whether the noise between runs is known. notes: sentences on
    what else differs between the recordings. noise: where the noise between runs is from, if not from these runs.
    formula: the expression that was compared instead of an event; then growth is in percent of the value itself."""

    rows: TableRows
    event: str
    unit: str
    base_runs: int
    other_runs: int
    as_shares: bool
    is_certain: bool
    whole: WholeChange | None
    notes: tuple[Note, ...] = ()
    noise: EarlierNoise | None = None
    formula: str = ""

    def sentence(self, quote: Callable[[str], str] = shorten) -> str:
        """The result in a sentence: only what there is evidence for. quote: how to write a name from a file."""
        runs, event = f"{_count_runs(self.base_runs)} against {_count_runs(self.other_runs)}", quote(self.event)
        if self.whole is None:
            first = f"Shares of {event}, {runs}"
        elif self.whole.found:
            times = self.unit == "ns" and self.is_certain and not self.formula
            more = self.whole.ratio > 0
            word = ("slower" if more else "faster") if times else f"{'more' if more else 'less'} {event}"
            ends = sorted(abs(100 * end) for end in (self.whole.low, self.whole.high))
            interval = f" ({_number(ends[0])}–{_number(ends[1])} %)" if self.is_certain else ""
            first = f"{format_percent(100 * abs(self.whole.ratio))} {word}{interval}, {runs}"
        else:
            least = f"; the smallest to be seen is {format_percent(100 * self.whole.detectable)}"
            first = f"No evidence of a change of {event} as a whole, {runs}{least if self.whole.detectable else ''}"
        causes, separator = self._causes(quote), ". Of functions: " if self.whole and not self.whole.found else ": "
        rest = f"{separator}{'; '.join(causes)}." if causes else ". No function changed by more than chance."
        text = first + rest
        if not self.is_certain:
            text += " How much runs vary is unknown: compare at least 3 runs on each side."
        elif self.noise:
            percent = format_percent(100 * self.noise.variation)
            text += f" Run-to-run noise from {self.noise.runs} earlier runs: {percent}."
        notes = (note.text.format(abbreviate_names([quote(name) for name in note.names], 3)) for note in self.notes)
        return " ".join((text, *notes))

    def _causes(self, quote: Callable[[str], str]) -> list[str]:
        """The functions that explain the change: what grew by itself, or, if the growth is spread over many functions,
        the innermost caller of most of it."""
        records = list_found(self.rows)
        rows = [row for row in records if _is_found(row["self_verdict"])]
        if self.formula:
            grown = [f"{quote(row['name'])} {_signed(row['growth_self_percent'])} %" for row in rows]
            return grown[:MAX_CAUSES]
        causes = [(row, "self") for row in rows]
        callers = [row for row in records if not _is_found(row["self_verdict"])]
        for caller in sorted(callers, key=lambda row: row["other_total_percent"]):
            growth = caller["growth_total_percent"]
            explained = sum(row["growth_self_percent"] for row in rows if row["growth_self_percent"] * growth > 0)
            if abs(explained) < MOST * abs(growth):
                causes.insert(0, (caller, "total"))
                break
        return [self._cause(row, measure, quote) for row, measure in causes[:MAX_CAUSES]]

    def _cause(self, row: dict[str, Any], measure: str, quote: Callable[[str], str]) -> str:
        name = quote(row["name"])
        if not row[f"base_{measure}_percent"]:
            return f"{name} is new"
        if not row[f"other_{measure}_percent"]:
            return f"{name} is gone"
        with_callees = " with what it calls" if measure == "total" else ""
        if self.as_shares:
            points = row[f"other_{measure}_percent"] - row[f"base_{measure}_percent"]
            return f"{name}{with_callees} {_signed(points)} points"
        delta = row[f"other_{measure}"] - row[f"base_{measure}"]
        size = format_quantity(abs(delta), self.unit).text
        return f"{name}{with_callees} costs {size} {'more' if delta > 0 else 'less'}"


def list_found(rows: TableRows) -> list[dict[str, Any]]:
    """The rows of a comparison with evidence on self or total, in their order: of thousands mostly few."""
    verdicts = (rows.values[f"{measure}_verdict"] for measure in MEASURES)
    found = np.zeros(len(rows), bool)
    for verdict in verdicts:
        for name in _FOUND:
            found |= verdict == name
    return rows.take(np.flatnonzero(found)).records()


class GateResult(StrEnum):
    """Of a gate."""

    PASS = "pass"
    SLOWER = "slower"
    UNCERTAIN = "cannot tell"


def check_gate(comparison: Comparison, most: float) -> tuple[GateResult, str]:
    """Whether something grew by more than `most` percent of the whole of the base (of shares: percentage points), with
    evidence. UNCERTAIN: the runs neither exclude a growth of `most` nor could have shown it, or the noise between them
    is unknown and something grew by more than the noise of sampling. Of a formula, only the whole is considered, in
    percent of its value. With the reason."""
    grown = [("everything selected", 100 * comparison.whole.ratio, comparison.whole.found)] if comparison.whole else []
    # Of a formula, the value of a small function says little about the program.
    for row in [] if comparison.formula else list_found(comparison.rows):
        for measure in MEASURES:
            growth = row[f"growth_{measure}_percent"]
            if _is_found(row[f"{measure}_verdict"]) and growth is not None:
                grown.append((repr(shorten(row["name"])), growth, True))
    above: dict[str, float] = {}
    for name, growth, found in grown:
        if found and growth > most:
            above[name] = max(growth, above.get(name, growth))
    if above:
        name, worst = max(above.items(), key=lambda one: one[1])
        more = f", and {len(above) - 1} more" if len(above) > 1 else ""
        text = f"{name} grew by {worst:.2f} %, above {most:g} %{more}"
        if comparison.is_certain:
            return GateResult.SLOWER, f"{text}."
        return (
            GateResult.UNCERTAIN,
            f"{text}: more than the noise of sampling, but the noise between runs is unknown. Compare at least 3 "
            "runs on each side, or give their --variation.",
        )
    least = _least_growth(comparison, most)
    if least > most:
        return (
            GateResult.UNCERTAIN,
            f"No growth above {most:g} % was found, but the smallest that these runs could show is {least:.2g} %. "
            "Compare more or longer runs, or raise the threshold.",
        )
    return GateResult.PASS, ""


def compare_runs(
    base: Sequence[Profile],
    other: Sequence[Profile],
    base_selection: Selection,
    other_selection: Selection,
    *,
    as_shares: bool | None = None,
    paired: bool = False,
    variation: float | None = None,
    find_earlier: Callable[[str], Sequence[EarlierRuns]] | None = None,
) -> Comparison:
    """The comparison of two groups of recordings, one event: see `collect_runs`.

    as_shares: compare shares of the whole; None: unless all recordings are of the same command. paired, variation: see
    `compare_values`. find_earlier: for an event, the runs of earlier recordings of the same command on the same host,
    the oldest first, with `base_selection`; it is called if there are too few runs, and the same is selected on both
    sides. Raises InvalidRequest.
    """
    groups = collect_runs(base, other, base_selection, other_selection)
    if as_shares is None:
        commands = {_program_of(profile) for profile in (*base, *other)}
        as_shares = len(commands) > 1 or None in commands or "" in commands
    as_shares = as_shares or groups.only_shares
    if paired and groups.base.runs != groups.other.runs:
        raise InvalidRequest(
            f"Pairs need as many runs on both sides, not {groups.base.runs} and {groups.other.runs}. Compare "
            "them without pairs.",
            "paired",
        )
    before, after = groups.base, groups.other
    certain, noise = variation is not None or has_enough_runs(before, after), None
    if not certain and find_earlier is not None and base_selection == other_selection:
        groups = add_earlier_runs(groups, find_earlier(groups.event), base[0])
        if groups.earlier:
            wholes = np.concatenate([group.whole for group in groups.earlier])
            certain, noise = True, EarlierNoise(len(wholes), find_levels(wholes).variation)
    # Both measures of all functions and the whole are one family of tests.
    evidence, found = compare_values(
        before, after, as_shares=as_shares, paired=paired, variation=variation, earlier=groups.earlier
    )
    whole = None
    if found is not None:
        ratio, low, high, detectable = (
            math.expm1(float(value[0])) for value in (found.difference, found.low, found.high, found.detectable)
        )
        whole = WholeChange(ratio, low, high, detectable, bool(found.found[0]))
    return Comparison(
        _build_rows(groups, before, after, evidence, as_shares, certain, noise),
        groups.event,
        groups.unit,
        before.runs,
        after.runs,
        as_shares,
        certain,
        whole,
        (*find_notes((*base, *other), groups.event), *([MOVED] if _is_moved(groups) else [])),
        noise,
    )


def _is_moved(groups: RunGroups) -> bool:
    """Whether most of the base is in functions that the other side has in modules of another directory."""
    count = len(groups.functions)
    own = [side.weight[count:].sum(axis=1) for side in (groups.base, groups.other)]
    if own[0][own[1] == 0].sum() <= MOST * own[0].sum():
        return False
    rows = [
        ((name, base_name(module)), before, after)
        for (name, module), before, after in zip(groups.functions, *(side.tolist() for side in own), strict=True)
    ]
    there = {key for key, before, after in rows if after > 0 and not before}
    moved = sum(before for key, before, after in rows if before > 0 and not after and key in there)
    return bool(moved > MOST * float(own[0].sum()))


def _program_of(profile: Profile) -> str | None:
    """Its command, without the name of the file that perf wrote."""
    command = profile.meta.command
    return _PERF_OUTPUT.sub("", command) if command and _PERF.match(command) else command


def find_notes(profiles: Sequence[Profile], event: str) -> Iterator[Note]:
    """What differs between recordings that are compared."""
    incomplete = sum(not profile.meta.complete for profile in profiles)
    if incomplete:
        verb = "is" if incomplete == 1 else "are"
        yield Note(f"{incomplete} of {len(profiles)} recordings {verb} incomplete.")
    for fact, what in (
        ("cpudesc", "CPUs"),
        ("hostname", "hosts"),
        (GOVERNOR_FACT, "frequency governors"),
        (CPUS_FACT, "sets of allowed CPUs"),
    ):
        found = dict.fromkeys(profile.meta.facts[fact] for profile in profiles if profile.meta.facts.get(fact))
        if len(found) > 1:
            yield Note(f"The recordings are from different {what}: {{}}.", tuple(found))
    rates = {sampling_of(profile, event) for profile in profiles} - {(None, None)}
    if len(rates) > 1:
        yield Note("They were sampled at different frequencies or periods.")


def _build_rows(
    groups: RunGroups,
    before: RunValues,
    after: RunValues,
    evidence: Evidence,
    as_shares: bool,
    certain: bool,
    noise: EarlierNoise | None,
) -> TableRows:
    count = len(groups.functions)
    base_share, other_share = (100 * (side.weight / side.whole).mean(axis=1) for side in (before, after))
    base_mean, other_mean = (side.weight.mean(axis=1) for side in (before, after))
    growth = other_share - base_share if as_shares else 100 * (other_mean - base_mean) / before.whole.mean()
    verdicts = _verdicts(evidence, certain)
    # The interval of what was absent on a side has no meaning.
    known = (base_mean > 0) & (other_mean > 0)
    values: dict[str, Any] = {}
    for number, measure in enumerate(MEASURES):
        part = slice(number * count, (number + 1) * count)
        values |= {
            f"{measure}_verdict": verdicts[part],
            f"base_{measure}": np.full(count, np.nan) if groups.only_shares else base_mean[part],
            f"other_{measure}": np.full(count, np.nan) if groups.only_shares else other_mean[part],
            f"base_{measure}_percent": base_share[part],
            f"other_{measure}_percent": other_share[part],
            f"growth_{measure}_percent": growth[part],
            f"q_{measure}": evidence.q[part],
        }
        for name, value in (
            ("change", evidence.difference),
            ("low", evidence.low),
            ("high", evidence.high),
            ("detectable", evidence.detectable),
        ):
            shown = known[part] & ~np.isnan(evidence.q[part])
            values[f"{name}_{measure}_percent"] = np.where(shown, _percent(value[part]), np.nan)
    size = np.maximum(np.abs(values["growth_self_percent"]), 0)
    evident = evidence.found[:count] | evidence.found[count:]
    order = np.lexsort((-np.abs(values["growth_total_percent"]), -size, ~evident))
    return build_rows(
        COLUMNS,
        {
            "name": [groups.functions[n][0] for n in order.tolist()],
            "module": [groups.functions[n][1] for n in order.tolist()],
            "event": [groups.event] * count,
            "unit": [groups.unit] * count,
            **{name: value[order] for name, value in values.items()},
            "earlier_runs": [noise.runs if noise else None] * count,
            "earlier_variation_percent": [100 * noise.variation if noise else None] * count,
        },
    )


def _verdicts(evidence: Evidence, certain: bool) -> Array:
    found, grew = evidence.found, evidence.difference > 0
    verdicts = np.full(len(found), str(Verdict.NONE), object)
    verdicts[np.isnan(evidence.q)] = str(Verdict.UNTESTED)
    if not certain:
        verdicts[found] = str(Verdict.NOISE)
        return verdicts
    verdicts[found & grew] = str(Verdict.SLOWER)
    verdicts[found & ~grew] = str(Verdict.FASTER)
    return verdicts


def _least_growth(comparison: Comparison, most: float) -> float:
    """The smallest growth that the runs could show, in percent of the whole of the base: of the whole or of a function,
    whichever is larger. Those whose interval ends at `most` or below did not grow by more, whatever could be shown."""
    whole, least = comparison.whole, 0.0
    if whole is not None and not (comparison.is_certain and 100 * whole.high <= most):
        least = 100 * whole.detectable
    for measure in () if comparison.formula else MEASURES:
        values = comparison.rows.values
        share = values[f"base_{measure}_percent"] / 100
        growth, highest = (values[f"{name}_{measure}_percent"] * share for name in ("detectable", "high"))
        is_open = ~(highest <= most) if comparison.is_certain else np.ones(len(growth), bool)
        least = max(least, float(growth[is_open & ~np.isnan(growth)].max(initial=0.0)))
    return least


def _is_found(verdict: str) -> bool:
    return verdict in _FOUND


def _percent(logarithm: Array) -> Array:
    with np.errstate(over="ignore"):
        return 100 * np.expm1(logarithm)


def _count_runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _number(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else '−'}{_number(abs(value))}"
