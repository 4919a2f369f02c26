"""The content of a profile of a trace, in short."""

from perfloom.domain.profile import Profile
from perfloom.domain.tables import get_strings


def slices(profile: Profile) -> list[tuple[str, str, int, int, int]]:
    """(thread, name, start, duration, depth) of each, in ns."""
    names, threads = get_strings(profile.functions, "name"), get_strings(profile.threads, "name")
    return [
        (threads[row["thread"]], names[row["function"]], row["start_ns"], row["duration_ns"], row["depth"])
        for row in profile.slices.to_pylist()
    ]


def losses(profile: Profile) -> dict[str, tuple[int, str]]:
    """(count, first example) by reason."""
    return {row["reason"]: (row["count"], row["example"]) for row in profile.losses.to_pylist()}


def events_of(profile: Profile) -> dict[str, int]:
    """The weights of the samples of each event."""
    found = dict.fromkeys(get_strings(profile.events, "name"), 0)
    names = list(found)
    for row in profile.samples.to_pylist():
        found[names[row["event"]]] += row["weight"]
    return found
