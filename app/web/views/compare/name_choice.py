"""The rules for names that a comparison applies, and what they merge."""

from collections.abc import Sequence
from dataclasses import dataclass

from flask import request

from ....analysis.compare.merged_names import (
    MergedName,
    describe_merged_names,
    list_merged_names,
    merge_names,
    parse_name_rules,
)
from ....domain.profile import Profile
from ....domain.symbols.name_rules import COMPILER_RULES, NAME_RULES
from ....store.results import Results
from ..results.tables import current_url_with

PARAMETER = "names"
MAX_SHOWN = 200


@dataclass(frozen=True)
class NameRuleOption:
    """A rule in the form. description: examples of what it leaves out."""

    word: str
    title: str
    description: str
    chosen: bool


@dataclass(frozen=True)
class NameChoice:
    """The menu of rules. text: what they merge. merged: the first of the merged names; more: how many others.
    hidden_fields: the rest of the address. builds: the address with the rules for two builds of the same source."""

    options: tuple[NameRuleOption, ...]
    text: str
    merged: tuple[MergedName, ...]
    more: int
    hidden_fields: tuple[tuple[str, str], ...]
    builds: str
    reset: str


def request_rules() -> tuple[str, ...]:
    """The rules of this request. Raises InvalidRequest."""
    return parse_name_rules([word for word in request.args.getlist(PARAMETER) if word])


def open_compared(results: Results, id: str) -> Profile:
    """The profile of a result with the names of this request. Raises NotFound, UnreadableInput, InvalidRequest."""
    return merge_names(results.open(id), request_rules())


def build_name_choice(ids: Sequence[str], results: Results) -> NameChoice:
    """The menu for a comparison of these results."""
    rules = request_rules()
    merged = list_merged_names([results.open(id) for id in ids], rules) if rules else []
    return NameChoice(
        tuple(NameRuleOption(word, rule.title, rule.description, word in rules) for word, rule in NAME_RULES.items()),
        describe_merged_names(merged, rules),
        tuple(merged[:MAX_SHOWN]),
        max(0, len(merged) - MAX_SHOWN),
        tuple((word, value) for word, value in request.args.items(multi=True) if word not in (PARAMETER, "page")),
        current_url_with(*((PARAMETER, None), ("page", None)), *((PARAMETER, word) for word in COMPILER_RULES)),
        current_url_with((PARAMETER, None), ("page", None)) if rules else "",
    )
