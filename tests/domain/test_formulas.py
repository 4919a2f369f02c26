"""Formulas: what is accepted, what they mean, and what an error names."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.formulas.file import (
    MAX_FILE_BYTES,
    MAX_FORMULAS,
    parse_formulas,
    read_formulas,
    write_formulas,
)
from perfloom.domain.formulas.formula import (
    MAX_FORMULA_CHARS,
    Formula,
    FormulaError,
    Name,
    Operation,
    expand,
    parse_formula,
)

OPERATORS: dict[str, tuple[int, Callable[[Fraction, Fraction], Fraction]]] = {
    "+": (1, operator.add),
    "-": (1, operator.sub),
    "*": (2, operator.mul),
    "/": (2, lambda left, right: left / right),
}
OPERAND = 3
Expression = tuple[str, int, Fraction]
"""Text, precedence, value."""


def combine(left: Expression, sign: str, right: Expression) -> Expression:
    """Two expressions and an operator, with as few parentheses as possible: operators group from the left."""
    level, compute = OPERATORS[sign]
    before = left[0] if left[1] >= level else f"({left[0]})"
    behind = right[0] if right[1] > level else f"({right[0]})"
    value = Fraction(0) if sign == "/" and not right[2] else compute(left[2], right[2])
    return (
        f"{before} {sign} {behind}" if sign != "/" or right[2] else "0",
        level if sign != "/" or right[2] else OPERAND,
        value,
    )


expressions = st.recursive(
    st.integers(0, 99).map(lambda number: (str(number), OPERAND, Fraction(number))),
    lambda inner: (
        st.tuples(inner, st.sampled_from([*OPERATORS]), inner).map(lambda parts: combine(*parts))
        | inner.map(lambda one: (f"-{one[0]}" if one[1] == OPERAND else f"-({one[0]})", OPERAND, -one[2]))
    ),
    max_leaves=12,
)


def value_of(text: str) -> Fraction:
    """A formula of numbers, evaluated step by step."""
    stack: list[Fraction] = []
    for step in parse_formula(text):
        if step is Operation.NEGATE:
            stack.append(-stack.pop())
        elif isinstance(step, Operation):
            right, left = stack.pop(), stack.pop()
            sign = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}[step]
            stack.append(OPERATORS[sign][1](left, right))
        else:
            assert isinstance(step, float)
            stack.append(Fraction(step))
    (value,) = stack
    return value


@given(expressions)
def test_operators_group_as_in_arithmetic(expression: Expression) -> None:
    text, _, value = expression
    assert value_of(text) == value


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("cycles / instructions", ["cycles", "instructions"]),
        ("LLC-load-misses / instructions * 1000", ["LLC-load-misses", "instructions"]),
        ("cycles:u ÷ sched:sched_switch × 2", ["cycles:u", "sched:sched_switch"]),
        ("'cpu/event=0x3c,umask=1/' − \"x y\"", ["cpu/event=0x3c,umask=1/", "x y"]),
        ("a - b-c", ["a", "b-c"]),
    ],
)
def test_names_of_events(text: str, names: list[str]) -> None:
    assert [step.text for step in parse_formula(text) if isinstance(step, Name)] == names


@pytest.mark.parametrize(
    ("text", "position"),
    [("a b", 3), ("a / ", 3), ("(a", 2), ("a $ b", 3), ("a ++", 4), ("2 a", 3), (")", 1), ("a;b", 2), ("'a", 1)],
)
def test_errors_name_the_character(text: str, position: int) -> None:
    with pytest.raises(FormulaError) as error:
        parse_formula(text)
    assert error.value.position == position and str(position) in error.value.message


@pytest.mark.parametrize("text", ["", "  ", "a" * (MAX_FORMULA_CHARS + 1), "a+" * 5_000 + "a"])
def test_empty_and_long_formulas_are_refused(text: str) -> None:
    with pytest.raises(FormulaError):
        parse_formula(text)


def test_deep_nesting_is_no_fault() -> None:
    deep = MAX_FORMULA_CHARS // 2 - 1
    assert value_of("(" * deep + "7" + ")" * deep) == 7
    assert value_of("-" * (2 * deep) + "7") == 7


@given(st.text(max_size=60))
def test_any_text_is_a_formula_or_an_error(text: str) -> None:
    try:
        parse_formula(text)
    except FormulaError as error:
        assert error.message


def test_formulas_may_name_others_but_not_themselves() -> None:
    formulas = {name: Formula(name, text) for name, text in {"a": "b * 2", "b": "c + 1", "x": "y", "y": "x"}.items()}
    assert expand(formulas["a"], formulas)[1:] == parse_formula("(c + 1) * 2")[1:]
    assert [step.text for step in expand(formulas["a"], formulas) if isinstance(step, Name)] == ["c"]
    with pytest.raises(FormulaError, match="x → y → x"):
        expand(formulas["x"], formulas)
    grown = {f"f{n}": Formula(f"f{n}", f"f{n - 1} + f{n - 1}") for n in range(1, 40)}
    with pytest.raises(FormulaError, match="parts"):
        expand(grown["f39"], grown)


def test_a_file_of_formulas_is_written_as_it_is_read() -> None:
    formulas = (
        Formula("CPI", "cycles / instructions", "", "Cycles per instruction."),
        Formula("x\"'é", "1.5 * 'a.b' * \"c\\.d\"", "%"),
    )
    assert parse_formulas(write_formulas(formulas)) == formulas
    assert parse_formulas("") == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[formula]]\nname = 'a'\nexpression = 'b +'", r"Formula 1 \(a\)"),
        ("[[formula]]\nexpression = 'b'", "name"),
        ("[[formula]]\nname = 'a'\nexpression = 1", "texts"),
        ("[[formula]]\nname = 'a'\nexpression = 'b'\nevil = 'x'", "evil"),
        ("formula = 1", r"\[\[formula\]\]"),
        ("a = 1", r"\[\[formula\]\]"),
        ("[[", "TOML"),
        ("a." * 400_000 + "a = 1", "outside of quotes"),
        ("[[formula]]\nexpression = idq.core / cycles", "outside of quotes"),
        ("a = " + "[" * 5_000, "nested too deeply"),
        ("a = " + "9" * 5_000, "too long"),
        ("[[formula]]\nname = 'a'\nexpression = 'b'\n[[formula]]\nname = 'b'\nexpression = 'a'", "a → b → a"),
        ("[[formula]]\nname = 'a'\nexpression = 'b'\nunit = '" + "x" * 21 + "'", "unit is longer"),
        ("[[formula]]\nname = 'a'\nexpression = 'b'\ndescription = 'x\u202ey'", "printed"),
        (
            "".join(f"[[formula]]\nname = 'f{n}'\nexpression = 'f{n + 1}'\n" for n in range(MAX_FORMULAS)),
            "more than 100 levels",
        ),
        ("[[formula]]\nname = 'a'\nexpression = 'b'\n" * (MAX_FORMULAS + 1), "at most"),
    ],
)
def test_faults_of_a_file_are_named(text: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        parse_formulas(text)


def test_the_content_of_a_file_is_text_of_limited_size() -> None:
    assert read_formulas("\ufeff[[formula]]\r\nname = 'a'\r\nexpression = '1'\r\n".encode()) == (Formula("a", "1"),)
    for content, words in ((b"#" * (MAX_FILE_BYTES + 1), "at most 1,000,000 bytes"), (b"\xff", "not UTF-8")):
        with pytest.raises(InvalidRequest, match=words):
            read_formulas(content)


def test_numbers_are_finite() -> None:
    with pytest.raises(FormulaError, match="too large") as caught:
        parse_formula("cycles / 1e999")
    assert caught.value.position == 10


def test_strings_without_end_take_linear_time() -> None:
    """100,000 quotes took minutes."""
    for text in (b'a="' + b'\\"' * 100_000, b"a='" + b"\"'" * 100_000, b'a = """' + b'"' * 100_000):
        with pytest.raises(InvalidRequest):
            read_formulas(text)
