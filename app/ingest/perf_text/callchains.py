"""Comments and call stacks in the text of perf script, for readers of tracepoints."""

import re
from collections.abc import Callable, Sequence

from ...domain.builder import ProfileBuilder
from ...domain.rank_state import END_MISSING, INCOMPLETE, THROTTLED, THROTTLING
from .grammar import (
    ScriptFrame,
    classify_frame,
    decode_text,
    format_example,
    parse_frame,
    parse_record,
)
from .losses import LOST_IN_KERNEL

_NUMBER = re.compile("[0-9]{1,15}", re.ASCII)
MAX_FACTS, MAX_FACT_CHARS = 100, 1000


def parse_loss(name: str, value: str) -> tuple[str, str, int] | None:
    """(reason, example, count) of the loss that a comment represents; None for a comment that is a fact."""
    if name == INCOMPLETE and value:
        return END_MISSING, value, 1
    if name == THROTTLED and _NUMBER.fullmatch(value):
        return THROTTLING, "kernel clock tick without samples for its remaining time", max(1, int(value))
    return None


class TextComments:
    """The metadata of a text. facts: of the recording. reasons: why it is incomplete. lost: called with a reason, an
    example and a count."""

    def __init__(self, lost: Callable[[str, str, int], None]) -> None:
        self.facts: dict[str, str] = {}
        self.reasons: list[str] = []
        self._lost = lost

    def feed(self, number: int, line: bytes) -> bool:
        """Add a line with its number; False if it is no comment."""
        bare = line.strip()
        if bare.startswith(b"#"):
            name, _, value = (part.strip() for part in decode_text(bare.lstrip(b"# ")[:MAX_FACT_CHARS]).partition(":"))
            if loss := parse_loss(name, value):
                self.reasons += [value] if name == INCOMPLETE else []
                self._lost(*loss)
            elif value and len(self.facts) < MAX_FACTS:
                self.facts.setdefault(name, value)
            return True
        found = parse_record(bare)
        if found is not None and found[1]:
            self._lost(LOST_IN_KERNEL, format_example(bare, number), found[1])
        # Other records, such as forks, are not needed.
        return found is not None


class Callchains:
    """Call stacks of a text that repeats lines: each distinct line is parsed once."""

    def __init__(self, builder: ProfileBuilder) -> None:
        self._builder = builder
        self._lines: dict[bytes, ScriptFrame | None] = {}
        self._frames: dict[int, int] = {}

    def parse(self, raw: bytes) -> list[ScriptFrame]:
        """The frames in the lines of a call stack, innermost first."""
        known, frames = self._lines, []
        for line in raw.split(b"\n"):
            if line not in known:
                known[line] = parse_frame(line)
            if frame := known[line]:
                frames.append(frame)
        return frames

    def intern_frames(self, frames: Sequence[ScriptFrame]) -> list[int]:
        """Such frames as frames of the profile, outermost first."""
        # Frames are cached by line.
        known = self._frames
        return [known[id(frame)] if id(frame) in known else self._intern_frame(frame) for frame in reversed(frames)]

    def _intern_frame(self, frame: ScriptFrame) -> int:
        found = self._frames[id(frame)] = self._builder.intern_frame(
            self._builder.intern_function(frame.symbol, frame.module),
            kind=classify_frame(frame.symbol, frame.module),
            address=frame.address,
            symbol_offset=frame.offset,
        )
        return found
