"""Which events of a profile a formula means."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ...domain.event_names import split_modifiers, strip_modifiers
from ...domain.formulas.formula import Formula, FormulaError, Name, Step, expand
from ...domain.profile import Profile
from ...domain.selection import Selection
from ..core.measurements import list_measurements
from ..core.memo import memoize
from ..core.sample_selection import event_names
from .additional import additional_formulas
from .builtin import BUILTIN_FORMULAS

_SYNONYMS = {
    "cpu-cycles": "cycles",
    "branch-instructions": "branches",
    "faults": "page-faults",
    "cs": "context-switches",
    "migrations": "cpu-migrations",
    "idle-cycles-frontend": "stalled-cycles-frontend",
    "idle-cycles-backend": "stalled-cycles-backend",
}
"""Names of the same event, as `perf list` prints them."""
_SEVERAL = -1
NOT_TOGETHER = "the events were measured in different runs"
MIXED_MODIFIERS = "the events were not measured in the same code (kernel, user)"
OTHER_PLACES = "the events were not counted on the same ranks, hosts or threads, so not together"


@dataclass(frozen=True)
class ResolvedFormula:
    """A formula and the events that it means.

    steps: with the names of other formulas replaced. events: row of `events` by name. note: what its reader must know,
    or None. across_runs: whether they were measured in different runs of the command.
    """

    formula: Formula
    steps: tuple[Step, ...]
    events: Mapping[str, int]
    note: str | None
    across_runs: bool = False

    @property
    def name(self) -> str:
        """Its name."""
        return self.formula.name

    @property
    def title(self) -> str:
        """Its name with its unit."""
        return f"{self.name}, {self.formula.unit}" if self.formula.unit else self.name

    @property
    def lead(self) -> int:
        """Its first event, which is used where only an event can be: widths, shares, the order of rows."""
        return next(iter(self.events.values()))

    @property
    def parts(self) -> tuple[int, ...]:
        """Its events, each once, the first one first."""
        return tuple(dict.fromkeys(self.events.values()))


def resolve_formulas(profile: Profile) -> tuple[ResolvedFormula, ...]:
    """The formulas whose events a profile has, in order; the first of each name."""
    formulas = (*additional_formulas(), *BUILTIN_FORMULAS)

    def build() -> tuple[ResolvedFormula, ...]:
        by_name = _choose_formulas(profile, formulas)
        found: dict[str, ResolvedFormula] = {}
        for formula in formulas:
            resolved = None if formula.name in found else _resolve(profile, formula, by_name)
            if resolved and resolved.events:
                found[formula.name] = resolved
        return tuple(found.values())

    return memoize(profile, ("formulas", formulas), build)


def has_formulas(profile: Profile) -> bool:
    """Whether there are events that a formula can relate: several, or one that a formula names."""
    return profile.events.num_rows > 1 or bool(profile.events.num_rows and resolve_formulas(profile))


def resolve_formula(profile: Profile, formula: Formula) -> ResolvedFormula:
    """A formula with the events that it means. Raises FormulaError if one was not measured."""
    formulas = (*additional_formulas(), *BUILTIN_FORMULAS)
    by_name = _choose_formulas(profile, [one for one in formulas if one.name != formula.name])
    steps, events = _expand(profile, formula, by_name), find_events(profile)
    for step in steps:
        if isinstance(step, Name) and _row(events, step.text) is None:
            hint = " Write spaces around a minus sign." if "-" in step.text else ""
            names = event_names(profile)
            known = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
            raise FormulaError(f"{step.text[:80]!r} was not measured. Measured: {known}.{hint}", step.position)
    resolved = _bind(profile, formula, steps)
    if resolved is None or not resolved.events:
        raise FormulaError("The formula names no event; write for example cycles / instructions.")
    return resolved


def find_events(profile: Profile) -> Mapping[str, int]:
    """Rows of `events` by name: as recorded, else as a synonym, else without modifiers; _SEVERAL where it is not
    unique."""

    def build() -> Mapping[str, int]:
        names = event_names(profile)
        plain: dict[str, int] = {}
        for row, name in enumerate(names):
            alias = _canonical(strip_modifiers(name))
            plain[alias] = _SEVERAL if alias in plain else row
        as_recorded = {name: row for row, name in enumerate(names)}
        return plain | {_canonical(name): row for name, row in as_recorded.items()} | as_recorded

    return memoize(profile, "events of formulas", build)


def _choose_formulas(profile: Profile, formulas: Sequence[Formula]) -> Mapping[str, Formula]:
    """By name the first formula whose events were measured, also those of the formulas that it names; else the first
    one."""
    events = find_events(profile)
    measured: set[str] = set()
    left, known = list(formulas), set[int]()
    while True:
        added = [
            formula
            for formula in left
            if all(
                _row(events, name) is not None or (name in measured and name != formula.name) for name in formula.names
            )
        ]
        if not added:
            break
        known |= {id(formula) for formula in added}
        measured |= {formula.name for formula in added}
        left = [formula for formula in left if id(formula) not in known]
    found: dict[str, Formula] = {}
    for formula in formulas:
        if formula.name not in found or (id(formula) in known and id(found[formula.name]) not in known):
            found[formula.name] = formula
    return found


def _row(events: Mapping[str, int], name: str) -> int | None:
    row = events.get(name, events.get(_canonical(name)))
    return None if row is None or row == _SEVERAL else row


def _canonical(name: str) -> str:
    return _SYNONYMS.get(name, name)


def _resolve(profile: Profile, formula: Formula, by_name: Mapping[str, Formula]) -> ResolvedFormula | None:
    """None if an event was not measured, or the formula is wrong."""
    try:
        return _bind(profile, formula, _expand(profile, formula, by_name))
    except FormulaError:
        return None


def _expand(profile: Profile, formula: Formula, by_name: Mapping[str, Formula]) -> tuple[Step, ...]:
    """The steps with the names of other formulas replaced; a name is an event rather than a formula."""
    events = find_events(profile)
    return expand(formula, {name: inner for name, inner in by_name.items() if _row(events, name) is None})


def _bind(profile: Profile, formula: Formula, steps: tuple[Step, ...]) -> ResolvedFormula | None:
    """None if an event was not measured."""
    events, rows = find_events(profile), dict[str, int]()
    for step in steps:
        if isinstance(step, Name):
            row = _row(events, step.text)
            if row is None:
                return None
            rows[step.text] = row
    events_used = set(rows.values())
    return ResolvedFormula(
        formula, steps, rows, note_events(profile, events_used), _are_across_runs(profile, events_used)
    )


def note_events(profile: Profile, events: Collection[int]) -> str | None:
    """Whether events were measured in different runs or in different code, or None."""
    names = event_names(profile)
    notes = []
    if _are_across_runs(profile, events):
        notes.append(NOT_TOGETHER)
    places = _places_of(profile)
    if len({places[event] for event in events if event in places}) > 1:
        notes.append(OTHER_PLACES)
    hardware = {_modifiers(names[event]) for event in events if not names[event].endswith("-clock")}
    if len(hardware) > 1:
        notes.append(MIXED_MODIFIERS)
    return "; ".join(notes) or None


def _are_across_runs(profile: Profile, events: Collection[int]) -> bool:
    return profile.runs.num_rows > 1 and len({_runs_of(profile).get(event) for event in events}) > 1


def _runs_of(profile: Profile) -> Mapping[int, frozenset[int | None]]:
    """The runs in which each event was measured."""

    def build() -> Mapping[int, frozenset[int | None]]:
        runs: dict[int, set[int | None]] = {}
        for m in list_measurements(profile, Selection()):
            runs.setdefault(m.event, set()).add(m.run)
        return {event: frozenset(numbers) for event, numbers in runs.items()}

    return memoize(profile, "runs of events", build)


def _places_of(profile: Profile) -> Mapping[int, frozenset[tuple[object, ...]]]:
    """The ranks, hosts and threads on which each event was counted, also without success. Samples do not say where
    their event was measured but did not occur."""

    def build() -> Mapping[int, frozenset[tuple[object, ...]]]:
        words = ["event", "rank", "host", "thread"]
        found: dict[int, set[tuple[object, ...]]] = {}
        for row in profile.counts.select(words).group_by(words).aggregate([]).to_pylist():
            found.setdefault(row["event"], set()).add((row["rank"], row["host"], row["thread"]))
        return {event: frozenset(places) for event, places in found.items()}

    return memoize(profile, "places of events", build)


def _modifiers(name: str) -> frozenset[str]:
    """Where an event is counted: those of its modifiers that restrict it to user space, kernel, host or guest."""
    restricting = frozenset(split_modifiers(name)[1]) & frozenset("ukhGH")
    return restricting - frozenset("uk") if frozenset("uk") <= restricting else restricting
