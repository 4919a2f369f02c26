"""A large synthetic profile: the shape of a real one, from a seed."""

import numpy as np

from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.profile import Profile
from perfloom.domain.tables import FrameKind

PHASE = 500
COMMS = ("server", "worker", "io", "compactor", "logger", "gc", "flusher", "main")


def profile(
    *,
    samples: int = 1_000_000,
    stacks: int = 100_000,
    threads: int = 64,
    functions: int = 20_000,
    events: int = 3,
    depth: int = 40,
    seed: int = 1,
    run: int = 0,
) -> Profile:
    """Call stacks grown at random from one tree with hot paths, in phases of time like those of a program.

    run: above 0, other samples of the same stacks, as of another run of the program."""
    random = np.random.default_rng(seed)
    builder = ProfileBuilder("synthetic")
    modules = [f"/usr/lib/libpart{n}.so" for n in range(40)]
    kinds = [FrameKind.USER] * 8 + [FrameKind.KERNEL, FrameKind.INLINED]
    frames = []
    for n in range(functions):
        module = modules[n % len(modules)]
        function = builder.intern_function(
            f"part{n % 40}::component{n % 700}::operation_{n}(unsigned long, char const*)", module
        )
        frames.append(builder.intern_frame(function, kind=kinds[n % len(kinds)], address=n * 64))
    nodes: list[int] = []
    popularity: list[float] = []
    # With every frame of a path, the popularity of its subtree: hot callers have hot callees.
    paths: list[list[tuple[int, float]]] = [[(frames[0], 0.0)]]
    seen: set[int] = set()
    # Half of the frames are drawn from few functions, as in a hot loop; a tenth repeats its caller's caller.
    while len(nodes) < stacks:
        base = paths[int(random.integers(len(paths)))]
        path = base[: int(random.integers(len(base) // 2, len(base) + 1)) or 1]
        for _ in range(int(random.integers(1, 8))):
            if len(path) >= depth:
                break
            draw = random.random()
            if draw < 0.1 and len(path) > 2:
                frame = path[-2][0]
            else:
                frame = frames[int(random.integers(200 if draw < 0.55 else functions))]
            path = [*path, (frame, path[-1][1] + float(random.normal(0, 0.9)))]
        node = builder.intern_stack([frame for frame, _ in path])
        if node not in seen:
            seen.add(node)
            nodes.append(node)
            popularity.append(path[-1][1])
            paths.append(path)
    kinds_of_event = (
        ("cycles", "count"),
        ("cpu-clock", "ns"),
        ("faults", "count"),
        ("cpu/event=0x3c,umask=0x1/u", "count"),
    )
    numbers = [builder.intern_event(name, unit) for name, unit in kinds_of_event[:events]]
    for n in range(threads):
        named = builder.intern_thread(pid=1000 + n // 8, tid=1000 + n)
        builder.set_thread_name(named, 0, COMMS[n % len(COMMS)])
    # The popularity of stacks differs by orders of magnitude. Half of the samples follow it; the other half come in
    # phases, in which a thread stays in one part of the program.
    if run:
        random = np.random.default_rng((seed, run))
    order = np.argsort(nodes)
    known = np.array(nodes, np.int64)[order]
    share = np.cumsum(np.exp(np.array(popularity)[order]))
    place = np.searchsorted(share, random.random(samples) * share[-1])
    thread = random.integers(0, threads, samples)
    order = np.argsort(thread, kind="stable")
    centre = np.repeat(place[: samples // PHASE + 1], PHASE)[:samples]
    phased = np.clip(centre + random.integers(-200, 200, samples), 0, stacks - 1)
    place[order] = np.where(np.arange(samples) // PHASE % 2 == 0, phased, place[order])
    builder.add_samples(
        time_ns=np.sort(random.integers(0, 60_000_000_000, samples)),
        thread=thread,
        cpu=random.integers(0, 32, samples),
        event=np.array(numbers)[random.integers(0, len(numbers), samples)],
        stack=known[place],
        weight=random.integers(900_000, 1_100_000, samples),
    )
    return builder.finish()
