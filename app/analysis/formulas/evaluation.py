"""Values of formulas."""

from collections.abc import Mapping

import numpy as np

from ...domain.arrays import Float64Array
from ...domain.formulas.formula import Name, Operation, Step


def evaluate(steps: tuple[Step, ...], values: Mapping[str, Float64Array]) -> Float64Array:
    """The values of a formula. values: by name, arrays of one shape; NaN is missing. x ÷ 0 is missing, too."""
    stack: list[Float64Array] = []
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for step in steps:
            if isinstance(step, Name):
                stack.append(values[step.text])
            elif isinstance(step, Operation):
                last = stack.pop()
                found = -last if step is Operation.NEGATE else np.asarray(_BINARY[step](stack.pop(), last))
                # At once: 1 ÷ (x ÷ 0) is missing, and not 0.
                stack.append(np.where(np.isfinite(found), found, np.nan))
            else:
                stack.append(np.asarray(step, np.float64))
        result = np.asarray(stack.pop(), np.float64)
    return result


_BINARY = {
    Operation.ADD: np.add,
    Operation.SUBTRACT: np.subtract,
    Operation.MULTIPLY: np.multiply,
    Operation.DIVIDE: np.divide,
}
