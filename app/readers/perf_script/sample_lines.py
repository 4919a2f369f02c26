"""The lines of a sample that are read one by one."""

from dataclasses import dataclass, field

from ...ingest.perf_text.grammar import SampleHeader, ScriptFrame


@dataclass(frozen=True)
class StackLine:
    """A line of a stack that is not simply one frame. place: it is no frame, but the source line of the frame above it.
    chain: functions inlined into each other, outermost first."""

    frame: ScriptFrame
    chain: tuple[str, ...] = ()
    place: int | None = None


@dataclass
class UnfinishedSample:
    """A sample being read line by line. dropped: it does not count, but the lines of its stack belong to it."""

    header: SampleHeader
    number: int
    line: bytes
    lines: list[bytes] = field(default_factory=list)
    dropped: bool = False
