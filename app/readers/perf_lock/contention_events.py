"""The single waits for locks, which perf's tables summarize: each from `contention_begin` to `contention_end`.

As in perf (builtin-lock.c), a wait for a lock that first spins and then sleeps starts at the first begin.
"""

import re

import numpy as np

from ...domain.builder import ProfileBuilder
from ...domain.errors import UnreadableInput
from ...domain.profile import Meta, Profile
from ...domain.tables import FrameKind
from ...ingest.facts import FIRST_SAMPLE_FACT
from ...ingest.losses import MAX_EXAMPLE_CHARS
from ...ingest.perf_text.callchains import Callchains, TextComments
from ...ingest.perf_text.sched_events import PERF_PREFIX, PERF_STACK, decode_name, parse_times, remove_matches
from .contention_tables import CONTENDED, WAIT
from .format import FORMAT, NO_BEGIN, NO_END, NO_EVENT

_EVENT = re.compile(
    PERF_PREFIX
    + rb"lock:contention_(?P<what>begin|end): ++0x(?P<lock>[0-9a-f]{1,16})(?: \((?:flags|ret)=(?P<told>[^)\n]*)\))?"
    + rb"[^\n]*+(?P<chain>"
    + PERF_STACK
    + rb")$",
    re.MULTILINE,
)
LOCK_TYPES = {
    "0x0": "semaphore",
    "SPIN": "spinlock",
    "SPIN|READ": "rwlock:R",
    "SPIN|WRITE": "rwlock:W",
    "READ": "rwsem:R",
    "WRITE": "rwsem:W",
    "RT": "rt-mutex",
    "READ|RT": "rwlock-rt:R",
    "WRITE|RT": "rwlock-rt:W",
    "READ|PERCPU": "pcpu-sem:R",
    "WRITE|PERCPU": "pcpu-sem:W",
    "MUTEX": "mutex",
    "SPIN|MUTEX": "mutex",
}
"""perf's names of lock types, by the flags that the kernel prints."""


class LockWaitParser:
    """Collects the waits in a text."""

    def __init__(self) -> None:
        self._builder = ProfileBuilder(FORMAT)
        self._remarks, self._chains = TextComments(self._builder.add_loss), Callchains(self._builder)
        self._open: dict[tuple[int, bytes], tuple[int, int, int, int]] = {}
        self._stacks: dict[tuple[bytes, bytes], int] = {}
        self._threads: dict[tuple[bytes, bytes], int] = {}
        self._called: dict[int, bytes] = {}
        self._names: list[tuple[int, int, bytes]] = []
        self._rows: list[tuple[int, int, int, int, int]] = []

    def feed(self, number: int, text: bytes) -> None:
        """Parse lines, the first of which has the number `number`."""
        parts = _EVENT.split(text)
        width = _EVENT.groups + 1
        if len(parts) > 1:
            of = {name: parts[place::width] for name, place in _EVENT.groupindex.items()}
            times = parse_times(of["seconds"], of["part"]).tolist()
            columns = (of[name] for name in ("task", "pid", "tid", "cpu", "what", "lock", "told", "chain"))
            for time_ns, task, pid, tid, cpu, what, lock, told, chain in zip(times, *columns, strict=True):
                key = int(tid), lock
                if what == b"begin":
                    thread = self._intern_thread(pid or b"", tid)
                    if self._called.get(thread) != task:
                        self._called[thread] = task
                        self._names.append((thread, time_ns, task))
                    self._open.setdefault(key, (time_ns, thread, int(cpu), self._intern_stack(chain, told or b"")))
                elif (begun := self._open.pop(key, None)) is None:
                    self._builder.add_loss(NO_BEGIN, f"lock 0x{decode_name(lock)} of thread {key[0]}")
                else:
                    self._rows.append((*begun, max(time_ns - begun[0], 0)))
            text = remove_matches(parts, width, of["chain"])
        for at, line in enumerate(text.split(b"\n"), number):
            if line.strip() and not self._remarks.feed(at, line):
                self._builder.add_loss(NO_EVENT, f"line {at}: {decode_name(line[:MAX_EXAMPLE_CHARS]).strip()}")

    def _intern_thread(self, pid: bytes, tid: bytes) -> int:
        thread = self._threads.get((pid, tid))
        if thread is None:
            thread = self._builder.intern_thread(pid=int(pid) if pid and len(pid) < 11 else None, tid=int(tid))
            self._threads[pid, tid] = thread
        return thread

    def _intern_stack(self, chain: bytes, told: bytes) -> int:
        """The waiter's stack, with the type of lock as innermost frame."""
        stack = self._stacks.get((chain, told))
        if stack is None:
            flags = decode_name(told)
            kind = self._builder.intern_function(LOCK_TYPES.get(flags, flags or "lock"))
            frames = self._chains.intern_frames(self._chains.parse(chain))
            stack = self._builder.intern_stack([*frames, self._builder.intern_frame(kind, kind=FrameKind.ANNOTATION)])
            self._stacks[chain, told] = stack
        return stack

    def finish(self, source: str, defect: str | None) -> Profile:
        """The profile of all waits. Raises UnreadableInput if no wait is complete."""
        builder, facts = self._builder, self._remarks.facts
        if self._open:
            number, lock = next(iter(self._open))
            builder.add_loss(NO_END, f"lock 0x{decode_name(lock)} of thread {number}", len(self._open))
        if not self._rows:
            raise UnreadableInput(f"{source} has no lock waits. Record with perf lock record -- PROGRAM.")
        time_ns, thread, cpu, stack, length = np.array(self._rows, np.int64).T
        zero = int(time_ns.min())
        for name, unit, weight in ((WAIT, "ns", length), (CONTENDED, "count", np.ones(len(length), np.int64))):
            rows = np.flatnonzero(weight)
            event = np.full(len(rows), builder.intern_event(name, unit))
            builder.add_samples(time_ns[rows] - zero, thread[rows], cpu[rows], event, stack[rows], weight[rows])
        for of, at, task in self._names:
            builder.set_thread_name(of, max(at - zero, 0), decode_name(task).strip())
        builder.add_run(command=facts.get("cmdline"), host=facts.get("hostname"))
        reasons = (*((defect,) if defect else ()), *self._remarks.reasons)
        return builder.finish(
            Meta(
                FORMAT,
                main_event=WAIT,
                command=facts.get("cmdline"),
                complete=not reasons,
                reasons=reasons,
                facts=facts | {FIRST_SAMPLE_FACT: f"{zero} ns"},
            )
        )
