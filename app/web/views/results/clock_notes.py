"""Notes on the clocks of ranks: how they were aligned, and how reliable times between ranks are."""

from dataclasses import dataclass

from ....analysis.distributed.collective_calls import MatchBasis
from ....analysis.distributed.critical_path import count_rank_changes
from ....analysis.distributed.skew import ClockSkew, ClockState, RankClock, skew_of
from ....domain.list_text import format_ranges, to_ranges
from ....domain.profile import Profile
from ....domain.units import NS_PER_MS, format_quantity
from .result_frame import ResultFrame

MAX_SHOWN_SHIFTS = 4
MAX_AGREEING_RESIDUAL_NS = NS_PER_MS
"""Clocks agree up to this residual skew: the ends of a collective on its ranks are rarely farther apart."""
SIMILAR_SHARE = 0.8
"""Drifts of at least this share of the greatest are reported, too."""


@dataclass(frozen=True)
class ClockNote:
    """text: of all ranks. bad: whether times between ranks can be wrong. url: of the table of ranks, "" for none."""

    text: str
    bad: bool
    url: str


def build_clock_note(frame: ResultFrame, profile: Profile, *, path: bool = False) -> ClockNote | None:
    """The note on the clocks of a result with several ranks; None without several. path: whether for the critical
    path."""
    skew = skew_of(profile)
    if skew is None or all(rank.state is ClockState.SAME_HOST for rank in skew.ranks):
        return None
    sentences = [
        _alignment(skew),
        _by(skew),
        _off(skew),
        _residual(skew),
        _unknown(skew),
        _drifting(skew),
    ]
    if path and skew.residual_ns and (changes := count_rank_changes(profile, frame.selection)):
        text = format_quantity(skew.residual_ns, "ns").text
        sentences.append(f"The path changes rank {changes:,} times; the time of each change is accurate to {text}.")
    return ClockNote(
        text=" ".join(sentence for sentence in sentences if sentence),
        bad=bool(skew.in_state(ClockState.OFF, ClockState.UNKNOWN)) or skew.groups > 1 or _is_uneven(skew),
        url=next((f"{tab.url}#clocks" for tab in frame.tabs if tab.key == "communication"), ""),
    )


def _amount(ns: int) -> str:
    sign = "−" if ns < 0 else "+"
    return sign + format_quantity(abs(ns), "ns").text


def _alignment(skew: ClockSkew) -> str:
    ranks = [
        rank
        for rank in skew.ranks
        if rank.state is ClockState.SHIFTED or (rank.state is ClockState.OFF and rank.shift_ns)
    ]
    if not ranks:
        if skew.residual_ns is None or skew.in_state(ClockState.OFF) or skew.groups > 1:
            return ""
        if _is_uneven(skew):
            return (
                "No single shift aligns the clocks of all ranks: a clock jumped or drifted during the recording, or "
                "ranks leave the same collective at different times."
            )
        return "The clocks of all ranks agree, according to the ends of their shared collectives."
    if len(ranks) <= MAX_SHOWN_SHIFTS:
        which = ", ".join(f"rank {rank.rank} by {_amount(rank.shift_ns or 0)}" for rank in ranks)
    else:
        shifts = [rank.shift_ns or 0 for rank in ranks]
        which = f"ranks {skew.in_state(ClockState.SHIFTED)} by {_amount(min(shifts))} to {_amount(max(shifts))}"
    return f"Times are aligned by the ends of shared collectives: {which}."


def _is_uneven(skew: ClockSkew) -> bool:
    return (skew.residual_ns or 0) > MAX_AGREEING_RESIDUAL_NS


def _by(skew: ClockSkew) -> str:
    shared = max((rank.basis for rank in skew.ranks if rank.clock is not None), default=MatchBasis.ALONE)
    if shared not in (MatchBasis.STEP, MatchBasis.ORDER):
        return ""
    where = " in each step" if shared is MatchBasis.STEP else ""
    matching = f"Collectives without a recorded sequence number were matched by their order{where}"
    return f"{matching}; if a recording lacks some of them, its clock may be off by the time between two of them."


def _off(skew: ClockSkew) -> str:
    off = [rank for rank in skew.ranks if rank.state is ClockState.OFF]
    if not off:
        return ""
    most = format_quantity(max(abs(rank.clock.ahead_ns) for rank in off if rank.clock is not None), "ns").text
    return (
        f"The clocks of ranks differ by up to {most} and are not aligned, so times between ranks have this error. "
        "Import the files of all ranks again."
    )


def _residual(skew: ClockSkew) -> str:
    if not skew.residual_ns:
        return ""
    text = format_quantity(skew.residual_ns, "ns").text
    return (
        f"Residual skew: 75 % of collectives end within {text} on all their ranks. Shorter times between ranks are "
        "not reliable."
    )


def _unknown(skew: ClockSkew) -> str:
    unknown = [rank for rank in skew.ranks if rank.state in (ClockState.UNKNOWN, ClockState.SAME_HOST)]
    if unknown and all(rank.basis is MatchBasis.UNDECIDED for rank in unknown):
        which = skew.in_state(ClockState.UNKNOWN, ClockState.SAME_HOST)
        return (
            f"Not aligned: rank{'s' * (len(unknown) > 1)} {which}. Their counts of the same collectives differ and no "
            "sequence numbers were recorded, so collectives cannot be matched. Record all ranks over the same steps, "
            "with a PyTorch that records Seq."
        )
    if len(unknown) == len(skew.ranks):
        return (
            "Ranks are not aligned: no collective was found on several of them. Their times are only as comparable as "
            "the clocks of their hosts."
        )
    if unknown:
        which = skew.in_state(ClockState.UNKNOWN, ClockState.SAME_HOST)
        return f"Not aligned: rank{'s' * (len(unknown) > 1)} {which}, which share no collective with others."
    if skew.groups > 1:
        return (
            f"The ranks form {skew.groups} groups without shared collectives, which are not aligned with each other: "
            + "; ".join(_ranks(skew, group) for group in sorted({_group(rank) for rank in skew.ranks}))
            + "."
        )
    return ""


def _group(rank_clock: RankClock) -> int:
    return -1 if rank_clock.clock is None else rank_clock.clock.group


def _ranks(skew: ClockSkew, group: int) -> str:
    return ClockSkew(tuple(rank for rank in skew.ranks if _group(rank) == group), None).in_state(*ClockState)


def _drifting(skew: ClockSkew) -> str:
    drifts = {
        one.rank: one.clock.drift_ppm for one in skew.ranks if one.clock is not None and one.clock.drift_ppm is not None
    }
    if not drifts:
        return ""
    most = max(drifts.values(), key=abs)
    which = [rank for rank, drift in drifts.items() if abs(drift) >= SIMILAR_SHARE * abs(most)]
    if len(which) == 1:
        sign = "−" if most < 0 else "+"
        drift = f"The clock of rank {which[0]} drifts by {sign}{abs(most):.3g} ppm relative to the others."
    else:
        # With two clocks, or equally many fast and slow ones, it is unknown which are right.
        ranks = " and ".join(map(str, which)) if len(which) == 2 else format_ranges(to_ranges(sorted(which)))
        drift = f"The clocks of ranks {ranks} drift apart by {abs(most):.3g} ppm."
    return f"{drift} A single shift for the whole recording cannot correct that; it is part of the residual skew."
