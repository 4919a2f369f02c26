"""The choices of the page of ratios: formulas and events, groupings, scales."""

from collections.abc import Iterable
from dataclasses import dataclass

from flask import request

from ....analysis.ratios.frame_values import Coloring
from ....analysis.ratios.metrics import RatioMetric, default_metric, list_formula_names, list_pairs, sampled_events
from ....analysis.ratios.scatter import SCALES, Scatter
from ....domain.formulas.formula import MAX_FORMULA_CHARS
from ....domain.profile import Profile
from ....domain.text import shorten
from ...pages import Pairs
from ..results.flame_controls import ControlChoice
from .parameters import ALL, BOX_PARAMETERS, RatioRequest, default_scale

MAX_LABEL_CHARS = 60


@dataclass(frozen=True)
class OptionGroup:
    """Options of a select under a title, as (value, text); without a title they are not in a group."""

    title: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class MetricChoice:
    """A select of events and formulas."""

    param: str
    label: str
    value: str
    groups: tuple[OptionGroup, ...]


@dataclass(frozen=True)
class ScatterForm:
    """The forms of the page. metrics, choices: of the scatter. kept_params: what its form keeps of the query.
    expression_params: what the form of the user's formula keeps; expression: that formula. edges: of the box, as
    (parameter, label, value); edge_params: what its form keeps."""

    metrics: tuple[MetricChoice, ...]
    choices: tuple[ControlChoice, ...]
    kept_params: Pairs
    expression: str
    expression_params: Pairs
    limit: int
    edges: tuple[tuple[str, str, str], ...]
    edge_params: Pairs


def build_color_choice(profile: Profile, coloring: Coloring) -> ControlChoice:
    """The formula that colors frames: those of the profile, ratios of two events, and that of the address."""
    value = coloring.metric.text
    names = list(dict.fromkeys((*list_formula_names(profile), *list_pairs(profile), value)))
    usual = default_metric(profile)
    return ControlChoice("colour", "Color by", value, usual, tuple((name, _label(name)) for name in names))


def build_form(profile: Profile, asked: RatioRequest, scatter: Scatter, groupings: Iterable[str]) -> ScatterForm:
    """The choices of the scatter."""
    spec = asked.spec
    by = {word: word if word == "function" else f"function and {word}" for word in groupings}
    places = (("", "none"), *((place, place) for place in scatter.places))
    scales = tuple((scale, {"log": "logarithmic", "linear": "linear"}[scale]) for scale in SCALES)
    choices = [
        ControlChoice("x-scale", "x axis", spec.scales[0], default_scale(spec.x), scales),
        ControlChoice("y-scale", "y axis", spec.scales[1], default_scale(spec.y), scales),
    ]
    if len(by) > 1:
        choices.append(ControlChoice("by", "A dot for each", spec.by, "function", tuple(by.items())))
    if len(places) > 2:
        choices.append(ControlChoice("reference", "Difference from", spec.reference, "", places))
    own = {"x", "y", *(choice.param for choice in choices), *BOX_PARAMETERS, "dots", "page", "sort"}
    written = asked.coloring.metric.text
    known = {*list_formula_names(profile), *list_pairs(profile)}
    edges = (*asked.box.x, *asked.box.y)
    labels = ("x from", "to", "y from", "to")
    return ScatterForm(
        metrics=(
            _choose_metric(profile, "x", "x", spec.x),
            _choose_metric(profile, "y", "y", spec.y),
        ),
        choices=tuple(choices),
        kept_params=_kept(own),
        expression="" if written in known else written,
        expression_params=_kept({"colour", "page", "sort", *BOX_PARAMETERS, "dots"}),
        limit=MAX_FORMULA_CHARS,
        edges=tuple(
            (word, label, "" if edge is None else f"{edge:.15g}")
            for word, label, edge in zip(BOX_PARAMETERS, labels, edges, strict=True)
        ),
        edge_params=_kept({*BOX_PARAMETERS, "dots", "page"}),
    )


def _choose_metric(profile: Profile, word: str, label: str, metric: RatioMetric) -> MetricChoice:
    formulas, pairs, events = list_formula_names(profile), list_pairs(profile), sampled_events(profile)
    groups = [("Events", events), ("Formulas", formulas), ("Ratios of two events", pairs)]
    if not any(metric.text in names for _, names in groups):
        groups.append(("Your formula", [metric.text]))
    return MetricChoice(
        word,
        label,
        metric.text,
        tuple(OptionGroup(title, tuple((name, _label(name)) for name in names)) for title, names in groups if names),
    )


def _label(name: str) -> str:
    return shorten(name, MAX_LABEL_CHARS)


def _kept(own: set[str]) -> Pairs:
    return [(word, value) for word, value in request.args.items(multi=True) if word not in own and value != ALL]
