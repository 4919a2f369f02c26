"""The top-down models in intel.toml and amd.toml, and which of them a profile has counts for."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from ...domain.event_names import strip_modifiers
from ...domain.formulas.formula import Formula, Name, expand
from ...domain.profile import Profile
from ..core.memo import memoize
from ..core.sample_selection import event_names
from ..formulas.resolution import ResolvedFormula, note_events

_SYNONYMS = {
    "cpu-cycles": "cycles",
    "cpu_clk_unhalted.thread": "cycles",
    "ls_not_halted_cyc": "cycles",
    "inst_retired.any": "instructions",
    "topdown.slots": "slots",
}
"""Names that perf and its metrics have for the same event, in lower case."""
_FILES = ("intel.toml", "amd.toml")
_CPU_EVENT = re.compile(r"cpu(?:_core)?/([^,/=]+)/")


@dataclass(frozen=True)
class Category:
    """A part of the slots. formulas: alternatives in percent; the first whose events were measured applies.

    parent: the category that it is a part of, empty at level 1. above: the threshold in percent. hint: what to do if
    the share is above it. optional: level 1 may lack it. alone: whether the threshold applies whatever the share of the
    parent. marks_parent: whether the parent is above its threshold if this one is.
    """

    name: str
    formulas: tuple[Formula, ...]
    above: float
    hint: str
    parent: str = ""
    optional: bool = False
    alone: bool = False
    marks_parent: bool = False

    @property
    def level(self) -> int:
        """1, or 2 for a part of a category."""
        return 2 if self.parent else 1


@dataclass(frozen=True)
class Model:
    """The formulas of a kind of CPU. verified: with which counts. record: groups of events by level. terms: formulas
    that those of categories name."""

    key: str
    title: str
    cpus: str
    verified: str
    record: Mapping[int, tuple[str, ...]]
    terms: Mapping[str, tuple[Formula, ...]]
    categories: tuple[Category, ...]

    @property
    def own_events(self) -> frozenset[str]:
        """The events of level 1 that are counted for nothing else."""
        names = (name for group in self.record[1] for name in re.split("[{},]", group))
        return frozenset(names) - {"", "cycles", "slots"}


@dataclass(frozen=True)
class ResolvedModel:
    """A model with the categories whose events were measured, in order."""

    model: Model
    categories: tuple[tuple[Category, ResolvedFormula], ...]

    @property
    def levels(self) -> int:
        """The deepest level that was measured: 1 or 2."""
        return max(category.level for category, _ in self.categories)

    def lacks(self, category: str) -> bool:
        """Whether the model divides a category, but the events for that were not measured."""
        parts = {each.name for each in self.model.categories if each.parent == category}
        return bool(parts) and parts.isdisjoint(each.name for each, _ in self.categories)


@cache
def load_models() -> tuple[Model, ...]:
    """All models, in the order of the files."""
    folder = resources.files(__package__)
    texts = (folder.joinpath(name).read_text(encoding="utf-8") for name in _FILES)
    return tuple(_model(data) for text in texts for data in tomllib.loads(text)["model"])


def _model(data: Mapping[str, Any]) -> Model:
    return Model(
        data["key"],
        data["title"],
        data["cpus"],
        data["verified"],
        {int(level): tuple(groups) for level, groups in data["record"].items()},
        {term["name"]: _formulas(term) for term in data["term"]},
        tuple(
            Category(
                each["name"],
                _formulas(each),
                float(each["above"]),
                each["hint"],
                each.get("parent", ""),
                each.get("optional", False),
                each.get("alone", False),
                each.get("marks_parent", False),
            )
            for each in data["category"]
        ),
    )


def _formulas(data: Mapping[str, Any]) -> tuple[Formula, ...]:
    return tuple(Formula(data["name"], text, "%") for text in data["formula"])


def resolve_models(profile: Profile) -> tuple[ResolvedModel, ...]:
    """The models of which level 1 was measured; those with the most categories first."""

    def build() -> tuple[ResolvedModel, ...]:
        events = _find_events(event_names(profile))
        found = [resolved for model in load_models() if (resolved := _resolve(profile, model, events)) is not None]
        return tuple(sorted(found, key=lambda each: -len(each.categories)))

    return memoize(profile, "top-down models", build)


def chosen_model(profile: Profile, title: str) -> ResolvedModel | None:
    """The model with this title, as in the column `model`."""
    return next((each for each in resolve_models(profile) if each.model.title == title), None)


def has_topdown(profile: Profile) -> bool:
    """Whether level 1 of a model was measured."""
    return bool(resolve_models(profile))


def _find_events(names: Sequence[str]) -> Mapping[str, int]:
    """Rows of `events` by canonical name. A name as in the models precedes its synonyms."""
    found: dict[str, int] = {}
    for exact in (True, False):
        for row, name in enumerate(names):
            plain = _canonical(name)
            if exact or plain in _SYNONYMS:
                found.setdefault(plain if exact else _SYNONYMS[plain], row)
    return found


def _canonical(name: str) -> str:
    """Lower case, without modifiers, with decimal numbers; `cpu/NAME/` is NAME."""
    plain = strip_modifiers(name).lower()
    if inner := _CPU_EVENT.fullmatch(plain):
        plain = inner[1]
    return re.sub(r"=0x([0-9a-f]{1,16})\b", lambda match: f"={int(match[1], 16)}", plain)


def _resolve(profile: Profile, model: Model, events: Mapping[str, int]) -> ResolvedModel | None:
    """The model with what was measured; None if a category of level 1 lacks that is not optional."""
    if model.own_events.isdisjoint(events):
        # Most profiles have none: without parsing the formulas.
        return None
    choices = {**model.terms, **{each.name: each.formulas for each in model.categories}}
    chosen: dict[str, Formula] = {}
    # Categories may name others that follow.
    for _ in choices:
        for name, formulas in choices.items():
            for formula in formulas:
                if name not in chosen and all(n in chosen or _canonical(n) in events for n in formula.names):
                    chosen[name] = formula
    if any(each.level == 1 and each.name not in chosen and not each.optional for each in model.categories):
        return None
    resolved = []
    for category in model.categories:
        if category.name in chosen and (not category.parent or category.parent in chosen):
            steps = expand(chosen[category.name], chosen)
            # Formulas of several models may differ only in the terms that they name.
            formula = replace(chosen[category.name], name=f"{model.key} {category.name}")
            rows = {step.text: events[_canonical(step.text)] for step in steps if isinstance(step, Name)}
            resolved.append(
                (category, ResolvedFormula(formula, steps, rows, note_events(profile, frozenset(rows.values()))))
            )
    return ResolvedModel(model, tuple(resolved))
