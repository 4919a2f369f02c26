"""Caveats next to a counted number: how far it was scaled up, and how far repeated runs differed."""


def format_caveat(running_percent: float | None, deviation_percent: float | None = None, missing: int = 0) -> str:
    """A short text; empty without a caveat.

    running_percent: share of the time in which there was a counter. deviation_percent: of the mean of repeated runs.
    missing: how many intervals or CPUs have no value, where others have.
    """
    words = [] if deviation_percent is None else [f"± {deviation_percent:.2g} %"]
    # perf prints two decimals.
    if running_percent is not None and running_percent < 99.995:
        words.append(f"scaled ×{100 / running_percent:.3g}" if running_percent > 0 else "not counted")
    if missing:
        words.append(f"{missing:,} not counted")
    return ", ".join(words)
