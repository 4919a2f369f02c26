"""The name of a process without a recorded main thread."""

from __future__ import annotations

import pytest

from perfloom.analysis.core.flame_groups import FlameGroup, groups_of
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.profile import Profile
from perfloom.domain.programs import get_program_name


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("/home/me/imb", "imb"),
        ("/opt/a program with a long name", "a program with "),
        ("/opt/deleted (deleted)", "deleted"),
        ("/usr/bin/python3.11", "python3.11"),
        *((path, "") for path in ("", "[kernel.kallsyms]", "[vdso]", "//anon", "app", "/tmp/perf-12.map")),
        *((path, "") for path in ("/usr/lib/libc.so.6", "/lib/ld-linux-x86-64.so.2", "/lib/libm-2.31.so")),
        *((path, "") for path in ("/lib/modules/6.1/kernel/fs/ext4/ext4.ko", "/usr/share/java/a.jar")),
    ],
)
def test_program_name_of_a_file(module: str, name: str) -> None:
    assert get_program_name(module) == name


def workers(*names: str, stack: tuple[tuple[str, str], ...], main: str = "") -> Profile:
    """A process 100 with threads of these names, all with one stack."""
    builder = ProfileBuilder("test")
    event = builder.intern_event("cpu-clock", "ns")
    node = builder.intern_stack([builder.intern_frame(builder.intern_function(*place)) for place in stack])
    for number, name in enumerate((*((main,) if main else ()), *names), 100 if main else 101):
        thread = builder.intern_thread(pid=100, tid=number)
        builder.set_thread_name(thread, 0, name)
        builder.add_sample(number, thread, event, node, 5)
    return builder.finish()


IMB = (("start_thread", "/usr/lib/libc.so.6"), ("work", "/home/me/imb"), ("sin", "/usr/lib/libm.so.6"))


def test_renamed_threads_belong_to_one_process() -> None:
    """pthread_setname_np on every thread, and a main thread that waits: it has no sample."""
    profile = workers("worker-0", "worker-1", "worker-2", stack=IMB)
    assert set(profile.threads["process"].to_pylist()) == {"imb"}
    assert profile.threads["name"].to_pylist() == ["worker-0", "worker-1", "worker-2"]
    assert groups_of(profile, FlameGroup.PROCESS).labels == ("imb 100",)


def test_main_thread_name_is_preferred() -> None:
    assert set(workers("worker-0", stack=IMB, main="server").threads["process"].to_pylist()) == {"server"}


def test_process_without_program_has_the_common_thread_name() -> None:
    stack = (("f", "/usr/lib/libc.so.6"),)
    assert workers("java", "java", stack=stack).threads["process"].to_pylist() == ["java", "java"]
    several = workers("worker-0", "worker-1", stack=stack)
    assert several.threads["process"].to_pylist() == [None, None]
    assert groups_of(several, FlameGroup.PROCESS).labels == ("process 100",)
