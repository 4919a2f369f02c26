"""Formulas over events, such as `cycles / instructions`.

A formula has numbers, names of events, + − × ÷ and parentheses. Names that contain other characters than letters,
digits and `_ . : -` are in quotes. The parser is Lark's, from a grammar; nothing is evaluated as Python. A parsed
formula is a sequence of steps for a stack machine, so that no depth of nesting exhausts Python's stack.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING

from ..errors import InvalidRequest

if TYPE_CHECKING:
    from lark import Lark

MAX_FORMULA_CHARS = 2_000
MAX_STEPS = 1_000
"""After names of other formulas are replaced by their steps."""
MAX_LEVELS = 100
"""Of formulas that name other formulas."""

_PLAIN_NAME = re.compile(r"[^\W\d](\w|[.:]|-(?=\w))*")
_GRAMMAR = r"""
?sum: product | sum "+" product -> add | sum _MINUS product -> subtract
?product: sign | product _TIMES sign -> multiply | product _OVER sign -> divide
?sign: _MINUS sign -> negate | "+" sign | operand
?operand: NUMBER -> number | (NAME | QUOTED) -> name | "(" sum ")"
NUMBER: /(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?/
NAME: /[^\W\d](\w|[.:]|-(?=\w))*/
QUOTED: /'[^']+'|"[^"]+"/
_MINUS: "-" | "−"
_TIMES: "*" | "×" | "·"
_OVER: "/" | "÷"
%ignore /\s+/
"""


class FormulaError(InvalidRequest):
    """A formula that cannot be read or evaluated. position: the character from 1, if one is at fault."""

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message, "expression")
        self.position = position


class Operation(StrEnum):
    """A step that replaces the last one or two values of the stack by one."""

    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    DIVIDE = "divide"
    NEGATE = "negate"


@dataclass(frozen=True)
class Name:
    """A step that puts the values of an event on the stack. position: in the formula, from 1."""

    text: str
    position: int


Step = float | Name | Operation


@dataclass(frozen=True)
class Formula:
    """A named expression. unit: what its values are, such as "%" or "GHz"; "" for a plain ratio."""

    name: str
    expression: str
    unit: str = ""
    description: str = ""

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Its steps in reverse Polish notation. Raises FormulaError."""
        return parse_formula(self.expression)

    @property
    def names(self) -> tuple[str, ...]:
        """The events and formulas that it names, each once, in order."""
        return tuple(dict.fromkeys(step.text for step in self.steps if isinstance(step, Name)))


@lru_cache(maxsize=256)
def parse_formula(text: str) -> tuple[Step, ...]:
    """The steps of a formula in reverse Polish notation. Raises FormulaError, which names the character at fault."""
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    if len(text) > MAX_FORMULA_CHARS:
        raise FormulaError(
            f"The formula has {len(text):,} characters; at most {MAX_FORMULA_CHARS:,} are permitted. Name parts of it "
            "as formulas and use these."
        )
    if not text.strip():
        raise FormulaError("The formula is empty; write for example cycles / instructions.")
    try:
        tree = _parser().parse(text)
    except UnexpectedCharacters as error:
        at = (error.pos_in_stream or 0) + 1
        raise FormulaError(
            f"Character {at}, {text[at - 1]!r}, is not part of a formula. Put names of events with such characters in "
            "quotes.",
            at,
        ) from None
    except UnexpectedToken as error:
        if error.token.type == "$END":
            raise FormulaError(
                f"The formula ends too early, after character {len(text.rstrip())}; a name, a number or a closing "
                "parenthesis is missing.",
                len(text.rstrip()),
            ) from None
        at = (error.token.start_pos or 0) + 1
        raise FormulaError(
            f"Character {at}: {str(error.token)[:40]!r} cannot follow here. An operator (+ - * /) or a parenthesis is "
            "missing.",
            at,
        ) from None
    return _to_steps(tree)


def quote_name(name: str) -> str:
    """The name of an event or formula as it is written in a formula: in quotes if it has other characters than those of
    a name."""
    if _PLAIN_NAME.fullmatch(name):
        return name
    quote = '"' if "'" in name else "'"
    return f"{quote}{name}{quote}"


def expand(formula: Formula, formulas: Mapping[str, Formula]) -> tuple[Step, ...]:
    """The steps of a formula in which names of other formulas are replaced by theirs. Raises FormulaError for formulas
    that refer to themselves."""
    return _expand(formula, formulas, ())


def _expand(formula: Formula, formulas: Mapping[str, Formula], above: tuple[str, ...]) -> tuple[Step, ...]:
    if formula.name in above:
        path = " → ".join((*above[above.index(formula.name) :], formula.name))
        raise FormulaError(f"The formula refers to itself: {path}. Write one of them with events.")
    if len(above) >= MAX_LEVELS:
        raise FormulaError(f"{above[0]} uses formulas in more than {MAX_LEVELS} levels. Use fewer.")
    steps: list[Step] = []
    for step in formula.steps:
        inner = formulas.get(step.text) if isinstance(step, Name) else None
        steps += (step,) if inner is None else _expand(inner, formulas, (*above, formula.name))
        if len(steps) > MAX_STEPS:
            raise FormulaError(f"{formula.name} has more than {MAX_STEPS:,} parts. Use fewer formulas in it.")
    return tuple(steps)


@cache
def _parser() -> "Lark":
    # Imported here, because most commands need no formulas.
    from lark import Lark

    return Lark(_GRAMMAR, parser="lalr", start="sum")


def _to_steps(tree: object) -> tuple[Step, ...]:
    from lark import Token, Tree

    steps: list[Step] = []
    todo: list[object] = [tree]
    while todo:
        node = todo.pop()
        if not isinstance(node, Tree):
            assert isinstance(node, Operation)
            steps.append(node)
        elif node.data in ("number", "name"):
            (token,) = node.children
            assert isinstance(token, Token)
            if token.type == "NUMBER":
                number = float(token)
                if not math.isfinite(number):
                    raise FormulaError(f"The number {str(token)[:20]} is too large.", (token.start_pos or 0) + 1)
                steps.append(number)
            else:
                text = token[1:-1] if token.type == "QUOTED" else str(token)
                steps.append(Name(text, (token.start_pos or 0) + 1))
        elif node.data == "sum":
            todo += node.children  # a sign without effect
        else:
            todo.append(Operation(node.data))
            todo += reversed(node.children)
    return tuple(steps)
