"""ProfileBuilder: the finished profile is interned, in order of time, in preorder."""

import random

from perfloom.domain.builder import IMPOSSIBLE_WEIGHT, ProfileBuilder
from perfloom.domain.profile import Meta, Profile
from perfloom.domain.symbols.demangler import Demangler, format_symbol
from perfloom.domain.tables import SCHEMAS, FrameKind, get_column, get_strings


def stack_names(profile: Profile, node: int) -> list[str]:
    names = get_strings(profile.functions, "name")
    function, frame = get_column(profile.frames, "function"), get_column(profile.stacks, "frame")
    parent = get_column(profile.stacks, "parent")
    found = []
    while parent[node] >= 0:
        found.append(names[function[frame[node]]])
        node = parent[node]
    return found[::-1]


def call_names(profile: Profile, node: int) -> list[str]:
    names, parent = get_strings(profile.functions, "name"), get_column(profile.calls, "parent")
    found = []
    while parent[node] >= 0:
        found.append(names[get_column(profile.calls, "function")[node]])
        node = parent[node]
    return found[::-1]


def test_samples_are_in_order_of_time() -> None:
    random.seed(7)
    builder = ProfileBuilder("test")
    thread = builder.intern_thread(pid=1, tid=1)
    event = builder.intern_event("cycles", "count")
    frames = [builder.intern_frame(builder.intern_function(f"f{i % 5}"), address=i) for i in range(15)]
    given = []
    for _ in range(300):
        chosen = [random.randrange(15) for _ in range(random.randrange(8))]
        at = random.randrange(10**12)
        builder.add_sample(at, thread, event, builder.intern_stack(frames[i] for i in chosen), at % 97, cpu=3)
        given.append((at, [f"f{i % 5}" for i in chosen], at % 97))
    profile = builder.finish()
    given.sort(key=lambda row: row[0])
    zero = given[0][0]
    stacks = get_column(profile.samples, "stack")
    assert get_column(profile.samples, "time_ns").tolist() == [at - zero for at, _, _ in given]
    assert get_column(profile.samples, "weight").tolist() == [weight for _, _, weight in given]
    assert [stack_names(profile, node) for node in stacks] == [names for _, names, _ in given]
    calls = get_column(profile.stacks, "call")[stacks]
    assert [call_names(profile, node) for node in calls] == [names for _, names, _ in given]
    assert profile.meta.duration_ns == given[-1][0] - zero
    for table, schema in SCHEMAS.items():
        assert profile.tables()[table].schema.equals(schema)


def test_calls_merge_locations_of_one_function_and_kind() -> None:
    builder = ProfileBuilder("test")
    function = builder.intern_function("work", "/bin/x")
    a, b = builder.intern_frame(function, address=1), builder.intern_frame(function, address=2)
    c = builder.intern_frame(function, address=2, kind=FrameKind.INLINED)
    thread, event = builder.intern_thread(tid=1), builder.intern_event("e", "count")
    for frame in (a, b, c):
        builder.add_sample(0, thread, event, builder.intern_stack([frame]), 1)
    profile = builder.finish()
    assert (profile.stacks.num_rows, profile.calls.num_rows) == (4, 3)


def test_sample_without_stack_is_at_the_root() -> None:
    builder = ProfileBuilder("test")
    builder.add_sample(5, builder.intern_thread(tid=1), builder.intern_event("e", "count"), builder.intern_stack([]), 2)
    profile = builder.finish()
    assert get_column(profile.samples, "stack").tolist() == [0]
    assert profile.stacks.num_rows == profile.calls.num_rows == 1


def test_names_of_threads_and_processes() -> None:
    builder = ProfileBuilder("test")
    main, worker = builder.intern_thread(pid=1, tid=1), builder.intern_thread(pid=1, tid=2)
    builder.set_thread_name(main, 100, "perf")
    builder.set_thread_name(main, 200, "python3")
    builder.set_thread_name(worker, 300, "pool")
    builder.add_sample(100, main, builder.intern_event("e", "count"), 0, 1)
    profile = builder.finish()
    assert get_strings(profile.threads, "name") == ["python3", "pool"]
    assert get_strings(profile.threads, "process") == ["python3", "python3"]
    assert profile.thread_names.to_pylist() == [
        {"thread": 0, "from_ns": 0, "name": "perf"},
        {"thread": 0, "from_ns": 100, "name": "python3"},
        {"thread": 1, "from_ns": 200, "name": "pool"},
    ]


def test_losses_keep_count_and_first_example() -> None:
    builder = ProfileBuilder("test")
    builder.add_loss("no number", "line 3: x")
    builder.add_loss("no number", "line 9: y", 4)
    assert builder.finish().losses.to_pylist() == [{"reason": "no number", "count": 5, "example": "line 3: x"}]


def test_empty_profile_is_complete() -> None:
    profile = ProfileBuilder("test").finish(Meta("ignored", complete=False, reasons=("cut",)))
    assert profile.meta.format == "test" and profile.meta.main_event is None
    assert profile.samples.num_rows == 0 and profile.stacks.num_rows == 1
    assert Meta.from_json(profile.meta.to_json()) == profile.meta


def test_unknown_symbols_show_their_module() -> None:
    demangler = Demangler()
    assert format_symbol("[unknown]", "/usr/lib/libc.so.6", demangler) == "[libc.so.6]"
    assert format_symbol("[unknown]", "[unknown]", demangler) == format_symbol("", "", demangler) == "[unknown]"
    assert format_symbol("[unknown]", "[kernel.kallsyms]", demangler) == "[kernel.kallsyms]"
    assert format_symbol("main", "/bin/x", demangler) == "main"


def test_weights_that_overflow_are_lost_greatest_first() -> None:
    builder = ProfileBuilder("test")
    thread, event = builder.intern_thread(tid=1), builder.intern_event("e", "count")
    for at, weight in enumerate((1 << 62, 5, -(1 << 62), 1 << 40, 1 << 62)):
        builder.add_sample(at, thread, event, 0, weight)
    profile = builder.finish()
    assert get_column(profile.samples, "weight").tolist() == [5, 1 << 40]
    assert profile.losses.to_pylist() == [
        {"reason": IMPOSSIBLE_WEIGHT, "count": 3, "example": f"a sample of e that weighs {1 << 62}"}
    ]
    assert profile.meta.duration_ns == 2
