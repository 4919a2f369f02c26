"""Reader of the output of `perf script`.

The text is divided into chunks at empty lines, split into tokens in several threads, and combined in order. Memory
holds the current chunks, the columns of the samples, and each distinct line, stack and name once.
"""

import os
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

from ...domain.builder import IMPOSSIBLE_PERIOD, IMPOSSIBLE_WEIGHT
from ...domain.errors import UnreadableInput
from ...domain.losses import EVENT_WITHOUT_VALUE
from ...domain.profile import Profile
from ...ingest.losses import UNRECOGNIZED_LINE
from ...ingest.parse_quality import check_parse_quality
from ...ingest.perf_text.branch_stacks import BranchStackFilter, strip_branch_stacks
from ...ingest.perf_text.grammar import parse_frame, parse_header
from ...ingest.perf_text.losses import BRANCH_LOSSES, COMMENT_LOSSES, SCHED_IN_SAMPLES_LOSSES, SWITCH_RECORD_LOSSES
from ...ingest.perf_text.tokenizer import Tokens, tokenize
from .branches import BranchCollector
from .profile import NO_FRAME, UNKNOWN_FIELDS, ScriptProfileBuilder

if TYPE_CHECKING:
    from ...ingest.perf_text.sched_in_samples import SchedInSamples
    from ...ingest.perf_text.switch_records import SwitchRecords

FORMAT = "perf-script"
CHUNK_BYTES = 8 << 20
MAX_LINE_BYTES = 64 << 20
STACK_SEARCH_BYTES = 1 << 20
"""An empty line after a stack within this part of a text shows that samples end with an empty line."""
THREADS = 4
# The arguments of the recorded command may span lines, which then have no "#".
_HEADING = re.compile(rb"# =+\r?\n(.*?)^# =+\r?\n", re.DOTALL | re.MULTILINE)
_ENDED_STACK = re.compile(rb"^[ \t][^\n]*\n\n", re.MULTILINE)
TOO_LONG = "line of more than 64 MiB"
LOSSES = (
    *(UNRECOGNIZED_LINE, NO_FRAME, UNKNOWN_FIELDS, TOO_LONG, IMPOSSIBLE_PERIOD, IMPOSSIBLE_WEIGHT, EVENT_WITHOUT_VALUE),
    *COMMENT_LOSSES,
    *SCHED_IN_SAMPLES_LOSSES,
    *SWITCH_RECORD_LOSSES,
    *BRANCH_LOSSES,
)


@dataclass(frozen=True)
class Chunk:
    """Text that ends with a line end. cut: it may end within a sample.

    skipped: bytes of a line that is too long to be read. unfinished: its last line had no end.
    """

    data: bytes
    cut: bool
    skipped: int = 0
    unfinished: bool = False


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` looks like perf script's text."""
    lines = strip_branch_stacks(head).replace(b"\r\n", b"\n").split(b"\n")
    if len(head) > 2000:
        lines = lines[:-1] or lines
    if any(line.startswith(b"# captured on") for line in lines[:20]):
        return True
    samples = frames = 0
    for line in lines[:2000]:
        if line[:1] == b"\t" or (line[:1] == b" " and samples > 0):
            frames += parse_frame(line[:4000]) is not None
        if line[:1] not in (b"\t", b"#", b""):
            header = parse_header(line[:4000])
            samples += header is not None and header.certain
        if samples and (frames or samples > 2):
            return True
    return samples > 0


@check_parse_quality("what perf script prints", UNRECOGNIZED_LINE, NO_FRAME)
def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a perf script text. `source` names it in messages.

    A truncated stream has an attribute `defect` (see `compression`). Raises UnreadableInput if the text has no samples,
    and no perf header that explains this.
    """
    assembly = ScriptProfileBuilder(FORMAT)
    text = BranchStackFilter(stream, assembly.add_loss, MAX_LINE_BYTES)
    branches = BranchCollector(text)
    begun = text.read(CHUNK_BYTES)
    heading = _HEADING.match(begun)
    beside = _make_sched_collector(begun)
    headed, number = False, 1
    last = b""
    ends_stacks = _ENDED_STACK.search(begun[:STACK_SEARCH_BYTES].replace(b"\r\n", b"\n")) is not None
    if heading:
        assembly.feed_header(heading[1])
        begun = begun[heading.end() :]
        headed, number = b"# captured on" in heading[1], 1 + heading[0].count(b"\n")
    for chunk, tokens in _tokenize(_iterate_chunks(text, begun)):
        if chunk.skipped:
            assembly.add_loss(TOO_LONG, f"line {number}: {chunk.skipped:,} bytes")
            number += 1
            continue
        assembly.feed(chunk.data, tokens, number, chunk.cut)
        branches.feed(assembly.columns)
        if beside is not None:
            beside.feed(chunk.data)
        headed = headed or b"# captured on" in chunk.data[:4096]
        number += len(tokens.starts) - 1
        last = chunk.data[chunk.data.rfind(b"\n", 0, -1) + 1 :]
        if chunk.unfinished:
            assembly.add_truncated_line(last[:-1], number - 1)
            last = b""
    if ends_stacks and last:
        assembly.add_truncated_sample(last, number - 1)
    assembly.close()
    branches.feed(assembly.columns)
    branches.add_to(assembly.builder)
    defect = text.defect
    if defect:
        assembly.reasons.append(defect)
    profile = branches.extend(assembly.finish(None if beside is None else beside.add_samples))
    if beside is not None:
        profile = beside.add_states(profile)
    if not profile.samples.num_rows and not headed:
        raise UnreadableInput(
            f"{source} has no samples. It should be the output of perf script. Record again, and check this output "
            "before importing it."
        )
    return profile


def _make_sched_collector(begun: bytes) -> "SchedInSamples | SwitchRecords | None":
    """The collector of switches for a text that begins with `begun`, if it has some among other events: of the
    kernel's records, which show when threads left and returned, else of the scheduler's events."""
    # Imported here, because few texts need it.
    if b"PERF_RECORD_SWITCH" in begun:
        from ...ingest.perf_text.switch_records import SwitchRecords

        return SwitchRecords()
    if b"sched:sched_switch" not in begun:
        return None
    from ...ingest.perf_text.sched_in_samples import SchedInSamples, text_has_switches

    return SchedInSamples() if text_has_switches(begun) else None


def _iterate_chunks(stream: BranchStackFilter, begun: bytes) -> Iterator[Chunk]:
    """The text from `begun` on in chunks."""
    rest = b""
    for data in chain([begun], iter(lambda: stream.read(CHUNK_BYTES), b"")):
        data = rest + data
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        end = data.rfind(b"\n\n") + 2
        cut = end < 2
        if cut:
            if b"\n\t" in data and len(data) < MAX_LINE_BYTES:
                rest = data
                continue
            end = data.rfind(b"\n") + 1
        if end == 0:
            if len(data) < MAX_LINE_BYTES:
                rest = data
                continue
            rest, skipped = _skip_line(stream, len(data))
            yield Chunk(b"", cut=True, skipped=skipped)
            continue
        yield Chunk(data[:end], cut)
        rest = data[end:]
    if rest:
        unfinished = not rest.endswith(b"\n")
        yield Chunk(rest + b"\n" * unfinished, cut=False, unfinished=unfinished)


def _skip_line(stream: BranchStackFilter, skipped: int) -> tuple[bytes, int]:
    """Read on to the end of a line. Returns the text after it, and the length of the line."""
    while True:
        data = stream.read(CHUNK_BYTES)
        end = data.find(b"\n") + 1
        if end or not data:
            return data[end:], skipped + (end or len(data))
        skipped += len(data)


def _tokenize(chunks: Iterator[Chunk]) -> Iterator[tuple[Chunk, Tokens]]:
    """The chunks in order with their tokens, a few of them tokenized ahead."""
    workers = min(THREADS, len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(workers, "perf-script") as pool:
        ahead: deque[tuple[Chunk, Future[Tokens]]] = deque()
        for chunk in chunks:
            ahead.append((chunk, pool.submit(tokenize, chunk.data)))
            if len(ahead) > workers:
                done, tokens = ahead.popleft()
                yield done, tokens.result()
        for done, tokens in ahead:
            yield done, tokens.result()
