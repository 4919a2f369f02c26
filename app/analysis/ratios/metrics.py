"""Metrics: events, formulas and expressions as values of frames and functions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Float64Array
from ...domain.event_names import SAMPLED_ONLY
from ...domain.formulas.formula import Formula, Name, quote_name
from ...domain.profile import Profile
from ...domain.tables import get_strings
from ...domain.units import format_ratio, format_text
from ..core.measurements import find_share_only_events
from ..core.sample_selection import event_id, event_names, samples_of
from ..formulas.evaluation import evaluate
from ..formulas.measures import WITHOUT_PERIODS, explain_no_weights
from ..formulas.resolution import ResolvedFormula, resolve_formula, resolve_formulas

MAX_PAIRED_EVENTS = 6
"""With more events, ratios of two of them are written as expressions."""
MAX_QUOTED_CHARS = 900
"""Longer names of events are not offered in ratios."""


@dataclass(frozen=True)
class RatioMetric:
    """A number of a frame or function. text: as in an address. formula: of it. is_event: whether it is the weight of
    one event, in the event's unit. note: why it has no values, or what must be known of them; "" for nothing. unknown:
    whether it has none."""

    text: str
    formula: ResolvedFormula
    is_event: bool
    note: str
    unknown: bool

    @property
    def unit(self) -> str:
        """The unit of its values: of an event, such as "ns"; of a formula, such as "%"; "" for a plain number."""
        return self.formula.formula.unit

    @property
    def events(self) -> tuple[int, ...]:
        """Rows of `events`, each once."""
        return tuple(dict.fromkeys(self.formula.events.values()))

    def evaluate(self, sums: Mapping[int, Float64Array]) -> Float64Array:
        """Its values from sums by event, arrays of one shape. NaN is missing."""
        values = {name: np.asarray(sums[event], np.float64) for name, event in self.formula.events.items()}
        found = evaluate(self.formula.steps, values)
        return np.full(found.shape, np.nan) if self.unknown else found

    def format(self, value: float) -> str:
        """A value with its unit: of a formula with four digits."""
        if self.is_event or not math.isfinite(value):
            return format_text(float(value), self.unit or "count")
        return format_ratio(value, self.unit)


def resolve_metric(profile: Profile, text: str) -> RatioMetric:
    """The metric that a text names: an event as recorded, a formula, else an expression. Raises FormulaError."""
    names = event_names(profile)
    if text in names:
        row = names.index(text)
        unit = get_strings(profile.events, "unit")[row]
        formula = Formula(text, quote_name(text), "" if unit == "count" else unit)
        resolved = ResolvedFormula(formula, (Name(text, 1),), {text: row}, None)
    else:
        known = next((one for one in resolve_formulas(profile) if one.formula.name == text), None)
        resolved = known or resolve_formula(profile, Formula(text, text))
    note, unknown = _explain(profile, resolved)
    return RatioMetric(text, resolved, text in names, note, unknown)


def has_ratios(profile: Profile) -> bool:
    """Whether at least two events have samples."""
    return len(sampled_events(profile)) > 1


def sampled_events(profile: Profile) -> list[str]:
    """The events with samples."""
    if profile.events.num_rows < 2:
        return []
    counts = samples_of(profile).count_by_event.tolist()
    return [name for name, count in zip(event_names(profile), counts, strict=True) if count]


def list_formula_names(profile: Profile) -> list[str]:
    """The formulas of which all events have samples."""
    sampled = set(sampled_events(profile))
    names = event_names(profile)
    return [
        one.formula.name
        for one in resolve_formulas(profile)
        if one.formula.name not in names and {names[event] for event in one.events.values()} <= sampled
    ]


def list_pairs(profile: Profile) -> list[str]:
    """The ratios of two events as expressions: of all events, or of many events of each with the main one."""
    events = [name for name in sampled_events(profile) if _can_quote(name)]
    main = event_names(profile)[event_id(profile, None)] if events else ""
    few = len(events) <= MAX_PAIRED_EVENTS
    return [
        f"{quote_name(one)} / {quote_name(other)}"
        for one in events
        for other in events
        if one != other and (few or main in (one, other))
    ]


def default_metric(profile: Profile) -> str:
    """What colors without a choice: the first formula, else the ratio of two events, else an event. The profile has
    events."""
    return next(iter((*list_formula_names(profile), *list_pairs(profile), *event_names(profile))))


def _can_quote(name: str) -> bool:
    return 0 < len(name) <= MAX_QUOTED_CHARS and not {"'", '"'} <= set(name)


def _explain(profile: Profile, resolved: ResolvedFormula) -> tuple[str, bool]:
    """(the note of a metric, whether it has no values)."""
    events = set(resolved.events.values())
    names = event_names(profile)
    shares = sorted(names[event] for event in events & find_share_only_events(profile))
    notes = [f"{', '.join(shares)}: {SAMPLED_ONLY}, so that it has no sums"] if shares else []
    lacking = explain_no_weights(profile, resolved) == WITHOUT_PERIODS
    notes += [WITHOUT_PERIODS] if lacking else []
    notes += [resolved.note] if resolved.note else []
    return "; ".join(notes), bool(shares) or lacking
