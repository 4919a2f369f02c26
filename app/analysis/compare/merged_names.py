"""Profiles whose functions have the names of `domain.symbols.name_rules`, so that functions of two builds are the
same."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ...domain.errors import InvalidRequest
from ...domain.list_text import abbreviate_names
from ...domain.profile import Profile
from ...domain.symbols.name_rules import COMPILER_RULES, NAME_RULES, rename_function, rename_module
from ..core.functions import functions_of
from ..core.memo import memoize
from ..core.patterns import unique_texts

ALL_OF_COMPILERS = "builds"
"""The word for `COMPILER_RULES`."""


@dataclass(frozen=True)
class MergedName:
    """A name under the rules, and the names that became it."""

    name: str
    module: str
    originals: tuple[str, ...]


def parse_name_rules(words: Sequence[str]) -> tuple[str, ...]:
    """The rules that these words name, in the order of `NAME_RULES`. Raises InvalidRequest."""
    wanted: set[str] = set()
    for word in words:
        if word not in NAME_RULES and word != ALL_OF_COMPILERS:
            known = ", ".join((ALL_OF_COMPILERS, *NAME_RULES))
            raise InvalidRequest(f"There is no rule {word[:40]!r} for names; choose of {known}.", "names")
        wanted.update(COMPILER_RULES if word == ALL_OF_COMPILERS else (word,))
    return tuple(word for word in NAME_RULES if word in wanted)


def merge_names(profile: Profile, rules: tuple[str, ...]) -> Profile:
    """The profile with the names of functions and modules under these rules; the same one without rules. Rows keep
    their numbers."""
    if not rules or not profile.functions.num_rows:
        return profile

    def build() -> Profile:
        functions = profile.functions
        for column, rename in (("display", rename_function), ("module", rename_module)):
            place = functions.schema.get_field_index(column)
            renamed = _rename(functions.column(column), rename, rules)
            functions = functions.set_column(place, functions.schema.field(place), renamed)
        return replace(profile, functions=functions)

    return memoize(profile, ("merged names", rules), build)


def list_merged_names(profiles: Sequence[Profile], rules: tuple[str, ...]) -> list[MergedName]:
    """The functions of these profiles that several names became, those with the most names first."""
    if not rules:
        return []
    found: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for profile in profiles:
        before, after = functions_of(profile), functions_of(merge_names(profile, rules))
        ids = np.unique(before.canonical)
        names, modules = before.names_of(ids), before.modules_of(ids)
        keys = zip(after.names_of(ids), after.modules_of(ids), strict=True)
        for key, original in zip(keys, zip(names, modules, strict=True), strict=True):
            found.setdefault(key, set()).add(original)
    merged = []
    for (name, module), originals in found.items():
        if len(originals) > 1:
            several = len({one for _, one in originals}) > 1
            texts = sorted(f"{one} in {where}" if several and where else one for one, where in originals)
            merged.append(MergedName(name, module, tuple(texts)))
    return sorted(merged, key=lambda one: (-len(one.originals), one.name, one.module))


def describe_merged_names(merged: Sequence[MergedName], rules: tuple[str, ...]) -> str:
    """What the rules merged, in a sentence; empty without rules."""
    if not rules:
        return ""
    titles = abbreviate_names(
        [title[0].lower() + title[1:] for title in (NAME_RULES[rule].title for rule in rules)], 10
    )
    if not merged:
        return f"Without {titles}, all names are still different."
    names = sum(len(one.originals) for one in merged)
    return f"Without {titles}, {names:,} names are {len(merged):,}."


def _rename(column: pa.ChunkedArray, rename: Callable[[str, Collection[str]], str], rules: tuple[str, ...]) -> pa.Array:
    """A column of texts under the rules. Each different text is renamed once."""
    texts, codes = unique_texts(column)
    renamed = pa.array([rename(text, rules) for text in texts], pa.string())
    return renamed.take(pa.array(codes, mask=codes < 0))
