"""The parameters of the page of ratios."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flask import request

from ....analysis.ratios.frame_values import Coloring
from ....analysis.ratios.function_sums import BY
from ....analysis.ratios.metrics import RatioMetric, default_metric
from ....analysis.ratios.scatter import SCALES, Box, ScatterSpec
from ....domain.errors import InvalidRequest
from ....domain.profile import Profile
from ...parameters import parse_choice
from ..results.flame_controls import parse_metric, parse_part

BOX_PARAMETERS = ("x-from", "x-to", "y-from", "y-to")
ALL, APART = "all", "apart"
MAX_NUMBER_CHARS = 40


@dataclass(frozen=True)
class RatioRequest:
    """What is shown. coloring: of the flame graph. spec: of the scatter. box: the selected one. only_apart: whether the
    table only has what is not on the axes."""

    coloring: Coloring
    spec: ScatterSpec
    box: Box
    only_apart: bool


def parse_request(profile: Profile, event: str, groupings: Sequence[str]) -> RatioRequest:
    """The request for a profile with ratios. event: the selected one. groupings: those of the profile. Raises
    InvalidRequest."""
    color = request.args.get("colour") or default_metric(profile)
    metric, part = parse_metric(profile, "colour", color), parse_part()
    x, y = (_metric(profile, word, usual) for word, usual in (("x", event), ("y", color)))
    spec = ScatterSpec(
        x=x,
        y=y,
        by=parse_choice("by", groupings, BY[0]),
        part=part,
        reference=request.args.get("reference", ""),
        scales=(_scale("x-scale", x), _scale("y-scale", y)),
    )
    x_from, x_to, y_from, y_to = (_edge(word) for word in BOX_PARAMETERS)
    only_apart = parse_choice("dots", (ALL, APART), ALL) == APART
    return RatioRequest(Coloring(metric, part), spec, Box((x_from, x_to), (y_from, y_to)), only_apart)


def default_scale(metric: RatioMetric) -> str:
    """Weights of functions differ by powers of ten, formulas by less, and they can be 0."""
    return SCALES[0] if metric.is_event else SCALES[1]


def _metric(profile: Profile, word: str, usual: str) -> RatioMetric:
    return parse_metric(profile, word, request.args.get(word) or usual)


def _scale(word: str, metric: RatioMetric) -> str:
    return parse_choice(word, SCALES, default_scale(metric))


def _edge(word: str) -> float | None:
    text = request.args.get(word, "").strip()
    if not text:
        return None
    try:
        value = float(text) if len(text) <= MAX_NUMBER_CHARS and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidRequest(f"{word} must be a number, not {text[:40]!r}. Leave it empty for no limit.", word)
    return value
