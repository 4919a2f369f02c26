"""The name of the format, how it is recognized, and its losses."""

from ...domain.builder import IMPOSSIBLE_WEIGHT
from ...ingest.losses import UNRECOGNIZED_LINE

FORMAT = "callgrind"
NOT_NAMED = "reference to an undefined name"
BELOW_ZERO = "negative cost, ignored"
OTHER_SUM = "part whose totals differ from the sum of its lines"
NO_FORMULA = "event with an invalid formula"
TOO_MANY_NAMES = "name above the limit of two million"
LOSSES = (UNRECOGNIZED_LINE, NOT_NAMED, BELOW_ZERO, OTHER_SUM, NO_FORMULA, TOO_MANY_NAMES, IMPOSSIBLE_WEIGHT)
