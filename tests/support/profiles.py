"""Profiles for tests: by hand from a few lines, or at random by hypothesis."""

from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st

from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.profile import Meta, Profile
from perfloom.domain.tables import FrameKind

Place = str | tuple[str, str] | tuple[str, str, FrameKind]


def profile_of(
    samples: Iterable[tuple[Any, ...]],
    *,
    events: Sequence[tuple[str, str]] = (("cycles", "count"),),
    format: str = "test",
) -> Profile:
    """A profile of samples (stack, weight[, thread number[, time_ns[, event number]]]).

    stack: frames from the outermost, as "a;b;c" or a list of names, (name, module) or (name, module, kind). Thread n
    has pid 100, tid 100 + n and the name "thread n". Times count up from 0 where none is given.
    """
    builder = ProfileBuilder(format)
    numbers = [builder.intern_event(name, unit) for name, unit in events]
    for at, sample in enumerate(samples):
        stack, weight, thread, time_ns, event = (*sample, *(None, None, 0, at, 0)[len(sample) :])
        number = builder.intern_thread(pid=100, tid=100 + thread)
        builder.set_thread_name(number, 0, f"thread {thread}")
        builder.add_sample(time_ns, number, numbers[event], stacked(builder, stack), weight)
    return builder.finish()


def stacked(builder: ProfileBuilder, stack: str | Sequence[Place]) -> int:
    """The id of a stack written as in `profile_of`."""
    places = [name for name in stack.split(";") if name] if isinstance(stack, str) else stack
    frames = []
    for place in places:
        name, module, kind = (place, "app", FrameKind.USER) if isinstance(place, str) else (*place, FrameKind.USER)[:3]
        frames.append(builder.intern_frame(builder.intern_function(name, module), kind=kind))
    return builder.intern_stack(frames)


NAMES = ("a", "b", "c", "main", "[unknown]", "", "operator+", "<script>")
MODULES = ("app", "/usr/lib/libc.so.6", "")
COMMS = ("make", "cc1", "ld")
KINDS = (FrameKind.USER, FrameKind.USER, FrameKind.KERNEL, FrameKind.INLINED)


@st.composite
def profiles(draw: st.DrawFn, max_samples: int = 30, max_weight: int = 1 << 56) -> Profile:
    """Small profiles with everything that can differ: ranks, renamed threads, recursion, several events, no stack."""
    builder = ProfileBuilder("test")
    events = [builder.intern_event(f"event{n}", "count") for n in range(draw(st.integers(1, 3)))]
    threads = []
    for n in range(draw(st.integers(1, 4))):
        rank = draw(st.none() | st.integers(0, 3))
        pid = draw(st.sampled_from((None, 1, 2)))
        host = draw(st.sampled_from((None, "one", "two")))
        thread = builder.intern_thread(pid=pid, tid=n, rank=rank, host=host)
        threads.append(thread)
        for since in draw(st.lists(st.integers(0, 50), max_size=3)):
            builder.set_thread_name(thread, since, draw(st.sampled_from(COMMS)))
    functions = []
    for _ in range(draw(st.integers(1, 6))):
        functions.append(
            builder.intern_function(
                draw(st.sampled_from(NAMES)),
                draw(st.sampled_from(MODULES)),
                draw(st.sampled_from((None, "main.c"))),
            )
        )
    frames = [
        builder.intern_frame(f, kind=draw(st.sampled_from(KINDS)), address=a) for a, f in enumerate(functions * 2)
    ]
    stacks = st.lists(st.sampled_from(frames), max_size=7)
    known = draw(st.lists(stacks, min_size=1, max_size=8))
    for _ in range(draw(st.integers(0, max_samples))):
        builder.add_sample(
            draw(st.integers(0, 60)),
            draw(st.sampled_from(threads)),
            draw(st.sampled_from(events)),
            builder.intern_stack(draw(st.sampled_from(known))),
            draw(st.integers(0, 9) | st.integers(0, max_weight)),
        )
    return builder.finish(Meta("test", start_epoch_ns=0))
