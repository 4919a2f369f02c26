"""What the format is called, how it is recognized, and what may be lost of it."""

from ...domain.builder import IMPOSSIBLE_WEIGHT

FORMAT = "callgrind"
NO_LINE = "unrecognized line"
NOT_NAMED = "reference to an undefined name"
BELOW_ZERO = "cost below zero, left out"
OTHER_SUM = "part whose totals are not the sum of its lines"
NO_FORMULA = "event whose formula is not understood"
TOO_MANY_NAMES = "name beyond the two millionth"
LOSSES = (NO_LINE, NOT_NAMED, BELOW_ZERO, OTHER_SUM, NO_FORMULA, TOO_MANY_NAMES, IMPOSSIBLE_WEIGHT)
