"""Pairs of groups of threads that are often compared: rank 0 and the rest, the slowest and the fastest."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ....analysis.core.flame_groups import FlameGroup, groups_of, rank_label
from ....analysis.core.sample_selection import ranks_of, threads_of
from ....analysis.counts.participants import Changes, select_participants
from ....analysis.counts.thread_tree import sum_thread_values
from ....domain.list_text import format_ranges, to_ranges
from ....domain.profile import Profile
from ....domain.selection import Selection
from ...pages import with_query
from .result_frame import ResultFrame

Totals = Mapping[str, int | float]


@dataclass(frozen=True)
class ThreadGroup:
    """Threads that can be selected. name: of the saved selection; url: this page with them selected; current: whether
    they are."""

    label: str
    name: str
    url: str
    current: bool
    selection: Selection


@dataclass(frozen=True)
class GroupPair:
    """Two groups that are compared. key: in the form that saves both. compare: the page that compares the first, as the
    other, with the second, as the base."""

    key: str
    title: str
    groups: tuple[ThreadGroup, ThreadGroup]
    compare: str


def list_group_pairs(frame: ResultFrame, profile: Profile, totals_of_ranks: Totals | None) -> tuple[GroupPair, ...]:
    """The pairs of a result, in the selected time and functions, whatever threads are selected.

    totals_of_ranks: by label; None where totals are not known. Without several ranks, processes are compared, else
    threads.
    """
    ranks = ranks_of(profile).tolist()
    pairs: list[GroupPair] = []
    if len(ranks) > 1:
        first, rest = ranks[0], to_ranges(ranks[1:])
        title = f"{rank_label(first).capitalize()} against the rest"
        others = f"rank{'s' if len(ranks) > 2 else ''} {format_ranges(rest)}"
        one = _group(frame, rank_label(first), "", {"ranks": ((first, first),)})
        groups = one, _group(frame, others, "", {"ranks": tuple(rest)})
        pairs.append(GroupPair("first", title, groups, _compare_url(frame, *groups, ("scale", "shares"))))
    if totals_of_ranks is None:
        return tuple(pairs)
    by, totals = ("rank", totals_of_ranks) if len(ranks) > 1 else _find_totals(frame, profile)
    extremes = _find_extremes(totals)
    changes = select_participants(profile, by, extremes)
    if len(extremes) == 2 and all(label in changes for label in extremes):
        slow, fast = (
            _group(frame, label, f"{word}: ", changes[label])
            for word, label in zip(("slowest", "fastest"), extremes, strict=True)
        )
        pairs.append(
            GroupPair("extremes", f"Slowest {by} against fastest", (slow, fast), _compare_url(frame, slow, fast))
        )
    return tuple(pairs)


def _find_totals(frame: ResultFrame, profile: Profile) -> tuple[str, Totals]:
    """(process, or thread if one process has samples or counts; the totals by label)."""
    selection = frame.selection.replace(event=frame.lead_event or None).without_places()
    values, kind = sum_thread_values(profile, selection), threads_of(profile).kind
    real = np.array([word == "thread" for word in kind], bool)
    for group in (FlameGroup.PROCESS, FlameGroup.THREAD):
        groups, totals = groups_of(profile, group), dict[str, int | float]()
        for number, value in zip(groups.thread_groups[real].tolist(), values[real].tolist(), strict=True):
            label = groups.labels[number]
            totals[label] = totals.get(label, 0) + value
        # One without anything did not take part.
        totals = {label: value for label, value in totals.items() if value > 0}
        if len(totals) > 1:
            return group, totals
    return FlameGroup.THREAD, {}


def _find_extremes(totals: Totals) -> tuple[str, ...]:
    """The labels with the greatest and the least total; none if all are equal."""
    if not totals:
        return ()
    most, least = max(totals, key=lambda label: totals[label]), min(totals, key=lambda label: totals[label])
    return (most, least) if totals[most] != totals[least] else ()


def _compare_url(frame: ResultFrame, other: ThreadGroup, base: ThreadGroup, *more: tuple[str, str]) -> str:
    common = frame.selection.without_places().to_query()
    sides = [
        (f"{side}.{word}", value)
        for side, group in (("base", base), ("other", other))
        for word, value in group.selection.to_query()
        if (word, value) not in common
    ]
    return with_query("/compare/runs", [("base", frame.id), ("other", frame.id), *common, *sides, *more])


def _group(frame: ResultFrame, label: str, prefix: str, changes: Changes) -> ThreadGroup:
    selection = frame.selection.without_places().replace(**changes)
    url = frame.url(None, selection, *frame.page_params)
    return ThreadGroup(label, f"{prefix}{label}", url, selection == frame.selection, selection)
